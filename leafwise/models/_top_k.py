"""The largest entries of each row of a product of sparse matrices, without making the product.

A row of the product is summed word by word into one array. The words that many documents have cost
most of that and add least, so they are left for last: from the sums without them and from how much
they could add at most (Cauchy and Schwarz), few documents are left that can be among the first k,
and only for these are they added. Nothing is lost by it. How many words are left for last is found
by trying a few numbers on some of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from scipy import sparse

from leafwise.models._blocks import Blocks, PerDocument
from leafwise.threads import in_threads

BLOCK = 256  # rows at a time
_TRIED = 48  # rows on which the number of common words is tried
_SHARES = (1.0, 0.2, 0.1, 0.05, 0.025)  # words in more than this share of documents are common
_CHUNK = 64  # documents that are looked at together
_SLACK = 1e-9  # of a bound, for rounding
_DOCUMENTS = 200_000  # that one machine is sent at a time, to search among
_COMPARED = 16  # documents compared in full, for each neighbour to be found nearly


class Documents(NamedTuple):
    """Documents to be found, as what their words are worth to a query.

    Attributes
    ----------
    p_indptr, p_documents, p_values : for each word, the documents that have it
    c_indptr, c_words, c_values : for each document, its common words
    norm : of each document's common words
    is_common : of each word
    offset : of each document, whatever the query
    """

    p_indptr: np.ndarray
    p_documents: np.ndarray
    p_values: np.ndarray
    c_indptr: np.ndarray
    c_words: np.ndarray
    c_values: np.ndarray
    norm: np.ndarray
    is_common: np.ndarray
    offset: np.ndarray

    @classmethod
    def of(cls, B: sparse.csr_matrix, offset: np.ndarray) -> Documents:
        """Take documents × words, of which none is common."""
        n_documents, n_words = B.shape
        lists = sparse.csr_matrix(B.T)
        return cls(
            lists.indptr.astype(np.int64),
            lists.indices,
            lists.data,
            np.zeros(n_documents + 1, np.int64),
            B.indices[:0],
            B.data[:0],
            np.zeros(n_documents),
            np.zeros(n_words, bool),
            offset,
        )

    def with_common(self, B: sparse.csr_matrix, share: float) -> Documents:
        """Take the same documents, and leave words for last that more than a share of them have."""
        frequency = np.diff(self.p_indptr)
        is_common = frequency > share * B.shape[0]
        n_cells = int(frequency[is_common].sum())
        indptr, norm = np.empty(B.shape[0] + 1, np.int64), np.empty(B.shape[0])
        words, values = np.empty(n_cells, B.indices.dtype), np.empty(n_cells, B.data.dtype)
        _take_common(B.indptr, B.indices, B.data, is_common, indptr, words, values, norm)
        return self._replace(
            c_indptr=indptr, c_words=words, c_values=values, norm=norm, is_common=is_common
        )


@numba.njit(nogil=True, cache=True)
def _take_common(
    indptr, words, values, is_common, c_indptr, c_words, c_values, norm
):  # pragma: no cover - compiled
    at = c_indptr[0] = 0
    for j in range(len(norm)):
        squares = 0.0
        for p in range(indptr[j], indptr[j + 1]):
            if is_common[words[p]]:
                c_words[at], c_values[at] = words[p], values[p]
                squares += values[p] ** 2
                at += 1
        c_indptr[j + 1] = at
        norm[j] = np.sqrt(squares)


def top_k(
    A: sparse.csr_matrix,
    B: sparse.csr_matrix,
    offset: np.ndarray,
    k: int,
    *,
    own: np.ndarray | None = None,
    share: float | None = None,
    done: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k largest (A Bᵀ)_ij + offset_j of each row i, among the j that share a word with it.

    Parameters
    ----------
    A : queries × words, CSR; nothing below 0, no stored 0
    B : documents × words, CSR; the same
    offset : of each document
    k : how many
    own : for each query the document that it is not to find, itself; -1 for none
    share : words in more than this share of documents are common; None tries some and takes the
        fastest. It changes nothing but time.
    done : is told how many more rows are done, after each block

    Returns
    -------
    indices : queries × k, best first, ties to the lower number; -1 where there are fewer
    values : queries × k
    """
    n_queries, n_documents = A.shape[0], B.shape[0]
    k = min(k, n_documents)
    indices = np.full((n_queries, k), -1, np.int32)
    values = np.zeros((n_queries, k))
    if not n_queries or not k:
        return indices, values
    rows = A.indptr, A.indices, A.data
    own = np.full(n_queries, -1) if own is None else own
    documents = Documents.of(B, offset)
    if share is None:
        share = _fastest(A, B, documents, k)
    documents = documents.with_common(B, share)

    def work(first: int) -> None:
        last = min(first + BLOCK, n_queries)
        numbers = np.arange(first, last)
        _search(numbers, *rows, *documents, own, indices[first:last], values[first:last])
        if done:
            done(last - first)

    in_threads(work, list(range(0, n_queries, BLOCK)))
    return indices, values


def _fastest(A: sparse.csr_matrix, B: sparse.csr_matrix, documents: Documents, k: int) -> float:
    """Try shares of documents on some rows, and return the one with the fewest steps."""
    some = np.unique(np.linspace(0, A.shape[0] - 1, min(_TRIED, A.shape[0])).astype(np.int64))
    rows = A.indptr, A.indices, A.data
    own = np.full(A.shape[0], -1)

    def n_steps(share: float) -> int:
        found = np.empty((len(some), k), np.int32), np.empty((len(some), k))
        return _search(some, *rows, *documents.with_common(B, share), own, *found)

    best, fewest = _SHARES[0], np.inf
    for share, steps in zip(_SHARES, in_threads(n_steps, _SHARES)):
        if steps > fewest:
            break
        best, fewest = share, steps
    return best


def top_k_in_blocks(
    search: Callable,
    blocks: Blocks,
    A: sparse.csr_matrix,
    B: sparse.csr_matrix,
    offset: np.ndarray,
    k: int,
    own: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Search as `top_k` or `nearly_top_k` does, where `blocks` are.

    Each block of queries is a piece of work of its own. Documents go to where they are searched, in
    parts too if they are many, unless the search is one that looks at a part of them anyway: the
    nearest of all are the nearest of those in each part.
    """
    n_queries, n_documents = A.shape[0], B.shape[0]
    step = max(1, -(-n_queries // max(1, len(blocks.sizes))))
    starts = range(0, n_queries, step)
    parts = blocks.spread([(A[a : a + step], own[a : a + step]) for a in starts])
    width = _DOCUMENTS if search is top_k else max(1, n_documents)
    best = np.full((n_queries, 0), -1, np.int32), np.zeros((n_queries, 0))
    for first in range(0, n_documents, width):
        part = slice(first, first + width)
        found = parts.total(_search_part, search, B[part], offset[part], k, first)
        indices, values = (np.hstack(pair) for pair in zip(best, found))
        best = _nearest(indices, values, k)
    return best


def _search_part(
    queries: tuple[sparse.csr_matrix, np.ndarray],
    search: Callable,
    B: sparse.csr_matrix,
    offset: np.ndarray,
    k: int,
    first: int,
) -> tuple[PerDocument, PerDocument]:
    A, own = queries
    inside = (own >= first) & (own < first + B.shape[0])
    indices, values = search(A, B, offset, k, own=np.where(inside, own - first, -1))
    indices[indices >= 0] += first
    return PerDocument(indices), PerDocument(values)


def _nearest(indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Keep the k best of each row; lower numbers first, among equals."""
    if indices.shape[1] <= k:
        return indices, values
    score = np.where(indices < 0, -np.inf, values)
    order = np.lexsort([indices, -score], axis=1)[:, :k]
    return np.take_along_axis(indices, order, 1), np.take_along_axis(values, order, 1)


@numba.njit(nogil=True, cache=True)
def _search(
    numbers, indptr, words, weights, p_indptr, p_documents, p_values, c_indptr, c_words, c_values,
    norm, is_common, offset, own, indices, values
):  # fmt: skip  # pragma: no cover - compiled
    """Search for some rows; return how many steps it took."""
    n, k = offset.shape[0], indices.shape[1]
    total = np.empty(n)
    query = np.zeros(is_common.shape[0])
    found, score = np.empty(k, np.int64), np.empty(k)
    n_steps = 0
    for r in range(len(numbers)):
        i = numbers[r]
        for j in range(n):
            total[j] = offset[j]
        rest = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            w, a = words[p], weights[p]
            if is_common[w]:
                query[w] = a
                rest += a * a
            else:
                for q in range(p_indptr[w], p_indptr[w + 1]):
                    total[p_documents[q]] += a * p_values[q]
                n_steps += p_indptr[w + 1] - p_indptr[w]
        if own[i] >= 0:
            total[own[i]] = -np.inf
        n_found = np.int64(0)  # of no literal type, for which `_keep` would be compiled again
        for start in range(0, n, _CHUNK):
            end = min(start + _CHUNK, n)
            if n_found == k and _largest(total, norm, 0.0, start, end) <= score[0]:
                continue
            for j in range(start, end):
                if total[j] > offset[j] and (n_found < k or total[j] > score[0]):
                    n_found = _keep(found, score, n_found, j, total[j])
        if rest > 0.0:
            rest = np.sqrt(rest)
            # The first by what is summed so far, in full, show what it takes to be among them.
            bar = -np.inf
            if n_found == k:
                low = np.inf
                for t in range(k):
                    j = found[t]
                    score[t] = _complete(j, total[j], query, c_indptr, c_words, c_values)
                    low = min(low, score[t])
                bar = low - _SLACK * (1.0 + abs(low))
            n_found = np.int64(0)
            for start in range(0, n, _CHUNK):
                end = min(start + _CHUNK, n)
                if _largest(total, norm, rest, start, end) < bar:
                    continue
                for j in range(start, end):
                    if total[j] + rest * norm[j] >= bar and total[j] > -np.inf:
                        s = _complete(j, total[j], query, c_indptr, c_words, c_values)
                        n_steps += c_indptr[j + 1] - c_indptr[j] + 4
                        if s > offset[j] and (n_found < k or s > score[0]):
                            n_found = _keep(found, score, n_found, j, s)
            for p in range(indptr[i], indptr[i + 1]):
                query[words[p]] = 0.0
        _best_first(found, score, n_found)
        for t in range(n_found):
            indices[r, t] = found[t]
            values[r, t] = score[t]
        for t in range(n_found, k):
            indices[r, t] = -1
    return n_steps


@numba.njit(nogil=True, cache=True)
def _best_first(found, score, n):  # pragma: no cover - compiled
    """Sort a few by score, lower numbers first among equals: numba's own sort compiles for long."""
    for t in range(1, n):
        j, s = found[t], score[t]
        at = t
        while at > 0 and (score[at - 1] < s or (score[at - 1] == s and found[at - 1] > j)):
            found[at], score[at] = found[at - 1], score[at - 1]
            at -= 1
        found[at], score[at] = j, s


@numba.njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "reassoc"})
def _largest(total, norm, rest, start, end):  # pragma: no cover - compiled
    """Return the largest total + rest × norm of a range, many at a time: most are passed over."""
    best = -np.inf
    for j in range(start, end):
        best = max(best, total[j] + rest * norm[j])
    return best


@numba.njit(nogil=True, cache=True)
def _complete(j, s, query, c_indptr, c_words, c_values):  # pragma: no cover - compiled
    """Add what the common words of a document say."""
    for q in range(c_indptr[j], c_indptr[j + 1]):
        s += query[c_words[q]] * c_values[q]
    return s


@numba.njit(nogil=True, cache=True)
def _keep(found, score, n, j, s):  # pragma: no cover - compiled
    """Put a document on a heap, whose first is the worst: the lowest score, the highest number.

    A full heap loses its worst. Documents must come in the order of their numbers.
    """
    if n < len(found):
        at = n
        n += 1
        while at > 0:
            above = (at - 1) // 2
            if score[above] < s or (score[above] == s and found[above] > j):
                break
            found[at], score[at] = found[above], score[above]
            at = above
    else:
        at = 0
        while 2 * at + 1 < n:
            below = 2 * at + 1
            if below + 1 < n and (
                score[below + 1] < score[below]
                or (score[below + 1] == score[below] and found[below + 1] > found[below])
            ):
                below += 1
            if score[below] > s or (score[below] == s and found[below] < j):
                break
            found[at], score[at] = found[below], score[below]
            at = below
    found[at], score[at] = j, s
    return n


def nearly_top_k(
    A: sparse.csr_matrix,
    B: sparse.csr_matrix,
    offset: np.ndarray,
    k: int,
    *,
    own: np.ndarray | None = None,
    most: int = 200,
    done: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """As `top_k`, from no more than `most` documents for each word: those it is worth most to.

    Of the documents that are found so, the best by these words alone are then compared in full.
    So the work for a query does not grow with the number of documents.
    """
    n_queries, n_documents = A.shape[0], B.shape[0]
    k = min(k, n_documents)
    indices = np.full((n_queries, k), -1, np.int32)
    values = np.zeros((n_queries, k))
    if not n_queries or not k:
        return indices, values
    lists = sparse.csr_matrix(B.T)
    n_kept = np.minimum(np.diff(lists.indptr), min(most, n_documents))
    p_indptr = np.append(0, np.cumsum(n_kept))
    p_documents, p_values = np.empty(p_indptr[-1], np.int32), np.empty(p_indptr[-1])

    def shorten(first: int) -> None:
        last = min(first + BLOCK, len(p_indptr) - 1)
        _shorten(
            first, last, lists.indptr, lists.indices, lists.data, p_indptr, p_documents, p_values
        )

    in_threads(shorten, list(range(0, len(p_indptr) - 1, BLOCK)))
    rows = A.indptr, A.indices, A.data
    own = np.full(n_queries, -1) if own is None else own

    def work(first: int) -> None:
        last = min(first + BLOCK, n_queries)
        _search_some(
            np.arange(first, last), *rows, p_indptr, p_documents, p_values,
            B.indptr, B.indices, B.data, offset, own, B.shape[1],
            indices[first:last], values[first:last],
        )  # fmt: skip
        if done:
            done(last - first)

    in_threads(work, list(range(0, n_queries, BLOCK)))
    return indices, values


@numba.njit(nogil=True, cache=True)
def _shorten(
    first, last, indptr, documents, values, p_indptr, p_documents, p_values
):  # pragma: no cover - compiled
    """Keep the documents of each word that it is worth most to."""
    for w in range(first, last):
        n_all, n = indptr[w + 1] - indptr[w], p_indptr[w + 1] - p_indptr[w]
        bar = -np.inf
        if n < n_all:
            bar = np.partition(values[indptr[w] : indptr[w + 1]], n_all - n)[n_all - n]
        n_above = 0
        for q in range(indptr[w], indptr[w + 1]):
            n_above += values[q] > bar
        room = n - n_above  # for those at the bar
        at = p_indptr[w]
        for q in range(indptr[w], indptr[w + 1]):
            if values[q] > bar or (values[q] == bar and room > 0):
                room -= values[q] == bar
                p_documents[at] = documents[q]
                p_values[at] = values[q]
                at += 1


@numba.njit(nogil=True, cache=True)
def _search_some(
    numbers, indptr, words, weights, p_indptr, p_documents, p_values, b_indptr, b_words, b_values,
    offset, own, n_words, indices, values
):  # fmt: skip  # pragma: no cover - compiled
    n, k = offset.shape[0], indices.shape[1]
    total = np.zeros(n)
    touched = np.empty(n, np.int32)
    query = np.zeros(n_words)
    near, near_score = np.empty(min(_COMPARED * k, n), np.int64), np.empty(min(_COMPARED * k, n))
    found, score = np.empty(k, np.int64), np.empty(k)
    for r in range(len(numbers)):
        i = numbers[r]
        m = 0
        for p in range(indptr[i], indptr[i + 1]):
            w, a = words[p], weights[p]
            query[w] = a
            for q in range(p_indptr[w], p_indptr[w + 1]):
                j = p_documents[q]
                if total[j] == 0.0:
                    touched[m] = j
                    m += 1
                total[j] += a * p_values[q]
        n_near = 0
        for j in touched[:m]:
            s = total[j] + offset[j]
            total[j] = 0.0
            if (n_near < len(near) or s > near_score[0]) and j != own[i]:
                n_near = _keep(near, near_score, n_near, j, s)
        n_found = 0
        for j in np.sort(near[:n_near]):
            s = _complete(j, 0.0, query, b_indptr, b_words, b_values) + offset[j]
            if n_found < k or s > score[0]:
                n_found = _keep(found, score, n_found, j, s)
        for p in range(indptr[i], indptr[i + 1]):
            query[words[p]] = 0.0
        _best_first(found, score, n_found)
        for t in range(n_found):
            indices[r, t] = found[t]
            values[r, t] = score[t]
