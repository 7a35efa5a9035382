"""Words weighed by how often a document has them and how few documents do."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data


class LogTfIdf(TransformerMixin, BaseEstimator):
    """Weigh counts by (1 + log tf) log(N / df), and scale each document to length 1 (T 3.2.5).

    N and df are those of the documents in `fit`. A word that none of them has weighs nothing, and
    neither does one that all have. Less than one occurrence counts in proportion.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        X = sparse.csr_matrix(validate_data(self, X, accept_sparse="csr"))
        n_with_word = np.asarray((X > 0).sum(axis=0)).ravel()
        self.idf_ = np.log(X.shape[0] / np.maximum(n_with_word, 1)) * (n_with_word > 0)
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
