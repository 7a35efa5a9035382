"""Nodes as pages show them: with their numbers, found by what is typed, a family at a time."""

from __future__ import annotations

import time
import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from leafwise.store import Project
from leafwise.store.records import Counts
from leafwise.taxonomy import Taxonomy, join_path, split_path
from leafwise.taxonomy_names import clean

FAMILY = 200  # children of a node that are shown at once
_LONG, _REST = 0.1, 20  # seconds of counting, and how many times that a count is kept
OPEN = 60  # a tree of no more nodes is shown as a whole


class Row(NamedTuple):
    """A node with its numbers, those of the nodes below it included.

    Attributes
    ----------
    sure : mean probability of the guesses, None where there is none
    flat : whether it stands alone, in a list of what was found
    more : where to go on in a family of many; n_documents is then how many are left
    """

    path: str
    name: str
    keywords: tuple[str, ...] = ()
    n_children: int = 0
    n_below: int = 0
    n_documents: int = 0
    n_confirmed: int = 0
    sure: float | None = None
    children: tuple[Row, ...] = ()
    flat: bool = False
    more: int = 0
    keepable: bool = False


class Counting:
    """Counts documents for pages. Where that takes long, it is done less often."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._kept: tuple[int, Nodes] | None = None
        self._until = 0.0

    def nodes(self) -> Nodes:
        version, began = self._project.tree.version, time.monotonic()
        kept = self._kept
        if kept is not None and kept[0] == version and began < self._until:
            return kept[1]
        counts, tree = self._project.tree.counts_below(), self._project.tree.taxonomy
        while len(counts.confirmed) != len(tree):  # edited between the two
            counts, tree = self._project.tree.counts_below(), self._project.tree.taxonomy
        nodes = Nodes(version, tree, counts)
        took = time.monotonic() - began
        self._kept = (version, nodes)
        self._until = time.monotonic() + (_REST * took if took > _LONG else 0)
        return nodes


class Nodes:
    """The tree of a project with the counts of each branch, at one moment."""

    def __init__(self, version: int, tree: Taxonomy, counts: Counts) -> None:
        self.version = version
        self.tree = tree
        self.confirmed, self.predicted, self.probability = counts
        self.n_children = np.bincount(tree.parent[1:], minlength=len(tree))

    def row(self, i: int, *, flat: bool = False, depth: int = 0) -> Row:
        predicted = int(self.predicted[i])
        return Row(
            path=self.tree.paths[i],
            name=self.tree.names[i],
            keywords=self.tree.keywords[i],
            n_children=int(self.n_children[i]),
            n_below=int(self.tree.end[i]) - i - 1,
            n_documents=predicted + int(self.confirmed[i]),
            n_confirmed=int(self.confirmed[i]),
            sure=min(1.0, float(self.probability[i]) / predicted) if predicted else None,
            children=self.family(i, depth=depth) if depth > 0 and self.n_children[i] else (),
            flat=flat,
            keepable=int(self.tree.parent[i]) > 0,
        )

    def family(self, i: int, start: int = 0, depth: int = 0) -> tuple[Row, ...]:
        """The children of a node, and theirs as deep as `depth` says."""
        children = self.tree.children(i).tolist()
        rows = [self.row(k, depth=depth - 1) for k in children[start : start + FAMILY]]
        left = len(children) - start - FAMILY
        if left > 0:
            more = Row(self.tree.paths[i], "", n_documents=left, more=start + FAMILY)
            rows.append(more)
        return tuple(rows)

    def top(self) -> tuple[Row, ...]:
        return self.family(0, depth=99 if len(self.tree) <= OPEN else 0)

    def found(self, typed: str) -> tuple[Row, ...]:
        return tuple(self.row(i, flat=True) for i in find(self.tree, typed, FAMILY, keywords=True))


def find(tree: Taxonomy, typed: str, limit: int, *, keywords: bool = False) -> list[int]:
    """Nodes that have what was typed in their name or path, the best first.

    Every word of it must be there; case and accents do not matter. A name that is it, or begins
    with it, comes first; then words of names that begin so; then the rest, those higher in the tree
    before those below.
    """
    wanted = _folded(clean(typed))
    if not wanted.strip("/"):
        return tree.children(0)[:limit].tolist()
    parts = wanted.strip("/").split()
    ranked = []
    for i, (name, path, words) in enumerate(_folded_names(tree)):
        if i and all(p in path or (keywords and p in words) for p in parts):
            rank = (
                name != wanted and path != wanted,
                not name.startswith(wanted),
                f" {wanted}" not in f" {name}",
                not all(p in name for p in parts),
                not all(p in path for p in parts),
            )
            ranked.append((rank, int(tree.depth[i]), i))
    return [i for *_, i in sorted(ranked)[:limit]]


@lru_cache(4)
def _folded_names(tree: Taxonomy) -> list[tuple[str, str, str]]:
    return [
        (_folded(name), _folded(path), _folded(" ".join(words)))
        for name, path, words in zip(tree.names, tree.paths, tree.keywords)
    ]


def _folded(text: str) -> str:
    """A text without case and accents, so that "zuge" finds "Züge"."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFD", text.casefold())
    return "".join(sign for sign in parts if not unicodedata.combining(sign))


def above(path: str) -> str:
    return join_path(split_path(path)[:-1])
