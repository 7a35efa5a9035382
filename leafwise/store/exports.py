"""Labels and predictions of a project as files for other programs.

Documents are read and written a thousand at a time, and a file appears under its name only
when it is whole: see `atomic`. What a table program would take for a formula is written with an
apostrophe before it; JSONL and Parquet hold everything as it is.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from leafwise.atomic import replacing
from leafwise.corpus_formats import (
    FASTTEXT,
    SUFFIXES,
    fasttext_label,
    fasttext_nodes,
    format_of,
)
from leafwise.corpus_writer import csv_bytes
from leafwise.exceptions import OutputError, ProjectError
from leafwise.taxonomy_names import shorten

if TYPE_CHECKING:
    from leafwise.store.project import Project
    from leafwise.store.records import Answer, Document
    from leafwise.taxonomy import Taxonomy

FORMATS = ("csv", "tsv", "jsonl", "parquet", "fasttext", "annif")
WHATS = ("all", "labels", "predictions", "history")
CANDIDATES = ("probability", "label_2", "probability_2", "label_3", "probability_3")
BATCH = 1000  # documents read and written at a time: they may be long
SEPARATOR = ";"  # between the labels of a cell, as `Corpus` reads a column called `labels`

# Also full-width, which some versions of Excel take for the same.
_FORMULA = re.compile("[=+\\-@\t\r\n＝＋－＠]").match

Row = list[Any]
"""A document: id, text, labels as a tuple of paths, and what comes after."""


def export(
    project: Project,
    to: str | os.PathLike[str] | IO[bytes],
    *,
    what: str = "all",
    format: str | None = None,
) -> int:
    """Write documents with their labels, or with what the model says of them.

    Parameters
    ----------
    project : Project
    to : path-like or binary file
        A path that ends in .gz is compressed. An open file is not closed.
    what : {"all", "labels", "predictions", "history"}
        "labels": the documents with a confirmed label. "predictions": those without one that a
        model has sorted, with its best node and the next two. "all": every document, with a column
        `labelled_by` that says "confirmed" or "model". "history": every answer ever given, also
        those that were replaced or undone, as JSONL.
    format : str, optional
        csv, tsv, jsonl, parquet, fasttext or annif; by default what the name ends in says.

    Returns
    -------
    int
        How many rows were written.
    """
    if what not in WHATS:
        raise ProjectError(f'There is no export of "{what}". Known are {", ".join(WHATS)}.')
    format, zipped = _format(to, what, format)
    # One state of the project throughout, whoever labels meanwhile.
    with project._db.reading(), _opened(to, zipped) as file:
        if what == "history":
            return _write_texts(file, (_jsonl(_answers(batch)) for batch in _histories(project)))
        columns, batches = _columns(project, what), _rows(project, what)
        if format == "parquet":
            return _write_parquet(file, columns, project.several, batches)
        return _write_texts(file, _encoded(format, columns, project, batches))


def export_tree(
    project: Project, path: str | os.PathLike[str], format: str | None = None
) -> Taxonomy:
    """Write the tree, in any format of `Taxonomy.save`; returns it."""
    tree = project.tree.taxonomy
    tree.save(path, format)
    kind = format or os.path.splitext(path)[1].lower().removeprefix(".")
    if kind in ("csv", "tsv"):
        delimiter = "," if kind == "csv" else "\t"
        with open(path, encoding="utf-8", newline="") as file:
            rows = [list(map(_harmless, row)) for row in csv.reader(file, delimiter=delimiter)]
        with replacing(path) as out:
            out.write(csv_bytes(rows, delimiter))
    return tree


def node_uri(path: str) -> str:
    """Address of a node, as the tree has it in SKOS (Turtle, RDF/XML)."""
    return f"urn:leafwise:node:{quote(path, safe='/')}"


# ---- what is opened -----------------------------------------------------------------------------


def _format(to: Any, what: str, asked: str | None) -> tuple[str, bool]:
    """Return the format, and whether the file is to be compressed."""
    name = os.fspath(to) if isinstance(to, str | os.PathLike) else ""
    named, zipped = format_of(str(name))
    named = "fasttext" if named == "text" else named
    format = asked or named or ("jsonl" if what == "history" else None)
    if format is None:
        raise OutputError(
            f"What format {name or 'the export'} is to have cannot be told from its name. Name "
            f"one ({', '.join(FORMATS)}), or end the name in {', '.join(SUFFIXES)}."
        )
    if format not in FORMATS:
        raise ProjectError(f'Cannot write the format "{format}". Formats: {", ".join(FORMATS)}.')
    if what == "history" and format != "jsonl":
        raise ProjectError(f"The history of labels is written as JSONL, not as {format}.")
    if zipped and format == "parquet":
        raise ProjectError(f"Cannot write {name}: Parquet is compressed inside. Leave out .gz.")
    return format, zipped


@contextmanager
def _opened(to: Any, zipped: bool) -> Iterator[IO[bytes]]:
    if not isinstance(to, str | os.PathLike):
        yield to
        return
    with replacing(to) as file:
        if not zipped:
            yield file
            return
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            yield packed  # type: ignore[misc]  # it can be written to, which is all


# ---- rows ---------------------------------------------------------------------------------------


def _columns(project: Project, what: str) -> list[str]:
    columns = ["id", "text", "labels" if project.several else "label"]
    if what != "labels":
        columns += CANDIDATES
    return [*columns, "labelled_by"] if what == "all" else columns


def _rows(project: Project, what: str) -> Iterator[list[Row]]:
    """Return the documents, in the order in which they were added."""
    state = {"labels": "labelled", "predictions": "unlabelled"}.get(what, "all")
    after: str | None = None
    while True:
        page = project.documents.page(state=state, order="id", after=after, limit=BATCH)
        documents = page.documents
        if what == "predictions":  # a document that no model has seen yet has none
            documents = [document for document in documents if document.prediction is not None]
        if documents:
            yield [_row(document, what) for document in documents]
        after = page.after
        if after is None:
            return


def _row(document: Document, what: str) -> Row:
    start = [document.key, document.text]
    if what == "labels":
        return [*start, document.labels]
    by = [] if what == "predictions" else ["confirmed"]
    if document.labels:
        return [*start, document.labels, 1.0, None, None, None, None, *by]
    if document.prediction is None:
        return [*start, (), None, None, None, None, None, *([None] * len(by))]
    path, probability, others = document.prediction
    second, third = [*others, (None, None), (None, None)][:2]
    by = ["model"] * len(by)
    return [*start, (path,), _rounded(probability), *_candidate(second), *_candidate(third), *by]


def _candidate(candidate: tuple[Any, Any]) -> tuple[Any, Any]:
    path, probability = candidate
    return path, None if probability is None else _rounded(probability)


def _rounded(probability: float) -> float:
    return round(float(probability), 4)


def _histories(project: Project) -> Iterator[list[Answer]]:
    """Return all that was said of some documents after others."""
    last = 0
    while rows := project._db.rows(
        "SELECT DISTINCT document FROM answers WHERE document > ? ORDER BY document LIMIT ?",
        (last, BATCH),
    ):
        yield [answer for (id,) in rows for answer in project.labels.history(id)]
        last = rows[-1][0]


def _answers(answers: Iterable[Answer]) -> Iterator[dict[str, Any]]:
    for answer in answers:
        yield {
            "document": answer.key,
            "labels": None if answer.labels is None else list(answer.labels),
            "by": answer.by,
            "at": answer.at,
            "source": answer.source,
            "asked": answer.asked,
            "suggested": answer.suggested,
            "probability": answer.probability,
            "undone": answer.undone,
        }


# ---- formats ------------------------------------------------------------------------------------

Encoded = tuple[int, bytes]
"""How many rows, and these as bytes."""


def _write_texts(file: IO[bytes], pieces: Iterable[Encoded]) -> int:
    n_rows = 0
    for n, data in pieces:
        file.write(data)
        n_rows += n
    return n_rows


def _encoded(
    format: str, columns: Sequence[str], project: Project, batches: Iterable[list[Row]]
) -> Iterator[Encoded]:
    tree, several = project.tree.taxonomy, project.several
    if format in ("csv", "tsv"):
        delimiter = "," if format == "csv" else "\t"
        yield 0, csv_bytes([columns], delimiter)
        for rows in batches:
            yield len(rows), csv_bytes((_cells(row, several) for row in rows), delimiter)
    elif format == "jsonl":
        for rows in batches:
            shaped = (_shaped(row, several) for row in rows)
            yield _jsonl(dict(zip(columns, row)) for row in shaped)
    else:
        line = _annif if format == "annif" else _fasttext
        for rows in batches:
            yield len(rows), "".join(line(row[1], row[2], tree) for row in rows).encode()


def _shaped(row: Row, several: bool) -> Row:
    """The labels as one cell: a list, or the one label there is."""
    labels = row[2]
    return [*row[:2], list(labels) if several else next(iter(labels), None), *row[3:]]


def _cells(row: Row, several: bool) -> Iterator[str]:
    if several and any(SEPARATOR in label for label in row[2]):
        raise ProjectError(
            f"The labels of document {shorten(row[0])} are {', '.join(map(shorten, row[2]))}: in "
            f"CSV and TSV, {SEPARATOR} stands between two labels. Write .jsonl or .parquet instead."
        )
    labels = SEPARATOR.join(row[2])
    for value in (*row[:2], labels, *row[3:]):
        yield _harmless("" if value is None else str(value))


def _harmless(cell: str) -> str:
    return "'" + cell if _FORMULA(cell) else cell


_to_json = json.JSONEncoder(ensure_ascii=False).encode


def _jsonl(rows: Iterable[dict[str, Any]]) -> Encoded:
    lines = [_to_json(row) + "\n" for row in rows]
    return len(lines), "".join(lines).encode()


def _fasttext(text: str, labels: Sequence[str], tree: Taxonomy) -> str:
    words = []
    for label in labels:
        word = fasttext_label(label)
        node = tree.index(label)
        told = tree.index(word) == node if word in tree else fasttext_nodes(tree)[word] == {node}
        if not told:
            raise ProjectError(
                f"The node {shorten(label)} cannot be told from another in fastText, where a "
                f'label has no spaces: both are "{word}". Rename one, or write .jsonl instead.'
            )
        words.append(FASTTEXT + word)
    # A text that says __label__ would give itself a label.
    words += text.replace(FASTTEXT, "label_").split()
    return " ".join(words) + "\n"


def _annif(text: str, labels: Sequence[str], tree: Taxonomy) -> str:
    """A line of Annif's short-text corpus: the text, a tab, and the subjects' addresses."""
    return " ".join(text.split()) + "\t" + " ".join(f"<{node_uri(one)}>" for one in labels) + "\n"


def _write_parquet(
    file: IO[bytes], columns: Sequence[str], several: bool, batches: Iterable[list[Row]]
) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"labels": pa.list_(pa.string())}
    kinds |= {name: pa.float64() for name in columns if name.startswith("probability")}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    n_rows = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for rows in batches:
            values = zip(*(_shaped(row, several) for row in rows))
            arrays = [pa.array(column, type=kind) for column, kind in zip(values, schema.types)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            n_rows += len(rows)
    return n_rows
