"""Trees to look at: in a terminal and in a notebook."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from leafwise.taxonomy import Taxonomy, own_keywords


def draw(tree: Taxonomy, limit: int | None = 200) -> str:
    """Draw a tree, with keywords where they are not the words of the name.

    It shows up to `limit` nodes: level by level, as many children of each node as fit. What is
    left out is counted.
    """
    drawn = _drawn(tree, limit)
    lines = []
    todo: list[tuple[int | str, str, str]] = [(0, "", "")]
    while todo:
        item, lead, below = todo.pop()
        if isinstance(item, str):
            lines.append(lead + item)
            continue
        name, words = _caption(tree, item)
        shown, more = _shown(tree, item, drawn)
        tail = f"  {more}" if more and not shown else ""
        lines.append(lead + name + (f"  [{words}]" if words else "") + tail)
        rows: list[int | str] = [*shown, more] if more and shown else [*shown]
        for row in reversed(rows):
            bend, rest = ("└── ", "    ") if row is rows[-1] else ("├── ", "│   ")
            todo.append((row, below + bend, below + rest))
    return "\n".join(lines)


def draw_html(tree: Taxonomy, limit: int | None = 2000) -> str:
    """Draw a tree as a list whose branches fold."""
    drawn = _drawn(tree, limit)
    html = []
    todo: list[int | str] = [0]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            html.append(item)
            continue
        name, words = _caption(tree, item)
        text = escape(name) + (f" <small>{escape(words)}</small>" if words else "")
        shown, more = _shown(tree, item, drawn)
        if not shown and not more:
            html.append(f"<li>{text}</li>")
            continue
        opened = " open" if item == 0 else ""
        html.append(f"<li><details{opened}><summary>{text}</summary><ul>")
        rest = f"<li>{more}</li>" if more else ""
        todo += [f"{rest}</ul></details></li>", *reversed(shown)]
    return f'<ul class="leafwise-taxonomy">{"".join(html)}</ul>'


def _caption(tree: Taxonomy, i: int) -> tuple[str, str]:
    """Name of a node and, where they are not the default, its keywords."""
    own = own_keywords(tree, i)
    words = "" if own is None else ", ".join(own) or "no keywords"
    return tree.names[i] or "/", words


def _shown(tree: Taxonomy, i: int, drawn: NDArray[np.bool_]) -> tuple[list[int], str]:
    """Children of node `i` that are drawn, and a word on what is left out below it."""
    shown = [int(c) for c in tree.children(i) if drawn[c]]
    left_out = int(tree.end[i]) - i - 1 - sum(int(tree.end[c]) - c for c in shown)
    return shown, f"... and {left_out:,} more" if left_out else ""


def _drawn(tree: Taxonomy, limit: int | None) -> NDArray[np.bool_]:
    """Mask of at most `limit` nodes: level by level, as many of each family as fit."""
    if limit is None:
        return np.ones(tree.n_nodes, dtype=bool)
    drawn = np.zeros(tree.n_nodes, dtype=bool)
    drawn[0] = True
    for nodes, first in tree.levels:
        family_size = np.diff(first, append=len(nodes))
        rank = np.arange(len(nodes)) - np.repeat(first, family_size)
        visible = drawn[tree.parent[nodes]]
        n_up_to_rank = np.cumsum(np.bincount(rank[visible]))
        n_shown = np.searchsorted(n_up_to_rank, limit - drawn.sum(), side="right")
        drawn[nodes[visible & (rank < n_shown)]] = True
        if n_shown == 0:
            break
    return drawn
