"""Documents in pieces, and what is done to every piece: sums over them, and pieces made of them.

A model says what it needs of a block of documents, and what it makes of the sum over blocks.
Whether there is one block in memory, many on disk or many on other machines is for the blocks to
know: `leafwise.streams` and `leafwise.distributed` have kinds of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from leafwise.models._sums import scale_rows


class Documents(NamedTuple):
    """A block to learn from.

    Attributes
    ----------
    X : word counts
    membership : documents × classes; rows sum to 1, or to 0 for documents without a label
    weight : of each document
    """

    X: sparse.csr_matrix
    membership: sparse.csr_matrix
    weight: np.ndarray

    @property
    def weighted(self) -> sparse.csr_matrix:
        return scale_rows(self.membership, self.weight)

    def take(self, rows: np.ndarray) -> Documents:
        return Documents(self.X[rows], self.membership[rows], self.weight[rows])


class PerDocument:
    """Numbers of each document, which are put together where others are added up."""

    def __init__(self, *parts: Any):
        self.parts = parts

    def __add__(self, other: PerDocument) -> PerDocument:
        return PerDocument(*self.parts, *other.parts)

    def together(self) -> Any:
        one = len(self.parts) == 1  # which need not be copied, if it may be written to
        if any(map(sparse.issparse, self.parts)):
            return sparse.csr_matrix(self.parts[0] if one else sparse.vstack(self.parts))
        return np.require(self.parts[0], None, "W") if one else np.concatenate(self.parts)


class Blocks:
    """Documents in pieces: here all of them in memory, one after the other.

    Parameters
    ----------
    parts : the pieces
    sizes : how many documents are in each

    Attributes
    ----------
    few : so many entries are better fetched than asked a hundred times where they are
    """

    few = 10_000_000

    def __init__(self, parts: Any, sizes: Sequence[int]):
        self.parts, self.sizes = parts, list(sizes)

    @property
    def n_documents(self) -> int:
        return sum(self.sizes)

    def total(self, function: Callable, *shared: Any, rows: Sequence[Any] = ()) -> Any:
        """Add up what a function says of each block.

        Parameters
        ----------
        function : of a block, what is `shared`, and the block's part of `rows`
            It is one that another process can import, and changes nothing. Its result is a number,
            an array, a sparse matrix, a `PerDocument`, or a tuple of these.
        rows : arrays or matrices with a row for each document
        """
        cut = self._cut(rows)
        results = (function(part, *shared, *own) for part, own in zip(self.parts, cut))
        return finished(reduce(add, results))

    def derive(self, function: Callable, *shared: Any, rows: Sequence[Any] = ()) -> Blocks:
        """Make blocks of blocks, with as many documents, kept where those are."""
        cut = self._cut(rows)
        made = [function(part, *shared, *own) for part, own in zip(self.parts, cut)]
        return Blocks(made, self.sizes)

    def count(self, rows: np.ndarray) -> list[int]:
        """Count the documents of each block of which something is true."""
        return [int(np.count_nonzero(own)) for (own,) in self._cut([rows])]

    def sized(self, sizes: Sequence[int]) -> Blocks:
        """The same blocks, of which it is known that they have other numbers of documents."""
        return Blocks(self.parts, sizes)

    def spread(self, parts: Sequence[Any]) -> Blocks:
        """Make blocks of the same kind from parts that are here; each counts as one row."""
        return Blocks(parts, [1] * len(parts))

    def gather(self, rows: np.ndarray) -> Any:
        """Fetch some documents, in the order of `rows`, as one block."""
        wanted = np.zeros(self.n_documents, bool)
        wanted[rows] = True
        columns = self.total(_fields, rows=[wanted])
        order = np.searchsorted(np.flatnonzero(wanted), rows)
        return [column[order] for column in columns]

    def together(self) -> Blocks:
        """Fetch all documents, as one block in memory. Blocks are sparse matrices."""
        return self if type(self) is Blocks else one_block(self.total(_whole), self.n_documents)

    def _cut(self, rows: Iterable[Any]) -> list[tuple]:
        """Cut rows along the blocks."""
        edges = np.append(0, np.cumsum(self.sizes)).tolist()
        return [tuple(one[a:b] for one in rows) for a, b in pairwise(edges)]


def one_block(part: Any, size: int) -> Blocks:
    return Blocks([part], [size])


def add(one: Any, other: Any) -> Any:
    """Add two results, tuples part by part."""
    if isinstance(one, tuple):
        return tuple(map(add, one, other))
    return one + other


def finished(result: Any) -> Any:
    """Put together what is of each document."""
    if isinstance(result, tuple):
        return tuple(map(finished, result))
    return result.together() if isinstance(result, PerDocument) else result


def _whole(block: sparse.csr_matrix) -> PerDocument:
    return PerDocument(block)


def _fields(block: Any, rows: np.ndarray) -> tuple:
    return tuple(PerDocument(field) for field in block.take(np.flatnonzero(rows)))
