"""Running the service: a project, a port, and an end without loss."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leafwise.exceptions import DependencyError, ProjectError

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["serve"]

PORT = 8000
_SHORTEST = 12  # characters of a token
_EVERYWHERE = ("0.0.0.0", "::")
_MAKE_ONE = "python -c 'import secrets; print(secrets.token_urlsafe(24))'"


def serve(
    path: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    hosts: Sequence[str] = (),
    reviewer: str = "reviewer",
    open_browser: bool = False,
    say: Callable[[str], Any] = print,
) -> None:
    """Serve a project until it is interrupted or ended.

    Parameters
    ----------
    path : the project file
    host : address to listen on. Any that others can reach needs a token.
    port : where None, 8000, or another that is free
    token : what requests must bring; by default what the environment has as LEAFWISE_TOKEN
    hosts : more names under which the service is reached, such as that of a proxy before it
    reviewer : in whose name labels are given on the pages
    open_browser : whether to show the page at once
    say : told where the service is, and when it ends
    """
    token = token or os.environ.get("LEAFWISE_TOKEN") or None
    _check_token(host, token)
    _check_installed()
    from leafwise.review.workbench import Workbench
    from leafwise.store import Project
    from leafwise.web.app import create_app
    from leafwise.web.security import HOSTS

    with _listening(host, port) as listener, Project(Path(path)) as project:
        names = dict.fromkeys([*HOSTS, *_names(host), *hosts])
        workbench = Workbench(project)
        try:
            app = create_app(workbench, token=token, hosts=names, reviewer=reviewer)
            address = _address(listener)
            say(f'Serving "{project.name}" at {address}. Ctrl-C ends it.')
            _run(app, listener, address if open_browser else None)
            say("Stopped. Every label is saved.")
        finally:
            workbench.close()


# ---- what is asked for --------------------------------------------------------------------------


def _check_token(host: str, token: str | None) -> None:
    if token is None and not _is_loopback(host):
        raise ProjectError(
            f"{host} can be reached by others, so the service needs a token there: give --token, "
            f"or set LEAFWISE_TOKEN in the environment. {_MAKE_ONE} makes one. For yourself alone "
            "leave out --host."
        )
    if token is not None and (len(token) < _SHORTEST or not token.isascii() or " " in token):
        raise ProjectError(
            f"The token must be {_SHORTEST} or more letters, digits and signs without a space. "
            f"{_MAKE_ONE} makes one."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_installed() -> None:
    missing = []
    for name in ("fastapi", "jinja2", "uvicorn"):
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise DependencyError(
            f"The service needs {', '.join(missing)}, which is not installed: "
            'pip install "leafwise[web]"'
        )


def _names(host: str) -> list[str]:
    """What a machine is called that listens there; `Guard` adds the address of a connection."""
    if host in _EVERYWHERE:
        return [socket.gethostname().lower()]
    return [f"[{host}]" if ":" in host else host.lower()]


# ---- the port -----------------------------------------------------------------------------------


@contextmanager
def _listening(host: str, port: int | None) -> Iterator[socket.socket]:
    """Take the port now, so that nobody else does and the address that is said is true."""
    try:
        listener = _bound(host, PORT if port is None else port)
    except OSError as error:
        if port is not None:
            raise ProjectError(
                f"Cannot listen on {host}, port {port}: {error.strerror or error}. Give another "
                "--port, or leave it out to have a free one."
            ) from None
        try:
            listener = _bound(host, 0)
        except OSError as error:
            raise ProjectError(
                f"Cannot listen on {host}: {error.strerror or error}. --host takes an address of "
                "this machine."
            ) from None
    with listener:
        yield listener


def _bound(host: str, port: int) -> socket.socket:
    host = host.strip("[]")
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    made = socket.create_server((host, port), family=family, backlog=2048)
    # asyncio sends small packets at once only where a socket says that it is TCP. Else the second
    # half of an answer waits for the first to be acknowledged: 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, made.detach())


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if host in _EVERYWHERE:
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


# ---- the server ---------------------------------------------------------------------------------


def _run(app: FastAPI, listener: socket.socket, page: str | None) -> None:
    import uvicorn

    class Server(uvicorn.Server):
        """Ends at a signal, without raising it again: that is how a service is meant to end."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            ends = (signal.SIGINT, signal.SIGTERM)
            before = {number: signal.signal(number, self.handle_exit) for number in ends}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if page is not None:
                threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    config = uvicorn.Config(
        app,
        access_log=False,  # texts of others do not belong into logs, and it costs time
        log_level="warning",
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=1000,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
    )
    Server(config).run(sockets=[listener])
