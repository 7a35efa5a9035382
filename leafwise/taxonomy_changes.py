"""Trees that change: edits, and what becomes of all that was known of the old nodes.

A tree itself never changes. An edit makes a new one and says, for each node of the old one, which
new node takes its place. With that, labels and whatever else was learned of the old tree can be
carried over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leafwise.exceptions import LabelError, TaxonomyError
from leafwise.taxonomy import Taxonomy, own_keywords
from leafwise.taxonomy_building import preorder
from leafwise.taxonomy_names import clean, default_keywords, join_path, shorten, split_path

__all__ = ["Change", "add", "merge", "move", "remove", "rename", "set_keywords"]

Keywords = str | Iterable[str] | None


@dataclass(frozen=True, eq=False)
class Change:
    """Two trees, and which node of the new one takes the place of each node of the old one.

    Attributes
    ----------
    old, new : Taxonomy
    node_of : read-only int array
        For each old node the new node that takes over what was known of it; -1 where none does.
    """

    old: Taxonomy
    new: Taxonomy
    node_of: NDArray[np.intp]

    def __post_init__(self) -> None:
        node_of = np.array(self.node_of, dtype=np.intp)
        if node_of.shape != (self.old.n_nodes,):
            raise TaxonomyError(
                f"node_of has the shape {node_of.shape}; it must have one entry for each of the "
                f"{self.old.n_nodes} old nodes."
            )
        if node_of.min() < -1 or node_of.max() >= self.new.n_nodes:
            raise TaxonomyError(f"node_of must be from -1 to {self.new.n_nodes - 1}.")
        node_of.flags.writeable = False
        object.__setattr__(self, "node_of", node_of)

    @classmethod
    def between(
        cls, old: Taxonomy, new: Taxonomy, moved: Mapping[str, str | None] | None = None
    ) -> Change:
        """Change from one tree to another, such as one that was edited in its file.

        Parameters
        ----------
        old, new : Taxonomy
            Nodes with the same path are the same; old ones without are gone.
        moved : mapping of str to str or None, optional
            Old paths to new paths; None where a node is gone. An entry holds for the branch
            below it too, where that has no entry of its own.
        """
        given: dict[int, int] = {}
        for before, after in (moved or {}).items():
            i = _node(old, before, "In the old tree")
            if i in given:
                raise TaxonomyError(f"{shorten(old.paths[i])} is moved twice. Give one new path.")
            given[i] = -1 if after is None else _node(new, after, "In the new tree")
        child = _child_of(new)
        node_of = [given.get(0, 0)]
        for i, above in enumerate(old.parent[1:].tolist(), start=1):
            same = child.get((node_of[above], old.names[i]), -1)
            node_of.append(given.get(i, same))
        return cls(old, new, np.array(node_of))

    def then(self, other: Change) -> Change:
        """Both changes as one: this one first, then `other`."""
        if other.old != self.new:
            raise TaxonomyError(
                "The second change does not begin with the tree that the first one ends with. "
                "Edit the `new` tree of the first."
            )
        node_of = np.where(self.node_of < 0, -1, other.node_of[self.node_of])
        return Change(self.old, other.new, node_of)

    def labels(self, labels: Iterable[Any]) -> list[Any]:
        """Labels of documents, from the old tree to the new one.

        Parameters
        ----------
        labels : iterable
            For each document a path (or a name that only one node has), None where there is no
            label, or a list, tuple or set of several.

        Returns
        -------
        list
            Paths of the new tree in the same form. None where a document has no label, or its
            node is gone; of several labels, those that are left, each once.
        """
        carried: list[Any] = []
        for k, label in enumerate(labels):
            try:
                if isinstance(label, list | tuple | set | frozenset):
                    several = [self._label(one) for one in label]
                    kept = dict.fromkeys(path for path in several if path is not None)
                    carried.append(type(label)(kept))
                else:
                    carried.append(self._label(label))
            except LabelError as error:
                raise LabelError(f"Label number {k} (from 0): {error}") from None
        return carried

    def _label(self, label: Any) -> str | None:
        is_nan = isinstance(label, float) and label != label  # a gap in a table
        if label is None or is_nan or (isinstance(label, str) and not label.strip()):
            return None
        node = self.node_of[self.old.index(label)]
        return None if node < 0 else self.new.paths[node]

    def report(self) -> list[str]:
        """What changed, a sentence for each kind of change; nothing where nothing did.

        Of a branch that is moved or renamed only the node on top is counted. Where several nodes
        become one, those that it was not before count as merged.
        """
        old, new, node_of = self.old, self.new, self.node_of.tolist()
        was = dict(zip(reversed(node_of), reversed(range(len(node_of)))))  # the first of several
        for i, j in enumerate(node_of):
            if j >= 0 and old.paths[i] == new.paths[j]:
                was[j] = i
        kinds: dict[str, list[str]] = {
            what: [] for what in ("added", "renamed", "moved", "merged", "removed", "keywords")
        }
        kinds["added"] = [shorten(path) for j, path in enumerate(new.paths) if j not in was]
        for i, (j, above) in enumerate(zip(node_of, old.parent.tolist())):
            path = shorten(old.paths[i])
            if j < 0:
                kinds["removed"].append(path)
                continue
            if was[j] != i:
                kinds["merged"].append(f"{path} into {shorten(new.paths[j])}")
                continue
            if new.parent[j] != (node_of[above] if i else -1):
                kinds["moved"].append(f"{path} to {shorten(new.paths[j])}")
            elif new.names[j] != old.names[i]:
                kinds["renamed"].append(f"{path} to {shorten(new.names[j])}")
            if new.keywords[j] != old.keywords[i]:
                kinds["keywords"].append(shorten(new.paths[j]))
        lines = []
        for what, found in kinds.items():
            nodes = f"{len(found):,} node{'s' * (len(found) > 1)}"
            start = f"Keywords of {nodes} changed" if what == "keywords" else f"{nodes} {what}"
            if found:
                lines.append(f"{start}: {', '.join(found[:10])}{', ...' if found[10:] else '.'}")
        return lines or ["The order of nodes changed."] * (old != new)


# ---- edits --------------------------------------------------------------------------------------


def add(tree: Taxonomy, path: str, keywords: Keywords = None) -> Change:
    r"""Add a node, as the last child of the node above it, which must be there.

    A slash within its name is written ``\/``. Without `keywords` it has the words of its name.
    """
    names = split_path(path) if isinstance(path, str) else ()
    if not names or not names[-1]:
        raise TaxonomyError(f"The path of a new node must be text such as 'a/b', not {path!r}.")
    # Exactly this path: a name alone would put the node elsewhere than its own path says.
    above = join_path(names[:-1])
    parent = _node(tree, above)
    if tree.paths[parent] != above:
        raise TaxonomyError(
            f"No node has the path {shorten(above)}. Did you mean {shorten(tree.paths[parent])}?"
        )
    if _child(tree, parent, names[-1]) is not None:
        raise TaxonomyError(f"There is a node {shorten(join_path(names))} already.")
    draft = _Draft(tree)
    draft.names.append(names[-1])
    draft.parent.append(parent)
    draft.keywords.append(keywords)
    draft.last.append(tree.n_nodes)
    return draft.change()


def rename(tree: Taxonomy, path: str, name: str) -> Change:
    """Give a node another name; its place among its siblings stays.

    No keyword is lost. Where they were just the words of the old name, those of the new name are
    added: a node without keywords of its own would else be found by its old name only. Keywords
    that were given stay as they are.

    `name` is a name and not a path: a slash in it becomes part of the name.
    """
    node = _node(tree, path)
    if not isinstance(name, str) or not (clean(name) or node == 0):
        raise TaxonomyError(f"The new name of {shorten(tree.paths[node])} must be text: {name!r}.")
    other = _child(tree, int(tree.parent[node]), clean(name)) if node else None
    if other not in (None, node):
        raise TaxonomyError(
            f"{shorten(tree.paths[node])} cannot be called {shorten(clean(name))}: a sibling has "
            "that name. Merge the two instead."
        )
    draft = _Draft(tree)
    draft.names[node] = name
    if own_keywords(tree, node) is None:
        draft.keywords[node] = (*tree.keywords[node], *default_keywords(clean(name)))
    return draft.change()


def move(tree: Taxonomy, path: str, to: str) -> Change:
    """Put a branch below another node (``/`` is the root), as its last child."""
    node, parent = _node(tree, path), _node(tree, to)
    shown, target = shorten(tree.paths[node]), shorten(tree.paths[parent])
    if not node:
        raise TaxonomyError("The root cannot be moved.")
    if node <= parent < tree.end[node]:
        raise TaxonomyError(f"{shown} cannot be moved below itself, to {target}.")
    if _child(tree, parent, tree.names[node]) not in (None, node):
        raise TaxonomyError(
            f"{shown} cannot be moved below {target}, which has a child of that name. "
            "Merge the two, or rename one first."
        )
    draft = _Draft(tree)
    draft.parent[node] = parent
    draft.last.append(node)
    return draft.change()


def merge(tree: Taxonomy, paths: str | Iterable[str], into: str) -> Change:
    """Make branches part of another node.

    What is known of the nodes of `paths` goes to `into`, and so do their keywords, after those
    that it has. Their children become its last children; those with the same name are merged in
    turn.
    """
    target = _node(tree, into)
    shown = shorten(tree.paths[target])
    merged = {_node(tree, path): target for path in ([paths] if isinstance(paths, str) else paths)}
    for node in merged:
        path = shorten(tree.paths[node])
        if not node:
            raise TaxonomyError(f"The root cannot be merged into {shown}.")
        if node <= target < tree.end[node]:
            where = "itself" if node == target else f"{shown}, which is below it"
            raise TaxonomyError(f"{path} cannot be merged into {where}.")
    draft = _Draft(tree)
    parents = tree.parent.tolist()
    children: dict[int, list[int]] = defaultdict(list)
    for i, above in enumerate(parents):
        children[above].append(i)
    child = _child_of(tree)
    for node in merged:  # no place to merge others into
        del child[parents[node], tree.names[node]]
    words: dict[int, dict[str, None]] = {}
    todo = list(merged.items())
    for node, heir in todo:  # grows as it goes
        draft.heir[node] = heir
        united = words.setdefault(heir, dict.fromkeys(tree.keywords[heir]))
        united.update(dict.fromkeys(tree.keywords[node]))
        for below in children[node]:
            if below in merged:
                continue
            same = child.setdefault((heir, tree.names[below]), below)
            if same == below:
                draft.parent[below] = heir
                draft.last.append(below)
            else:
                todo.append((below, same))
    for heir, united in words.items():
        draft.keywords[heir] = tuple(united)
    return draft.change()


def remove(tree: Taxonomy, path: str, *, keep: bool = False) -> Change:
    """Take a branch away.

    What was known of its nodes is lost, or with `keep` goes to the node above. Their keywords are
    lost in either case; `merge` hands them on.
    """
    node = _node(tree, path)
    if not node:
        raise TaxonomyError("The root cannot be removed.")
    draft = _Draft(tree)
    heir = int(tree.parent[node]) if keep else -1
    draft.heir[node : tree.end[node]] = [heir] * (int(tree.end[node]) - node)
    return draft.change()


def set_keywords(tree: Taxonomy, path: str, keywords: Keywords) -> Change:
    """Give a node other keywords: words, one string, or None for the words of its name."""
    draft = _Draft(tree)
    draft.keywords[_node(tree, path)] = keywords
    return draft.change()


# ---- how a new tree is made ---------------------------------------------------------------------


class _Draft:
    """A tree taken apart into lists, to be edited and put together again."""

    def __init__(self, tree: Taxonomy) -> None:
        self.tree = tree
        self.names = list(tree.names)
        self.parent: list[int] = tree.parent.tolist()
        self.keywords: list[Keywords] = list(tree.keywords)
        self.heir = list(range(tree.n_nodes))  # a node stays where it is its own heir
        self.last: list[int] = []  # nodes that come after their siblings, in this order

    def change(self) -> Change:
        late = set(self.last)
        kept = [i for i, heir in enumerate(self.heir) if heir == i and i not in late] + self.last
        row = dict(zip(kept, range(len(kept))))
        names = [self.names[i] for i in kept]
        parent = [row.get(self.parent[i], -1) for i in kept]
        new = Taxonomy(names, parent, [self.keywords[i] for i in kept], notes=self.tree.notes)
        order = preorder(names, parent, None) if self.last else range(len(kept))
        node_of = dict(zip((kept[k] for k in order), range(len(order))))
        return Change(self.tree, new, np.array([node_of.get(heir, -1) for heir in self.heir]))


def _node(tree: Taxonomy, path: str, where: str = "") -> int:
    try:
        return tree.index(path)
    except LabelError as error:
        raise TaxonomyError(f"{where}: {error}" if where else str(error)) from None


def _child(tree: Taxonomy, parent: int, name: str) -> int | None:
    return next((i for i in tree.children(parent).tolist() if tree.names[i] == name), None)


def _child_of(tree: Taxonomy) -> dict[tuple[int, str], int]:
    """Node by its parent and its name; all but the root."""
    keys = zip(tree.parent[1:].tolist(), tree.names[1:])
    return dict(zip(keys, range(1, tree.n_nodes)))
