"""Exports over REST: documents and the tree as files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from leafwise.store import exports
from leafwise.web.api import Bench, problems

__all__ = ["router"]

_CHUNK = 1 << 16
_TYPES = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
    "fasttext": "text/plain",
    "annif": "text/plain",
    "yaml": "application/yaml",
    "json": "application/json",
    "turtle": "text/turtle",
    "rdfxml": "application/rdf+xml",
}
_ENDINGS = {"fasttext": "txt", "annif": "annif.tsv", "turtle": "ttl", "rdfxml": "rdf"}
router = APIRouter(prefix="/v1", responses=problems())


def _a_file(*formats: str) -> dict[int | str, dict[str, Any]]:
    text = {"schema": {"type": "string"}}
    content = {_TYPES[format]: {} if format in ("json", "yaml") else text for format in formats}
    return {200: {"description": "A file.", "content": content}}


@router.get(
    "/export",
    summary="Documents as a file",
    response_class=Response,
    responses={**problems(409), **_a_file(*exports.FORMATS)},
)
def export(
    bench: Bench,
    request: Request,
    what: Annotated[
        Literal["all", "labels", "predictions", "history"],
        Query(
            description="All documents, those with labels, those that the model sorted, or every "
            "answer ever given, which is always JSONL."
        ),
    ] = "all",
    format: Literal["csv", "tsv", "jsonl", "parquet", "fasttext", "annif"] = "csv",
) -> Response:
    """Documents with their labels, or with what the model says of them."""
    if what == "history" and "format" not in request.query_params:
        format = "jsonl"
    # On the disk first, where it is large: an export that fails must not look like a whole one.
    file = tempfile.SpooledTemporaryFile(1 << 24)  # noqa: SIM115  # closed when it is sent
    try:
        exports.export(bench.project, file, what=what, format=format)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return StreamingResponse(
        _pieces(file),
        media_type=_TYPES[format],
        headers=_named(f"{bench.project.name}-{what}", format),
    )


@router.get(
    "/export/taxonomy",
    summary="The tree as a file",
    response_class=Response,
    responses={**problems(409), **_a_file("yaml", "json", "csv", "tsv", "turtle", "rdfxml")},
)
def export_taxonomy(
    bench: Bench,
    format: Annotated[
        Literal["yaml", "json", "csv", "tsv", "turtle", "ttl", "rdfxml"],
        Query(description="turtle (or ttl, the same) and rdfxml are SKOS."),
    ] = "yaml",
) -> Response:
    """The tree in a format that leafwise, and others, can read."""
    format = "turtle" if format == "ttl" else format
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree"
        exports.export_tree(bench.project, path, format)
        data = path.read_bytes()
    headers = _named(f"{bench.project.name}-tree", format)
    return Response(data, media_type=_TYPES[format], headers=headers)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_CHUNK):
            yield piece


def _named(name: str, format: str) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "leafwise"
    ending = _ENDINGS.get(format, format)
    return {"Content-Disposition": f'attachment; filename="{plain}.{ending}"'}
