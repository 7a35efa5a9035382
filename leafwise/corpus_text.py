"""From bytes to lines and to rows of CSV, whatever the bytes are.

Readers yield records: ``(line, row, "")``, or ``(line, raw text, what is wrong)``. A byte that
cannot be decoded, a line without end or a quote that is not closed costs the row it is in, and no
other.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

from leafwise.exceptions import CorpusError

BLOCK = 1 << 20  # bytes read at a time
RAW = 200  # characters of a bad row that are kept
REREAD = 1 << 29  # characters of CSV that unclosed quotes may make us read again
GZIP = b"\x1f\x8b"
UNCLOSED = 'a quote (") that opens in this row is not closed'
NOT_DOUBLED = 'a quote (") is not closed, or a quote in a quoted cell is not doubled ("")'
HALF = "the text holds half a surrogate pair (\\ud800 to \\udfff), which is not a character"

Record = tuple[int, Any, str]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Source:
    """Where bytes come from, and how they are read."""

    path: str
    name: str  # for messages
    encoding: str
    codec: str
    max_line: int

    @property
    def expected(self) -> str:
        return f"{self.encoding}; for text in Latin-1 add --encoding latin-1"

    @property
    def too_long(self) -> str:
        return f"the line is longer than {self.max_line:,} characters"

    def damaged(self, kind: str, error: object) -> CorpusError:
        return CorpusError(f"{self.name} is not a whole {kind} file: {error}".rstrip(".") + ".")


def open_bytes(path: str, name: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except OSError as error:
        raise CorpusError(f"Cannot read {name}: {error.strerror}.") from None


def find_codec(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding).name
        "".encode(codec)  # hex, base64 and the like are codecs too, but not of text
    except (LookupError, UnicodeError):
        raise CorpusError(
            f'There is no encoding "{encoding}". Common ones: utf-8, latin-1, cp1252, utf-16.'
        ) from None
    return "utf-8-sig" if codec == "utf-8" else codec


class Tally:
    """How much has been read since the last batch."""

    characters = 0


class LongLine(str):
    """The beginning of a line that is too long to hold."""


# ---- bytes, and blocks of text ------------------------------------------------------------------


def byte_blocks(source: Source, progress: Progress | None = None) -> Iterator[bytes]:
    """The bytes of a file, unpacked where it is gzip; the last block is empty."""
    with open_bytes(source.path, source.name) as raw:
        size = os.fstat(raw.fileno()).st_size
        packed = raw.read(2) == GZIP
        raw.seek(0)
        if not packed and source.name.lower().endswith(".gz"):
            raise source.damaged("gzip", "it does not begin as one")
        stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        data = b"."
        while data:
            try:
                data = stream.read(BLOCK)
            except (OSError, EOFError, zlib.error) as error:
                raise source.damaged("gzip" if packed else "readable", error) from None
            if progress:
                progress(raw.tell(), size)
            yield data


def text_blocks(source: Source, tally: Tally, progress: Progress | None = None) -> Iterator[str]:
    """The text of a file in blocks that end where a line ends.

    A line that is too long comes by itself, as a `LongLine`. A byte that cannot be decoded is
    marked, as the surrogate U+DC00 + byte, which no decoded text can hold.
    """
    decoder = codecs.getincrementaldecoder(source.codec)(MARK)
    half = ""  # a \r that may be the first half of \r\n
    rest = ""  # of a line whose end has not come
    skipping = False  # whether that line has been given up
    for data in byte_blocks(source, progress):
        text = half + decoder.decode(data, not data)
        half = "\r" if data and text.endswith("\r") else ""
        text = text.removesuffix(half)
        tally.characters += len(text)
        if skipping:
            if "\n" not in text and "\r" not in text:
                continue
            text, skipping = re.split("\r\n?|\n", text, maxsplit=1)[1], False
        end = max(text.rfind("\n"), text.rfind("\r")) + 1 if data else len(text)
        if end or not data:
            yield from _without_long_lines(rest + text[:end], source.max_line)
            rest = text[end:]
        else:
            rest += text
        if len(rest) > source.max_line:
            yield LongLine(rest[:RAW])
            rest, skipping = "", True


def _without_long_lines(block: str, limit: int) -> Iterator[str]:
    if len(block) <= limit:
        if block:
            yield block
        return
    short = ""
    for line in io.StringIO(block, newline=""):
        if len(line.rstrip("\r\n")) <= limit:
            short += line
            continue
        if short:
            yield short
        yield LongLine(line[:RAW])
        short = ""
    if short:
        yield short


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(chr(0xDC00 + byte) for byte in wrong), error.end


MARK = "leafwise.mark"
codecs.register_error(MARK, _mark)


def not_text(text: str, expected: str) -> str:
    """What is wrong with a text that holds surrogates; "" where it holds none."""
    if text.isascii():
        return ""
    try:
        text.encode("utf-32-le")  # several times as fast as UTF-8
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        if not expected or not 0 <= byte <= 255:
            return HALF
        before = text[max(0, error.start - 20) : error.start]
        return f'byte 0x{byte:02X} after "{before}" is not {expected}'
    return ""


def shown(raw: str) -> str:
    """The beginning of a bad row, with the bytes that were not decoded as \\xE9."""
    raw = re.sub("[\udc00-\udcff]", lambda m: f"\\x{ord(m[0]) - 0xDC00:02X}", raw[:RAW])
    return raw.encode("utf-8", "backslashreplace").decode()


# ---- lines, and rows of CSV ---------------------------------------------------------------------


def lines_of(blocks: Iterable[str], source: Source) -> Iterator[Record]:
    """Lines that are not blank."""
    number = 0
    for block in blocks:
        if type(block) is LongLine:
            number += 1
            yield number, block, source.too_long
            continue
        if "\r" in block:
            block = block.replace("\r\n", "\n").replace("\r", "\n")
        marked = not_text(block, source.expected)
        for line in block.removesuffix("\n").split("\n"):
            number += 1
            if line and not line.isspace():
                yield number, line, marked and not_text(line, source.expected)


def csv_rows(blocks: Iterable[str], source: Source, delimiter: str) -> Iterator[Record]:
    """Rows of CSV that are not blank. The first is the header, and all others must be as wide.

    A quote that is not closed would make one cell of the rest of the file. So where a row goes
    wrong, reading goes back to the line after the one where it began.
    """
    limit = source.max_line
    # The csv module has one limit for the whole process; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * (limit + BLOCK)))
    number = 1  # of the first of `lines`
    lines: list[str] = []  # that are not yet in a row
    size = enough = 0  # characters in them, and how many to have before they are tried again
    width = -1  # not known before the header
    reread = 0
    for block in chain(blocks, [""]):
        ends = not block or type(block) is LongLine  # a row that is open now stays open
        if not ends:
            lines += io.StringIO(block, newline="")
            size += len(block)
            if size < enough:
                continue
        start = 0
        while start < len(lines):
            origin = start
            reader = csv.reader(lines[start:], delimiter=delimiter, strict=True)
            try:
                for row in reader:
                    line, start = number + start, origin + reader.line_num
                    if len(row) == width:
                        yield line, row, ""
                    elif row and width < 0:
                        width = len(row)
                        yield line, row, ""
                    elif row:
                        raw, wrong = delimiter.join(row), f"{len(row)} cells where the header has"
                        yield line, raw, not_text(raw, source.expected) or f"{wrong} {width}"
                continue
            except csv.Error as error:
                wrong = str(error)
            if wrong == "unexpected end of data":
                if not ends and sum(map(len, lines[start:])) <= limit:
                    break  # the row may go on in the next block
                wrong = f"{UNCLOSED} within {limit:,} characters" if block else UNCLOSED
            elif "expected after" in wrong:
                wrong = NOT_DOUBLED
            reread += sum(map(len, lines[start + 1 : origin + reader.line_num]))
            if reread > REREAD:
                raise CorpusError(
                    f"{source.name}, line {number + start}: {UNCLOSED}, as in many rows before. "
                    "The file is not quoted as CSV is."
                )
            raw = lines[start].rstrip("\r\n")
            yield number + start, raw, not_text(raw, source.expected) or wrong
            start += 1
        number += start
        del lines[:start]
        # To try only when there is twice as much keeps a row of many blocks from costs that grow
        # with its square.
        size = sum(map(len, lines))
        enough = min(2 * size, limit)
        if type(block) is LongLine:
            yield number, block, not_text(block, source.expected) or source.too_long
            number += 1
