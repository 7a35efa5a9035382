"""Scores from a table of words × classes: for sets of words, which do not add up along paths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from leafwise.models._tree_scores import Posteriors

_BLOCK = 512  # documents at a time


class TableScores(NamedTuple):
    """log P(d, c) from a table of what each word says of each class.

    Attributes
    ----------
    weights : words × classes
    prior : of each class
    """

    weights: np.ndarray
    prior: np.ndarray

    def log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return the score of every document at every class, dense."""
        return X @ self.weights + self.prior

    def posteriors(
        self,
        X: sparse.csr_matrix,
        beta: np.ndarray,
        *,
        least: float,
        most: int = 200,
        candidates: int | None = None,
        only_matched: bool = False,
    ) -> Posteriors:
        """Share every document among all classes by P(c, d)^β; see `TreeScores.posteriors`."""
        blocks, log_norm = [], np.empty(X.shape[0])
        for start in range(0, X.shape[0], _BLOCK):
            rows = slice(start, start + _BLOCK)
            scores = self.log_joint(X[rows])
            b = beta[rows, None]
            top = scores.max(axis=1, keepdims=True)
            p = np.exp(b * (scores - top))
            total = p.sum(axis=1, keepdims=True)
            log_norm[rows] = (top + np.log(total) / b).ravel()
            p[p < least] = 0.0
            blocks.append(sparse.csr_matrix(p / p.sum(axis=1, keepdims=True)))
        shape = (0, len(self.prior))
        return Posteriors(
            sparse.csr_matrix(sparse.vstack([sparse.csr_matrix(shape), *blocks])), log_norm
        )
