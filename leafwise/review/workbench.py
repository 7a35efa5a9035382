"""What people work with: the model of a project, which learns from each answer as it comes.

The project file holds everything that must not be lost. A `Workbench` keeps the model in memory
beside it, says which document to look at next, and has another process fit the model anew.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from leafwise.corpus import Batch
from leafwise.exceptions import LabelError, ProjectError
from leafwise.models.taxonomy_classifier import TaxonomyClassifier
from leafwise.review import progress as review_progress
from leafwise.review.background import Background, Status
from leafwise.review.live_model import Explained, LiveModel, Mark, Suggestion
from leafwise.store import Project
from leafwise.store.records import Answer, Document, Draft, Edit
from leafwise.taxonomy_changes import Change

__all__ = ["Explained", "Mark", "Status", "Suggestion", "Task", "Workbench"]

LEASE = 300.0  # seconds for which a document is one person's
_TOGETHER = 256  # texts that are sorted at once
_MANY_DOCUMENTS, _COUNT_EVERY = 50_000, 5.0  # so many are counted only so often, in seconds
_SPELLED = 50  # documents that are read for how words are spelled
_MOST_SHOWN = 10_000  # documents of which it is known what someone was shown


class Task(NamedTuple):
    """A document to look at.

    Attributes
    ----------
    suggestions : candidates; first those that the model would give it, then by probability
    chosen : paths that the model would give it: one, or several in a project of several labels
    explained : why the first of them; None without a model
    asked : why it is shown, see `leafwise.store.records.Answer`
    left : documents without a label
    """

    document: Document
    suggestions: list[Suggestion]
    chosen: tuple[str, ...]
    explained: Explained | None
    asked: str
    left: int


class _Shown(NamedTuple):
    """What a person was shown beside a document."""

    asked: str
    suggested: str | None
    probability: float | None


class _Question:
    """Texts to be sorted, and what came of it."""

    def __init__(self, texts: list[str], limit: int) -> None:
        self.texts, self.limit = texts, limit
        self.found: list[list[Suggestion]] | None = None
        self.error: Exception | None = None


class Workbench:
    """A project with its model at hand. Any number of threads may use it.

    Parameters
    ----------
    project : Project
    refit_after : how many answers until the model is fitted anew
    background : whether that happens by itself; without, `refit` and `grow` wait until it is done
    """

    def __init__(self, project: Project, *, refit_after: int = 20, background: bool = True) -> None:
        self.project = project
        self._lock = threading.RLock()  # of the model, and of who has which document
        self._live: LiveModel | None = None
        self._waiting: list[_Question] = []
        self._leases: dict[int, tuple[str, float]] = {}
        self._shown: dict[tuple[str, int], _Shown] = {}
        self._skipped = dict.fromkeys(sorted(project.labels.skipped()))
        self._left = (0, 0.0)  # the number, and until when it need not be counted again
        self._load()
        self._background = Background(
            project, refit_after, lambda: self._live is not None, self._load, background
        )

    def close(self) -> None:
        """End what runs in the background. The project stays open."""
        self._background.close()

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def model(self) -> TaxonomyClassifier | None:
        """The model, with all answers learned; None where there is none yet."""
        with self._lock:
            live = self._current()
            return None if live is None else live.model

    # ---- where texts belong ----

    def suggest(
        self, texts: Sequence[str], limit: int = 10, threshold: float = 0.0
    ) -> list[list[Suggestion]]:
        """Return the likeliest nodes of each text, best first, none below the threshold."""
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ProjectError("texts: expected a list of strings.")
        if limit < 1:
            raise ProjectError(f"limit={limit}: expected a number from 1 on.")
        found: list[list[Suggestion]] = []
        for start in range(0, len(texts), _TOGETHER):
            found += self._ask(_Question(list(texts[start : start + _TOGETHER]), limit))
        return [[one for one in own if one.score >= threshold] for own in found]

    def _ask(self, question: _Question) -> list[list[Suggestion]]:
        """Sort texts, together with those of others that wait: it costs hardly more than one."""
        self._waiting.append(question)
        with self._lock:
            if question.found is None and question.error is None:
                together, n_texts = [question], len(question.texts)
                with suppress(ValueError):  # where another thread was interrupted in this place
                    self._waiting.remove(question)
                while self._waiting and n_texts < _TOGETHER:
                    together.append(self._waiting.pop(0))
                    n_texts += len(together[-1].texts)
                try:
                    self._sort_together(together)
                except Exception as error:  # each of them is to hear of it
                    for one in together:
                        one.error = error
        if question.found is None:
            raise question.error or AssertionError
        return question.found

    def _sort_together(self, questions: list[_Question]) -> None:
        live = self._current()
        if live is None:
            raise ProjectError(
                "This project has no model yet: it takes a tree, documents, and keywords or labels "
                "to learn from."
            )
        texts = [text for question in questions for text in question.texts]
        found = live.suggest(texts, max(question.limit for question in questions))
        for question in questions:
            n = len(question.texts)
            question.found = [own[: question.limit] for own in found[:n]]
            found = found[n:]

    def explain(self, text: str, path: str | None = None) -> Explained:
        """Say which words of a text put it on a node, by default the likeliest."""
        with self._lock:
            live = self._current()
            if live is None:
                raise ProjectError("This project has no model yet that could explain anything.")
            return live.explain(text, path)

    def node_words(self, path: str, n: int = 10) -> list[tuple[str, float]]:
        """List what a node says that its parent does not, spelled as its documents mostly do.

        Nothing where there is no model, or the node is new to it.
        """
        with self._lock:
            live = self._current()
            try:
                found = [] if live is None else live.model.node_words(path, n)
            except ValueError:
                return []
        if not found or live is None:
            return []
        page = self.project.documents.page(node=path, order="sure", limit=_SPELLED)
        spelled: dict[str, Counter[str]] = {word: Counter() for word, _ in found}
        for document in page.documents:
            for word, form in live.model.counter_.words_of(document.text).items():
                if word in spelled:
                    spelled[word][form] += 1
        return [
            (spelled[word].most_common(1)[0][0] if spelled[word] else word, weight)
            for word, weight in found
        ]

    # ---- review ----

    def next(self, by: str, *, also: Iterable[int] = ()) -> Task | None:
        """Return the document that a person should look at next; None where none is left.

        It is theirs for five minutes: others get other ones. Who asks again gets the same one until
        it is answered. `also` are documents to leave out, such as one that is still on the screen
        while the next one is fetched.
        """
        with self._lock:
            now = time.monotonic()
            self._leases = {id: own for id, own in self._leases.items() if own[1] > now}
            out = set(also)
            for id, asked in self._candidates(by):
                if id in out or self._leases.get(id, (by,))[0] != by:
                    continue
                document = self.project.documents.get(id)
                if document.labels:
                    self._leases.pop(id, None)
                    continue
                self._leases[id] = (by, now + LEASE)
                return self._task(document, by, asked)
        return None

    def task(self, document: int, by: str) -> Task:
        """Return any document as one to look at."""
        with self._lock:
            return self._task(self.project.documents.get(document), by, "chosen")

    def _candidates(self, by: str) -> Iterator[tuple[int, str]]:
        """Go through documents without a label, the most wanted first, and say why each."""
        for id, (own, _) in list(self._leases.items()):
            if own == by:
                yield id, "left"
        yield from self.project.runs.queue()
        for order in ("unsure", "id"):  # the latter for those that no run has sorted
            after = None
            while True:
                page = self.project.documents.page(state="unlabelled", order=order, after=after)
                yield from (
                    (one.id, "left") for one in page.documents if one.id not in self._skipped
                )
                if (after := page.after) is None:
                    break
        yield from ((id, "left") for id in list(self._skipped))

    def _task(self, document: Document, by: str, asked: str) -> Task:
        suggestions: list[Suggestion] = []
        chosen: tuple[str, ...] = ()
        explained = None
        live = self._current()
        if live is not None:
            suggestions, chosen = live.candidates(document.text)
            explained = live.explain(document.text, chosen[0])
        known = self._shown.pop((by, document.id), None)
        if known is not None and known.asked != "chosen":
            asked = known.asked  # shown before: the reason stays
        best = max(suggestions, key=lambda one: one.score, default=None)
        self._shown[by, document.id] = (
            _Shown(asked, None, None) if best is None else _Shown(asked, best.path, best.score)
        )
        if len(self._shown) > _MOST_SHOWN:
            del self._shown[next(iter(self._shown))]  # the oldest
        return Task(document, suggestions, chosen, explained, asked, self._n_left())

    def answer(
        self,
        document: int,
        labels: Sequence[str] | None,
        *,
        by: str,
        seen: int | None = None,
        token: str | None = None,
        asked: str = "queue",
        source: str = "review",
    ) -> Answer:
        """Keep an answer, then learn from it; see `Labels.answer`.

        `asked` counts where it is not known any more what this person was shown.
        """
        shown = self._shown.get((by, document)) or _Shown(asked, *self._guess(document))
        given: dict[str, Any] = {"by": by, "seen": seen, "token": token, "asked": shown.asked}
        given["source"] = source
        try:
            answer = self.project.labels.answer(
                document,
                labels,
                suggested=shown.suggested,
                probability=shown.probability,
                **given,
            )
        except LabelError:
            if shown.suggested is None:
                raise
            # What was suggested may have left the tree: the answer counts without it.
            answer = self.project.labels.answer(document, labels, **given)
        with self._lock:
            self._leases.pop(document, None)
            self._shown.pop((by, document), None)
            self._skipped.pop(document, None)
            if labels is None:
                self._skipped[document] = None
            self._learn()
        return answer

    def _guess(self, document: int) -> tuple[str | None, float | None]:
        guess = self.project.documents.get(document).prediction
        return (None, None) if guess is None else (guess.path, guess.probability)

    def undo(self, by: str) -> Answer | None:
        """Take back a person's last answer; its document is the next that they get."""
        answer = self.project.labels.undo(by)
        if answer is not None and answer.labels is not None:
            self._load()  # a model cannot forget: the last run's learns the other answers again
        if answer is not None:
            with self._lock:
                id = answer.document
                self._skipped.pop(id, None)
                self._shown[by, id] = _Shown(answer.asked, answer.suggested, answer.probability)
                if self._leases.get(id, (by,))[0] == by:
                    others = {k: own for k, own in self._leases.items() if k != id}
                    self._leases = {id: (by, time.monotonic() + LEASE), **others}
        return answer

    def learn(self, items: Iterable[tuple[str | None, str, Sequence[str]]], by: str) -> int:
        """Add documents with their labels, and learn from them; returns how many have labels.

        Each is an id, a text and labels. The same id again replaces the text and labels; without
        one, the text itself says which document it is.
        """
        rows = list(items)
        state = self.project.tree.state
        for number, (_, _, labels) in enumerate(rows):
            try:
                self.project.labels.read(labels, state)
            except LabelError as error:
                raise LabelError(f"Document number {number} (from 0): {error}") from None
        keys = [key_of(text) if key is None else key for key, text, _ in rows]
        texts = [text for _, text, _ in rows]
        given = [tuple(labels) for _, _, labels in rows]
        batch = Batch(texts, given, keys, list(range(1, len(rows) + 1)), {})
        self.project.documents.add([batch], by=by, replace=True)
        for key, labels in zip(keys, given):
            document = self.project.documents.find(key)
            paths = {state.taxonomy.paths[state.taxonomy.index(label)] for label in labels}
            if labels and set(document.labels) != paths:
                self.project.labels.answer(document.id, labels, by=by, source="api")
        with self._lock:
            self._learn()
        return sum(map(bool, given))

    def _learn(self) -> None:
        """Learn what was answered. An answer is kept already, whatever becomes of this."""
        live = self._current()
        if live is not None and live.is_wrong:
            self._load()
        elif live is not None:
            self._background.soon |= not live.learn()
        self._background.wake()

    def _n_left(self) -> int:
        """Count documents without a label; of very many not each time anew."""
        number, until = self._left
        if time.monotonic() >= until:
            info = self.project.info()
            number = info.n_documents - info.n_labelled
            wait = _COUNT_EVERY if info.n_documents > _MANY_DOCUMENTS else 0.0
            self._left = (number, time.monotonic() + wait)
        return number

    # ---- the tree ----

    def edit(self, change: Change, what: str, by: str, seen: int | None = None) -> list[str]:
        """Change the tree; labels and the model follow at once, and a run soon after."""
        report = self.project.tree.edit(change, what, by=by, seen=seen)
        self._background.wake()
        return report

    def undo_edit(self, by: str) -> Edit | None:
        """Take back the last change of the tree."""
        edit = self.project.tree.undo(by)
        self._background.wake()
        return edit

    def _current(self) -> LiveModel | None:
        """Return the model, for the tree as it is now."""
        if self._live is not None and not self._live.follow():
            self._live = None  # nothing of it is left: an edit is reason for a run anyway
        return self._live

    # ---- how it stands ----

    def progress(self) -> review_progress.Progress:
        """Say how good the sorting is, and whether to go on."""
        info, counts = self.project.info(), self.project.tree.counts()
        n_sorted = int(counts.predicted.sum())
        return review_progress.report(
            belief=float(counts.probability.sum()) / n_sorted if n_sorted else None,
            answers=self.project.labels.answers(source="review"),
            runs=self.project.runs.all(),
            n_labelled=info.n_labelled,
            n_documents=info.n_documents,
            target=self.project.get("target", review_progress.TARGET),
        )

    def status(self) -> Status:
        """Say what happens in the background."""
        return self._background.status()

    # ---- what takes longer ----

    def refit(self) -> bool:
        """Fit the model anew, in the background; False where something is running already."""
        return self._background.refit()

    def grow(self, path: str | None, n_leaves: int, by: str) -> Draft:
        """Grow a tree below a node, or a whole one, in the background."""
        draft = self.project.drafts.start(path, n_leaves, by=by)
        self._background.grow(draft.id)
        return self.project.drafts.get(draft.id)

    def _load(self) -> None:
        """Take the model of the last run, and teach it what was answered meanwhile."""
        live = LiveModel.load(self.project)
        if live is None or not live.follow():
            return
        live.learn()  # while the model before still answers
        live.warm_up()
        with self._lock:
            live.learn()
            self._live = live


def key_of(text: str) -> str:
    """Return an id for a text that comes without: the same for the same text."""
    return f"text-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:20]}"
