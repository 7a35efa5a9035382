"""Word counts along the paths of a tree: which words each level of a class's path has, how often.

A class draws its words from *sources*: its own documents first, then every inner node between it
and the root (the class itself too, where it is one), each with all documents below it. Everything
here is as large as the number of distinct (source, word) pairs, whatever the number of documents.
"""

from __future__ import annotations

import numba
import numpy as np
from scipy import sparse

from leafwise.taxonomy import Taxonomy


class Paths:
    """The sources of each class, and where each of its words stands in their lists of words.

    Parameters
    ----------
    taxonomy : the tree
    nodes : the node of each class
    counts : CSR matrix, classes × words, of what is to be summed along paths
    above : False leaves only a class's own documents: no hierarchy

    Attributes
    ----------
    path : int array, classes × levels
        The source at each level, a class's own first, the root last; -1 past the root.
    source_node : int array
        The node of each source.
    indptr, words, n : the class × word pairs: where each class begins, their words and counts
    row : the class of each pair
    level : int array, pairs × levels
        Where the pair's word is in the list of (source, word) pairs; the list's length, past the
        root, where arrays of `pool` have a 0. The first pairs are the classes' own.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        nodes: np.ndarray,
        counts: sparse.csr_matrix,
        above: bool = True,
    ):
        counts = sparse.csr_matrix(counts, dtype=np.float64)
        counts.sum_duplicates()
        n_classes, self.n_words = counts.shape
        is_leaf = taxonomy.end == np.arange(1, len(taxonomy) + 1)
        lists = []
        for node in nodes.tolist():
            line = [node, *taxonomy.ancestors(node)] if above else []
            lists.append([v for v in line if not is_leaf[v]])
        inner = np.unique(np.array([v for line in lists for v in line], dtype=np.int64))
        source_of_node = np.full(len(taxonomy), -1)
        source_of_node[inner] = n_classes + np.arange(len(inner))
        self.n_levels = 1 + max((len(line) for line in lists), default=0)
        self.path = np.full((n_classes, self.n_levels), -1)
        self.path[:, 0] = np.arange(n_classes)
        for c, line in enumerate(lists):
            self.path[c, 1 : 1 + len(line)] = source_of_node[line]
        self.source_node = np.concatenate([nodes, inner]).astype(np.int64)

        classes, levels = np.nonzero(self.path[:, 1:] >= 0)
        sources = self.path[classes, levels + 1] - n_classes
        shape = (len(inner), n_classes)
        below = sparse.csr_matrix((np.ones(len(classes)), (sources, classes)), shape)
        at_level = sparse.csr_matrix((levels + 1.0, (sources, classes)), shape)
        pooled = (below @ counts).tocsr()
        pooled.sort_indices()
        self.indptr = counts.indptr.astype(np.int64)
        self.words, self.n = counts.indices, counts.data
        self.row = np.repeat(np.arange(n_classes), np.diff(self.indptr))
        own = len(self.n)
        self.n_pairs = own + pooled.nnz
        self.source_indptr = np.concatenate([self.indptr, own + pooled.indptr[1:]])
        self.source_words = np.concatenate([self.words, pooled.indices])
        self.level = np.full((own, self.n_levels), self.n_pairs, dtype=np.int64)
        self.level[:, 0] = np.arange(own)
        at_level.sort_indices()
        _find_words(
            pooled.indptr.astype(np.int64),
            pooled.indices,
            at_level.indptr.astype(np.int64),
            at_level.indices,
            at_level.data.astype(np.int64),
            self.indptr,
            self.words,
            np.empty(self.n_words, np.int64),
            own,
            self.level,
        )

    def pool(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum along paths what each pair gives to each level.

        Parameters
        ----------
        shares : pairs × levels, or one number per pair that every level gets whole

        Returns
        -------
        mass, length : of each (source, word) pair with a 0 at the end; and of each source
        """
        mass = np.zeros(self.n_pairs + 1)
        if shares.ndim == 1:
            shares = np.broadcast_to(shares[:, None], self.level.shape)
        _add_up(self.level, shares, mass)
        mass[-1] = 0.0
        return mass, self.lengths(mass)

    def lengths(self, mass: np.ndarray) -> np.ndarray:
        """Sum over the words of each source; with a 0 at the end, for no source."""
        length = np.zeros(len(self.source_node) + 1)
        starts, ends = self.source_indptr[:-1], self.source_indptr[1:]
        used = ends > starts
        if used.any():
            length[:-1][used] = np.add.reduceat(mass[:-1], starts[used])
        return length

    def mix(self, coefficients: np.ndarray, mass: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return Σ_level coefficient × mass for some classes: classes × words, dense."""
        out = np.zeros((len(columns), self.n_words))
        _mix(columns, self.path, coefficients, self.source_indptr, self.source_words, mass, out)
        return out

    def of_source(self, source: int, mass: np.ndarray) -> np.ndarray:
        """Return the mass of a source's words, dense."""
        out = np.zeros(self.n_words)
        at = slice(self.source_indptr[source], self.source_indptr[source + 1])
        out[self.source_words[at]] = mass[at]
        return out


@numba.njit(nogil=True, cache=True)
def _find_words(
    pool_indptr, pool_words, indptr_of, class_of, level_of, indptr, words, place, offset, level
):  # pragma: no cover - compiled
    for s in range(pool_indptr.shape[0] - 1):
        for p in range(pool_indptr[s], pool_indptr[s + 1]):
            place[pool_words[p]] = p
        for j in range(indptr_of[s], indptr_of[s + 1]):
            c, at = class_of[j], level_of[j]
            for p in range(indptr[c], indptr[c + 1]):
                level[p, at] = offset + place[words[p]]


@numba.njit(nogil=True, cache=True)
def _add_up(level, shares, mass):  # pragma: no cover - compiled
    for p in range(level.shape[0]):
        for k in range(level.shape[1]):
            mass[level[p, k]] += shares[p, k]


@numba.njit(nogil=True, cache=True)
def _mix(columns, path, coefficients, indptr, words, mass, out):  # pragma: no cover - compiled
    for i in range(columns.shape[0]):
        c = columns[i]
        for k in range(path.shape[1]):
            s = path[c, k]
            a = coefficients[c, k]
            if s < 0 or a == 0.0:
                continue
            for p in range(indptr[s], indptr[s + 1]):
                out[i, words[p]] += a * mass[p]
