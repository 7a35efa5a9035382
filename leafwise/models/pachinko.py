"""The pachinko machine: a classifier at each inner node sends a document down one of its ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import has_fit_parameter

from leafwise.models._base import NodeClassifier
from leafwise.models._counts import document_weights
from leafwise.models._sums import scale_rows
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.selection import best_words, check_n_words, gain_of_membership
from leafwise.taxonomy import Taxonomy

# In logarithms: enough to survive rounding, too little to matter.
_HAIR = 1e-9


class PachinkoMachine(NodeClassifier):
    """A classifier at each inner node of a tree (Koller and Sahami 1997; Z 2).

    At an inner node a document goes to one of the branches below, or stays, if there were
    training documents that stayed. Ways that no training document went have probability 0, and
    where all went the same way nothing is decided. On a tree one level deep this is the
    estimator itself.

    P(node | document) is the product of the decisions on the path to the node. A greedy machine
    predicts the node where the descent ends when each decision takes the most probable way, which
    need not be the node of largest product. Its probabilities are the same products, except that
    no node has more than the one predicted: what would have more is held just below it, before all
    are scaled to sum to 1.

    A document with several labels is learned at each decision for each way that its labels go, in
    proportion to their number; an estimator that takes no weights learns it as often, unweighted.
    Documents without a label are passed over.

    A document without any word has what the estimators make of it: of `NaiveBayes`, the shares of
    the training documents on each way, so that P(node) is the share of documents at the node. A
    word that no document at a decision had may still weigh there; in `NaiveBayes` it speaks for
    the way with fewer words.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree; None makes a flat one of the distinct labels.
    estimator : classifier or None
        What decides, a clone of it at each node; None for `NaiveBayes()`. Without `predict_proba`
        it serves a greedy machine only, whose probabilities are then 0 and 1. A machine is saved
        by `save` only with estimators of leafwise: a file of its kind holds no code.
    greedy : bool
        Whether to follow the best way at each node, or to take the node of largest probability.
    n_words : int or None
        How many words each decision looks at: those that tell most about it (T eq. 10), different
        ones at different nodes. None for all.
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted.

    Attributes
    ----------
    inner_nodes_ : array of int
        The nodes where there is a decision, parents first; the lists below follow their order.
    outcomes_ : list of arrays of int
        The nodes that each decision leads to; the inner node itself stands for staying there.
    words_ : list of arrays of int or None
        The columns that each decision looks at; None for all.
    estimators_ : list of classifiers or None
        What decides among the outcomes, as 0, 1, ...; None where there is only one.
    """

    _learned = (*NodeClassifier._learned, "inner_nodes_", "outcomes_", "words_", "estimators_")
    inner_nodes_: np.ndarray
    outcomes_: list[np.ndarray]
    words_: list[np.ndarray | None]
    estimators_: list[Any]

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        estimator: Any = None,
        greedy: bool = True,
        n_words: int | None = None,
        nodes: Any = "all",
    ):
        self.taxonomy = taxonomy
        self.estimator = estimator
        self.greedy = greedy
        self.n_words = n_words
        self.nodes = nodes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn every decision from word counts and labels."""
        if self.n_words is not None:
            check_n_words(self.n_words)
        estimator = NaiveBayes() if self.estimator is None else self.estimator
        if not self.greedy and not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{estimator!r} has no predict_proba, so paths have no probability. Use "
                "greedy=True, or wrap it in sklearn.calibration.CalibratedClassifierCV."
            )
        X = self._counts(X, reset=True)
        labels, classes = self._labels(y, None, reset=True)
        check_consistent_length(X, range(labels.n_documents))
        membership = classes.membership(labels)
        if sample_weight is not None:
            if not has_fit_parameter(estimator, "sample_weight"):
                raise ValueError(f"{estimator!r} takes no sample_weight; leave it out here too.")
            weight = document_weights(sample_weight, X.shape[0])
            membership = scale_rows(membership, weight)
        membership.eliminate_zeros()
        if not membership.nnz:
            raise ValueError("No document has a label and a weight, so there is nothing to learn.")
        self._set_classes(classes)
        inner: list[int] = []
        self.outcomes_, self.words_, self.estimators_ = [], [], []
        for i, outcomes, rows, ways in self._decisions(membership):
            words, fitted = _decision(estimator, X[rows], ways, self.n_words)
            inner.append(i)
            self.outcomes_.append(outcomes)
            self.words_.append(words)
            self.estimators_.append(fitted)
        self.inner_nodes_ = np.array(inner, np.int64)
        return self

    def _decisions(
        self, membership: sparse.csr_matrix
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray, sparse.csr_matrix]]:
        """Yield each inner node with documents below: node, outcomes, documents and their ways."""
        tree = self.taxonomy_
        labels = membership.tocoo()
        at_node = sparse.csc_matrix(
            (labels.data, (labels.row, self.nodes_[labels.col])), (labels.shape[0], len(tree))
        )
        # Outcomes in the order of the columns, so that neither ties nor sums depend on siblings.
        order = np.arange(len(tree)) if self._plain else np.argsort(np.array(tree.paths))
        rank = np.argsort(order)
        for i in np.flatnonzero(tree.end > np.arange(1, len(tree) + 1)).tolist():
            options = np.array([i, *tree.children(i)])
            branch = at_node[:, i : tree.end[i]].tocoo()
            # The children's branches are ranges of numbers, one after the other; i stands before.
            way = np.searchsorted(options, branch.col + i, side="right") - 1
            taken = np.unique(way)
            if not len(taken):
                continue
            taken = taken[np.argsort(rank[options[taken]])]
            column = np.empty(len(options), np.int64)
            column[taken] = np.arange(len(taken))
            shape = (branch.shape[0], len(taken))
            ways = sparse.csr_matrix((branch.data, (branch.row, column[way])), shape)
            rows = np.flatnonzero(np.diff(ways.indptr))
            yield i, options[taken], rows, ways[rows]

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return log P(node | document), the sum of the decisions on the path to the node."""
        documents = np.arange(X.shape[0])
        log_p = np.full((X.shape[0], len(self.taxonomy_)), -np.inf)
        log_p[:, 0] = 0.0
        end = np.zeros(X.shape[0], np.int64)
        for k, i in enumerate(self.inner_nodes_):
            log_q = self._log_outcomes(k, X)
            log_p_branch = log_p[:, i].copy()
            log_p[:, i] = -np.inf  # unless staying is among the outcomes
            log_p[:, self.outcomes_[k]] = log_p_branch[:, None] + log_q
            end = np.where(end == i, self.outcomes_[k][np.argmax(log_q, axis=1)], end)
        log_joint = log_p[:, self.nodes_]
        if self.greedy:
            chosen = self._columns(end)
            best = log_joint[documents, chosen]
            log_joint = np.minimum(log_joint, best[:, None] - _HAIR)
            log_joint[documents, chosen] = best
        return log_joint

    def _best(self, X: Any) -> np.ndarray:
        if not self.greedy:
            return super()._best(X)
        # The same descent, where a document meets only the decisions on its own path.
        X = self._counts(X)
        end = np.zeros(X.shape[0], np.int64)
        for k, i in enumerate(self.inner_nodes_):
            here = np.flatnonzero(end == i)
            if len(here):
                best = np.argmax(self._log_outcomes(k, X[here]), axis=1)
                end[here] = self.outcomes_[k][best]
        return self._columns(end)

    def _log_outcomes(self, k: int, X: sparse.csr_matrix) -> np.ndarray:
        """Return the log probability of each outcome of a decision, for documents that meet it."""
        estimator, words = self.estimators_[k], self.words_[k]
        if estimator is None:
            return np.zeros((X.shape[0], 1))
        if words is not None:
            X = X[:, words]
        with np.errstate(divide="ignore"):
            if hasattr(estimator, "predict_log_proba"):
                return estimator.predict_log_proba(X)
            if hasattr(estimator, "predict_proba"):
                return np.log(estimator.predict_proba(X))
            return np.log(estimator.predict(X)[:, None] == np.arange(len(self.outcomes_[k])))

    def _columns(self, nodes: np.ndarray) -> np.ndarray:
        column = np.full(len(self.taxonomy_), -1)
        column[self.nodes_] = np.arange(len(self.nodes_))
        return column[nodes]

    def _restore(self) -> None:
        """Check what a file held: every decision leads to a child or a column of its own node."""
        self._check_classes()
        tree, inner = self.taxonomy_, self.inner_nodes_
        parts = (self.outcomes_, self.words_, self.estimators_)
        in_order = inner.dtype.kind == "i" and (np.diff(inner) > 0).all()
        if not in_order or any(len(part) != len(inner) for part in parts):
            raise ValueError("decisions do not fit the inner nodes")
        reached = {0}
        for i, outcomes, words, estimator in zip(inner.tolist(), *parts):
            ways = set(outcomes.tolist())
            if i not in reached or outcomes.dtype.kind != "i" or len(ways) != len(outcomes):
                raise ValueError("a decision is never met, or has an outcome twice")
            if not ways or not ways <= {i, *tree.children(i).tolist()}:
                raise ValueError("a decision leads elsewhere than to children")
            reached = (reached - {i}) | ways
            if (estimator is None) != (len(outcomes) == 1):
                raise ValueError("a decision has no classifier, or one too many")
            if words is not None and (
                words.dtype.kind != "i" or words.min() < 0 or words.max() >= self.n_features_in_
            ):
                raise ValueError("a decision looks at words that are not there")
            n_words = self.n_features_in_ if words is None else len(words)
            if estimator is not None and not (
                isinstance(estimator, NodeClassifier)
                and estimator.n_features_in_ == n_words
                and np.array_equal(estimator.classes_, np.arange(len(outcomes)))
            ):
                raise ValueError("a decision's classifier does not fit its outcomes and words")
        if not reached <= set(self.nodes_.tolist()):
            raise ValueError("a path ends at a node that cannot be predicted")


def _decision(
    estimator: Any, X: sparse.csr_matrix, ways: sparse.csr_matrix, n_words: int | None
) -> tuple[np.ndarray | None, Any]:
    """Learn which way documents go, from documents × ways; return the words and the classifier."""
    if ways.shape[1] == 1:
        return None, None
    words = None
    if n_words is not None and n_words < X.shape[1]:
        words = best_words(gain_of_membership(X, ways), n_words)
        X = X[:, words]
    pairs = ways.tocoo()
    weighted = (pairs.data != 1).any() and has_fit_parameter(estimator, "sample_weight")
    weight = {"sample_weight": pairs.data} if weighted else {}
    return words, clone(estimator).fit(X[pairs.row], pairs.col, **weight)
