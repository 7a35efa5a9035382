"""Text to sparse word counts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

# Patterns that the compiled loop knows, with the least length of a word. Any other is left to `re`.
_COMPILED_PATTERNS = {
    prefix + pattern: least
    for prefix in ("(?u)", "")
    for pattern, least in {r"\b\w\w+\b": 2, r"\w\w+": 2, r"\b\w+\b": 1, r"\w+": 1}.items()
}
_BLOCK_CHARACTERS = 64 << 20  # of text counted at a time
_THREAD_CHARACTERS = 1 << 18  # less than this is not worth another thread
_END = "\udcff"  # what `_words.END` is in a string, with surrogateescape


class _Found(NamedTuple):
    """Documents as numbers of words: which words, where each document ends, the words' bytes."""

    ids: np.ndarray
    id_ends: np.ndarray
    pool: np.ndarray


class _Rows(NamedTuple):
    """Documents as counts of words, columns in order of appearance."""

    columns: np.ndarray
    counts: np.ndarray
    row_ends: np.ndarray
    totals: np.ndarray
    row_counts: np.ndarray


class WordCounter(TransformerMixin, BaseEstimator):
    r"""Count the words of texts, as scikit-learn's ``CountVectorizer`` does, many times faster.

    With default settings it gives the same matrix and the same vocabulary, on text of any script.

    Parameters
    ----------
    lowercase : bool, default=True
    token_pattern : str, default=r"(?u)\b\w\w+\b"
        What a word is. Plain runs of ``\w`` are compiled; other patterns go through `re`, which
        is slower. With one group in it, the group is the word.
    stop_words : "english", a collection of str, or None
        Words left out, before stemming.
    stemmer : str, callable or None
        "porter" or another Snowball algorithm's name ("english", "german", ...), or a function
        from a word to its stem.
    min_count : int, default=1
        Words with fewer occurrences in all documents together are dropped.
    max_df : int or float, default=1.0
        Words in more documents than this number (int) or share (float) are dropped.
    binary : bool, default=False
        Whether a word occurs, rather than how often.
    compounds : bool, default=False
        Whether a word that is written together from several ("HTMLParser", "read_csv", "python3")
        counts as each of them too ("html", "parser"; "read", "csv"; "python"). A part is at least
        as long as a word must be, two characters for a pattern that is not compiled.
    ngram_range : (int, int), default=(1, 1)
        The shortest and the longest runs of words to count.
    n_jobs : int, default=-1
        Threads to use; -1 for all cores.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Each word's column; columns are sorted by word.
    n_documents_ : int
        Documents seen in `fit`, or in all calls of `partial_fit` together.
    document_counts_ : array of int
        In how many of them each word of the vocabulary is.
    """

    _learned = ("n_documents_", "_pool", "_totals", "_document_counts", "_order")
    _vocabulary: dict[str, int] | None

    def __init__(
        self,
        *,
        lowercase: bool = True,
        token_pattern: str = r"(?u)\b\w\w+\b",
        stop_words: str | Iterable[str] | None = None,
        stemmer: str | Callable[[str], str] | None = None,
        min_count: int = 1,
        max_df: int | float = 1.0,
        binary: bool = False,
        compounds: bool = False,
        ngram_range: tuple[int, int] = (1, 1),
        n_jobs: int = -1,
    ):
        self.lowercase = lowercase
        self.token_pattern = token_pattern
        self.stop_words = stop_words
        self.stemmer = stemmer
        self.min_count = min_count
        self.max_df = max_df
        self.binary = binary
        self.compounds = compounds
        self.ngram_range = ngram_range
        self.n_jobs = n_jobs

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:
        """Learn the vocabulary."""
        self._reset()
        self.partial_fit(texts)
        self._require_words()
        return self

    def partial_fit(self, texts: Iterable[str], y: Any = None) -> Self:
        """Learn from more texts; all calls together are the same as one `fit`.

        Columns are sorted by word, so they move when new words come: transform after the last
        call.
        """
        for _ in self._count_and_learn(texts):
            pass
        self._set_columns()
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> sparse.csr_matrix:
        """Learn the vocabulary and count, in one pass over the texts."""
        self._reset()
        parts = list(self._count_and_learn(texts))
        self._set_columns()
        self._require_words()
        return self._matrix(parts, self._column_of_word())

    def transform(self, texts: Iterable[str]) -> sparse.csr_matrix:
        """Count the words of the vocabulary; others are ignored."""
        check_is_fitted(self, "n_documents_")
        self._require_words()
        n_columns = len(self._order)
        parts: list[_Rows] = []
        for block in self._find(texts):
            columns = self._columns([found.pool for found in block])
            parts += _parallel(_count, zip(block, columns, repeat(n_columns)))
        return self._matrix(parts, np.arange(n_columns, dtype=np.int32))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the words in the order of the columns."""
        check_is_fitted(self, "n_documents_")
        return np.array(list(self.vocabulary_), dtype=object)

    @property
    def vocabulary_(self) -> dict[str, int]:
        if not hasattr(self, "n_documents_"):
            raise AttributeError("vocabulary_ is there after fit")
        if self._vocabulary is None:
            words = _strings(self._pool)
            self._vocabulary = {words[i]: column for column, i in enumerate(self._order.tolist())}
        return self._vocabulary

    @property
    def document_counts_(self) -> np.ndarray:
        check_is_fitted(self, "n_documents_")
        return self._document_counts[self._order]

    def words_of(self, text: str) -> dict[str, str]:
        """Return a text's words as they are counted, and the form each first has in the text.

        Parts of compounds come after all words.
        """
        forms = filter(None, dict.fromkeys(self._matched([text])[0].split(_END)))
        stems = _stems(self.stemmer)
        stop = _stop_words(self.stop_words)
        words = [form for form in forms if form not in stop]
        first: dict[str, str] = {}
        for counted, form in zip(stems(words) if stems else words, words):
            first.setdefault(counted, form)
        return first

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counter to one file that `leafwise.load` reads."""
        from leafwise.persistence import save

        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    # What is learned adds up over documents: the words, how often each occurs, and in how many
    # documents. Which of them have a column is derived from that.

    def _reset(self) -> None:
        self.n_documents_ = 0
        self._pool = np.empty(0, np.uint8)
        self._totals = np.empty(0, np.int64)
        self._document_counts = np.empty(0, np.int64)
        self._order = np.empty(0, np.int64)
        self._vocabulary = None

    def _count_and_learn(self, texts: Iterable[str]) -> Iterator[_Rows]:
        if not hasattr(self, "n_documents_"):
            self._reset()
        for block in self._find(texts):
            # Words known before come first, so they keep their numbers.
            pools = [self._pool, *(found.pool for found in block)]
            self._pool, n_words, numbers = _merge(pools)
            new = (0, n_words - len(self._totals))
            self._totals = np.pad(self._totals, new)
            self._document_counts = np.pad(self._document_counts, new)
            for rows in _parallel(_count, zip(block, numbers[1:], repeat(n_words))):
                self._totals += rows.totals
                self._document_counts += rows.row_counts
                self.n_documents_ += len(rows.row_ends)
                yield rows

    def _set_columns(self) -> None:
        from leafwise._words import sort_words

        most = self.max_df if isinstance(self.max_df, Integral) else self.max_df * self.n_documents_
        kept = (self._totals >= self.min_count) & (self._document_counts <= most)
        order = sort_words(self._pool)
        self._order = order[kept[order]]
        self._vocabulary = None

    def _require_words(self) -> None:
        if not len(self._order):
            raise ValueError(
                f"No word is left to count in {self.n_documents_} documents: they are empty, or "
                "hold only stop words, or words that these settings leave out: "
                f"token_pattern={self.token_pattern!r}, min_count={self.min_count}, "
                f"max_df={self.max_df}."
            )

    def _columns(self, pools: list[np.ndarray]) -> list[np.ndarray]:
        """Return the column of each word in each pool, -1 for a word that has none."""
        if sum(map(len, pools)) < len(self._pool) // 8:
            found = [_strings(pool) for pool in pools]
            return [
                np.fromiter(map(self.vocabulary_.get, words, repeat(-1)), np.int32, len(words))
                for words in found
            ]
        # Many words: numbering them together with all that are known is faster than a dict.
        column_of_word = np.append(self._column_of_word(), np.int32(-1))  # the last: not known
        _, _, numbers = _merge([self._pool, *pools])
        n_known = len(column_of_word) - 1
        return [
            column_of_word[np.where(n < 0, n_known, np.minimum(n, n_known))] for n in numbers[1:]
        ]

    def _column_of_word(self) -> np.ndarray:
        column_of_word = np.full(len(self._totals), -1, np.int32)
        column_of_word[self._order] = np.arange(len(self._order), dtype=np.int32)
        return column_of_word

    def _matrix(self, parts: Sequence[_Rows], column_of: np.ndarray) -> sparse.csr_matrix:
        """Put rows together, their columns renamed (-1 drops one) and sorted."""
        from leafwise._words import sort_rows

        sizes = [int(np.count_nonzero(column_of[part.columns] >= 0)) for part in parts]
        indices = np.empty(sum(sizes), np.int32)
        data = np.empty(sum(sizes), np.int64)
        indptr = np.zeros(1 + sum(len(part.row_ends) for part in parts), np.int64)
        n_columns = len(self._order)
        tasks = []
        row, start = 1, 0
        for part, size in zip(parts, sizes):
            rows = part.columns, part.counts, part.row_ends
            tasks.append((*rows, column_of, n_columns, indices, data, indptr[row:], start))
            row += len(part.row_ends)
            start += size
        _parallel(sort_rows, tasks)
        if self.binary:
            data.fill(1)
        return sparse.csr_matrix((data, indices, indptr), (len(indptr) - 1, n_columns))

    def _find(self, texts: Iterable[str]) -> Iterator[list[_Found]]:
        """Find the words of texts, a block at a time, in one part per thread."""
        self._validate()
        min_length = _COMPILED_PATTERNS.get(self.token_pattern)
        stop = _stop_words(self.stop_words)
        stems = _stems(self.stemmer)

        def find(documents: list[str]) -> _Found:
            from leafwise._words import number_words, split_at_end, word_characters, write_ngrams

            if not min_length:
                documents = self._matched(documents)
            elif self.compounds:
                documents = self._with_parts(documents, documents, " ")
            ascii_only = all(map(str.isascii, documents))
            text, doc_ends = _joined(documents, "replace" if min_length else "surrogateescape")
            tables = word_characters(self.lowercase, ascii_only) if min_length else split_at_end()
            ids, id_ends, pool, ends = number_words(text, doc_ends, *tables, min_length or 1)
            if stop or stems:
                words = ["" if word in stop else word for word in _strings(pool)]
                pool, ends = _joined(stems(words) if stems else words, "surrogateescape")
            if self.ngram_range != (1, 1):
                grams, doc_ends = write_ngrams(ids, id_ends, pool, ends, *self.ngram_range)
                ids, id_ends, pool, _ = number_words(grams, doc_ends, *split_at_end(), 1)
            return _Found(ids, id_ends, pool)

        n_threads = self.n_jobs if self.n_jobs > 0 else _usable_cores()
        for block in _blocks(texts, self.lowercase and not self.compounds):  # which needs the case
            yield _parallel(find, [(part,) for part in _divided(block, n_threads)])

    def _matched(self, documents: list[str]) -> list[str]:
        """Find the words of each document with `re`; put an END between any two."""
        pattern = re.compile(self.token_pattern)
        documents = [_encodable(text) for text in documents]
        lowered = [text.lower() for text in documents] if self.lowercase else documents
        words = [_END.join(pattern.findall(text)) for text in lowered]
        if not self.compounds:
            return words
        from leafwise._compounds import words_as_written

        if not self.lowercase:
            return self._with_parts(words, words, _END)
        return self._with_parts(words, words_as_written(pattern, documents, lowered, _END), _END)

    def _with_parts(self, texts: list[str], as_written: list[str], end: str) -> list[str]:
        from leafwise._compounds import add_parts

        min_length = _COMPILED_PATTERNS.get(self.token_pattern, 2)
        return add_parts(texts, as_written, end, min_length, self.lowercase)

    def _restore(self) -> None:
        """Check what a file held."""
        n_words = int(np.count_nonzero(self._pool == 0xFF))
        _strings(self._pool)
        if len(self._totals) != n_words or len(self._document_counts) != n_words:
            raise ValueError("word totals do not fit the words")
        order = self._order
        if order.dtype.kind not in "iu" or len(np.unique(order)) != len(order):
            raise ValueError("a word has two columns")
        if len(order) and (order.min() < 0 or order.max() >= n_words):
            raise ValueError("a column has no word")
        self._vocabulary = None
        self._validate()

    def _validate(self) -> None:
        try:
            shortest, longest = self.ngram_range
        except TypeError:
            shortest, longest = 0, 0
        if not 1 <= shortest <= longest:
            raise ValueError(
                f"ngram_range={self.ngram_range!r}: expected (shortest, longest) with "
                "1 <= shortest <= longest."
            )
        if self.compounds and longest > 1:
            raise ValueError(
                f"compounds=True with ngram_range={self.ngram_range!r}: the parts of a word stand "
                "in no order with the words around it. Count n-grams with another WordCounter."
            )
        if not isinstance(self.min_count, Integral) or self.min_count < 1:
            raise ValueError(f"min_count={self.min_count!r}: expected an integer of at least 1.")
        if isinstance(self.max_df, bool) or not isinstance(self.max_df, Real) or self.max_df < 0:
            raise ValueError(f"max_df={self.max_df!r}: expected a share (float) or number (int).")
        if isinstance(self.max_df, float) and self.max_df > 1:
            raise ValueError(f"max_df={self.max_df!r}: a share is at most 1.0.")
        try:
            pattern = re.compile(self.token_pattern)
        except re.error as error:
            raise ValueError(f"token_pattern={self.token_pattern!r}: {error}.") from None
        if pattern.groups > 1:
            raise ValueError(f"token_pattern={self.token_pattern!r} has more than one group.")


def _blocks(texts: Iterable[str], lowercase: bool) -> Iterator[list[str]]:
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


def _divided(block: list[str], n_threads: int) -> list[list[str]]:
    """Cut a block into about equal parts, one per thread."""
    lengths = np.cumsum(np.fromiter(map(len, block), np.int64, len(block)))
    size = int(lengths[-1]) if len(block) else 0
    n_parts = max(1, min(n_threads, size // _THREAD_CHARACTERS))
    cuts = np.searchsorted(lengths, size * np.arange(1, n_parts) / n_parts).tolist()
    return [block[a:b] for a, b in zip([0, *cuts], [*cuts, len(block)])]


def _encodable(text: str) -> str:
    # A lone surrogate has no UTF-8. It is no part of a word either, nor is the "?" in its place.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _joined(texts: list[str], errors: str) -> tuple[np.ndarray, np.ndarray]:
    """Put texts into one piece of UTF-8, an END after each, and say where each ends."""
    encoded = [text.encode("utf-8", errors) for text in texts]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)
    return np.frombuffer(b"\xff".join([*encoded, b""]), np.uint8), ends


def _strings(pool: np.ndarray) -> list[str]:
    """Return the words of a pool."""
    return pool.tobytes().decode("utf-8", "surrogateescape").split(_END)[:-1]


def _merge(pools: list[np.ndarray]) -> tuple[np.ndarray, int, list[np.ndarray]]:
    """Merge pools: the distinct words, how many, and each pool's words in these numbers.

    Empty words, which stand for what was taken out, get -1.
    """
    from leafwise._words import END, number_words, split_at_end

    text = np.concatenate(pools)
    ids, _, pool, ends = number_words(text, np.array([len(text)]), *split_at_end(), 1)
    word_ends = np.flatnonzero(text == END)
    number = np.full(len(word_ends), -1, np.int32)
    number[np.diff(word_ends, prepend=-1) > 1] = ids
    cuts = np.searchsorted(word_ends, np.cumsum([len(p) for p in pools])[:-1])
    return pool, len(ends), np.split(number, cuts)


def _count(found: _Found, column_of: np.ndarray, n_columns: int) -> _Rows:
    from leafwise._words import count_rows

    return _Rows(*count_rows(found.ids, found.id_ends, column_of, n_columns))


def _stop_words(stop_words: str | Iterable[str] | None) -> frozenset[str]:
    if stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return ENGLISH_STOP_WORDS
    if isinstance(stop_words, str):
        raise ValueError(
            f'stop_words={stop_words!r}: expected "english", a collection of words, or None.'
        )
    return frozenset(stop_words or ())


def _stems(stemmer: str | Callable[[str], str] | None) -> Callable[[list[str]], list[str]] | None:
    if stemmer is None:
        return None
    if callable(stemmer):
        return lambda words: [stemmer(word) if word else word for word in words]
    import Stemmer

    if stemmer not in Stemmer.algorithms(aliases=True):
        known = ", ".join(sorted(Stemmer.algorithms()))
        raise ValueError(f"stemmer={stemmer!r}: expected a function, None, or one of {known}.")
    # A stemmer of one's own for each thread: it keeps a cache that is not shared safely.
    return lambda words: Stemmer.Stemmer(stemmer).stemWords(words)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parallel(function: Callable, tasks: Iterable[tuple]) -> list:
    """Call `function` on each task, in threads where there are several."""
    tasks = list(tasks)
    if len(tasks) < 2:
        return [function(*task) for task in tasks]
    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(lambda task: function(*task), tasks))
