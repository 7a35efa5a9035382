"""Texts as they are given: checked, cut into blocks, and as bytes in one piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

_BLOCK_CHARACTERS = 64 << 20  # of text counted at a time
_THREAD_CHARACTERS = 1 << 18  # less than this is not worth another thread
END = "\udcff"  # what `_words.END` is in a string, with surrogateescape


def blocks(texts: Iterable[str], lowercase: bool) -> Iterator[list[str]]:
    """Cut texts into lists of bounded size, checked, and in lower case beyond ASCII."""
    if isinstance(texts, str | bytes):
        raise ValueError("Expected a list of texts, got one string: put it in a list, [text].")
    if hasattr(texts, "columns") or isinstance(texts, dict) or getattr(texts, "ndim", 1) > 1:
        raise ValueError(
            f"Expected a list of texts, got a {type(texts).__name__}: take its column of texts, "
            'such as table["text"].'
        )
    block: list[str] = []
    size = position = 0
    for text in texts.to_pylist() if hasattr(texts, "to_pylist") else texts:
        if type(text) is not str:
            text = _as_string(text, position)
        if lowercase and not text.isascii():
            text = text.lower()  # by Python's own rules: a final sigma, a dotted capital I
        block.append(text)
        position += 1
        size += len(text)
        if size >= _BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block or not position:
        yield block


def _as_string(text: Any, position: int) -> str:
    if isinstance(text, str):
        return str(text)
    if isinstance(text, bytes):
        return text.decode()
    raise ValueError(
        f"Document {position} is of type {type(text).__name__}, expected a string. "
        'Replace missing texts by "".'
    )


def divided(block: list[str], n_threads: int) -> list[list[str]]:
    """Cut a block into about equal parts, one per thread."""
    lengths = np.cumsum(np.fromiter(map(len, block), np.int64, len(block)))
    size = int(lengths[-1]) if len(block) else 0
    n_parts = max(1, min(n_threads, size // _THREAD_CHARACTERS))
    cuts = np.searchsorted(lengths, size * np.arange(1, n_parts) / n_parts).tolist()
    return [block[a:b] for a, b in zip([0, *cuts], [*cuts, len(block)])]


def encodable(text: str) -> str:
    # A lone surrogate has no UTF-8. It is no part of a word either, nor is the "?" in its place.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def joined(texts: list[str], errors: str) -> tuple[np.ndarray, np.ndarray]:
    """Put texts into one piece of UTF-8, an END after each, and say where each ends."""
    try:
        encoded = [text.encode() for text in texts]  # sooner than with a rule for errors
    except UnicodeEncodeError:
        encoded = [text.encode("utf-8", errors) for text in texts]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)
    return np.frombuffer(b"\xff".join([*encoded, b""]), np.uint8), ends


def pooled(words: list[str]) -> np.ndarray:
    """Return a pool of words."""
    return np.frombuffer(END.join([*words, ""]).encode("utf-8", "surrogateescape"), np.uint8)


def strings(pool: np.ndarray) -> list[str]:
    """Return the words of a pool."""
    return pool.tobytes().decode("utf-8", "surrogateescape").split(END)[:-1]
