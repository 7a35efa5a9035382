"""From rows of names and from edges to one tree, or to an error that names what is wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from leafwise.exceptions import TaxonomyError
from leafwise.taxonomy_names import UNWRITABLE, clean, listed, shorten


def grow(rows: Iterable[Sequence[str]]) -> tuple[list[str], list[int], list[int]]:
    """Names and parents of a tree in which each row of names leads to a node; and those nodes."""
    names, parent, ends = [""], [-1], []
    child: dict[tuple[int, str], int] = {}
    for row in rows:
        node = 0
        for name in row:
            below = child.setdefault((node, name), len(names))
            if below == len(names):
                names.append(name)
                parent.append(node)
            node = below
        ends.append(node)
    return names, parent, ends


def join_edges(
    edges: Iterable[tuple[Any, Any]], places: Iterable[str] | None = None
) -> tuple[list[str], list[int], list[str]]:
    """Names, parents and places of the nodes of (parent, child) pairs; a name is one node."""
    number: dict[str, int] = {}
    parent: list[int] = []
    where: list[str] = []
    for edge, place in zip(edges, places or repeat("")):
        above, below = (clean(str(end)) for end in edge)
        for name in (above, below):
            if name not in number:
                number[name] = len(parent)
                parent.append(-1)
                where.append(place)
        i = number[below]
        if parent[i] >= 0:
            names = list(number)
            old = f'"{names[parent[i]]}"{_at(where, i)}'
            if parent[i] == number[above]:
                raise TaxonomyError(f'Two children of {old} are called "{below}". Remove one.')
            raise TaxonomyError(
                f'"{below}" has two parents, {old} and "{above}"{_at([place], 0)}. '
                "In a tree a node has one."
            )
        parent[i] = number[above]
        where[i] = place
    if not parent:
        raise TaxonomyError("There are no edges, so there is no tree.")
    return list(number), parent, where


def _at(where: Sequence[str] | None, i: int) -> str:
    return f" ({where[i]})" if where and where[i] else ""


def checked_names(names: Sequence[str], where: Sequence[str] | None) -> list[str]:
    checked = []
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise TaxonomyError(f"The name of node {i}{_at(where, i)} must be text, not {name!r}.")
        if UNWRITABLE.search(name):
            raise TaxonomyError(f"The name {name!r}{_at(where, i)} holds a control character.")
        checked.append(clean(name))
    if not checked:
        raise TaxonomyError("There are no nodes; a tree has at least a root.")
    return checked


def preorder(
    names: Sequence[str], parents: Sequence[int], where: Sequence[str] | None
) -> list[int]:
    """Numbers of the nodes in preorder, after a check that they form one tree."""

    def show(i: int) -> str:
        return f"{shorten(names[i])}{_at(where, i)}" if names[i] else f"node {i}{_at(where, i)}"

    def family(above: int) -> str:
        return show(above) if parents[above] != -1 else "the root"

    children: dict[int, list[int]] = defaultdict(list)
    sibling: dict[tuple[int, str], int] = {}
    for i, above in enumerate(parents):
        if not isinstance(above, int) or not -1 <= above < len(names):
            raise TaxonomyError(
                f"The parent of {show(i)} is {above!r}, which is no node: expected a number from "
                f"0 to {len(names) - 1}, or -1 for the root."
            )
        children[above].append(i)
        if above < 0:
            continue
        if not names[i]:
            raise TaxonomyError(
                f"A child of {family(above)} has an empty name{_at(where, i)}. Give it a name or "
                "remove it."
            )
        first = sibling.setdefault((above, names[i]), i)
        if first != i:
            places = f" ({where[first]} and {where[i]})" if where and where[i] else ""
            raise TaxonomyError(
                f"Two children of {family(above)} are called {shorten(names[i])}{places}. "
                "Rename or remove one."
            )
    roots = children[-1]
    if len(roots) > 1:
        some = [show(i) for i in roots[:3]] + ["others"] * (len(roots) > 3)
        raise TaxonomyError(
            f"{len(roots)} nodes have no parent: {listed(some, 'and')}. A tree has one root; put "
            "them under a common one."
        )
    order: list[int] = []
    todo = list(roots)
    while todo:
        order.append(i := todo.pop())
        todo.extend(reversed(children.get(i, ())))
    if len(order) < len(names):
        reached = set(order)
        i = next(i for i in range(len(names)) if i not in reached)
        chain: dict[int, None] = {}
        while i not in chain:  # up from a node that the root does not reach, round to itself
            chain[i] = None
            i = parents[i]
        cycle = list(chain)[list(chain).index(i) :]
        steps = " → ".join(show(k) for k in [i, *reversed(cycle)])
        raise TaxonomyError(f"These nodes are below themselves, in a cycle: {steps}.")
    return order
