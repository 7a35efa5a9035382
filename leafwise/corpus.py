"""Documents in: CSV, TSV, JSONL, Parquet, fastText, lines of text, and folders.

`corpus_formats` reads each format as rows or columns; here they become a `Batch`: the text, the
labels and the id of each row, and the rows that cannot be used. Those are never dropped in silence:
the first one stops the reading, or they are counted and written to a file.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from leafwise import corpus_formats as formats
from leafwise.atomic import replacing
from leafwise.corpus_columns import (
    ID_NAMES,
    as_written,
    check_types,
    find_column,
    find_label,
    find_text,
    listed,
    no_column,
    several_labels,
)
from leafwise.corpus_text import (
    Progress,
    Record,
    Source,
    Tally,
    csv_rows,
    find_codec,
    lines_of,
    not_text,
    shown,
    text_blocks,
)
from leafwise.corpus_writer import csv_bytes, open_writer
from leafwise.exceptions import CorpusError, LabelError
from leafwise.taxonomy import Taxonomy, join_path
from leafwise.taxonomy_names import clean

__all__ = ["BadRow", "Batch", "Corpus", "open_writer"]

BAD_KEPT = 100  # bad rows that are kept in memory
BATCH_CHARS = 32 << 20  # characters in a batch, about
HEAD = 1000  # lines of JSONL that are looked at for the names of its columns


class Batch(NamedTuple):
    """Some documents, as parallel lists."""

    texts: list[str]
    labels: list[tuple[str, ...]]
    """Labels of each document as written; () where unknown."""
    ids: list[str]
    """The id column; without one, line numbers, or file names in a folder."""
    lines: list[int]
    """Line where each row begins; its number in Parquet and in a folder. The first is 1."""
    columns: dict[str, Sequence[Any]]
    """Every column as read, to be written back: lists, or Arrow arrays for the columns of a
    Parquet file that leafwise does not use."""


class BadRow(NamedTuple):
    """A row that cannot be used."""

    source: str
    line: int
    reason: str
    raw: str


class Corpus:
    """Documents of a file, a folder or standard input, read in batches.

    Parameters
    ----------
    source : path-like
        A file, a folder whose folders are the labels, or "-" for standard input.
    text, label, id : str, optional
        Names of the columns. By default `text` (or body, content, document), `label` or `labels`,
        and `id`, in any case. ``text="title+description"`` joins columns with a newline.
    format : str, optional
        csv, tsv, jsonl, parquet, fasttext, text or folder. By default what the name ends in says.
    encoding : str
        Encoding of the text formats.
    taxonomy : Taxonomy, optional
        A row with a label that is not in it is a bad row.
    label_separator : str, optional
        What stands between the labels of one cell: by default ";" in a column called `labels`,
        and any other column holds one label. Lists in JSONL and Parquet need none.
    need_ids : bool
        Where there is a column of ids, a row with an empty one is a bad row.
    one_label : bool
        A row with several labels is a bad row.
    skip_bad : bool
        Go on after a bad row instead of raising.
    bad_rows : path-like, optional
        CSV file (source, line, reason, raw) where a pass with `skip_bad` lists the bad rows.
    batch_size : int
        Rows in a batch; fewer where the texts are long.
    max_line : int
        Characters in a line, in a row of CSV, or bytes in a file of a folder: more is a bad row.
    on_progress : callable, optional
        Called with the bytes read, and the bytes there are (None while standard input arrives).

    Attributes
    ----------
    format : str
    columns : list of str
        Names of the columns. In JSONL, those of the first lines, and of all after a pass.
    text_column, label_column, id_column : str or None
    n_documents, n_bad : int or None
        After a pass, the good and the bad rows.
    bad : list of BadRow
        The first 100 bad rows of the last pass.
    taxonomy_ : Taxonomy or None
        The tree of a folder's folders.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        text: str | None = None,
        label: str | None = None,
        id: str | None = None,
        format: str | None = None,
        encoding: str = "utf-8",
        taxonomy: Taxonomy | None = None,
        label_separator: str | None = None,
        need_ids: bool = False,
        one_label: bool = False,
        skip_bad: bool = False,
        bad_rows: str | os.PathLike[str] | None = None,
        batch_size: int = 10_000,
        max_line: int = 64 << 20,
        on_progress: Progress | None = None,
    ):
        self.source = os.fspath(source)
        self.name = "standard input" if self.source == "-" else self.source
        self.taxonomy = taxonomy
        self.label_separator = label_separator or ";"
        self.need_ids = need_ids
        self.one_label = one_label
        self.skip_bad = skip_bad
        self.bad_rows = bad_rows
        self.batch_size = batch_size
        self.on_progress = on_progress
        self.delimiter = ","
        self.schema: Any = None  # of a Parquet file
        self.columns: list[str] = []
        self.text_column: str | None = None
        self.label_column: str | None = None
        self.id_column: str | None = None
        self.n_documents: int | None = None
        self.n_bad: int | None = None
        self.bad: list[BadRow] = []
        self._asked = {"text": text, "label": label, "id": id}
        self._separator = label_separator
        self._text_columns: list[str] = []
        self._parse = lru_cache(1 << 16, typed=True)(self._parse_labels)
        if batch_size < 1:
            raise CorpusError(f"batch_size must be 1 or more, not {batch_size}.")
        codec = find_codec(encoding)
        path = formats.locate(self.source, self, on_progress)
        self._source = Source(path, self.name, encoding, codec, max_line)
        self.format = formats.find_format(self._source, format, spooled=path != self.source)
        if self.format in ("folder", "fasttext", "text"):
            self._no_columns()
        else:
            self._find_columns()

    # ---- reading -------------------------------------------------------------------------------

    def batches(self) -> Generator[Batch, None, None]:
        """Read the documents; each call reads them anew."""
        self.bad, n_documents, n_bad = [], 0, 0
        listing = replacing(self.bad_rows) if self.skip_bad and self.bad_rows else nullcontext()
        with listing as file:
            if file is not None:
                file.write(csv_bytes([BadRow._fields]))
            for columns, lines, bad in self._chunks():
                batch, bad = self._batch(columns, lines, bad)
                if bad and not self.skip_bad:
                    raise CorpusError(
                        f"{self._where(bad[0])}: {bad[0].reason} "
                        "(skip_bad=True goes on and lists such rows)"
                    )
                if bad:
                    n_bad += len(bad)
                    self.bad += bad[: BAD_KEPT - len(self.bad)]
                    if file is not None:
                        file.write(csv_bytes(bad))
                n_documents += len(batch.texts)
                if batch.texts:
                    yield batch
            self.n_documents, self.n_bad = n_documents, n_bad
        if not n_documents and n_bad:
            raise CorpusError(
                f"Every row of {self.name} is bad ({n_bad:,}). The first: "
                f"{self._where(self.bad[0])}: {self.bad[0].reason}."
            )
        if not n_documents:
            raise CorpusError(f"{self.name} has columns ({listed(self.columns)}) but no rows.")
        self._check_asked()

    def read(self) -> Batch:
        """Read all documents at once."""
        batches = list(self.batches())
        if len(batches) == 1:
            return batches[0]
        columns: dict[str, Any] = {}
        for name in self.columns:
            parts = [b.columns.get(name, [None] * len(b.texts)) for b in batches]
            columns[name] = formats.concatenated(parts)
        return Batch(
            [text for b in batches for text in b.texts],
            [labels for b in batches for labels in b.labels],
            [id for b in batches for id in b.ids],
            [line for b in batches for line in b.lines],
            columns,
        )

    @cached_property
    def taxonomy_(self) -> Taxonomy | None:
        if self.format != "folder":
            return None
        folders = [join_path(folder) for folder, _ in formats.walk(self._source.path) if folder]
        return Taxonomy.from_paths(folders) if folders else None

    def _where(self, bad: BadRow) -> str:
        if self.format == "folder":
            return bad.source
        return f"{bad.source}, {'row' if self.format == 'parquet' else 'line'} {bad.line}"

    # ---- chunks of columns ---------------------------------------------------------------------

    def _chunks(self) -> Iterator[tuple[dict[str, Any], list[int], list[BadRow]]]:
        """Columns, line numbers and bad rows of one batch after another."""
        if self.format == "parquet":
            used = {*self._text_columns, self.label_column}
            for columns, lines in formats.parquet_columns(
                self._source, used, self.batch_size, BATCH_CHARS, self.on_progress
            ):
                yield columns, lines, []
            return
        rows: list[Any] = []
        lines, bad = [], []
        tally = Tally()
        records = self._records(tally, self.on_progress)
        if self.format in ("csv", "tsv"):
            next(records, None)  # the header
        room = self.batch_size
        for line, row, reason in records:
            if reason:
                bad.append(self._bad_row(line, reason, row, row))
            else:
                rows.append(row)
                lines.append(line)
            room -= 1
            if not room or tally.characters > BATCH_CHARS or (reason and not self.skip_bad):
                yield self._transposed(rows), lines, bad
                rows, lines, bad = [], [], []
                room, tally.characters = self.batch_size, 0
        yield self._transposed(rows), lines, bad

    def _records(self, tally: Tally, progress: Progress | None = None) -> Iterator[Record]:
        if self.format == "folder":
            return formats.folder_files(self._source, tally, progress)
        blocks = text_blocks(self._source, tally, progress)
        if self.format in ("csv", "tsv"):
            return csv_rows(blocks, self._source, self.delimiter)
        lines = lines_of(blocks, self._source)
        return (formats.json_objects if self.format == "jsonl" else formats.fasttext_lines)(lines)

    def _transposed(self, rows: list[Any]) -> dict[str, Any]:
        if self.format == "jsonl":
            self._add_columns(rows)
            return {name: [row.get(name) for row in rows] for name in self.columns}
        names = self.columns if self.format in ("csv", "tsv") else ["id", "text", "label"]
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def _bad_row(self, line: int, reason: str, raw: str, id: str) -> BadRow:
        source = os.path.join(self.name, id) if self.format == "folder" else self.name
        return BadRow(source, line, reason, shown(raw))

    # ---- from a chunk to a batch ---------------------------------------------------------------

    def _batch(
        self, columns: dict[str, Any], lines: list[int], bad: list[BadRow]
    ) -> tuple[Batch, list[BadRow]]:
        reasons: dict[int, str] = {}
        ids = self._ids(columns, lines, reasons)
        for values in (*columns.values(), ids):
            if type(values) is list:
                self._find_broken(values, reasons)
        texts = self._texts(columns, len(lines), reasons)
        labels = self._labels(columns, len(lines), reasons)
        if reasons:
            for i, reason in reasons.items():
                row = {name: v[i] for name, v in columns.items() if type(v) is list}
                raw = as_written(row, self.format, self.delimiter)
                bad.append(self._bad_row(lines[i], reason, raw, ids[i]))
            bad.sort(key=lambda row: row.line)
            keep = [i for i in range(len(lines)) if i not in reasons]
            texts, labels = [texts[i] for i in keep], [labels[i] for i in keep]
            ids, lines = [ids[i] for i in keep], [lines[i] for i in keep]
            columns = {
                name: [v[i] for i in keep] if type(v) is list else v.take(np.array(keep, np.int64))
                for name, v in columns.items()
            }
        # The label of a folder or of a line of fastText is no column: the one written is new.
        columns = {name: columns[name] for name in self.columns if name in columns}
        return Batch(texts, labels, ids, lines, columns), bad

    # In the four below, map() and all() go over rows that are as they should be, as most are,
    # several times faster than a loop does.

    def _find_broken(self, values: list[Any], reasons: dict[int, str]) -> None:
        if set(map(type, values)) == {str} and all(map(str.isascii, values)):
            return
        expected = {
            "jsonl": "",  # a line with a byte that is not decoded has not come this far
            "parquet": "utf-8, which all text in Parquet should be",
        }.get(self.format, self._source.expected)
        for i, value in enumerate(values):
            if type(value) is str and (reason := not_text(value, expected)):
                reasons.setdefault(i, reason)

    def _texts(self, columns: dict[str, Any], n: int, reasons: dict[int, str]) -> list[str]:
        parts = [columns.get(name, [None] * n) for name in self._text_columns] or [[None] * n]
        if len(parts) == 1:
            texts = parts[0]
            if set(map(type, texts)) != {str} or not all(texts) or any(map(str.isspace, texts)):
                for i, text in enumerate(texts):
                    if type(text) is not str or not text or text.isspace():
                        reasons.setdefault(i, self._no_text([text]))
            return texts
        texts = []
        for i, cells in enumerate(zip(*parts)):
            good = [cell for cell in cells if type(cell) is str and cell and not cell.isspace()]
            if not good or any(type(cell) is not str and cell is not None for cell in cells):
                reasons.setdefault(i, self._no_text(cells))
            texts.append("\n".join(good))
        return texts

    def _ids(self, columns: dict[str, Any], lines: list[int], reasons: dict[int, str]) -> list[str]:
        values = columns.get(self.id_column or "")
        if self.id_column is None or values is None:
            return list(map(str, lines))
        values = formats.values_of(values)
        if self.need_ids:
            empty = [i for i, v in enumerate(values) if v is None or not str(v).strip()]
            reasons.update(dict.fromkeys(empty, "the id is empty"))
        if set(map(type, values)) == {str} and all(values):
            return values
        return [str(line if v is None or v == "" else v) for v, line in zip(values, lines)]

    def _no_text(self, cells: Iterable[Any]) -> str:
        for name, cell in zip(self._text_columns, cells):
            if cell is not None and type(cell) is not str:
                return f'column "{name}" holds {formats.kind_of(cell)}, not text'
        if self.format in ("folder", "fasttext", "text"):
            return "there is no text"
        return f'there is no text in column "{self.text_column}"'

    def _labels(
        self, columns: dict[str, Any], n: int, reasons: dict[int, str]
    ) -> list[tuple[str, ...]]:
        cells = columns.get(self.label_column or "")
        if self.label_column is None or cells is None:
            return [()] * n
        if list in set(map(type, cells)):
            cells = [tuple(cell) if type(cell) is list else cell for cell in cells]
        try:
            parsed = list(map(self._parse, cells))
        except TypeError:  # a mapping, or a list of such, which no cache can hold
            parsed = list(map(self._parse_labels, cells))
        if any(reason for _, reason in set(parsed)):
            for i, (_, reason) in enumerate(parsed):
                if reason:
                    reasons.setdefault(i, reason)
        return [labels for labels, _ in parsed]

    def _parse_labels(self, cell: Any) -> tuple[tuple[str, ...], str]:
        """Labels of a cell, and what is wrong with them."""
        items: Sequence[Any] = cell if type(cell) is tuple else (cell,)
        for item in items:
            if item is not None and type(item) not in (str, int):
                kind = formats.kind_of(item)
                return (), f'column "{self.label_column}" holds {kind}, not a label'
        if type(cell) is str:
            plural = (self.label_column or "").strip().casefold() == "labels"
            separator = self._separator or (";" if plural else None)
            items = cell.split(separator) if separator else (cell,)
        found = [str(item).strip() for item in items if item is not None]
        labels = tuple(dict.fromkeys(label for label in found if label))
        if self.taxonomy is not None:
            try:
                labels = tuple(self._label(label, self.taxonomy) for label in labels)
            except LabelError as error:
                return (), str(error).rstrip(".")
        if self.one_label and (reason := several_labels(labels, self.taxonomy)):
            return (), reason
        return labels, ""

    def _label(self, label: str, tree: Taxonomy) -> str:
        """The label, if it is in the tree; in fastText, the path of the one node it stands for."""
        if self.format == "fasttext" and label not in tree:
            nodes = formats.fasttext_nodes(tree).get(clean(label), set())
            if len(nodes) == 1:
                return tree.paths[min(nodes)]
        tree.index(label)
        return label

    # ---- columns -------------------------------------------------------------------------------

    def _no_columns(self) -> None:
        for option, column in self._asked.items():
            if column is not None:
                raise CorpusError(
                    f'{self.name} ({self.format}) has no columns, so no {option} column "{column}".'
                )
        self.columns = ["id", "text"]  # of which every output can be read again
        self.text_column, self.label_column, self.id_column = "text", "label", "id"
        self._text_columns = ["text"]

    def _find_columns(self) -> None:
        whole = True
        if self.format == "parquet":
            with formats.open_parquet(self._source) as file:
                self.schema = file.schema_arrow
            self.columns = list(self.schema.names)
        elif self.format == "jsonl":
            head = list(islice(self._records(Tally()), HEAD))
            self.columns = list(
                dict.fromkeys(key for _, row, bad in head if not bad for key in row)
            )
            whole = len(head) < HEAD
        else:
            self.columns = self._header()
        twice = [name for i, name in enumerate(self.columns) if name in self.columns[:i]]
        if twice:
            raise CorpusError(f'{self.name} has two columns called "{twice[0]}". Rename one.')
        self._resolve()
        if whole:
            self._check_asked()
        if self.schema is not None:
            check_types(self.name, self.schema, self._text_columns, self.label_column)

    def _header(self) -> list[str]:
        lines = lines_of(text_blocks(self._source, Tally()), self._source)
        first = next((line for _, line, _ in lines), "")
        self.delimiter = "\t" if self.format == "tsv" else ","
        if self.format == "csv" and "," not in first:
            self.delimiter = next((one for one in ";\t" if one in first), ",")
        number, header, reason = next(self._records(Tally()), (0, [], ""))
        reason = reason or not_text(" ".join(header), self._source.expected)
        if reason:
            raise CorpusError(f"{self.name}, line {number} (the header): {reason}.")
        return header

    def _add_columns(self, rows: list[dict[str, Any]]) -> None:
        """Keys of JSON that are new; a label may come late in a file that is mostly unlabelled."""
        known = set(self.columns)
        for row in rows:
            if not row.keys() <= known:
                self.columns += [name for name in row if name not in known]
                known.update(row)
        self._resolve()

    def _resolve(self) -> None:
        """Find the columns that are not found yet. Where there are any, one must be the text."""
        if not self._text_columns:
            self._text_columns = find_text(self.columns, self._asked["text"])
            self.text_column = "+".join(self._text_columns) or None
        if self.label_column is None or self.format == "jsonl":
            asked = self._asked["label"]
            self.label_column = find_label(self.name, self.format, self.columns, asked)
        if self.id_column is None:
            self.id_column = find_column(self.columns, self._asked["id"], ID_NAMES)
        if self.columns and not self._text_columns:
            raise no_column(self.name, self.format, self.columns, self._asked["text"])

    def _check_asked(self) -> None:
        """Raise if a column that was asked for is not there."""
        for found, asked in (
            (self.label_column, self._asked["label"]),
            (self.id_column, self._asked["id"]),
        ):
            if found is None and asked is not None:
                raise no_column(self.name, self.format, self.columns, asked)
