"""Which words a source has, with all that is below it, and where they stand in the list above it.

Models of a tree go over (source, word) pairs: everything is as large as their number, whatever the
number of documents.
"""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
from scipy import sparse

from leafwise.threads import in_threads, n_threads

_PAIRS = 1 << 17  # gone through by a thread at a time


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
        depth = _depths(self.parent)
        room = int(((depth + 1) * np.diff(counts.indptr)).sum())  # no two have a word in common
        start, size = np.empty(n_sources, np.int64), np.empty(n_sources, np.int64)
        found = np.empty(room, np.int32)
        below = np.argsort(self.parent, kind="stable")
        first = np.searchsorted(self.parent[below], np.arange(n_sources + 1))
        own = counts.indptr.astype(np.int64), counts.indices
        deepest_first = np.argsort(-depth, kind="stable")
        _unite(deepest_first, below, first, *own, self.n_words, start, size, found)
        self.indptr = np.append(0, np.cumsum(size))
        self.words = np.empty(self.indptr[-1], np.int32)
        _in_order(start, found, self.indptr, self.words)
        self.n_pairs = len(self.words)
        self.up = np.full(self.n_pairs, self.n_pairs, dtype=np.int64)
        self.own = np.empty(len(counts.indices), np.int64)

        def work(part: tuple[int, int]) -> None:
            _point(*part, self.parent, self.indptr, self.words, self.up)

        in_threads(work, self._parts())
        _place(*own, self.indptr, self.words, self.own)

    def _parts(self) -> list[tuple[int, int]]:
        """Cut sources into parts of some pairs each."""
        cuts = np.searchsorted(self.indptr, np.arange(_PAIRS, self.n_pairs, _PAIRS))
        return list(pairwise(np.unique([0, *cuts.tolist(), len(self.parent)]).tolist()))

    def sums(self, mass: np.ndarray) -> np.ndarray:
        """Sum what each pair has over the words of each source."""
        total = np.zeros(len(self.parent))
        used = self.indptr[1:] > self.indptr[:-1]
        if used.any():
            total[used] = np.add.reduceat(mass[: self.n_pairs], self.indptr[:-1][used])
        return total

    def by_word(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where each word's list begins, the sources that have it, and what each pair has.

        SciPy's conversion does the same, in one thread.
        """
        n_sources = np.bincount(self.words, minlength=self.n_words)
        # As SciPy has it: what takes these is compiled for one kind of numbers.
        kind = np.int32 if self.n_pairs < 1 << 31 else np.int64
        indptr = np.append(0, np.cumsum(n_sources)).astype(kind)
        sources, found = np.empty(self.n_pairs, np.int32), np.empty(self.n_pairs)
        free = indptr[:-1].copy()

        def work(part: tuple[int, int]) -> None:
            _turn(*part, self.indptr, self.words, values, free, sources, found)

        # A part looks for its first word in every list, so there are no more than are needed.
        n = min(n_threads(), 1 + self.n_pairs // _PAIRS)
        cuts = np.searchsorted(indptr, self.n_pairs * np.arange(1, n) / n).tolist()
        in_threads(work, list(pairwise([0, *cuts, self.n_words])))
        return indptr, sources, found


def _depths(parent: np.ndarray) -> np.ndarray:
    """Return how many sources are above each one."""
    depth, above = np.zeros(len(parent), np.int64), parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth


@numba.njit(nogil=True, cache=True)
def _unite(
    order, below, first, indptr, words, n_words, start, size, found
):  # pragma: no cover - compiled
    """Write the words of each source and of those below it, sorted, those below it first.

    Words are marked by a bit each, and marked bits by one for each 64, so that they come sorted and
    a source costs no more than its words, however many others there are. (A product of matrices,
    and sorting what it leaves, took three times as long.)
    """
    bits = np.zeros(n_words // 64 + 1, np.uint64)
    marked = np.zeros(n_words // 4096 + 1, np.uint64)
    one, none, last = np.uint64(1), np.uint64(0), np.uint64(63)
    n = 0
    for s in order:
        start[s] = n
        if first[s] == first[s + 1]:  # nothing is below: its own words are sorted
            for p in range(indptr[s], indptr[s + 1]):
                found[n] = words[p]
                n += 1
            size[s] = n - start[s]
            continue
        for k in range(first[s], first[s + 1] + 1):  # those below, then itself
            own = k == first[s + 1]
            begin = indptr[s] if own else start[below[k]]
            end = indptr[s + 1] if own else begin + size[below[k]]
            for p in range(begin, end):
                w = np.uint64(words[p] if own else found[p])
                b = w >> np.uint64(6)
                bits[b] |= one << (w & last)
                marked[b >> np.uint64(6)] |= one << (b & last)
        for m in range(len(marked)):
            if marked[m] == none:
                continue
            for i in range(64):
                if (marked[m] >> np.uint64(i)) & one == none:
                    continue
                b = np.uint64(64 * m + i)
                for t in range(64):
                    if (bits[b] >> np.uint64(t)) & one:
                        found[n] = np.int64(b) * 64 + t
                        n += 1
                bits[b] = none
            marked[m] = none
        size[s] = n - start[s]


@numba.njit(nogil=True, cache=True)
def _in_order(start, found, indptr, words):  # pragma: no cover - compiled
    for s in range(start.shape[0]):
        for k in range(indptr[s + 1] - indptr[s]):
            words[indptr[s] + k] = found[start[s] + k]


@numba.njit(nogil=True, cache=True)
def _point(first, last, parent, indptr, words, up):  # pragma: no cover - compiled
    for s in range(first, last):
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


@numba.njit(nogil=True, cache=True)
def _turn(first, last, indptr, words, values, free, sources, found):  # pragma: no cover - compiled
    """Append each source to the lists of the words it has, of those from the first to the last."""
    for s in range(indptr.shape[0] - 1):
        p, end = indptr[s], indptr[s + 1]
        while p < end:
            middle = (p + end) // 2
            if words[middle] < first:
                p = middle + 1
            else:
                end = middle
        while p < indptr[s + 1] and words[p] < last:
            w = words[p]
            sources[free[w]] = s
            found[free[w]] = values[p]
            free[w] += 1
            p += 1
