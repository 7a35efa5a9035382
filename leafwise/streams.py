"""Learning from more documents than fit in memory.

Models of counts need one pass to learn which words there are, and one to count them: what they
learn adds up over documents, so nothing else is kept of these. Only `HierarchicalDirichlet` and
`HPLSA` go over them again and again, and have their counts on disk meanwhile. `TaxonomyClassifier`
compares documents with each other and has to hold those that it learns from: it gets as many as
fit.

The bound is on all that the process holds at once, with Python and its libraries. A batch of
documents is bounded by `Corpus`; words and counts are not, so they are watched as they grow: rare
words are dropped, with a warning, and counts that do not fit are an error.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from leafwise.corpus import Batch, Corpus
from leafwise.exceptions import LeafwiseError
from leafwise.labels import Classes, read_labels
from leafwise.models._blocks import Documents
from leafwise.models._counts import CountClassifier
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.models.growth import HPLSA
from leafwise.models.taxonomy_classifier import TaxonomyClassifier
from leafwise.stream_blocks import Stream
from leafwise.stream_memory import Room, bytes_of, shown
from leafwise.stream_needs import PER_WORD, model_needs, sample_needs, tree_needs
from leafwise.stream_sample import Sample, draw
from leafwise.text import WordCounter

__all__ = ["Portion", "Room", "Sample", "bytes_of", "fit", "sample"]

Model = TypeVar("Model")
OnProgress = Callable[[str, int, int | None], None]

_END = 0xFF  # what ends each word in a counter's pool
_ROWS = 20_000  # documents that are counted at a time
_PER_CHARACTER = 32  # bytes that counting needs for a character of text, at most
_WORDS = 0.4  # of the room is for words; they are cut down to half of that
_TEXTS = 0.125  # of the room is for the texts of a sample: what is made of them is larger
_ROOMY = 0.9  # of the room is filled by a sample
_PER_FETCHED = 32  # bytes that an entry of a class takes that `HPLSA` fetches to split it
_FETCHED = 0.2  # of the room is for such a class
_PER_SHARED = 8  # bytes that sharing words among leaves needs for a character of text, at most


def fit(
    model: Model, corpus: Corpus, *, memory: Any = "1GiB", on_progress: OnProgress | None = None
) -> Model:
    """Learn from the documents of a corpus, in a process that stays below a bound.

    Parameters
    ----------
    model : pipeline of a WordCounter and a model of counts or HPLSA, or TaxonomyClassifier
        As in ``make_pipeline(WordCounter(), HierarchicalMixture(tree))``. What it learns is what
        its own `fit` learns from all texts at once, to rounding; a `TaxonomyClassifier` learns from
        those that `sample` chooses, and its `report_` says how many they are.
    corpus : Corpus
        It is read twice, and its labels are learned from; `HPLSA` has no use for these.
    memory : str or int
        The most that the process may hold, such as "1GiB", "500MB" or a number of bytes.
    on_progress : callable, optional
        Called with what is being done, the bytes read, and the bytes there are.

    Returns
    -------
    The model itself.
    """
    _check(corpus, on_progress)
    if isinstance(model, TaxonomyClassifier):
        found = sample(model, corpus, memory=memory, on_progress=on_progress)
        model.on_progress = on_progress
        model.fit(found.texts, found.labels)
        model.on_progress = None
        if not found.is_all:
            model.report_.insert(0, _reported(found, memory))
        return model
    counter, last = _parts(model)
    room = Room.of(memory)
    pieces = _Pieces(corpus, max(1 << 20, min(1 << 24, room.left // _PER_CHARACTER)), on_progress)
    if isinstance(last, HPLSA):
        _grow(last, counter, pieces, room, memory)
    else:
        _classify(last, counter, pieces, room, memory)
    return model


def _classify(
    model: CountClassifier, counter: WordCounter, pieces: _Pieces, room: Room, memory: Any
) -> None:
    """Learn classes from a stream."""
    model._validate()
    classes = None
    if model.taxonomy is not None:
        classes = Classes.of_taxonomy(model.taxonomy, model.nodes)
    sizes, labels = _learn_words(counter, pieces, room, memory)
    if classes is None:
        classes = Classes.of_labels(read_labels([tuple(labels)]))
    watch = _Watch(model, len(classes.nodes), room, memory)
    with tempfile.TemporaryDirectory(prefix="leafwise-") as folder:
        blocks = Stream(_Documents(counter, classes, pieces), sizes, folder, watch)
        if isinstance(model, HierarchicalDirichlet):
            blocks = blocks.derive(watch.seen)  # on disk, to be gone through often
        model._fit_blocks(blocks, classes)


def _grow(model: HPLSA, counter: WordCounter, pieces: _Pieces, room: Room, memory: Any) -> None:
    """Grow a tree from a stream."""
    model._validate_elsewhere(counted=True)
    sizes, _ = _learn_words(counter, pieces, room, memory)
    words = counter.get_feature_names_out()
    few = min(Stream.few, int(_FETCHED * room.left / _PER_FETCHED))
    need = tree_needs(model, sum(sizes), len(words))
    need += _PER_FETCHED * few + _PER_SHARED * pieces.characters
    if need > room.left:
        raise LeafwiseError(
            f"HPLSA needs about {shown(need)} to grow a tree from {sum(sizes):,} documents and "
            f"{len(words):,} words, and memory={memory!r} leaves {shown(room.left)}. Give it more, "
            "or have fewer leaves or words: WordCounter(min_count=5), say."
        )
    with tempfile.TemporaryDirectory(prefix="leafwise-") as folder:
        blocks = Stream(_Counts(counter, pieces), sizes, folder, few=few)
        model._fit_counted(blocks.on_disk(), words)


def sample(
    model: TaxonomyClassifier,
    corpus: Corpus,
    *,
    memory: Any = "1GiB",
    on_progress: OnProgress | None = None,
) -> Sample:
    """Choose the documents that a `TaxonomyClassifier` can learn from below a bound.

    All, if they fit. Else those with a label come first, and of the others those whose texts have
    the lowest hashes: neither the order of documents nor how they are read changes the choice.
    """
    if not isinstance(model, TaxonomyClassifier):
        raise TypeError(
            f"model is a {type(model).__name__}: expected a TaxonomyClassifier. Models of counts "
            "need no sample, since they learn from all documents: leafwise.streams.fit."
        )
    _check(corpus, on_progress)
    room = Room.of(memory)
    left = int(_ROOMY * room.left)
    with _progress(corpus, "Counting", on_progress):
        found = draw(corpus.batches(), int(_TEXTS * room.left))
    while found.texts and (need := sample_needs(model, found)) > left:
        found = found.first(min(len(found.texts) - 1, int(len(found.texts) * left / need)))
    if not found.texts:
        raise LeafwiseError(
            f"memory={memory!r} is too little for even one document of {corpus.name}. Give it more."
        )
    return found


class Portion(NamedTuple):
    """How many documents are classified at a time, and how many characters of them."""

    rows: int
    characters: int

    @classmethod
    def of(cls, n_classes: int, room: Room) -> Portion:
        """Have as many as fit: each has several numbers for each class while it is classified."""
        rows = max(100, min(10_000, room.left // 4 // (64 * max(1, n_classes))))
        return cls(rows, max(1 << 20, room.left // 2 // _PER_CHARACTER))

    def cut(self, batch: Batch) -> Iterator[Batch]:
        """Cut a batch; its columns stay whole, since they say what the labels look like."""
        start = size = 0
        for i, text in enumerate(batch.texts):
            size += len(text)
            if size >= self.characters or i + 1 - start == self.rows or i + 1 == len(batch.texts):
                here = slice(start, i + 1)
                yield batch._replace(texts=batch.texts[here], labels=batch.labels[here])
                start, size = i + 1, 0


def _reported(found: Sample, memory: Any) -> str:
    n_others = len(found.texts) - found.n_kept_labelled
    return (
        f"Learned from {len(found.texts):,} of {found.n_documents:,} documents, for which {memory} "
        f"is enough: {found.n_kept_labelled:,} of {found.n_labelled:,} with a label, and "
        f"{n_others:,} of the others, by a hash of their text."
    )


def _check(corpus: Any, on_progress: Any) -> None:
    if not hasattr(corpus, "batches"):
        raise TypeError(
            f"corpus is a {type(corpus).__name__}: expected a leafwise.corpus.Corpus, as in "
            'Corpus("texts.csv").'
        )
    if on_progress is not None and not callable(on_progress):
        raise TypeError(
            f"on_progress={on_progress!r}: expected a function that is called with what is being "
            "done, the bytes read, and the bytes there are."
        )


def _parts(model: Any) -> tuple[WordCounter, CountClassifier | HPLSA]:
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    if len(steps) == 2 and isinstance(steps[0], WordCounter):
        if isinstance(steps[1], CountClassifier | HPLSA):
            return steps[0], steps[1]
        raise TypeError(
            f"A {type(steps[1]).__name__} does not learn from counts that add up, so it needs all "
            "documents at once. Expected NaiveBayes, HierarchicalShrinkage, GeneralShrinkage, "
            "HierarchicalMixture, HPLC, PLC, HierarchicalDirichlet or HPLSA."
        )
    raise TypeError(
        f"model is a {type(model).__name__}: expected make_pipeline(WordCounter(), model of counts)"
        ", or a TaxonomyClassifier."
    )


class _Pieces:
    """The texts and labels of a corpus, some at a time, in pieces that are the same each time."""

    def __init__(self, corpus: Corpus, characters: int, on_progress: OnProgress | None):
        self._corpus, self.characters, self._on_progress = corpus, characters, on_progress

    def read(self, what: str) -> Iterator[tuple[list[str], list[tuple[str, ...]]]]:
        texts: list[str] = []
        labels: list[tuple[str, ...]] = []
        size = 0
        with _progress(self._corpus, what, self._on_progress):
            for batch in self._corpus.batches():
                for text, given in zip(batch.texts, batch.labels):
                    texts.append(text)
                    labels.append(given)
                    size += len(text)
                    if size >= self.characters or len(texts) == _ROWS:
                        yield texts, labels
                        texts, labels, size = [], [], 0
        if texts:
            yield texts, labels


class _Counts(NamedTuple):
    """The word counts of the same, each time they are gone through."""

    counter: WordCounter
    pieces: _Pieces

    def __iter__(self) -> Iterator[sparse.csr_matrix]:
        for texts, _ in self.pieces.read("Learning"):
            yield sparse.csr_matrix(self.counter.transform(texts), dtype=np.float64)


class _Documents(NamedTuple):
    """The same, with their labels."""

    counter: WordCounter
    classes: Classes
    pieces: _Pieces

    def __iter__(self) -> Iterator[Documents]:  # type: ignore[override]
        for texts, labels in self.pieces.read("Learning"):
            membership = self.classes.membership(read_labels(labels, self.classes))
            yield Documents(self.counter.transform(texts), membership, np.ones(len(texts)))


@contextmanager
def _progress(corpus: Corpus, what: str, tell: OnProgress | None) -> Iterator[None]:
    if tell is None:
        yield
        return
    before = corpus.on_progress
    corpus.on_progress = lambda done, total: tell(what, done, total)
    try:
        yield
    finally:
        corpus.on_progress = before


# ---- words --------------------------------------------------------------------------------------


def _learn_words(
    counter: WordCounter, pieces: _Pieces, room: Room, memory: Any
) -> tuple[list[int], set[str]]:
    """Learn the words; return the sizes of the pieces and the labels that there are."""
    counter._validate()
    counter._reset()
    sizes: list[int] = []
    found: set[str] = set()
    n_dropped = least = 0
    for texts, labels in pieces.read("Counting"):
        sizes.append(len(texts))
        found.update(one for several in labels for one in several)
        for _ in counter._count_and_learn(texts):
            pass
        if _size_of_words(counter) > _WORDS * room.left:
            n, seen = _drop_rare(counter, _WORDS * room.left / 2)
            n_dropped, least = n_dropped + n, max(least, seen)
    if n_dropped:
        times = "once" if least == 1 else f"up to {least} times"
        warnings.warn(
            f"There are more words than {memory} has room for: {n_dropped:,} that had come {times} "
            "when there was no more room were dropped. They count from where they came again.",
            UserWarning,
            stacklevel=3,
        )
    counter._set_columns()
    counter._require_words()
    return sizes, found


def _size_of_words(counter: WordCounter) -> int:
    known = counter._known_words()
    n_forms = 0 if known.spelling.as_written else known.forms.n
    return PER_WORD * (len(counter._totals) + n_forms) + 4 * len(counter._pool)


def _drop_rare(counter: WordCounter, room: float) -> tuple[int, int]:
    """Drop the words that came least often, until the others fit; say how many, and how often."""
    totals = counter._totals
    per_word = _size_of_words(counter) / len(totals)
    in_order = np.sort(totals)[::-1]
    most = max(1, min(len(totals) - 1, int(room / per_word)))
    least = int(in_order[most])  # of this there are too many to keep all
    kept = totals > least
    lengths = np.diff(np.flatnonzero(counter._pool == _END), prepend=-1)
    counter._pool = counter._pool[np.repeat(kept, lengths)]
    counter._totals, counter._document_counts = totals[kept], counter._document_counts[kept]
    counter._forget()
    return int(np.count_nonzero(~kept)), least


# ---- counts -------------------------------------------------------------------------------------


class _Watch:
    """Raises where the model of counts that grow would not fit."""

    def __init__(self, model: CountClassifier, n_classes: int, room: Room, memory: Any):
        self._model, self._n_classes, self._room, self._memory = model, n_classes, room, memory
        self._lengths = np.zeros(0, int)  # of the documents with most words

    def seen(self, block: Documents) -> Documents:
        """Take note of a block that is counted, and return it."""
        lengths = np.append(self._lengths, np.diff(block.X.indptr))
        self._lengths = np.sort(lengths)[-getattr(self._model, "sample_size", 1) :]
        return block

    def __call__(self, found: Any) -> None:
        counts: Any = found[0] if isinstance(found, tuple) else None
        if not sparse.issparse(counts) or counts.shape[0] != self._n_classes:
            return
        need = model_needs(self._model, self._lengths, counts.nnz, *counts.shape)
        if need > self._room.left:
            name = type(self._model).__name__
            raise LeafwiseError(
                f"{name} has {counts.nnz:,} pairs of a class and a word by now, for which it needs "
                f"about {shown(need)}, and memory={self._memory!r} leaves {shown(self._room.left)}."
                " Give it more, or count fewer words: WordCounter(min_count=5), say."
            )
