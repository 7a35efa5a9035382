"""How many threads compiled work runs in: one place, so that one limit holds for all of it.

Between such work, products of long arrays by BLAS are to be avoided: it leaves threads of its own,
which wait for the next product in a loop, for some 40 ms, on the cores that this work needs. (With
one such product in each step, EM on two cores was 1.3 times as fast as on one; without, 1.7.)
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

_limit: ContextVar[int | None] = ContextVar("leafwise_threads", default=None)

_MOST = 1024  # threads of all callers together; they begin when they are first needed
_pool = ThreadPoolExecutor(_MOST, "leafwise")  # kept: to start a thread takes a tenth of a ms


def _forget_threads() -> None:
    """Begin anew in a process that was forked, which has none of the threads."""
    global _pool
    _pool = ThreadPoolExecutor(_MOST, "leafwise")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def n_threads() -> int:
    """As many as the cores that this process may use, or what `limited` says."""
    limit = _limit.get()
    if limit is not None:
        return limit
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def limited(n: int) -> Iterator[None]:
    """Work in n threads within this block: for a process that shares its cores with others."""
    if n < 1:
        raise ValueError(f"limited({n}): expected at least 1 thread.")
    token = _limit.set(int(n))
    try:
        yield
    finally:
        _limit.reset(token)


def in_threads(
    work: Callable[[Part], Result], parts: Iterable[Part], n: int | None = None
) -> list[Result]:
    """Map work that holds no lock over parts, in at most n threads, the caller's among them.

    Results are in the order of the parts, whoever did them.
    """
    parts = list(parts)
    n = min(len(parts), n or n_threads())
    if n < 2:
        return [work(part) for part in parts]
    results: list[Any] = [None] * len(parts)
    todo: deque[tuple[int, Part] | None] = deque([*enumerate(parts), *[None] * n])

    def take() -> None:
        try:
            while (one := todo.popleft()) is not None:
                results[one[0]] = work(one[1])
        except BaseException:
            todo.extendleft([None] * n)  # nobody begins another part
            raise

    # They start without the caller's context, and so without its limit.
    others = [_pool.submit(copy_context().run, take) for _ in range(n - 1)]
    try:
        take()  # a caller that waits leaves its core idle, or has two threads share another
    finally:
        # Who has not begun finds nothing left to do; the others end the parts that they are at.
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()
    return results
