"""Any number of classes per document: one score per document and class, one threshold per class.

The scores come from any classifier. A threshold comes from the scores that training documents get
from models which have not seen them: it is where these give the class the highest F1.
"""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from leafwise.evaluation import take_rows
from leafwise.exceptions import LabelError
from leafwise.indicators import as_bool, as_csr, check_same_length, is_matrix
from leafwise.labels import SEVERAL, Classes, Occurrences, read_labels
from leafwise.metrics import scores
from leafwise.models._base import NodeClassifier
from leafwise.models._thresholds import choose_thresholds, deal

# In the order in which "auto" looks for them.
_METHODS = (
    "likelihood_ratio",
    "class_scores",
    "decision_function",
    "predict_proba",
    "predict_log_proba",
)


class MultiLabelClassifier(MetaEstimatorMixin, BaseEstimator):
    """Assign every class whose score is above the threshold of that class (T 2.2, 3.2.1, eq. 15).

    `fit` fits the estimator to all documents, and `cv` times to all but a part of them, to score
    the part left out. The threshold of a class is the one under which these held-out scores give
    it the highest F1.

    Parameters
    ----------
    estimator : classifier
        A model of leafwise is given a list of labels for each document. Any other is given a 0/1
        array with one column per class (one dimension where there is only one), so it has to take
        several classes per document, as ``OneVsRestClassifier(LinearSVC())`` and
        ``KNeighborsClassifier()`` do. Of a Pipeline the last step decides.
    response_method : "auto", "likelihood_ratio", "class_scores", "decision_function",
        "predict_proba" or "predict_log_proba"
        The method of the estimator that gives the scores; "auto" is the first that it has.
    cv : int or "leave-one-out"
        The number of parts. Each gets its share of every class, as far as this can be had for all
        classes at once. "leave-one-out", for nearest neighbours, takes each document's scores by
        all others (T 3.2.4).
    min_documents : int
        A class with fewer training documents has no threshold of its own: what is best for so few
        may let thousands of other documents pass. All such classes share one threshold, under
        which the F1 of all their decisions together is highest (micro F1). A class without any
        document shares it too. Where nothing is known of these classes (one document each, say),
        all classes decide on it.
    baseline : {"classes", "pooled"}
        P(d) in the likelihood ratio. "pooled" draws the words of a document from all training
        documents together (T). "classes" draws them from one class, each with its share of the
        documents, or from all together, with the share of documents of no class: so a class has
        to explain a document well beside the others, too. Few words say little, for a class or
        against it, so under "classes" what speaks against one is scaled up, in documents shorter
        than the median, to what it would be at that length.
    length_power : float
        The log likelihoods in the ratio are divided by the number of words to this power. 0 takes
        them as they are (T), 1 makes them means per word. The default is how the spread of a sum
        grows with the number of its terms. `baseline` and this concern no other scores.
    at_least_one : bool
        Where no class passes its threshold, take the one that comes closest; where none has a
        score, the one that has most training documents.
    random_state : int, Generator or None
        Deals the documents into parts.

    Attributes
    ----------
    estimator_ : the estimator, fitted to all training documents
    classes_ : array
        The label of each column, sorted: the estimator's classes where it has a taxonomy, else the
        labels found, or the numbers of the columns where labels came as a matrix.
    thresholds_ : array
        The threshold of each class.
    shared_ : array of bool
        The classes that share one threshold.
    document_counts_ : array
        Training documents of each class.
    n_documents_, n_without_class_ : int
        Training documents whose labels are known, and those among them of no class.
    median_length_ : float
        The median number of their words; 0 where the score is no likelihood ratio.
    """

    _of_model = (
        "estimator_",
        "classes_",
        "document_counts_",
        "n_documents_",
        "n_without_class_",
        "median_length_",
    )
    _learned = (*_of_model, "thresholds_", "shared_")

    def __init__(
        self,
        estimator: Any,
        *,
        response_method: str = "auto",
        cv: Any = 5,
        min_documents: int = 15,
        baseline: str = "classes",
        length_power: float = 0.5,
        at_least_one: bool = False,
        random_state: Any = 0,
    ):
        self.estimator = estimator
        self.response_method = response_method
        self.cv = cv
        self.min_documents = min_documents
        self.baseline = baseline
        self.length_power = length_power
        self.at_least_one = at_least_one
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from documents in any form that the estimator takes.

        Parameters
        ----------
        X : matrix, data frame or list
        y : list of lists of labels; or one label per document; or a 0/1 array or sparse matrix
            With a taxonomy the columns of a matrix are its nodes. An empty list or row is a
            document of no class. None (-1 among single integers) is one whose classes are
            unknown: models of leafwise are given it all the same, but no threshold depends on it.
        """
        self._validate()
        labels, known, n_columns = _read(y)
        check_same_length(_n_documents(X), labels.n_documents, "X", "y")
        if not len(labels.labels):
            raise LabelError("No document has a label, so there is nothing to learn.")
        documents, unknown = np.flatnonzero(known), np.flatnonzero(~known)
        one_by_one = isinstance(self.cv, str)
        if not one_by_one and self.cv > len(documents):
            raise ValueError(
                f"cv={self.cv}: expected at most {len(documents)}, the number of documents whose "
                "labels are known."
            )
        classes = Classes.of_labels(labels if n_columns is None else _numbered(n_columns))
        whole = lists = None
        length = 0.0
        if isinstance(_last_step(self.estimator), NodeClassifier):
            lists = _lists(labels, known)
            whole = clone(self.estimator).fit(X, lists)
            if not _last_step(whole)._plain:
                classes = _last_step(whole)._classes
            if self._method(_last_step(whole)) == "likelihood_ratio":
                counts = _last_step(whole)._counts(_at_last_step(whole, take_rows(X, documents)))
                length = float(np.median(np.asarray(counts.sum(axis=1))))
        truth = classes.membership(labels).astype(bool).toarray()[documents]

        def fit_to(rows: np.ndarray) -> Any:
            if lists is None:
                return _fit_to_indicator(self.estimator, take_rows(X, documents[rows]), truth[rows])
            rows = np.concatenate([documents[rows], unknown])
            return clone(self.estimator).fit(take_rows(X, rows), [lists[i] for i in rows])

        if one_by_one:
            evidence = _last_step(whole).left_out_scores()[documents]
        else:
            part = deal(truth, self.cv, np.random.default_rng(self.random_state))
            evidence = np.empty(truth.shape)
            for i in range(self.cv):
                others = np.flatnonzero(part != i)
                model = _Model.of(fit_to(others), classes.names, truth[others], length)
                evidence[part == i] = self._scores(model, take_rows(X, documents[part == i]))
        whole = fit_to(np.arange(len(documents))) if lists is None else whole
        self.thresholds_, self.shared_ = choose_thresholds(evidence, truth, self.min_documents)
        model = _Model.of(whole, classes.names, truth, length)
        self.estimator_, self.classes_, self.document_counts_ = model[:3]
        self.n_documents_, self.n_without_class_, self.median_length_ = model[3:]
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return score - threshold, documents × `classes_`; a class is assigned above 0.

        A class that the estimator knows no document of has -inf. Under the likelihood ratio so
        have all classes, for a document without any word that the estimator has seen.
        """
        check_is_fitted(self, "thresholds_")
        model = _Model(*(getattr(self, name) for name in self._of_model))
        return self._scores(model, X) - self.thresholds_

    def predict_indicator(self, X: Any) -> sparse.csr_matrix:
        """Return the classes of each document as a 0/1 matrix, documents × `classes_`."""
        margin = self.decision_function(X)
        assigned = margin > 0
        if self.at_least_one:
            silent = margin.max(axis=1) == -np.inf
            best = np.where(silent, self.document_counts_.argmax(), margin.argmax(axis=1))
            empty = ~assigned.any(axis=1)
            assigned[empty, best[empty]] = True
        return sparse.csr_matrix(assigned, dtype=np.int32)

    def predict(self, X: Any) -> list[tuple[Any, ...]]:
        """Return the classes of each document, in the order of `classes_`; there may be none."""
        assigned = self.predict_indicator(X)
        found = self.classes_[assigned.indices].tolist()
        return [tuple(found[a:b]) for a, b in pairwise(assigned.indptr.tolist())]

    def score(self, X: Any, y: Any) -> float:
        """Return the micro F1 of `predict`: of all decisions about all classes together.

        `y` is as in `fit`. Documents whose classes are unknown do not count; a class that was not
        learned, but that documents have, is missed in all of them.
        """
        assigned = self.predict_indicator(X)
        labels, known, _ = _read(y)
        check_same_length(assigned.shape[0], labels.n_documents, "X", "y")
        if not known.any():
            raise LabelError("No document's labels are known, so there is nothing to score.")
        names, last = labels.labels, _last_step(self.estimator_)
        if isinstance(last, NodeClassifier) and not last._plain:
            nodes = Classes.of_taxonomy(last.taxonomy_)
            names = nodes.names[nodes.columns(names)]
        every, column = np.unique(np.concatenate([self.classes_, names]), return_inverse=True)
        shape = (labels.n_documents, len(every))
        mine, theirs = np.split(column, [len(self.classes_)])
        found = (assigned.data > 0, mine[assigned.indices], assigned.indptr)
        truth = (np.ones(len(theirs), bool), (labels.documents, theirs))
        Y_true, Y_pred = (sparse.csr_matrix(cells, shape)[known] for cells in (truth, found))
        return scores(Y_true, Y_pred)["micro_f1"]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file that `leafwise.load` reads; its estimator is of leafwise."""
        from leafwise.persistence import save

        save(self, path)

    def _restore(self) -> None:
        """Check what a file held."""
        self._validate()
        n_classes = len(self.classes_)
        for name in ("thresholds_", "shared_", "document_counts_"):
            if np.shape(getattr(self, name)) != (n_classes,):
                raise ValueError(f"{name} do not fit the classes")
        if not np.isfinite(self.thresholds_).all() or self.shared_.dtype != bool:
            raise ValueError("thresholds are no numbers")
        counts = self.document_counts_
        if (counts < 0).any() or (counts > self.n_documents_).any() or self.n_without_class_ < 0:
            raise ValueError("document counts are no counts")
        if not 0 <= self.median_length_ < np.inf:
            raise ValueError("the median length is no length")
        if not isinstance(self.estimator_, NodeClassifier):
            raise ValueError("the estimator is no model of leafwise")
        if not np.isin(self.estimator_.classes_, self.classes_).all():
            raise ValueError("the estimator does not fit the classes")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _scores(self, model: _Model, X: Any) -> np.ndarray:
        """Return the scores of all classes, whichever of them the estimator was fitted to."""
        always = model.document_counts == model.n_documents
        every = np.tile(np.where(always, np.inf, -np.inf), (_n_documents(X), 1))
        columns = model.columns
        if not len(columns):
            return every
        last = _last_step(model.estimator)
        X = _at_last_step(model.estimator, X)
        method = self._method(last)
        found = getattr(last, method)(X)
        if isinstance(found, list):  # predict_proba of trees and neighbours: an array per class
            found = np.column_stack([proba[:, 1] for proba in found])
        found = np.asarray(found, dtype=np.float64)
        if len(columns) == 1:  # of two classes: one number, or a probability of each
            found = found.reshape(len(every), -1)[:, -1:]
        if np.isnan(found).any():
            raise ValueError(f"{method} of {type(last).__name__} gives NaN, which is no score.")
        if method == "likelihood_ratio":
            counts = last._counts(X)
            length = np.asarray(counts.sum(axis=1)).reshape(-1, 1)
            n_known = (counts @ last._seen.astype(np.float64))[:, None]
            found = found / np.maximum(length, 1.0) ** self.length_power
            if self.baseline == "classes":
                found = found - _log_mixture(found, model)
                # A sum over n words over n^p grows as n^(1-p), for and against a class. A threshold
                # below 0 says how much may speak against it in documents of the usual length; of
                # few words, it would let pass nearly every class.
                missing = np.maximum(model.median_length / np.maximum(n_known, 1.0), 1.0)
                scale = missing ** max(1.0 - self.length_power, 0.0)
                found = np.where(found < 0, scale * found, found)
            found = np.where(n_known > 0, found, -np.inf)
        every[:, columns] = found
        return every

    def _method(self, last: Any) -> str:
        """Say which method of the estimator gives the scores."""
        there = [name for name in _METHODS if hasattr(last, name)]
        auto = self.response_method == "auto"
        if auto and there:
            return there[0]
        if self.response_method not in there:
            wanted = " or ".join(_METHODS) if auto else self.response_method
            raise ValueError(
                f"{type(last).__name__} has no {wanted}, so it gives no scores. It has "
                f"{' and '.join(there) or 'none that can be used; take another estimator'}."
            )
        return self.response_method

    def _validate(self) -> None:
        if self.response_method not in ("auto", *_METHODS):
            names = ", ".join(f'"{name}"' for name in _METHODS)
            raise ValueError(
                f'response_method={self.response_method!r}: expected "auto" or one of {names}.'
            )
        last = _last_step(self.estimator)
        if isinstance(self.cv, str) and self.cv == "leave-one-out":
            if not hasattr(last, "left_out_scores"):
                raise ValueError(
                    f'cv="leave-one-out": {type(last).__name__} has no left_out_scores, as '
                    "NeighborsClassifier has. Expected a number of parts."
                )
        elif not isinstance(self.cv, Integral) or self.cv < 2:
            raise ValueError(
                f'cv={self.cv!r}: expected a number of parts of at least 2, or "leave-one-out".'
            )
        if not isinstance(self.min_documents, Integral) or self.min_documents < 0:
            raise ValueError(
                f"min_documents={self.min_documents!r}: expected a number of documents, 0 or more."
            )
        if self.baseline not in ("classes", "pooled"):
            raise ValueError(f'baseline={self.baseline!r}: expected "classes" or "pooled".')
        if not (isinstance(self.length_power, Real) and self.length_power >= 0):
            raise ValueError(
                f"length_power={self.length_power!r}: expected a number of at least 0."
            )
        try:
            np.random.default_rng(self.random_state)
        except (TypeError, ValueError):
            raise ValueError(
                f"random_state={self.random_state!r}: expected a whole number of at least 0, a "
                "numpy Generator, or None."
            ) from None
        self._method(last)
        if isinstance(last, NodeClassifier) or hasattr(last, "estimator"):
            return
        tags = get_tags(last)
        if not (tags.target_tags.multi_output or getattr(tags.classifier_tags, "multi_label", 0)):
            name = type(last).__name__
            raise ValueError(
                f"{name} takes one class per document. Give one binary classifier per class: "
                f"sklearn.multiclass.OneVsRestClassifier({name}(...))."
            )


class _Model(NamedTuple):
    """A fitted estimator, and what it was fitted to."""

    estimator: Any
    classes: np.ndarray
    document_counts: np.ndarray
    n_documents: int
    n_without_class: int
    median_length: float  # of all training documents, whichever of them this one was fitted to

    @classmethod
    def of(cls, estimator: Any, classes: np.ndarray, truth: np.ndarray, length: float) -> _Model:
        empty = int(np.sum(~truth.any(axis=1)))
        return cls(estimator, classes, truth.sum(axis=0), len(truth), empty, length)

    @property
    def columns(self) -> np.ndarray:
        """The class of each column of the estimator's scores."""
        last = _last_step(self.estimator)
        if isinstance(last, NodeClassifier):
            return np.searchsorted(self.classes, last.classes_)
        return _divided(self.document_counts, self.n_documents)


def _divided(document_counts: np.ndarray, n_documents: int) -> np.ndarray:
    """Return the classes that some documents have and others do not."""
    return np.flatnonzero((document_counts > 0) & (document_counts < n_documents))


def _fit_to_indicator(estimator: Any, X: Any, truth: np.ndarray) -> Any:
    """Fit to the classes that divide the documents; None where there are none."""
    columns = _divided(truth.sum(axis=0), len(truth))
    if not len(columns):
        return None
    y = truth[:, columns].astype(np.int64)
    return clone(estimator).fit(X, y.ravel() if len(columns) == 1 else y)


def _log_mixture(ratio: np.ndarray, model: _Model) -> np.ndarray:
    """Return log Σ_c P(c) P(d | c), over pooled words as the ratio is.

    A document may be of no class: then it has pooled words, and a log ratio of 0.
    """
    ratio = np.column_stack([ratio, np.zeros(len(ratio))])
    share = np.append(model.document_counts[model.columns], model.n_without_class)
    return logsumexp(ratio, axis=1, keepdims=True, b=share / share.sum())


def _read(y: Any) -> tuple[Occurrences, np.ndarray, int | None]:
    """Read labels: them, the documents whose labels are known, the number of a matrix's columns."""
    if is_matrix(y):
        matrix = as_csr(y)
        as_bool(matrix.data, "y")
        documents = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        labels = Occurrences(matrix.indices, documents, matrix.shape[0], False)
        return labels, np.ones(matrix.shape[0], bool), matrix.shape[1]
    if isinstance(y, np.ndarray) or hasattr(y, "to_numpy"):
        y = list(y) if y.ndim == 1 and y.dtype.kind == "O" else y
    labels = read_labels(y)
    if labels.are_paths:
        raise LabelError(
            "y has a level of a tree in each column. Give paths, such as 'sport/hockey', and the "
            "tree as the estimator's taxonomy."
        )
    if isinstance(y, list | tuple) and any(isinstance(row, SEVERAL) for row in y):
        return labels, np.array([isinstance(row, SEVERAL) for row in y]), None
    return labels, np.isin(np.arange(labels.n_documents), labels.documents), None


def _numbered(n_columns: int) -> Occurrences:
    """Every column of a matrix is a class, whether a document has it or not."""
    columns = np.arange(n_columns)
    return Occurrences(columns, columns, n_columns, False)


def _lists(labels: Occurrences, known: np.ndarray) -> list[list[Any] | None]:
    """Labels as models of leafwise take them; None where they are unknown."""
    lists: list[list[Any]] = [[] for _ in range(labels.n_documents)]
    for document, label in zip(labels.documents.tolist(), labels.labels.tolist()):
        lists[document].append(label)
    return [row if there else None for row, there in zip(lists, known)]


def _last_step(estimator: Any) -> Any:
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _at_last_step(estimator: Any, X: Any) -> Any:
    """Return documents as the last step of a Pipeline is given them."""
    several = isinstance(estimator, Pipeline) and len(estimator) > 1
    return estimator[:-1].transform(X) if several else X


def _n_documents(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)
