"""Formats of documents: how each is known, and how its documents are read."""

from __future__ import annotations

import codecs
import difflib
import json
import os
import re
import sys
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import IO, Any

from leafwise.corpus_text import (
    BLOCK,
    MARK,
    Progress,
    Record,
    Source,
    Tally,
    byte_blocks,
    open_bytes,
)
from leafwise.exceptions import CorpusError
from leafwise.taxonomy import Taxonomy, join_path
from leafwise.taxonomy_names import clean

FORMATS = ("csv", "tsv", "jsonl", "parquet", "fasttext", "text", "folder")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
    ".ft": "fasttext",
}
FASTTEXT = "__label__"
MAGIC = {
    b"PAR1": "a Parquet file. Name it .parquet, or say so: --format parquet",
    b"PK\x03\x04": "a zip file or an Excel workbook. Save it as CSV first",
    b"%PDF": "a PDF. Take the text out of it first",
}


# ---- what a source is ---------------------------------------------------------------------------


def locate(path: str, owner: object, progress: Progress | None) -> str:
    """Path of a file or folder; what can be read only once is copied to a temporary file."""
    if path == "-":
        return _spool(sys.stdin.buffer, owner, progress)
    if os.path.isfile(path) or os.path.isdir(path):
        return path
    if os.path.exists(path):
        with open_bytes(path, path) as pipe:
            return _spool(pipe, owner, progress)
    folder, name = os.path.split(path)
    if folder and not os.path.isdir(folder):
        raise CorpusError(f"There is no file {path}: there is no folder {folder}.")
    close: list[str] = []
    with suppress(OSError):
        close = difflib.get_close_matches(name, os.listdir(folder or "."), n=3)
    found = " or ".join(f'"{os.path.join(folder, one)}"' for one in close)
    raise CorpusError(f"There is no file {path}." + (f" Did you mean {found}?" if found else ""))


def _spool(stream: IO[bytes], owner: object, progress: Progress | None) -> str:
    """Copy a stream to a file, which goes when its owner does."""
    done = 0
    try:
        handle, path = tempfile.mkstemp(prefix="leafwise-")
        weakref.finalize(owner, _remove, path)
        with open(handle, "wb") as file:
            while data := stream.read(BLOCK):
                file.write(data)
                done += len(data)
                if progress:
                    progress(done, None)
    except OSError as error:
        raise CorpusError(
            f"Cannot copy the documents to {tempfile.gettempdir()}, to read them more than once: "
            f"{error.strerror}. TMPDIR in the environment names another folder."
        ) from error
    return path


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def format_of(name: str) -> tuple[str | None, bool]:
    """Format that a file's name stands for (None if unknown), and whether it ends in .gz."""
    stem, suffix = os.path.splitext(name.lower())
    zipped = suffix == ".gz"
    if zipped:
        suffix = os.path.splitext(stem)[1]
    return SUFFIXES.get(suffix), zipped


def find_format(source: Source, asked: str | None, spooled: bool) -> str:
    """The format asked for, or that of the name, or of the content where there is no name."""
    if asked is not None and asked not in FORMATS:
        raise CorpusError(f'There is no format "{asked}". Formats: {", ".join(FORMATS)}.')
    is_folder = os.path.isdir(source.path)
    if asked and is_folder != (asked == "folder"):
        what = "a folder" if is_folder else "a file"
        raise CorpusError(f'{source.name} is {what}; it cannot be read as "{asked}".')
    if is_folder:
        if not any(files for _, files in walk(source.path)):
            raise CorpusError(f"The folder {source.name} has no files in it.")
        return "folder"
    named, _ = format_of(source.name)
    blank = codecs.BOM_UTF8 + b" \t\r\n"
    head = next((block for block in byte_blocks(source) if block.strip(blank)), b"")
    if not head:
        raise CorpusError(f"{source.name} is empty.")
    format = asked or named or (_sniff(head) if spooled else None)
    if format is None:
        hint = " If it holds one JSON object per line, say so: --format jsonl."
        raise CorpusError(
            f"What format {source.name} has cannot be told from its name. Known endings: "
            f"{', '.join(SUFFIXES)}, and all but .parquet with .gz. Rename it, or name the "
            "format: --format csv." + (hint if ".json" in source.name.lower() else "")
        )
    if format != "parquet":
        _check_text(source, head)
    if format == "text" and not asked:
        labelled = head.startswith(FASTTEXT.encode()) or b"\n" + FASTTEXT.encode() in head
        return "fasttext" if labelled else "text"
    return format


def _sniff(head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    return "fasttext" if start.startswith(FASTTEXT.encode()) else "csv"


def _check_text(source: Source, head: bytes) -> None:
    wide = source.codec.startswith(("utf-16", "utf-32"))
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and not wide:
        raise CorpusError(f"{source.name} is in UTF-16. Read it with --encoding utf-16.")
    for magic, kind in MAGIC.items():
        if head.startswith(magic):
            raise CorpusError(f"{source.name} is {kind}.")
    # One here and there is a character like others, and a byte that is none costs its row.
    if head.count(b"\0") > max(1, len(head) // 1000) and not wide:
        try:
            codecs.getincrementaldecoder(source.codec)().decode(head)
        except UnicodeDecodeError:
            raise CorpusError(f"{source.name} is not text: its bytes are binary.") from None


# ---- lines --------------------------------------------------------------------------------------


def json_objects(lines: Iterable[Record]) -> Iterator[Record]:
    """Objects of JSONL, as dictionaries."""
    decode = json.JSONDecoder().raw_decode
    for line, text, reason in lines:
        if reason:
            yield line, text, reason
            continue
        text = text.strip()
        try:
            row, end = decode(text)
        except json.JSONDecodeError as error:
            yield line, text, f"not JSON: {error.msg} at character {error.pos + 1}"
        except (ValueError, RecursionError) as error:  # a number or a nesting without end
            yield line, text, f"not JSON that can be read: {error}"
        else:
            if type(row) is not dict:
                yield line, text, f"{kind_of(row)}, where an object {{...}} was expected"
            elif end < len(text):
                yield line, text, f"not JSON: more after the object at character {end + 1}"
            else:
                yield line, row, ""


def fasttext_lines(lines: Iterable[Record]) -> Iterator[Record]:
    """Lines of text and their labels, as (id, text, labels)."""
    for line, text, reason in lines:
        if reason:
            yield line, text, reason
            continue
        labels = []
        while text.startswith(FASTTEXT):
            word, text = [*text.split(None, 1), ""][:2]
            labels.append(word.removeprefix(FASTTEXT))
        yield line, (str(line), text, labels), ""


def fasttext_label(label: str) -> str:
    """A label as one word, since in fastText it ends at the first space."""
    return re.sub(r" ?(?<!\\)/ ?", "/", clean(label)).replace(" ", "_")


@lru_cache(1)
def fasttext_nodes(tree: Taxonomy) -> dict[str, set[int]]:
    """Nodes by their names and paths as fastText has them."""
    nodes: dict[str, set[int]] = {}
    for forms in (tree.names, tree.paths):
        for i, form in enumerate(forms):
            nodes.setdefault(fasttext_label(form), set()).add(i)
    return nodes


def kind_of(value: Any) -> str:
    """A value in words."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {str(value)[:20]}"
    names: dict[Any, str] = {str: "a string", list: "a list", tuple: "a list", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")


# ---- folders ------------------------------------------------------------------------------------


def folder_files(source: Source, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    """Files below a folder, as (id, text, label); a bad one by its name."""
    paths = [(folder, file) for folder, files in walk(source.path) for file in files]
    sizes = [_size(os.path.join(source.path, *folder, file)) for folder, file in paths]
    total, done = sum(sizes), 0
    for number, ((folder, file), size) in enumerate(zip(paths, sizes), 1):
        name = "/".join((*folder, file))
        if size > source.max_line:
            yield number, name, f"the file has {size:,} bytes, more than {source.max_line:,}"
        else:
            try:
                with open(os.path.join(source.path, *folder, file), "rb") as handle:
                    text = handle.read().decode(source.codec, MARK)
            except OSError as error:
                yield number, name, f"the file cannot be read: {error.strerror}"
            else:
                tally.characters += len(text)
                yield number, (name, text, join_path(folder) if folder else None), ""
        done += size
        if progress:
            progress(done, total)


def walk(root: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Folders, as names below the root, and their files; sorted, without what is hidden."""
    for path, folders, files in os.walk(root, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(path, root)
        names = () if below == "." else tuple(below.split(os.sep))
        yield (
            names,
            sorted(
                name
                for name in files
                if not name.startswith(".")
                and (os.path.isfile(one := os.path.join(path, name)) or os.path.islink(one))
            ),
        )


def _unreadable(error: OSError) -> None:
    raise CorpusError(f"Cannot read the folder {error.filename}: {error.strerror}.")


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0


# ---- Parquet ------------------------------------------------------------------------------------


@contextmanager
def open_parquet(source: Source) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Else a row group, which may be the whole file, is read as a whole.
        with pq.ParquetFile(source.path, buffer_size=BLOCK, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise source.damaged("Parquet", error) from None


def parquet_columns(
    source: Source,
    used: Collection[str | None],
    rows: int,
    characters: int,
    progress: Progress | None,
) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Columns of at most so many rows, and about so many characters, and the numbers of the rows.

    Columns that are used come as lists, the others as Arrow arrays.
    """
    size, done = os.path.getsize(source.path), 0
    with open_parquet(source) as file:
        n_rows, groups = file.metadata.num_rows, file.metadata.num_row_groups
        unpacked = sum(file.metadata.row_group(i).total_byte_size for i in range(groups))
        step = max(1, min(rows, characters * n_rows // max(1, unpacked)))
        for arrow in file.iter_batches(batch_size=step):
            columns = {
                name: values_of(array) if name in used else array
                for name, array in zip(arrow.schema.names, arrow.columns)
            }
            yield columns, list(range(done + 1, done + 1 + arrow.num_rows))
            done += arrow.num_rows
            if progress:
                progress(size * done // n_rows, size)


def values_of(array: Any) -> list[Any]:
    """Python values of an Arrow array; strings that are not UTF-8 come with their bytes marked."""
    if type(array) is list:
        return array
    try:
        return array.to_pylist()
    except ValueError:
        return list(map(_value, array))


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", MARK)
    except ValueError:  # a time in nanoseconds, which Python has none of
        return str(scalar.cast("string"))


def concatenated(parts: list[Any]) -> Any:
    """One column from those of several batches."""
    if all(type(part) is list for part in parts):
        return [value for part in parts for value in part]
    import pyarrow as pa

    return pa.chunked_array(parts)
