"""What people see: pages made of templates, and the parts that all of them share.

Each `pages_*` module adds the pages of one kind. They read the project through the workbench and
change it only by POST, after which the browser is led to a page that can be reloaded. All of it
works without JavaScript but the choice of a file to add.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from threading import Lock
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote

from fastapi import Depends, FastAPI, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from leafwise.review.workbench import Status, Workbench
from leafwise.taxonomy_names import clean, split_path
from leafwise.web.errors import Refusal, environment
from leafwise.web.pages_nodes import Counting

__all__ = ["Desk", "Form", "GivenForm", "add_pages"]

MENU = (
    ("Tree", "/tree"),
    ("Review", "/review"),
    ("Documents", "/documents"),
    ("Progress", "/progress"),
    ("Grow", "/grow"),
    ("Try", "/try"),
    ("API", "/v1/docs"),
)
_COOKIE = "leafwise_reviewer"
_NAME = 60  # characters in the name of a reviewer
_FIELDS = 5_000
_KEPT_NOTES = 500
_YEAR = 365 * 24 * 3600


# ---- forms --------------------------------------------------------------------------------------


class Form:
    """The fields of a form, each with its values in order."""

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self.fields = fields

    def one(self, name: str, default: str = "") -> str:
        return self.fields.get(name, [default])[-1]

    def all(self, name: str) -> list[str]:
        return self.fields.get(name, [])

    def number(self, name: str, low: int = 0, high: int = 2**62) -> int:
        given = self.one(name).strip()
        try:
            number = int(given) if len(given) < 20 else high + 1
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise Refusal(422, f"{name} is {given[:30]!r}: expected a number from {low} to {high}.")
        return number


async def _read_form(request: Request) -> Form:
    # In pieces, so that the limit on sizes counts what really comes.
    data = b"".join([piece async for piece in request.stream()])
    try:
        fields = parse_qs(
            data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
        )
    except UnicodeDecodeError:
        raise Refusal(400, "The form is not urlencoded UTF-8.") from None
    except ValueError:
        raise Refusal(400, f"The form has more than {_FIELDS:,} fields.") from None
    return Form(fields)


GivenForm = Annotated[Form, Depends(_read_form)]


def wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def local(address: str, default: str = "/") -> str:
    """Only ever lead to a page of ours."""
    fine = address.startswith("/") and address[1:2] not in ("/", "\\") and address.isprintable()
    return address if fine else default


# ---- the desk -----------------------------------------------------------------------------------


class Note(NamedTuple):
    """What a page says above its content; `kind` is "", "warn" or "bad"."""

    lines: tuple[str, ...]
    kind: str


class Desk:
    """What every page needs: the workbench, who is looking, and notes to be shown."""

    def __init__(self, workbench: Workbench, reviewer: str) -> None:
        self.workbench = workbench
        self.project = workbench.project
        self.reviewer = reviewer
        # Answers that were kept unsent in a browser must not get into another project.
        self.key = hashlib.sha256(self.project.path.encode("utf-8", "replace")).hexdigest()[:12]
        self.nodes = Counting(self.project).nodes
        self._notes: OrderedDict[str, Note] = OrderedDict()
        self._lock = Lock()

    @property
    def has_tree(self) -> bool:
        return len(self.project.tree.taxonomy) > 1

    @property
    def home(self) -> str:
        return "/tree" if self.has_tree and self.project.documents.count() else "/start"

    def by(self, request: Request) -> str:
        """Name of the person who is looking."""
        return clean(unquote(request.cookies.get(_COOKIE, "")))[:_NAME] or self.reviewer

    def page(
        self,
        request: Request,
        template: str,
        current: str = "",
        *,
        title: str | None = None,
        note: Note | None = None,
        status: int = 200,
        **context: Any,
    ) -> Response:
        """Render a template with what all pages show."""
        asked = request.query_params.get("note", "")
        return HTMLResponse(
            render(
                template,
                title=title or current,
                current=current,
                menu=MENU,
                project=self.project,
                project_key=self.key,
                has_tree=self.has_tree,
                several=self.project.several,
                status=describe(self.workbench.status()),
                reviewer=self.by(request),
                note=note or self._notes.get(asked),
                **context,
            ),
            status,
        )

    def lead(self, address: str, lines: str | Sequence[str] = (), kind: str = "") -> Response:
        """Lead the browser on, and have the next page say what was done."""
        return RedirectResponse(self.noted(address, lines, kind), 303)

    def noted(self, address: str, lines: str | Sequence[str], kind: str = "") -> str:
        """An address whose page will say something. The text itself stays here: nobody can make
        a link that has a page of ours say what they like.
        """
        lines = (lines,) if isinstance(lines, str) else tuple(lines)
        if not lines:
            return address
        key = uuid.uuid4().hex[:12]
        with self._lock:
            self._notes[key] = Note(lines, kind)
            while len(self._notes) > _KEPT_NOTES:
                self._notes.popitem(last=False)
        start, _, rest = address.partition("#")
        joint = "&" if "?" in start else "?"
        return f"{start}{joint}note={key}" + (f"#{rest}" if rest else "")


def describe(status: Status) -> dict[str, Any]:
    """A status as pages and their JavaScript take it."""
    if status.state == "running":
        text = status.step or "Refitting"
    elif status.state == "failed":
        text = "The refit failed"
    elif status.state == "empty":
        text = "Nothing learned yet"
    else:
        new = f", {status.new_labels:,} since" if status.new_labels else ""
        labels = f"{status.model_labels:,} label{'s' * (status.model_labels != 1)}"
        text = f"Learned {labels if status.model_labels else 'from keywords'}{new}"
    return {
        "state": status.state,
        "text": text,
        "share": min(1.0, max(0.0, float(status.share or 0.0))),
        "message": status.message or "",
        "new_labels": status.new_labels,
    }


# ---- what templates use -------------------------------------------------------------------------


def render(template: str, **context: Any) -> str:
    env = environment()
    env.filters.update(_FILTERS)
    return env.get_template(template).render(**context)


def percent(share: float) -> str:
    """How sure, without a promise of 100 % (or 0 %) where that is rounding."""
    if share >= 0.995 and share < 1:
        return "> 99%"
    if 0 < share < 0.005:
        return "< 1%"
    return f"{share:.0%}"


def at_least(share: float) -> str:
    """A lower bound, rounded so that it promises no more than it holds."""
    return f"{int(100 * share + 1e-9)}%"


def when(at: str | None) -> str:
    """A time as people say it, by the clock of this machine."""
    if not at:
        return ""
    then = datetime.fromisoformat(at).astimezone()
    today = datetime.now().astimezone().date()
    if then.date() == today:
        return f"today {then:%H:%M}"
    return f"{then.day} {then:%b %Y, %H:%M}"


def beginning(text: str, n: int = 160) -> str:
    """How a text begins, on one line."""
    line = " ".join(text[: 4 * n].split())
    return line if len(line) <= n and len(text) <= 4 * n else f"{line[:n].rstrip()}…"


def names(path: str) -> tuple[str, ...]:
    return () if path == "/" else split_path(path)


_FILTERS = {
    "percent": percent,
    "at_least": at_least,
    "when": when,
    "beginning": beginning,
    "names": names,
}


# ---- all pages ----------------------------------------------------------------------------------


def add_pages(app: FastAPI, workbench: Workbench, *, reviewer: str) -> None:
    """Add every page.

    Parameters
    ----------
    reviewer : name of those who have not said theirs
    """
    from leafwise.web import (
        pages_documents,
        pages_growing,
        pages_progress,
        pages_review,
        pages_tree,
    )

    desk = Desk(workbench, reviewer)
    _add_frame(app, desk)
    for module in (pages_tree, pages_review, pages_documents, pages_progress, pages_growing):
        module.add(app, desk)


def _add_frame(app: FastAPI, desk: Desk) -> None:
    @app.get("/", include_in_schema=False)
    def home() -> Response:
        return RedirectResponse(desk.home, 303)

    @app.get("/start", include_in_schema=False)
    def start(request: Request) -> Response:
        return desk.page(request, "start.html", title="Start", info=desk.project.info())

    @app.get("/status.json", include_in_schema=False)
    def status() -> dict[str, Any]:
        return describe(desk.workbench.status())

    @app.get("/reviewer", include_in_schema=False)
    def who(request: Request) -> Response:
        return desk.page(request, "reviewer.html", title="Who you are")

    @app.post("/reviewer", include_in_schema=False)
    def call_me(form: GivenForm) -> Response:
        name = clean(form.one("name"))[:_NAME]
        if not name or not name.isprintable():
            return desk.lead("/reviewer", "A name is at least one letter or digit.", "bad")
        answer = desk.lead(desk.home, f"Your labels are kept under the name {name} from now on.")
        answer.set_cookie(_COOKIE, quote(name), max_age=_YEAR, httponly=True, samesite="strict")
        return answer
