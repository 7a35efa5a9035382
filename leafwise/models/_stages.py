"""What `TaxonomyClassifier` does with a first sorting: spread it over neighbours, learn it anew.

The first sorting is a generative model's. Where neighbouring documents agree on it, the surest
documents and the labels are spread over the graph of neighbours (E eq. 13-17); linear scores of
words learned from labels are put beside them; and linear scores learned from all documents, sorted
by the three together, say what was found of any text.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import clone

from leafwise.models._belief import clearly_worse
from leafwise.models._counts import best_columns
from leafwise.models._harmonic import estimated_proportions
from leafwise.models._machines import SQUARED, Documents, train
from leafwise.models._sums import table_product
from leafwise.models._tfidf import LogTfIdf, scored, weigh
from leafwise.models._thresholds import FEW_DOCUMENTS, choose_thresholds, deal
from leafwise.models.harmonic import HarmonicClassifier
from leafwise.threads import in_threads

SPREAD = HarmonicClassifier(k=15, power=2.0, tol=1e-3)
_SUREST = 0.1  # of the documents of a class are spread, besides those with labels
_AGREEMENT = 0.38, 0.75  # of neighbours: at the first nothing is spread, at the second in full
_SPREAD, _MODEL = 4.0, 0.5  # what each counts where they are put together
_LINEAR = 2.0, 6.0, 100  # the same of labels' scores: of few labels, of many, half-way at so many
_ROUNDS = 2  # what was learned is spread again, which helps where labels are few, not without any
_MATCHED = 0.5  # what keywords that match count beside the model: a model of no labels drifts
_SHARPER = 3.0  # linear scores, times this, are about as sure as they are right
_GUESSED = 0.1  # what a document without a label counts for the linear scores
OWN = 3.0  # what a document counts for each of its classes, where it may have several (T 3.2.5: 10)
_N_PARTS, _N_DEALS = 4, 3  # of labelled documents, to find thresholds
_MARGIN = -1.5  # linear score of a class that no document is of
_LEAST = 1e-9
_SHORT = 20  # different words of a document: in longer ones common words weigh less
_TOLERANCE, _MOST_PASSES = 1e-2, 100  # of training a machine
_DROPPED = 0.03  # of the best class's share: so much less is nothing
_PASSES = 3  # over documents that come later
EXACT = 30_000  # the most documents whose neighbours are not approximate
MOST = 30_000_000  # numbers in a table of documents or words by classes
MOST_WORK = 100_000_000  # words in documents, times classes: half a minute for a linear model


class LinearScores(NamedTuple):
    """Linear scores of a document's words, weighed as by `LogTfIdf`, for each class.

    Attributes
    ----------
    coef : words × classes
    intercept : of each class
    idf : of each word
    least : what of that each word has, however common; see `LogTfIdf`
    """

    coef: np.ndarray
    intercept: np.ndarray
    idf: np.ndarray
    least: float = 0.0

    def weigh(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        return weigh(X, self.idf)

    def scores(self, X: sparse.csr_matrix) -> np.ndarray:
        return self.scores_and_known(X)[0]

    def known(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return what share of each document's words has a weight, as a column."""
        return self.scores_and_known(X)[1]

    def scores_and_known(self, X: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return both, in one pass."""
        return scored(X, self.idf, self.coef, self.intercept)

    def favouring(self, gain: np.ndarray) -> LinearScores:
        """Return these scores with what each class gains."""
        return self._replace(intercept=self.intercept + gain)

    def learn(
        self,
        X: sparse.csr_matrix,
        membership: sparse.csr_matrix,
        beside: np.ndarray | float = 0.0,
        soft: float = SQUARED,
    ) -> None:
        """Learn from a few more documents, in place; scores have others `beside` them.

        Each is one more coordinate of the dual that the machines were trained in: it is set to its
        best value, in turn and some times over, while all others stay. So do the intercepts: with
        them a few documents would shift all others, which cannot answer. And so would common words,
        where these have a weight: a step is as long as that of all words, but along those weights
        that are left without `least`. `soft` is that of `train`; with 0 the documents end where
        they should be, however far that is.
        """
        V = self.weigh(X)
        rarity = (1.0 - self.least / np.maximum(self.idf, _LEAST)) ** 2
        y = np.where(membership.toarray() > 0, 1.0, -1.0)
        share, beside = np.zeros(y.shape), np.broadcast_to(beside, y.shape)
        for i in [*range(V.shape[0])] * _PASSES:
            row = slice(V.indptr[i], V.indptr[i + 1])
            words, values = V.indices[row], V.data[row]
            along = rarity[words] * values
            along *= (values @ values) / max(values @ along, _LEAST)
            score = values @ self.coef[words] + self.intercept + beside[i]
            step = (1.0 - y[i] * score - soft * share[i]) / max(values @ along + soft, _LEAST)
            new = np.maximum(share[i] + step, 0.0)
            change = (new - share[i]) * y[i]
            share[i] = new
            self.coef[words] += np.outer(along, change)

    def gather(self, column_of: np.ndarray, n_classes: int) -> LinearScores:
        """Return the scores of other classes, each made of some of these, or of none.

        A machine has about 1 for documents of its class and -1 for others. So the sum of m, and
        m - 1, has about 1 for documents of any of them, and -1 for all others.
        """
        kept = np.flatnonzero(column_of >= 0)
        cells = (np.ones(len(kept)), (kept, column_of[kept]))
        to = sparse.csr_matrix(cells, (len(column_of), n_classes))
        n_old = np.bincount(column_of[kept], minlength=n_classes)
        intercept = np.where(n_old > 0, to.T @ self.intercept + n_old - 1, _MARGIN)
        coef = np.ascontiguousarray(self.coef @ to)
        return LinearScores(coef, intercept, self.idf, self.least)


def common_weight(X: sparse.csr_matrix) -> float:
    """Return what a word weighs that all documents have, where labels are enough to tell.

    The longer documents usually are, the less: they have others to go by.
    """
    n_words = np.diff(X.indptr)
    usual = np.median(n_words[n_words > 0]) if X.nnz else 0.0
    return _SHORT / max(_SHORT, float(usual))


def fit_linear(
    V: sparse.csr_matrix,
    membership: sparse.csr_matrix,
    weight: np.ndarray,
    tfidf: LogTfIdf,
    share: np.ndarray | None = None,
    own: float = 1.0,
) -> LinearScores | None:
    """Fit support vector machines, each class against the rest; None where there is but one.

    V are weighed words, `membership` says which classes each document is of, and `weight` what it
    counts: `own` times as much for a class of its own. `share`, classes × documents, is where
    training starts from, and what it ends with.
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
        costs = np.where(y > 0, own * cost, cost)
        return train(*documents, y, costs, share[c], SQUARED, _TOLERANCE, _MOST_PASSES)[0]

    coef = np.zeros((V.shape[1], membership.shape[1]))
    intercept = np.full(membership.shape[1], _MARGIN)
    for c, w in zip(there, in_threads(work, there.tolist())):
        coef[:, c], intercept[c] = w[:-1], w[-1]
    return LinearScores(coef, intercept, tfidf.idf_, tfidf.least)


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


def spread(
    graph: sparse.csr_matrix,
    seeds: np.ndarray,
    shares: np.ndarray,
    settings: HarmonicClassifier = SPREAD,
) -> np.ndarray:
    """Return log P(class | document) by harmonic functions, with masses of the given shares."""
    proportions = np.where(seeds.any(axis=0), np.maximum(shares, _LEAST), 0.0)
    model = clone(settings).set_params(
        taxonomy=None,
        nodes="all",
        similarity="precomputed",
        k=graph.shape[0],
        proportions=proportions / proportions.sum(),
        approximate=False,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No label reaches")  # they have the shares
        model.fit(graph, seeds=seeds)
    p = np.full(seeds.shape, _LEAST)
    p[:, model._live] = np.maximum(model._masses.p(model._y, model._reached), _LEAST)
    return np.log(p / p.sum(axis=1, keepdims=True))


def first_sorting(
    graph: sparse.csr_matrix,
    membership: sparse.csr_matrix,
    settings: HarmonicClassifier = SPREAD,
) -> sparse.csr_matrix:
    """Sort documents by labels alone, spread over neighbours: documents × classes."""
    n_labels = np.asarray(membership.sum(axis=0)).ravel()
    shares = estimated_proportions(n_labels)
    p = np.exp(spread(graph, membership.toarray().astype(float), shares, settings))
    p[p < _DROPPED * p.max(axis=1, keepdims=True)] = 0.0
    return sparse.csr_matrix(p / p.sum(axis=1, keepdims=True))


class Learned(NamedTuple):
    """What came of a first sorting.

    Attributes
    ----------
    linear : scores of words, for any text; None where there is one class
    agreed : how often neighbours agreed on the first sorting; None where they were not asked
    membership : documents × classes: labels, and what all stages together said of the others
    by_labels : the class of each document by scores of labels alone; None where there are none
    """

    linear: LinearScores | None
    agreed: float | None
    membership: sparse.csr_matrix
    by_labels: np.ndarray | None = None


def learn_anew(
    X: sparse.csr_matrix,
    membership: sparse.csr_matrix,
    log_p: np.ndarray,
    graph: sparse.csr_matrix | None,
    settings: HarmonicClassifier = SPREAD,
    machine: Any = None,
    matched: np.ndarray | None = None,
    own: float = 1.0,
    least: float = 0.0,
) -> Learned:
    """Learn linear scores from documents that a model has sorted.

    Parameters
    ----------
    X : word counts
    membership : labels, documents × classes; rows sum to 1, or to 0 for documents without
    log_p : what the model says of each document
    graph : neighbours; None where they are not asked
    settings : of spreading
    machine : a linear classifier of scikit-learn, in place of support vector machines
    matched : documents × classes: the keywords that match; None where they have no part
    own : see `fit_linear`
    least : what a word weighs that all documents have, see `LogTfIdf`
    """
    if matched is not None:
        log_p = log_softmax(log_p + _MATCHED * matched, axis=1)
    labelled = np.diff(membership.indptr) > 0
    known = np.flatnonzero(labelled)
    tfidf = LogTfIdf(least).fit(X)
    V = tfidf.transform(X)

    def fit(
        rows: Any, classes: sparse.csr_matrix, weight: np.ndarray, share: Any = None
    ) -> LinearScores | None:
        some = V if rows is None else V[rows]
        if machine is not None:
            return fit_other(machine, some, classes, weight, tfidf)
        return fit_linear(some, classes, weight, tfidf, share, own)

    if labelled.all():
        return Learned(fit(None, membership, np.ones(X.shape[0])), None, membership)
    agreed, trusted = None, 0.0
    if graph is not None:
        agreed = agreement(graph, best_columns(_sorted_as(membership, log_p.argmax(axis=1))))
        trusted = trust(agreed)
    beside = _MODEL * log_p
    by_labels = None
    first = fit(known, membership[known], np.ones(len(known)))
    if first is not None:
        there = np.unique(membership.indices)
        few, many, half = _LINEAR
        each = len(known) / len(there)  # labels per class
        scores = table_product(V, first.coef) + first.intercept
        by_labels = scores.argmax(axis=1)
        beside = _put_beside(beside, (few + (many - few) * each / (each + half)) * scores, there)
    found, linear, every = log_p, None, membership
    share = np.zeros(log_p.shape[::-1])
    for _ in range(_ROUNDS if trusted > 0 and len(known) else 1):
        together = beside if len(known) else log_p
        if graph is not None and trusted > 0:
            shares = softmax(found, axis=1).mean(axis=0)
            spread_p = spread(graph, surest(found, membership), shares, settings)
            together = beside + _SPREAD * trusted * spread_p
        sure = softmax(together, axis=1).max(axis=1)
        weight = np.where(labelled, 1.0, _GUESSED * sure)
        every = _sorted_as(membership, together.argmax(axis=1))
        linear = fit(None, every, weight, share)
        if linear is None:
            break
        found = log_softmax(_SHARPER * (table_product(V, linear.coef) + linear.intercept), axis=1)
    return Learned(linear, agreed, every, by_labels)


def cuts_of_labels(X: sparse.csr_matrix, membership: sparse.csr_matrix) -> np.ndarray:
    """Return from which linear score on a document is of each class, where it may be of several.

    Parts of the documents are left out in turn; this is the mean over some ways to deal them.
    """
    truth = membership.toarray() > 0
    thresholds = []
    for seed in range(_N_DEALS):
        part = deal(truth, _N_PARTS, np.random.default_rng(seed))
        scores = np.full(truth.shape, -np.inf)
        for i in np.unique(part):
            rest, out = part != i, part == i
            if (linear := _of_labels(X[rest], membership[rest])) is not None:
                scores[out] = linear.scores(X[out])
        thresholds.append(choose_thresholds(scores, truth, FEW_DOCUMENTS)[0])
    return np.mean(thresholds, axis=0)


def learn_several(
    X: sparse.csr_matrix, membership: sparse.csr_matrix, cuts: np.ndarray
) -> LinearScores | None:
    """Learn linear scores of documents that may have several labels, from those without, too.

    Scores of labels alone, above their `cuts`, say which classes each other document is of:
    several, one or none. Then all documents are learned from.
    """
    labelled = np.diff(membership.indptr) > 0
    known, others = np.flatnonzero(labelled), np.flatnonzero(~labelled)
    first = _of_labels(X[known], membership[known])
    if first is None:
        return None
    guessed = sparse.csr_matrix(first.scores(X[others]) > cuts, dtype=float)
    classes = sparse.csr_matrix(sparse.vstack([membership[known], guessed]))
    weight = np.repeat([1.0, _GUESSED], [len(known), len(others)])
    tfidf = LogTfIdf().fit(X)
    V = tfidf.transform(X[np.concatenate([known, others])])
    return fit_linear(V, classes, weight, tfidf, own=OWN)


def _of_labels(X: sparse.csr_matrix, membership: sparse.csr_matrix) -> LinearScores | None:
    """Fit to documents that all have labels, which may be several."""
    tfidf = LogTfIdf().fit(X)
    return fit_linear(tfidf.transform(X), membership, np.ones(X.shape[0]), tfidf, own=OWN)


def clearly_better(A: sparse.csr_matrix, B: sparse.csr_matrix, membership: Any) -> bool:
    """Whether linear scores of documents counted as in B are right more often than as in A.

    Documents are held out in turn; more often is by more than two standard errors. Where there are
    so many words and classes that linear scores have no part in it, nothing is said of B.
    """
    membership = membership[:, np.unique(membership.indices)]  # no table of what has no document
    A, B = (X[:, np.unique(X.indices)] for X in (A, B))
    if max(A.shape[1], B.shape[1]) * membership.shape[1] > MOST:
        return False
    column = best_columns(membership)
    part = np.random.default_rng(0).permutation(len(column)) % _N_PARTS
    wrong = []
    for X in (A, B):
        tfidf = LogTfIdf(common_weight(X)).fit(X)
        V, missed = tfidf.transform(X), np.ones(len(column))
        for i in range(_N_PARTS):
            rest, out = np.flatnonzero(part != i), np.flatnonzero(part == i)
            linear = fit_linear(V[rest], membership[rest], np.ones(len(rest)), tfidf)
            if linear is not None:
                best = (table_product(V[out], linear.coef) + linear.intercept).argmax(axis=1)
                missed[out] = best != column[out]
        wrong.append(missed)
    return clearly_worse({"a": wrong[0], "b": wrong[1]}, "a")


def _put_beside(log_p: np.ndarray, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Add scores that were learned from labels to what a model says.

    They tell classes that have labels (`own`) apart, and say nothing of the others: so those have
    the same share together as before. That is, as far as classes have none: where most have labels,
    a class without is rare, and its score, that of no document, speaks against it.
    """
    apart = log_softmax(log_p, axis=1)
    together = logsumexp(apart[:, own], axis=1, keepdims=True)
    apart[:, own] = log_softmax(apart[:, own] + scores[:, own], axis=1) + together
    share = len(own) / log_p.shape[1]
    return share * log_softmax(log_p + scores, axis=1) + (1 - share) * apart


def fit_other(
    machine: Any,
    V: sparse.csr_matrix,
    membership: sparse.csr_matrix,
    weight: np.ndarray,
    tfidf: LogTfIdf,
) -> LinearScores | None:
    """Fit a linear classifier of scikit-learn; of several labels it is given the first."""
    column = best_columns(membership)
    there = np.unique(column)
    if len(there) < 2:
        return None
    fitted = clone(machine).fit(V, column, sample_weight=weight)
    if np.shape(getattr(fitted, "coef_", ()))[-1:] != (V.shape[1],):
        raise ValueError(f"linear={machine!r}: expected a classifier with coef_ and intercept_.")
    both = len(there) == 2  # one machine does for two classes
    coef = np.zeros((V.shape[1], membership.shape[1]))
    intercept = np.full(membership.shape[1], _MARGIN)
    own, b = np.atleast_2d(fitted.coef_), np.ravel(fitted.intercept_)
    coef[:, there] = np.vstack([-own, own]).T / 2 if both else own.T
    intercept[there] = np.append(-b, b) / 2 if both else b
    return LinearScores(coef, intercept, tfidf.idf_, tfidf.least)


def _sorted_as(membership: sparse.csr_matrix, column: np.ndarray) -> sparse.csr_matrix:
    """Return labels, and the given class of each document that has none."""
    rest = np.flatnonzero(np.diff(membership.indptr) == 0)
    guessed = (np.ones(len(rest)), (rest, column[rest]))
    return sparse.csr_matrix(membership + sparse.csr_matrix(guessed, membership.shape))
