"""Held-out evidence from counts alone: what the weights of a mixture are fitted to.

Weights fitted to the very words that the word distributions were made of would all go to the most
specific ones. So each occurrence is explained by what is known without it, which takes counts per
class and word and nothing else (`holdout="occurrence"`).
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

Holdout = str | float


class HeldOut(NamedTuple):
    """For each class × word pair, what is to be explained, and what it is explained without.

    Attributes
    ----------
    mass : how much evidence the pair is
    kept : its count in the word distributions that explain it
    removed : how much of `kept` is left out with each piece of evidence
    removed_length : how many words are left out of each class with it; None: `removed` itself
    """

    mass: np.ndarray
    kept: np.ndarray
    removed: np.ndarray
    removed_length: np.ndarray | None


def check_holdout(holdout: Any) -> None:
    if isinstance(holdout, str):
        known = holdout in ("occurrence", "document")
    else:
        known = isinstance(holdout, Real) and 0 < float(holdout) < 1
    if not known:
        raise ValueError(
            f'holdout={holdout!r}: expected "occurrence", "document", or the fraction of documents '
            "to hold out, between 0 and 1."
        )


def evidence_statistics(
    X: sparse.csr_matrix, membership: sparse.csr_matrix, holdout: Holdout, seed: int
) -> tuple[sparse.csr_matrix, ...]:
    """Count what else is needed of a block of documents; blocks add up.

    Nothing for "occurrence"; for "document" in how many documents of a class each word is; for a
    fraction the words of documents held out. A document's own words decide whether it is: so the
    order of documents, and how they are cut into blocks, change nothing, and two copies of one
    document are never on both sides.
    """
    if holdout == "occurrence":
        return ()
    if holdout == "document":
        present = sparse.csr_matrix((np.ones_like(X.data, float), X.indices, X.indptr), X.shape)
        present.data[X.data <= 0] = 0.0
        return (sparse.csr_matrix(membership.T @ present),)
    held = _uniform_of_rows(X, seed) < float(holdout)
    return (sparse.csr_matrix((sparse.diags_array(held.astype(float)) @ membership).T @ X),)


def held_out(
    counts: sparse.csr_matrix,
    documents: np.ndarray,
    evidence: sparse.csr_matrix | None,
    holdout: Holdout,
) -> HeldOut:
    """Turn counts into evidence, in the order of the pairs of `counts`."""
    n = counts.data
    if holdout == "occurrence" or evidence is None:
        return HeldOut(n, n, np.minimum(n, 1.0), None)
    of_pair = _aligned(evidence, counts)
    if holdout == "document":
        # Of a word's n occurrences in df documents, the average document has n / df; and it
        # has 1 / N of all words of its class.
        removed = n / np.maximum(of_pair, 1.0)
        length = np.asarray(counts.sum(axis=1)).ravel()
        return HeldOut(n, n, removed, length / np.maximum(documents, 1.0))
    nothing = np.zeros_like(n)
    return HeldOut(of_pair, np.maximum(n - of_pair, 0.0), nothing, np.zeros(counts.shape[0]))


def _aligned(values: sparse.csr_matrix, pattern: sparse.csr_matrix) -> np.ndarray:
    """Return the entries of one matrix at the places of another, which has all of them."""
    n_words = pattern.shape[1]

    def keys(matrix: sparse.csr_matrix) -> np.ndarray:
        row = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
        return row * n_words + matrix.indices

    values = sparse.csr_matrix(values)
    values.sum_duplicates()
    out = np.zeros(len(pattern.data))
    wanted, there = keys(values), keys(pattern)
    at = np.searchsorted(there, wanted)
    known = at < len(there)
    known[known] = there[at[known]] == wanted[known]
    out[at[known]] = values.data[known]
    return out


def _uniform_of_rows(X: sparse.csr_matrix, seed: int) -> np.ndarray:
    """A number in [0, 1) for each row that depends on its words and counts alone."""
    with np.errstate(over="ignore"):
        key = X.indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        key ^= X.data.astype(np.float64).view(np.uint64) + np.uint64(seed)
        key = _scrambled(key)
        key[X.data == 0] = 0
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(key, dtype=np.uint64)])
        of_row = total[X.indptr[1:]] - total[X.indptr[:-1]]
        return (_scrambled(of_row) >> np.uint64(11)).astype(float) * 2.0**-53


def _scrambled(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
