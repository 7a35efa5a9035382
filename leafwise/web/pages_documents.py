"""Pages of documents: found, looked at, labelled, and added."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import uuid
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import FastAPI, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from leafwise.corpus import Batch, Corpus
from leafwise.exceptions import ConflictError, CorpusError, LabelError, LeafwiseError
from leafwise.store.records import Added, Page
from leafwise.taxonomy import Taxonomy
from leafwise.web.errors import JSON, Refusal
from leafwise.web.pages import Desk, GivenForm, Note, local
from leafwise.web.pages_pasted import checked_depth
from leafwise.web.pages_texts import view_of

STATES = (("all", "all"), ("unlabelled", "not confirmed"), ("labelled", "confirmed"))
ORDERS = (("id", "as added"), ("unsure", "unsure first"), ("sure", "sure first"))
SOURCES = {"import": "came with the file", "review": "review", "api": "REST", "tree": "tree edit"}
# What a file may be called, and its format. Nothing else of the name is used but for ids.
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".parquet": "parquet", ".txt": "text"}
# What the command line says where a file cannot be used, and what there is to do about it here.
_ADVICE = {
    "Name the one to read: --text NAME, or several: --text title+description.": "Give the column "
    "with the texts that name, and choose the file again.",
    "; if every line is a document, add --format text.": "; if every line is a document, let the "
    "name of the file end in .txt.",
    "Name the one to read: --label NAME.": "Leave one of them, and choose the file again.",
}
_PAGE = 50
_BAD_SHOWN = 5
_EXPLAINED = 50_000  # characters of a text that is explained on its page
Number = Annotated[int, Path(ge=1, lt=2**62)]


def add(app: FastAPI, desk: Desk) -> None:
    project, workbench = desk.project, desk.workbench

    @app.get("/documents", include_in_schema=False)
    def documents(
        request: Request,
        search: str = "",
        node: str = "",
        state: str = "all",
        order: str = "id",
        after: str | None = None,
    ) -> Response:
        asked = {"search": search.strip(), "node": node.strip(), "state": state, "order": order}
        if state not in dict(STATES) or order not in dict(ORDERS):
            raise Refusal(422, f"state={state[:20]!r}, order={order[:20]!r}: no such list.")
        note = None
        try:
            page = project.documents.page(
                search=asked["search"] or None,
                node=asked["node"] or None,
                state=state,
                order=order,
                after=after,
                limit=_PAGE,
            )
        except LabelError as error:
            page, note = Page([], None), Note((str(error),), "bad")
        return desk.page(
            request,
            "documents.html",
            "Documents",
            note=note,
            status=422 if note else 200,
            info=project.info(),
            page=page,
            asked=asked,
            after=after,
            query=urlencode(asked),
            states=STATES,
            orders=ORDERS,
        )

    @app.get("/documents/{id}", include_in_schema=False)
    def document(request: Request, id: Number) -> Response:
        found = project.documents.get(id)
        return desk.page(
            request,
            "document.html",
            "Documents",
            title=found.key[:80],
            document=found,
            view=view_of(found.text, _explained(desk, found.text)),
            history=project.labels.history(id),
            sources=SOURCES,
            token=uuid.uuid4().hex,
        )

    @app.post("/documents/{id}/label", include_in_schema=False)
    def label(request: Request, id: Number, form: GivenForm) -> Response:
        given = [one.strip() for value in form.all("labels") for one in value.split("\n")]
        labels, here = [one for one in given if one], f"/documents/{id}"
        try:
            saved = workbench.answer(
                id,
                labels,
                by=desk.by(request),
                seen=form.number("seen"),
                token=form.one("token")[:64] or None,
                asked="chosen",
            )
        except ConflictError as error:
            said = f"{error} You said: {', '.join(labels) or 'no label'}. Nothing was changed."
            return desk.lead(here, said, "bad")
        except LeafwiseError as error:
            return desk.lead(here, str(error), "bad")
        return desk.lead(here, f"Saved: {', '.join(saved.labels or ()) or 'no label'}.")

    @app.post("/documents/upload", include_in_schema=False)
    async def upload(request: Request, name: str = "", then: str = "/documents") -> Response:
        ending = os.path.splitext(name)[1].lower()
        if ending not in FORMATS:
            known = ", ".join(FORMATS)
            raise Refusal(422, f"{name[-60:]!r} ends in none of {known}: what it is must be said.")
        # On disk and not in memory; the name of the file is ours.
        with tempfile.NamedTemporaryFile(prefix="leafwise-", suffix=ending) as file:
            async for piece in request.stream():
                file.write(piece)
            file.flush()
            by, prefix = desk.by(request), f"{_tidy(name)}:"
            lines = await run_in_threadpool(_add, desk, file.name, FORMATS[ending], prefix, by)
        kind = "warn" if len(lines) > 1 else ""
        return JSON({"to": desk.noted(local(then, "/documents"), lines, kind)})

    @app.post("/documents/paste", include_in_schema=False)
    def paste(request: Request, form: GivenForm) -> Response:
        texts = [line.strip() for line in form.one("texts").splitlines() if line.strip()]
        then = local(form.one("then"), "/documents")
        if not texts:
            return desk.lead(then, "There was no text in the field.", "warn")
        # Known by what they say: pasted twice, they are added once.
        ids = [hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12] for text in texts]
        none: list[tuple[str, ...]] = [()] * len(texts)
        batch = Batch(texts, none, ids, list(range(1, len(texts) + 1)), {})
        added = project.documents.add([batch], prefix="pasted:", by=desk.by(request))
        return desk.lead(then, _told(added))


def _explained(desk: Desk, text: str) -> Any:
    if desk.workbench.model is None or len(text) > _EXPLAINED:
        return None
    return desk.workbench.explain(text)


# ---- adding -------------------------------------------------------------------------------------


def _tidy(name: str) -> str:
    """The name of a file as part of ids: no folders, nothing odd."""
    return re.sub(r"[^\w.() -]", "_", name.replace("\\", "/").rsplit("/", 1)[-1])[-80:]


def _add(desk: Desk, file: str, format: str, prefix: str, by: str) -> list[str]:
    """Add the documents of a file; say what became of them."""
    project = desk.project
    said: list[str] = []
    try:
        tree = project.tree.taxonomy if desk.has_tree else None
        corpus = Corpus(file, format=format, taxonomy=tree, skip_bad=True, need_ids=True)
        if tree is None and (tree := _tree_of(corpus)) is not None:
            project.tree.replace(tree, by=by)
            said.append(f"Its labels make a tree of {len(tree) - 1:,} nodes.")
            corpus = Corpus(file, format=format, taxonomy=tree, skip_bad=True, need_ids=True)
        if corpus.id_column is not None and format != "text":
            prefix = ""
        several = _Several(project.several)
        added = project.documents.add(several.checked(corpus.batches()), prefix=prefix, by=by)
    except CorpusError as error:
        shown = str(error).replace(file, "the file")
        for option, advice in _ADVICE.items():
            shown = shown.replace(option, advice)
        raise CorpusError(shown[:1].upper() + shown[1:]) from None
    if several.n:
        said.append(
            f"{several.n:,} rows have several labels, and a document of this project has one: "
            "they were added without."
        )
    if corpus.n_bad:
        said.append(f"{corpus.n_bad:,} rows could not be used:")
        said += [f"line {bad.line}: {bad.reason}" for bad in corpus.bad[:_BAD_SHOWN]]
        if corpus.n_bad > _BAD_SHOWN:
            said.append(f"and {corpus.n_bad - _BAD_SHOWN:,} more.")
    return [_told(added), *said]


class _Several:
    """Takes labels off where there are more than a project has."""

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed
        self.n = 0

    def checked(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            many = [len(labels) > 1 and not self.allowed for labels in batch.labels]
            self.n += sum(many)
            labels = [() if bad else own for bad, own in zip(many, batch.labels)]
            yield batch._replace(labels=labels)


def _tree_of(corpus: Corpus) -> Taxonomy | None:
    """The tree that the labels of a file make; None without a label."""
    if corpus.label_column is None and corpus.format != "jsonl":
        return None
    labels = {label for batch in corpus.batches() for row in batch.labels for label in row}
    return checked_depth(Taxonomy.from_paths(sorted(labels))) if labels else None


def _told(added: Added) -> str:
    parts = [f"{added.n_new:,} document{'s' * (added.n_new != 1)} added"]
    if added.n_labels:
        parts.append(f"{added.n_labels:,} of them with a label")
    if added.n_same:
        parts.append(f"{added.n_same:,} were there already")
    if added.n_changed:
        parts.append(
            f"{added.n_changed:,} have the id of a document with another text, which was kept"
        )
    return f"{', '.join(parts)}."
