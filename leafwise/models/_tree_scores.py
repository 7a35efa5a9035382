"""Scores that add up along the paths of a tree: which nodes a document may belong to.

A word that a branch does not have says of all its nodes what it says of the node above. So what a
word adds is kept where it differs, per word, as a list of nodes, and a document's score at a node
is a sum over the node's path. All nodes are scored in one pass down the tree; or, in large trees,
only those few that the document's rarer words point to.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

from leafwise.models._em import in_threads

_BLOCK = 512  # documents at a time
_BELOW = 8  # nodes below those that are pointed to, for each candidate
_VISITS = 32  # nodes that a word may be listed at, for each candidate, to point to any


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
        rows = _rows(X)

        def work(part: tuple[int, int]) -> None:
            _score_all(*part, *rows, *self, scores)

        in_threads(work, _parts(X.shape[0]))
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
        candidates : score at most so many nodes in full; None scores all
        only_matched : leave out nodes that no word adds anything to, on all their path
        """
        n_classes = int(self.column.max()) + 1
        width = min(n_classes, candidates or n_classes, most)
        rows = _rows(X)
        log_norm = np.empty(X.shape[0])

        def work(part: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            n = part[1] - part[0]
            found, chance = np.empty((n, width), np.int32), np.empty((n, width))
            n_found = np.empty(n, np.int64)
            _share(
                *part, *rows, *self, beta, least, candidates or 0,
                _VISITS * (candidates or 0), only_matched,
                found, chance, n_found, log_norm,
            )  # fmt: skip
            kept = np.arange(width) < n_found[:, None]
            return n_found, found[kept], chance[kept]

        blocks = in_threads(work, _parts(X.shape[0]))
        n_found, columns, chances = (np.concatenate(part) for part in zip(*blocks))
        indptr = np.append(0, np.cumsum(n_found))
        shape = (X.shape[0], n_classes)
        return Posteriors(sparse.csr_matrix((chances, columns, indptr), shape), log_norm)


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


def word_lists(by_word: Any, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the entries of each row, sorted, times a number."""
    rows = sparse.csr_matrix(by_word)
    rows.sort_indices()
    return rows.indptr, rows.indices, scale * rows.data


def _rows(X: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return X.indptr, X.indices, X.data.astype(np.float64, copy=False)


def _parts(n_documents: int) -> list[tuple[int, int]]:
    return list(pairwise([*range(0, n_documents, _BLOCK), n_documents]))


@numba.njit(nogil=True, cache=True)
def _add_up(
    d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, total
):  # pragma: no cover - compiled
    """Add what a document's words say at the nodes where they say it; return its length."""
    length = 0.0
    for p in range(indptr[d], indptr[d + 1]):
        w, n = words[p], counts[p]
        if counted[w]:
            length += n
        for q in range(w_indptr[w], w_indptr[w + 1]):
            total[w_nodes[q]] += n * w_values[q]
    return length


@numba.njit(nogil=True, cache=True)
def _score_all(
    first, last, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, end, bias,
    prior, column, decay, scores
):  # fmt: skip  # pragma: no cover - compiled
    n_nodes = parent.shape[0]
    total = np.empty(n_nodes)
    for d in range(first, last):
        total[:] = 0.0
        length = _add_up(d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, total)
        for i in range(n_nodes):
            if parent[i] >= 0:
                total[i] += decay * total[parent[i]]
            if column[i] >= 0:
                scores[d, column[i]] = total[i] + length * bias[i] + prior[i]


@numba.njit(nogil=True, cache=True)
def _share(
    first, last, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, end, bias,
    prior, column, decay, beta, least, candidates, visits, only_matched, found, chance, n_found,
    log_norm
):  # fmt: skip  # pragma: no cover - compiled
    n_nodes = parent.shape[0]
    total = np.zeros(n_nodes)
    summed = np.empty(n_nodes if candidates else 0)
    path = np.empty(n_nodes if candidates else 0, np.int64)
    seen = np.full(n_nodes, -1)  # the last document that a node was looked at for
    at = np.empty(n_nodes, np.int64)
    score = np.empty(n_nodes)
    for d in range(first, last):
        if candidates:
            n = _candidates(
                d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, end, bias,
                prior, column, decay, candidates, visits, seen, total, summed, path, at, score
            )  # fmt: skip
        else:
            n = 0
            total[:] = 0.0
            length = _add_up(d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, total)
            for i in range(n_nodes):
                if parent[i] >= 0:
                    total[i] += decay * total[parent[i]]
                if column[i] >= 0 and prior[i] > -np.inf and (total[i] != 0.0 or not only_matched):
                    at[n] = i
                    score[n] = total[i] + length * bias[i] + prior[i]
                    n += 1
        r = d - first
        n_found[r] = 0
        log_norm[d] = 0.0
        if n == 0:
            continue
        top = score[:n].max()
        norm = 0.0
        n_near = 0
        for k in range(n):
            score[k] = np.exp(beta[d] * (score[k] - top))
            norm += score[k]
            n_near += score[k] >= least
        log_norm[d] = top + np.log(norm) / beta[d]
        bar = least
        if n_near > found.shape[1]:
            bar = np.partition(score[:n], n - found.shape[1])[n - found.shape[1]]
        kept = 0.0
        for k in range(n):
            if score[k] >= bar and n_found[r] < found.shape[1]:
                found[r, n_found[r]] = column[at[k]]
                chance[r, n_found[r]] = score[k]
                n_found[r] += 1
                kept += score[k]
        for k in range(n_found[r]):
            chance[r, k] /= kept


@numba.njit(nogil=True, cache=True)
def _candidates(
    d, indptr, words, counts, w_indptr, w_nodes, w_values, counted, parent, end, bias,
    prior, column, decay, candidates, visits, seen, total, summed, path, at, score
):  # fmt: skip  # pragma: no cover - compiled
    """Find the nodes that a document's rarer words point to, and score the best of them in full.

    A node that no word points to differs from the one above by its bias alone, so nodes below
    the best ones are candidates too. `total` holds the sums of nodes, and `summed` those of
    paths, where `seen` names this document (2 d, and 2 d + 1 once the path is summed).
    """
    begin, stop = indptr[d], indptr[d + 1]
    spread = np.empty(stop - begin, np.int64)
    length = 0.0
    for p in range(begin, stop):
        spread[p - begin] = w_indptr[words[p] + 1] - w_indptr[words[p]]
        if counted[words[p]]:
            length += counts[p]
    order = np.argsort(spread)
    n, used = 0, 0
    for k in order:
        if used and spread[k] > visits:
            break
        used += 1
        w = words[begin + k]
        for q in range(w_indptr[w], w_indptr[w + 1]):
            i = w_nodes[q]
            if seen[i] != 2 * d:
                seen[i] = 2 * d
                total[i] = 0.0
                at[n] = i
                n += 1
            total[i] += counts[begin + k] * w_values[q]
    for k in range(n):
        i = at[k]
        _sum_path(i, d, parent, decay, seen, total, summed, path)
        score[k] = summed[i] + length * bias[i]
    bar = -np.inf
    if n > candidates:
        bar = np.partition(score[:n], n - candidates)[n - candidates]
    kept = 0
    most = min(n + _BELOW * candidates, at.shape[0])
    for k in range(n):
        if score[k] >= bar:
            for j in range(at[k] + 1, end[at[k]]):
                if n == most:
                    break
                if column[j] >= 0 and seen[j] < 2 * d:
                    total[j] = 0.0
                    seen[j] = 2 * d
                    _sum_path(j, d, parent, decay, seen, total, summed, path)
                    at[n] = j
                    score[n] = summed[j] + length * bias[j]
                    n += 1
    for k in range(n):  # classes alone
        i = at[k]
        if column[i] >= 0 and prior[i] > -np.inf:
            at[kept] = i
            score[kept] = score[k] + prior[i]
            kept += 1
    if kept > candidates:
        bar = np.partition(score[:kept], kept - candidates)[kept - candidates]
        n, kept = kept, 0
        for k in range(n):
            if score[k] >= bar and kept < candidates:
                at[kept] = at[k]
                score[kept] = score[k]
                kept += 1
    for k in range(kept):  # the words that too many nodes share
        for o in order[used:]:
            w = words[begin + o]
            i, worth = at[k], 1.0
            while i >= 0:
                q = w_indptr[w] + np.searchsorted(w_nodes[w_indptr[w] : w_indptr[w + 1]], i)
                if q < w_indptr[w + 1] and w_nodes[q] == i:
                    score[k] += worth * counts[begin + o] * w_values[q]
                worth *= decay
                i = parent[i]
    return kept


@numba.njit(nogil=True, cache=True)
def _sum_path(i, d, parent, decay, seen, total, summed, path):  # pragma: no cover - compiled
    """Sum over the path of a node, and keep the sums of the nodes that words point to."""
    n = 0
    while i >= 0 and seen[i] != 2 * d + 1:
        path[n] = i
        n += 1
        i = parent[i]
    above = summed[i] if i >= 0 else 0.0
    for k in range(n - 1, -1, -1):
        j = path[k]
        above *= decay
        if seen[j] == 2 * d:
            above += total[j]
            seen[j] = 2 * d + 1
            summed[j] = above
