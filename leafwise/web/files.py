"""Exports over REST: documents and the tree as files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from fastapi import APIRouter, Query
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
    what: Annotated[
        Literal["all", "labels", "predictions"],
        Query(description="All documents, those with labels, or those that the model sorted."),
    ] = "all",
    format: Literal["csv", "tsv", "jsonl", "parquet", "fasttext", "annif"] = "csv",
) -> Response:
    """Documents with their labels, or with what the model says of them."""
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
    format: Literal["yaml", "json", "csv", "tsv", "turtle", "rdfxml"] = "yaml",
) -> Response:
    """The tree in a format that leafwise, and others, can read."""
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
