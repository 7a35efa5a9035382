"""The tree of topics.

A tree never changes once made. Inside, a node is an integer; outside, it is a path such as
``computers/graphics``. Nodes are numbered in depth-first preorder, so that parents come before
their children and the descendants of ``i`` are the nodes ``i + 1 .. end[i] - 1``.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property, partial
from itertools import count
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leafwise.exceptions import LabelError, TaxonomyError
from leafwise.taxonomy_building import checked_names, grow, join_edges, preorder
from leafwise.taxonomy_names import (
    WORDS,
    clean,
    default_keywords,
    escape,
    join_path,
    listed,
    node_keywords,
    shorten,
    split_path,
)

__all__ = ["Taxonomy", "default_keywords", "join_path", "split_path"]

KeywordMap = Mapping[str, str | Iterable[str]]


class Taxonomy:
    """An immutable tree of named nodes with keywords.

    Parameters
    ----------
    names : sequence of str
        Name of each node. Only the root's may be empty. Spaces are tidied.
    parent : sequence of int
        Number of each node's parent in `names`; -1 for the root. Nodes may come in any order:
        they are renumbered in preorder, siblings in the order given.
    keywords : sequence, optional
        Keywords of each node: words, one string, or None for the words of the node's own name.
    notes : sequence of str
        What was decided while the tree was read; no part of equality.
    where : sequence of str, optional
        Where each node stands in its source (``"line 3"``), for the error messages.

    Attributes
    ----------
    names, paths, keywords : tuple
    parent, depth, end, leaves : read-only int32 arrays
    notes : tuple of str
    """

    names: tuple[str, ...]
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    end: NDArray[np.int32]
    keywords: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def __init__(
        self,
        names: Sequence[str],
        parent: Sequence[int] | NDArray[np.integer],
        keywords: Sequence[str | Iterable[str] | None] | None = None,
        *,
        notes: Iterable[str] = (),
        where: Sequence[str] | None = None,
    ) -> None:
        checked = checked_names(names, where)
        parents = np.asarray(parent).tolist()
        for what, given in (("parents", parents), ("keywords", keywords)):
            if given is not None and len(given) != len(checked):
                raise TaxonomyError(f"There are {len(checked)} names but {len(given)} {what}.")
        order = preorder(checked, parents, where)
        number = dict(zip(order, range(len(order))))
        new_parent = [number.get(parents[old], -1) for old in order]
        new_names = tuple(checked[old] for old in order)

        depth = [0] * len(order)
        end = list(range(1, len(order) + 1))
        for i, above in enumerate(new_parent[1:], start=1):
            depth[i] = depth[above] + 1
        for i in range(len(order) - 1, 0, -1):
            end[new_parent[i]] = max(end[new_parent[i]], end[i])
        own = [None] * len(order) if keywords is None else [keywords[old] for old in order]
        self.__dict__.update(
            names=new_names,
            parent=_frozen(new_parent),
            depth=_frozen(depth),
            end=_frozen(end),
            keywords=tuple(map(node_keywords, new_names, own)),
            notes=tuple(notes),
        )

    # ---- ways to make one ----

    @classmethod
    def from_paths(cls, paths: Iterable[str], keywords: KeywordMap | None = None) -> Taxonomy:
        """Tree of these paths; parents that are not listed are added, repeats are one node.

        `keywords` maps labels (paths, or names that only one node has) to keywords.
        """
        if isinstance(paths, str):
            raise TaxonomyError(f"Expected a list of paths, got one string: [{paths!r}].")
        rows = []
        for path in paths:
            if not isinstance(path, str) or not path.strip():
                raise TaxonomyError(f"A path must be text such as 'a/b', not {path!r}.")
            rows.append(split_path(path))
        names, parent, _ = grow(rows)
        return cls(names, parent)._with_keywords(keywords)

    @classmethod
    def from_dict(cls, nested: Mapping[Any, Any] | Sequence[Any]) -> Taxonomy:
        """Tree of nested mappings.

        A node's value is None (a leaf), a list or a string (its keywords), a mapping of its
        children, or ``{"keywords": [...], "children": {...}}``. A list of
        ``{"name": ..., "keywords": [...], "children": [...]}`` is read too.
        """
        from leafwise.taxonomy_nested import read_nested

        return read_nested(nested)

    @classmethod
    def from_edges(
        cls, edges: Iterable[tuple[Any, Any]], keywords: KeywordMap | None = None
    ) -> Taxonomy:
        """Tree of (parent, child) pairs, where a name stands for one node.

        The node that is nobody's child is the root, and keeps its name.
        """
        names, parent, where = join_edges(edges)
        return cls(names, parent, where=where)._with_keywords(keywords)

    @classmethod
    def from_labels(cls, y: ArrayLike) -> Taxonomy:
        """Tree of the labels of documents, siblings sorted.

        One label per document gives a flat tree; a row of levels per document, as hiclass has
        it, gives a tree as deep as the rows. None and NaN (and "" in a row of levels) are
        labels that are missing. Every other value is a label, -1 too.
        """
        values = y.tolist() if isinstance(y, np.ndarray) else np.asarray(y, dtype=object).tolist()
        rows = set()
        for value in {tuple(v) if isinstance(v, list | tuple) else v for v in values}:
            levels = value if isinstance(value, tuple) else (value,)
            row = [None if _is_missing(v) or (v == "" and levels is value) else v for v in levels]
            while row and row[-1] is None:
                row.pop()
            if None in row:
                raise TaxonomyError(
                    f"The levels {list(levels)!r} miss one above another that is given. Only the "
                    "last levels of a label may be missing."
                )
            rows.add(tuple(row))
        try:
            ordered = sorted(rows)
        except TypeError:  # labels of several types
            ordered = sorted(rows, key=lambda row: [str(v) for v in row])
        names, parent, _ = grow([clean(str(v)) for v in row] for row in ordered)
        return cls(names, parent)

    @classmethod
    def load(
        cls, path: str | PathLike[str], format: str | None = None, language: str = "en"
    ) -> Taxonomy:
        """Read a file or folder: yaml, json, csv, tsv, folder, weshclass, turtle or rdfxml.

        The format follows from the name unless given. `language` chooses among the labels of a
        SKOS vocabulary. What was decided on the way is in ``notes``.
        """
        from leafwise.taxonomy_formats import load

        return load(path, format, language)

    def save(
        self, path: str | PathLike[str], format: str | None = None, *, all_keywords: bool = False
    ) -> None:
        """Write the tree in one of the formats that `load` reads; a file is replaced as a whole.

        Keywords that are the words of a node's own name are left out, unless `all_keywords`: then
        they stay where the node is renamed in the file.
        """
        from leafwise.taxonomy_formats import save

        save(self, path, format, all_keywords)

    def to_dict(self) -> dict[str, Any]:
        """Nested mappings that `from_dict` reads back to an equal tree."""
        from leafwise.taxonomy_nested import write_nested

        return write_nested(self)

    def graft(self, label: Any, branch: Taxonomy) -> Taxonomy:
        """Put a tree below a node, after the children that it has; its root becomes that node.

        A name that one of those children has gets a number: ``cats`` becomes ``cats 2``.
        """
        node = self.index(label)
        there = {self.names[i] for i in self.children(node)}
        names = list(branch.names)
        for i in branch.children(0):
            if names[i] in there:
                numbered = (f"{branch.names[i]} {k}" for k in count(2))
                names[i] = next(name for name in numbered if name not in there.union(names))
        above = [i + len(self) - 1 if i else node for i in branch.parent[1:].tolist()]
        return Taxonomy(
            (*self.names, *names[1:]),
            (*self.parent.tolist(), *above),
            (*self.keywords, *branch.keywords[1:]),
            notes=self.notes,
        )

    def _with_keywords(self, keywords: KeywordMap | None) -> Taxonomy:
        if not keywords:
            return self
        words: list[str | Iterable[str] | None] = list(self.keywords)
        for label, given in keywords.items():
            words[self.index(label)] = given
        return Taxonomy(self.names, self.parent, words)

    # ---- nodes ----

    @property
    def n_nodes(self) -> int:
        """Number of nodes, the root among them."""
        return len(self.names)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Path of each node; that of the root is ``/``."""
        paths = ["/"]
        for name, above in zip(self.names[1:], self.parent[1:].tolist()):
            paths.append(f"{paths[above]}/{escape(name)}" if above else escape(name))
        return tuple(paths)

    @cached_property
    def leaves(self) -> NDArray[np.int32]:
        """Nodes without children, in order."""
        return _frozen(np.flatnonzero(self.end == np.arange(1, self.n_nodes + 1)))

    def children(self, i: int) -> NDArray[np.intp]:
        """Children of node `i`, in order."""
        i = int(self._nodes(i))
        return np.flatnonzero(self.parent[i + 1 : self.end[i]] == i) + (i + 1)

    def descendants(self, i: int) -> NDArray[np.intp]:
        """All nodes below node `i`, without itself."""
        i = int(self._nodes(i))
        return np.arange(i + 1, self.end[i])

    def ancestors(self, i: int) -> NDArray[np.intp]:
        """Nodes above node `i`: its parent first, the root last."""
        above = []
        i = int(self.parent[self._nodes(i)])
        while i >= 0:
            above.append(i)
            i = int(self.parent[i])
        return np.array(above, dtype=np.intp)

    def lca(self, i: ArrayLike, j: ArrayLike) -> Any:
        """Lowest common ancestor of nodes `i` and `j`; a node counts as its own ancestor.

        Arrays are taken pair by pair; two numbers give a number.
        """
        low, other = (a.copy() for a in np.broadcast_arrays(self._nodes(i), self._nodes(j)))
        while (apart := (other < low) | (other >= self.end[low])).any():
            low = np.where(apart, self.parent[low], low)
        return low if low.ndim else int(low)

    def distance(self, i: ArrayLike, j: ArrayLike) -> Any:
        """Number of edges between nodes `i` and `j`; arrays as in `lca`."""
        edges = self.depth[self._nodes(i)] + self.depth[self._nodes(j)]
        edges = edges - 2 * self.depth[self.lca(i, j)]
        return edges if np.ndim(edges) else int(edges)

    def subtree_sum(self, values: ArrayLike) -> NDArray[Any]:
        """For each node, the sum over itself and its descendants along the last axis.

        It goes up level by level, so that with values >= 0 a parent is never less than its
        child, not even by a rounding error.
        """
        sums = np.array(values)
        if sums.shape[-1:] != (self.n_nodes,):
            raise ValueError(
                f"values has the shape {sums.shape}; its last axis must have one entry for each "
                f"of the {self.n_nodes} nodes."
            )
        if sums.dtype == bool:
            sums = sums.astype(np.intp)
        for nodes, first in reversed(self.levels):
            above = self.parent[nodes[first]]
            sums[..., above] += np.add.reduceat(sums[..., nodes], first, axis=-1)
        return sums

    @cached_property
    def levels(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """For each depth from 1 on: its nodes, and where among them each family begins."""
        by_depth = np.argsort(self.depth, kind="stable")
        levels = np.split(by_depth, np.flatnonzero(np.diff(self.depth[by_depth])) + 1)
        return [
            (nodes, np.flatnonzero(np.diff(self.parent[nodes], prepend=-1))) for nodes in levels[1:]
        ]

    @cached_property
    def closure(self) -> Any:
        """Sparse n × n matrix: row ``i`` has ones at ``i`` and its ancestors, without the root."""
        from scipy.sparse import csr_array

        indptr = np.concatenate([[0], np.cumsum(self.depth)]).astype(np.int32)
        indices = np.empty(indptr[-1], dtype=np.int32)
        rows = ancestors = np.arange(1, self.n_nodes, dtype=np.int32)
        while rows.size:
            indices[indptr[rows] + self.depth[ancestors] - 1] = ancestors
            above = self.parent[ancestors]
            rows, ancestors = rows[above > 0], above[above > 0]
        data = np.ones(indices.size, dtype=np.int8)
        return csr_array((data, indices, indptr), shape=(self.n_nodes, self.n_nodes))

    def _nodes(self, i: ArrayLike) -> NDArray[np.intp]:
        nodes = np.asarray(i)
        if nodes.size == 0:
            return nodes.astype(np.intp)
        if nodes.dtype.kind not in "iu" or np.any((nodes < 0) | (nodes >= self.n_nodes)):
            raise LabelError(
                f"Nodes are numbers from 0 to {self.n_nodes - 1}, not {shorten(str(i))}. "
                "tree.index(label) gives the number of a label."
            )
        return nodes.astype(np.intp, copy=False)

    # ---- labels ----

    def index(self, label: Any) -> int:
        """Node of a label: its path, or its name where only one node has that name.

        Numbers are looked up as their text. A slash or spaces around a label do not matter.
        """
        i = self._find(label)
        if i is None:
            raise LabelError(self._unknown(label))
        if i < 0:
            forms = {clean(str(label)), join_path(split_path(str(label)))}
            same = [k for k, name in enumerate(self.names) if name in forms]
            paths = [f'"{self.paths[k]}"' for k in same[:3]]
            more = [f"{len(same) - 3} more"] if len(same) > 3 else []
            raise LabelError(
                f"{shorten(str(label))} is the name of {len(same)} nodes: "
                f"{listed(paths + more, 'and')}. Use the path."
            )
        return i

    def indices(self, labels: Iterable[Any]) -> NDArray[np.intp]:
        """Nodes of many labels; the error names the first bad one and its position."""
        values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        lookup = self._lookup
        try:
            nodes = [lookup.get(label, -1) for label in values]
        except TypeError:  # something that cannot be a label, such as a list
            nodes = [-1] * len(values)
        for k, label in enumerate(values):
            if nodes[k] < 0:
                try:
                    nodes[k] = self.index(label)
                except LabelError as error:
                    raise LabelError(f"Label number {k} (from 0): {error}") from None
        return np.array(nodes, dtype=np.intp)

    @cached_property
    def _lookup(self) -> dict[str, int]:
        """Node of each path and name; -1 where several nodes have the name."""
        lookup: dict[str, int] = {}
        for i, name in enumerate(self.names):
            lookup[name] = -1 if name in lookup else i
        lookup.pop("", None)
        lookup.update(zip(self.paths, range(self.n_nodes)))
        return lookup

    def _find(self, label: Any) -> int | None:
        if isinstance(label, np.generic):
            label = label.item()
        if isinstance(label, int | float):
            label = str(label)
        if not isinstance(label, str) or not label.strip():
            return None
        if label in self._lookup:
            return self._lookup[label]
        canonical = join_path(split_path(label))
        return self._lookup.get(clean(label), self._lookup.get(canonical))

    def _unknown(self, label: Any) -> str:
        if not isinstance(label, str | int | float | np.generic) or not str(label).strip():
            return f"A label must be a path or a name, not {shorten(repr(label))[1:-1]}."
        found = f"No node is called {shorten(str(label))}"
        if near := self.suggest(str(label)):
            quoted = [f'"{path}"' for path in near]
            return f"{found}. Did you mean {listed(quoted, 'or')}?"
        top = [f'"{self.paths[i]}"' for i in self.children(0)[:5]] or ['"/"']
        return f"{found}, and none is close to it. The tree begins with {', '.join(top)}."

    def suggest(self, label: str) -> list[str]:
        """Paths of up to three nodes whose path or name is nearest to `label`."""
        wanted = clean(label).lower()
        if len(wanted) > 200:
            return []
        if wanted in self._by_lower:
            return [self.paths[i] for i in self._by_lower[wanted][:3]]
        last = (split_path(wanted) or ("",))[-1]
        shared: Counter[int] = Counter()
        for fragment in _fragments(wanted):
            shared.update(self._by_fragment.get(fragment, ()))
        likely = heapq.nsmallest(
            200, shared, key=lambda i: (-shared[i], abs(len(self.names[i]) - len(last)), i)
        )
        for above in self._by_lower.get(join_path(split_path(wanted)[:-1]), ()):
            likely += [i for i in self.children(above)[:200].tolist() if i not in shared]
        scored = []
        for i in likely:
            name = self.names[i].lower()
            by_path = _likeness(wanted, self.paths[i].lower())
            by_word = max((_likeness(last, word) for word in WORDS.findall(name)), default=0.0)
            scored.append((max(by_path, _likeness(last, name), 0.9 * by_word), by_path, -i))
        scored.sort(reverse=True)
        enough = max(0.6, scored[0][0] - 0.15) if scored else 1.0
        return [self.paths[-i] for score, _, i in scored[:3] if score >= enough]

    @cached_property
    def _by_lower(self) -> dict[str, list[int]]:
        """Nodes by their names and paths in lower case."""
        nodes: dict[str, list[int]] = defaultdict(list)
        for i, (name, path) in enumerate(zip(self.names, self.paths)):
            for text in {name.lower(), path.lower()}:
                nodes[text].append(i)
        return nodes

    @cached_property
    def _by_fragment(self) -> dict[str, list[int]]:
        """Nodes by how the words of their names begin and end: what a typing error leaves."""
        nodes: dict[str, list[int]] = defaultdict(list)
        for i, name in enumerate(self.names):
            for fragment in _fragments(name.lower()):
                nodes[fragment].append(i)
        return nodes

    # ---- the protocols of Python ----

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __contains__(self, label: Any) -> bool:
        i = self._find(label)
        return i is not None and i >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taxonomy):
            return NotImplemented
        return self is other or (
            self.names == other.names
            and np.array_equal(self.parent, other.parent)
            and self.keywords == other.keywords
        )

    @cached_property
    def _hash(self) -> int:
        return hash((self.names, self.parent.tobytes(), self.keywords))

    def __hash__(self) -> int:
        return self._hash

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("A Taxonomy cannot be changed; make a new one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A Taxonomy cannot be changed; make a new one.")

    def __copy__(self) -> Taxonomy:
        return self

    def __deepcopy__(self, memo: Any) -> Taxonomy:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Taxonomy, notes=self.notes), (self.names, self.parent, self.keywords)

    # ---- drawings ----

    def __repr__(self) -> str:
        depth = self.depth.max()
        return f"Taxonomy(n_nodes={self.n_nodes}, n_leaves={len(self.leaves)}, depth={depth})"

    def __str__(self) -> str:
        from leafwise.taxonomy_drawing import draw

        return draw(self)

    def _repr_html_(self) -> str:
        from leafwise.taxonomy_drawing import draw_html

        return draw_html(self)


def _frozen(values: ArrayLike) -> NDArray[np.int32]:
    array = np.array(values, dtype=np.int32)
    array.flags.writeable = False
    return array


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _likeness(a: str, b: str) -> float:
    return SequenceMatcher(None, a, b, autojunk=False).ratio()


def _fragments(text: str) -> set[str]:
    words = WORDS.findall(text)
    return {word[:2] for word in words} | {"-" + word[-2:] for word in words}


def own_keywords(tree: Taxonomy, i: int, every: bool = False) -> tuple[str, ...] | None:
    """Keywords of a node where they are not the words of its name; or all, but of the root."""
    same = tree.keywords[i] == default_keywords(tree.names[i])
    return None if same and not (every and i) else tree.keywords[i]
