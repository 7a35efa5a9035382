"""What a client of Annif calls, with Annif's own shapes: this service is its one project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from leafwise._version import __version__
from leafwise.exceptions import MissingError
from leafwise.review.workbench import Suggestion, Workbench
from leafwise.taxonomy_names import shorten
from leafwise.web import shapes
from leafwise.web.api import Bench, body_of, labels_in, nodes_at, path_of, problems, uri_of
from leafwise.web.bodies import GivenBody
from leafwise.web.errors import JSON

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["Annif"], responses=problems())
ProjectId = Annotated[str, Path(description="The name of the project.")]


def _check(project: str, bench: Workbench) -> None:
    own = bench.project.name
    if project != own:
        raise MissingError(f"There is no project {shorten(project)} here, only {shorten(own)}.")


def _about(bench: Workbench) -> dict[str, Any]:
    project, run = bench.project, bench.project.runs.current()
    return {
        "project_id": project.name,
        "name": project.name,
        "language": project.language,
        "backend": {"backend_id": "leafwise"},
        "is_trained": bench.model is not None,
        "modification_time": None if run is None else run.ended,
    }


def _results(found: Sequence[Suggestion], base: str) -> list[dict[str, Any]]:
    return [
        {"uri": uri_of(path, base), "label": label, "notation": path, "score": score}
        for path, label, score in found
    ]


@router.get("/", summary="What this is", response_model=shapes.About)
async def about() -> Response:
    """The name and the version of the service."""
    return JSON({"title": "leafwise", "version": __version__})


@router.get("/projects", summary="The projects: one", response_model=shapes.Projects)
def projects(bench: Bench) -> Response:
    """The list of projects, which has one entry."""
    return JSON({"projects": [_about(bench)]})


@router.get(
    "/projects/{project_id}",
    summary="The project",
    response_model=shapes.Project,
    responses=problems(404),
)
def project(project_id: ProjectId, bench: Bench) -> Response:
    """What the project is called, and whether there is a model."""
    _check(project_id, bench)
    return JSON(_about(bench))


@router.post(
    "/projects/{project_id}/suggest",
    summary="Say where a text belongs",
    response_model=shapes.AnnifResults,
    responses=problems(400, 404, 409, 413, 415),
    openapi_extra=body_of(shapes.AnnifSuggest, form=True),
)
def suggest(project_id: ProjectId, body: GivenBody, bench: Bench, request: Request) -> Response:
    """As `/v1/suggest`, but the results are Annif's: the notation is the path."""
    _check(project_id, bench)
    given = body.read(shapes.AnnifSuggest, form=True)
    (found,) = bench.suggest([given.text], max(given.limit, 1), given.threshold)
    return JSON({"results": _results(found[: given.limit], nodes_at(request))})


@router.post(
    "/projects/{project_id}/suggest-batch",
    summary="Say where many texts belong",
    response_model=list[shapes.AnnifBatchResults],
    responses=problems(400, 404, 409, 413, 415),
    openapi_extra=body_of(shapes.AnnifBatch),
)
def suggest_batch(
    project_id: ProjectId,
    body: GivenBody,
    bench: Bench,
    request: Request,
    limit: Annotated[int, Query(ge=0, le=1000)] = 10,
    threshold: Annotated[float, Query(ge=0, le=1, allow_inf_nan=False)] = 0.0,
    language: Annotated[str, Query(max_length=100, description="Not used.")] = "",
) -> Response:
    """As `suggest`, for many texts at once; the results are in the same order."""
    _check(project_id, bench)
    given = body.read(shapes.AnnifBatch).documents
    found = bench.suggest([one.text for one in given], max(limit, 1), threshold) if given else []
    base = nodes_at(request)
    return JSON(
        [
            {"results": _results(results[:limit], base), "document_id": one.document_id}
            for one, results in zip(given, found)
        ]
    )


@router.post(
    "/projects/{project_id}/learn",
    summary="Learn from documents with subjects",
    status_code=204,
    response_class=Response,
    responses=problems(400, 404, 409, 413, 415),
    openapi_extra=body_of(shapes.IndexedDocuments),
)
def learn(project_id: ProjectId, body: GivenBody, bench: Bench) -> Response:
    """Add documents with their subjects to the project, and learn from them at once."""
    _check(project_id, bench)
    given = body.read(shapes.IndexedDocuments).root
    items = [(None, one.text, [path_of(subject.uri) for subject in one.subjects]) for one in given]
    if items:
        named = [(f"{i}.subjects", ".uri", item[2]) for i, item in enumerate(items)]
        with labels_in(bench, named):
            bench.learn(items, by="api")
    return Response(status_code=204)
