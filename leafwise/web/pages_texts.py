"""Texts on pages: the words that decided, marked by the level of the tree they speak for."""

from __future__ import annotations

from typing import NamedTuple

from leafwise.review.workbench import Explained
from leafwise.web.pages import names

SHOWN = 50_000  # characters of a text on a page
_LEVELS = 5  # ways of marking besides that for words that could be any
_WEAK = 0.15  # of the weightiest word: words below this are marked less


class Part(NamedTuple):
    """A piece of a text; `level` is None where it is not marked."""

    text: str
    level: int | None = None
    weak: bool = False
    title: str = ""


class Level(NamedTuple):
    """A line of the legend."""

    number: int
    name: str
    note: str


class View(NamedTuple):
    """A text to be shown."""

    parts: list[Part]
    legend: list[Level]
    shown: int
    length: int

    @property
    def cut(self) -> bool:
        return self.shown < self.length


def view_of(text: str, explained: Explained | None) -> View:
    """Take a text apart at its marks.

    A level is marked by how deep in the tree it is, so that it looks the same for every document.
    """
    shown = text[:SHOWN]
    if explained is None or not explained.marks:
        return View([Part(shown)], [], len(shown), len(text))
    numbers = [min(len(names(path)), _LEVELS) if path else 0 for path in explained.levels]
    most = max(abs(mark.weight) for mark in explained.marks)
    parts: list[Part] = []
    legend: dict[int, Level] = {}
    at = 0
    for mark in explained.marks:
        if mark.start < at or mark.end > len(shown):
            continue
        if mark.start > at:
            parts.append(Part(shown[at : mark.start]))
        at = mark.end
        path, number = explained.levels[mark.level], numbers[mark.level]
        name = names(path)[-1] if names(path) else "any topic"
        title = f"{'for' if mark.weight >= 0 else 'against'} {name}"
        weak = mark.weight < 0 or abs(mark.weight) < _WEAK * most
        parts.append(Part(shown[mark.start : mark.end], number, weak, title))
        legend.setdefault(number, Level(number, name, ""))
    parts.append(Part(shown[at:]))
    return View(parts, [legend[n] for n in sorted(legend)], len(shown), len(text))
