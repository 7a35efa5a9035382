"""Forms and words: which word each form in a text is counted as.

Without stems and stop words a form is its word. With them, every form is asked for once: the
answer is kept, so that texts of known forms need neither. What is kept never changes; to learn is
to make another, so that threads can read while one learns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from leafwise._texts import pooled, strings
from leafwise._words import Words

MOST_FORMS = 1 << 19  # kept of those met after learning, beside as many as there are words
_WORTH_KEEPING = 16  # new forms are kept where they are more than one in so many known ones


class Spelling(NamedTuple):
    """How words are counted: which not at all, and of which form the others are."""

    stop: frozenset[str]
    stemmer: str | Callable[[str], str] | None

    @classmethod
    def of(cls, stop_words: Any, stemmer: Any) -> Spelling:
        return cls(stop_words_of(stop_words), stemmer)

    @property
    def as_written(self) -> bool:
        return not self.stop and self.stemmer is None

    def counted(self, forms: list[str]) -> list[str]:
        """Return the word of each form, and nothing for stop words."""
        words = ["" if form in self.stop else form for form in forms]
        stems = stems_of(self.stemmer)
        return stems(words) if stems else words

    def respelled(self, pool: np.ndarray) -> np.ndarray:
        """Return a pool of the words in which another's forms are counted."""
        if self.as_written:
            return pool
        return pooled(self.counted(strings(pool)))


class Known(NamedTuple):
    """Words, and forms that were met of them.

    Attributes
    ----------
    words : as they are counted
    forms : as they are in texts; the same object where words are counted as written
    number_of : the number of each form: of its word or, of forms in `transform`, of its column;
        -1 where it is not counted
    spelling : how the words of forms are found
    """

    words: Words
    forms: Words
    number_of: np.ndarray
    spelling: Spelling

    @classmethod
    def of(cls, pool: np.ndarray, spelling: Spelling) -> Known:
        """Know words, and no form but those that are words as they are written."""
        words = Words.none().numbers(pool)[1]
        forms = words if spelling.as_written else Words.none()
        return cls(words, forms, np.arange(forms.n, dtype=np.int32), spelling)

    def learn(self, found: list[Words]) -> tuple[Known, list[np.ndarray]]:
        """Learn the new forms of some parts of a text.

        Returns what is known then, and for each part the number of each word: of all forms known
        before, and of the part's new ones.
        """
        forms, numbers = self._forms_with(found)
        if self.spelling.as_written:
            known = Known(forms, forms, np.arange(forms.n, dtype=np.int32), self.spelling)
        else:
            new_forms = forms.pool[len(self.forms.pool) :]
            number, new = self.words.numbers(self.spelling.respelled(new_forms))
            number_of = np.append(self.number_of, number)
            known = Known(self.words.extended(new), forms, number_of, self.spelling)
        return known, [np.append(self.number_of, known.number_of[own]) for own in numbers]

    def with_columns(self, column_of: np.ndarray) -> Known:
        """Return the same with columns: `column_of` has the column of each word, -1 for none."""
        return self._replace(number_of=np.append(column_of, np.int32(-1))[self.number_of])

    def meet(self, found: list[Words], column_of: np.ndarray) -> tuple[Known, list[np.ndarray]]:
        """Find the columns of new forms, as `learn` does; no word is learned."""
        if self.spelling.as_written:  # every word that has a column is known
            return self, [np.append(self.number_of, _none(new.n)) for new in found]
        column_of = np.append(column_of, np.int32(-1))

        def columns(pool: np.ndarray) -> np.ndarray:
            number, _ = self.words.numbers(self.spelling.respelled(pool))
            return column_of[np.minimum(number, len(column_of) - 1)]

        n_new = sum(new.n for new in found)
        room = max(MOST_FORMS, 2 * self.words.n) - self.forms.n
        if not self.forms.n < _WORTH_KEEPING * n_new < _WORTH_KEEPING * room:
            return self, [np.append(self.number_of, columns(new.pool)) for new in found]
        forms, numbers = self._forms_with(found)
        number_of = np.append(self.number_of, columns(forms.pool[len(self.forms.pool) :]))
        known = self._replace(forms=forms, number_of=number_of)
        return known, [np.append(self.number_of, number_of[own]) for own in numbers]

    def _forms_with(self, found: list[Words]) -> tuple[Words, list[np.ndarray]]:
        """Return the forms with those of all parts, and the number of each part's new forms."""
        # None of them is known. Those of one part may be those of another: they are compared with
        # each other, in a small table, before the large one gets them all.
        new, numbers = Words.none(), []
        for part in found:
            number, others = new.numbers_among(part)
            new = new.extended(others)
            numbers.append(self.forms.n + number)
        return self.forms.extended(new), numbers


def _none(n: int) -> np.ndarray:
    return np.full(n, -1, np.int32)


def stop_words_of(stop_words: str | Iterable[str] | None) -> frozenset[str]:
    if isinstance(stop_words, str) and stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return ENGLISH_STOP_WORDS
    if isinstance(stop_words, str):
        raise ValueError(
            f'stop_words={stop_words!r}: expected "english", a collection of words, or None.'
        )
    return frozenset(stop_words or ())


def stems_of(stemmer: str | Callable[[str], str] | None) -> Callable[[list[str]], list[str]] | None:
    if stemmer is None:
        return None
    if callable(stemmer):
        return lambda words: [stemmer(word) if word else word for word in words]
    import Stemmer

    if stemmer not in Stemmer.algorithms(aliases=True):
        known = ", ".join(sorted(Stemmer.algorithms()))
        raise ValueError(f"stemmer={stemmer!r}: expected a function, None, or one of {known}.")
    # One for each call: threads cannot share it. Its cache is slower than stemming once.
    return Stemmer.Stemmer(stemmer, 0).stemWords
