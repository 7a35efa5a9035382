"""Scores that add up along the paths of a tree: which nodes a document may belong to.

A word that a branch does not have says of all its nodes what it says of the node above. So what a
word adds is kept where it differs, per word, as a list of nodes, and a document's score at a node
is a sum over the node's path. All nodes are scored in one pass down the tree; or, in large trees,
only those few at which one of the document's words adds most.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

from leafwise.threads import in_threads

_BLOCK, _LARGEST = 512, 1 << 14  # documents at a time, at least and at most
_PARTS = 24  # of documents, as long as these are not too small or too large
_PER_DOCUMENT = 20  # words that take as long as what is done once for each document
_COMMON = 4  # a word is common that says something at one node in so many
_WORTH_ROWS = 300  # pairs of a word and a node, for each occurrence, up to which rows are made


class Posteriors(NamedTuple):
    """What an E step finds.

    Attributes
    ----------
    membership : CSR matrix, documents × classes: P(class | document), negligible ones left out
    log_norm : log Σ_c P(c, d)^β / β of each document
    """

    membership: sparse.csr_matrix
    log_norm: np.ndarray


class TreeScores(NamedTuple):
    """log P(d, node) = Σ over the path of what the words add there, + length × bias + prior.

    Attributes
    ----------
    indptr, nodes, values : for each word, the nodes at which it adds something, sorted, and what
    counted : for each word, whether it counts for a document's length
    parent, end : of each node, and the first node after its branch
    bias : of each node, for each word of a document
    prior : of each node
    column : of each node among the classes, -1 where it is none
    decay : what a parent's sum is worth to its children
    """

    indptr: np.ndarray
    nodes: np.ndarray
    values: np.ndarray
    counted: np.ndarray
    parent: np.ndarray
    end: np.ndarray
    bias: np.ndarray
    prior: np.ndarray
    column: np.ndarray
    decay: float = 1.0

    def log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return the score of every document at every class, dense."""
        scores = np.empty((X.shape[0], int(self.column.max()) + 1))
        rows, whole = _rows(X), self._whole(X.nnz)

        def work(part: tuple[int, int]) -> None:
            _score_all(*part, *rows, *self, *whole, scores)

        in_threads(work, _parts_of(rows[0]))
        return scores

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
        """Share every document among the classes by P(c, d)^β.

        Parameters
        ----------
        beta : of each document
        least : classes with less than this share of the best one's probability are left out
        most : so many classes are kept at most; their probabilities add up to one
        candidates : score at most so many nodes in full, of those that are among so many at which
            a word of the document adds most; None scores all
        only_matched : leave out nodes that no word adds anything to, on all their path
        """
        n_classes = int(self.column.max()) + 1
        width = min(n_classes, candidates or n_classes, most)
        rows = _rows(X)
        log_norm = np.empty(X.shape[0])
        pointers = self._pointers(candidates or 0)
        whole = self._whole(0 if candidates else X.nnz)

        def work(part: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            room = width * (part[1] - part[0])  # most of it is never touched
            ends = np.empty(part[1] - part[0], np.int64)
            into = width, np.empty(room, np.int32), np.empty(room), ends, log_norm
            if candidates:
                n = _share_some(*part, *rows, *self, *pointers, beta, least, candidates, *into)
            else:
                n = _share(*part, *rows, *self, *whole, beta, least, only_matched, *into)
            return np.diff(ends, prepend=0), into[1][:n].copy(), into[2][:n].copy()

        blocks = in_threads(work, _parts_of(rows[0]) or [(0, 0)])
        n_found, columns, chances = (np.concatenate(part) for part in zip(*blocks))
        indptr = np.append(0, np.cumsum(n_found))
        shape = (X.shape[0], n_classes)
        return Posteriors(sparse.csr_matrix((chances, columns, indptr), shape), log_norm)

    def _whole(self, n_occurrences: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the lists of common words as rows of all nodes, and the row of each word or -1.

        Most occurrences are of words that say something at most nodes, and a row is added several
        times as fast as a list. Where occurrences are too few for that to pay, there are none.
        """
        n_nodes = len(self.parent)
        if _WORTH_ROWS * n_occurrences < len(self.nodes):
            return np.empty(0, np.int32), np.empty((0, n_nodes))
        common = _COMMON * np.diff(self.indptr) >= n_nodes
        row_of = np.where(common, np.cumsum(common) - 1, -1).astype(np.int32)
        rows = np.zeros((np.count_nonzero(common), n_nodes))

        def work(part: tuple[int, int]) -> None:
            _spell_out(*part, self.indptr, self.nodes, self.values, row_of, rows)

        in_threads(work, _parts(len(row_of)))
        return row_of, rows

    def _pointers(self, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List the nodes at which each word adds most, and what it adds there."""
        n_listed = np.minimum(np.diff(self.indptr), most)
        indptr = np.append(0, np.cumsum(n_listed)).astype(np.int64)
        nodes, gains = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
        lists = self.indptr, self.nodes, self.values, self.counted
        tree = self.parent, self.bias, self.decay

        def work(part: tuple[int, int]) -> None:
            _point(*part, *lists, *tree, indptr, nodes, gains)

        in_threads(work, _parts(len(n_listed) if most else 0))
        return indptr, nodes, gains


def word_lists(by_word: Any, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the entries of each row, sorted, times a number."""
    rows = sparse.csr_matrix(by_word)
    rows.sort_indices()
    return rows.indptr, rows.indices, rows.data if scale == 1.0 else scale * rows.data


def _rows(X: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return X.indptr, X.indices, X.data.astype(np.float64, copy=False)


def _parts(n: int) -> list[tuple[int, int]]:
    """Cut words into parts: some for each thread, but none that is over at once."""
    size = min(max(n // _PARTS, _BLOCK), _LARGEST)
    return list(pairwise([*range(0, n, size), n]))


def _parts_of(indptr: np.ndarray) -> list[tuple[int, int]]:
    """Cut documents into such parts, which take about the same time, however long they are."""
    n = len(indptr) - 1
    n_parts = max(1, min(n // _BLOCK, _PARTS), -(-n // _LARGEST))
    took = indptr + _PER_DOCUMENT * np.arange(n + 1)
    cuts = np.searchsorted(took, took[-1] * np.arange(1, n_parts) / n_parts)
    return list(pairwise(np.unique([0, *cuts.tolist(), n]).tolist()))


@numba.njit(nogil=True, cache=True)
def _spell_out(
    first, last, w_indptr, w_nodes, w_values, row_of, rows
):  # pragma: no cover - compiled
    for w in range(first, last):
        if row_of[w] >= 0:
            for q in range(w_indptr[w], w_indptr[w + 1]):
                rows[row_of[w], w_nodes[q]] = w_values[q]


@numba.njit(nogil=True, cache=True)
def _add_up(
    d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, row_of, rows, total
):  # pragma: no cover - compiled
    """Add what a document's words say at the nodes where they say it; return its length."""
    length = 0.0
    for p in range(indptr[d], indptr[d + 1]):
        w, n = words[p], counts[p]
        if counted[w]:
            length += n
        if row_of.shape[0] and row_of[w] >= 0:
            row = np.uint64(
                row_of[w]
            )  # unsigned: numba need not ask whether it counts from the end
            for i in range(total.shape[0]):
                total[i] += n * rows[row, i]
            continue
        for q in range(w_indptr[w], w_indptr[w + 1]):
            total[w_nodes[q]] += n * w_values[q]
    return length


@numba.njit(nogil=True, cache=True)
def _score_all(
    first, last, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, end, bias,
    prior, column, decay, row_of, rows, scores
):  # fmt: skip  # pragma: no cover - compiled
    n_nodes = parent.shape[0]
    total = np.empty(n_nodes)
    for d in range(first, last):
        for i in range(n_nodes):
            total[i] = 0.0
        length = _add_up(
            d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, row_of, rows, total
        )
        for i in range(n_nodes):
            if parent[i] >= 0:
                total[i] += decay * total[parent[i]]
            if column[i] >= 0:
                scores[d, column[i]] = total[i] + length * bias[i] + prior[i]


# Documents are shared among all nodes, or among candidates, by two loops: to compile the second,
# which only large trees need, takes longer than all else. So does numba's own partition.


@numba.njit(nogil=True, cache=True)
def _share(
    first, last, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, end, bias,
    prior, column, decay, row_of, rows, beta, least, only_matched, most, found, chance, ends,
    log_norm
):  # fmt: skip  # pragma: no cover - compiled
    n_nodes = parent.shape[0]
    total = np.zeros(n_nodes)
    at = np.empty(n_nodes, np.int64)
    score = np.empty(n_nodes)
    n_kept = np.int64(0)
    for d in range(first, last):
        n = np.int64(0)  # of no literal type, for which `_keep` would be compiled again
        for i in range(n_nodes):
            total[i] = 0.0
        length = _add_up(
            d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, row_of, rows, total
        )
        for i in range(n_nodes):
            if parent[i] >= 0:
                total[i] += decay * total[parent[i]]
            if column[i] >= 0 and prior[i] > -np.inf and (total[i] != 0.0 or not only_matched):
                at[n] = i
                score[n] = total[i] + length * bias[i] + prior[i]
                n += 1
        n_kept, log_norm[d] = _keep(
            n, at, score, column, beta[d], least, most, n_kept, found, chance
        )
        ends[d - first] = n_kept
    return n_kept


@numba.njit(nogil=True, cache=True)
def _share_some(
    first, last, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, end, bias,
    prior, column, decay, p_indptr, p_nodes, p_gains, beta, least, candidates, most, found, chance,
    ends, log_norm
):  # fmt: skip  # pragma: no cover - compiled
    n_nodes = parent.shape[0]
    total = np.zeros(n_nodes)
    path = np.empty(n_nodes, np.int64)
    seen = np.full(n_nodes, -1)  # the last document that a node was looked at for
    at = np.empty(n_nodes, np.int64)
    score = np.empty(n_nodes)
    n_kept = np.int64(0)
    for d in range(first, last):
        n = _candidates(
            d, indptr, words, counts, p_indptr, p_nodes, p_gains, parent, end, prior, column,
            candidates, seen, total, at, score
        )  # fmt: skip
        _score_some(
            d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, bias,
            prior, decay, seen, total, path, at[:n], score
        )  # fmt: skip
        n_kept, log_norm[d] = _keep(
            n, at, score, column, beta[d], least, most, n_kept, found, chance
        )
        ends[d - first] = n_kept
    return n_kept


@numba.njit(nogil=True, cache=True)
def _keep(
    n, at, score, column, beta, least, most, n_kept, found, chance
):  # pragma: no cover - compiled
    """Add the nodes that a document is likeliest at, with their shares, to those that are kept.

    Returned are how many are kept by now, and the document's log norm.
    """
    if n == 0:
        return n_kept, 0.0
    top = score[0]
    for k in range(n):
        top = max(top, score[k])
    norm = 0.0
    n_near = 0
    for k in range(n):
        score[k] = np.exp(beta * (score[k] - top))
        norm += score[k]
        n_near += score[k] >= least
    bar = _nth_largest(score[:n], most) if n_near > most else least
    start, kept = n_kept, 0.0
    for k in range(n):
        if score[k] >= bar and n_kept - start < most:
            found[n_kept] = column[at[k]]
            chance[n_kept] = score[k]
            n_kept += 1
            kept += score[k]
    for q in range(start, n_kept):
        chance[q] /= kept
    return n_kept, top + np.log(norm) / beta


@numba.njit(nogil=True, cache=True)
def _nth_largest(values, n):  # pragma: no cover - compiled
    """Return the n-th largest value, by halving the range in which it is."""
    rest = values.copy()
    low, high, place = 0, len(rest) - 1, n - 1
    while low < high:
        pivot = rest[(low + high) // 2]
        i, k = low, high
        while i <= k:
            while rest[i] > pivot:
                i += 1
            while rest[k] < pivot:
                k -= 1
            if i <= k:
                rest[i], rest[k] = rest[k], rest[i]
                i += 1
                k -= 1
        if place <= k:
            high = k
        elif place >= i:
            low = i
        else:
            break
    return rest[place]


@numba.njit(nogil=True, cache=True)
def _point(
    first, last, w_indptr, w_nodes, w_values, counted, parent, bias, decay, p_indptr, p_nodes,
    p_gains
):  # fmt: skip  # pragma: no cover - compiled
    """Find the nodes at which words add most: along the path, above what they add at the root."""
    total = np.empty(parent.shape[0])
    listed = np.full(parent.shape[0], -1)
    for w in range(first, last):
        nodes = w_nodes[w_indptr[w] : w_indptr[w + 1]]
        gains = np.empty(len(nodes))
        for k in range(len(nodes)):
            i = nodes[k]
            above, worth = parent[i], decay
            while above >= 0 and listed[above] != w:
                above = parent[above]
                worth *= decay
            total[i] = w_values[w_indptr[w] + k] + (worth * total[above] if above >= 0 else 0.0)
            listed[i] = w
            gains[k] = total[i] + (bias[i] if counted[w] else 0.0)
        if len(nodes) and nodes[0] == 0:
            gains -= gains[0]
        n = p_indptr[w + 1] - p_indptr[w]
        bar = -np.inf
        if n < len(nodes):
            bar = _nth_largest(gains, n)
        q = p_indptr[w]
        for k in range(len(nodes)):
            if gains[k] >= bar and q < p_indptr[w + 1]:
                p_nodes[q] = nodes[k]
                p_gains[q] = max(gains[k], 0.0)
                q += 1


@numba.njit(nogil=True, cache=True)
def _candidates(
    d, indptr, words, counts, p_indptr, p_nodes, p_gains, parent, end, prior, column, candidates,
    seen, total, at, gain
):  # fmt: skip  # pragma: no cover - compiled
    """List the classes that a document's words point to, or if these are few, those below them.

    `total` holds the gains of nodes where `seen` names this document.
    """
    n_pointed = 0
    for p in range(indptr[d], indptr[d + 1]):
        for q in range(p_indptr[words[p]], p_indptr[words[p] + 1]):
            i = p_nodes[q]
            if seen[i] != 2 * d:
                seen[i] = 2 * d
                total[i] = 0.0
                at[n_pointed] = i
                n_pointed += 1
            total[i] += counts[p] * p_gains[q]
    pointed = at[:n_pointed].copy()
    n = 0
    for i in pointed:
        if column[i] >= 0 and prior[i] > -np.inf:
            at[n] = i
            gain[n] = total[i]
            n += 1
    if n > candidates:
        bar = _nth_largest(gain[:n], candidates)
        n_all, n = n, 0
        for k in range(n_all):
            if gain[k] >= bar and n < candidates:
                at[n] = at[k]
                n += 1
    elif n < candidates:
        for i in pointed[np.argsort(-total[pointed])]:
            if n == candidates or total[i] <= 0:
                break
            for j in range(i + 1, end[i]):
                if n < candidates and column[j] >= 0 and prior[j] > -np.inf and seen[j] != 2 * d:
                    seen[j] = 2 * d
                    at[n] = j
                    n += 1
    return n


@numba.njit(nogil=True, cache=True)
def _score_some(
    d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, bias, prior, decay,
    seen, total, path, at, score
):  # fmt: skip  # pragma: no cover - compiled
    """Score a document at some nodes: its words are looked up once at each node of their paths."""
    n = 0
    for i in at:
        while i >= 0 and seen[i] != 2 * d + 1:
            seen[i] = 2 * d + 1
            total[i] = 0.0
            path[n] = i
            n += 1
            i = parent[i]
    length = 0.0
    for p in range(indptr[d], indptr[d + 1]):
        w = words[p]
        if counted[w]:
            length += counts[p]
        first, last = w_indptr[w], w_indptr[w + 1]
        n_lacking = parent.shape[0] - (last - first)
        for i in path[:n]:  # its place is at most i, and less by no more than the list lacks
            low, high = first + max(i - n_lacking, 0), min(first + i + 1, last)
            q = low + np.searchsorted(w_nodes[low:high], i)
            if q < high and w_nodes[q] == i:
                total[i] += counts[p] * w_values[q]
    for k in range(len(at)):
        i, worth = at[k], 1.0
        score[k] = length * bias[i] + prior[i]
        while i >= 0:
            score[k] += worth * total[i]
            worth *= decay
            i = parent[i]
