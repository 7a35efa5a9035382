"""The same work by leafwise and by others, side by side: docs/performance.md.

Every piece of work is done in a process of its own, so that the peak of its memory is known; all
who do it take turns, several times over, and medians are compared. What is measured is in
peers_methods.py, how it is shown in peers_page.py.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
from peers_methods import PARTS, Unavailable, Work, memory
from peers_page import write_page

from leafwise.datasets import Dataset, load_20newsgroups, load_directory, load_reuters, load_stdlib
from leafwise.evaluation import FewLabelSplit

PER_CLASS = (7, 20, 67, 133)
_NOTES = """text,label
The cat purred on the warm sofa,cats
A kitten slept on the sofa,
The dog barked at the gate,dogs
A puppy barked all night,
The cat chased the dog,
"""


class Job(NamedTuple):
    """A part of the page, on a corpus, and how often all who do it take turns.

    `size` is the number of labels per class that are given, drawn anew for each round, or none
    where it is half of all; `asked` a corpus whose texts are sorted to measure speed, where the
    documents are few.
    """

    part: str
    corpus: str
    size: int | None = None
    rounds: int = 1
    asked: str = ""


LABELLED = ("newsgroups", "reuters", "directory of macos")  # the whole has too many classes
JOBS = [
    *(Job("count", corpus, rounds=3) for corpus in ("newsgroups", "reuters", "directory")),
    *(Job("classify", corpus, rounds=2) for corpus in LABELLED),
    *(Job("sort", LABELLED[0], size, rounds=3) for size in PER_CLASS),
    *(Job("sort", LABELLED[1], size, rounds=5) for size in PER_CLASS),
    Job("sort", LABELLED[2], 7, rounds=5),
    Job("sort", LABELLED[2], 7, rounds=5, asked="directory"),
    Job("unlabelled", "newsgroups", rounds=3),
    *(Job("near", corpus, rounds=2) for corpus in LABELLED),
    Job("grown", "2,000 newsgroup messages"),
    Job("speedup", "newsgroups", 20, rounds=2),
]
SMALL_JOBS = [Job(part, "stdlib", 3) for part in PARTS]


def corpus_of(name: str, data: str | None) -> Dataset:
    if name == "stdlib":
        return load_stdlib()
    if name == "reuters":
        return load_reuters(data=data)
    if name.startswith("directory"):
        return load_directory(name.partition(" of ")[2] or "all", data=data)
    return load_20newsgroups(data=data)


def works_of(job: Job, data: str | None) -> Iterator[Work]:
    """Give documents that have one label, and which labels are given, for each round."""
    corpus = corpus_of(job.corpus, data)
    several = isinstance(corpus.labels[0], tuple)
    one = [i for i, labels in enumerate(corpus.labels) if not several or len(labels) == 1]
    if job.corpus == "2,000 newsgroup messages":
        one = np.random.default_rng(0).permutation(one)[:2000].tolist()
    if job.corpus == "stdlib":
        largest = [label for label, _ in Counter(corpus.labels).most_common(4)]
        one = [i for i in one if corpus.labels[i] in largest][:150]
    labels = np.array([corpus.labels[i][0] if several else corpus.labels[i] for i in one])
    if job.size is None:
        half = np.sort(np.random.default_rng(0).permutation(len(one))[: len(one) // 2])
        draws = [half] * job.rounds
    else:
        splits = FewLabelSplit(job.size, job.rounds, short="take").split(None, labels)
        draws = [known for known, _ in splits]
    asked = corpus_of(job.asked, data).texts if job.asked else []
    texts = [corpus.texts[i] for i in one]
    for known in draws:
        yield Work(texts, labels, corpus.taxonomy, known, asked)


def measured(part: str, name: str, work: Work) -> dict[str, Any]:
    """Do one piece of work; return what it took, and the memory above that of what it was given."""
    memory.begin()
    try:
        found = PARTS[part].do(work, name)
    except Unavailable as error:
        return {"missing": str(error)}
    return found | {"MiB": max(memory.above(), 0.1)}


def apart(part: str, name: str, file: Path) -> dict[str, Any]:
    """Do the same in a process of its own."""
    command = [sys.executable, __file__, "--one", part, name, "--work", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def run(jobs: list[Job], data: str | None, own_process: bool = True) -> Iterator[dict[str, Any]]:
    """Do all jobs; give what was measured, a line for each piece of work."""
    for job in jobs:
        corpus = job.corpus + (f", sorting the whole {job.asked}" if job.asked else "")
        for draw, work in enumerate(works_of(job, data)):
            about = {"part": job.part, "corpus": corpus, "size": job.size, "draw": draw} | {
                "documents": len(work.texts),
                "classes": len(np.unique(work.labels)),
                "megabytes": work.megabytes,
            }
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "work"
                file.write_bytes(pickle.dumps(work))
                for name in PARTS[job.part].names:
                    if own_process:
                        found = apart(job.part, name, file)
                    else:
                        found = measured(job.part, name, work)
                    yield about | {"name": name} | found


def cold_start() -> dict[str, Any]:
    """Run `leafwise classify` where nothing is compiled, again, and after `leafwise compile`."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes.csv"
        notes.write_text(_NOTES)

        def took(compiled: str, *arguments: str) -> float:
            environment = os.environ | {"NUMBA_CACHE_DIR": str(Path(folder) / compiled)}
            command = [sys.executable, "-m", "leafwise", *arguments]
            started = time.perf_counter()
            subprocess.run(command, env=environment, check=True, capture_output=True)
            return time.perf_counter() - started

        sort = "classify", str(notes), "-o", os.devnull
        return {
            "part": "cold",
            "first": took("by itself", *sort),
            "again": took("by itself", *sort),
            "compile": took("ahead", "compile"),
            "ahead": took("ahead", *sort),
        }


def family(data: str | None) -> str:
    """Compare the generative family with `MultinomialNB`, and see how it grows."""
    import generative
    import naive_bayes

    out = io.StringIO()
    given = [] if data is None else ["--data", data]
    with contextlib.redirect_stdout(out):
        print("## Naive Bayes\n\n`NaiveBayes` as a share of `MultinomialNB`'s time on the same")
        print("matrix: below 1 is faster. The last column is the largest difference of the log")
        print("joint, relative to its size.\n")
        naive_bayes.main(given)
        print("\n## The generative family\n\nBeside `MultinomialNB` on the same matrix. `PLC`,")
        print("`HPLC` and `PLSAClassifier` fit a mixture to each document that they classify.")
        print("`MultinomialNB` makes a dense table of documents × classes, which is why it falls")
        print("behind where classes are many.\n")
        generative.main([*given, "--repeat", "3"])
    return out.getvalue()


def machine() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "part": "machine",
        "cores": cores,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def read_lines(files: list[Path]) -> list[dict[str, Any]]:
    """Read what runs have printed; a later run replaces the tables that it has, as a whole."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for file in files:
        own: dict[Any, list[dict[str, Any]]] = {}
        for printed in file.read_text(encoding="utf-8").splitlines():
            if printed.startswith("{"):
                line = json.loads(printed)
                table = tuple(line.get(key) for key in ("part", "corpus", "size"))
                own.setdefault(table, []).append(line)
        found |= own
    return [line for lines in found.values() for line in lines]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--out", type=Path, help="the page to write; figures are put beside it")
    parser.add_argument("--only", nargs="*", choices=list(PARTS), help="parts of the page")
    parser.add_argument(
        "--lines",
        type=Path,
        nargs="+",
        help="write the page of what a run has printed so far; of work in several files, the last",
    )
    parser.add_argument("--small", action="store_true", help="little work, to see that it runs")
    parser.add_argument("--one", nargs=2, metavar=("PART", "NAME"), help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.one:
        print(json.dumps(measured(*args.one, pickle.loads(args.work.read_bytes()))))
        return
    if args.lines:
        write_page([machine(), *read_lines(args.lines)], args.out, n_runs=len(args.lines))
        return
    jobs = [j for j in (SMALL_JOBS if args.small else JOBS) if not args.only or j.part in args.only]
    lines = [machine()]
    whole = not (args.small or args.only)
    found = run(jobs, args.data, own_process=not args.small)
    for line in chain(found, (cold_start() for _ in range(whole))):
        print(json.dumps(line), file=sys.stderr, flush=True)
        lines.append(line)
    more = family(args.data) if whole else ""
    if args.out:
        write_page(lines, args.out, more)


if __name__ == "__main__":
    main()
