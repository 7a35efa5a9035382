"""What people see: pages made of templates, and the parts that all of them share.

Each `pages_*` module adds the pages of one kind. They read the project through the workbench and
change it only by POST, after which the browser is led to a page that can be reloaded. All of it
works without JavaScript but the choice of a file to add.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from threading import Lock
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode

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
_BROWSER = re.compile(r"([1-9]\d{0,3})\.([0-9a-f]{12})")  # what the cookie of a browser says
_COMES_BACK = 60.0  # seconds in which a new browser shows its cookie, if it keeps any
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
            data.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
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


class Browsers:
    """Numbers of browsers whose reviewers have not said their name.

    Reviewers with the same name would get the same documents. So the first browser has the number
    1, the next one 2 and so on; a cookie holds the number, for it to be the same after a restart.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, float]] = {}  # whose number it is, and until when
        self._lock = Lock()

    def number(self, cookie: str, new: bool) -> tuple[int, str | None]:
        """The number of a browser, and the cookie to give it where it has none (if `new`)."""
        with self._lock:
            if (found := _BROWSER.fullmatch(cookie)) is not None:
                number, key = int(found[1]), found[2]
                if self._known.get(number, (key,))[0] == key:
                    self._known[number] = (key, float("inf"))
                    return number, None
            if not new:
                return 1, None
            # Programs that keep no cookies would use up number after number.
            now = time.monotonic()
            self._known = {n: own for n, own in self._known.items() if own[1] > now}
            number = next(n for n in range(1, len(self._known) + 2) if n not in self._known)
            key = uuid.uuid4().hex[:12]
            self._known[number] = (key, now + _COMES_BACK)
            return number, f"{number}.{key}"


class Desk:
    """What every page needs: the workbench, who is looking, and notes to be shown."""

    def __init__(self, workbench: Workbench, reviewer: str) -> None:
        self.workbench = workbench
        self.project = workbench.project
        self.reviewer = reviewer
        # Answers that were kept unsent in a browser must not get into another project.
        self.key = hashlib.sha256(self.project.path.encode("utf-8", "replace")).hexdigest()[:12]
        self.browsers = Browsers()
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
        """Name of the person who is looking: their own, or one for their browser."""
        if own := clean(unquote(request.cookies.get(_COOKIE, "")))[:_NAME]:
            return own
        if not hasattr(request.state, "browser"):
            # A cookie is set with whole pages alone.
            new = request.method == "GET" and not wants_json(request)
            cookie = request.cookies.get(self.browser_cookie, "")
            request.state.browser = self.browsers.number(cookie, new)
        number = request.state.browser[0]
        return self.reviewer if number == 1 else f"{self.reviewer} {number}"

    @property
    def browser_cookie(self) -> str:
        """Cookies of all ports of a machine lie together: each project has its own."""
        return f"leafwise_browser_{self.key}"

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
        answer = HTMLResponse(
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
                here=_here(request),
                note=note or self._notes.get(asked),
                **context,
            ),
            status,
        )
        _, cookie = getattr(request.state, "browser", (1, None))
        if cookie is not None:
            _set_cookie(answer, self.browser_cookie, cookie)
        return answer

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


def _here(request: Request) -> str:
    """Address of the page itself, to come back to; not what it was to say once."""
    if request.method != "GET":
        return "/"
    asked = [pair for pair in parse_qsl(request.url.query) if pair[0] != "note"]
    return quote(request.url.path) + (f"?{urlencode(asked)}" if asked else "")


def _set_cookie(answer: Response, name: str, value: str) -> None:
    # "strict" would leave it out where someone follows a link to a page of ours.
    answer.set_cookie(name, value, max_age=_YEAR, httponly=True, samesite="lax")


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
        "has_model": status.has_model,
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
    def who(request: Request, then: str = "/") -> Response:
        return desk.page(request, "reviewer.html", title="Who you are", then=local(then))

    @app.post("/reviewer", include_in_schema=False)
    def call_me(form: GivenForm) -> Response:
        name, then = clean(form.one("name"))[:_NAME], local(form.one("then"))
        if not name or not name.isprintable():
            again = f"/reviewer?{urlencode({'then': then})}"
            return desk.lead(again, "A name is at least one letter or digit.", "bad")
        there = desk.home if then == "/" else then
        answer = desk.lead(there, f"Your labels are kept under the name {name} from now on.")
        _set_cookie(answer, _COOKIE, quote(name))
        return answer
