"""Which words a source has, with all that is below it, and where they stand in the list above it.

Models of a tree go over (source, word) pairs: everything is as large as their number, whatever the
number of documents.
"""

from __future__ import annotations

import numba
import numpy as np
from scipy import sparse


class WordLists:
    """For each source of a forest, the sorted words of it and of all sources below it.

    Parameters
    ----------
    parent : the source above each one, -1 at a top
    counts : CSR matrix, sources × words, of each source's own words

    Attributes
    ----------
    indptr, words : the pairs: where each source's list begins, and its words
    up : for each pair, where its word stands in the list of the source above; `n_pairs` at a top
    own : for each entry of `counts`, its pair
    """

    def __init__(self, parent: np.ndarray, counts: sparse.csr_matrix):
        n_sources, self.n_words = counts.shape
        self.parent = np.asarray(parent, dtype=np.int64)
        below, above = _ancestors(self.parent)
        marks = np.ones(len(below))
        at_or_above = sparse.csr_matrix((marks, (above, below)), (n_sources, n_sources))
        pattern = sparse.csr_matrix(
            (np.ones(len(counts.indices)), counts.indices, counts.indptr), counts.shape
        )
        lists = sparse.csr_matrix(at_or_above @ pattern)
        lists.sort_indices()
        self.indptr, self.words = lists.indptr.astype(np.int64), lists.indices
        self.n_pairs = len(self.words)
        self.up = np.full(self.n_pairs, self.n_pairs, dtype=np.int64)
        self.own = np.empty(len(counts.indices), np.int64)
        _point(self.parent, self.indptr, self.words, self.up)
        _place(counts.indptr.astype(np.int64), counts.indices, self.indptr, self.words, self.own)

    def sums(self, mass: np.ndarray) -> np.ndarray:
        """Sum what each pair has over the words of each source."""
        total = np.zeros(len(self.parent))
        used = self.indptr[1:] > self.indptr[:-1]
        if used.any():
            total[used] = np.add.reduceat(mass[: self.n_pairs], self.indptr[:-1][used])
        return total


def _ancestors(parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of a source and one at or above it."""
    source = at = np.arange(len(parent))
    below, above = [], []
    while len(source):
        below.append(source)
        above.append(at)
        higher = parent[at]
        source, at = source[higher >= 0], higher[higher >= 0]
    return np.concatenate(below), np.concatenate(above)


@numba.njit(nogil=True, cache=True)
def _point(parent, indptr, words, up):  # pragma: no cover - compiled
    for s in range(parent.shape[0]):
        a = parent[s]
        if a >= 0:
            q = indptr[a]
            for p in range(indptr[s], indptr[s + 1]):
                while words[q] < words[p]:
                    q += 1
                up[p] = q


@numba.njit(nogil=True, cache=True)
def _place(indptr, words, list_indptr, list_words, own):  # pragma: no cover - compiled
    for s in range(indptr.shape[0] - 1):
        q = list_indptr[s]
        for p in range(indptr[s], indptr[s + 1]):
            while list_words[q] < words[p]:
                q += 1
            own[p] = q
