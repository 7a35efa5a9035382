"""Which documents a person should label next.

A label tells most of a document that may well be wrong, and of the many like it that may be wrong
with it. So documents are chosen to lie near as much as possible of what is in doubt: a facility
location, which the usual greedy algorithm solves within 1 - 1/e of the best. What a choice gains
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
_CANDIDATES = 5_000  # the most documents whose neighbours are looked for
_EXACT = 30_000  # the most documents whose neighbours are not approximate
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
        "mix": as "diversity", where others count by how likely they are to be wrong. "random": any,
        to compare with.
    proba : P(class | document), documents × classes
    vectors : weighed words, rows of length 1 or without words; nothing below 0
    labelled : whether each document has a label
    evidence : how many labels each class has
    random_state : seed or Generator of "random"

    With "mix" and "diversity", documents that are nearly the same as one with a label or as one
    already chosen (a cosine above .8) wait until nothing else is left.
    """
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n={n!r}: expected a number of documents of at least 1.")
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r}: expected one of {STRATEGIES}.")
    best, second = _best_two(proba)
    # By content, so that the order of documents changes nothing.
    key = vectors @ np.random.default_rng(0).random(vectors.shape[1])
    order = np.lexsort([second, best, key])
    order = order[~np.asarray(labelled, bool)[order]]
    wordless = np.diff(vectors.indptr)[order] == 0
    order, last = order[~wordless], order[wordless]
    if strategy == "random":
        chosen = np.random.default_rng(random_state).permutation(order)
    elif strategy == "uncertainty":
        chosen = order[np.argsort((best - second)[order], kind="stable")]
    elif strategy == "coverage":
        chosen = _cover(n, proba, order, evidence)
    else:
        doubt = 1 - best[order] if strategy == "mix" else np.ones(len(order))
        chosen = order[_stand_for(n, vectors[order], doubt, vectors[labelled])]
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
    """Give each class in turn its likeliest document, those with the least evidence first.

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
        chosen.append(order[at])
        evidence[column] += 1
    return np.array(chosen, dtype=order.dtype)


def _stand_for(
    n: int, V: sparse.csr_matrix, doubt: np.ndarray, known: sparse.csr_matrix
) -> np.ndarray:
    """Choose rows of V that lie near much of what is in doubt, and near no known row or other.

    Row i gains Σ_j doubt_j max(0, cosine_ij - near_j), over the j nearest to it, where near_j is
    the cosine of j and the nearest row that is known or chosen.
    """
    near = _nearest(V, known, 1)[1].max(axis=1, initial=0.0)
    # Over all j, and with nothing near, the gain is but two products: enough to say who is asked.
    wanted = np.argsort(-(V @ (V.T @ doubt)), kind="stable")
    chosen: list[int] = []
    while len(chosen) < n and len(left := wanted[near[wanted] <= _ALIKE]):
        near = _add_greedily(n, chosen, V, doubt, near, left[:_CANDIDATES])
    return np.append(chosen, wanted[~np.isin(wanted, chosen)]).astype(np.int64)


def _add_greedily(
    n: int,
    chosen: list[int],
    V: sparse.csr_matrix,
    doubt: np.ndarray,
    near: np.ndarray,
    candidates: np.ndarray,
) -> np.ndarray:
    """Add to the chosen rows, up to n, those candidates that gain most; returns `near` anew."""
    neighbours, cosine = _nearest(V[candidates], V, _K)
    weight = np.where(neighbours >= 0, doubt[neighbours], 0.0)

    def gain(c: Any) -> Any:
        return (weight[c] * np.maximum(cosine[c] - near[neighbours[c]], 0.0)).sum(axis=-1)

    heap = list(zip((-gain(slice(None))).tolist(), range(len(candidates))))
    heapq.heapify(heap)
    while heap and len(chosen) < n:
        c = heap[0][1]
        row = int(candidates[c])
        if near[row] > _ALIKE:
            heapq.heappop(heap)
        elif (now := (-float(gain(c)), c)) > heap[0]:
            heapq.heapreplace(heap, now)  # it gains less since others were chosen
        else:
            heapq.heappop(heap)
            chosen.append(row)
            near = np.maximum(near, V @ V[[row]].toarray()[0])
    return near


def _nearest(A: sparse.csr_matrix, B: sparse.csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k rows of B nearest to each row of A, and their cosines; -1, and 0, for none."""
    find = top_k if B.shape[0] <= _EXACT else nearly_top_k
    return find(A, B, np.zeros(B.shape[0]), k)
