"""Which documents a person should label next.

A label tells most of a document that may well be wrong, and of the many like it that may be wrong
with it. So documents are chosen to lie near as much as possible of what is in doubt: a facility
location, for which taking the one that gains most, again and again, does well. What a choice gains
only falls as others are made, so a heap of gains that may be out of date finds the largest.
"""

from __future__ import annotations

import heapq
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from leafwise.models._top_k import nearly_top_k, top_k

STRATEGIES = ("mix", "uncertainty", "diversity", "coverage", "random")
_ALIKE = 0.8  # the cosine above which two documents are nearly the same
_K = 50  # documents that one stands for, itself included
_CANDIDATES = 5_000  # the most documents whose neighbours are looked for at once
_EXACT = 100_000_000  # pairs of documents from which on neighbours are approximate
_BLOCK = 1 << 22  # probabilities at a time


def choose(
    n: int,
    strategy: str,
    proba: np.ndarray,
    vectors: sparse.csr_matrix,
    labelled: np.ndarray,
    evidence: np.ndarray,
    random_state: Any = 0,
) -> np.ndarray:
    """Return the numbers of the n documents to label next, the most wanted first.

    There are fewer only where fewer are without a label. Documents without words come last. The
    order of documents changes nothing but which of several with the same vector is chosen.

    Parameters
    ----------
    n : how many
    strategy : {"mix", "uncertainty", "diversity", "coverage", "random"}
        "uncertainty": those whose best two nodes are nearest to each other. "diversity": those
        that many others are like, but none that has a label or is already chosen. "coverage": of
        each node without a label, the likeliest document; then of those with the fewest labels.
        "mix": the likeliest document of each node without evidence; then as "diversity", where
        others count by how likely they are to be wrong. "random": any, to compare with.
    proba : P(class | document), documents × classes
    vectors : weighed words, rows of length 1 or without words; nothing below 0
    labelled : whether each document has a label
    evidence : how many labels each class has. For "mix", count keywords as one more: where they
        sort documents already, serving nodes first that have no label took more answers than it
        was worth (`benchmarks/review.py`).
    random_state : seed or Generator of "random"

    With "mix" and "diversity", documents that are nearly the same as one with a label or as one
    already chosen (a cosine above .8) wait until nothing else is left.
    """
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n={n!r}: expected a number of documents of at least 1.")
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r}: expected one of {STRATEGIES}.")
    labelled = np.asarray(labelled, bool)
    best, second = _best_two(proba)
    # By content, so that the order of documents changes nothing.
    key = vectors @ np.random.default_rng(0).random(vectors.shape[1])
    order = np.lexsort([second, best, key])
    known, order = order[labelled[order]], order[~labelled[order]]
    wordless = np.diff(vectors.indptr)[order] == 0
    order, last = order[~wordless], order[wordless]
    if strategy == "random":
        chosen = np.random.default_rng(random_state).permutation(order)
    elif strategy == "uncertainty":
        chosen = order[np.argsort((best - second)[order], kind="stable")]
    elif strategy == "coverage":
        chosen = order[_cover(n, proba, order, evidence)]
    else:
        n_empty = np.count_nonzero(np.asarray(evidence) == 0) if strategy == "mix" else 0
        first = _cover(min(n, n_empty), proba, order, evidence)
        doubt = 1 - best[order] if strategy == "mix" else np.ones(len(order))
        chosen = order[_stand_for(n, first, vectors[order], vectors[known], doubt)]
    return np.concatenate([chosen, last])[:n]


def _best_two(proba: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest and the next of each row's numbers; of a single one, that and 0."""
    found = np.zeros((2, len(proba)))
    step = max(1, _BLOCK // max(1, proba.shape[1]))
    for start in range(0, len(proba), step):
        block = np.array(proba[start : start + step])
        row, at = np.arange(len(block)), block.argmax(axis=1)
        found[0, start : start + step] = block[row, at]
        block[row, at] = 0.0
        found[1, start : start + step] = block.max(axis=1)
    return found[0], found[1]


def _cover(n: int, proba: np.ndarray, order: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Give each class in turn its likeliest document, by place in `order`, the barest class first.

    Of classes with the same evidence, the one with the likeliest document goes first. A document
    counts as evidence for the class that it was chosen for.
    """
    evidence = np.array(evidence, float)
    surest = np.zeros(proba.shape[1])
    step = max(1, _BLOCK // max(1, proba.shape[1]))
    for start in range(0, len(order), step):
        surest = np.maximum(surest, proba[order[start : start + step]].max(axis=0))
    left = np.ones(len(order), bool)
    chosen = []
    for _ in range(min(n, len(order))):
        column = np.lexsort([-surest, evidence])[0]
        at = int(np.where(left, proba[order, column], -1.0).argmax())
        left[at] = False
        chosen.append(at)
        evidence[column] += 1
    return np.array(chosen, np.int64)


class _Batch:
    """Rows of V that were chosen, and how near each row is to the nearest of these or of others."""

    def __init__(self, V: sparse.csr_matrix, known: sparse.csr_matrix):
        self.V = V
        self.rows: list[int] = []
        self.near = _nearest(V, known, 1)[1].max(axis=1, initial=0.0)
        self._rows_with_word = sparse.csr_matrix(V.T)

    def add(self, row: int) -> None:
        self.rows.append(row)
        cosine = self.V[[row]] @ self._rows_with_word
        at = cosine.indices
        self.near[at] = np.maximum(self.near[at], cosine.data)

    def add_greedily(self, n: int, doubt: np.ndarray, candidates: np.ndarray) -> None:
        """Add candidates, until there are n rows or all that are left are nearly the same as some.

        Row i gains Σ_j doubt_j max(0, cosine_ij - near_j), over the j nearest to it.
        """
        neighbours, cosine = _nearest(self.V[candidates], self.V, _K)
        weight = np.where(neighbours >= 0, doubt[neighbours], 0.0)

        def gain(c: Any) -> Any:
            return (weight[c] * np.maximum(cosine[c] - self.near[neighbours[c]], 0.0)).sum(axis=-1)

        heap = list(zip((-gain(slice(None))).tolist(), range(len(candidates))))
        heapq.heapify(heap)
        while heap and len(self.rows) < n:
            c = heap[0][1]
            if self.near[candidates[c]] > _ALIKE:
                heapq.heappop(heap)
            elif (now := (-float(gain(c)), c)) > heap[0]:
                heapq.heapreplace(heap, now)  # it gains less since others were chosen
            else:
                heapq.heappop(heap)
                self.add(int(candidates[c]))


def _stand_for(
    n: int, first: np.ndarray, V: sparse.csr_matrix, known: sparse.csr_matrix, doubt: np.ndarray
) -> np.ndarray:
    """Choose rows of V: some first, then those near much that is in doubt; returns all in order."""
    batch = _Batch(V, known)
    for row in first.tolist():
        if batch.near[row] <= _ALIKE:
            batch.add(row)
    # Over all j, and with nothing near, a gain is but two products: enough to say who is asked.
    wanted = np.argsort(-(V @ (V.T @ doubt)), kind="stable")
    while len(batch.rows) < n and len(left := wanted[batch.near[wanted] <= _ALIKE]):
        batch.add_greedily(n, doubt, left[:_CANDIDATES])
    return np.append(batch.rows, wanted[~np.isin(wanted, batch.rows)]).astype(np.int64)


def _nearest(A: sparse.csr_matrix, B: sparse.csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k rows of B nearest to each row of A, and their cosines; -1, and 0, for none."""
    find = top_k if A.shape[0] * B.shape[0] <= _EXACT else nearly_top_k
    return find(A, B, np.zeros(B.shape[0]), k)
