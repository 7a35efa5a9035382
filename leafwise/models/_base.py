"""What every classifier derives from one number per document and node.

A model says how likely each document and node are together: the log joint. Prediction,
probabilities of nodes and of branches, the best few and the score are written here, once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from leafwise.labels import Classes, Occurrences, read_labels
from leafwise.taxonomy import Taxonomy

BLOCK_SCORES = 1 << 21  # documents × nodes at a time: 16 MiB, which malloc keeps for the next ones


class NodeClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of word counts into the nodes of a tree.

    Attributes
    ----------
    taxonomy_ : Taxonomy
        The tree: the one given, or a flat one made from the labels.
    classes_ : array
        What each column of `predict_proba` stands for: paths, or without a taxonomy the labels;
        sorted.
    nodes_ : array of int
        The node of each column.
    """

    # What a saved file holds besides the parameters; all else is derived from it.
    _learned: tuple[str, ...] = (
        "taxonomy_",
        "nodes_",
        "classes_",
        "_plain",
        "n_features_in_",
        "feature_names_in_",
    )
    taxonomy: Taxonomy | None
    nodes: Any
    taxonomy_: Taxonomy
    classes_: np.ndarray
    nodes_: np.ndarray

    @abstractmethod
    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return log P(document, node), documents × columns, up to a term per document."""

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable node of each document."""
        best = self._best(X)
        return self.classes_[best]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return log P(node | document); a column per node in `classes_`."""
        log_joint = self._log_joint(self._counts(X))
        return log_joint - logsumexp(log_joint, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return P(node | document): that the document belongs at this very node."""
        return np.exp(self.predict_log_proba(X))

    def predict_branch_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each node of `taxonomy_` with all that is below it.

        A parent's is at least the sum of its children's, and the root's is 1.
        """
        proba = self.predict_proba(X)
        at_node = np.zeros((len(proba), len(self.taxonomy_)))
        at_node[:, self.nodes_] = proba
        return np.minimum(self.taxonomy_.subtree_sum(at_node), 1.0)

    def top_k(self, X: Any, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
        """Return the k most probable nodes of each document and their probabilities, best first."""
        return top_of(self.predict_proba(X), self.classes_, k)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of documents put on one of their nodes; unlabelled ones do not count.

        A label that was not learned, or a node that is no class, counts as wrong.
        """
        best = self._best(X)
        classes = self._classes
        membership = classes.membership(read_labels(y, classes), unseen=True)
        check_consistent_length(best, range(membership.shape[0]))
        labelled = np.diff(membership.indptr) > 0
        if not labelled.any():
            raise ValueError("No document has a label, so there is nothing to score.")
        hits = np.asarray(membership[np.arange(len(best)), best]).ravel() > 0
        weight = labelled if sample_weight is None else labelled * np.asarray(sample_weight)
        return float(np.average(hits, weights=weight))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file that `leafwise.load` reads."""
        from leafwise.persistence import save

        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True  # on points in space: a model of counts
        return tags

    def _labels(self, y: Any, classes: Any, reset: bool) -> tuple[Occurrences, Classes]:
        """Read labels for fitting, and say what classes they are among.

        The classes are those of the tree; without one, those listed, or those found in `y`.
        """
        known = None if reset else self._classes
        if reset and self.taxonomy is not None:
            known = Classes.of_taxonomy(self.taxonomy, self.nodes)
        elif reset and classes is not None:
            known = Classes.of_labels(read_labels(classes))
        labels = read_labels(y, known)
        return labels, Classes.of_labels(labels) if known is None else known

    @property
    def _classes(self) -> Classes:
        return Classes(self.taxonomy_, self.nodes_, self.classes_, self._plain)

    def _set_classes(self, classes: Classes) -> None:
        self.taxonomy_, self.nodes_, self.classes_, self._plain = classes

    def _check_classes(self) -> None:
        """Refuse what no fit could have left, when a model comes from a file."""
        nodes = np.asarray(self.nodes_)
        if nodes.dtype.kind not in "iu" or nodes.ndim != 1 or len(nodes) != len(self.classes_):
            raise ValueError("nodes do not fit the classes")
        if not len(nodes) or nodes.min() < 0 or nodes.max() >= len(self.taxonomy_):
            raise ValueError("a node is not in the tree")
        if len(np.unique(nodes)) != len(nodes) or len(np.unique(self.classes_)) != len(nodes):
            raise ValueError("a class is there twice")

    def _best(self, X: Any) -> np.ndarray:
        best = [log_joint.argmax(axis=1) for _, log_joint in self._blocks(self._counts(X))]
        return np.concatenate(best) if best else np.empty(0, np.int64)

    def _blocks(self, X: sparse.csr_matrix) -> Iterator[tuple[slice, np.ndarray]]:
        """Score documents some at a time: the scores of all may be more than fit in memory."""
        step = max(1, BLOCK_SCORES // len(self.nodes_))
        for start in range(0, X.shape[0], step):
            rows = slice(start, min(start + step, X.shape[0]))
            yield rows, self._log_joint(X[rows])

    def _counts(self, X: Any, reset: bool = False) -> sparse.csr_matrix:
        """Check word counts, and have them sparse."""
        if not reset:
            check_is_fitted(self)
        if isinstance(X, list | tuple) and X and isinstance(X[0], str):
            raise ValueError(
                f"{type(self).__name__} takes word counts, got texts. WordCounter().fit_transform "
                "counts their words; TaxonomyClassifier takes texts as they are."
            )
        X = validate_data(self, X, accept_sparse="csr", reset=reset)
        check_non_negative(X, f"{type(self).__name__} (input X)")
        return X if sparse.issparse(X) else sparse.csr_matrix(X)


def top_of(proba: np.ndarray, classes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k most probable classes of each document and their probabilities, best first."""
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k={k!r}: expected a number of nodes of at least 1.")
    k = min(k, proba.shape[1])
    best = np.argpartition(-proba, k - 1, axis=1)[:, :k] if k < proba.shape[1] else None
    if best is None:
        best = np.argsort(-proba, axis=1, kind="stable")
    else:
        # Ties go to the earlier node, whatever order the partition left them in.
        best.sort(axis=1)
        order = np.argsort(-np.take_along_axis(proba, best, 1), axis=1, kind="stable")
        best = np.take_along_axis(best, order, 1)
    return classes[best], np.take_along_axis(proba, best, 1)


def descend(tree: Taxonomy, own: np.ndarray, branch: np.ndarray, least: float) -> np.ndarray:
    """Go down the tree with each document, as far as is sure; return the node it ends at.

    From each node on to the likeliest child, if its branch has at least the probability `least`
    and no less than the node itself.

    Parameters
    ----------
    own, branch : documents × nodes of the tree: of the node itself, and with all below it
    """
    at = np.zeros(len(own), np.int64)
    todo = np.arange(len(own))
    while len(todo):
        on = []
        for node in np.unique(at[todo]):
            children = tree.children(int(node))
            rows = todo[at[todo] == node]
            if not len(children):
                continue
            best = branch[np.ix_(rows, children)].argmax(axis=1)
            found = branch[rows, children[best]]
            goes = (found >= least) & (found >= own[rows, node]) & (found > 0)
            at[rows[goes]] = children[best[goes]]
            on.append(rows[goes])
        todo = np.concatenate(on) if on else np.empty(0, np.int64)
    return at
