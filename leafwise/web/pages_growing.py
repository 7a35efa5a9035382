"""Trees that are grown: asked for, looked at, renamed, accepted or discarded."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from leafwise.exceptions import LeafwiseError
from leafwise.store.records import Draft
from leafwise.taxonomy import Taxonomy
from leafwise.taxonomy_names import split_path
from leafwise.web.pages import Desk, Form, GivenForm

STATES = {"running": "growing", "ready": "ready to look at", "failed": "failed"}
_LEAVES = 8
_CROWDED = 5
Number = Annotated[int, Path(ge=1, lt=2**62)]


class Grown(NamedTuple):
    """A node of a draft."""

    number: int
    path: str
    name: str
    keywords: tuple[str, ...]
    examples: list[str]
    children: list[Any]


def add(app: FastAPI, desk: Desk) -> None:
    project, workbench = desk.project, desk.workbench

    @app.get("/grow", include_in_schema=False)
    def grow(request: Request, path: str = "") -> Response:
        drafts = project.drafts.open()
        return desk.page(
            request,
            "grow.html",
            "Grow",
            info=project.info(),
            path=path,
            leaves=_LEAVES,
            drafts=drafts,
            states=STATES,
            crowded=_crowded(desk),
            waiting=any(draft.state == "running" for draft in drafts),
        )

    @app.post("/grow", include_in_schema=False)
    def start(request: Request, form: GivenForm) -> Response:
        path = form.one("path").strip()
        try:
            draft = workbench.grow(
                None if path in ("", "/") else path,
                form.number("leaves", 2, 500),
                by=desk.by(request),
            )
        except LeafwiseError as error:
            return desk.lead("/grow", str(error), "bad")
        return desk.lead(f"/grow/{draft.id}")

    @app.get("/grow/{id}", include_in_schema=False)
    def look(request: Request, id: Number) -> Response:
        draft = project.drafts.get(id)
        tree = draft.taxonomy
        nodes = [] if tree is None else _below(tree, draft, 0)
        return desk.page(request, "draft.html", "Grow", draft=draft, nodes=nodes)

    @app.post("/grow/{id}", include_in_schema=False)
    def decide(request: Request, id: Number, form: GivenForm) -> Response:
        here, what = f"/grow/{id}", form.one("do")
        try:
            if what == "discard":
                project.drafts.discard(id)
                return desk.lead("/grow", "Discarded: nothing of it is in the tree.")
            n_renamed = _rename(desk, id, form)
            if what != "accept":
                return desk.lead(here, f"{n_renamed} name{'s' * (n_renamed != 1)} changed.")
            report = project.drafts.accept(id, by=desk.by(request))
        except LeafwiseError as error:
            return desk.lead(here, str(error), "bad")
        return desk.lead("/tree", report)


def _below(tree: Taxonomy, draft: Draft, i: int) -> list[Grown]:
    return [
        Grown(
            k,
            tree.paths[k],
            tree.names[k],
            tree.keywords[k],
            draft.examples.get(tree.paths[k], []),
            _below(tree, draft, k),
        )
        for k in tree.children(i).tolist()
    ]


def _rename(desk: Desk, id: int, form: Form) -> int:
    """Give the nodes of a draft the names in the fields; deeper ones first, as paths change."""
    wanted = {
        field.removeprefix("name:"): values[-1]
        for field, values in form.fields.items()
        if field.startswith("name:")
    }
    tree = desk.project.drafts.get(id).taxonomy
    n = 0
    for path in sorted(wanted, key=lambda path: -len(split_path(path))):
        if tree is None or path not in tree:
            continue
        if tree.names[tree.index(path)] != " ".join(wanted[path].split()):
            desk.project.drafts.rename(id, path, wanted[path])
            n += 1
    return n


def _crowded(desk: Desk) -> list[Any]:
    """Leaves with far more documents than most."""
    if not desk.has_tree:
        return []
    nodes = desk.nodes()
    leaves = [nodes.row(i) for i in nodes.tree.leaves.tolist()]
    usual = sum(leaf.n_documents for leaf in leaves) / max(1, len(leaves))
    many = [leaf for leaf in leaves if leaf.n_documents > max(20, 2 * usual)]
    return sorted(many, key=lambda leaf: -leaf.n_documents)[:_CROWDED]
