"""Words weighed by how often a document has them and how few documents do, and their scores."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numba
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from leafwise.threads import in_threads

_BLOCK = 1024  # documents at a time


class LogTfIdf(TransformerMixin, BaseEstimator):
    """Weigh counts by (1 + log tf) log(N / df), and scale each document to length 1 (T 3.2.5).

    N and df are those of the documents in `fit`. A word that none of them has weighs nothing, and
    neither does one that all have. Less than one occurrence counts in proportion.

    Parameters
    ----------
    least : float
        Added to log(N / df) of each word that some document has.
    """

    def __init__(self, least: float = 0.0):
        self.least = least

    def fit(self, X: Any, y: Any = None) -> Self:
        X = sparse.csr_matrix(validate_data(self, X, accept_sparse="csr"))
        n_with_word = np.asarray((X > 0).sum(axis=0)).ravel()
        idf = np.log(X.shape[0] / np.maximum(n_with_word, 1)) + self.least
        self.idf_ = idf * (n_with_word > 0)
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False, ensure_min_samples=0)
        return weigh(sparse.csr_matrix(X), self.idf_)


def weigh(X: sparse.csr_matrix, idf: np.ndarray) -> sparse.csr_matrix:
    """Weigh counts that need no check: for one short text, checks take as long as the rest."""
    values = np.where(X.data < 1, X.data, 1 + np.log(np.maximum(X.data, 1))) * idf[X.indices]
    weighed = sparse.csr_matrix((values, X.indices, X.indptr), shape=X.shape, copy=True)
    weighed.eliminate_zeros()
    n_words = np.diff(weighed.indptr)
    rows = np.repeat(np.arange(X.shape[0]), n_words)
    lengths = np.sqrt(np.bincount(rows, weighed.data**2, minlength=X.shape[0]))
    weighed.data /= np.repeat(lengths, n_words)
    return weighed


def scored(
    X: sparse.csr_matrix, idf: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``weigh(X, idf) @ coef + intercept``, and what share of each document has a weight.

    In one pass: to write down the weighed words took three times as long.
    """
    scores = np.empty((X.shape[0], coef.shape[1]))
    known = np.empty((X.shape[0], 1))
    counts = X.data.astype(np.float64, copy=False)

    def work(part: tuple[int, int]) -> None:
        _score(*part, X.indptr, X.indices, counts, idf, coef, intercept, scores, known)

    in_threads(work, list(pairwise([*range(0, X.shape[0], _BLOCK), X.shape[0]])))
    return scores, known


@numba.njit(nogil=True, cache=True)
def _score(
    first, last, indptr, words, counts, idf, coef, intercept, scores, known
):  # pragma: no cover - compiled
    n_classes = coef.shape[1]
    for d in range(first, last):
        total, weighed, square = 0.0, 0.0, 0.0
        for c in range(n_classes):
            scores[d, c] = 0.0
        for p in range(indptr[d], indptr[d + 1]):
            n, w = counts[p], words[p]
            total += n
            if idf[w] <= 0.0:
                continue
            weighed += n
            value = idf[w] * (n if n <= 1.0 else 1.0 + np.log(n))
            square += value * value
            for c in range(n_classes):
                scores[d, c] += value * coef[w, c]
        scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        for c in range(n_classes):
            scores[d, c] = scores[d, c] * scale + intercept[c]
        known[d, 0] = weighed / max(total, 1e-300)
