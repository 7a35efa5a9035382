"""Trees that are pasted or dropped into a page."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from leafwise.exceptions import TaxonomyError
from leafwise.taxonomy import Taxonomy
from leafwise.taxonomy_building import grow
from leafwise.taxonomy_names import parse_keywords, split_path

__all__ = ["ENDINGS", "checked_depth", "read_tree"]

# What a file may end in, and its format.
ENDINGS = {
    "yaml": "yaml",
    "yml": "yaml",
    "json": "json",
    "csv": "csv",
    "tsv": "tsv",
    "ttl": "turtle",
    "rdf": "rdfxml",
    "xml": "rdfxml",
    "txt": None,
}
_YAML = re.compile(r"\s*- |.*:\s*(\[.*)?$").match
_TAB = 8
_DEEPEST = 100  # levels: a path is written out for each node, so depth costs its square


def read_tree(text: str, ending: str | None = None) -> Taxonomy:
    """Read a tree from text: of a file with this ending, or whatever was pasted.

    What was pasted is JSON, YAML, a table with a header (path, keywords), or lines: paths, or
    names below each other, indented, with keywords after a colon.
    """
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    if not text.strip():
        raise TaxonomyError("There is no tree in the field: paste one, or choose a file.")
    format = ENDINGS[ending] if ending is not None else _format(text)
    if format is not None:
        tree = _load(text, format)
    else:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
        tree = _read_lines(lines)
    return checked_depth(tree)


def checked_depth(tree: Taxonomy) -> Taxonomy:
    if (depth := int(tree.depth.max())) > _DEEPEST:
        raise TaxonomyError(f"The tree has {depth:,} levels; {_DEEPEST} are taken here.")
    return tree


def _format(text: str) -> str | None:
    lines = [line for line in text.split("\n") if line.strip()]
    first = lines[0].strip().lower()
    if first[0] in "{[":
        return "json"
    if first in ("path", "path,keywords"):
        return "csv"
    if first == "path\tkeywords":
        return "tsv"
    # A name with a colon and nothing after it has its children below: only YAML writes that.
    return "yaml" if any(_YAML(line) for line in lines) else None


def _load(text: str, format: str) -> Taxonomy:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tree"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            return Taxonomy.load(file, format)
        except TaxonomyError as error:
            raise TaxonomyError(str(error).removeprefix(f"{file}: ")) from None


def _read_lines(lines: list[tuple[int, str]]) -> Taxonomy:
    rows: list[tuple[str, ...]] = []
    words: list[tuple[str, ...] | None] = []
    above: list[tuple[int, tuple[str, ...]]] = []  # indents and names of the lines we are below
    for n, line in lines:
        line = line.expandtabs(_TAB)
        indent = len(line) - len(line.lstrip())
        name, colon, keywords = line.strip().partition(":")
        while above and above[-1][0] >= indent:
            above.pop()
        if indent and not above:
            raise TaxonomyError(f"line {n}: indented, but there is no name above it to be below.")
        names = (*(above[-1][1] if above else ()), *split_path(name))
        if not all(names) or not name.strip():
            raise TaxonomyError(f"line {n}: a name is empty.")
        above.append((indent, names))
        rows.append(names)
        words.append(parse_keywords(keywords) if colon and keywords.strip() else None)
    names_, parent, ends = grow(rows)
    given: list[tuple[str, ...] | None] = [None] * len(names_)
    for node, own in zip(ends, words):
        given[node] = own if own is not None else given[node]
    return Taxonomy(names_, parent, given)
