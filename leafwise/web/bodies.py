"""Bodies of requests, read strictly: what is not clearly meant is refused, never guessed."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from pydantic import BaseModel, RootModel, ValidationError

from leafwise.exceptions import CorpusError
from leafwise.taxonomy_names import shorten
from leafwise.web.errors import Refusal, refuse_fields

__all__ = ["Body", "GivenBody", "form_fields"]

FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # as an escape; UTF-8 itself has none
_CHARSET = re.compile(r'charset\s*=\s*"?([^\s";]+)', re.IGNORECASE)
_MOST_FIELDS = 100
Model = TypeVar("Model", bound=BaseModel)


class Body(NamedTuple):
    """The body of a request, as it came."""

    content_type: str
    data: bytes

    def read(self, model: type[Model], *, form: bool = False) -> Model:
        """Check it against a model; with `form`, form fields are as good as JSON.

        Values of JSON must have the very types that the model says; form fields are all text.
        """
        kind, charset = _content_type(self.content_type)
        if kind != _JSON and not (form and kind == FORM):
            expected = f"{_JSON} or {FORM}" if form else _JSON
            raise Refusal(415, f"The body must be {expected}, not {shorten(kind)}.")
        if charset not in ("utf-8", "utf8", "us-ascii"):
            raise Refusal(415, f"The body must be UTF-8, not {shorten(charset)}.")
        value = parse_json(self.data) if kind == _JSON else form_fields(self.data)
        try:
            return model.model_validate(value, strict=kind == _JSON)
        except ValidationError as error:
            listed = issubclass(model, RootModel)
            raise refuse_fields(error.errors(include_url=False), "" if listed else "body") from None


async def _body(request: Request) -> Body:
    # In pieces, so that the limit on sizes counts what really comes.
    data = b"".join([piece async for piece in request.stream()])
    return Body(request.headers.get("content-type", ""), data)


GivenBody = Annotated[Body, Depends(_body)]


def parse_json(data: bytes) -> Any:
    """JSON as its standard has it: no NaN, no name twice, no half of a character."""
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeDecodeError as error:
        why = f"is not UTF-8: byte {error.start} is wrong"
    except UnicodeEncodeError:
        why = r"is not usable JSON: a string has half of a character (\ud800 to \udfff)"
    except RecursionError:
        why = "is not usable JSON: it is nested too deeply"
    except json.JSONDecodeError as error:
        why = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    except CorpusError as error:
        why = f"is not usable JSON: {error}"
    except ValueError:  # Python reads no integer of more than some thousand digits
        why = "is not usable JSON: a number is too long"
    raise Refusal(400, f"The body {why}.")


def form_fields(data: bytes) -> dict[str, str]:
    """Fields of an urlencoded form, each at most once."""
    try:
        pairs = parse_qsl(
            data.decode("utf-8"),  # curl -d sends what was typed, not encoded
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except UnicodeDecodeError:
        raise Refusal(400, "The form is not urlencoded UTF-8.") from None
    except ValueError:
        raise Refusal(400, f"The form has more than {_MOST_FIELDS} fields.") from None
    if (twice := _twice(pairs)) is not None:
        raise Refusal(400, f"The form has the field {shorten(twice)} more than once.")
    return dict(pairs)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        name = ascii(shorten(_twice(pairs) or ""))[1:-1]
        raise CorpusError(f"an object has the name {name} more than once")
    return value


def _twice(pairs: list[tuple[str, Any]]) -> str | None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    return None


def _no_constant(name: str) -> NoReturn:
    raise CorpusError(f"{name} is not a number in JSON")


def _content_type(value: str) -> tuple[str, str]:
    """Type and charset of a header; UTF-8 unless it says otherwise."""
    kind, _, parameters = value.partition(";")
    charset = _CHARSET.search(parameters)
    return kind.strip().lower(), charset[1].lower() if charset else "utf-8"
