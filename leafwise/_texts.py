"""Texts as they are given: checked, cut into blocks, and as bytes in one piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

_BLOCK_CHARACTERS = 64 << 20  # of text counted at a time
_AT_ONCE = 256  # texts: few enough to stay in the cache while several things are asked of them
_THREAD_CHARACTERS = 1 << 18  # less than this is not worth another thread
_PIECE_CHARACTERS = 1 << 20  # few enough for the cache; with fewer, threads wait for each other
END = "\udcff"  # what `_words.END` is in a string, with surrogateescape


class Block(NamedTuple):
    """Texts, how many characters each has, and whether it is in ASCII."""

    texts: list[str]
    lengths: np.ndarray
    is_ascii: np.ndarray

    @classmethod
    def of(cls, texts: list[str], lowercase: bool = False) -> Block:
        """Look at texts; put those beyond ASCII in lower case, in place."""
        is_ascii = np.fromiter(map(str.isascii, texts), bool, len(texts))
        if lowercase and not is_ascii.all():
            # By Python's own rules: a final sigma, a dotted capital I.
            for i in np.flatnonzero(~is_ascii).tolist():
                texts[i] = texts[i].lower()
        return cls(texts, np.fromiter(map(len, texts), np.int64, len(texts)), is_ascii)

    @property
    def size(self) -> int:
        """Characters, with one after each text."""
        return int(self.lengths.sum()) + len(self.lengths)

    def divided(self, n_threads: int) -> list[Block]:
        """Cut it into about equal parts, one per thread."""
        return self._cut(max(1, min(n_threads, self.size // _THREAD_CHARACTERS)))

    def pieces(self) -> list[Block]:
        """Cut it into pieces that stay in the cache while their words are found."""
        return self._cut(1 + self.size // _PIECE_CHARACTERS)

    def _cut(self, n: int) -> list[Block]:
        if n == 1:
            return [self]
        ends = np.cumsum(self.lengths + 1)
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n) / n)
        edges = pairwise(np.unique([0, *cuts, len(ends)]).tolist())
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
    read: list[Block] = []
    size = position = 0
    while some := list(islice(rest, _AT_ONCE)):
        if set(map(type, some)) != {str}:
            some = [_as_string(text, position + i) for i, text in enumerate(some)]
        position += len(some)
        read.append(Block.of(some, lowercase))
        size += int(read[-1].lengths.sum())
        if size >= _BLOCK_CHARACTERS:
            yield _together(read)
            read, size = [], 0
    if read or not position:
        yield _together(read)


def _together(read: list[Block]) -> Block:
    texts = [text for block in read for text in block.texts]
    lengths = [np.empty(0, np.int64), *(block.lengths for block in read)]
    is_ascii = [np.empty(0, bool), *(block.is_ascii for block in read)]
    return Block(texts, np.concatenate(lengths), np.concatenate(is_ascii))


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


def joined(block: Block, errors: str) -> tuple[np.ndarray, np.ndarray]:
    """Put texts into one piece of UTF-8, an END after each, and say where each ends."""
    # As characters that stand for bytes: a text in ASCII, as nearly all are, is that as it is, and
    # costs no call of its own.
    texts, lengths = block.texts, block.lengths + 1
    if not block.is_ascii.all():
        texts = list(texts)
        for i in np.flatnonzero(~block.is_ascii).tolist():
            texts[i] = texts[i].encode("utf-8", errors).decode("latin-1")
            lengths[i] = len(texts[i]) + 1
    return np.frombuffer("\xff".join([*texts, ""]).encode("latin-1"), np.uint8), np.cumsum(lengths)


def pooled(words: list[str]) -> np.ndarray:
    """Return a pool of words."""
    return np.frombuffer(END.join([*words, ""]).encode("utf-8", "surrogateescape"), np.uint8)


def strings(pool: np.ndarray) -> list[str]:
    """Return the words of a pool."""
    return pool.tobytes().decode("utf-8", "surrogateescape").split(END)[:-1]
