"""Reading and writing trees: `Taxonomy.load` and `Taxonomy.save`, one section per format.

Readers raise errors that name the line or node; `load` puts the file's name before them.
"""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from leafwise.atomic import replacing
from leafwise.exceptions import OutputError, TaxonomyError
from leafwise.taxonomy import Taxonomy, own_keywords
from leafwise.taxonomy_building import grow, join_edges
from leafwise.taxonomy_names import clean, join_path, parse_keywords, shorten, split_path
from leafwise.taxonomy_nested import read_json, read_yaml, write_json, write_yaml
from leafwise.taxonomy_skos import read_skos, write_rdfxml, write_turtle

EXTENSIONS = {
    "yaml": (".yaml", ".yml"),
    "json": (".json",),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "turtle": (".ttl",),
    "rdfxml": (".rdf", ".xml"),
    "folder": (),
    "weshclass": (),
}
HIERARCHY, KEYWORDS = "label_hier.txt", "keywords.txt"  # the two files of WeSHClass


def load(path: str | os.PathLike[str], format: str | None, language: str) -> Taxonomy:
    """See `Taxonomy.load`."""
    path = Path(path)
    if not path.exists():
        raise TaxonomyError(f"There is no file or folder {path}.")
    format = _format_of(path, format)
    if format == "weshclass" and path.name == HIERARCHY:
        path = path.parent
    try:
        tree = _READERS[format](path, language)
        if len(tree) == 1:
            raise TaxonomyError("It holds no nodes.")
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None
    except OSError as error:
        raise TaxonomyError(f"{path} cannot be read: {error.strerror or error}.") from None
    return tree


def save(
    tree: Taxonomy, path: str | os.PathLike[str], format: str | None, every: bool = False
) -> None:
    """See `Taxonomy.save`."""
    path = Path(path)
    format = _format_of(path, format)
    try:
        if format == "folder":
            _write_folder(tree, path)
        elif format == "weshclass":
            _write_weshclass(tree, path.parent if path.name == HIERARCHY else path, every)
        else:
            with replacing(path) as file:
                file.write(_WRITERS[format](tree, every).encode())
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"Cannot write {path}: {error.strerror or error}.") from None


def _format_of(path: Path, format: str | None) -> str:
    if format is not None:
        if format in EXTENSIONS:
            return format
        unknown, advice = f"Unknown format {shorten(str(format))}.", ""
    elif path.is_dir():
        return "weshclass" if (path / HIERARCHY).exists() else "folder"
    elif path.name == HIERARCHY:
        return "weshclass"
    elif not path.suffix and not path.exists():
        return "folder"
    else:
        for name, extensions in EXTENSIONS.items():
            if path.suffix.lower() in extensions:
                return name
        unknown = f'{path}: the ending "{path.suffix}" is that of no known format.'
        advice = " Rename the file so that its ending says what it is."
    known = (f"{name} ({', '.join(e)})" if e else name for name, e in EXTENSIONS.items())
    raise TaxonomyError(f"{unknown} Known are {', '.join(known)}.{advice}")


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    if not data.strip():
        raise TaxonomyError("It is empty.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TaxonomyError(
            f"line {line}: byte 0x{data[error.start]:02x} (number {error.start} of the file) is "
            "not UTF-8. Save the file with the encoding UTF-8."
        ) from None


# ---- CSV and TSV --------------------------------------------------------------------------------


def _read_table(text: str, delimiter: str) -> Taxonomy:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    rows, cells, lines = [], [], []
    try:
        for row in reader:
            while row and not row[-1].strip():  # what spreadsheets leave at the end of a row
                row.pop()
            if not row:
                continue
            if not header:
                header = _table_header(row, delimiter, reader.line_num)
                continue
            if len(row) > len(header):
                raise TaxonomyError(
                    f"line {reader.line_num}: {len(row)} cells, but the header has "
                    f"{len(header)}. Put quotes around a cell that holds a {delimiter!r}."
                )
            record = dict(zip(header, row))
            if not record["path"].strip():
                raise TaxonomyError(f"line {reader.line_num}: the path is empty.")
            rows.append(split_path(record["path"]))
            cells.append(record.get("keywords", ""))
            lines.append(f"line {reader.line_num}")
    except csv.Error as error:
        raise TaxonomyError(f"line {reader.line_num}: {error}.") from None

    names, parent, ends = grow(rows)
    keywords: list[tuple[str, ...] | None] = [None] * len(names)
    where = [""] * len(names)
    listed: dict[int, str] = {}
    for names_above, node, cell, line in zip(rows, ends, cells, lines):
        if node in listed:
            path = join_path(names_above)
            raise TaxonomyError(
                f"{listed[node]} and {line} have the same path, {shorten(path)}. Remove one."
            )
        listed[node] = line
        keywords[node] = parse_keywords(cell) if cell.strip() else None
        while node and not where[node]:  # the line also makes the parents that have none yet
            where[node] = line
            node = parent[node]
    ignored = [f'"{name}"' for name in header if name not in ("path", "keywords")]
    notes = [f"ignored columns: {', '.join(ignored)}"] if ignored else []
    return Taxonomy(names, parent, keywords, notes=notes, where=where)


def _table_header(row: list[str], delimiter: str, line: int) -> list[str]:
    header = [cell.strip().lower() for cell in row]
    if header[0] != "path":
        raise TaxonomyError(
            f'line {line}: the first line must be the header "path{delimiter}keywords", but its '
            f"first cell is {shorten(row[0])}."
        )
    if len(set(header)) < len(header):
        raise TaxonomyError(f"line {line}: two columns of the header have the same name.")
    return header


def _write_table(tree: Taxonomy, delimiter: str, every: bool) -> str:
    table = io.StringIO(newline="")
    writer = csv.writer(table, delimiter=delimiter, lineterminator="\n")
    writer.writerow(["path", "keywords"])
    if tree.keywords[0]:  # the file has no name for the root, so nothing is its default
        writer.writerow(["/", _cell(tree.keywords[0])])
    for i in range(1, len(tree)):
        writer.writerow([tree.paths[i], _cell(own_keywords(tree, i, every))])
    return table.getvalue()


def _cell(keywords: tuple[str, ...] | None) -> str:
    """Keywords in one string that `parse_keywords` takes apart again; a lone ``;`` is none."""
    if keywords is None:
        return ""
    if keywords and not any(" " in word or "," in word for word in keywords):
        return " ".join(keywords)
    return "; ".join(keywords) + (";" if len(keywords) < 2 else "")


# ---- a folder of folders ------------------------------------------------------------------------


def _read_folder(path: Path) -> Taxonomy:
    names, parent, where = [""], [-1], [""]
    folders = [str(path)]
    for node, folder in enumerate(folders):  # it grows while it is read
        with os.scandir(folder) as entries:
            below = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        for name in below:
            if not name.startswith("."):
                names.append(name)
                parent.append(node)
                where.append(os.path.join(folder, name))
                folders.append(where[-1])
    return Taxonomy(names, parent, where=where)


def _write_folder(tree: Taxonomy, path: Path) -> None:
    for name in tree.names[1:]:
        if "/" in name or os.sep in name or name.startswith("."):
            raise TaxonomyError(f"{shorten(name)} cannot be the name of a folder here.")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise TaxonomyError("There is something there already; save into a new folder.")
    folders = [str(path)]
    for name, above in zip(tree.names[1:], tree.parent[1:].tolist()):
        folders.append(os.path.join(folders[above], name))
    for folder in folders:
        Path(folder).mkdir(exist_ok=folder == folders[0])
    lost = sum(own_keywords(tree, i) is not None for i in range(len(tree)))
    if lost:
        warnings.warn(
            f"Folders hold no keywords: those of {lost} nodes are not in {path}.", stacklevel=4
        )


# ---- WeSHClass: label_hier.txt and keywords.txt -------------------------------------------------


def _read_weshclass(folder: Path) -> Taxonomy:
    edges, places = [], []
    for k, line in _lines(folder / HIERARCHY):
        above, *below = line.split("\t") if "\t" in line else line.split()
        for name in below:
            if not name.strip() or not above.strip():
                raise TaxonomyError(f"{HIERARCHY}, line {k}: a name is empty.")
            edges.append((above, name))
            places.append(f"{HIERARCHY}, line {k}")
    names, parent, where = join_edges(edges, places)
    roots = [i for i, above in enumerate(parent) if above < 0]
    if "ROOT" in names and len(roots) > 1:
        lost = next(i for i in roots if names[i] != "ROOT")
        raise TaxonomyError(
            f'{where[lost]}: unknown parent "{names[lost]}". It must be the child of a node itself.'
        )
    if roots and names[roots[0]] == "ROOT":
        names[roots[0]] = ""
    tree = Taxonomy(names, parent, where=where)
    if not (folder / KEYWORDS).exists():
        return tree

    number = {name: i for i, name in enumerate(tree.names)} | {tree.names[0] or "ROOT": 0}
    keywords: list[tuple[str, ...] | None] = [None] * len(tree)
    seen: dict[int, int] = {}
    for k, line in _lines(folder / KEYWORDS):
        label, words = _label_and_words(line, number)
        if label not in number:
            near = tree.suggest(label)
            hint = f' Did you mean "{split_path(near[0])[-1]}"?' if near else ""
            raise TaxonomyError(
                f"{KEYWORDS}, line {k}: {HIERARCHY} has no node {shorten(label)}.{hint}"
            )
        i = number[label]
        if i in seen:
            raise TaxonomyError(
                f'{KEYWORDS}, line {k}: "{label}" has its keywords on line {seen[i]} already.'
            )
        seen[i] = k
        keywords[i] = parse_keywords(words) if words.strip() else None
    return Taxonomy(tree.names, tree.parent, keywords)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    for k, line in enumerate(_read_text(path).splitlines(), start=1):
        if line.strip():
            yield k, line.rstrip()


def _label_and_words(line: str, number: Mapping[str, int]) -> tuple[str, str]:
    """Take ``label<TAB>words`` apart; a colon or a space after a known label does as well."""
    label, tab, words = line.partition("\t")
    if tab:
        label = clean(label)
        return (label if label in number else label.removesuffix(":")), words
    for mark in reversed(list(re.finditer(r":?(\s|$)", line))):  # the longest label first
        if clean(line[: mark.start()]) in number:
            return clean(line[: mark.start()]), line[mark.end() :]
    return line.split()[0], words


def _write_weshclass(tree: Taxonomy, folder: Path, every: bool) -> None:
    first: dict[str, int] = {"ROOT": 0}
    for i, name in enumerate(tree.names[1:], start=1):
        j = first.setdefault(name, i)
        if j != i:
            raise TaxonomyError(
                f"In this format a name must be that of one node, and {shorten(name)} is that of "
                f'"{tree.paths[j]}" and "{tree.paths[i]}". Choose another format, or rename one.'
            )
    families: list[list[str]] = [["ROOT"], *([name] for name in tree.names[1:])]
    for name, above in zip(tree.names[1:], tree.parent[1:].tolist()):
        families[above].append(name)
    hierarchy, keywords = [], []
    for i, family in enumerate(families):
        own = (tree.keywords[0] or None) if i == 0 else own_keywords(tree, i, every)
        if len(family) > 1:
            hierarchy.append("\t".join(family) + "\n")
        else:
            own = tree.keywords[i]  # WeSHClass itself wants the keywords of every leaf
        if own is not None:
            keywords.append(f"{family[0]}\t{_cell(own)}\n")
    folder.mkdir(exist_ok=True)
    for name, lines in ((HIERARCHY, hierarchy), (KEYWORDS, keywords)):
        with replacing(folder / name) as file:
            file.write("".join(lines).encode())


# ---- the formats --------------------------------------------------------------------------------

_READERS: dict[str, Callable[[Path, str], Taxonomy]] = {
    "yaml": lambda path, _: read_yaml(_read_text(path)),
    "json": lambda path, _: read_json(_read_text(path)),
    "csv": lambda path, _: _read_table(_read_text(path), ","),
    "tsv": lambda path, _: _read_table(_read_text(path), "\t"),
    "turtle": lambda path, language: read_skos(_read_text(path).encode(), "turtle", language),
    # XML names its own encoding.
    "rdfxml": lambda path, language: read_skos(path.read_bytes(), "rdfxml", language),
    "folder": lambda path, _: _read_folder(path),
    "weshclass": lambda path, _: _read_weshclass(path),
}
_WRITERS: dict[str, Callable[[Taxonomy, bool], str]] = {
    "yaml": write_yaml,
    "json": write_json,
    "csv": lambda tree, every: _write_table(tree, ",", every),
    "tsv": lambda tree, every: _write_table(tree, "\t", every),
    "turtle": write_turtle,
    "rdfxml": write_rdfxml,
}
