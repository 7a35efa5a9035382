"""Which documents to learn from, where not all fit: those whose hashes are lowest.

A hash of its text and labels decides on a document, so neither the order of the documents nor how
they are cut into batches changes the choice.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from leafwise.corpus import Batch

_DOCUMENT = 300  # bytes that Python needs for a document beside its text


class Sample(NamedTuple):
    """Documents to learn from, and of how many they are.

    Attributes
    ----------
    texts, labels : as in `Batch`; in the order they came in, or where not all fit, in that of their
        hashes, those with a label first
    n_documents, n_labelled : how many there are in all
    """

    texts: list[str]
    labels: list[tuple[str, ...]]
    n_documents: int
    n_labelled: int

    @property
    def n_kept_labelled(self) -> int:
        return sum(map(bool, self.labels))

    @property
    def is_all(self) -> bool:
        return len(self.texts) == self.n_documents

    def first(self, n: int) -> Sample:
        """Keep so many, by their hashes, and those with a label before others."""
        rows = range(len(self.texts))
        order = sorted(rows, key=lambda i: (not self.labels[i], key_of(*self._document(i))))[:n]
        texts, labels = [self.texts[i] for i in order], [self.labels[i] for i in order]
        return self._replace(texts=texts, labels=labels)

    def _document(self, i: int) -> tuple[str, tuple[str, ...]]:
        return self.texts[i], self.labels[i]


def draw(batches: Iterable[Batch], room: int) -> Sample:
    """Take as many documents as fit into so many bytes: all; else those with a label first.

    Where not all fit, copies of a document count once: a text that is there a million times would
    leave no room for others.
    """
    together: list[tuple[str, tuple[str, ...]]] = []  # as long as all fit
    size = n_documents = n_labelled = 0
    with_label, others = _Lowest(), _Lowest()
    for batch in batches:
        n_documents += len(batch.texts)
        n_labelled += sum(map(bool, batch.labels))
        for text, labels in zip(batch.texts, batch.labels):
            if size <= room:
                together.append((text, labels))
                size += _size(text)
                if size <= room:
                    continue
                for document in together:
                    (with_label if document[1] else others).add(*document)
                together = []
            else:
                (with_label if labels else others).add(text, labels)
            with_label.shrink(room)
            others.shrink(room - with_label.size if with_label.has_all else 0)
    if size > room:
        together = [*with_label.documents(), *others.documents()]
    texts, given = [text for text, _ in together], [labels for _, labels in together]
    return Sample(texts, given, n_documents, n_labelled)


class _Lowest:
    """The documents of the lowest hashes, as many as fit."""

    def __init__(self) -> None:
        self.size = 0
        self._cut = 1 << 64  # the lowest hash that had to go: what is not below it has no place
        self._heap: list[int] = []
        self._kept: dict[int, tuple[str, tuple[str, ...]]] = {}

    @property
    def has_all(self) -> bool:
        return self._cut == 1 << 64

    def add(self, text: str, labels: tuple[str, ...]) -> None:
        key = key_of(text, labels)
        if key < self._cut and key not in self._kept:
            heapq.heappush(self._heap, -key)
            self._kept[key] = text, labels
            self.size += _size(text)

    def shrink(self, room: int) -> None:
        while self.size > max(room, 0):
            self._cut = -heapq.heappop(self._heap)
            self.size -= _size(self._kept.pop(self._cut)[0])

    def documents(self) -> list[tuple[str, tuple[str, ...]]]:
        return [self._kept[key] for key in sorted(self._kept)]


def key_of(text: str, labels: Sequence[str]) -> int:
    """Hash a document: a number of 64 bits."""
    document = "\0".join([text, *labels]).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(document, digest_size=8).digest(), "big")


def _size(text: str) -> int:
    return sys.getsizeof(text) + _DOCUMENT
