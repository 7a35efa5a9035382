"""Words that are written together from several: HTMLParser is html and parser too.

A word is cut at underscores, between a lower-case letter and an upper-case one, between letters
and digits, and before the last of several capitals where a lower-case letter follows. Letters and
digits of any script are what `str.isalpha`, `isupper`, `islower` and `isdigit` say they are.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import numpy as np
from numba import njit

from leafwise._words import END

# Kinds of characters; those after DIGIT are letters.
SEPARATOR, UNDERSCORE, OTHER, DIGIT, LETTER, LOWER, UPPER = range(7)
_1 = np.uint64(1)


def followed_by_parts(
    text: np.ndarray, doc_ends: np.ndarray, is_ascii: np.ndarray, min_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Put after each ASCII document the parts of its compounds, an END after each.

    Documents are bytes, an END after each; others than ASCII stay as they are. Parts of fewer
    characters than `min_length` are left out. Returns the bytes, and where each document ends.
    """
    # Parts have no more characters than their words, nor more ends. Room not used costs no memory.
    out = np.empty(3 * len(text), np.uint8)
    ends = np.where(is_ascii, doc_ends, -doc_ends)
    n = _write_parts(text, ends, _kinds(" ", 256), min_length, END, True, out)
    return out[:n], ends


def add_parts(
    texts: list[str], as_written: list[str], end: str, min_length: int, lowercase: bool
) -> list[str]:
    r"""Add to each text the parts of its compounds, `end` before and after each.

    Compounds are found in `as_written`, which has the case that `texts` may have lost. Where `end`
    is a space, words are what ``\w+`` matches; else `end` alone is between them. Parts of fewer
    characters than `min_length` are left out. With `lowercase`, texts come back in lower case.
    """
    if not texts:
        return []
    if lowercase:
        as_written = [_dot_apart(text) for text in as_written]
    points = np.frombuffer(
        end.join([*as_written, ""]).encode("utf-32-le", "surrogatepass"), np.uint32
    )
    ends = np.cumsum(np.fromiter(map(len, as_written), np.int64, len(as_written)) + 1)
    parts = np.empty(2 * len(points), np.uint32)
    n = _write_parts(points, ends, _kinds(end, 0x110000), min_length, ord(end), False, parts)
    spelled = parts[:n].tobytes().decode("utf-32-le", "surrogatepass")
    found = (
        text + end + spelled[start:stop] if start < stop else text
        for text, start, stop in zip(texts, [0, *ends.tolist()], ends.tolist())
    )
    return [text.lower() for text in found] if lowercase else list(found)


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


@cache
def _kinds(end: str, n_points: int) -> np.ndarray:
    kinds = np.full(n_points, SEPARATOR if end == " " else OTHER, np.uint8)
    if n_points == 256:  # bytes, of which only ASCII is looked at
        return np.append(_kinds(end, 128), np.full(128, SEPARATOR, np.uint8))
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
def _write_parts(points, ends, kinds, min_length, end, copied, parts):
    """Write the parts of compounds; make `ends` of texts the ends of their parts.

    Each text ends with a separator. With `copied`, each text is written before its parts, and one
    whose end is negative is written alone. Few words are compounds, so the loop only looks for a
    cut: to branch at the end of every word took three times as long.
    """
    n = 0  # written
    p = np.uint64(0)  # unsigned: numba need not ask whether it counts from the end
    window = 0  # the kinds of the last three characters, three bits each
    for d in range(len(ends)):
        stop = np.uint64(abs(ends[d]))
        if copied:
            for k in range(p, stop):
                parts[n + k - p] = points[k]
            n += np.int64(stop - p)  # type: ignore[assignment]
        if ends[d] < 0:
            p = stop
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
