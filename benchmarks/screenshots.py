"""Take the pictures of the review page in docs/: python benchmarks/screenshots.py

A project of the standard library's docstrings is made in a temporary folder. A scripted reviewer,
who knows the module of each, answers a few rounds of what the page would ask, so that there is
some progress to see. Then a browser takes the pictures: light, dark, and as on a phone.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from leafwise.corpus import Batch
from leafwise.datasets import load_stdlib
from leafwise.review.workbench import Workbench
from leafwise.store import Project
from leafwise.store.records import Document
from leafwise.web.app import create_app

DOCS = Path(__file__).parent.parent / "docs"
LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
LARGEST = 250_000  # bytes of a picture


def fill(project: Project) -> dict[str, str]:
    """Add the documents; returns the module of each by its key."""
    dataset = load_stdlib()
    n = len(dataset.texts)
    keys = [f"entry {i + 1}" for i in range(n)]
    texts = list(dataset.texts)
    project.documents.add([Batch(texts, [()] * n, keys, list(range(1, n + 1)), {})])
    return dict(zip(keys, dataset.labels))


def review(workbench: Workbench, truth: dict[str, str], rounds: int, answers: int) -> None:
    """Answer as the page asks, and fit anew after each round."""
    workbench.refit()
    for _ in range(rounds):
        for _ in range(answers):
            task = workbench.next("Ada")
            assert task is not None
            workbench.answer(task.document.id, [truth[task.document.key]], by="Ada")
        workbench.refit()


def good_example(workbench: Workbench, truth: dict[str, str]) -> Document:
    """A document of handy length, rightly sorted, whose words speak for several levels."""
    found: list[tuple[int, Document]] = []
    page = workbench.project.documents.page(state="unlabelled", order="sure", limit=400)
    for document in page.documents:
        guess = document.prediction
        if guess is None or not 300 < len(document.text) < 1200 or guess.probability > 0.9:
            continue
        if guess.path == truth[document.key]:
            marks = workbench.explain(document.text).marks
            found.append((len({mark.level for mark in marks}), document))
    return max(found, key=lambda pair: pair[0])[1]


@contextmanager
def serving(workbench: Workbench) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(workbench, reviewer="Ada")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def take(base: str, document: int, folder: Path) -> None:
    browser_path = shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=ARGUMENTS)
        for look, options in LOOKS.items():
            context = browser.new_context(base_url=base, **options)
            page = context.new_page()
            for name, address in (
                ("tree", "/tree"),
                ("review", f"/review?document={document}"),
                ("progress", "/progress"),
            ):
                page.goto(address)
                if name == "tree":
                    page.locator("#tree summary .n").nth(8).click()
                    page.mouse.move(0, 0)
                page.wait_for_timeout(500)
                picture = folder / f"review-{name}-{look}.png"
                page.screenshot(path=picture)
                size = picture.stat().st_size
                print(f"{picture.name}: {size:,} bytes")
                assert size < LARGEST, f"{picture} is larger than {LARGEST:,} bytes"
            context.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of the pictures")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of review, each with a fit")
    parser.add_argument("--answers", type=int, default=25, help="answers in a round")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = load_stdlib().taxonomy
        with Project.create(Path(folder) / "library.leafwise", tree, name="Library") as project:
            truth = fill(project)
            with Workbench(project, background=False) as workbench:
                review(workbench, truth, given.rounds, given.answers)
                example = good_example(workbench, truth)
                with serving(workbench) as base:
                    take(base, example.id, given.output)


if __name__ == "__main__":
    main()
