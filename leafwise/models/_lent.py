"""Labels lent to classes that have none, where documents seem to belong there all the same.

Labels given at random leave out rare classes alone: so a class without any is taken for rare. But
people also label one class after the other, and then most documents may be of the classes that
they have not come to. Keywords tell the two apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from leafwise.models._base import BLOCK_SCORES
from leafwise.models._counts import best_columns

_SURE = 1.5  # standard errors: in draws at random from eight directories there were at most .7


def best_of(
    scores: Callable[[sparse.csr_matrix], np.ndarray], X: sparse.csr_matrix, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best class of each document, and its score; never all scores at once."""
    best, top = np.empty(X.shape[0], np.int64), np.empty(X.shape[0])
    size = max(1, BLOCK_SCORES // n_classes)
    for first in range(0, X.shape[0], size):
        rows = slice(first, first + size)
        found = scores(X[rows])
        best[rows], top[rows] = found.argmax(axis=1), found.max(axis=1)
    return best, top


def passed_over(best: np.ndarray, found: np.ndarray, membership: sparse.csr_matrix) -> float:
    """Return what share of the documents without a label is of classes without one, at least.

    0 where labels may have been given at random.

    Parameters
    ----------
    best, found : the class that keywords put each document in, and whether it has any
    membership : labels, documents × classes

    Notes
    -----
    Keywords are wrong: of documents that have a label, as many are put where no label is as they
    are wrong there, and so are others, besides those that do belong there. Had labels been given at
    random, there were as many of these as labels are the only ones of their class (Good and
    Turing).
    """
    labelled = np.diff(membership.indptr) > 0
    n_labels = _n_labels(membership)
    without = (n_labels == 0)[best]
    given, others = without[found & labelled], without[found & ~labelled]
    if not (len(given) and others.any()):
        return 0.0
    wrong, there = (given.sum() + 1) / (len(given) + 2), others.mean()
    share = (there - wrong) / (1 - wrong)
    square = wrong * (1 - wrong) / len(given) + there * (1 - there) / len(others)
    once, twice = (n_labels == 1).sum(), (n_labels == 2).sum()
    usual, chance = once / n_labels.sum(), (once + 2 * twice) / n_labels.sum() ** 2
    sure = share - usual > _SURE * np.sqrt(square / (1 - wrong) ** 2 + chance)
    return float(share) if sure else 0.0


def lend(best: np.ndarray, sure: np.ndarray, membership: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return labels for classes without one: documents that a model without labels puts there.

    As many for each as other classes have on average, from the surest to the least sure of its
    documents: the surest are those with the keywords, and know no other words.

    Parameters
    ----------
    best, sure : the class that the model puts each document in, and the larger the surer
    membership : labels, documents × classes
    """
    labelled = np.diff(membership.indptr) > 0
    n_labels = _n_labels(membership)
    each = round(n_labels[n_labels > 0].mean())
    rows = [np.empty(0, int)]
    for c in np.flatnonzero(n_labels == 0):
        there = np.flatnonzero((best == c) & ~labelled)
        there = there[np.argsort(-sure[there], kind="stable")]
        n = min(each, len(there))
        rows.append(there[np.linspace(0, len(there) - 1, n).astype(int)])
    lent = np.concatenate(rows)
    return sparse.csr_matrix((np.ones(len(lent)), (lent, best[lent])), membership.shape)


def _n_labels(membership: sparse.csr_matrix) -> np.ndarray:
    column = best_columns(membership)
    return np.bincount(column[column >= 0], minlength=membership.shape[1])
