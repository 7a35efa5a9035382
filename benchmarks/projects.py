"""How long a project file takes: documents added, and looked at when there are very many.

python benchmarks/projects.py [--documents 1000000] [--added 100000] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import leafwise
from leafwise.corpus import Batch
from leafwise.store import Project
from leafwise.taxonomy import Taxonomy

N_WORDS = 50_000  # different words
LENGTH = 12  # words of a document
BATCH = 10_000
REPEATS = 5
RARE = "xyzzyxyzzy"
TREE = Taxonomy.from_paths([f"area{i}/field{j}/topic{k}" for i in range(10) for j in range(5)
                            for k in range(4)])  # fmt: skip


def vocabulary() -> list[str]:
    """Words of two to five syllables, the most frequent first."""
    rng = np.random.default_rng(2)
    syllables = np.array([a + b for a in "bcdfghklmnprstvw" for b in "aeiou"])
    found: dict[str, None] = {}
    while len(found) < N_WORDS:
        found["".join(rng.choice(syllables, rng.integers(2, 6)))] = None
    return list(found)


WORDS = vocabulary()


def batches(n: int, labelled: int = 20) -> Iterator[Batch]:
    """Short documents with words as frequent as in any language; one in so many has a label."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, N_WORDS + 1)
    share /= share.sum()
    words = np.array(WORDS)
    leaves = [TREE.paths[i] for i in TREE.leaves]
    for start in range(0, n, BATCH):
        rows = range(start, min(n, start + BATCH))
        drawn = words[rng.choice(N_WORDS, (len(rows), LENGTH), p=share)]
        texts = [" ".join(row) for row in drawn.tolist()]
        if start == 0:
            texts[7] += f" {RARE}"
        labels = [(leaves[i % len(leaves)],) if i % labelled == 0 else () for i in rows]
        yield Batch(texts, labels, [f"d{i}" for i in rows], [i + 1 for i in rows], {})


def sort(project: Project) -> float:
    """Have a run put every document somewhere; return the seconds that writing it takes."""
    rng = np.random.default_rng(1)
    leaves = np.array([TREE.paths[i] for i in TREE.leaves])
    model = leafwise.TaxonomyClassifier(TREE).fit(leaves.tolist() * 2)
    taken = 0.0
    run = project.runs.start()
    for rows in project.documents.each(BATCH):
        ids = [row[0] for row in rows]
        best = leaves[rng.integers(0, len(leaves), (len(ids), 3))].tolist()
        sure = np.sort(rng.dirichlet([1, 1, 1, 1], len(ids))[:, :3])[:, ::-1].tolist()
        start = time.perf_counter()
        project.runs.add_predictions(run.id, ids, best, sure)
        taken += time.perf_counter() - start
    start = time.perf_counter()
    project.runs.finish(run.id, model, [], {})
    return taken + time.perf_counter() - start


def added(folder: Path, n: int) -> tuple[float, int]:
    """Return the seconds that adding documents takes, and the bytes of the file."""
    ready = list(batches(n))
    with Project.create(folder / "added.leafwise", TREE) as project:
        start = time.perf_counter()
        project.documents.add(ready)
        taken = time.perf_counter() - start
    return taken, os.path.getsize(folder / "added.leafwise")


def first(seen: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of the first time, and of the median of some more."""
    times = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        seen()
        times.append(time.perf_counter() - start)
    return times[0], statistics.median(times[1:])


def looked_at(path: Path) -> Iterator[tuple[str, float, float]]:
    """Yield what is looked at in a large project, and how long it takes."""

    def opened() -> None:
        with Project(path) as project:
            project.documents.page()

    yield "open it and show the first page", *first(opened)
    with Project(path) as project:
        pages = project.documents.page
        middle = str(project.documents.count() // 2)
        leaf, area = TREE.paths[TREE.leaves[0]], "area1"
        for what, seen in {
            "a page in the middle": lambda: pages(after=middle),
            "search a rare word": lambda: pages(search=RARE),
            "search the commonest word": lambda: pages(search=WORDS[0]),
            "search two common words": lambda: pages(search=" ".join(WORDS[1:3])),
            "search the first letter of a word": lambda: pages(search="b"),
            "search the first two letters": lambda: pages(search="ba"),
            "search a word below a node": lambda: pages(search=WORDS[3], node=area),
            "search a word that there is not": lambda: pages(search="qqq"),
            "documents of a leaf": lambda: pages(node=leaf),
            "documents of a branch, the least sure first": lambda: pages(node=area, order="unsure"),
            "documents with a label": lambda: pages(state="labelled"),
            "documents without a label": lambda: pages(state="unlabelled"),
            "all, the least sure first": lambda: pages(order="unsure", state="unlabelled"),
            "the counts of every node": project.tree.counts,
            "the project in numbers": project.info,
        }.items():
            yield what, *first(seen)
        ids = iter(range(1, 100))
        yield (
            "keep an answer",
            *first(lambda: project.labels.answer(next(ids), ["area1/field1/topic1"], by="x")),
        )


def page(n: int, n_added: int) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, size = added(folder, n_added)
        lines = [
            "# Project files",
            "",
            f"Printed by `python benchmarks/projects.py` on {os.cpu_count()} cores of "
            f"{platform.machine()}, Python {platform.python_version()}, SQLite "
            f"{sqlite3.sqlite_version}. Documents are made up: {LENGTH} words of {N_WORDS:,}, one "
            "in 20 with a label.",
            "",
            f"- {n_added:,} documents are added in {seconds:.1f} s; the file has "
            f"{size / 1e6:.0f} MB.",
        ]
        path = folder / "large.leafwise"
        with Project.create(path, TREE) as project:
            start = time.perf_counter()
            project.documents.add(batches(n))
            taken = time.perf_counter() - start
            lines.append(f"- {n:,} documents are made up and added in {taken:.0f} s.")
            taken = sort(project)
        lines.append(
            f"- A run that sorts all of them is written in {taken:.0f} s; with it the file has "
            f"{os.path.getsize(path) / 1e6:.0f} MB."
        )
        lines += [
            "",
            f"With {n:,} documents, in milliseconds, the first time and the median of "
            f"{REPEATS} more:",
            "",
            "| | first | then |",
            "|---|---:|---:|",
        ]
        for what, once, then in looked_at(path):
            lines.append(f"| {what} | {1000 * once:,.0f} | {1000 * then:,.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--added", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = page(given.documents, given.added)
    print(text)
    if given.out is not None:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
