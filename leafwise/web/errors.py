"""Errors as answers: one JSON shape for programs, a page for people, and no third place."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Match

from leafwise.exceptions import (
    ConflictError,
    CorpusError,
    DependencyError,
    LabelError,
    LeafwiseError,
    MissingError,
    OutputError,
)
from leafwise.taxonomy_names import shorten

__all__ = ["JSON", "Refusal", "add_handlers", "answer", "environment", "fields_of", "refuse_fields"]

# Everything else that leafwise says no to is well formed, but does not fit the project as it is
# now, such as that there is no model yet: that is what 409 is for, and trying again may help. 422
# is for requests that stay wrong, an unknown label among them.
_STATUS: tuple[tuple[type[LeafwiseError], int], ...] = (
    (ConflictError, 409),
    (MissingError, 404),
    (CorpusError, 422),
    (LabelError, 422),
    (DependencyError, 501),
    (OutputError, 507),
    (LeafwiseError, 409),
)
_BUG = "This is a bug in leafwise; the log of the service says where. Nothing was saved by this."
_FIELDS_SHOWN = 20


class JSON(JSONResponse):
    """JSON of whatever strings: a lone surrogate is written as its escape, not an error."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


class Refusal(HTTPException):
    """A request that is refused, and which of its fields are why."""

    def __init__(
        self,
        status: int,
        message: str,
        fields: list[dict[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.fields = fields


def fields_of(errors: Iterable[Any], where: str = "") -> list[dict[str, str]]:
    """Name each wrong field and say what is wrong with it, from pydantic's list of errors."""
    found = []
    for error in errors:
        loc = [shorten(str(part))[1:-1] for part in error["loc"]]
        field = ".".join(([where] if where else []) + loc)
        found.append({"field": field, "message": _message(error)})
        if len(found) == _FIELDS_SHOWN:
            break
    return found


def _message(error: Any) -> str:
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return "expected an object"  # rather than the name of a class of ours
    return str(error["msg"]).removeprefix("Value error, ")


def refuse_fields(errors: Iterable[Any], where: str = "") -> Refusal:
    fields = fields_of(errors, where)
    first = fields[0]
    more = f" ({len(fields) - 1} more below)" if len(fields) > 1 else ""
    return Refusal(422, f"{first['field']}: {first['message']}{more}", fields)


# ---- answers ------------------------------------------------------------------------------------


def answer(
    scope: Mapping[str, Any],
    status: int,
    message: str,
    fields: list[dict[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Say what is wrong: as JSON under /v1 and to whoever asks for JSON, else as a page."""
    if _wants_json(scope):
        error: dict[str, Any] = {"status": status, "message": message}
        if fields is not None:
            error["fields"] = fields
        return JSON({"error": error}, status, headers)
    try:
        template = environment().get_template("error.html")
    except jinja2.TemplateNotFound:
        return PlainTextResponse(f"{status}: {message}\n", status, headers)
    return HTMLResponse(template.render(status=status, message=message), status, headers)


@cache
def environment() -> jinja2.Environment:
    """Templates, with all they are given escaped."""
    folder = Path(__file__).parent / "templates"
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _wants_json(scope: Mapping[str, Any]) -> bool:
    path = scope.get("path", "")
    if path == "/v1" or path.startswith("/v1/"):
        return True
    accept = b"".join(value for name, value in scope.get("headers", ()) if name == b"accept")
    return b"application/json" in accept and b"text/html" not in accept


# ---- from exceptions ----------------------------------------------------------------------------


def add_handlers(app: FastAPI) -> None:
    """Have every exception end in `answer`."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(LeafwiseError, _ours)
    app.add_exception_handler(sqlite3.OperationalError, _busy)


def bug(scope: Mapping[str, Any]) -> Response:
    """Answer an exception that nobody expected."""
    return answer(scope, 500, _BUG)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message, headers = str(error.detail), error.headers
    path = shorten(request.url.path, 200)
    if error.status_code == 404 and message == "Not Found":
        message = f"There is nothing at {path}. /v1/docs lists what there is."
    elif error.status_code == 405:
        allowed = ", ".join(_methods(request))
        headers = {"Allow": allowed}
        message = f"{request.method} is not possible at {path}, only {allowed}."
    fields = getattr(error, "fields", None)
    return answer(request.scope, error.status_code, message, fields, headers)


def _methods(request: Request) -> list[str]:
    """All methods that a path has: a framework knows those of its first route only."""
    found: set[str] = set()
    for route in request.app.state.known_routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    refusal = refuse_fields(error.errors())
    return answer(request.scope, 422, refusal.detail, refusal.fields)


async def _ours(request: Request, error: Exception) -> Response:
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    return answer(request.scope, status, str(error))


async def _busy(request: Request, error: Exception) -> Response:
    message = f"The project file cannot be used right now ({error}). Try again in a moment."
    return answer(request.scope, 503, message, headers={"Retry-After": "1"})
