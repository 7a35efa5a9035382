"""The real service on a real port, over a small project with a fitted model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from leafwise import Taxonomy
from leafwise.corpus import Batch
from leafwise.review.refitting import refit
from leafwise.store import Project


def make_project(path: Path, tree: Taxonomy, texts: list[str], labels: list[str], **settings: Any):
    """Make a project: document i is `doc-i`, every second one has its label, and a run is done."""
    project = Project.create(path, tree, **settings)
    n = len(texts)
    given = [(label,) if i % 2 == 0 else () for i, label in enumerate(labels)]
    ids = [f"doc-{i}" for i in range(n)]
    project.documents.add([Batch(texts, given, ids, list(range(1, n + 1)), {})])
    assert refit(project).state == "done"
    return project


@contextmanager
def running(
    project: Project, add: Callable[[Any], None] | None = None, **options: Any
) -> Iterator[httpx.Client]:
    """Serve a project in a thread; what comes back speaks to it over a socket.

    `add` may add to the application.
    """
    import uvicorn

    from leafwise.review.workbench import Workbench
    from leafwise.web import serving
    from leafwise.web.app import create_app

    workbench = Workbench(project, background=False)
    app = create_app(workbench, **options)
    if add is not None:
        add(app)
    listener = serving._bound("127.0.0.1", 0)
    config = uvicorn.Config(app, log_level="critical", lifespan="off", access_log=False, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=base, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
        workbench.close()
