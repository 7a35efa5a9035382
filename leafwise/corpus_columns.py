"""Which columns of a table hold the text, the labels and the id; and a row as it was written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leafwise.corpus_text import RAW
from leafwise.exceptions import CorpusError

if TYPE_CHECKING:
    from leafwise.taxonomy import Taxonomy

TEXT_NAMES = ("text", "body", "content", "document")
LABEL_NAMES = ("label", "labels")
ID_NAMES = ("id",)


def find_column(columns: Sequence[str], asked: str | None, names: Sequence[str] = ()) -> str | None:
    """The column asked for, in any case, or else the first of some names."""
    for name in names if asked is None else (asked,):
        if name in columns:
            return name
        for column in columns:
            if column.strip().casefold() == name.strip().casefold():
                return column
    return None


def find_text(columns: Sequence[str], asked: str | None) -> list[str]:
    """The columns that make the text; several are asked for as "title+description"."""
    found = [find_column(columns, asked, TEXT_NAMES)]
    if asked is not None and found == [None]:
        found = [find_column(columns, part) for part in asked.split("+")]
    return [] if None in found else [column for column in found if column is not None]


def find_label(name: str, format: str, columns: Sequence[str], asked: str | None) -> str | None:
    """The column of labels. In a table `label` comes before `labels`, and everyone sees both.

    In JSONL each line may have its own one of the two, and taking one would lose labels unseen.
    """
    found = [find_column(columns, None, (one,)) for one in LABEL_NAMES]
    if format == "jsonl" and asked is None and None not in found:
        raise CorpusError(
            f"{name} has labels in two columns, {listed(list(filter(None, found)))}. "
            "Name the one to read: --label NAME."
        )
    return find_column(columns, asked, LABEL_NAMES)


def no_column(name: str, format: str, columns: Sequence[str], asked: str | None) -> CorpusError:
    """The error that the column asked for is not there, or none that could be the text."""
    has = f"Its columns: {listed(columns)}."
    usual = (*TEXT_NAMES, *LABEL_NAMES, *ID_NAMES, "title", "description")
    if format in ("csv", "tsv") and find_column(columns, None, usual) is None:
        has += (
            " If its first row is a document, put a row of names above it, such as id,text,label; "
            "if every line is a document, add --format text."
        )
    if asked is not None:
        missing = [part for part in asked.split("+") if find_column(columns, part) is None]
        return CorpusError(f'{name} has no column "{missing[0]}". {has}')
    return CorpusError(
        f"{name} has no column called text (or {', '.join(TEXT_NAMES[1:])}). {has} "
        "Name the one to read: --text NAME, or several: --text title+description."
    )


def several_labels(labels: Sequence[str], tree: Taxonomy | None) -> str:
    """What is wrong with a row of more than one label; a path and a name may be the same node."""
    n = len(labels)
    if n > 1 and tree is not None:
        n = len({tree.index(label) for label in labels})
    return f"it has {n} labels, and each document of this project has one" if n > 1 else ""


def check_types(name: str, schema: Any, text: Sequence[str], label: str | None) -> None:
    """Raise if columns of a Parquet file cannot be text or labels."""
    import pyarrow.types as kinds

    def wrong(column: str, what: str) -> CorpusError:
        return CorpusError(
            f'Column "{column}" of {name} holds {schema.field(column).type}, not {what}. '
            f"Its columns: {listed(schema.names)}."
        )

    strings = ("string", "large_string", "string_view", "null")
    for column in text:
        kind = schema.field(column).type
        if str(kind.value_type if kinds.is_dictionary(kind) else kind) not in strings:
            raise wrong(column, "text")
    if label is not None:
        kind = schema.field(label).type
        kind = getattr(kind, "value_type", kind)  # of a list, or of a dictionary
        kind = getattr(kind, "value_type", kind)
        if str(kind) not in strings and not kinds.is_integer(kind):
            raise wrong(label, "labels")


def listed(names: Sequence[str]) -> str:
    """Names of columns for a message; the first row of a file without a header may be long."""
    shown = [f'"{name[:40]}"' for name in names[:20]]
    return ", ".join(shown + ["..."] * (len(names) > 20)) or "none"


def as_written(row: dict[str, Any], format: str, delimiter: str) -> str:
    """A row that was read, much as it was written, for the list of bad rows."""
    cells: dict[str, Any] = {
        name: value[:RAW] if isinstance(value, str | list) else value for name, value in row.items()
    }
    if format in ("jsonl", "parquet"):
        return json.dumps(cells, ensure_ascii=False, default=str)
    if format in ("csv", "tsv"):
        return delimiter.join(cells.values())
    return cells["text"]
