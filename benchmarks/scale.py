"""What leafwise costs at each size, and how that grows: docs/scale.md.

Every measurement has a process of its own and is a line of the file of results; a run that is
started again does what is missing there. --large adds the largest sizes, which take hours.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from measuring import Results, alone, machine, peak_of_command, touch_memory
from scale_cores import ON_WORKERS, THREADED, in_threads, on_workers
from scale_page import write_page
from scale_work import (
    COUNTER,
    EM,
    GENERAL,
    LABELS,
    MIXTURE,
    MODELS,
    PRUNED,
    Size,
    checked,
    command,
    fitted,
    grown,
    keep,
    learned,
    streamed,
    write_drawn,
    write_messages,
)


class Plan(NamedTuple):
    """What there is to measure.

    Attributes
    ----------
    base, along : what is fixed, and the sizes of what grows
    most_general : nodes up to which GeneralShrinkage is fitted, where they grow
    sizes : (size, model, whether it chooses its settings) to fit in memory
    streams : (size, model, memory) to fit to a file
    gigabytes, memory : of the file to classify, and in which bound; none where it is 0
    repeat : how often work is timed on one core and on two, and at all sizes
    enough : seconds; what takes less is done several times, where it is timed at all sizes
    on_workers, megabytes : what Dask does, and the size of each of the files that it reads
    """

    base: Size
    along: dict[str, tuple[int, ...]]
    most_general: int
    sizes: tuple[tuple[Size, str, bool], ...]
    streams: tuple[tuple[Size, str, str], ...]
    gigabytes: float
    memory: str
    repeat: int
    enough: float
    on_workers: tuple[str, ...]
    megabytes: float
    small: bool = False


def of_size(*size: int, models: tuple[str, ...], auto: bool = True) -> tuple:
    return tuple((Size(*size), name, auto) for name in models)


USUAL = Plan(
    base=Size(30_000, 300, 30_000),
    along={
        "documents": tuple(10_000 * 2**i for i in range(5)),
        "nodes": tuple(100 * 2**i for i in range(5)),
        "words": tuple(10_000 * 2**i for i in range(5)),
    },
    most_general=800,
    sizes=of_size(10_000, 1_000, 100_000, models=(MIXTURE, LABELS, EM)),
    streams=(),
    gigabytes=0.0,
    memory="1GiB",
    repeat=7,
    enough=0.1,
    on_workers=tuple(ON_WORKERS),
    megabytes=20.0,
)
MILLION = Size(1_000_000, 1_000, 100_000)
LARGE = USUAL._replace(
    sizes=(
        *USUAL.sizes,
        *of_size(*MILLION, models=(MIXTURE, LABELS, EM)),
        *of_size(100_000, 100, 100_000, models=(MIXTURE, LABELS, EM)),
        *of_size(100_000, 10_000, 100_000, models=(MIXTURE, LABELS, PRUNED)),
        *of_size(300_000, 1_000_000, 3_000_000, models=(LABELS,), auto=False),
    ),
    streams=((MILLION, MIXTURE, "6GiB"), (MILLION, EM, "8GiB")),
    gigabytes=5.0,
)
_TINY = Size(300, 20, 300)
SMALL = Plan(
    base=_TINY,
    along={"documents": (150, 300, 600), "nodes": (20, 40), "words": (200, 400)},
    most_general=20,
    sizes=(
        *of_size(*_TINY, models=(MIXTURE, LABELS, EM)),
        *of_size(300, 30, 300, models=(MIXTURE, PRUNED), auto=False),
    ),
    streams=((_TINY, MIXTURE, "64GiB"), (_TINY, EM, "64GiB")),
    gigabytes=0.0001,
    memory="1GiB",
    repeat=1,
    enough=0.0,
    on_workers=tuple(ON_WORKERS)[:1],  # to start a cluster takes most of the time
    megabytes=0.02,
    small=True,
)


class Runner:
    """Measures, and keeps what was measured."""

    def __init__(self, plan: Plan, data: str | None, results: Results):
        self.plan, self.data, self.results = plan, data, results
        # In the test of this script, processes would take most of the time.
        self.alone = (lambda function, *args: function(*args)) if plan.small else alone
        self.n_failed = 0

    def run(self) -> None:
        about = {"part": "machine", **machine()}
        if not self.results.has(about):
            self.results.append(about)
        touched = self.alone(touch_memory, *([1e-3] if self.plan.small else []))
        print(f"{touched:.3g} GiB of memory touched", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="leafwise-scale-") as folder:
            self.folder = Path(folder)
            self.classify()
            self.fit_streams()
            self.use_cores()
            self.grow()
            self.fit_sizes()

    def missing(self, keys: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [key for key in keys if not self.results.has(key)]

    def keep(self, key: dict[str, Any], function: Callable, *args: Any) -> None:
        """Measure and keep it; what fails is told, and left for the next time.

        A function may return a list of measurements.
        """
        try:
            found = function(*args)
        except Exception:  # the others can still be measured
            self.n_failed += 1
            print(f"{_named(key)} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            return
        for line in found if isinstance(found, list) else [found]:
            self.results.append(key | line)
            print(_named(key | line), _said(line), file=sys.stderr, flush=True)

    def grow(self) -> None:
        for along, sizes in self.plan.along.items():
            names = [*MODELS, COUNTER]
            names.remove(PRUNED)  # in small trees it takes longer than all nodes do
            if along == "nodes":
                names.remove(COUNTER)
            about = {"part": "growth", "along": along, **self.plan.base._asdict()}
            del about[along]
            keys = self.missing([{**about, "model": name} for name in names])
            paths = {n: self.folder / f"{along}-{n}" for n in sizes} if keys else {}
            for n, path in paths.items():
                self.alone(keep, path, self.plan.base._replace(**{along: n}))
            for key in keys:
                general = key["model"] == GENERAL and along == "nodes"
                own = {n: p for n, p in paths.items() if not general or n <= self.plan.most_general}
                self.keep(
                    key,
                    self.alone,
                    grown,
                    along,
                    own,
                    key["model"],
                    self.plan.repeat,
                    self.plan.enough,
                )
            for path in paths.values():
                path.unlink()

    def fit_sizes(self) -> None:
        for size in dict.fromkeys(size for size, _, _ in self.plan.sizes):
            jobs = []
            for one, name, auto in self.plan.sizes:
                key = {"part": "size", "way": "in memory", **size._asdict(), "model": name}
                if one == size and not self.results.has(key):
                    jobs.append((key, partial(fitted, name=name, auto=auto)))
            if jobs:
                path = self.folder / "corpus"
                self.alone(keep, path, size)
                for key, function in jobs:
                    self.keep(key, self.alone, function, path)
                path.unlink()

    def fit_streams(self) -> None:
        for size, name, memory in self.plan.streams:
            key = {"part": "size", "way": "streams", **size._asdict(), "model": name}
            if self.results.has(key):
                continue
            path = self.folder / f"{size.documents}.csv"
            if not path.exists():
                self.alone(write_drawn, path, size)
            self.keep(key, self.alone, streamed, path, size, name, memory)
        for path in self.folder.glob("*.csv"):
            path.unlink()

    def classify(self) -> None:
        plan = self.plan
        key = {"part": "stream", "gigabytes": plan.gigabytes, "memory": plan.memory}
        if not plan.gigabytes or self.results.has(key):
            return
        self.keep(key, self._classify)
        for path in self.folder.glob("messages*"):
            path.unlink()

    def _classify(self) -> dict[str, Any]:
        plan = self.plan
        model, docs, out = (self.folder / f"messages.{end}" for end in ("model", "csv", "out.csv"))
        about = self.alone(learned, model, self.data, plan.small)
        size = plan.gigabytes * 1e9
        n = self.alone(write_messages, docs, size, self.data, plan.small, 0)
        took, most = peak_of_command(command(model, docs, out, plan.memory))
        found = self.alone(checked, docs, out)
        if found["rows"] != n:
            raise RuntimeError(f"{found['rows']} rows came out, {n} went in.")
        return {"seconds": took, "peak": most, **found, "learned": about}

    def use_cores(self) -> None:
        plan = self.plan
        shared = self.data, plan.small, plan.repeat
        for what in THREADED:
            key = {"part": "cores", "kind": "threads", "what": what}
            if not self.results.has(key):
                self.keep(key, self.alone, in_threads, what, *shared)
        about = {"part": "cores", "kind": "workers"}
        whats = [
            key["what"] for key in self.missing([{**about, "what": w} for w in plan.on_workers])
        ]
        if not whats:
            return
        folder = self.folder / "files"
        folder.mkdir()
        for i in range(8):
            path = folder / f"{i}.csv"
            self.alone(write_messages, path, plan.megabytes * 1e6, self.data, plan.small, i)
        self.keep(about, self.alone, on_workers, whats, folder, *shared)


def _named(key: dict[str, Any]) -> str:
    named = ("part", "along", "way", "kind", "what", *Size._fields, "model")
    return " ".join(str(key[name]) for name in named if name in key)


def _said(line: dict[str, Any]) -> str:
    shown = ("fit", "predict", "seconds", "one", "two", "added", "peak")
    return ", ".join(f"{name} {line[name]:.3g}" for name in shown if name in line)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--large", action="store_true", help="the largest sizes, too")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--results", type=Path, help="JSONL file of what was measured, to go on")
    parser.add_argument("--out", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--write-only", action="store_true", help="write what was measured so far")
    args = parser.parse_args(arguments)
    plan = SMALL if args.small else LARGE if args.large else USUAL
    results = Results(args.results)
    runner = Runner(plan, args.data, results)
    if not args.write_only:
        runner.run()
    write_page(results, args.out)
    return int(runner.n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
