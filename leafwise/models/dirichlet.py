"""Hierarchical Dirichlet: each node's word distribution is drawn around its parent's."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numba
import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from leafwise.labels import read_labels
from leafwise.models._counts import TableClassifier, document_weights
from leafwise.models._em import in_threads
from leafwise.models._path_mixture import check_positive, check_seed
from leafwise.models._tree_means import TreeMeans, responses, solve
from leafwise.models._word_lists import WordLists
from leafwise.taxonomy import Taxonomy

_GRID = 10.0 ** np.arange(0, 6.5, 0.5)  # what "auto" chooses from
_MOST_CLASSES = 1000  # beyond, only those of the documents that decide


class HierarchicalDirichlet(TableClassifier):
    """θ_i ~ Dir(σ θ_parent(i)): evidence flows up and down the tree (V 2, eq. 1-13).

    Each node's estimate is a weighted mean of its own counts, its parent's estimate and its
    children's (V eq. 13): for all nodes at once, and exactly.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    sigma : "auto", float, or a float for each level below the root
        How tightly a node is bound to its parent, in words: near 0 nodes share nothing, towards
        infinity all have one distribution. "auto" takes the value under which most training
        documents are put where they are, each by all others; `partial_fit` does so at its first
        call.
    class_prior : {"learned", "uniform"} or array
        P(node), as in `NaiveBayes`.
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted.
    sample_size : int
        At most so many documents decide on "auto".
    random_state : int or None
        Which they are.

    Attributes
    ----------
    sigma_ : float or list of floats
        The σ in use.
    """

    _learned = (*TableClassifier._learned, "sigma_")
    sigma_: Any

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        sigma: Any = "auto",
        class_prior: Any = "learned",
        nodes: Any = "all",
        sample_size: int = 1000,
        random_state: int | None = None,
    ):
        self.taxonomy = taxonomy
        self.sigma = sigma
        self.class_prior = class_prior
        self.nodes = nodes
        self.sample_size = sample_size
        self.random_state = random_state

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, reset: bool) -> Self:
        if reset:
            self.__dict__.pop("sigma_", None)
        super()._learn(X, y, classes, sample_weight, reset)
        if reset and isinstance(self.sigma, str):
            X = self._counts(X)
            weight = np.ones(X.shape[0])
            if sample_weight is not None:
                weight = document_weights(sample_weight, X.shape[0])
            labels = read_labels(y, self._classes)
            self.sigma_ = self._likeliest(X, self._classes.membership(labels), weight)
            self._derive()
        return self

    def _set_parameters(self) -> None:
        counts = sparse.csr_matrix(self.word_counts_, dtype=np.float64)
        counts.sum_duplicates()
        n_entries = np.zeros(len(self.taxonomy_), np.int64)
        n_entries[self.nodes_] = np.diff(counts.indptr)
        entries = _entries(counts.indptr, np.argsort(self.nodes_))
        at_nodes = sparse.csr_matrix(
            (counts.data[entries], counts.indices[entries], np.append(0, np.cumsum(n_entries))),
            (len(self.taxonomy_), counts.shape[1]),
        )
        self._lists = WordLists(self.taxonomy_.parent, at_nodes)
        self._n = np.zeros(self._lists.n_pairs)
        self._n[self._lists.own] = at_nodes.data
        self._sizes = np.asarray(at_nodes.sum(axis=1)).ravel()
        if not isinstance(self.sigma, str):
            self.sigma_ = self.sigma
        self._means = self._solve(getattr(self, "sigma_", 1.0))

    def _solve(self, sigma: Any) -> TreeMeans:
        depth = self.taxonomy_.depth
        if np.ndim(sigma) and len(sigma) != depth.max():
            raise ValueError(
                f"sigma has {len(sigma)} numbers, the tree {depth.max()} levels below its root."
            )
        of_node = np.full(len(depth), sigma) if not np.ndim(sigma) else np.append(1.0, sigma)[depth]
        # V 2: Dir(1, ..., 1), over the words that there are; others would only take their share.
        prior = (1.0, float(max(self._seen.sum(), 1)))
        return solve(self._lists, self._n, self._sizes, of_node.astype(float), prior)

    def _likeliest(
        self, X: sparse.csr_matrix, membership: sparse.csr_matrix, weight: np.ndarray
    ) -> float:
        """Choose the σ under which documents are put where they are, most often and most surely.

        Each is judged by the model of all others, which is known from that of all in closed form.
        """
        single = (np.diff(membership.indptr) == 1) & (weight > 0)
        documents = np.flatnonzero(single & (np.diff(X.indptr) > 0))
        if len(documents) > self.sample_size:
            rng = np.random.default_rng(self.random_state)
            documents = np.sort(rng.permutation(documents)[: self.sample_size])
        own = membership[documents].indices
        columns = self._live
        if len(columns) > _MOST_CLASSES:
            columns = np.unique(own)
        if len(documents) == 0 or len(columns) < 2:
            return 1.0
        own = np.searchsorted(columns, own)
        X = sparse.csr_matrix(X[documents], dtype=np.float64)
        X.sum_duplicates()
        pooled = np.asarray(self.word_counts_.sum(axis=0)).ravel()
        weight = weight[documents]
        once = np.minimum(weight, 1.0)  # a document of weight 2 is two, of which one is left out
        at_own = (np.arange(len(documents)), own)
        log_prior = np.tile(self._log_prior[columns], (len(documents), 1))
        if isinstance(self.class_prior, str) and self.class_prior == "learned":
            left = np.maximum(self.document_counts_[columns][own] - once, 0.0)
            with np.errstate(divide="ignore"):
                log_prior[at_own] = np.log(left / self.document_counts_.sum())
        right, likelihood = np.empty((len(_GRID), len(documents))), np.empty(len(_GRID))
        for k, sigma in enumerate(_GRID):
            self._means = self._solve(sigma)
            theta = np.ascontiguousarray(self._p_w_given_classes(columns).T)
            rise = responses(self.taxonomy_, self._means, self.nodes_[columns])
            arguments = (X.indptr, X.indices, X.data, once, own, theta, rise, pooled)
            scores = np.empty((len(documents), len(columns)))
            parts = [part for part in np.array_split(np.arange(len(documents)), 8) if len(part)]

            def score(part: np.ndarray, a: tuple = arguments, out: np.ndarray = scores) -> None:
                _left_out(part[0], part[-1] + 1, *a, out)  # type: ignore[call-arg]

            in_threads(score, parts)
            log_p = scores[at_own] - logsumexp(scores, axis=1)
            likelihood[k] = np.average(log_p, weights=weight)
            right[k] = (scores + log_prior).argmax(axis=1) == own
        return float(_GRID[_likeliest_of_the_best(right, likelihood, weight)])

    def _p_w_given_classes(self, columns: np.ndarray) -> np.ndarray:
        return np.stack([self._p_w_given_node(int(node)) for node in self.nodes_[columns]])

    def _p_w_given_node(self, node: int) -> np.ndarray:
        lists, means = self._lists, self._means
        p = np.full(lists.n_words, means.unseen)
        for i in [node, *self.taxonomy_.ancestors(node)][::-1]:
            if i:
                p *= means.shrink[i]
            pairs = slice(lists.indptr[i], lists.indptr[i + 1])
            p[lists.words[pairs]] = means.theta[pairs]
        if self._seen.any():
            p[~self._seen] = 0.0
        return p

    def _restore(self) -> None:
        """Derive the rest from what a file held, after checking it."""
        _check_sigma(getattr(self, "sigma_", None))
        super()._restore()

    def _validate(self) -> None:
        super()._validate()
        if not (isinstance(self.sigma, str) and self.sigma == "auto"):
            _check_sigma(self.sigma)
        check_positive("sample_size", self.sample_size)
        check_seed(self.random_state)


def _likeliest_of_the_best(right: np.ndarray, likelihood: np.ndarray, weight: np.ndarray) -> int:
    """Choose a row: of those with about as many right as the best, the one of highest likelihood.

    Few documents leave it to chance which row has the most; so a row is left out only where it
    has fewer by more than two standard errors of the difference.
    """
    share = weight / weight.sum()
    lost = right[np.argmax(right @ share)] - right
    mean = lost @ share
    error = np.sqrt(((lost - mean[:, None]) ** 2) @ share / weight.sum())
    return int(np.argmax(np.where(mean <= 2 * error, likelihood, -np.inf)))


def _check_sigma(sigma: Any) -> None:
    values = [sigma] if not np.iterable(sigma) or isinstance(sigma, str) else list(sigma)
    if not values or not all(isinstance(s, Real) and 0 < float(s) < np.inf for s in values):
        raise ValueError(
            f'sigma={sigma!r}: expected a number above 0, one for each level, or "auto".'
        )


def _entries(indptr: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the numbers of the entries of some rows, one row after the other."""
    lengths = np.diff(indptr)[rows]
    starts = indptr[:-1][rows] - np.append(0, np.cumsum(lengths)[:-1])
    return np.repeat(starts, lengths) + np.arange(lengths.sum())


@numba.njit(nogil=True, cache=True)
def _left_out(
    first, last, indptr, words, counts, weight, own, theta, rise, pooled, scores
):  # pragma: no cover - compiled
    """Score documents by log P(d | j), each under the estimates from all others.

    Without K words of node c, of which k are w, its equation loses K from its total and k from its
    counts, so that θ_j(w) becomes θ_j - g_jc k + g_jc K (θ_c - g_cc k) / (1 - g_cc K).
    """
    n_classes = theta.shape[1]
    for d in range(first, last):
        c = own[d]
        length = 0.0
        for p in range(indptr[d], indptr[d + 1]):
            length += counts[p] * weight[d]
        scores[d] = 0.0
        for p in range(indptr[d], indptr[d + 1]):
            w, k = words[p], counts[p] * weight[d]
            if pooled[w] - k < 1e-9:  # a word of this document alone: the others say nothing of it
                continue
            rest = (theta[w, c] - rise[c, c] * k) * length / (1.0 - rise[c, c] * length)
            for j in range(n_classes):
                t = theta[w, j] - rise[j, c] * (k - rest)
                scores[d, j] += counts[p] * np.log(max(t, 1e-12))
