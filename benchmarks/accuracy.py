"""How accurate leafwise is on real corpora, beside other methods: docs/accuracy.md.

Every result is a line of the file of results; a run that is started again does what is missing
there, or with --again all that it is asked for. After a change of `TaxonomyClassifier` that is
--again --methods TaxonomyClassifier. The file of the page is results/accuracy.jsonl. Several
processes can share the work: --part 1/2 and --part 2/2 with the same file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import traceback
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import sklearn
from accuracy_calibration import bins_of, reliability
from accuracy_corpora import CORPORA, Corpus, Documents
from accuracy_methods import TAXONOMY, Case, Method, Sort, Unavailable, methods_of
from accuracy_page import write_page

import leafwise
from leafwise.metrics import scores


class Job(NamedTuple):
    """One line of the file of results."""

    corpus: str
    method: str
    size: float
    draw: int

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Job:
        return cls(*(line[field] for field in cls._fields))

    def part(self, n: int) -> int:
        """Deal jobs into parts, so that each gets some of every method."""
        return zlib.crc32(repr(self).encode()) % n


class Results:
    """A file of results: one JSON object per line, of a job or about a corpus or the machine."""

    def __init__(self, path: Path):
        self.path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                yield json.loads(line)

    def done(self) -> set[Job]:
        lines = (line for line in self if "about" not in line)
        return set(map(Job.of, lines))

    def forget(self, jobs: set[Job]) -> None:
        """Drop the lines of some jobs, to measure them again."""
        kept = [one for one in self if "about" in one or Job.of(one) not in jobs]
        lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in kept]
        self.path.write_text("".join(lines), encoding="utf-8")

    def append(self, line: dict[str, Any]) -> None:
        """Add a line in one write, so that processes do not mix theirs."""
        line = _rounded(line)
        known = [one for one in self if "about" in one] if "about" in line else []
        if line not in known:
            with self.path.open("ab", buffering=0) as file:
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")


def _rounded(value: Any) -> Any:
    """Leave out digits that say nothing: there are thousands of lines."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


def jobs_of(
    corpus: Corpus, methods: dict[str, Method], sizes: Sequence[float] | None, n_draws: int | None
) -> list[Job]:
    """Return what there is to do, the first draw of all before the second."""
    wanted = [size for size in corpus.sizes if sizes is None or size in sizes]
    jobs = [
        Job(corpus.name, name, size, draw)
        for size in wanted
        for name, method in methods.items()
        if method.least <= size <= method.most
        for draw in corpus.draws(size, n_draws)
        if method.n_draws is None or draw < method.n_draws
    ]
    return sorted(jobs, key=lambda job: job.draw)


def measure(case: Case, method: Method) -> dict[str, Any]:
    """Learn, and score what is said of the pool and of new documents."""
    several, y = case.documents.several, case.documents.y
    started = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sort: Sort = method.fit(case)
        answers = {"": (case.pool, several), "_new": (case.new, False)}
        found = {
            part: (rows, sort(rows))
            for part, (rows, skipped) in answers.items()
            if len(rows) and not skipped
        }
    line: dict[str, Any] = dict.fromkeys(
        ("accuracy", "new", "ece", "ece_new", "micro_f1", "macro_f1")
    )
    line["seconds"] = round(process_time() - started, 2)
    for part, (rows, answer) in found.items():
        truth = y[rows].tolist() if several else y[rows]
        if several or not part:
            labels = [case.documents.tree.paths[i] for i in case.documents.tree.leaves]
            f1 = scores(truth, answer.labels, labels=labels if several else None)
            line["micro_f1"], line["macro_f1"] = f1["micro_f1"], f1["macro_f1"]
        if not several:
            line["new" if part else "accuracy"] = float(np.mean(answer.labels == truth))
        if answer.proba is not None:
            sums = answer.proba.sum(axis=1, keepdims=True)
            proba = np.where(sums > 0, answer.proba / np.where(sums > 0, sums, 1), 0)
            curve = reliability(truth, proba, answer.classes)
            line[f"ece{part}"], line[f"bins{part}"] = curve.error, bins_of(curve)
    return line


def run(
    corpora: Sequence[Corpus], results: Results, *, data: str | None = None,
    methods: Sequence[str] = (), sizes: Sequence[float] | None = None,
    n_draws: int | None = None, part: tuple[int, int] = (1, 1), again: bool = False,
) -> int:  # fmt: skip
    """Do what is missing in the file of results, or all again; return how many jobs failed."""
    results.append({"about": "machine", **machine()})
    unavailable: set[str] = set()
    n_failed = 0
    for corpus in corpora:
        chosen = {
            name: method
            for name, method in methods_of(corpus).items()
            if not methods or any(one.lower() in name.lower() for one in methods)
        }
        every = jobs_of(corpus, chosen, sizes, n_draws)
        if again:
            results.forget(set(every))
        done = results.done()
        jobs = [job for job in every if job.part(part[1]) == part[0] - 1 and job not in done]
        documents = dataset = None
        for i, job in enumerate(jobs, 1):
            if job.method in unavailable:
                continue
            if documents is None:
                dataset = corpus.load(data)
                documents = Documents(corpus, dataset)
                results.append({"about": corpus.name, **documents.about()})
            said = f"{corpus.name} {i}/{len(jobs)}: {job.method}, {job.size}, draw {job.draw}"
            try:
                case = Case(documents, corpus.split(dataset, job.size, job.draw))
                line = measure(case, chosen[job.method])
                if job.method not in TAXONOMY:  # the page has the others' errors alone
                    line = {key: one for key, one in line.items() if not key.startswith("bins")}
            except Unavailable as error:
                unavailable.add(job.method)
                print(f"{job.method} is left out: {error}", file=sys.stderr, flush=True)
            except Exception:
                n_failed += 1
                print(f"{said} failed", file=sys.stderr)
                traceback.print_exc()
            else:
                results.append({**job._asdict(), **line})
                right = next((line[k] for k in ("accuracy", "micro_f1") if line[k] is not None), 0)
                print(f"{said}: {right:.3f}, {line['seconds']} s", file=sys.stderr, flush=True)
    return n_failed


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "leafwise": leafwise.__version__,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--results", type=Path, required=True, help="JSON lines, added to")
    parser.add_argument("--out", type=Path, help="Markdown file to write, plots beside it")
    parser.add_argument("--write-only", action="store_true", help="write it, and measure nothing")
    parser.add_argument("--draws", type=int, help="at most so many")
    parser.add_argument("--only", help="corpora, such as newsgroups,directories")
    parser.add_argument("--methods", help="parts of their names, such as naivebayes,svc")
    parser.add_argument("--sizes", help="labels per class, or shares: 0,1,7,0.1")
    parser.add_argument("--part", default="1/1", help="which part of the jobs, such as 1/2")
    parser.add_argument("--again", action="store_true", help="measure what is there already, too")
    parser.add_argument("--large", action="store_true", help="the whole web directory, too")
    args = parser.parse_args(arguments)
    only = args.only.split(",") if args.only else []
    known = {name for corpus in CORPORA for name in (corpus.name, corpus.group) if name}
    if args.again and args.part != "1/1":
        parser.error("--again drops lines from the file, which other parts may be writing to.")
    if unknown := set(only) - known:
        parser.error(f"--only {','.join(unknown)}: expected some of {', '.join(sorted(known))}.")
    corpora = [
        corpus
        for corpus in CORPORA
        if ({corpus.name, corpus.group} & set(only) if only else args.large or not corpus.large)
    ]
    results, n_failed = Results(args.results), 0
    if not args.write_only:
        part = tuple(map(int, args.part.split("/")))
        n_failed = run(
            corpora, results, data=args.data, n_draws=args.draws, part=(part[0], part[1]),
            methods=args.methods.split(",") if args.methods else (),
            sizes=[float(size) for size in args.sizes.split(",")] if args.sizes else None,
            again=args.again,
        )  # fmt: skip
    if args.out:
        write_page(list(results), args.out)
    if n_failed:
        print(f"{n_failed} jobs failed; run again to try them again.", file=sys.stderr)
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
