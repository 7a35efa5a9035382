"""The nearest neighbours of documents, as a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from leafwise.models._blocks import Blocks
from leafwise.models._progress import progress
from leafwise.models._tfidf import LogTfIdf
from leafwise.models._top_k import nearly_top_k, top_k, top_k_in_blocks

SIMILARITIES = ("cosine", "kl", "lm", "embedding", "precomputed")
OF_VECTORS = 'Word counts have none; similarity="embedding" takes vectors, which may'
_ELEMENTS = 1 << 22  # of a dense product, at a time
_TINY = 1e-300  # for a similarity too small for a float


class NeighborIndex(BaseEstimator):
    """Finds the documents that are most similar to documents.

    Only documents that share a word can be neighbours. Neighbours are exact, and the same whatever
    the number of cores; of equally similar documents the first is nearer.

    Parameters
    ----------
    similarity : {"cosine", "kl", "lm", "embedding", "precomputed"}
        Of word counts: the cosine of tf-idf weights (1 + log tf) log(N / df); exp(-KL(d || d')),
        how little d' loses as a model of d's words (E eq. 11); or p(d | d'), how likely d is under
        it (E eq. 9), relative to the nearest document. The last two have the same neighbours,
        and d' is smoothed by all documents (E eq. 4). "embedding": the cosine of vectors as they
        are, dense or sparse, of which only those above 0 count. "precomputed": the documents come
        as a matrix of similarities.
    mu : float
        How many words of all documents smooth d'.
    approximate : bool or int
        Look for neighbours only among the documents that have one of the words in which they are
        richest: so many for each word, 200 for True. The work for a document then does not grow
        with their number, but more neighbours are missed. It is for word counts.
    verbose : bool
        Whether to show progress on the standard error stream.

    Attributes
    ----------
    documents_ : what was fitted to
    among_ : array of int
        The documents that can be neighbours.
    """

    _learned = ("documents_", "among_", "n_features_in_", "feature_names_in_")
    documents_: Any
    among_: np.ndarray

    def __init__(
        self,
        similarity: str = "cosine",
        *,
        mu: float = 1000.0,
        approximate: bool | int = False,
        verbose: bool = False,
    ):
        self.similarity = similarity
        self.mu = mu
        self.approximate = approximate
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, among: Any = None) -> Self:
        """Take documents to be found.

        Parameters
        ----------
        X : word counts; vectors; or a square matrix of similarities
        among : numbers of the rows that can be neighbours, or whether each can, if not all; word
            statistics are those of all
        """
        self._validate()
        self.documents_ = self._read(X, reset=True)
        n = self.documents_.shape[0]
        if self.similarity == "precomputed" and self.documents_.shape[1] != n:
            raise ValueError(
                f"X has {n} rows and {self.documents_.shape[1]} columns: expected a similarity "
                "for each pair of documents."
            )
        self.among_ = np.arange(n) if among is None else _read_rows(among, n)
        self._derive()
        return self

    def graph(self, k: int = 30) -> sparse.csr_matrix:
        """Return the k nearest other documents of each document, documents × documents."""
        return self._graph(k, None)

    def _graph(self, k: int, blocks: Blocks | None) -> sparse.csr_matrix:
        """Return it; `blocks` are where the search is done, if it is not here."""
        check_is_fitted(self, "documents_")
        own = np.full(self.documents_.shape[0], -1)
        own[self.among_] = np.arange(len(self.among_))
        return self._find(self.documents_, k, own, blocks)

    def query(self, X: Any, k: int = 30) -> sparse.csr_matrix:
        """Return the k documents nearest to each of some others, others × documents."""
        check_is_fitted(self, "documents_")
        X = self._read(X, reset=False)
        return self._find(X, k, np.full(X.shape[0], -1))

    def _find(
        self, X: Any, k: int, own: np.ndarray, blocks: Blocks | None = None
    ) -> sparse.csr_matrix:
        check_k(k)
        if self.similarity == "precomputed":
            return _best_entries(X, self.among_, k, own)
        with progress("neighbours", X.shape[0], self.verbose) as done:
            if self.similarity == "embedding":
                indices, values = _best_products(_of_unit_length(X), self._B, k, own, done)
            else:
                A = self._queries(X)
                most = 200 if isinstance(self.approximate, bool | np.bool_) else self.approximate
                search = partial(nearly_top_k, most=int(most)) if self.approximate else top_k
                if blocks is None:
                    found = search(A, self._B, self._offset, k, own=own, done=done)
                else:
                    found = top_k_in_blocks(search, blocks, A, self._B, self._offset, k, own)
                indices, values = found[0], self._similarities(X, A, found[1])
        there = indices >= 0
        indptr = np.append(0, np.cumsum(there.sum(axis=1)))
        shape = (X.shape[0], self.documents_.shape[0])
        graph = sparse.csr_matrix((values[there], self.among_[indices[there]], indptr), shape)
        graph.sort_indices()
        return graph

    def _derive(self) -> None:
        """Derive from the documents what queries are compared with."""
        if self.similarity == "precomputed":
            return
        neighbours = self.documents_[self.among_]
        self._offset = np.zeros(len(self.among_))
        if self.similarity == "embedding":
            self._B = _of_unit_length(neighbours)
            return
        X = self.documents_
        if self.similarity == "cosine":
            self._tfidf = LogTfIdf().fit(X)
            self._B = self._tfidf.transform(neighbours)
            return
        counts = np.asarray(X.sum(axis=0), dtype=np.float64).ravel()
        self._worth = counts / max(counts.sum(), 1.0)  # p(w | corpus), E eq. 5
        # E eq. 4, 11: log p(w | d) = log(1 + tf / (μ p(w))) + log(μ p(w)) - log(|d| + μ): only the
        # first part depends on both, and it is 0 unless d has the word.
        self._B = sparse.csr_matrix(neighbours, dtype=np.float64, copy=True)
        self._B.data = np.log1p(self._B.data / (self.mu * self._worth[self._B.indices]))
        self._offset = -np.log(np.asarray(neighbours.sum(axis=1)).ravel() + self.mu)

    def _queries(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        """Weigh the words of documents whose neighbours are looked for."""
        if self.similarity == "cosine":
            return self._tfidf.transform(X)
        A = sparse.csr_matrix(X, dtype=np.float64, copy=True)
        A.data *= self._worth[A.indices] > 0
        A.eliminate_zeros()
        return normalize(A, norm="l1", copy=False)

    def _similarities(
        self, X: sparse.csr_matrix, A: sparse.csr_matrix, scores: np.ndarray
    ) -> np.ndarray:
        if self.similarity == "cosine":
            return scores
        if self.similarity == "lm":
            length = np.asarray(X.multiply(self._worth > 0).sum(axis=1)).reshape(-1, 1)
            scores = length * (scores - scores[:, :1])  # E eq. 9, over that of the nearest
        else:
            # Σ_w p(w | q) log(μ p(w) / p(w | q)): the rest of E eq. 11, which is the query's alone.
            log_p = np.log(self.mu * self._worth[A.indices] / A.data)
            rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
            scores = scores + np.bincount(rows, A.data * log_p, minlength=A.shape[0])[:, None]
        return np.maximum(np.exp(np.minimum(scores, 0.0)), _TINY)

    def _read(self, X: Any, reset: bool) -> Any:
        if isinstance(X, list | tuple) and X and isinstance(X[0], str):
            raise ValueError(
                "Neighbours are found by word counts, got texts: WordCounter().fit_transform "
                "counts their words."
            )
        if self.similarity == "embedding":
            return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        X = validate_data(self, X, accept_sparse="csr", reset=reset)
        hint = "" if self.similarity == "precomputed" else f". {OF_VECTORS}"
        check_non_negative(X, f"{type(self).__name__} (input X){hint}")
        X = sparse.csr_matrix(X)
        if not X.has_canonical_format or (X.data == 0).any():
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.similarity != "embedding"
        tags.input_tags.pairwise = self.similarity == "precomputed"
        return tags

    def _restore(self) -> None:
        """Derive the rest from what a file held, after checking it."""
        self._validate()
        n = self.documents_.shape[0]
        if self.among_.ndim != 1 or not np.isin(self.among_, np.arange(n)).all():
            raise ValueError("a neighbour is not among the documents")
        self._derive()

    def _validate(self) -> None:
        check_similarity(self.similarity, self.mu, self.approximate)


def neighbor_graph(
    X: Any,
    k: int = 30,
    similarity: str = "cosine",
    *,
    symmetric: bool = False,
    mu: float = 1000.0,
    approximate: bool | int = False,
    verbose: bool = False,
) -> sparse.csr_matrix:
    """Return the k nearest other documents of each document, with their similarities.

    Parameters
    ----------
    X, similarity, mu, approximate, verbose : see `NeighborIndex`
    k : how many
    symmetric : make two documents neighbours if either is the other's; the higher similarity counts
    """
    index = NeighborIndex(similarity, mu=mu, approximate=approximate, verbose=verbose)
    graph = index.fit(X).graph(k)
    return symmetrize(graph) if symmetric else graph


def symmetrize(graph: sparse.csr_matrix) -> sparse.csr_matrix:
    """Take the larger of the similarities in both directions (E 5.2)."""
    graph = sparse.csr_matrix(graph)
    if graph.shape[0] != graph.shape[1]:
        raise ValueError(
            f"A graph of shape {graph.shape} has no two directions: expected a square."
        )
    return sparse.csr_matrix(graph.maximum(graph.T))


def average_graphs(graphs: Sequence[Any], weights: Any = None) -> sparse.csr_matrix:
    """Average graphs of the same documents, each with rows that add up to one.

    Words and an encoder see different likenesses; the average has both. Where a document has no
    neighbours in one graph, the others decide.
    """
    if sparse.issparse(graphs) or isinstance(graphs, np.ndarray):
        raise TypeError("graphs is one matrix: expected a list of graphs.")
    if not len(graphs):
        raise ValueError("graphs is empty: expected at least one graph.")
    share = np.ones(len(graphs)) if weights is None else np.asarray(weights, float)
    if share.shape != (len(graphs),) or not (share >= 0).all() or not 0 < share.sum() < np.inf:
        raise ValueError(
            f"weights={weights!r}: expected {len(graphs)} numbers of 0 or more, not all 0."
        )
    shapes = sorted({graph.shape for graph in graphs})
    if len(shapes) > 1:
        raise ValueError(f"graphs are of different shapes: {shapes[0]} and {shapes[1]}.")
    parts = [sparse.csr_matrix(graph, dtype=np.float64) for graph in graphs]
    for part in parts:
        if not (part.data >= 0).all():
            raise ValueError("A graph has similarities below 0 or NaN: expected none.")
    rows = [w * normalize(part, norm="l1") for w, part in zip(share / share.sum(), parts)]
    return normalize(sparse.csr_matrix(sum(rows)), norm="l1", copy=False)


def check_similarity(similarity: Any, mu: Any, approximate: Any) -> None:
    """Refuse settings that have no meaning."""
    if similarity not in SIMILARITIES:
        names = ", ".join(f'"{name}"' for name in SIMILARITIES)
        raise ValueError(f"similarity={similarity!r}: expected one of {names}.")
    if not isinstance(mu, Real) or not 0 < float(mu) < np.inf:
        raise ValueError(f"mu={mu!r}: expected a number of words above 0.")
    if not isinstance(approximate, bool | np.bool_) and not (
        isinstance(approximate, Integral) and int(approximate) > 0
    ):
        raise ValueError(
            f"approximate={approximate!r}: expected False, True or a number of documents for each "
            "word of at least 1."
        )
    if approximate and similarity in ("embedding", "precomputed"):
        raise ValueError(f'approximate: similarity="{similarity}" has no words, expected False.')


def check_k(k: Any) -> None:
    """Refuse what is no number of neighbours."""
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k={k!r}: expected a number of neighbours of at least 1.")


def _read_rows(among: Any, n: int) -> np.ndarray:
    rows = np.asarray(among)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
        raise ValueError(f"among={among!r}: expected some numbers of rows, or {n} times whether.")
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"among has rows {rows.min()} to {rows.max()}, expected 0 to {n - 1}.")
    return np.unique(rows).astype(np.int64)


def _of_unit_length(X: Any) -> Any:
    """Scale vectors to length 1, however long or short they are."""
    largest = np.abs(X).max(axis=1)
    largest = largest.toarray().ravel() if sparse.issparse(largest) else largest
    scale = 1.0 / np.where(largest > 0, largest, 1.0)
    return normalize(sparse.diags_array(scale) @ X if sparse.issparse(X) else scale[:, None] * X)


def _best_entries(
    X: sparse.csr_matrix, among: np.ndarray, k: int, own: np.ndarray
) -> sparse.csr_matrix:
    """Keep the k largest of given similarities in each row."""
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    allowed = np.zeros(X.shape[1], bool)
    allowed[among] = True
    itself = np.append(among, -1)[own]  # the column of each row's own document
    used = allowed[X.indices] & (X.indices != itself[row])
    row, column, value = row[used], X.indices[used], X.data[used].astype(np.float64)
    n_entries = np.bincount(row, minlength=X.shape[0])
    if n_entries.max(initial=0) > k:
        order = np.lexsort((column, -value, row))
        row, column, value = row[order], column[order], value[order]
        first = np.append(0, np.cumsum(n_entries)[:-1])
        best = np.arange(len(row)) - first[row] < k
        row, column, value = row[best], column[best], value[best]
    return sparse.csr_matrix((value, (row, column)), X.shape)


def _best_products(
    A: Any, B: Any, k: int, own: np.ndarray, done: Callable[[int], None] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Find the largest cosines of vectors, by dense products of some rows at a time."""
    n, k = A.shape[0], min(k, B.shape[0])
    indices, values = np.full((n, k), -1), np.zeros((n, k))
    step = max(1, _ELEMENTS // max(B.shape[0], 1))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        product = A[rows] @ B.T
        cosine = product.toarray() if sparse.issparse(product) else np.asarray(product)
        has = np.flatnonzero(own[rows] >= 0)
        cosine[has, own[rows][has]] = 0.0
        # All at least as large as the k-th, in a stable order: ties go to the lower number.
        bar = np.partition(cosine, -k, axis=1)[:, -k]
        for i, values_of_row in enumerate(cosine):
            near = np.flatnonzero((values_of_row >= bar[i]) & (values_of_row > 0))
            near = near[np.argsort(-values_of_row[near], kind="stable")][:k]
            indices[start + i, : len(near)] = near
            values[start + i, : len(near)] = values_of_row[near]
        if done:
            done(len(cosine))
    return indices, values
