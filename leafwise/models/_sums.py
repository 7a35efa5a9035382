"""Words of documents added up by class, and scored: where models of counts begin and end.

Compiled, in threads.
"""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
from scipy import sparse

from leafwise.threads import in_threads

_FEW = 1 << 20  # words of documents that SciPy adds up before a loop for it would be compiled
_CELLS = 1 << 22  # pairs of a class and a word that one piece of work has room for
_EVEN = 16  # pieces of work at least, where there are as many classes
_SUMS = 1 << 20  # of a word of a document and a class, that are one piece of work


def scale_rows(A: sparse.csr_matrix, factor: np.ndarray) -> sparse.csr_matrix:
    """Return ``diag(factor) @ A``, its columns in the order of A's, without entries of 0.

    SciPy's product takes several times as long, and leaves the columns to be sorted.
    """
    data = A.data * np.repeat(np.asarray(factor, np.float64), np.diff(A.indptr))
    scaled = sparse.csr_matrix((data, A.indices.copy(), A.indptr.copy()), A.shape)
    scaled.has_sorted_indices = A.has_sorted_indices
    scaled.eliminate_zeros()
    return scaled


def table_product(X: sparse.csr_matrix, table: np.ndarray) -> np.ndarray:
    """Return ``X @ table``, dense: the sum of the rows of a document's words.

    SciPy's product does the same sums in the same order, in one thread and a word at a time: with
    many columns it reads and writes each sum far more often.
    """
    n_documents, n_columns = X.shape[0], table.shape[1]
    product = np.empty((n_documents, n_columns))
    rows = X.indptr, X.indices, X.data.astype(np.float64, copy=False)
    table = np.ascontiguousarray(table, np.float64)
    n_parts = min(n_documents, 1 + X.nnz * n_columns // _SUMS)
    edges = np.linspace(0, n_documents, n_parts + 1).astype(int).tolist()
    in_threads(lambda part: _multiply(*part, *rows, table, product), list(pairwise(edges)))
    return product


@numba.njit(nogil=True, cache=True)
def _multiply(first, last, indptr, words, counts, table, product):  # pragma: no cover - compiled
    for d in range(first, last):
        sums = product[d]
        for c in range(len(sums)):
            sums[c] = 0.0
        e, end = indptr[d], indptr[d + 1]
        while e + 4 <= end:
            r0, n0 = table[words[e]], counts[e]
            r1, n1 = table[words[e + 1]], counts[e + 1]
            r2, n2 = table[words[e + 2]], counts[e + 2]
            r3, n3 = table[words[e + 3]], counts[e + 3]
            for c in range(len(sums)):
                sums[c] = (((sums[c] + n0 * r0[c]) + n1 * r1[c]) + n2 * r2[c]) + n3 * r3[c]
            e += 4
        while e < end:
            row, n = table[words[e]], counts[e]
            for c in range(len(sums)):
                sums[c] += n * row[c]
            e += 1


def words_by_class(X: sparse.csr_matrix, membership: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return ``membership.T @ X``, classes × words, its columns sorted.

    SciPy's product does the same sums, in one thread, and leaves them to be sorted.
    """
    of_class = membership.tocsc()
    lengths = np.diff(X.indptr)
    n_classes, n_words = membership.shape[1], X.shape[1]
    # No class has more different words than its documents have together, nor than there are.
    of_entry = np.append(0, np.cumsum(lengths[of_class.indices], dtype=np.int64))
    if of_entry[-1] < _FEW:
        counts = sparse.csr_matrix(membership.T.tocsr() @ X, dtype=np.float64)
        counts.sort_indices()
        return counts
    most = np.minimum(np.diff(of_entry[of_class.indptr]), n_words)
    rows = X.indptr, X.indices, X.data.astype(np.float64, copy=False)
    classes = of_class.indptr, of_class.indices, of_class.data.astype(np.float64, copy=False)

    def work(part: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        room = int(most[slice(*part)].sum())
        words, sums = np.empty(room, np.int32), np.empty(room)
        ends = np.empty(part[1] - part[0], np.int64)
        n = _add_up(*part, *classes, *rows, n_words, words, sums, ends)
        return words[:n].copy(), sums[:n].copy(), ends

    parts = _parts(most, of_entry[of_class.indptr])
    found = in_threads(work, parts) or [(np.empty(0, np.int32), np.empty(0), np.empty(0))]
    words, sums = (np.concatenate([one[i] for one in found]) for i in (0, 1))
    n_each = [np.diff(ends, prepend=0) for _, _, ends in found]
    indptr = np.append(0, np.cumsum(np.concatenate(n_each))).astype(np.int64)
    counts = sparse.csr_matrix((sums, words, indptr), (n_classes, n_words))
    counts.has_canonical_format = True
    return counts


def _parts(most: np.ndarray, entries: np.ndarray) -> list[tuple[int, int]]:
    """Cut classes into pieces of work: for none is there more room than for `_CELLS` or one class.

    `entries` are those of the documents of all classes before each one, and of all.
    """
    total = np.cumsum(most)
    cuts = np.searchsorted(total, np.arange(_CELLS, total[-1] if len(total) else 0, _CELLS))
    # Some that take about the same time, so that every thread has as much.
    even = np.searchsorted(entries, np.linspace(0, entries[-1], _EVEN + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, even, [len(most)]])).tolist()
    return list(pairwise(edges))


@numba.njit(nogil=True, cache=True)
def _add_up(
    first, last, c_indptr, documents, shares, indptr, words, counts, n_words, out, sums, ends
):  # pragma: no cover - compiled
    """Add up the words of some classes; return how many pairs there are."""
    total = np.zeros(n_words)
    there = np.zeros(n_words // 64 + 1, np.uint64)  # a bit for each word: so they come sorted
    one = np.uint64(1)
    n = 0
    for c in range(first, last):
        for m in range(c_indptr[c], c_indptr[c + 1]):
            d, share = documents[m], shares[m]
            for e in range(indptr[d], indptr[d + 1]):
                w = words[e]
                total[w] += share * counts[e]
                there[w >> 6] |= one << np.uint64(w & 63)
        for b in range(len(there)):
            if not there[b]:
                continue
            for t in range(64):
                w = 64 * b + t
                if (there[b] >> np.uint64(t)) & one:
                    if total[w] != 0.0:
                        out[n] = w
                        sums[n] = total[w]
                        n += 1
                    total[w] = 0.0
            there[b] = np.uint64(0)
        ends[c - first] = n
    return n
