"""Text to sparse word counts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from leafwise._texts import END, Block, blocks, encodable, joined, strings
from leafwise.threads import in_threads, n_threads

if TYPE_CHECKING:
    from leafwise._forms import Known
    from leafwise._words import Piece, Words

# Patterns that the compiled loop knows, with the least length of a word. Any other is left to `re`.
_COMPILED_PATTERNS = {
    prefix + pattern: least
    for prefix in ("(?u)", "")
    for pattern, least in {r"\b\w\w+\b": 2, r"\w\w+": 2, r"\b\w+\b": 1, r"\w+": 1}.items()
}


class _Found(NamedTuple):
    """Documents as numbers of forms: which, where each document ends, and the forms not known."""

    ids: np.ndarray
    id_ends: np.ndarray
    new: Words


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
    _pool: np.ndarray
    _totals: np.ndarray
    _document_counts: np.ndarray
    # What follows from the words, and only makes the next call faster.
    _vocabulary: dict[str, int] | None = None
    _known: Known | None = None  # forms, and their words
    _columns: Known | None = None  # the same and forms in `transform`, with columns

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

    def merge(self, others: Iterable[WordCounter]) -> Self:
        """Learn what other counters have learned: as if their texts had come here, too.

        They must have the same settings, but for `min_count` and `max_df`, which are this one's.
        """
        from leafwise._words import Words

        if not hasattr(self, "n_documents_"):
            self._reset()
        words = Words.none().numbers(self._pool)[1]
        for other in others:
            check_is_fitted(other, "n_documents_")
            number, new = words.numbers(other._pool)
            words = words.extended(new)
            self._make_room(words)
            self._totals[number] += other._totals
            self._document_counts[number] += other._document_counts
            self.n_documents_ += other.n_documents_
        self._forget()
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
        column_of, n_columns = self._column_of_word(), len(self._order)
        known = self._known_columns(column_of)
        parts: list[_Rows] = []
        for block in self._blocks(texts):
            found = self._find(block, known.forms)
            known, columns = known.meet([part.new for part in found], column_of)
            parts += self._in_threads(_count, zip(found, columns, repeat(n_columns)))
        self._columns = known
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
            words = strings(self._pool)
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
        from leafwise._forms import Spelling

        forms = list(filter(None, dict.fromkeys(self._matched([text])[0].split(END))))
        spelling = Spelling.of(self.stop_words, self.stemmer)
        first: dict[str, str] = {}
        for counted, form in zip(spelling.counted(forms), forms):
            if form not in spelling.stop:
                first.setdefault(counted, form)
        return first

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counter to one file that `leafwise.load` reads."""
        from leafwise.persistence import save

        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        kept = super().__getstate__().items()
        return {k: v for k, v in kept if k not in ("_vocabulary", "_known", "_columns")}

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
        self._forget()

    def _forget(self) -> None:
        self._vocabulary = self._known = self._columns = None

    def _count_and_learn(self, texts: Iterable[str]) -> Iterator[_Rows]:
        if not hasattr(self, "n_documents_"):
            self._reset()
        known = self._known_words()
        for block in self._blocks(texts):
            found = self._find(block, known.forms)
            known, numbers = known.learn([part.new for part in found])
            self._known = known
            self._make_room(known.words)
            for rows in self._in_threads(_count, zip(found, numbers, repeat(known.words.n))):
                self._totals += rows.totals
                self._document_counts += rows.row_counts
                self.n_documents_ += len(rows.row_ends)
                yield rows

    def _make_room(self, words: Words) -> None:
        """Make room for words, which begin with those known before."""
        new = (0, words.n - len(self._totals))
        self._pool = words.pool
        self._totals = np.pad(self._totals, new)
        self._document_counts = np.pad(self._document_counts, new)

    def _set_columns(self) -> None:
        from leafwise._words import sort_words

        most = self.max_df if isinstance(self.max_df, Integral) else self.max_df * self.n_documents_
        kept = (self._totals >= self.min_count) & (self._document_counts <= most)
        order = sort_words(self._pool)
        self._order = order[kept[order]]
        self._vocabulary = self._columns = None

    def _require_words(self) -> None:
        if not len(self._order):
            raise ValueError(
                f"No word is left to count in {self.n_documents_} documents: they are empty, or "
                "hold only stop words, or words that these settings leave out: "
                f"token_pattern={self.token_pattern!r}, min_count={self.min_count}, "
                f"max_df={self.max_df}."
            )

    def _known_words(self) -> Known:
        from leafwise._forms import Known, Spelling

        spelling = Spelling.of(self.stop_words, self.stemmer)
        if self.ngram_range != (1, 1):  # which are made of words as they are counted
            spelling = Spelling.of(None, None)
        if self._known is None or self._known.spelling != spelling:
            self._known, self._columns = Known.of(self._pool, spelling), None
        return self._known

    def _known_columns(self, column_of: np.ndarray) -> Known:
        known = self._known_words()
        if self._columns is None:
            self._columns = known.with_columns(column_of)
        return self._columns

    def _column_of_word(self) -> np.ndarray:
        column_of_word = np.full(len(self._totals), -1, np.int32)
        column_of_word[self._order] = np.arange(len(self._order), dtype=np.int32)
        return column_of_word

    def _matrix(self, parts: Sequence[_Rows], column_of: np.ndarray) -> sparse.csr_matrix:
        """Put rows together, their columns renamed (-1 drops one) and sorted."""
        from leafwise._words import sort_rows

        sizes = [len(part.columns) for part in parts]
        if len(column_of) > len(self._order):  # some words have no column
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
        self._in_threads(sort_rows, tasks)
        if self.binary:
            data.fill(1)
        return sparse.csr_matrix((data, indices, indptr), (len(indptr) - 1, n_columns))

    def _blocks(self, texts: Iterable[str]) -> Iterator[Block]:
        self._validate()
        return blocks(texts, self.lowercase and not self.compounds)  # which needs the case

    def _find(self, block: Block, forms: Words) -> list[_Found]:
        """Find the words of texts, in one part per thread."""
        from leafwise._forms import Spelling
        from leafwise._words import END, Piece, Words, number_words, split_at_end, write_ngrams

        def find(part: Block) -> _Found:
            pieces = map(self._read, part.pieces())
            if self.ngram_range == (1, 1):
                return _Found(*number_words(pieces, forms, part.size))
            ids, id_ends, words = number_words(pieces, Words.none(), part.size)
            pool = Spelling.of(self.stop_words, self.stemmer).respelled(words.pool)
            ends = np.flatnonzero(pool == END) + 1
            grams, doc_ends = write_ngrams(ids, id_ends, pool, ends, *self.ngram_range)
            piece = Piece(grams, doc_ends, *split_at_end(), 1)
            return _Found(*number_words([piece], forms, len(grams)))

        return self._in_threads(find, ((part,) for part in block.divided(self._n_threads())))

    def _read(self, block: Block) -> Piece:
        """Return texts as bytes, with what a word is in them."""
        from leafwise._words import Piece, split_at_end, word_characters

        min_length = _COMPILED_PATTERNS.get(self.token_pattern)
        if not min_length:
            words = joined(Block.of(self._matched(block.texts)), "surrogateescape")
            return Piece(*words, *split_at_end(), 1)
        ascii_only = bool(block.is_ascii.all())
        if self.compounds and not ascii_only:
            texts = list(block.texts)
            rest = np.flatnonzero(~block.is_ascii).tolist()
            some = [texts[i] for i in rest]
            for i, with_parts in zip(rest, self._with_parts(some, some, " ")):
                texts[i] = with_parts
            block = block._replace(texts=texts)
        text, doc_ends = joined(block, "replace")
        if self.compounds:
            from leafwise._compounds import followed_by_parts

            text, doc_ends = followed_by_parts(text, doc_ends, block.is_ascii, min_length)
        return Piece(text, doc_ends, *word_characters(self.lowercase, ascii_only), min_length)

    def _n_threads(self) -> int:
        return self.n_jobs if self.n_jobs > 0 else n_threads()

    def _in_threads(self, function: Callable, tasks: Iterable[tuple]) -> list:
        return in_threads(lambda task: function(*task), tasks, self._n_threads())

    def _matched(self, documents: list[str]) -> list[str]:
        """Find the words of each document with `re`; put an END between any two."""
        pattern = re.compile(self.token_pattern)
        documents = [encodable(text) for text in documents]
        lowered = [text.lower() for text in documents] if self.lowercase else documents
        words = [END.join(pattern.findall(text)) for text in lowered]
        if not self.compounds:
            return words
        from leafwise._compounds import words_as_written

        if not self.lowercase:
            return self._with_parts(words, words, END)
        return self._with_parts(words, words_as_written(pattern, documents, lowered, END), END)

    def _with_parts(self, texts: list[str], as_written: list[str], end: str) -> list[str]:
        from leafwise._compounds import add_parts

        min_length = _COMPILED_PATTERNS.get(self.token_pattern, 2)
        return add_parts(texts, as_written, end, min_length, self.lowercase)

    def _restore(self) -> None:
        """Check what a file held."""
        n_words = int(np.count_nonzero(self._pool == 0xFF))
        strings(self._pool)
        if len(self._totals) != n_words or len(self._document_counts) != n_words:
            raise ValueError("word totals do not fit the words")
        order = self._order
        if order.dtype.kind not in "iu" or len(np.unique(order)) != len(order):
            raise ValueError("a word has two columns")
        if len(order) and (order.min() < 0 or order.max() >= n_words):
            raise ValueError("a column has no word")
        self._forget()
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


def _count(found: _Found, column_of: np.ndarray, n_columns: int) -> _Rows:
    from leafwise._words import count_rows

    return _Rows(*count_rows(found.ids, found.id_ends, column_of, n_columns))
