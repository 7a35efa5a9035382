"""What comes out of a project file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from leafwise.taxonomy import Taxonomy


class Prediction(NamedTuple):
    """The best guess for a document, and the next ones with their probabilities."""

    path: str
    probability: float
    others: tuple[tuple[str, float], ...]


class Document(NamedTuple):
    """A document as it is now.

    Attributes
    ----------
    id : its number in the file
    key : the id that its owner gave it
    text : str
    labels : paths of the nodes it is confirmed to be on
    version : the last answer that gave it labels or took them away; 0 without one
    prediction : Prediction or None
    """

    id: int
    key: str
    text: str
    labels: tuple[str, ...]
    version: int
    prediction: Prediction | None


class Answer(NamedTuple):
    """What someone said of a document.

    Attributes
    ----------
    id, document : int
    key : the document's
    at, by : when, and who
    source : {"import", "review", "api", "tree"}
    labels : paths; () where the labels were taken away, None where the document was skipped
    suggested, probability : what the model had said, or None
    asked : {"queue", "check", "left", "chosen", ""}
        Why the document was shown: to learn from, to check how good the sorting is, because it
        was left, or because someone chose it.
    undone : bool
    """

    id: int
    document: int
    key: str
    at: str
    by: str
    source: str
    labels: tuple[str, ...] | None
    suggested: str | None
    probability: float | None
    asked: str
    undone: bool


class Run(NamedTuple):
    """A fit of the model, and what it found.

    Attributes
    ----------
    state : {"running", "done", "failed", "stopped"}
    step, share : what it is doing, and how much is done
    n_documents, n_labels : when it began
    last_answer, tree : the last answer that it knows, and the version of its tree
    report : what it did, in words
    facts : numbers of it
    """

    id: int
    at: str
    ended: str | None
    state: str
    step: str
    share: float
    n_documents: int
    n_labels: int
    last_answer: int
    tree: int
    report: list[str]
    facts: dict[str, Any]


class Edit(NamedTuple):
    """A change of the tree."""

    id: int
    at: str
    by: str
    what: str
    undone: bool


class Draft(NamedTuple):
    """A tree that was grown, to be looked at before it is used.

    Attributes
    ----------
    path : the node it is to go below, "/" for the whole tree; None where that node is gone
    state : {"running", "ready", "failed", "accepted", "discarded"}
    examples : for paths of the draft, how some of its documents begin
    """

    id: int
    at: str
    by: str
    path: str | None
    n_leaves: int
    state: str
    taxonomy: Taxonomy | None
    examples: dict[str, list[str]]
    message: str


class Added(NamedTuple):
    """What became of documents that were added.

    Attributes
    ----------
    n_new, n_same : those that are new, and those that were there with the same text
    n_changed : those that were there with another text
    n_labels : documents that got a label
    """

    n_new: int
    n_same: int
    n_changed: int
    n_labels: int


class Page(NamedTuple):
    """Some documents, and where to go on (None: these were the last)."""

    documents: list[Document]
    after: str | None


class Counts(NamedTuple):
    """By the number of the node in the tree, each node alone without those below it.

    Attributes
    ----------
    confirmed : documents with its label
    predicted : documents without a label, of which it is the best guess
    probability : the sum of these guesses' probabilities
    """

    confirmed: np.ndarray
    predicted: np.ndarray
    probability: np.ndarray


class Info(NamedTuple):
    """A project in numbers."""

    path: str
    name: str
    bytes: int
    version: int
    n_documents: int
    n_labelled: int
    n_answers: int
    n_nodes: int
    several: bool
    language: str
    run: Run | None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
