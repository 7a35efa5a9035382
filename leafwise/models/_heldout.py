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

from leafwise.models._sums import scale_rows

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
) -> sparse.csr_matrix:
    """Count what else is needed of a block of documents, classes × (words + 1); blocks add up.

    A document that belongs to a class by a fraction is still one document, and its words are still
    as many occurrences: each weighs less, and no more than that can be left out. Weights above 1
    stand for several documents.

    For "occurrence": how many more occurrences there are than counts, which is nothing where
    counts are whole numbers and each document is of one class. For "document": in how many
    documents of a class each word is, and in the last column how many there are. For a fraction:
    the words of documents held out. A document's own words decide whether it is: so the order
    of documents, and how they are cut into blocks, change nothing, and two copies of one document
    are never on both sides.
    """
    shape = (membership.shape[1], X.shape[1] + 1)
    if holdout == "occurrence":
        whole = not (membership.data < 1).any() and not (X.data % 1).any()
        if whole:
            return sparse.csr_matrix(shape)
        more = _documents(membership).T @ _mapped(X, np.ceil(X.data)) - membership.T @ X
        return _widened(sparse.csr_matrix(more), np.zeros(shape[0]))
    if holdout == "document":
        documents = _documents(membership)
        n_with_word = documents.T @ _mapped(X, X.data > 0)
        return _widened(sparse.csr_matrix(n_with_word), np.asarray(documents.sum(axis=0)).ravel())
    held = (uniform_of_rows(X, seed) < float(holdout)).astype(float)
    counts = sparse.csr_matrix(scale_rows(membership, held).T @ X)
    return _widened(counts, np.zeros(shape[0]))


def _documents(membership: sparse.csr_matrix) -> sparse.csr_matrix:
    return _mapped(membership, np.maximum(membership.data, membership.data > 0))


def _mapped(matrix: sparse.csr_matrix, data: np.ndarray) -> sparse.csr_matrix:
    return sparse.csr_matrix((data.astype(float), matrix.indices, matrix.indptr), matrix.shape)


def _widened(matrix: sparse.csr_matrix, column: np.ndarray) -> sparse.csr_matrix:
    return sparse.csr_matrix(sparse.hstack([matrix, sparse.csr_matrix(column[:, None])]))


def held_out(counts: sparse.csr_matrix, evidence: sparse.csr_matrix, holdout: Holdout) -> HeldOut:
    """Turn counts into evidence, in the order of the pairs of `counts`."""
    n = counts.data
    of_pair = _aligned(evidence[:, :-1], counts)
    if holdout == "occurrence":
        removed = np.divide(n, n + of_pair, out=np.ones_like(n), where=n > 0)
        return HeldOut(n, n, np.minimum(removed, n), None)
    if holdout == "document":
        # Of a word's n occurrences in df documents, the average document has n / df; and it
        # has 1 / N of all words of its class.
        n_documents = evidence[:, [-1]].toarray().ravel()
        length = np.asarray(counts.sum(axis=1)).ravel()
        return HeldOut(n, n, n / np.maximum(of_pair, 1.0), length / np.maximum(n_documents, 1.0))
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


def uniform_of_rows(X: sparse.csr_matrix, seed: int) -> np.ndarray:
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
