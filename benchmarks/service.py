"""The service under load: `suggest` at a steady rate while the model is fitted anew.

The real server, in a process of its own; the clients in another. Requests leave at fixed moments,
whether or not earlier ones are answered, and each is timed from the moment at which it was due: a
service that stalls cannot hide it. Labels keep coming, so that a refit runs most of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import leafwise as lw
from leafwise.corpus import Batch
from leafwise.datasets import load_20newsgroups
from leafwise.review.refitting import refit
from leafwise.store import Project
from leafwise.synthetic import make_corpus

RATE, SECONDS, CONNECTIONS = 200, 60, 32
LABELLED = 20  # of each hundred documents
LESSONS = 25  # labels at a time: enough for a refit to begin
WARM = 3.0  # seconds of the same load before it counts
ASKED = 500  # different texts that are asked about
SERVE = (
    "import sys; from leafwise.web.serving import serve; serve(sys.argv[1], port=int(sys.argv[2]))"
)


class Corpus(NamedTuple):
    """Documents, where they belong, and where they are from."""

    name: str
    taxonomy: lw.Taxonomy
    texts: list[str]
    labels: list[str]


def load(data: str | None, n_documents: int) -> Corpus:
    """15 newsgroups where there is a folder of corpora, else documents like them."""
    if data is not None:
        news = load_20newsgroups(data=data)
        chosen = np.random.default_rng(0).permutation(len(news))[:n_documents].tolist()
        texts, labels = ([given[i] for i in chosen] for given in (news.texts, news.labels))
        return Corpus("messages of 15 newsgroups", news.taxonomy, texts, [str(y) for y in labels])
    tree = lw.Taxonomy.from_paths([f"t{i}/g{j}" for i in range(5) for j in range(3)])
    drawn = make_corpus(tree, n_documents, 20_000, 150, random_state=0)
    return Corpus("drawn documents of 150 words", tree, drawn.texts(), list(drawn.labels))


def prepare(corpus: Corpus, path: Path) -> None:
    """Make the project, with a first model."""
    n = len(corpus.texts)
    given = [(y,) if i % 100 < LABELLED else () for i, y in enumerate(corpus.labels)]
    ids = [str(i) for i in range(n)]
    with Project.create(path, corpus.taxonomy) as project:
        project.documents.add([Batch(corpus.texts, given, ids, list(range(1, n + 1)), {})])
        run = refit(project)
        if run.state != "done":
            sys.exit(f"No model: {run.report}")


# ---- the clients --------------------------------------------------------------------------------


async def ask(port: int, bodies: list[bytes], rate: float, seconds: float) -> dict[str, Any]:
    """Send requests at their moments; return when each was due and how long it took, and errors."""
    loop = asyncio.get_running_loop()
    free: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    latencies: list[tuple[float, float]] = []
    errors: list[str] = []

    async def one(due: float, body: bytes) -> None:
        link = await free.get()
        try:
            reader, writer = link
            writer.write(body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            if not head.startswith(b"HTTP/1.1 200"):
                errors.append(head.split(b"\r\n")[0].decode())
            latencies.append((due - begin, loop.time() - due))
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            errors.append(repr(error))
            link = await asyncio.open_connection("127.0.0.1", port)
        finally:
            free.put_nowait(link)

    begin = loop.time() + 0.1
    tasks = []
    for i in range(int(rate * seconds)):
        due = begin + i / rate
        if (wait := due - loop.time()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(due, bodies[i % len(bodies)])))
    await asyncio.gather(*tasks)
    return {"latencies": latencies, "errors": errors, "seconds": loop.time() - begin}


def bodies_of(texts: list[str]) -> list[bytes]:
    made = []
    for text in texts:
        body = json.dumps({"text": text, "limit": 5}).encode()
        head = (
            "POST /v1/suggest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


def clients(arguments: argparse.Namespace) -> None:
    """The process of the clients: texts come from a file, results go to another."""
    bodies = bodies_of(json.loads(Path(arguments.clients).read_text()))
    asyncio.run(ask(arguments.port, bodies, arguments.rate, WARM))
    found = asyncio.run(ask(arguments.port, bodies, arguments.rate, arguments.seconds))
    arguments.out.write_text(json.dumps(found))


# ---- the whole ----------------------------------------------------------------------------------


def call(port: int, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{path}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def measure(corpus: Corpus, arguments: argparse.Namespace) -> dict[str, Any]:
    """Start the service and the clients, and give labels while they ask."""
    with tempfile.TemporaryDirectory() as folder:
        path, asked = Path(folder) / "service.leafwise", Path(folder) / "asked.json"
        prepare(corpus, path)
        asked.write_text(json.dumps(corpus.texts[-ASKED:]))
        port = free_port()
        with subprocess.Popen([sys.executable, "-c", SERVE, str(path), str(port)]) as server:
            try:
                return _measure(corpus, arguments, port, asked)
            finally:
                server.terminate()


def _measure(
    corpus: Corpus, arguments: argparse.Namespace, port: int, asked: Path
) -> dict[str, Any]:
    for _ in range(600):
        try:
            call(port, "health")
            break
        except OSError:
            time.sleep(0.1)
    command = [sys.executable, __file__, "--clients", str(asked), "--port", str(port)]
    command += ["--rate", str(arguments.rate), "--seconds", str(arguments.seconds)]
    results = asked.with_name("results.json")
    command += ["--out", str(results)]
    unlabelled = [i for i in range(len(corpus.texts)) if i % 100 >= LABELLED]
    looks = running = refits = 0
    before = "idle"
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            state = call(port, "health")["refit"]
            looks, running = looks + 1, running + (state == "running")
            refits += before == "running" != state
            before = state
            if state != "running" and len(unlabelled) >= LESSONS:
                some, unlabelled = unlabelled[:LESSONS], unlabelled[LESSONS:]
                lessons = [
                    {"text": corpus.texts[i], "labels": [corpus.labels[i]], "id": str(i)}
                    for i in some
                ]
                call(port, "learn", lessons)
            time.sleep(0.5)
    found = json.loads(results.read_text())
    return {**found, "running": running / max(looks, 1), "refits": refits}


def report(corpus: Corpus, found: dict[str, Any], arguments: argparse.Namespace) -> str:
    ms = 1000 * np.array(found["latencies"])[:, 1]
    p50, p95, p99 = np.percentile(ms, [50, 95, 99])
    rate = len(ms) / found["seconds"]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    lines = [
        "# The service under load",
        "",
        "Printed by `python benchmarks/service.py --data DIR --out FILE`.",
        "",
        f"A project of {len(corpus.texts):,} {corpus.name}; `POST /v1/suggest` "
        f"{arguments.rate} times a second for {arguments.seconds} s over {CONNECTIONS} "
        "connections, server, clients and refits on the same machine. Latency counts from the "
        "moment at which a request was due. Meanwhile 25 labels at a time came by `POST "
        f"/v1/learn`; a refit was running {found['running']:.0%} of the time "
        f"({found['refits']} ended). {machine}.",
        "",
        "| requests | errors | answered a second | p50 | p95 | p99 | max |",
        "|---:|---:|---:|---:|---:|---:|---:|",
        f"| {len(ms):,} | {len(found['errors'])} | {rate:.0f} | {p50:.1f} ms | {p95:.1f} ms | "
        f"{p99:.1f} ms | {ms.max():.0f} ms |",
    ]
    if found["errors"]:
        lines += ["", f"Errors: {', '.join(sorted(set(found['errors']))[:5])}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("LEAFWISE_DATA"), help="the corpora")
    parser.add_argument("--documents", type=int, default=15_000)
    parser.add_argument("--rate", type=int, default=RATE, help="requests a second")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--out", type=Path, help="a Markdown file to write")
    parser.add_argument("--clients", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clients:
        clients(arguments)
        return
    corpus = load(arguments.data, arguments.documents)
    page = report(corpus, measure(corpus, arguments), arguments)
    print(page)
    if arguments.out:
        arguments.out.write_text(page)


if __name__ == "__main__":
    main()
