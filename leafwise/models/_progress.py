"""Work that takes a while says how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int, shown: bool) -> Iterator[Callable[[int], None] | None]:
    """Show a bar on the standard error stream; gives what tells it of what is done."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bars:
        bar = bars.add_task(what, total=total)
        yield lambda n: bars.advance(bar, n)


class Steps:
    """Tells, each time it is called, that one more step of learning is done."""

    def __init__(self, tell: Callable[[str, int, int], None] | None, n_steps: int):
        self._tell, self._n_steps, self._done = tell, n_steps, -1
        self()

    def __call__(self) -> None:
        self._done += 1
        if self._tell is not None:
            self._tell("Learning", self._done, self._n_steps)
