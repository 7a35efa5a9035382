"""The page /v1/docs: what programs can call, written from the OpenAPI description itself."""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, Response

from leafwise.web.errors import environment

__all__ = ["add_reference"]

_PATHS = {"path": "sports/racing", "key": "doc-17"}  # examples for what stands in an address


class Parameter(NamedTuple):
    """What a request can say in its address."""

    name: str
    place: str
    shape: str
    required: bool
    description: str


class Answer(NamedTuple):
    """What can come back."""

    status: str
    description: str
    kinds: str
    shape: str


class Operation(NamedTuple):
    """Something that can be asked of the service."""

    id: str
    method: str
    path: str
    summary: str
    description: list[str]
    parameters: list[Parameter]
    kinds: str
    body: str
    curl: str
    answers: list[Answer]
    failures: list[Answer]


def add_reference(app: FastAPI) -> None:
    """Serve the page."""

    @app.get("/v1/docs", include_in_schema=False)
    def show(request: Request) -> Response:
        described = app.openapi()
        page = environment().get_template("reference.html")
        base = str(request.base_url).rstrip("/")
        return HTMLResponse(
            page.render(
                about=described["info"]["description"].split("\n\n"),
                version=described["info"]["version"],
                operations=operations(described, base, request.app.state.workbench.project.name),
                error=Shapes(described).text({"$ref": "#/components/schemas/Error"}),
                token="security" in described,
            )
        )


def operations(described: dict[str, Any], base: str, project: str) -> list[Operation]:
    """List what the description has, in its order; Annif's last."""
    shapes = Shapes(described)
    examples = {**_PATHS, "project_id": project}
    found = []
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            address, query = _address(base + path, one.get("parameters", ()), examples)
            token = "security" in described and one.get("security") != []
            kinds = one.get("requestBody", {}).get("content", {})
            schema = next(iter(kinds.values()))["schema"] if kinds else None
            answers = [_answer(shapes, *each) for each in sorted(one["responses"].items())]
            operation = Operation(
                id=one["operationId"],
                method=method.upper(),
                path=path,
                summary=one["summary"],
                description=one.get("description", "").split("\n\n"),
                parameters=[_parameter(shapes, p) for p in one.get("parameters", ())],
                kinds=" or ".join(kinds),
                body="" if schema is None else shapes.text(schema),
                curl=_curl(
                    method,
                    address + query,
                    None if schema is None else shapes.example(schema),
                    token,
                ),
                answers=[answer for answer in answers if answer.status < "4"],
                failures=[answer for answer in answers if answer.status >= "4"],
            )
            found.append((bool(one.get("tags")), operation))
    return [operation for _, operation in sorted(found, key=lambda pair: pair[0])]


def _parameter(shapes: Shapes, given: dict[str, Any]) -> Parameter:
    shape = shapes.text(given["schema"])
    description = given.get("description", "")
    return Parameter(given["name"], given["in"], shape, given.get("required", False), description)


def _answer(shapes: Shapes, status: str, given: dict[str, Any]) -> Answer:
    content = given.get("content", {})
    schema = next(iter(content.values())).get("schema") if content else None
    shape = "" if schema is None else shapes.text(schema)
    return Answer(status, given["description"], ", ".join(content), shape)


def _address(path: str, parameters: Any, examples: dict[str, str]) -> tuple[str, str]:
    for given in parameters:
        name = given["name"]
        path = path.replace(f"{{{name}}}", examples.get(name, name.upper()))
    wanted = [p["name"] for p in parameters if p["in"] == "query" and p.get("required")]
    return path, "?" + "&".join(f"{name}=..." for name in wanted) if wanted else ""


def _curl(method: str, address: str, body: Any, token: bool) -> str:
    parts = ["curl"]
    if method == "put":
        parts.append("-X PUT")
    if token:
        parts.append('-H "Authorization: Bearer $LEAFWISE_TOKEN"')
    if body is not None:
        text = json.dumps(body, ensure_ascii=False)
        parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(text)}"]
    return " \\\n  ".join([*parts, shlex.quote(address)])


class Shapes:
    """Says schemas in words, and makes examples of them."""

    def __init__(self, described: dict[str, Any]) -> None:
        self._known = described["components"]["schemas"]

    def text(self, schema: dict[str, Any], open: tuple[str, ...] = ()) -> str:
        """The schema as something like JSON, with kinds of values in place of values."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in open:
                return f"{name}, as above"
            return self.text(self._known[name], (*open, name))
        if "anyOf" in schema:
            return " or ".join(self.text(one, open) for one in schema["anyOf"])
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            return " or ".join(map(json.dumps, values)) + _default(schema)
        kind = schema.get("type", "anything")
        if kind == "array":
            return f"[{self.text(schema['items'], open)}, ...]{_bounds(schema)}"
        if kind == "object" and "properties" in schema:
            return self._object(schema, open)
        return f"{kind}{_bounds(schema)}{_default(schema)}"

    def _object(self, schema: dict[str, Any], open: tuple[str, ...]) -> str:
        required = schema.get("required", ())
        lines = []
        for name, value in schema["properties"].items():
            optional = "" if name in required else "?"
            inner = self.text(value, open).replace("\n", "\n  ")
            said = value.get("description", "")
            lines += [f"  # {said}"] * bool(said) + [f'  "{name}"{optional}: {inner}']
        return "{\n" + "\n".join(lines) + "\n}"

    def example(self, schema: dict[str, Any]) -> Any:
        """A value that fits: what must be there, and no more."""
        if "$ref" in schema:
            return self.example(self._known[schema["$ref"].rpartition("/")[2]])
        if schema.get("examples"):
            return schema["examples"][0]
        if "anyOf" in schema:
            return self.example(schema["anyOf"][0])
        kind = schema.get("type")
        if kind == "array":
            return [self.example(schema["items"])]
        if kind == "object":
            required = schema.get("required", ())
            values = schema.get("properties", {})
            return {name: self.example(values[name]) for name in required}
        return {"string": "The race was won in the last lap.", "integer": 10}.get(str(kind))


def _bounds(schema: dict[str, Any]) -> str:
    low = schema.get("minimum", schema.get("minItems", schema.get("minLength")))
    high = schema.get("maximum", schema.get("maxItems", schema.get("maxLength")))
    unit = {"array": "", "string": " characters"}.get(schema.get("type", ""), "")
    if high is None:
        return ""
    few = low is None or (unit and not low)
    return f" (at most {high:,}{unit})" if few else f" ({low:,} to {high:,}{unit})"


def _default(schema: dict[str, Any]) -> str:
    if schema.get("default") in (None, ""):
        return ""
    return f" = {json.dumps(schema['default'])}"
