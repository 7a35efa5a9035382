"""Compiled loops over UTF-8 bytes: find words, number them, count them.

Every loop releases the GIL, so plain threads run them side by side. A word is its bytes: hashes
only say where to look, so no two words are ever taken for one. Byte order of UTF-8 is code point
order, so sorting the bytes sorts words as Python sorts strings.

The loops never replace an array that they use: numba would count references to it at every turn,
which made the first version four times slower. `_find_words` returns to its caller to grow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

SEPARATOR = 256  # what a byte that is never part of a word is folded to
MULTIBYTE = 257  # what a byte that starts a longer UTF-8 sequence is folded to
END = 0xFF  # ends every word in a pool: a byte that valid UTF-8 never has

_0, _1, _2, _7, _8 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(7), np.uint64(8)
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd
_29, _32 = np.uint64(29), np.uint64(32)


@njit(nogil=True, cache=True)
def _slot(tag, mask):
    h = tag * _MIX
    return (h ^ (h >> _32)) & mask  # even: a slot is two numbers


@njit(nogil=True, cache=True)
def _fold_byte(fold, byte):
    folded = fold[byte]
    return byte if folded >= SEPARATOR else np.uint8(folded)


class Words(NamedTuple):
    """Distinct words, numbered, and a table in which to look them up. It never changes.

    Attributes
    ----------
    pool : uint8 array, their bytes, an END after each
    ends : int64 array, where each ends in `pool`, after its END
    tags, is_long, slots : see `_find_words`
    """

    pool: np.ndarray
    ends: np.ndarray
    tags: np.ndarray
    is_long: np.ndarray
    slots: np.ndarray

    @classmethod
    def none(cls) -> Words:
        return cls(
            np.empty(0, np.uint8),
            np.empty(0, np.int64),
            np.empty(0, np.uint64),
            np.empty(0, bool),
            np.zeros(2, np.uint64),
        )

    @property
    def n(self) -> int:
        return len(self.ends)

    def numbers(self, pool: np.ndarray) -> tuple[np.ndarray, Words]:
        """Return the number of each word in a pool, and the words that are new.

        An empty word, which stands for one that was taken out, has -1. New words are numbered on
        from those that are here, in order of appearance.
        """
        piece = Piece(pool, np.array([len(pool)]), *split_at_end(), 1)
        ids, _, new = number_words([piece], self, len(pool))
        is_word = np.diff(np.flatnonzero(pool == END), prepend=-1) > 1
        if len(ids) == len(is_word):
            return ids, new
        number = np.full(len(is_word), -1, np.int32)
        number[is_word] = ids
        return number, new

    def numbers_among(self, others: Words) -> tuple[np.ndarray, Words]:
        """Return the number of each of some distinct words, as `numbers` does, and the new ones.

        It is faster: these words have tags already.
        """
        number, is_new = np.empty(others.n, np.int32), np.empty(others.n, bool)
        of_others = others.tags, others.is_long, others.pool, others.ends
        _number_tagged(*of_others, split_at_end()[0], self.slots, self.pool, self.ends, number)
        np.less(number, 0, out=is_new)
        n_new = int(np.count_nonzero(is_new))
        if n_new == others.n:
            return np.arange(self.n, self.n + n_new, dtype=np.int32), others
        number[is_new] = np.arange(self.n, self.n + n_new)
        tags, is_long = others.tags[is_new], others.is_long[is_new]
        pool, ends = _take_words(others.pool, others.ends, is_new, n_new)
        slots = np.zeros(4 << max(n_new - 1, 0).bit_length(), np.uint64)
        _fill_slots(tags, is_long, 0, n_new, slots)
        return number, Words(pool, ends, tags, is_long, slots)

    def extended(self, new: Words) -> Words:
        """Add words that are none of these, with the numbers that follow."""
        if not (new.n and self.n):
            return self if self.n else new
        n = self.n + new.n
        tags, is_long = np.append(self.tags, new.tags), np.append(self.is_long, new.is_long)
        slots, first = self.slots, self.n
        if 4 * n > len(slots):
            slots, first = np.zeros(4 << (n - 1).bit_length(), np.uint64), 0
        else:
            slots = slots.copy()
        _fill_slots(tags, is_long, first, n, slots)
        pool = np.append(self.pool, new.pool)
        return Words(pool, np.append(self.ends, new.ends + len(self.pool)), tags, is_long, slots)


@njit(nogil=True, cache=True)
def _fill_slots(tags, is_long, first, n_words, slots):
    mask = np.uint64(len(slots) - 2)
    for w in range(first, n_words):
        s = _slot(tags[w], mask)
        while slots[s + _1] != _0:
            s = (s + _2) & mask
        slots[s] = tags[w]
        slots[s + _1] = (np.uint64(w + 1) << _1) | np.uint64(is_long[w])


@njit(nogil=True, cache=True)
def _look_up(tag, long, n, first, text, fold, slots, pool, ends):
    """Return the number of a word, or -1 and the slot that it belongs into."""
    mask = np.uint64(len(slots) - 2)
    s = _slot(tag, mask)
    while slots[s + _1] != _0:
        if slots[s] == tag and slots[s + _1] & _1 == long:
            w = np.int64(slots[s + _1] >> _1) - 1
            if not long:
                return w, s
            start = ends[w - 1] if w > 0 else np.int64(0)
            same = ends[w] - start == np.int64(n) + 1
            at = _0
            while same and at < n:
                same = pool[np.uint64(start) + at] == _fold_byte(fold, text[first + at])
                at += _1
            if same:
                return w, s
        s = (s + _2) & mask
    return np.int64(-1), s


@njit(nogil=True, cache=True)
def _number_tagged(tags, is_long, pool, ends, fold, slots, known_pool, known_ends, number):
    start = np.int64(0)
    for w in range(len(tags)):
        n, first, long = np.uint64(ends[w] - start - 1), np.uint64(start), np.uint64(is_long[w])
        number[w] = _look_up(tags[w], long, n, first, pool, fold, slots, known_pool, known_ends)[0]
        start = ends[w]


@njit(nogil=True, cache=True)
def _take_words(pool, ends, taken, n):
    """Return some words of a pool, and where each of them ends."""
    own, own_ends = np.empty(len(pool), np.uint8), np.empty(n, np.int64)
    start = at = w = 0
    for i in range(len(ends)):
        if taken[i]:
            for p in range(start, ends[i]):
                own[at] = pool[p]
                at += 1
            own_ends[w] = at
            w += 1
        start = ends[i]
    return own[:at].copy(), own_ends


@njit(nogil=True, cache=True)
def _find_words(
    text, doc_ends, fold, is_word, min_length, known_slots, known_pool, known_ends,
    state, ids, id_ends, slots, tags, is_long, pool, ends
):  # fmt: skip
    """Read on from `state` until the text or the room for new words ends.

    A word is looked up among those known before, then among the new ones. A slot holds a word's
    tag and its number, shifted, with a last bit that says whether the tag is a hash. The tag of a
    word below eight bytes is the word itself, so most words are found without leaving the slot;
    only longer ones are compared byte by byte.
    """
    d, p, n_ids, n_words, n_pool = state[0], np.uint64(state[1]), state[2], state[3], state[4]
    n_known = len(known_ends)
    room = len(ends)
    while d < len(doc_ends):
        stop = np.uint64(doc_ends[d])
        while p < stop:
            b = fold[text[p]]
            if b == SEPARATOR:
                p += _1
                continue
            if n_words == room:
                state[0], state[1], state[2], state[3], state[4] = d, p, n_ids, n_words, n_pool
                return False
            first = p
            h = _0
            key = _0
            n = _0  # bytes
            trail = _0  # those of them that are not the first of their code point
            while b < SEPARATOR and n < _7:  # most words end in here
                key = (key << _8) | np.uint64(b)
                n += _1
                p += _1
                b = fold[text[p]]
            while b != SEPARATOR:
                if b == MULTIBYTE:
                    b = np.uint16(text[p])
                    if b < 0xE0:
                        width, point = _1, np.uint64(b & 0x1F)
                    elif b < 0xF0:
                        width, point = _2, np.uint64(b & 0x0F)
                    else:
                        width, point = np.uint64(3), np.uint64(b & 0x07)
                    for k in range(width):
                        point = (point << np.uint64(6)) | np.uint64(text[p + k + _1] & 0x3F)
                    if not is_word[point]:
                        break
                    trail += width
                    for k in range(width):
                        key = (key << _8) | np.uint64(text[p + k])
                        n += _1
                        if n & _7 == _0:
                            h = (h ^ key) * _MIX
                            h ^= h >> _29
                            key = _0
                    p += width
                    b = np.uint16(text[p])
                key = (key << _8) | np.uint64(b)
                n += _1
                p += _1
                if n & _7 == _0:
                    h = (h ^ key) * _MIX
                    h ^= h >> _29
                    key = _0
                b = fold[text[p]]
            if n == _0:  # a separator of several bytes
                p += _1
                while text[p] & 0xC0 == 0x80:
                    p += _1
                continue
            if n < np.uint64(min_length) + trail:
                continue
            long = np.uint64(n >= _8)
            tag = (h if long else _0) ^ key ^ (n << np.uint64(56))
            w, s = _look_up(tag, long, n, first, text, fold, known_slots, known_pool, known_ends)
            if w >= 0:
                ids[n_ids] = w
                n_ids += 1
                continue
            w, s = _look_up(tag, long, n, first, text, fold, slots, pool, ends)
            if w < 0:
                w = n_words
                n_words += 1
                tags[w] = tag
                is_long[w] = long == _1
                slots[s] = tag
                slots[s + _1] = (np.uint64(n_words) << _1) | long
                for k in range(n):
                    pool[np.uint64(n_pool) + k] = _fold_byte(fold, text[first + k])
                pool[np.uint64(n_pool) + n] = END
                n_pool += np.int64(n) + 1
                ends[w] = n_pool
            ids[n_ids] = n_known + w
            n_ids += 1
        id_ends[d] = n_ids
        d += 1
    state[0], state[1], state[2], state[3], state[4] = d, p, n_ids, n_words, n_pool
    return True


class Piece(NamedTuple):
    """Some documents as bytes, and what a word is in them.

    Attributes
    ----------
    text : uint8 array
        UTF-8 bytes of the documents; each ends with a separator byte, so no word crosses over.
    doc_ends : int64 array
        Where each document ends in `text`, after its separator.
    fold : uint16 array of 256
        The byte to keep for a byte, or SEPARATOR, or MULTIBYTE.
    is_word : bool array of 0x110000
        Whether a code point above ASCII is part of a word.
    min_length : int
        The least number of code points in a word.
    """

    text: np.ndarray
    doc_ends: np.ndarray
    fold: np.ndarray
    is_word: np.ndarray
    min_length: int


def number_words(
    pieces: Iterable[Piece], known: Words, size: int
) -> tuple[np.ndarray, np.ndarray, Words]:
    """Number the words of documents: those known before, then others as they appear.

    Parameters
    ----------
    pieces : their bytes, in order
        Each is gone through before the next is asked for, and may be small enough for the cache.
    known : Words
    size : int
        How many bytes are expected, to make room for what is found in them.

    Returns
    -------
    ids : int32 array, the word of each occurrence
    id_ends : int64 array, where each document ends in `ids`
    new : the words that were not known; their numbers follow those of the known ones
    """
    # Never touched beyond what is used, so the generous sizes cost address space, not memory.
    ids, pool = np.empty(size // 2, np.int32), np.empty(size, np.uint8)
    all_ends: list[np.ndarray] = []
    room = 1024  # for new words
    tags, is_long, ends = np.empty(room, np.uint64), np.empty(room, bool), np.empty(room, np.int64)
    slots = np.zeros(4 * room, np.uint64)
    state = np.zeros(5, np.int64)
    for text, doc_ends, fold, is_word, min_length in pieces:
        text = text.view()
        text.flags.writeable = False  # or every loop would be compiled twice
        ids = _with_room(ids, state[2], len(text) // (min_length + 1) + 1)
        pool = _with_room(pool, state[4], len(text))
        id_ends = np.empty(len(doc_ends), np.int64)
        state[:2] = 0
        while not _find_words(
            text, doc_ends, fold, is_word, min_length, known.slots, known.pool, known.ends,
            state, ids, id_ends, slots, tags, is_long, pool, ends,
        ):  # fmt: skip
            room *= 4
            tags, is_long, ends = (np.resize(array, room) for array in (tags, is_long, ends))
            slots = np.zeros(4 * room, np.uint64)
            _fill_slots(tags, is_long, 0, state[3], slots)
        all_ends.append(id_ends)
    n = state[3]
    new = Words(
        pool[: state[4]].copy(), ends[:n].copy(), tags[:n].copy(), is_long[:n].copy(), slots
    )
    return ids[: state[2]], np.concatenate(all_ends or [np.empty(0, np.int64)]), new


def _with_room(array: np.ndarray, used: int, needed: int) -> np.ndarray:
    """Return an array with room for more than what it is used for."""
    if used + needed <= len(array):
        return array
    larger = np.empty(2 * (used + needed), array.dtype)
    larger[:used] = array[:used]
    return larger


def is_compiled() -> bool:
    """Whether an earlier run left compiled code behind, so that this one need not compile."""
    folder = _find_words.stats.cache_path
    return folder is not None and any(Path(folder).glob("_words._find_words-*.nbi"))


@cache
def split_at_end() -> tuple[np.ndarray, np.ndarray]:
    """Return tables for a `Piece` to take everything between two ENDs as a word."""
    fold = np.arange(256, dtype=np.uint16)
    fold[END] = SEPARATOR
    return fold, np.zeros(1, bool)


@cache
def word_characters(lowercase: bool, ascii_only: bool) -> tuple[np.ndarray, np.ndarray]:
    r"""Return tables for a `Piece` to find what ``\w`` matches, by asking `re` itself."""
    fold = np.full(256, SEPARATOR, np.uint16)
    for byte in range(128):
        if re.match(r"\w", chr(byte)):
            fold[byte] = ord(chr(byte).lower()) if lowercase else byte
    if ascii_only:
        return fold, np.zeros(1, bool)
    fold[0xC2:0xF5] = MULTIBYTE
    is_word = np.zeros(0x110000, bool)
    # All characters in one go: a million calls of `chr` would take longer than to count a corpus.
    every = np.arange(0x110000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    for match in re.finditer(r"\w+", every):
        is_word[match.start() : match.end()] = True
    return fold, is_word


@njit(nogil=True, cache=True)
def write_ngrams(ids, id_ends, pool, ends, shortest, longest):
    """Spell out the n-grams of every document, an END after each.

    An empty word in `pool` is one that was taken out: its neighbours become adjacent. Returns the
    bytes and where each document ends in them, as a `Piece` has them.
    """
    size = 0
    doc_ends = np.empty(len(id_ends), np.int64)
    text = np.empty(0, np.uint8)
    kept = np.empty(len(ids), np.int32)
    for writing in (False, True):
        if writing:
            text = np.empty(size, np.uint8)
        size = 0
        first = 0
        for d in range(len(id_ends)):
            n = 0
            for i in range(first, id_ends[d]):
                w = ids[i]
                if ends[w] - (ends[w - 1] if w else 0) > 1:
                    kept[n] = w
                    n += 1
            first = id_ends[d]
            for length in range(shortest, longest + 1):
                for i in range(n - length + 1):
                    for k in range(i, i + length):
                        w = kept[k]
                        start = ends[w - 1] if w else 0
                        if writing:
                            for j in range(start, ends[w] - 1):
                                text[size + j - start] = pool[j]
                            text[size + ends[w] - 1 - start] = END if k == i + length - 1 else 32
                        size += ends[w] - start
            size += 1  # every document ends with a separator, even one without a word
            if writing:
                text[size - 1] = END
            doc_ends[d] = size
    return text, doc_ends


@njit(nogil=True, cache=True)
def count_rows(ids, id_ends, column_of, n_columns):
    """Count each document's words: the rows of a sparse matrix, columns in order of appearance.

    `column_of` maps an id to a column, or to -1 for what is not counted. Returns the columns, the
    counts, where each row ends, and for each column its sum and in how many rows it is.
    """
    seen_at = np.full(n_columns, -1, np.int64)
    totals = np.zeros(n_columns, np.int64)
    row_counts = np.zeros(n_columns, np.int64)
    columns = np.empty(len(ids), np.int32)
    counts = np.empty(len(ids), np.int32)
    row_ends = np.empty(len(id_ends), np.int64)
    first, row, n = 0, 0, 0
    for d in range(len(id_ends)):
        for i in range(first, id_ends[d]):
            column = column_of[ids[i]]
            if column < 0:
                continue
            totals[column] += 1
            if seen_at[column] >= row:
                counts[seen_at[column]] += 1
            else:
                seen_at[column] = n
                row_counts[column] += 1
                columns[n] = column
                counts[n] = 1
                n += 1
        first = id_ends[d]
        row = n
        row_ends[d] = n
    return columns[:n], counts[:n], row_ends, totals, row_counts


@njit(nogil=True, cache=True)
def sort_rows(columns, counts, row_ends, column_of, n_columns, indices, data, indptr, start):
    """Rename the columns (-1 drops one), sort each row, write the rows out from `start` on.

    A radix sort of nine bits at a time; short rows are sorted by insertion.
    """
    longest, first = 0, 0
    for d in range(len(row_ends)):
        longest = max(longest, row_ends[d] - first)
        first = row_ends[d]
    row, other = np.empty(longest, np.int64), np.empty(longest, np.int64)
    bucket = np.empty(513, np.int64)
    first = 0
    for d in range(len(row_ends)):
        n = 0
        for i in range(first, row_ends[d]):
            column = column_of[columns[i]]
            if column >= 0:
                row[n] = (np.int64(column) << 32) | counts[i]
                n += 1
        first = row_ends[d]
        if n < 40:
            for i in range(1, n):
                moved = row[i]
                k = i - 1
                while k >= 0 and row[k] > moved:
                    row[k + 1] = row[k]
                    k -= 1
                row[k + 1] = moved
        else:
            shift = 32
            while n_columns >> (shift - 32):
                bucket[:] = 0
                for i in range(n):
                    bucket[((row[i] >> shift) & 511) + 1] += 1
                for k in range(512):
                    bucket[k + 1] += bucket[k]
                for i in range(n):
                    k = (row[i] >> shift) & 511
                    other[bucket[k]] = row[i]
                    bucket[k] += 1
                for i in range(n):
                    row[i] = other[i]
                shift += 9
        for k in range(n):
            indices[start + k] = row[k] >> 32
            data[start + k] = row[k] & 0xFFFFFFFF
        start += n
        indptr[d] = start


@njit(nogil=True, cache=True)
def _eight_bytes(pool, ends, words, depth, keys):
    """Write each word's next eight bytes, as a number; its length, where no word has a next byte.

    By then tied words differ in how many zero bytes they end with, as missing bytes are zeros too.
    """
    all_ended = True
    for i in range(len(words)):
        w = words[i]
        p = (ends[w - 1] if w else 0) + depth
        all_ended &= p >= ends[w] - 1
        key = _0
        for _ in range(8):
            key <<= _8
            if p < ends[w] - 1:
                key |= np.uint64(pool[p])
                p += 1
        keys[i] = key
    if all_ended:
        for i in range(len(words)):
            w = words[i]
            keys[i] = ends[w] - (ends[w - 1] if w else 0)


def sort_words(pool: np.ndarray) -> np.ndarray:
    """Return the words' numbers in code point order: eight bytes at a time, then among ties."""
    ends = np.flatnonzero(pool == END) + 1
    order = np.arange(len(ends))
    group = np.zeros(len(ends), np.int64)
    tied = np.arange(len(ends))  # positions in `order` that are not settled yet
    depth = 0
    while len(tied):
        words = order[tied]
        keys = np.empty(len(tied), np.uint64)
        _eight_bytes(pool, ends, words, depth, keys)
        by_key = np.lexsort((keys, group)) if depth else np.argsort(keys)
        words, keys, group = words[by_key], keys[by_key], group[by_key]
        order[tied] = words
        new_group = np.ones(len(tied), bool)
        new_group[1:] = (keys[1:] != keys[:-1]) | (group[1:] != group[:-1])
        group = np.cumsum(new_group)
        alone = new_group & np.append(new_group[1:], True)
        tied, group = tied[~alone], group[~alone]
        depth += 8
    return order
