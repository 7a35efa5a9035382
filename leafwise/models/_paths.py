"""Word counts along the paths of a tree: which words each level of a class's path has, how often.

A class draws its words from *sources*: its own documents first, then every inner node between it
and the root (the class itself too, where it is one), each with all documents below it. Everything
here is as large as the number of distinct (source, word) pairs, whatever the number of documents.
"""

from __future__ import annotations

import numba
import numpy as np
from scipy import sparse

from leafwise.models._word_lists import WordLists
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
        root, where arrays of `pool` have a 0.
    lists : the words of each source, and where they are above
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

        n_sources = len(self.source_node)
        above_source = np.full(n_sources, -1)
        for line in self.path.tolist():
            on_path = [source for source in line if source >= 0]
            above_source[on_path[:-1]] = on_path[1:]
        rows = sparse.csr_matrix(
            (counts.data, counts.indices, np.append(counts.indptr, [counts.nnz] * len(inner))),
            (n_sources, self.n_words),
        )
        self.lists = WordLists(above_source, rows)
        self.indptr = counts.indptr.astype(np.int64)
        self.words, self.n = counts.indices, counts.data
        self.row = np.repeat(np.arange(n_classes), np.diff(self.indptr))
        self.n_pairs = self.lists.n_pairs
        # A class's own list is its row of the counts, and these lists come first.
        self.level = np.empty((len(self.n), self.n_levels), dtype=np.int64)
        self.level[:, 0] = np.arange(len(self.n))
        up = np.append(self.lists.up, self.n_pairs)
        for k in range(1, self.n_levels):
            self.level[:, k] = up[self.level[:, k - 1]]

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
        return np.append(self.lists.sums(mass), 0.0)

    def mix(self, coefficients: np.ndarray, mass: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return Σ_level coefficient × mass for some classes: classes × words, dense."""
        out = np.zeros((len(columns), self.n_words))
        _mix(columns, self.path, coefficients, self.lists.indptr, self.lists.words, mass, out)
        return out

    def of_source(self, source: int, mass: np.ndarray) -> np.ndarray:
        """Return the mass of a source's words, dense."""
        out = np.zeros(self.n_words)
        at = slice(self.lists.indptr[source], self.lists.indptr[source + 1])
        out[self.lists.words[at]] = mass[at]
        return out


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
