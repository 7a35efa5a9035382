"""Who may ask what: checked before anything else sees a request.

A service on one's own machine is reachable by every page that one's browser shows. So a request
must be addressed to a name of ours (a foreign name that points here is DNS rebinding), one that
changes something must not come from a page of someone else, and where others can reach the
service, all of it needs a token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import Iterable
from urllib.parse import quote

from fastapi import FastAPI, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leafwise.taxonomy_names import listed, shorten
from leafwise.web import errors
from leafwise.web.bodies import FORM, GivenBody, form_fields
from leafwise.web.errors import Refusal

__all__ = ["HOSTS", "Guard", "add_login"]

HOSTS = ("127.0.0.1", "localhost", "[::1]")
MIB = 1 << 20
SMALL, LARGE = 1 * MIB, 32 * MIB
_LARGE = re.compile(r"/(suggest-batch|learn|documents|upload|paste|tree/new)$")
_DRAINED = 64 * MIB  # how much of a body that is too large is read and forgotten
_OPEN = ("/login", "/v1/health")
_SAFE = ("GET", "HEAD", "OPTIONS")
_PORT = re.compile(r":\d*$")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": browsers would then say Origin: null even to ourselves.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_log = logging.getLogger("leafwise.web")


class Guard:
    """ASGI middleware around everything else.

    Parameters
    ----------
    app : what is guarded
    token : what a request must bring, or None where none is needed
    hosts : names under which this service may be addressed, on any port. The address that a
        connection came in on is one, too: nobody can point an address elsewhere.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None = None, hosts: Iterable[str] = HOSTS
    ) -> None:
        self.app = app
        self.token = token
        self.hosts = tuple(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def say(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _set_headers(scope["path"], message)
            await send(message)

        limit = limit_of(scope["path"])
        try:
            self._check(scope)
            headers = Headers(scope=scope)
            declared = headers.get("content-length", "0")
            if int(declared) > limit:
                if "expect" not in headers:  # else nothing was sent yet, and nothing will be
                    await _drain(receive)
                raise _too_large(limit)
            if scope["method"] == "HEAD":  # the server itself leaves out the body
                scope = {**scope, "method": "GET"}
            await self.app(scope, _limited(receive, limit), say)
        except Refusal as refusal:
            fields, headers_ = refusal.fields, refusal.headers
            status, message = refusal.status_code, refusal.detail
            refused = errors.answer(scope, status, message, fields, headers_)
            if status == 401 and _is_page(scope):
                there = quote(scope["path"])
                refused = RedirectResponse(f"/login?next={there}", 303)
            await refused(scope, receive, say)
        except ClientDisconnect:
            pass
        except Exception:
            _log.exception("%s %s failed", scope["method"], ascii(scope["path"]))
            if started:
                raise  # an answer that breaks off must not look whole
            await errors.bug(scope)(scope, receive, say)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = ",".join(headers.getlist("host")).lower()
        name = _PORT.sub("", host)
        server = (scope.get("server") or ("",))[0]
        own = f"[{server}]" if ":" in server else server
        if not name or name not in (*self.hosts, own):
            raise Refusal(
                403,
                f"This service does not go by the name {shorten(name)}, only by "
                f"{listed([*self.hosts], 'and')}. If the name is yours, allow it when you start "
                "the service.",
            )
        if scope["method"] not in _SAFE:
            _check_origin(headers, host)
        if self.token is None or scope["path"] in _OPEN or scope["path"].startswith("/static/"):
            return
        given = headers.get("authorization")
        if given is not None:
            kind, _, token = given.partition(" ")
            if kind.lower() == "bearer" and _same(token.strip(), self.token):
                return
            raise _unauthorized("The token is wrong.")
        cookies = cookie_parser(headers.get("cookie", ""))
        if not _same(cookies.get(cookie_name(self.token), ""), cookie_value(self.token)):
            raise _unauthorized(
                'This service needs its token: send the header "Authorization: Bearer TOKEN", or '
                "open /login in a browser."
            )


def _check_origin(headers: Headers, host: str) -> None:
    """Refuse what a page of someone else makes a browser send; other programs say no origin."""
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    if site not in ("same-origin", "none") or (
        # With its port: another port is another program.
        origin is not None and origin.lower().partition("://")[2] != host
    ):
        raise Refusal(
            403,
            f"This request comes from another site ({shorten(origin or site)}) than {host}, so "
            "nothing was done.",
        )


def _is_page(scope: Scope) -> bool:
    """Whether a person is looking."""
    accept = Headers(scope=scope).get("accept", "")
    return scope["method"] == "GET" and "text/html" in accept


def _unauthorized(message: str) -> Refusal:
    return Refusal(401, message, headers={"WWW-Authenticate": "Bearer"})


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode("utf-8"))


def _set_headers(path: str, message: Message) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in _HEADERS.items():
        headers[name] = value
    # Files of ours may be kept, but are asked for anew; what projects hold is kept nowhere.
    headers["Cache-Control"] = "no-cache" if path.startswith("/static/") else "no-store"


# ---- sizes --------------------------------------------------------------------------------------


def limit_of(path: str) -> int:
    """Bytes that the body of a request may have."""
    return LARGE if _LARGE.search(path) else SMALL


def _too_large(limit: int) -> Refusal:
    message = f"The body is larger than the {limit // MIB} MiB that are taken here."
    return Refusal(413, message, headers={"Connection": "close"})


def _limited(receive: Receive, limit: int) -> Receive:
    """Count what really comes: a length need not be declared, nor be true."""
    got = 0

    async def counted() -> Message:
        nonlocal got
        message = await receive()
        if message["type"] == "http.request":
            got += len(message.get("body", b""))
            if got > limit:
                if message.get("more_body"):
                    await _drain(receive)
                raise _too_large(limit)
        return message

    return counted


async def _drain(receive: Receive) -> None:
    """Read on for a while: most clients look for the answer only when all is sent."""
    got = 0
    try:
        async with asyncio.timeout(10):
            while got < _DRAINED:
                message = await receive()
                got += len(message.get("body", b""))
                if not message.get("more_body"):
                    return
    except TimeoutError:
        pass


# ---- signing in ---------------------------------------------------------------------------------


def cookie_name(token: str) -> str:
    """Cookies of all ports of a machine lie together: each service has a name of its own."""
    return f"leafwise_{cookie_value(token)[:8]}"


def cookie_value(token: str) -> str:
    return hmac.new(token.encode(), b"leafwise cookie", hashlib.sha256).hexdigest()


def add_login(app: FastAPI, token: str | None) -> None:
    """The page /login, where a token becomes a cookie."""

    @app.get("/login", include_in_schema=False)
    async def show(request: Request) -> Response:
        there = _local(request.query_params.get("next", "/"))
        if token is None:
            return RedirectResponse(there, 303)
        return _form(there)

    @app.post("/login", include_in_schema=False)
    async def login(request: Request, body: GivenBody) -> Response:
        if not body.content_type.startswith(FORM):
            raise Refusal(415, f"The body must be {FORM}.")
        fields = form_fields(body.data)
        there = _local(fields.get("next", "/"))
        if token is not None:
            if not _same(fields.get("token", "").strip(), token):
                await asyncio.sleep(0.5)  # guessing takes its time
                return _form(
                    there,
                    "This is not the token. Copy it whole; whoever started the service has it.",
                )
            answer = RedirectResponse(there, 303)
            answer.set_cookie(
                cookie_name(token),
                cookie_value(token),
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
            return answer
        return RedirectResponse(there, 303)


def _form(there: str, message: str = "") -> Response:
    template = errors.environment().get_template("login.html")
    page = template.render(next=there, message=message)
    return HTMLResponse(page, 401 if message else 200)


def _local(path: str) -> str:
    """Only ever lead to a page of ours."""
    return path if re.match(r"/(?![/\\])", path) and path.isprintable() else "/"
