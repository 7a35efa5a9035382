"""A recorded review: how accuracy grows while a reviewer who knows the truth answers.

A project of the 15 newsgroups is reviewed through the same `Workbench` as the page: its queue, its
checks drawn at random, its learning from each answer, a fit every 25 answers. The other reviewer
takes documents in random order. Accuracy is that of all documents, those labelled included, since
that is what a reviewer ends up with. Each draw leaves out another tenth of the documents.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from leafwise.corpus import Batch
from leafwise.datasets import Dataset, load_20newsgroups
from leafwise.review.workbench import Workbench
from leafwise.store import Project

ORDERS = ("queue", "random")
EVERY = 25  # answers from one fit to the next
SHOWN = (0, 50, 100, 200)
KEPT = 0.9  # of the documents, in each draw


class Point(NamedTuple):
    """After so many answers: the accuracy, and what the progress page says of it."""

    n_answers: int
    accuracy: float
    estimate: float
    low: float
    high: float


def review(corpus: Dataset, order: str, n_answers: int, seed: int) -> list[Point]:
    """Review a corpus in one order; return how it went."""
    truth = dict(zip(map(str, range(len(corpus))), corpus.labels))
    with tempfile.TemporaryDirectory() as folder:
        project = Project.create(Path(folder) / "news.leafwise", corpus.taxonomy)
        n = len(corpus)
        batch = Batch(list(corpus.texts), [()] * n, list(truth), list(range(n)), {})
        project.documents.add([batch])
        ids = np.random.default_rng(seed).permutation(np.arange(1, n + 1)).tolist()
        points = []
        with project, Workbench(project, background=False) as workbench:
            for done in range(n_answers + 1):
                if done % EVERY == 0:
                    workbench.refit()
                    points.append(_point(workbench, truth, done))
                    said = f"{order}, seed {seed}: {points[-1].accuracy:.4f} after {done}"
                    print(said, file=sys.stderr, flush=True)
                task = workbench.next("reviewer") if order == "queue" else None
                document = project.documents.get(ids[done]) if task is None else task.document
                if task is None:
                    workbench.task(document.id, "reviewer")
                workbench.answer(document.id, [truth[document.key]], by="reviewer")
    return points


def _point(workbench: Workbench, truth: dict[str, str], n_answers: int) -> Point:
    project = workbench.project
    n_right = 0
    for rows in project.documents.each():
        for document in project.documents.some(id for id, *_ in rows):
            guess = document.prediction.path if document.prediction else None
            labels = document.labels or (guess,)
            n_right += labels[0] == truth[document.key]
    progress = workbench.progress()
    accuracy = n_right / project.documents.count()
    return Point(n_answers, accuracy, progress.estimate, progress.low, progress.high)


def table(found: dict[str, list[list[Point]]]) -> list[str]:
    lines = [
        f"| order | {' | '.join(f'{n} answers' for n in SHOWN)} |",
        f"| --- | {' | '.join('---:' for _ in SHOWN)} |",
    ]
    for order, draws in found.items():
        accuracy = {
            n: [point.accuracy for draw in draws for point in draw if point.n_answers == n]
            for n in SHOWN
        }
        cells = [f"{np.mean(own):.3f} ± {np.std(own):.3f}" for own in accuracy.values() if own]
        lines.append(f"| {order} | {' | '.join(cells)} |")
    return lines


def picture(found: dict[str, list[list[Point]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for order, draws in found.items():
        answers = [point.n_answers for point in draws[0]]
        values = np.array([[point.accuracy for point in draw] for draw in draws])
        axes.plot(answers, values.mean(axis=0), marker="o", label=order)
        axes.fill_between(answers, values.min(axis=0), values.max(axis=0), alpha=0.2)
    axes.set(xlabel="answers", ylabel="accuracy of all documents", title="15 newsgroups, reviewed")
    axes.grid(alpha=0.3)
    axes.legend(title="order")
    figure.savefig(path, metadata={"Date": None})


def coverage(draws: list[list[Point]]) -> str:
    """Say how often the truth was within the interval that the progress page gave."""
    points = [point for draw in draws for point in draw if point.n_answers]
    n_within = sum(point.low <= point.accuracy <= point.high for point in points)
    width = np.mean([point.high - point.low for point in points])
    off = np.mean([abs(point.estimate - point.accuracy) for point in points])
    return (
        f"The estimate of the progress page was off by {off:.3f} on average; the truth was within "
        f"its interval, {width:.2f} wide, {n_within} times of {len(points)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("LEAFWISE_DATA"), help="the corpora")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--size", type=int, help="at most so many documents")
    parser.add_argument("--jobs", type=int, default=1, help="reviews at a time")
    parser.add_argument("--out", type=Path, help="Markdown file to write, a picture beside it")
    args = parser.parse_args()
    whole = load_20newsgroups(data=args.data)
    size = min(int(KEPT * len(whole)), args.size or len(whole))

    def drawn(seed: int) -> Dataset:
        rows = np.random.default_rng(seed).permutation(len(whole))
        return whole.subset(np.sort(rows[:size]))

    # In threads: the fits are processes of their own.
    with ThreadPoolExecutor(args.jobs) as pool:
        begun = {
            order: [
                pool.submit(review, drawn(seed), order, args.answers, seed)
                for seed in range(args.draws)
            ]
            for order in ORDERS
        }
    found = {order: [one.result() for one in jobs] for order, jobs in begun.items()}
    lines = [
        "# A recorded review",
        "",
        *(__doc__ or "").strip().splitlines()[2:],
        "",
        f"{size:,} documents in each of {args.draws} draws, 15 classes, tree and keywords of "
        "newsgroups15.csv, no labels at first; mean and standard deviation.",
        "",
        *table(found),
        "",
        coverage(found["queue"]),
        "",
    ]
    if args.out is None:
        print("\n".join(lines))
        return
    image = args.out.with_suffix(".svg")
    picture(found, image)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    lines += [
        f"![Accuracy by answers]({image.name})",
        "",
        f"Written by `benchmarks/recorded_review.py --out docs/{args.out.name}` ({machine}).",
        "",
    ]
    args.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
