"""Words that are written together from several: HTMLParser is html and parser too.

A word is cut at underscores, between a lower-case letter and an upper-case one, between letters
and digits, and before the last of several capitals where a lower-case letter follows. Letters and
digits of any script are what `str.isalpha`, `isupper`, `islower` and `isdigit` say they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
from numba import njit

# Kinds of characters; those after DIGIT are letters.
SEPARATOR, UNDERSCORE, OTHER, DIGIT, LETTER, LOWER, UPPER = range(7)
_1 = np.uint64(1)


def add_parts(
    texts: list[str], as_written: list[str], end: str, min_length: int, lowercase: bool
) -> list[str]:
    r"""Add to each text the parts of its compounds, `end` before and after each.

    Compounds are found in `as_written`, which has the case that `texts` may have lost. Where `end`
    is a space, words are what ``\w+`` matches; else `end` alone is between them. Parts of fewer
    characters than `min_length` are left out. With `lowercase`, a text beyond ASCII comes back in
    lower case.
    """
    texts = list(texts)
    # ASCII apart: a byte a character is read sooner.
    narrow = [end.isascii() and text.isascii() for text in as_written]
    for encoding in ("ascii", "utf-32-le"):
        chosen = [i for i, is_narrow in enumerate(narrow) if is_narrow == (encoding == "ascii")]
        written = [as_written[i] for i in chosen]
        if lowercase and encoding != "ascii":
            written = [_dot_apart(text) for text in written]
        for number, parts in _find_parts(written, encoding, end, min_length):
            texts[chosen[number]] += end + parts
    return [text if text.isascii() else text.lower() for text in texts] if lowercase else texts


def words_as_written(
    pattern: re.Pattern[str], texts: list[str], lowered: list[str], end: str
) -> list[str]:
    """Return the words that `pattern` finds in lowered texts, as they were, joined by `end`."""
    group = pattern.groups
    return [
        end.join(text[slice(*match.span(group))] for match in pattern.finditer(lower))
        for text, lower in zip(map(_dot_apart, texts), lowered)
    ]


def _dot_apart(text: str) -> str:
    # The one letter whose lower case is longer than it: written so, positions stay the same.
    return text.replace("İ", "I\u0307")


def _find_parts(
    texts: list[str], encoding: str, end: str, min_length: int
) -> Iterator[tuple[int, str]]:
    """Give the number of each text that has compounds, and their parts, an `end` after each."""
    dtype, n_points = (np.uint8, 128) if encoding == "ascii" else (np.uint32, 0x110000)
    if not texts:
        return
    points = np.frombuffer(end.join([*texts, ""]).encode(encoding, "surrogatepass"), dtype)
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    # Parts have no more characters than their words, nor more ends. Room not used costs no memory.
    parts = np.empty(2 * len(points), dtype)
    n = _write_parts(points, ends, _kinds(end, n_points), min_length, ord(end), parts)
    spelled = parts[:n].tobytes().decode(encoding, "surrogatepass")
    starts = np.append(0, ends[:-1])
    some = np.flatnonzero(starts < ends)
    for i, start, stop in zip(some.tolist(), starts[some].tolist(), ends[some].tolist()):
        yield i, spelled[start:stop]


@cache
def _kinds(end: str, n_points: int) -> np.ndarray:
    kinds = np.full(n_points, SEPARATOR if end == " " else OTHER, np.uint8)
    words = "".join(re.findall(r"\w+", "".join(map(chr, range(n_points)))))
    kinds[list(map(ord, words))] = list(map(_kind, words))
    kinds[ord(end)] = SEPARATOR
    return kinds


def _kind(character: str) -> int:
    if character.isalpha():
        return UPPER if character.isupper() else LOWER if character.islower() else LETTER
    return DIGIT if character.isdigit() else UNDERSCORE if character == "_" else OTHER


def _cut(first: int, second: int, third: int) -> int:
    """Say whether three neighbours are cut before the last (1), after the first (2), or not (0)."""
    if SEPARATOR in (second, third):
        return 0
    if first == second == UPPER and third == LOWER:
        return 2
    return int(
        (second == UNDERSCORE) != (third == UNDERSCORE)
        or (second == LOWER and third == UPPER)
        or (second == DIGIT and third > DIGIT)
        or (second > DIGIT and third == DIGIT)
    )


_CUTS = np.array([_cut(*kinds) for kinds in product(range(8), repeat=3)], np.uint8)


@njit(nogil=True, cache=True)
def _write_parts(points, ends, kinds, min_length, end, parts):
    """Write the parts of compounds; make `ends` of texts the ends of their parts.

    Each text ends with a separator. Few words are compounds, so the loop only looks for a cut: to
    branch at the end of every word took three times as long.
    """
    n = 0  # written
    p = np.uint64(0)  # unsigned: numba need not ask whether it counts from the end
    window = 0  # the kinds of the last three characters, three bits each
    for d in range(len(ends)):
        stop = np.uint64(ends[d])
        while p < stop:
            window = (window << 3 | kinds[points[p]]) & 511
            p += _1
            if _CUTS[window]:
                first = p - _1
                while first > 0 and kinds[points[first - _1]] != SEPARATOR:
                    first -= _1
                while kinds[points[p]] != SEPARATOR:
                    p += _1
                n = _write_word(points, first, p, kinds, min_length, end, parts, n)
                window = 0
        ends[d] = n
    return n


@njit(nogil=True, cache=True)
def _write_word(points, first, last, kinds, min_length, end, parts, n):
    """Write the parts of the word from `first` to `last`, if there are two or more."""
    n_before = n
    n_parts = 0
    window = 0
    start = first
    for p in range(first, last + _1):
        window = (window << 3 | kinds[points[p]]) & 511
        if _CUTS[window] == 0 and p < last:
            continue
        cut = p - _1 if _CUTS[window] == 2 else p
        if kinds[points[start]] != UNDERSCORE:
            n_parts += 1
            if cut - start >= min_length:
                for k in range(start, cut):
                    parts[n] = points[k]
                    n += 1
                parts[n] = end
                n += 1
        start = cut
    return n if n_parts > 1 else n_before
