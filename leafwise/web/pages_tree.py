"""Pages of the tree: as a whole, a node, and all ways to change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import FastAPI, Query, Request
from starlette.responses import HTMLResponse, Response

from leafwise import taxonomy_changes as changes
from leafwise.exceptions import ConflictError, LabelError, LeafwiseError, ProjectError
from leafwise.taxonomy import Taxonomy
from leafwise.taxonomy_changes import Change
from leafwise.taxonomy_names import join_path, shorten, split_path
from leafwise.web.errors import Refusal
from leafwise.web.pages import Desk, Form, GivenForm, Note, local, render
from leafwise.web.pages_nodes import Nodes, find
from leafwise.web.pages_pasted import ENDINGS, read_tree

SHOWS = (("unsure first", "unsure"), ("sure first", "sure"), ("confirmed", "confirmed"))
_ASKED = {
    "add": "add a node below",
    "rename": "rename",
    "keywords": "give other keywords to",
    "move": "move",
    "merge": "merge",
    "remove": "remove",
}
_FOUND = 12  # nodes in the list of a box
_WORDS = 20
_PAGE = 20
Start = Annotated[int, Query(alias="from", ge=0, le=10**9)]


def add(app: FastAPI, desk: Desk) -> None:
    project, workbench = desk.project, desk.workbench

    @app.get("/tree", include_in_schema=False)
    def tree(request: Request, q: str = "", under: str = "/", start: Start = 0) -> Response:
        info = project.info()
        if not info.n_nodes:
            return desk.page(request, "tree_empty.html", "Tree", info=info)
        nodes = desk.nodes()
        edits = project.tree.edits(20)
        return desk.page(
            request,
            "tree.html",
            "Tree",
            info=info,
            q=q,
            nodes=_rows(nodes, q, under, start),
            version=nodes.version,
            edits=edits,
            undoable=next((edit for edit in edits if not edit.undone), None),
        )

    @app.get("/tree/rows", include_in_schema=False)
    def rows(q: str = "", under: str = "/", start: Start = 0) -> Response:
        return HTMLResponse(render("rows.html", nodes=_rows(desk.nodes(), q, under, start), q=q))

    @app.get("/nodes.json", include_in_schema=False)
    def nodes(q: str = "") -> dict[str, Any]:
        tree = project.tree.taxonomy
        found = find(tree, q, _FOUND)
        return {
            "nodes": [
                {
                    "path": tree.paths[i],
                    "name": tree.names[i],
                    "above": " › ".join(split_path(tree.paths[i])[:-1]),
                }
                for i in found
            ]
        }

    @app.get("/node", include_in_schema=False)
    def node(
        request: Request, path: str = "/", show: str = "unsure", after: str | None = None
    ) -> Response:
        nodes = desk.nodes()
        i = _number(nodes.tree, path)
        show = show if show in dict(SHOWS).values() else "unsure"
        which: dict[str, Any] = {"state": "unlabelled", "order": show}
        if show == "confirmed":
            which = {"state": "labelled"}
        if i:
            which["node"] = nodes.tree.paths[i]
        own = nodes.tree.paths[i]
        return desk.page(
            request,
            "node.html",
            "Tree",
            title=nodes.tree.names[i] or "Tree",
            node=nodes.row(i),
            above=[nodes.row(int(k)) for k in nodes.tree.ancestors(i)[::-1] if k],
            children=nodes.family(i),
            words=desk.workbench.node_words(own, _WORDS) if i else [],
            confusions=project.labels.confusions(own) if i else [],
            page=project.documents.page(after=after, limit=_PAGE, **which),
            after=after,
            show=show,
            shows=SHOWS,
            **_forms(nodes, then=f"/node?path={quote(own)}"),
        )

    @app.get("/tree/edit", include_in_schema=False)
    def forms(path: str = "/", then: str = "/tree") -> Response:
        nodes = desk.nodes()
        row = nodes.row(_number(nodes.tree, path))
        first = "add" if row.path == "/" else "rename"
        shown = render("dialog_edit.html", node=row, **_forms(nodes, local(then, "/tree"), first))
        return HTMLResponse(shown)

    @app.post("/tree/edit", include_in_schema=False)
    def edit(request: Request, form: GivenForm) -> Response:
        by, then = desk.by(request), local(form.one("then"), "/tree")
        try:
            seen = form.number("seen")
            if seen != project.tree.version:  # before paths are looked up in another tree
                raise ConflictError("The tree was changed meanwhile.")
            change, what = _change(project.tree.taxonomy, form)
            report = workbench.edit(change, what, by=by, seen=seen)
        except LeafwiseError as error:
            return _again(request, desk, form, error)
        if then.startswith("/node"):  # it may be elsewhere now, or gone
            then = _after(change, form.one("path"))
        return desk.lead(then, report or ["Nothing to change: it is so already."])

    @app.post("/tree/undo", include_in_schema=False)
    def undo(request: Request, form: GivenForm) -> Response:
        last = next((edit for edit in project.tree.edits() if not edit.undone), None)
        if last is not None and str(last.id) != form.one("edit", str(last.id)):
            return desk.lead(
                "/tree",
                f"Nothing was undone: meanwhile {last.by} changed the tree ({last.what}). Look at "
                "the changes below, then undo again.",
                "warn",
            )
        undone = workbench.undo_edit(desk.by(request))
        if undone is None:
            return desk.lead("/tree", "There is no change to undo.", "warn")
        return desk.lead("/tree", f"Undone: {undone.what}. Labels are where they were before.")

    @app.post("/tree/new", include_in_schema=False)
    def new(request: Request, form: GivenForm) -> Response:
        given, ending = form.one("tree"), form.one("format")
        try:
            if desk.has_tree:
                raise ConflictError("There is a tree by now. Edit it node by node.")
            taxonomy = read_tree(given, ending if ending in ENDINGS else None)
            change = Change.between(project.tree.taxonomy, taxonomy)
            what = f"Took a tree of {len(taxonomy) - 1:,} nodes"
            workbench.edit(change, what, by=desk.by(request))
        except LeafwiseError as error:
            return desk.page(
                request,
                "tree_empty.html",
                "Tree",
                info=project.info(),
                typed=given,
                format=ending,
                note=Note((str(error),), "bad"),
                status=409 if isinstance(error, ConflictError) else 422,
            )
        said = [f"The tree has {len(taxonomy) - 1:,} nodes.", *taxonomy.notes]
        return desk.lead(desk.home, said)


def _rows(nodes: Nodes, q: str, under: str, start: int) -> tuple[Any, ...]:
    if q.strip():
        return nodes.found(q)
    i = _number(nodes.tree, under)
    return nodes.family(i, start) if i or start else nodes.top()


def _number(tree: Taxonomy, path: str) -> int:
    try:
        return tree.index(path)
    except LabelError as error:
        raise Refusal(404, str(error)) from None


# ---- changes ------------------------------------------------------------------------------------


def _forms(nodes: Nodes, then: str, first: str = "", typed: Form | None = None) -> dict[str, Any]:
    """What the forms that change a node show; `typed` is what was in them before."""
    names = ("what", "name", "keywords", "to")
    return {
        "version": nodes.version,
        "then": then,
        "first": first,
        "typed": {name: typed.one(name) if typed else "" for name in names},
    }


def _again(request: Request, desk: Desk, form: Form, error: LeafwiseError) -> Response:
    """Show the forms with what was typed in them, and why it could not be done."""
    lines = [str(error)]
    nodes = desk.nodes()
    if isinstance(error, ConflictError):
        last = next(iter(desk.project.tree.edits(1)), None)
        undone = " and undid it" if last and last.undone else ""
        who = f"{last.by} changed it last{undone}: {last.what}. " if last else ""
        lines = [
            f"Someone else changed the tree meanwhile, so nothing was done. {who}",
            "What you typed is below. If it still fits, send it again.",
        ]
    i = nodes.tree.index(form.one("path")) if form.one("path") in nodes.tree else 0
    if nodes.tree.paths[i] != form.one("path"):
        given = [form.one(name) for name in ("name", "keywords", "to") if form.one(name)]
        asked = f"{_ASKED.get(form.one('what'), 'change')} it{': ' * bool(given)}{', '.join(given)}"
        lines[1:] = [
            f"{shorten(form.one('path'))} is not there any more. You asked to {asked}. Find its "
            "new place in the tree."
        ]
    return desk.page(
        request,
        "edit.html",
        "Tree",
        node=nodes.row(i),
        note=Note(tuple(lines), "bad"),
        status=409 if isinstance(error, ConflictError) else 422,
        **_forms(nodes, local(form.one("then"), "/tree"), typed=form),
    )


def _change(tree: Taxonomy, form: Form) -> tuple[Change, str]:
    """The change that a form asks for, and what it is in words."""
    path, name = form.one("path"), form.one("name")
    shown = shorten(path)
    to = form.one("to").strip() or "?"
    keywords = form.one("keywords").strip() or None

    def add() -> tuple[Change, str]:
        if not name.strip():
            raise ProjectError("The new node needs a name.")
        below = join_path([*(() if path == "/" else split_path(path)), name])
        return changes.add(tree, below, keywords), f"Added {shorten(below)}"

    kinds: dict[str, Callable[[], tuple[Change, str]]] = {
        "add": add,
        "rename": lambda: (changes.rename(tree, path, name), f"Renamed {shown} to {shorten(name)}"),
        "move": lambda: (changes.move(tree, path, to), f"Moved {shown} below {shorten(to)}"),
        "merge": lambda: (changes.merge(tree, path, to), f"Merged {shown} into {shorten(to)}"),
        "remove": lambda: (
            changes.remove(tree, path, keep=form.one("keep") == "1"),
            f"Removed {shown}"
            + (", its labels to the node above" if form.one("keep") == "1" else ""),
        ),
        "keywords": lambda: (
            changes.set_keywords(tree, path, keywords),
            f"Other keywords for {shown}",
        ),
    }
    if form.one("what") not in kinds:
        raise Refusal(422, f"what={form.one('what')[:30]!r}: expected one of {', '.join(kinds)}.")
    return kinds[form.one("what")]()


def _after(change: Change, path: str) -> str:
    """Page of a node after a change: its own, or that of what it became, or the tree's."""
    node = int(change.node_of[change.old.index(path)])
    return f"/node?path={quote(change.new.paths[node])}" if node > 0 else "/tree"
