"""leafwise review and leafwise serve: the page in a browser, and the REST service."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from leafwise.cli.project import ProjectFile
from leafwise.cli.talking import say, usage

Port = Annotated[
    int | None,
    typer.Option(
        "--port", min=0, max=65535, help="8000 if not given, or another if that is taken."
    ),
]
Reviewer = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="In whose name labels are given; else your login."),
]


def review(
    file: ProjectFile,
    port: Port = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Say where the page is, and open no browser.")
    ] = False,
    reviewer: Reviewer = None,
) -> None:
    """Open a project in the browser: look at the tree, label documents, see how good it is.

    Nobody else can reach the page. Every answer is kept at once; Ctrl-C ends it.

    Example: leafwise review notes.leafwise
    """
    from leafwise.web.serving import serve as run

    run(file, port=port, reviewer=_name(reviewer), open_browser=not no_open, say=say)


def serve(
    file: ProjectFile,
    host: Annotated[
        str, typer.Option("--host", help="Any but this computer's own address needs a token.")
    ] = "127.0.0.1",
    port: Port = None,
    token: Annotated[
        str | None,
        typer.Option("--token", help="What clients must know; better in LEAFWISE_TOKEN."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="Another name of the service, such as a proxy's."
        ),
    ] = None,
    reviewer: Reviewer = None,
) -> None:
    """Serve the page of a project and its REST service, to programs and to others.

    Example: leafwise serve notes.leafwise --port 8000
    """
    from leafwise.web.serving import serve as run

    run(
        file,
        host=host,
        port=port,
        token=token,
        hosts=allow_host or (),
        reviewer=_name(reviewer),
        say=say,
    )


def _name(reviewer: str | None) -> str:
    if reviewer is None:
        try:
            return getpass.getuser()
        except (OSError, KeyError, ImportError):  # of an account without a name, in a container
            return "reviewer"
    if not reviewer.strip():
        usage("--as: expected a name.")
    return reviewer.strip()
