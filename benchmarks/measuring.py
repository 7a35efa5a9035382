"""What several benchmarks measure with: processes, memory, medians, growth, files of results."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

REPEAT, ENOUGH = 3, 10.0  # times, unless they take so many seconds together


# ---- processes and memory -----------------------------------------------------------------------


def alone(function: Callable, *args: Any) -> Any:
    """Call a function in a new process, which ends with it."""
    # This process must stay small: a new one begins with the peak of the one that started it.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def peak() -> float:
    """Return the most memory that this process has had so far, in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def forget_peak() -> None:
    """Let the peak be what is in use now. Where the system cannot, it stays what it was."""
    gc.collect()
    with suppress(OSError, AttributeError):  # where there is none of this
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # else what was freed is used again, unseen
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_of_command(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its seconds, and the most memory that it had, in GiB."""
    with tempfile.NamedTemporaryFile() as file:
        # A small process starts it: the peak of a process begins with that of its parent.
        subprocess.run([sys.executable, "-I", "-S", "-c", _RUN, file.name, *command], check=True)
        took, peak, status = file.read().split()
    if code := os.waitstatus_to_exitcode(int(status)):
        raise RuntimeError(f"{' '.join(command)} ended with code {code}.")
    unit = 1 if sys.platform == "darwin" else 1024
    return float(took), int(peak) * unit / 2**30


_RUN = """
import os, sys, time
started = time.perf_counter()
_, status, used = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
with open(sys.argv[1], "w") as file:
    print(time.perf_counter() - started, used.ru_maxrss, status, file=file)
"""


def touch_memory(share: float = 0.8) -> float:
    """Use a share of the free memory once, and give it back; return its GiB.

    The host of a virtual machine may give it memory when it first uses it. That takes seconds for
    each GiB, and what happened to be measured then would have to bear them.
    """
    size = int(share * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    np.empty(size, np.uint8)[:: os.sysconf("SC_PAGE_SIZE")] = 1
    return size / 2**30


def machine() -> dict[str, Any]:
    """Say what a measurement was made on."""
    return {
        "cores": n_cores(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
    }


def n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---- times --------------------------------------------------------------------------------------


def repeated(
    function: Callable[[], Any], repeat: int = REPEAT, warm: float = 0.0
) -> tuple[float, float, Any]:
    """Return the median of the seconds, the memory that the first time added, and the result.

    The first time does not count if it takes less than `warm` seconds: a virtual machine may have
    to ask for the memory that is used then, which costs more than to use it.
    """
    forget_peak()
    before = peak()
    started = time.perf_counter()
    found = function()
    times = [time.perf_counter() - started]
    added = peak() - before
    if times[0] < warm:
        times.clear()
    while len(times) < repeat and sum(times) < ENOUGH:
        found = None  # else the last result would be there beside the next
        started = time.perf_counter()
        found = function()
        times.append(time.perf_counter() - started)
    return float(np.median(times)), added, found


def least_of(function: Callable[[], Any], best: float, enough: float) -> tuple[float, Any]:
    """Do it again and again for `enough` seconds, at least once; return the least time, or `best`.

    What else a machine does only adds to a time.
    """
    spent = 0.0
    while True:
        started = time.perf_counter()
        found = function()
        took = time.perf_counter() - started
        best, spent = min(best, took), spent + took
        if spent >= enough:
            return best, found
        del found  # else it would be there beside the next


def in_turn(methods: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Time methods one after the other, several times over; medians."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repeat):
        for name, method in methods.items():
            started = time.perf_counter()
            method()
            times[name].append(time.perf_counter() - started)
    return {name: float(np.median(found)) for name, found in times.items()}


# ---- growth -------------------------------------------------------------------------------------


class Growth(NamedTuple):
    """cost = a · size^b, with the standard error of b (None: of two sizes there is none)."""

    a: float
    b: float
    error: float | None

    def at(self, size: float) -> float:
        return self.a * size**self.b

    def __str__(self) -> str:
        return f"{self.b:.2f}" + ("" if self.error is None else f" ± {self.error:.2f}")


def fit_growth(sizes: Iterable[float], costs: Iterable[float], least: float = 1e-3) -> Growth:
    """Fit by least squares in logarithms; what costs less than `least` counts as that."""
    x = np.log(np.array(list(sizes), float))
    y = np.log(np.maximum(np.array(list(costs), float), least))
    b, log_a = np.polyfit(x, y, 1)
    error = None
    if len(x) > 2:
        left = y - log_a - b * x
        error = float(np.sqrt((left @ left) / (len(x) - 2) / ((x - x.mean()) ** 2).sum()))
    return Growth(float(np.exp(log_a)), float(b), error)


def slope(sizes: Iterable[float], costs: Iterable[float]) -> str:
    """Return b of cost = a · size^b, by least squares in logarithms."""
    return f"{fit_growth(sizes, costs).b:.2f}"


# ---- what is written ----------------------------------------------------------------------------


class Results:
    """A file of results, or a list where there is none: one mapping for each measurement.

    A measurement is known by its `key`: those of its fields that say what was measured.
    """

    def __init__(self, path: Path | None = None):
        self.path, self._lines = path, []
        if path is not None and path.exists():
            text = path.read_text(encoding="utf-8")
            self._lines = [json.loads(line) for line in text.splitlines()]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._lines)

    def has(self, key: Mapping[str, Any]) -> bool:
        return any(all(line.get(k) == v for k, v in key.items()) for line in self._lines)

    def append(self, line: dict[str, Any]) -> None:
        self._lines.append(line)
        if self.path is not None:
            with self.path.open("ab", buffering=0) as file:
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")


def row(cells: Iterable) -> None:
    print("| " + " | ".join(map(str, cells)) + " |")


def head(*cells: str) -> None:
    row(cells)
    row(["---"] * len(cells))
