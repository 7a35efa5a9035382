"""The page where labels are made: one document at a time."""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Annotated, Any, NamedTuple

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from leafwise.exceptions import ConflictError, LeafwiseError, ProjectError
from leafwise.review.workbench import Task
from leafwise.store.records import Answer
from leafwise.web.errors import JSON
from leafwise.web.pages import Desk, Form, GivenForm, Note, render, wants_json
from leafwise.web.pages_texts import view_of

WHYS = {
    "queue": "To learn from",
    "check": "Drawn by chance, to measure by",
    "left": "Still left",
    "chosen": "Chosen",
}
_TOKEN = 64
Number = Annotated[int | None, Query(ge=1, lt=2**62)]


class Candidate(NamedTuple):
    """A node to choose; `score` is None where nothing was suggested."""

    path: str
    score: float | None
    checked: bool


class Given(NamedTuple):
    """What someone answered: labels are None where the document is skipped."""

    document: int
    labels: list[str] | None
    seen: int
    asked: str
    token: str | None
    kept: bool  # in a browser, since before its page was read anew


def add(app: FastAPI, desk: Desk) -> None:
    project, workbench = desk.project, desk.workbench
    answered: dict[str, set[int]] = defaultdict(set)  # answers of each person since the start
    skipped: dict[str, set[int]] = defaultdict(set)

    def session(by: str) -> str:
        info = project.info()
        mine, left = len(answered[by]), len(skipped[by])
        done = [f"{mine:,} answered"] * bool(mine) + [f"{left:,} skipped"] * bool(left)
        start = f"{' and '.join(done)} in this session, " if done else ""
        return f"{start}{info.n_labelled:,} of {info.n_documents:,} confirmed"

    def shown(task: Task | None, conflict: dict[str, Any] | None = None) -> dict[str, Any]:
        """What the template of a task takes."""
        context: dict[str, Any] = {
            "task": task,
            "conflict": conflict,
            "several": project.several,
            "token": uuid.uuid4().hex,
        }
        if task is None:
            return context | {"empty": _empty(desk)}
        return context | {
            "view": view_of(task.document.text, task.explained),
            "candidates": _candidates(task, project.several),
            "why": WHYS.get(task.asked, ""),
        }

    def reply(
        request: Request,
        context: dict[str, Any],
        said: str,
        status: int = 200,
        note: Note | None = None,
    ) -> Response:
        """The next task, as a piece of a page for JavaScript and as a page for others."""
        told = session(desk.by(request))
        if wants_json(request):
            html = render("_task.html", **context)
            task = {"html": html, "said": said, "session": told}
            return JSON(task | {"conflict": context["conflict"] is not None}, status)
        return desk.page(
            request, "review.html", "Review", said=said, session=told, status=status, note=note,
            **{name: value for name, value in context.items() if name != "several"},
        )  # fmt: skip

    def next_task(by: str) -> Task | None:
        return workbench.next(by) if desk.has_tree else None

    @app.get("/review", include_in_schema=False)
    def review(request: Request, document: Number = None) -> Response:
        by = desk.by(request)
        task = next_task(by) if document is None else workbench.task(document, by)
        return reply(request, shown(task), "")

    @app.post("/review/answer", include_in_schema=False)
    def answer(request: Request, form: GivenForm) -> Response:
        by, given = desk.by(request), _given(form)
        try:
            saved = _save(desk, given, by)
        except ConflictError as error:
            return reply(request, shown(None, _conflict(desk, given, by)), str(error), 409)
        except LeafwiseError as error:
            if wants_json(request):
                raise
            note = Note((str(error),), "bad")
            return reply(request, shown(workbench.task(given.document, by)), "", 422, note)
        (skipped if saved.labels is None else answered)[by].add(saved.id)
        if not wants_json(request):
            return desk.lead("/review", _said(desk, saved))
        return reply(request, shown(next_task(by)), _said(desk, saved))

    @app.post("/review/undo", include_in_schema=False)
    def undo(request: Request) -> Response:
        by = desk.by(request)
        try:
            undone = workbench.undo(by)
        except ConflictError as error:
            return reply(request, shown(next_task(by)), f"Nothing was undone: {error}")
        if undone is None:
            said = "There is no answer of yours to undo."
            return reply(request, shown(next_task(by)), said)
        (skipped if undone.labels is None else answered)[by].discard(undone.id)
        said = f"Undone: {undone.key} is as it was before."
        return reply(request, shown(workbench.task(undone.document, by)), said)


def _given(form: Form) -> Given:
    labels = [label for label in form.all("labels") if label.strip()]
    typed = form.one("node").strip()
    labels += [typed] if typed and form.one("typed") else []
    skipped = bool(form.one("skip"))
    if not labels and not skipped:
        raise ProjectError("Choose a node, or skip the document.")
    asked = form.one("asked")
    return Given(
        form.number("document", 1),
        None if skipped else labels,
        form.number("seen"),
        asked if asked in WHYS else "chosen",
        form.one("token")[:_TOKEN] or None,
        bool(form.one("kept")),
    )


def _candidates(task: Task, several: bool) -> list[Candidate]:
    labels = task.document.labels
    rows = [
        Candidate(
            one.path,
            one.score,
            one.path in (labels or task.chosen),
        )
        for one in task.suggestions
    ]
    there = {row.path for row in rows}
    if several:
        rows += [Candidate(path, None, True) for path in labels if path not in there]
    return rows


def _save(desk: Desk, given: Given, by: str) -> Answer:
    """Keep an answer. Nobody is in conflict with themselves: the later word counts."""
    workbench = desk.workbench
    whole: dict[str, Any] = {"by": by, "asked": given.asked}
    try:
        saved = workbench.answer(
            given.document, given.labels, seen=given.seen, token=given.token, **whole
        )
        if _is_this(desk, saved, given) and (given.kept or not saved.undone):
            return saved
        # Else someone went back to the page of an answer, and sent it again.
        error = ConflictError("This page was answered before.")
        if saved.undone:
            return workbench.answer(given.document, given.labels, seen=given.seen, **whole)
    except ConflictError as conflict:
        error = conflict
    last = _last(desk, given.document)
    if last is None or last.by != by or last.source != "review":
        raise error
    if given.kept or _is_this(desk, last, given):
        return last
    seen = desk.project.documents.get(given.document).version
    return workbench.answer(given.document, given.labels, seen=seen, **whole)


def _last(desk: Desk, document: int) -> Answer | None:
    """The last word on where a document belongs."""
    history = reversed(desk.project.labels.history(document))
    return next((one for one in history if not one.undone and one.labels is not None), None)


def _conflict(desk: Desk, given: Given, by: str) -> dict[str, Any]:
    """What there is to say where a document has another label by now."""
    document = desk.project.documents.get(given.document)
    last = _last(desk, given.document)
    who = last.by if last is not None else "Someone"
    tree = desk.project.tree.taxonomy
    yours = [tree.paths[tree.index(one)] if one in tree else one for one in given.labels or ()]
    return {
        "by": "You" if who == by else who,
        "labels": document.labels,
        "yours": yours,
        "document": document.id,
        "seen": document.version,
        "asked": given.asked,
    }


def _is_this(desk: Desk, saved: Answer, given: Given) -> bool:
    """Whether an answer is what was given, and not an earlier one with the same token."""
    if saved.labels is None or given.labels is None:
        return saved.labels is None and given.labels is None
    tree = desk.project.tree.taxonomy
    return {tree.paths[tree.index(one)] for one in given.labels if one in tree} == set(saved.labels)


def _said(desk: Desk, saved: Answer) -> str:
    if saved.labels is None:
        return f"Skipped {saved.key}."
    what = ", ".join(saved.labels) or "no label"
    learned = ", and the model has learned from it" if desk.workbench.model is not None else ""
    return f"Saved: {what}{learned}."


def _empty(desk: Desk) -> dict[str, str]:
    """What to say where there is no document to review."""
    info = desk.project.info()
    if not info.n_documents or not info.n_nodes:
        title, message = "Not yet", "A review takes documents and a tree."
        return {"title": title, "message": message, "address": "/start", "link": "Add them"}
    if info.n_labelled >= info.n_documents:
        title, message = "All done", "Every document is confirmed."
    else:
        title = "Nothing left for you now"
        message = "What is left is with other reviewers, or was skipped."
    return {"title": title, "message": message, "address": "/progress", "link": "See the progress"}
