"""What `TaxonomyClassifier` does with a first sorting: spread it over neighbours, learn it anew.

The first sorting is a generative model's. Where neighbouring documents agree on it, the surest
documents and the labels are spread over the graph of neighbours (E eq. 13-17); linear scores of
words learned from labels are put beside them; and linear scores learned from all documents, sorted
by the three together, say what was found of any text.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import log_softmax, softmax

from leafwise.models._counts import best_columns
from leafwise.models._em import in_threads
from leafwise.models._machines import SQUARED, Documents, train
from leafwise.models._tfidf import LogTfIdf
from leafwise.models.harmonic import HarmonicClassifier

K, POWER = 15, 2.0  # neighbours, and how much more near ones count
_SUREST = 0.1  # of the documents of a class are spread, besides those with labels
_AGREEMENT = 0.38, 0.75  # of neighbours: at the first nothing is spread, at the second in full
_SPREAD, _MODEL, _LINEAR = 4.0, 0.5, 2.0  # what each counts where they are put together
_ROUNDS = 2  # what was learned is spread again, which helps where labels are few
_SHARPER = 3.0  # linear scores, times this, are about as sure as they are right
_GUESSED = 0.1  # what a document without a label counts for the linear scores
_MARGIN = -1.5  # linear score of a class that no document is of
_LEAST = 1e-9
_TOLERANCE, _MOST_PASSES = 1e-2, 100  # of training a machine
EXACT = 30_000  # the most documents whose neighbours are not approximate
MOST = 30_000_000  # numbers in a table of documents or words by classes
MOST_WORK = 100_000_000  # words in documents, times classes: half a minute for a linear model


class LinearScores(NamedTuple):
    """Linear scores of a document's words, weighed by (1 + log tf) log(N / df), for each class.

    Attributes
    ----------
    coef : words × classes
    intercept : of each class
    idf : of each word
    """

    coef: np.ndarray
    intercept: np.ndarray
    idf: np.ndarray

    def weigh(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        tfidf = LogTfIdf()
        tfidf.idf_, tfidf.n_features_in_ = self.idf, len(self.idf)
        return tfidf.transform(X)

    def known(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return what share of each document's words has a weight, as a column."""
        counts = X.sum(axis=1).reshape(-1, 1)
        weighed = (X @ (self.idf > 0)).reshape(-1, 1)
        return np.asarray(weighed / np.maximum(counts, 1e-300))

    def scores(self, X: sparse.csr_matrix) -> np.ndarray:
        return self.weigh(X) @ self.coef + self.intercept


def fit_linear(
    V: sparse.csr_matrix,
    membership: sparse.csr_matrix,
    weight: np.ndarray,
    idf: np.ndarray,
    share: np.ndarray | None = None,
) -> LinearScores | None:
    """Fit support vector machines, each class against the rest; None where there is but one.

    V are weighed words, `membership` says which classes each document is of, and `weight` what it
    counts. `share`, classes × documents, is where training starts from, and what it ends with.
    """
    column_of = membership.tocsc()
    there = np.flatnonzero(np.diff(column_of.indptr))
    if len(there) < 2:  # or no document at all
        return None
    documents = Documents.of(V)
    share = np.zeros((membership.shape[1], V.shape[0])) if share is None else share
    cost = np.asarray(weight, float)

    def work(c: int) -> np.ndarray:
        y = np.full(V.shape[0], -1.0)
        y[column_of.indices[column_of.indptr[c] : column_of.indptr[c + 1]]] = 1.0
        return train(*documents, y, cost, share[c], SQUARED, _TOLERANCE, _MOST_PASSES)[0]

    coef = np.zeros((V.shape[1], membership.shape[1]))
    intercept = np.full(membership.shape[1], _MARGIN)
    for c, w in zip(there, in_threads(work, there.tolist())):
        coef[:, c], intercept[c] = w[:-1], w[-1]
    return LinearScores(coef, intercept, idf)


def agreement(graph: sparse.csr_matrix, column: np.ndarray) -> float:
    """Return how much of a document's neighbours, by weight, are of its own class, on average."""
    total = np.asarray(graph.sum(axis=1)).ravel()
    pairs = graph.tocoo()
    own = np.bincount(
        pairs.row, pairs.data * (column[pairs.row] == column[pairs.col]), graph.shape[0]
    )
    alone = total <= 0
    return float((own[~alone] / total[~alone]).mean()) if not alone.all() else 0.0


def trust(agreed: float) -> float:
    """Return how much of what neighbours say is believed, from 0 to 1."""
    low, high = _AGREEMENT
    return float(np.clip((agreed - low) / (high - low), 0.0, 1.0))


def surest(log_p: np.ndarray, membership: sparse.csr_matrix) -> np.ndarray:
    """Return seeds, documents × classes: labels, and the documents a class is surest of."""
    labelled = np.diff(membership.indptr) > 0
    seeds = membership.toarray().astype(float)
    best, sure = log_p.argmax(axis=1), np.where(labelled, -np.inf, log_p.max(axis=1))
    n = max(1, int(_SUREST * len(log_p) / log_p.shape[1]))
    # By class, and within a class the surest first.
    order = np.lexsort([np.arange(len(best)), -sure, best])
    first = np.searchsorted(best[order], best[order])
    taken = order[np.arange(len(order)) - first < n]
    taken = taken[~labelled[taken]]
    seeds[taken, best[taken]] = 1.0
    return seeds


def spread(graph: sparse.csr_matrix, seeds: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return log P(class | document) by harmonic functions, with masses of the given shares."""
    proportions = np.where(seeds.any(axis=0), np.maximum(shares, _LEAST), 0.0)
    model = HarmonicClassifier(
        similarity="precomputed",
        k=graph.shape[0],
        power=POWER,
        proportions=proportions / proportions.sum(),
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No label reaches")  # they have the shares
        model.fit(graph, seeds=seeds)
    p = np.full(seeds.shape, _LEAST)
    p[:, model._live] = np.maximum(model._masses.p(model._y, model._reached), _LEAST)
    return np.log(p / p.sum(axis=1, keepdims=True))


class Learned(NamedTuple):
    """What came of a first sorting.

    Attributes
    ----------
    linear : scores of words, for any text; None where there is one class
    agreed : how often neighbours agreed on the first sorting; None where they were not asked
    """

    linear: LinearScores | None
    agreed: float | None


def learn_anew(
    X: sparse.csr_matrix,
    membership: sparse.csr_matrix,
    log_p: np.ndarray,
    graph: sparse.csr_matrix | None,
) -> Learned:
    """Learn linear scores from documents that a model has sorted.

    Parameters
    ----------
    X : word counts
    membership : labels, documents × classes; rows sum to 1, or to 0 for documents without
    log_p : what the model says of each document
    graph : neighbours; None where there is no document without a label
    """
    labelled = np.diff(membership.indptr) > 0
    known = np.flatnonzero(labelled)
    tfidf = LogTfIdf().fit(X)
    V = tfidf.transform(X)
    if graph is None:
        return Learned(fit_linear(V, membership, np.ones(X.shape[0]), tfidf.idf_), None)
    agreed = agreement(graph, best_columns(_sorted_as(membership, log_p.argmax(axis=1))))
    beside = _MODEL * log_p
    first = fit_linear(V[known], membership[known], np.ones(len(known)), tfidf.idf_)
    if first is not None:
        beside = beside + _LINEAR * log_softmax(V @ first.coef + first.intercept, axis=1)
    found, linear = log_p, None
    share = np.zeros(log_p.shape[::-1])
    for _ in range(_ROUNDS if trust(agreed) > 0 else 1):
        together = beside
        if trust(agreed) > 0:
            shares = softmax(found, axis=1).mean(axis=0)
            spread_p = spread(graph, surest(found, membership), shares)
            together = beside + _SPREAD * trust(agreed) * spread_p
        sure = softmax(together, axis=1).max(axis=1)
        weight = np.where(labelled, 1.0, _GUESSED * sure)
        every = _sorted_as(membership, together.argmax(axis=1))
        linear = fit_linear(V, every, weight, tfidf.idf_, share)
        if linear is None:
            break
        found = log_softmax(_SHARPER * (V @ linear.coef + linear.intercept), axis=1)
    return Learned(linear, agreed)


def _sorted_as(membership: sparse.csr_matrix, column: np.ndarray) -> sparse.csr_matrix:
    """Return labels, and the given class of each document that has none."""
    rest = np.flatnonzero(np.diff(membership.indptr) == 0)
    guessed = (np.ones(len(rest)), (rest, column[rest]))
    return sparse.csr_matrix(membership + sparse.csr_matrix(guessed, membership.shape))
