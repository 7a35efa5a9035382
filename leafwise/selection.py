"""Keep the words that say most about a document's class."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import xlogy
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from leafwise.labels import Classes, read_labels


class InformationGain(SelectorMixin, BaseEstimator):
    """Keep the words whose presence in a document tells most about its class (T 3.1.3).

    A document with several labels counts for each of them in equal fractions; one without a label
    is passed over.

    Parameters
    ----------
    n_words : int
        How many words to keep; all, if there are fewer. Of equals the earlier column is kept.

    Attributes
    ----------
    scores_ : array
        The information gain of each word (T eq. 10), in nats.
    """

    def __init__(self, n_words: int = 2000):
        self.n_words = n_words

    def fit(self, X: Any, y: Any = None) -> Self:
        """Measure each word on word counts and labels."""
        check_n_words(self.n_words)
        X = validate_data(self, X, accept_sparse="csr")
        self.scores_ = information_gain(X, y)
        return self

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        mask = np.zeros(len(self.scores_), bool)
        mask[best_words(self.scores_, self.n_words)] = True
        return mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def information_gain(X: Any, y: Any) -> np.ndarray:
    """Return how much knowing whether a word occurs tells about the class (T eq. 10).

    Parameters
    ----------
    X : word counts, documents × words, sparse or dense
    y : labels, in any form that the classifiers read

    Returns
    -------
    array
        Nats per word; between 0 and the entropy of the classes.
    """
    X = check_array(X, accept_sparse="csr")
    labels = read_labels(y)
    check_consistent_length(X, range(labels.n_documents))
    return gain_of_membership(X, Classes.of_labels(labels).membership(labels))


def gain_of_membership(X: Any, membership: sparse.csr_matrix) -> np.ndarray:
    """Return the information gain of each word, from documents × words and documents × classes."""
    return gain_of_meetings(*meetings(X, membership))


def meetings(X: Any, membership: sparse.csr_matrix) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Count how often each class meets each word, and its documents. Blocks add up."""
    occurs = sparse.csr_matrix(X, dtype=np.float64, copy=True)
    occurs.eliminate_zeros()
    occurs.data[:] = 1.0
    return sparse.csr_matrix(membership.T @ occurs), np.asarray(membership.sum(axis=0)).ravel()


def gain_of_meetings(met: sparse.csr_matrix, n_c: np.ndarray) -> np.ndarray:
    """Return the information gain of each word, from how often each class meets it."""
    # T takes every probability from here, so that they agree with each other where documents have
    # several labels.
    n_cw = sparse.coo_matrix(met)
    n = max(n_c.sum(), np.finfo(float).tiny)
    c, w, p_cw = n_cw.row, n_cw.col, n_cw.data / n
    p_c = n_c[c] / n
    p_w = np.bincount(w, p_cw, minlength=n_cw.shape[1])
    # T eq. 10 is H(c) + H(w) - H(c, w). A class that never meets the word has the same term in
    # H(c) and in H(c, w), so only pairs that meet are left.
    gain = np.bincount(w, _plogp(p_cw) + _plogp(p_c - p_cw) - _plogp(p_c), minlength=len(p_w))
    return np.maximum(gain - _plogp(p_w) - _plogp(1.0 - p_w), 0.0)  # below 0 by rounding alone


def _plogp(p: np.ndarray) -> np.ndarray:
    p = np.maximum(p, 0.0)  # a difference that is 0 but for rounding
    return xlogy(p, p)


def best_words(gain: np.ndarray, n_words: int) -> np.ndarray:
    """Return the columns of the `n_words` words of largest gain, in order."""
    # Gains that differ by rounding alone are ties, whatever order they were summed in.
    return np.sort(np.argsort(-np.round(gain, 12), kind="stable")[:n_words])


def telling_words(p: np.ndarray, among: np.ndarray, n_words: int) -> np.ndarray:
    """Return the columns of the words largest in p log(p / among), best first; those above 0."""
    seen = np.flatnonzero(p)
    surplus = p[seen] * np.log(p[seen] / among[seen])
    best = np.argsort(-np.round(surplus, 12), kind="stable")[:n_words]
    return seen[best[surplus[best] > 0]]


def check_n_words(n_words: Any) -> None:
    if not isinstance(n_words, Integral) or n_words < 1:
        raise ValueError(f"n_words={n_words!r}: expected a whole number of words, at least 1.")
