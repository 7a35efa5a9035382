"""Documents out: the input's rows again, in its format, with columns added.

A file appears under its name only when it is whole: see `atomic`.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from leafwise.atomic import replacing
from leafwise.corpus_formats import FASTTEXT, SUFFIXES, fasttext_label, format_of
from leafwise.exceptions import CorpusError, OutputError

if TYPE_CHECKING:
    from leafwise.corpus import Batch, Corpus

NUMBER = re.compile(r"probability(_\d+)?")  # columns that hold numbers even if all are empty
OUTPUTS = ("csv", "tsv", "jsonl", "parquet", "fasttext")


def csv_bytes(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> bytes:
    r"""Rows of CSV, in UTF-8.

    On long texts this is several times as fast as the csv module, which before Python 3.13 also
    does not quote a lone \r.
    """
    columns = (quoted(list(map(str, column)), delimiter) for column in zip(*rows))
    return _lines(columns, delimiter)


def quoted(cells: list[str], delimiter: str) -> list[str]:
    """Put quotes around the cells of a column that need them; in most columns none does."""
    special = re.compile(f'[{delimiter}"\r\n]').search
    if not special("".join(cells)):
        return cells
    return ['"' + cell.replace('"', '""') + '"' if special(cell) else cell for cell in cells]


def _lines(columns: Iterable[list[str]], delimiter: str) -> bytes:
    # The one empty cell of a row would be a blank line.
    return _encode("".join([(delimiter.join(row) or '""') + "\n" for row in zip(*columns)]))


@contextmanager
def open_writer(
    path: str | os.PathLike[str],
    corpus: Corpus,
    added: Sequence[str],
    *,
    format: str | None = None,
) -> Iterator[Writer]:
    """Write the documents of a corpus back, with columns added.

    Parameters
    ----------
    path : path-like
        The file, or "-" for standard output. Whether it can be written is found out here, before
        any work is done.
    corpus : Corpus
        Where the batches come from.
    added : list of str
        Names of the new columns. One that the input has too (in any case) is replaced in place;
        the others come last.
    format : str, optional
        By default what the name ends in says, else the input's own format; CSV for folders and
        lines of text.

    Yields
    ------
    Writer
        Its ``write(batch, {"label": [...], ...})`` writes one batch.
    """
    name = os.fspath(path)
    format, zipped = output_format(name, corpus, added, format)
    with _standard_output() if name == "-" else replacing(name) as file:
        sink: Any = file
        if zipped:
            sink = gzip.GzipFile("", "wb", compresslevel=6, fileobj=sink, mtime=0)
        find_columns(corpus, format)
        writer = Writer(name, sink, corpus, added, format)
        try:
            yield writer
            writer.close()
        except BaseException:
            writer.drop()
            raise


def output_format(
    name: str, corpus: Corpus, added: Sequence[str], format: str | None = None
) -> tuple[str, bool]:
    """Return the format to write, and whether it is packed; refuse what cannot be written."""
    named, zipped = (None, False) if name == "-" else format_of(name)
    own = corpus.format if corpus.format in OUTPUTS[:-1] else "csv"
    ending = os.path.splitext(name)[1]
    if ending and format is None and named is None:
        raise OutputError(
            f'Cannot write {name}: the ending "{ending}" is that of no known format. '
            f"Known are {', '.join(SUFFIXES)}, and .gz after those of text."
        )
    format = format or named or own
    format = "fasttext" if format == "text" else format
    if format not in OUTPUTS:
        raise CorpusError(f'Cannot write the format "{format}". Formats: {", ".join(OUTPUTS)}.')
    if zipped and format == "parquet":
        raise CorpusError(f"Cannot write {name}: Parquet is compressed inside. Leave out .gz.")
    if format == "fasttext" and not {"label", corpus.label_column} & set(added):
        raise CorpusError(f"Cannot write {name}: fastText lines need a column called label.")
    return format, zipped


def find_columns(corpus: Corpus, format: str) -> None:
    """Read on where there may be more columns: a table's header needs every key of every line.

    Parquet needs a type for each of them, too, and a key that comes late has none before.
    """
    if corpus.format != "jsonl" or format == "jsonl":
        return
    if format == "parquet" and corpus.schema is None:
        corpus.schema = _types(corpus.batches())
    elif corpus.n_documents is None:
        for _ in corpus.batches():
            pass


def _types(batches: Iterable[Batch]) -> Any:
    """Return a schema of the types that columns have, as far as each has one."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    settled: set[str] = set()  # of strings, or of several types: that is said when they are written
    for batch in batches:
        for name, values in batch.columns.items():
            if name in settled:
                continue
            try:
                kind = pa.array(_values(values)).type
                both = [pa.schema([(name, one)]) for one in (found.get(name, kind), kind)]
                kind = pa.unify_schemas(both, promote_options="permissive").field(name).type
            except (pa.ArrowException, OverflowError):
                found.pop(name, None)
                settled.add(name)
                continue
            if not pa.types.is_null(kind):
                found[name] = kind
            if pa.types.is_string(kind):
                settled.add(name)
    return pa.schema(list(found.items()))


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    try:
        yield sys.stdout.buffer
    except (BrokenPipeError, OutputError):  # the reader of a pipe has had enough: not our error
        raise
    except OSError as error:
        raise OutputError(f"Cannot write standard output: {error.strerror or error}.") from error


class Writer:
    """Batches to one open file; made by `open_writer`."""

    def __init__(self, name: str, sink: Any, corpus: Corpus, added: Sequence[str], format: str):
        self.columns = list(corpus.columns)
        self._place: dict[str, str] = {}  # added name -> column that it fills
        folded = {column.casefold(): column for column in self.columns}
        for column in added:
            self._place[column] = folded.get(column.casefold(), column)
            if self._place[column] not in self.columns:
                self.columns.append(column)
        self._name, self._sink, self._format = name, sink, format
        self._separator, self._schema = corpus.label_separator, corpus.schema
        self._delimiter = "\t" if format == "tsv" else ","
        if corpus.format == format:
            self._delimiter = corpus.delimiter
        self._label = next((one for one in added if one == corpus.label_column), "label")
        self._given = corpus.label_column  # where labels were, if the input had any
        self._numbers = {place for one, place in self._place.items() if NUMBER.fullmatch(one)}
        self._parquet: Any = None
        self.written: Any = None  # the schema of the Parquet file, once it is known
        self._has_header = format not in ("csv", "tsv")

    def write(self, batch: Batch, values: Mapping[str, Sequence[Any]]) -> None:
        """Write the rows of a batch with the values of the added columns, one per document."""
        if values.keys() != self._place.keys():
            raise CorpusError(
                f"The writer was opened for the columns {', '.join(self._place)}; "
                f"it was given {', '.join(values)}."
            )
        columns: dict[str, Any] = dict(batch.columns)
        for name, added in values.items():
            if len(added) != len(batch.texts):
                raise CorpusError(
                    f'Column "{name}" has {len(added)} values for {len(batch.texts)} documents.'
                )
            place = self._place[name]
            if place == self._given and place in columns:
                added = _kept(added, batch.labels, columns[place])
            columns[place] = added
        self._write_header()
        if self._format == "parquet":
            self._write_parquet(columns, len(batch.texts))
            return
        try:
            if self._format == "jsonl":
                data = self._jsonl(columns)
            elif self._format == "fasttext":
                data = _fasttext(values[self._label], batch.texts)
            else:
                data = self._table(columns, len(batch.texts))
        except UnicodeError as error:  # of Parquet, whose strings may hold any bytes
            raise CorpusError(f"Cannot write {self._name}: {error}.") from None
        self._sink.write(data)

    def _write_header(self) -> None:
        # With the first rows, and not before: what is printed cannot be taken back.
        if not self._has_header:
            self._sink.write(csv_bytes([self.columns], self._delimiter))
            self._has_header = True

    def go_on(self, sink: Any) -> None:
        """Write what comes from here on to another file, which is a part of the same output."""
        if self._parquet is not None:
            self._parquet.close()
        self._sink, self._parquet = sink, None

    def no_header(self) -> None:
        """The header is written already."""
        self._has_header = True

    def close(self) -> None:
        self._write_header()
        if self._format == "parquet":
            if self._parquet is None:
                self._write_parquet({}, 0)
            self._parquet.close()
        if isinstance(self._sink, gzip.GzipFile):
            self._sink.close()
        else:
            self._sink.flush()

    def drop(self) -> None:
        """Let go of what is half written."""
        if self._parquet is not None:
            with suppress(Exception):
                self._parquet.close()
        if isinstance(self._sink, gzip.GzipFile):
            with suppress(Exception):
                self._sink.close()

    def _table(self, columns: Mapping[str, Any], n: int) -> bytes:
        absent = [None] * n
        cells = (self._cells(_values(columns.get(name, absent))) for name in self.columns)
        return _lines((quoted(column, self._delimiter) for column in cells), self._delimiter)

    def _cells(self, values: Any) -> list[str]:
        kinds = set(map(type, values))
        if kinds == {str}:
            return values
        if kinds == {float} and all(map(math.isfinite, values)):
            return [cell if "e" not in cell else _json(float(cell)) for cell in map(repr, values)]
        return [self._cell(value) for value in values]

    def _cell(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return self._separator.join(value)
        cell = _json(value)
        if cell == "null":
            return ""
        return json.loads(cell) if cell[0] == '"' else cell  # a date, say: without JSON's quotes

    def _jsonl(self, columns: Mapping[str, Any]) -> bytes:
        # Keys that came after the writer was opened are kept too, after those known then.
        names = [name for name in self.columns if name in columns]
        names += [name for name in columns if name not in self.columns]
        cells = [[_json(value) for value in _values(columns[name])] for name in names]
        keys = [_json(name) + ": " for name in names]
        rows = (", ".join(map(str.__add__, keys, row)) for row in zip(*cells))
        return _encode("".join(f"{{{row}}}\n" for row in rows))

    def _write_parquet(self, columns: Mapping[str, Any], n: int) -> None:
        """Write a table; columns get the types of the input, or of the first batch."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = self._schema if self.written is None else self.written
        arrays = {}
        for name in self.columns:
            values = columns.get(name, [None] * n)
            kind = schema.field(name).type if schema and name in schema.names else None
            if self.written is None and name in self._numbers:
                kind = pa.float64()
            try:
                arrays[name] = self._array(values, kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise CorpusError(
                    f'Column "{name}" holds values of several types, and Parquet one type a '
                    f"column ({error}). Write .jsonl instead."
                ) from None
        table = pa.table(arrays)
        if self.written is None:
            self.written = table.schema
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(self._sink, self.written, compression="zstd")
        self._parquet.write_table(table)

    def _array(self, values: Any, kind: Any) -> Any:
        import pyarrow as pa

        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if kind is not None and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            # Arrow would make a list of letters of a label.
            values = [[value] if isinstance(value, str) else value for value in values]
        try:
            array = pa.array(values, type=kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            if self.written is not None or kind is None:
                raise
            array = pa.array(values)  # a column that is replaced may change its type
        return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def _kept(
    added: Sequence[Any], labels: Sequence[tuple[str, ...]], cells: Sequence[Any]
) -> Sequence[Any]:
    """Labels to write; where none is new and none was given, the cell as it was, such as []."""
    if any(isinstance(value, str) for value in added):  # among these, a list would be odd
        cells = [None if isinstance(cell, list) else cell for cell in cells]
    return [
        cell if value is None and not given else value
        for value, given, cell in zip(added, labels, cells)
    ]


def _fasttext(labels: Sequence[Any], texts: Sequence[str]) -> bytes:
    lines = []
    for label, text in zip(labels, texts):
        several = [label] if isinstance(label, str) else label or []
        words = [FASTTEXT + fasttext_label(one) for one in several if one]
        lines.append(" ".join([*words, re.sub(r"[\r\n]+", " ", text)]) + "\n")
    return _encode("".join(lines))


def _values(column: Any) -> Any:
    return column.to_pylist() if hasattr(column, "to_pylist") else column


def _encode(text: str) -> bytes:
    # Half a surrogate pair, which JSON lets through, becomes \udXXX: in JSON, what it was.
    return text.encode("utf-8", "backslashreplace")


_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


def _json(value: Any) -> str:
    """JSON of a value; a number as a plain decimal, never 1e-07."""
    if isinstance(value, str):
        return _to_json(value)
    if hasattr(value, "dtype") and not isinstance(value, float):
        # float32 by way of its text, so that .1 stays .1
        value = float(str(value)) if value.dtype.kind == "f" and not value.ndim else value.tolist()
    if isinstance(value, float):
        if not math.isfinite(value):
            return "null"
        cell = float.__repr__(value)
        return format(Decimal(cell), "f") if "e" in cell else cell
    return _to_json(value)
