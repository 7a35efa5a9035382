"""Texts as they are given: checked, cut into blocks, and as bytes in one piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress, count, islice
from operator import not_
from typing import Any, NamedTuple

import numpy as np

_BLOCK_CHARACTERS = 64 << 20  # of text counted at a time
_AT_ONCE = 256  # texts: few enough to stay in the cache while several things are asked of them
_THREAD_CHARACTERS = 1 << 18  # less than this is not worth another thread
END = "\udcff"  # what `_words.END` is in a string, with surrogateescape


class Block(NamedTuple):
    """Texts, how many characters each has, and whether it is in ASCII."""

    texts: list[str]
    lengths: np.ndarray
    is_ascii: np.ndarray

    def divided(self, n_threads: int) -> list[Block]:
        """Cut it into about equal parts, one per thread."""
        ends = np.cumsum(self.lengths)
        size = int(ends[-1]) if len(ends) else 0
        n_parts = max(1, min(n_threads, size // _THREAD_CHARACTERS))
        cuts = np.searchsorted(ends, size * np.arange(1, n_parts) / n_parts).tolist()
        edges = zip([0, *cuts], [*cuts, len(ends)])
        return [Block(self.texts[a:b], self.lengths[a:b], self.is_ascii[a:b]) for a, b in edges]


def blocks(texts: Iterable[str], lowercase: bool) -> Iterator[Block]:
    """Cut texts into blocks of bounded size, checked, and in lower case beyond ASCII."""
    if isinstance(texts, str | bytes):
        raise ValueError("Expected a list of texts, got one string: put it in a list, [text].")
    if hasattr(texts, "columns") or isinstance(texts, dict) or getattr(texts, "ndim", 1) > 1:
        raise ValueError(
            f"Expected a list of texts, got a {type(texts).__name__}: take its column of texts, "
            'such as table["text"].'
        )
    rest = iter(texts.to_pylist() if hasattr(texts, "to_pylist") else texts)
    block: list[str] = []
    lengths: list[int] = []
    is_ascii: list[bool] = []
    size = position = 0
    while some := list(islice(rest, _AT_ONCE)):
        if set(map(type, some)) != {str}:
            some = [_as_string(text, position + i) for i, text in enumerate(some)]
        ascii_only = list(map(str.isascii, some))
        if lowercase and not all(ascii_only):
            for i in _false(ascii_only):  # by Python's own rules: a final sigma, a dotted capital I
                some[i] = some[i].lower()
        block += some
        is_ascii += ascii_only
        lengths += map(len, some)
        position += len(some)
        size += sum(lengths[-len(some) :])
        if size >= _BLOCK_CHARACTERS:
            yield Block(block, np.array(lengths), np.array(is_ascii))
            block, lengths, is_ascii, size = [], [], [], 0
    if block or not position:
        yield Block(block, np.array(lengths, np.int64), np.array(is_ascii, bool))


def _false(flags: list[bool]) -> Iterable[int]:
    """Say where something is not so, which is seldom."""
    return () if all(flags) else compress(count(), map(not_, flags))


def _as_string(text: Any, position: int) -> str:
    if isinstance(text, str):
        return str(text)
    if isinstance(text, bytes):
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Document {position} is bytes that are no UTF-8 ({error.reason} at "
                f"{error.start}): decode it first, such as text.decode('latin-1')."
            ) from None
    raise ValueError(
        f"Document {position} is of type {type(text).__name__}, expected a string. "
        'Replace missing texts by "".'
    )


def encodable(text: str) -> str:
    # A lone surrogate has no UTF-8. It is no part of a word either, nor is the "?" in its place.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def joined(texts: list[str], errors: str) -> tuple[np.ndarray, np.ndarray]:
    """Put texts into one piece of UTF-8, an END after each, and say where each ends."""
    # As characters that stand for bytes: a text in ASCII, as nearly all are, is that as it is, and
    # costs no call of its own.
    pieces, lengths = [], np.empty(len(texts), np.int64)
    for first in range(0, len(texts), _AT_ONCE):
        some = texts[first : first + _AT_ONCE]
        for i in _false(list(map(str.isascii, some))):
            some[i] = some[i].encode("utf-8", errors).decode("latin-1")
        lengths[first : first + _AT_ONCE] = np.fromiter(map(len, some), np.int64, len(some))
        pieces.append("\xff".join([*some, ""]).encode("latin-1"))
    return _in_one(pieces), np.cumsum(lengths + 1)


def _in_one(pieces: list[bytes]) -> np.ndarray:
    """Put bytes together. Python would do it while other threads wait; numpy lets them go on."""
    if len(pieces) == 1:
        return np.frombuffer(pieces[0], np.uint8)
    whole, end = np.empty(sum(map(len, pieces)), np.uint8), 0
    for piece in pieces:
        start, end = end, end + len(piece)
        whole[start:end] = np.frombuffer(piece, np.uint8)
    whole.flags.writeable = False  # as bytes are: compiled loops tell the two apart
    return whole


def pooled(words: list[str]) -> np.ndarray:
    """Return a pool of words."""
    return np.frombuffer(END.join([*words, ""]).encode("utf-8", "surrogateescape"), np.uint8)


def strings(pool: np.ndarray) -> list[str]:
    """Return the words of a pool."""
    return pool.tobytes().decode("utf-8", "surrogateescape").split(END)[:-1]
