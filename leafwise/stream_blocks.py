"""Blocks of documents that are not all in memory: read anew each time, or kept on disk."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from leafwise.models._blocks import Blocks, add, finished


class Stream(Blocks):
    """Blocks that come one after the other.

    Parameters
    ----------
    parts : what gives them, each time it is gone through
    sizes : how many documents are in each
    folder : where blocks that are made of them are kept
    watch : called with each sum while it grows
    few : see `Blocks`
    """

    def __init__(
        self,
        parts: Iterable[Any],
        sizes: Sequence[int],
        folder: str,
        watch: Callable[[Any], None] = lambda found: None,
        few: int = Blocks.few,
    ):
        super().__init__(parts, sizes)
        self._folder, self._watch, self.few = folder, watch, few

    def total(self, function: Callable, *shared: Any, rows: Sequence[Any] = ()) -> Any:
        sums: list[tuple[int, Any]] = []  # of how many blocks each, fewer and fewer
        for part, own in zip(self.parts, self._cut(rows)):
            n, found = 1, function(part, *shared, *own)
            # Like with like: to add each block to the sum of all would copy that each time. Tables
            # do not grow, so of these there is one sum.
            while sums and (sums[-1][0] <= n or not _grows(found)):
                m, last = sums.pop()
                n, found = n + m, add(last, found)
            self._watch(found)
            sums.append((n, found))
        found = sums.pop()[1]
        while sums:
            found = add(sums.pop()[1], found)
        self._watch(found)
        return finished(found)

    def derive(self, function: Callable, *shared: Any, rows: Sequence[Any] = ()) -> Stream:
        files = _Files(self._folder)
        for part, own in zip(self.parts, self._cut(rows)):
            files.append(function(part, *shared, *own))
        return self._of(files, self.sizes)

    def sized(self, sizes: Sequence[int]) -> Stream:
        return self._of(self.parts, sizes)

    def on_disk(self) -> Stream:
        """The same blocks, to be gone through often."""
        return self.derive(lambda block: block)

    def _of(self, parts: Iterable[Any], sizes: Sequence[int]) -> Stream:
        return Stream(parts, sizes, self._folder, self._watch, self.few)


def _grows(found: Any) -> bool:
    """Whether a sum of such is larger than its parts."""
    return any(map(sparse.issparse, found if isinstance(found, tuple) else [found]))


class _Alone(NamedTuple):
    """A block that is a matrix."""

    X: sparse.csr_matrix


class _Files:
    """Blocks as files, which go when this does.

    A block is a NamedTuple of arrays and matrices, or a matrix.
    """

    _numbers = count()

    def __init__(self, folder: str):
        self._stem = os.path.join(folder, f"blocks{next(self._numbers)}")
        self._kind: Any = None
        self._paths: list[str] = []
        weakref.finalize(self, _remove, self._paths)

    def append(self, block: Any) -> None:
        if sparse.issparse(block):
            block = _Alone(block)
        self._kind = type(block)
        path = f"{self._stem}-{len(self._paths)}.npz"
        self._paths.append(path)
        arrays: dict[str, np.ndarray] = {}
        for name, field in block._asdict().items():
            if sparse.issparse(field):
                arrays |= {f"{name}.{part}": getattr(field, part) for part in _CSR}
                arrays[f"{name}.shape"] = np.array(field.shape)
            else:
                arrays[name] = field
        np.savez(path, **arrays)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return map(self._read, self._paths)

    def _read(self, path: str) -> Any:
        with np.load(path, allow_pickle=False) as arrays:
            block = self._kind(*(_field(arrays, name) for name in self._kind._fields))
        return block.X if isinstance(block, _Alone) else block


_CSR = ("data", "indices", "indptr")


def _field(arrays: Any, name: str) -> Any:
    if name in arrays:
        return arrays[name]
    shape = tuple(arrays[f"{name}.shape"].tolist())
    return sparse.csr_matrix(tuple(arrays[f"{name}.{part}"] for part in _CSR), shape)


def _remove(paths: list[str]) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)
