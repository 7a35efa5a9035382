"""A linear support vector machine that takes unlabelled documents into account.

After T. Joachims, "Transductive inference for text classification using support vector machines"
(ICML 1999), which E compares with in section 5.3.3. For each class the labelled documents, with
y = +1 if they are in it and -1 if not, and the unlabelled ones, whose y is to be found, minimise

    ½ (|w|² + b²) + C Σ_labelled ξ + C*₊ Σ_unlabelled, y=+1 ξ + C*₋ Σ_unlabelled, y=-1 ξ

where ξ = max(0, 1 - y (w·x + b)) is a document's slack.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length

from leafwise.labels import of_no_class
from leafwise.models._base import NodeClassifier
from leafwise.models._counts import order_by_content
from leafwise.models._machines import HINGE, Documents, train
from leafwise.models._tfidf import LogTfIdf
from leafwise.taxonomy import Taxonomy
from leafwise.threads import in_threads

_FIRST_COST = 1e-5  # of an unlabelled document's slack, as a share of C


class TransductiveSVM(NodeClassifier):
    """Transductive support vector machine: a linear one against the rest for each class.

    Documents become vectors of (1 + log tf) log(N / df) of unit length. Each class first has the
    linear SVM of the labelled documents. The unlabelled ones that it scores highest are taken to
    be in the class, as many as `positive` says, and the machine is trained anew with all of them.
    While one taken to be in the class scores below one that is not, and both have slack, the two
    change places, worst pairs first and all such pairs at once, and the machine is trained again:
    each time the objective falls. The slack of unlabelled documents costs next to nothing at
    first, then twice as much each time that no such pair is left, until it costs what that of
    labelled ones does.

    Without unlabelled documents it is scikit-learn's ``LinearSVC(loss="hinge")`` on the same
    vectors. A class without a labelled document has no machine: its margin is -inf, and it is
    never predicted. The order of the documents changes nothing.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    nodes : "all", "leaves" or a list of paths
        The nodes that can be predicted.
    C : float
        The cost of slack.
    positive : {"labels", "uniform"} or array
        The share of the unlabelled documents that belong to each class: that among the labelled
        ones, one over the number of classes that have a labelled document, or these numbers, one
        for each class in `classes_`.
    tol : float
        Training stops when the objective is this close to the least there is, relative to itself.
    max_iter : int
        Most passes over the documents in one training.

    Attributes
    ----------
    coef_ : array, classes × words
    intercept_ : array, one per class; -inf where a class has no machine
    idf_ : array, log(N / df) of each word; 0 for a word that no document had
    transduction_ : array
        The class of each document given to `fit`: its label (the one with the highest margin,
        where it has several), or the class with the highest margin.
    n_positive_ : array of int, unlabelled documents taken to be in each class
    n_iter_ : array of int, passes over the documents for each class
    """

    _learned = (
        *NodeClassifier._learned,
        "coef_",
        "intercept_",
        "idf_",
        "transduction_",
        "n_positive_",
        "n_iter_",
    )

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        nodes: Any = "all",
        C: float = 1.0,
        positive: Any = "labels",
        tol: float = 1e-3,
        max_iter: int = 1000,
    ):
        self.taxonomy = taxonomy
        self.nodes = nodes
        self.C = C
        self.positive = positive
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from word counts and labels, None (-1 among integers) where they are unknown.

        A document with several labels, a list of lists, is in each of these classes. An empty
        list is a document known to be in none.
        """
        self._validate()
        X = self._counts(X, reset=True)
        labels, classes = self._labels(y, None, reset=True)
        check_consistent_length(X, range(labels.n_documents))
        self._set_classes(classes)
        membership = classes.membership(labels)
        if not membership.nnz:
            raise ValueError("No document has a label, so there is nothing to learn.")
        labelled = (np.diff(membership.indptr) > 0) | of_no_class(y, X.shape[0])
        n_labelled = int(labelled.sum())
        in_class = np.bincount(membership.indices, minlength=len(self.nodes_))
        share = self._share(in_class, n_labelled)
        self.n_positive_ = np.rint(share * (X.shape[0] - n_labelled)).astype(np.int64)

        self.idf_ = LogTfIdf().fit(X).idf_
        vectors = self._vectors(X)
        order = order_by_content(vectors, membership, labelled[:, None])
        documents = Documents.of(vectors[order])
        column_of = membership[order].tocsc()
        live = np.flatnonzero(in_class)

        def work(c: int) -> Machine:
            y = np.where(labelled[order], -1.0, 0.0)
            y[column_of.indices[column_of.indptr[c] : column_of.indptr[c + 1]]] = 1.0
            return transduce(
                documents, y, int(self.n_positive_[c]), self.C, self.tol, self.max_iter
            )

        machines = in_threads(work, live.tolist())
        self.coef_ = np.zeros((len(self.nodes_), X.shape[1]))
        self.intercept_ = np.full(len(self.nodes_), -np.inf)
        self.n_iter_ = np.zeros(len(self.nodes_), np.int64)
        for c, machine in zip(live, machines):
            self.coef_[c], self.intercept_[c] = machine.w[:-1], machine.w[-1]
            self.n_iter_[c] = machine.n_passes
        if not all(machine.converged for machine in machines):
            warnings.warn(
                f"max_iter={self.max_iter} passes were not enough to come within tol={self.tol} "
                "of the least objective. Give more of either, or a smaller C.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.transduction_ = self._transduction(X, membership)
        return self

    def class_scores(self, X: Any) -> np.ndarray:
        """Return w·x + b, documents × `classes_`; above 0 a document is on the side of the class.

        A class without a labelled document has -inf.
        """
        return self._log_joint(self._counts(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the margins in scikit-learn's form.

        They are those of `class_scores`; for two classes one number per document, above 0 for the
        second: half the difference of the two margins, which is the second's own where each is
        the other's opposite.
        """
        margins = self.class_scores(X)
        return (margins[:, 1] - margins[:, 0]) / 2 if margins.shape[1] == 2 else margins

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of `predict_proba`."""
        return super().predict_log_proba(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return exp(margin), scaled to sum to 1 over the classes.

        It grows with the margin and is highest for the class that `predict` gives, but it is no
        estimate of how often that class is right.
        """
        return super().predict_proba(X)

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        return self._vectors(X) @ self.coef_.T + self.intercept_

    def _vectors(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        weigher = LogTfIdf()
        weigher.idf_ = self.idf_
        return weigher.transform(X)

    def _counts(self, X: Any, reset: bool = False) -> sparse.csr_matrix:
        X = super()._counts(X, reset)
        if not X.has_canonical_format:  # the logarithm is that of the whole count
            X = X.copy()
            X.sum_duplicates()
        return X

    def _transduction(self, X: sparse.csr_matrix, membership: sparse.csr_matrix) -> np.ndarray:
        best = np.empty(X.shape[0], np.int64)
        for rows, margins in self._blocks(X):
            own = membership[rows].toarray() > 0
            other = own.any(axis=1, keepdims=True) & ~own
            best[rows] = np.where(other, -np.inf, margins).argmax(axis=1)
        return self.classes_[best]

    def _share(self, in_class: np.ndarray, n_labelled: int) -> np.ndarray:
        """Return the share of the unlabelled documents that is taken to be in each class."""
        if isinstance(self.positive, str):
            if self.positive == "labels":
                return in_class / n_labelled
            return np.full(len(in_class), 1 / np.count_nonzero(in_class))
        share = np.asarray(self.positive, dtype=np.float64)
        if share.shape != in_class.shape:
            raise ValueError(
                f"positive has shape {share.shape}, expected one number for each of the "
                f"{len(in_class)} classes."
            )
        if not ((share >= 0) & (share <= 1)).all():
            raise ValueError(
                "positive has numbers below 0 or above 1: expected a share of the unlabelled "
                "documents for each class."
            )
        return share

    def _restore(self) -> None:
        """Check what a file held."""
        self._check_classes()
        n_classes, n_words = len(self.nodes_), self.n_features_in_
        shapes = (self.coef_.shape, self.intercept_.shape, self.idf_.shape)
        if shapes != ((n_classes, n_words), (n_classes,), (n_words,)):
            raise ValueError("weights do not fit the classes and words")
        finite = np.isfinite(self.coef_).all() and np.isfinite(self.idf_).all()
        if not (finite and (self.intercept_ < np.inf).all() and (self.intercept_ > -np.inf).any()):
            raise ValueError("weights are no numbers")
        if not np.isin(self.transduction_, self.classes_).all():
            raise ValueError("a document is in no class")
        self._validate()

    def _validate(self) -> None:
        for name in ("C", "tol"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 < float(value) < np.inf):
                raise ValueError(f"{name}={value!r}: expected a number above 0.")
        if not (isinstance(self.max_iter, Integral) and self.max_iter >= 1):
            raise ValueError(f"max_iter={self.max_iter!r}: expected a number of passes, 1 or more.")
        if isinstance(self.positive, str) and self.positive not in ("labels", "uniform"):
            raise ValueError(
                f'positive={self.positive!r}: expected "labels", "uniform" or a share per class.'
            )


class Machine(NamedTuple):
    """What `transduce` found.

    Attributes
    ----------
    w : the weights of the words, and last b
    y : +1 or -1 for each document
    trace : for each value of C*, the objective after the first training and after each switch
    """

    w: np.ndarray
    y: np.ndarray
    trace: list[list[float]]
    n_passes: int
    converged: bool


def transduce(
    documents: Documents, y: np.ndarray, n_positive: int, C: float, tol: float, max_iter: int
) -> Machine:
    """Train a transductive machine of two classes.

    Parameters
    ----------
    y : +1 or -1 for each labelled document, 0 for each other
    n_positive : how many of these others are to have +1
    tol, max_iter : of each training
    """
    pool = np.flatnonzero(y == 0)
    labelled = np.flatnonzero(y)
    y, cost, share = y.copy(), np.full(len(y), C), np.zeros(len(y))
    n_passes, converged = 0, True

    def train_on(rows: np.ndarray | slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        nonlocal n_passes, converged
        some = documents if isinstance(rows, slice) else documents.take(rows)
        start = share[rows]
        w, score, passes, done = train(*some, y[rows], cost[rows], start, HINGE, tol, max_iter)
        share[rows] = start  # where the next training starts from
        n_passes, converged = n_passes + passes, converged and done
        return w, score

    w, _ = train_on(labelled)
    if not len(pool):
        return Machine(w, y, [], n_passes, converged)
    best = np.argsort(-documents.score(w)[pool], kind="stable")
    y[pool] = -1.0
    y[pool[best[:n_positive]]] = 1.0
    n_negative = len(pool) - n_positive
    ratio = n_positive / n_negative if n_positive and n_negative else 1.0
    cost_of = np.minimum(np.array([1.0, ratio]) * _FIRST_COST, 1.0) * C  # C*₋ and C*₊
    trace: list[list[float]] = []
    while True:
        cost[pool] = cost_of[(y[pool] > 0).astype(int)]
        w, score = train_on()
        objectives = [_objective(w, score, y, cost)]
        while len(pair := _to_switch(y, score, pool)):
            y[pair] = -y[pair]
            cost[pair] = cost_of[(y[pair] > 0).astype(int)]
            found, score_found = train_on()
            # Switched, the old machine is better than before; the new one is better still, except
            # where the switch gains less than the tolerance of the training.
            old = _objective(w, score, y, cost)
            new = _objective(found, score_found, y, cost)
            if new < old:
                w, score = found, score_found
            objectives.append(min(old, new))
        trace.append(objectives)
        if (cost_of >= C).all():
            return Machine(w, y, trace, n_passes, converged)
        cost_of = np.minimum(2 * cost_of, C)


def _to_switch(y: np.ndarray, score: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Return documents to change sides: as many with +1 as with -1, worst first.

    Two of unlike sides whose slacks are above 0 and sum to more than 2 cost less the other way
    round: each one's slack would be below what the other's was. As this holds pair by pair, the
    n-th worst of one side goes with the n-th worst of the other, as far as it holds.
    """
    slack = 1.0 - y[pool] * score[pool]
    worst = np.argsort(-slack, kind="stable")
    inside, outside = worst[y[pool[worst]] > 0], worst[y[pool[worst]] < 0]
    n = min(len(inside), len(outside))
    a, b = slack[inside[:n]], slack[outside[:n]]
    n = int(np.count_nonzero((a > 0) & (b > 0) & (a + b > 2)))  # each of these falls with rank
    return pool[np.concatenate([inside[:n], outside[:n]])]


def _objective(w: np.ndarray, score: np.ndarray, y: np.ndarray, cost: np.ndarray) -> float:
    return float(0.5 * w @ w + cost @ np.maximum(0.0, 1.0 - y * score))
