"""A bar for work that takes a while."""

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
