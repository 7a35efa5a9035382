"""What programs call: REST under /v1.

What takes long is in plain functions: they run in threads, so that the service goes on answering.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from leafwise.corpus import Batch
from leafwise.exceptions import LabelError, MissingError, ProjectError
from leafwise.review.workbench import Suggestion, Workbench, key_of
from leafwise.store.records import Document
from leafwise.taxonomy import Taxonomy
from leafwise.taxonomy_names import split_path
from leafwise.web import shapes
from leafwise.web.bodies import FORM, GivenBody
from leafwise.web.errors import JSON, Refusal, refuse_fields

__all__ = ["Bench", "body_of", "label_of", "labels_in", "nodes_at", "problems", "router"]

_NODES = "/v1/nodes/"
_DEEPEST = 200  # levels that are answered as nested JSON: parsers have their limits
_WHY = {
    400: "The body cannot be read.",
    401: "The service needs a token, and this is not it.",
    403: "The request was sent by a page of another site, or to another name.",
    404: "There is no such thing.",
    409: "It does not fit the project as it is now: there is no model yet, or someone has changed "
    "the same thing meanwhile.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "The request is not as described here, or has a label that the tree does not have.",
    500: "A bug.",
    503: "The project file is in use by someone else; try again.",
}


def problems(*status: int) -> dict[int | str, dict[str, Any]]:
    """Describe the ways in which a request can fail."""
    every = sorted({*status, 401, 403, 422, 500, 503})
    return {code: {"model": shapes.Error, "description": _WHY[code]} for code in every}


def body_of(model: type[BaseModel], *, form: bool = False, json: bool = True) -> dict[str, Any]:
    """Describe a body that is read by hand."""
    shape = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    kinds = ["application/json"] * json + [FORM] * form
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, shape)}}


async def _workbench(request: Request) -> Workbench:
    return request.app.state.workbench


Bench = Annotated[Workbench, Depends(_workbench)]
router = APIRouter(prefix="/v1", responses=problems())


# ---- names of nodes -----------------------------------------------------------------------------


def nodes_at(request: Request) -> str:
    """Address below which the nodes are, as the client calls it."""
    return f"{str(request.base_url).rstrip('/')}{_NODES}"


def uri_of(path: str, base: str) -> str:
    if path == "/":
        return base
    # Programs that read addresses take these away, unless the slashes beside them are hidden.
    dots = any(name in (".", "..") for name in split_path(path))
    return base + (quote(path, safe="") + "%2F" if dots else quote(path, safe="/"))


def label_of(given: shapes.AnyLabel) -> str:
    """Read a label in any of the forms that REST takes."""
    if isinstance(given, shapes.NodeByPath):
        return given.path
    if isinstance(given, shapes.NodeByUri):
        return path_of(given.uri)
    return given


def path_of(uri: str) -> str:
    """The path of a node, from the address that this service gave it."""
    _, found, path = uri.partition(_NODES)
    return unquote(path) if found else uri


@contextmanager
def labels_in(bench: Workbench, given: Iterable[tuple[str, str, Sequence[str]]]) -> Iterator[None]:
    """Where a label is refused, say which.

    `given` is, for each document: the name of the field of its labels, what follows the number of
    a label in that of its own, and the labels.
    """
    try:
        yield
    except LabelError as error:
        raise _refused(bench, given, error) from None


def _refused(
    bench: Workbench, given: Iterable[tuple[str, str, Sequence[str]]], error: LabelError
) -> Refusal:
    read, state = bench.project.labels.read, bench.project.tree.state
    for field, rest, labels in given:
        parts = [(f"{field}.{k}{rest}", [label]) for k, label in enumerate(labels)]
        for name, some in [*parts, (field, labels)]:
            try:
                read(some, state)
            except LabelError as why:
                return refuse_fields([{"type": "label", "loc": (), "msg": str(why)}], name)
    return Refusal(422, str(error))  # the tree has it by now


# ---- suggestions --------------------------------------------------------------------------------


def _results(found: Sequence[Suggestion], base: str) -> list[dict[str, Any]]:
    return [
        {"path": path, "label": label, "score": score, "uri": uri_of(path, base)}
        for path, label, score in found
    ]


@router.post(
    "/suggest",
    summary="Say where a text belongs",
    response_model=shapes.Results,
    responses=problems(400, 409, 413, 415),
    openapi_extra=body_of(shapes.Suggest, form=True),
)
def suggest(body: GivenBody, bench: Bench, request: Request) -> Response:
    """The best nodes for a text, best first, with the probability of each."""
    given = body.read(shapes.Suggest, form=True)
    (found,) = bench.suggest([given.text], given.limit, given.threshold)
    return JSON({"results": _results(found, nodes_at(request))})


@router.post(
    "/suggest-batch",
    summary="Say where many texts belong",
    response_model=list[shapes.BatchResults],
    responses=problems(400, 409, 413, 415),
    openapi_extra=body_of(shapes.SuggestBatch),
)
def suggest_batch(body: GivenBody, bench: Bench, request: Request) -> Response:
    """As `suggest`, for up to 10,000 texts at once; the results are in the same order."""
    given = body.read(shapes.SuggestBatch)
    texts = [document.text for document in given.documents]
    base = nodes_at(request)
    answer: list[dict[str, Any]] = []
    found = bench.suggest(texts, given.limit, given.threshold) if texts else []
    for document, results in zip(given.documents, found):
        answer.append({"results": _results(results, base)})
        if document.id is not None:
            answer[-1]["id"] = document.id
    return JSON(answer)


@router.post(
    "/learn",
    summary="Learn from documents with labels",
    response_model=shapes.Learned,
    responses=problems(400, 409, 413, 415),
    openapi_extra=body_of(shapes.Lessons),
)
def learn(body: GivenBody, bench: Bench) -> Response:
    """Add documents with their labels to the project, and learn from them at once.

    All of them, or none: where one label names no node, nothing is learned. With an `id`, the same
    request twice is as good as once; a document that has this id gets the new text and labels.
    """
    lessons = body.read(shapes.Lessons).root
    items = [(one.id, one.text, [label_of(label) for label in one.labels]) for one in lessons]
    with labels_in(bench, [(f"{i}.labels", "", item[2]) for i, item in enumerate(items)]):
        return JSON({"learned": bench.learn(items, by="api") if items else 0})


# ---- the tree -----------------------------------------------------------------------------------


class _Counts:
    """Documents of each node, and of its branch."""

    def __init__(self, bench: Workbench, tree: Taxonomy) -> None:
        self.own, self.branch = bench.project.tree.counts(), bench.project.tree.counts_below()
        if any(len(values) != tree.n_nodes for values in (*self.own, *self.branch)):
            raise ProjectError("The tree has just been changed. Try again.")

    def of(self, node: int, branch: bool = True) -> dict[str, Any]:
        confirmed, predicted, score = (
            values[node].item() for values in (self.branch if branch else self.own)
        )
        mean = min(score / predicted, 1.0) if predicted else None
        return {"confirmed": int(confirmed), "predicted": int(predicted), "score": mean}


@router.get(
    "/taxonomy",
    summary="The whole tree",
    response_model=shapes.Tree,
    responses=problems(409),
)
def taxonomy(
    bench: Bench,
    counts: Annotated[bool, Query(description="Count the documents of each branch, too.")] = False,
) -> Response:
    """The tree as nested nodes, with their keywords."""
    project = bench.project
    tree = project.tree.taxonomy
    if int(tree.depth.max()) > _DEEPEST:
        raise ProjectError(
            f"The tree is {int(tree.depth.max())} levels deep, and more than {_DEEPEST} are too "
            "many to nest. /v1/export/taxonomy?format=csv has it as a table."
        )
    counted = _Counts(bench, tree) if counts else None
    nodes: list[dict[str, Any]] = []
    for i, above in enumerate(tree.parent.tolist()):
        node: dict[str, Any] = {
            "path": tree.paths[i],
            "label": tree.names[i],
            "keywords": list(tree.keywords[i]),
        }
        if counted is not None:
            node["documents"] = counted.of(i)
        node["children"] = []
        nodes.append(node)
        if i:
            nodes[above]["children"].append(node)
    about = {"name": project.name, "version": project.tree.version, "several": project.several}
    return JSON({**about, "tree": nodes[0]})


@router.get(
    "/nodes/{path:path}",
    summary="A node",
    response_model=shapes.Node,
    responses=problems(404, 409),
)
def node(
    path: Annotated[str, Path(description="The path of the node; empty for the root.")],
    bench: Bench,
    request: Request,
) -> Response:
    """A node: its neighbours in the tree, its documents, its words, and what it is mistaken for."""
    project = bench.project
    tree = project.tree.taxonomy
    i = _index(tree, path)
    base = nodes_at(request)

    def name(k: int) -> dict[str, str]:
        path = tree.paths[k]
        return {"path": path, "label": tree.names[k], "uri": uri_of(path, base)}

    counted = _Counts(bench, tree)
    confusions = project.labels.confusions(tree.paths[i]) if i else []
    return JSON(
        {
            **name(i),
            "parent": name(int(tree.parent[i])) if i else None,
            "children": [name(k) for k in tree.children(i).tolist()],
            "keywords": list(tree.keywords[i]),
            "own": counted.of(i, branch=False),
            "branch": counted.of(i),
            "words": _words(bench, tree.paths[i]),
            "confusions": [
                {"suggested": suggested, "given": given, "count": count}
                for suggested, given, count in confusions
            ],
        }
    )


def _index(tree: Taxonomy, path: str) -> int:
    """The node that an address means."""
    try:
        return tree.index(path) if path.strip("/") else 0
    except LabelError as error:
        raise MissingError(str(error)) from None


def _words(bench: Workbench, path: str) -> list[dict[str, Any]]:
    found = [] if path == "/" else bench.node_words(path)
    return [{"word": word, "weight": float(weight)} for word, weight in found]


# ---- documents ----------------------------------------------------------------------------------

Key = Annotated[str, Path(description="Your own id of the document.")]


class _KeyInAddress(StringConvertor):
    """An id may have slashes; what ends in /labels means the labels of a document."""

    regex = r".+(?<!/labels)"


register_url_convertor("document", _KeyInAddress())


def _document(document: Document) -> dict[str, Any]:
    guess = document.prediction
    prediction = None
    if guess is not None:
        others = [{"path": path, "score": score} for path, score in guess.others]
        prediction = {"path": guess.path, "score": guess.probability, "others": others}
    return {
        "id": document.key,
        "text": document.text,
        "labels": list(document.labels),
        "version": document.version,
        "prediction": prediction,
    }


@router.get(
    "/documents",
    summary="Documents, a page at a time",
    response_model=shapes.DocumentPage,
    responses=problems(404, 409),
)
def documents(
    bench: Bench,
    search: Annotated[
        str | None, Query(max_length=1000, description="Words that the text must have, or an id.")
    ] = None,
    node: Annotated[
        str | None, Query(max_length=10_000, description="Only documents of this node.")
    ] = None,
    branch: Annotated[bool, Query(description="The nodes below that one count, too.")] = True,
    state: Literal["all", "labelled", "unlabelled"] = "all",
    order: Annotated[
        Literal["id", "sure", "unsure"],
        Query(description="By when they were added, or by the score of the best guess."),
    ] = "id",
    after: Annotated[
        str | None, Query(max_length=1000, description="What the page before gave as `after`.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """Search and page through the documents."""
    tree = bench.project.tree.taxonomy
    page = bench.project.documents.page(
        search=search,
        node=None if node is None else tree.paths[_index(tree, node)],
        branch=branch,
        state=state,
        order=order,
        after=after,
        limit=limit,
    )
    return JSON({"documents": list(map(_document, page.documents)), "after": page.after})


@router.post(
    "/documents",
    summary="Add documents",
    response_model=shapes.Added,
    responses=problems(400, 409, 413, 415),
    openapi_extra=body_of(shapes.NewDocuments),
)
def add_documents(body: GivenBody, bench: Bench) -> Response:
    """Add documents, with their labels or without: all of them, or none.

    A document that is there already keeps its text and its labels; one without gets those given.
    They are learned from with the next refit.
    """
    given = body.read(shapes.NewDocuments).root
    batch = Batch(
        texts=[one.text for one in given],
        labels=[tuple(label_of(label) for label in one.labels) for one in given],
        ids=[one.id or key_of(one.text) for one in given],
        lines=list(range(1, len(given) + 1)),
        columns={},
    )
    with labels_in(bench, [(f"{i}.labels", "", own) for i, own in enumerate(batch.labels)]):
        added = bench.project.documents.add([batch] if given else [], by="api")
    return JSON(dict(zip(("new", "same", "changed", "labels"), added)))


@router.get(
    "/documents/{key:document}",
    summary="A document",
    response_model=shapes.DocumentWithHistory,
    responses=problems(404),
)
def document(key: Key, bench: Bench) -> Response:
    """A document, and all that was ever said of it."""
    return JSON(_with_history(bench, key))


def _with_history(bench: Workbench, key: str) -> dict[str, Any]:
    found = bench.project.documents.find(key)
    history = [
        {
            "at": answer.at,
            "by": answer.by,
            "source": answer.source,
            "labels": None if answer.labels is None else list(answer.labels),
            "suggested": answer.suggested,
            "score": answer.probability,
            "undone": answer.undone,
        }
        for answer in bench.project.labels.history(found.id)
    ]
    return {**_document(found), "history": history}


@router.put(
    "/documents/{key:path}/labels",
    summary="Label a document",
    response_model=shapes.DocumentWithHistory,
    responses=problems(400, 404, 409, 413, 415),
    openapi_extra=body_of(shapes.NewLabels),
)
def set_labels(key: Key, body: GivenBody, bench: Bench) -> Response:
    """Say where a document belongs. The model learns it at once."""
    given = body.read(shapes.NewLabels)
    found = bench.project.documents.find(key)
    labels = [label_of(label) for label in given.labels]
    with labels_in(bench, [("body.labels", "", labels)]):
        bench.answer(found.id, labels, by="api", source="api", seen=given.seen, asked="chosen")
    return JSON(_with_history(bench, key))


# ---- the service --------------------------------------------------------------------------------


@router.get("/health", summary="How the service is", response_model=shapes.Health)
def health(bench: Bench) -> Response:
    """Needs no token."""
    return JSON(
        {
            "status": "ok",
            "model": bench.model is not None,
            "documents": bench.project.documents.count(),
            "refit": bench.status().state,
        }
    )
