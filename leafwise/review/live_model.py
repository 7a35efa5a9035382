"""The model of a project's last run, which follows its tree and learns its answers as they come."""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple, Self

import numpy as np
from sklearn import config_context

from leafwise.exceptions import LeafwiseError
from leafwise.explain import Explanation
from leafwise.models.taxonomy_classifier import TaxonomyClassifier
from leafwise.review.refitting import from_ranges
from leafwise.store import Project
from leafwise.taxonomy_changes import Change

N_CANDIDATES = 9  # shown beside a document: a digit takes each
_N_WORDS, _MOST_MARKS = 30, 2000  # words that are marked, and places in one text
_MOST_EXPLAINED = 100_000  # characters of a text: others wait meanwhile
_MOST_LEARNED = 500  # answers that are learned one by one; more wait for the next run


class Suggestion(NamedTuple):
    """A node that a text may belong to: its path, its name, and its probability."""

    path: str
    label: str
    score: float


class Mark(NamedTuple):
    """A word that spoke for a node: where it is in the text, how much, and for which level."""

    start: int
    end: int
    weight: float
    level: int


class Explained(NamedTuple):
    """Why a text is on a node.

    Attributes
    ----------
    marks : in the order of the text, none over another
    levels : the node and those above it; "" is for words that are no sign of any of them
    """

    path: str
    probability: float
    marks: list[Mark]
    levels: list[str]


class LiveModel:
    """A model of a project. One thread at a time may use it.

    Attributes
    ----------
    model : TaxonomyClassifier
    run : the number of the run that fitted it
    learned : the last answer that it knows
    """

    def __init__(
        self, project: Project, model: TaxonomyClassifier, run: int, learned: int, ids: np.ndarray
    ) -> None:
        self.model = model
        self.run = run
        self.learned = learned
        self._project = project
        self._taught: set[int] = set()  # documents whose labels it got since the run
        self._ids = ids  # of the nodes of its tree, in the file
        self._version = -1  # of the tree that it follows

    @classmethod
    def load(cls, project: Project) -> Self | None:
        """Return the model of the last run; None where there is none that can be used."""
        run = project.runs.current()
        if run is None:
            return None
        try:
            model = project.runs.model()
        except LeafwiseError:  # damaged, or of an older leafwise: the next run makes another
            return None
        ids = from_ranges(run.facts.get("nodes", []))
        if not isinstance(model, TaxonomyClassifier) or len(ids) != len(model.taxonomy_):
            return None
        return cls(project, model, run.id, run.last_answer, ids)

    def follow(self) -> bool:
        """Take the tree as it is now; False where nothing of the model is left in it."""
        tree = self._project.tree
        if tree.version == self._version:
            return True
        state = tree.state
        if not np.array_equal(self._ids, state.ids) or self.model.taxonomy_ != state.taxonomy:
            node_of = [self._node_of(id, state.number) for id in self._ids.tolist()]
            try:
                change = Change(self.model.taxonomy_, state.taxonomy, np.array(node_of))
                self.model.change_taxonomy(change)
            except ValueError:  # no node is left, say
                return False
        self._ids, self._version = state.ids, state.version
        return True

    def _node_of(self, id: int, number: dict[int, int]) -> int:
        """Return what a node of the file is in the tree: itself, the one that it became, or -1."""
        heirs = [id] if id in number else self._project.tree.resolve([id])
        return number.get(heirs[0], -1) if heirs else -1

    @property
    def is_wrong(self) -> bool:
        """Whether it has learned something that does not hold any more, and cannot forget."""
        answers = self._project.labels.answers(after=self.learned, limit=_MOST_LEARNED + 1)
        return any(one.document in self._taught for one in answers if one.labels is not None)

    def learn(self) -> bool:
        """Learn what was answered since; False where it takes a run to learn that."""
        last = self._project.labels.last()
        if last == self.learned:
            return True
        answers = self._project.labels.answers(after=self.learned, limit=_MOST_LEARNED + 1)
        self.learned = max([last, *(answer.id for answer in answers)])  # one may just have come
        if len(answers) > _MOST_LEARNED:
            return False
        said = {answer.document for answer in answers if answer.labels is not None}
        self._taught |= said
        labels = self._project.labels.of(said)  # as they are now, by the tree as it is now
        texts = self._project.documents.texts(labels)
        try:
            if labels:
                self.model.partial_fit(
                    [texts[id] for id in labels],
                    [own if self.model.several_ else own[0] for own in labels.values()],
                )
        except Exception:  # whatever it is, the labels are kept, and the next run learns them
            return False
        return all(len(own) == 1 or self.model.several_ for own in labels.values())

    def warm_up(self) -> None:
        """Derive what is derived at first need: a second of work, before anyone waits for it."""
        text = " ".join(self.model.taxonomy_.names)
        self.suggest([text], 1)
        self.explain(text)

    def suggest(self, texts: list[str], limit: int) -> list[list[Suggestion]]:
        """Return the likeliest nodes of each text, best first."""
        # Checks of numbers that were counted here take a quarter of the time for one text.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            paths, scores = self.model.top_k(texts, limit)
        return [
            [self._suggestion(path, score) for path, score in zip(*row)]
            for row in zip(paths.tolist(), scores.tolist())
        ]

    def candidates(self, text: str) -> tuple[list[Suggestion], tuple[str, ...]]:
        """Return the nodes to choose from, and which of them the model would give: these first."""
        found = self.suggest([text], N_CANDIDATES)[0]
        if not self.model.several_:
            return found, (found[0].path,)
        chosen = set(self.model.predict([text])[0])
        found.sort(key=lambda one: one.path not in chosen)  # stable
        return found, tuple(one.path for one in found if one.path in chosen) or (found[0].path,)

    def explain(self, text: str, path: str | None = None) -> Explained:
        """Say which words of a text, or of its beginning, put it on a node, by default the best."""
        text = text[:_MOST_EXPLAINED]
        found = self.model.explain(text, path)
        return Explained(found.path, found.probability, marks(text, found), list(found.levels))

    def _suggestion(self, path: str, score: float) -> Suggestion:
        tree = self.model.taxonomy_
        return Suggestion(path, tree.names[tree.index(path)], score)


def marks(text: str, found: Explanation) -> list[Mark]:
    """Find the weightiest words that spoke for a node in a text: every place, as whole words.

    A part of a word that was counted alone ("parser" of "HTMLParser") is found within that.
    """
    speak_for = (
        (word, weight, level.index(max(level)) if level else 0)
        for (word, weight), level in zip(found.words, found.word_levels)
        if weight > 0
    )
    said = list(islice(speak_for, _N_WORDS))  # the weightiest come first
    known = {word.casefold(): (weight, level) for word, weight, level in said}
    places = _places(text, [word for word, _, _ in said], r"(?<!\w)(?:{})(?!\w)")
    there = {text[start:end].casefold() for start, end in places}
    parts = [word for word, _, _ in said if word.casefold() not in there]
    places += [at for at in _places(text, parts, "(?:{})") if _is_part(text, *at)]
    marked: list[Mark] = []
    for start, end in sorted(places)[:_MOST_MARKS]:
        at = known.get(text[start:end].casefold())
        if at is not None and (not marked or start >= marked[-1].end):
            marked.append(Mark(start, end, *at))
    return marked


def _places(text: str, words: list[str], pattern: str) -> list[tuple[int, int]]:
    if not words:
        return []
    longest_first = sorted(words, key=len, reverse=True)
    either = pattern.format("|".join(map(re.escape, longest_first)))
    return [match.span() for match in re.finditer(either, text, re.IGNORECASE)]


def _is_part(text: str, start: int, end: int) -> bool:
    """Whether a word stands here within another: from a capital or after no letter, to its end."""
    begins = start == 0 or not text[start - 1].isalpha() or text[start].isupper()
    return begins and not text[end : end + 1].islower()
