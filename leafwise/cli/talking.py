"""What the user is told: messages, errors and how far the work has come."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer

from leafwise.cli.codes import USAGE

if TYPE_CHECKING:
    from leafwise.corpus import Corpus


def say(*lines: str) -> None:
    """Write to standard error."""
    for line in lines:
        try:
            typer.echo(line, err=True)
        except OSError:  # nobody listens, or a log is full; the work goes on
            silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let nothing come of what is still written there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def say_bad(corpus: Corpus) -> None:
    if corpus.n_bad:
        say(f"Left out {count(corpus.n_bad, 'bad row')}; {corpus.bad_rows} says why.")


def usage(message: str) -> NoReturn:
    """End as wrong usage."""
    say(f"Error: {message}")
    raise typer.Exit(USAGE)


class Pace:
    """Says now and then how far the work is, and how long it will take: for logs.

    Parameters
    ----------
    tell : what takes a line
    every : seconds between lines; work that is done sooner says nothing
    clock : what tells the time
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        every: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.documents = 0
        self._tell, self._every, self._clock = tell, every, clock
        self._what = ""
        self._since, self._before = 0.0, 0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        now = self._clock()
        if what != self._what:
            self._what, self._since, self._before, self.documents = what, now, done, 0
        if now - self._since < self._every:
            return
        said = [count(self.documents, "document")] if self.documents else []
        if total:
            said.append(f"{100 * done // total} %")
            if (
                self._before < done < total
            ):  # by how fast it was lately: rows that were done before fly by
                left = (total - done) * (now - self._since) / (done - self._before)
                said.append(f"about {duration(left)} left")
        if said:
            self._tell(f"{what}: {', '.join(said)}")
        self._since, self._before = now, done


def duration(seconds: float) -> str:
    """A time in words, rounded to what is worth knowing."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


@contextmanager
def showing() -> Iterator[Any]:
    """Show how far the work is: a bar with the time left on a terminal, else lines now and then.

    Gives what to call with a name for the work, what is done and what there is to do; and whose
    attribute `documents` is for those that are done.
    """
    if not sys.stderr.isatty():
        yield Pace(say)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:  # with the time left
        yield _Bar(bar)


class _Bar:
    documents = 0

    def __init__(self, bar: Any):
        self._bar, self._what = bar, ""
        self._task = bar.add_task("", total=None)

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if what != self._what:  # another speed, so another estimate
            self._what = what
            self._bar.reset(self._task, description=what, total=total)
        self._bar.update(self._task, completed=done, total=total)


@contextmanager
def progress(what: str, corpus: Corpus) -> Iterator[Any]:
    """Show how far reading has come while the block runs; see `showing`."""
    with showing() as show:
        show(what, 0, None)
        corpus.on_progress = lambda done, total: show(what, done, total)
        try:
            yield show
        finally:
            corpus.on_progress = None


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Show how far an experiment has come: a bar on a terminal, else a line for each new step."""
    if not sys.stderr.isatty():
        said = ""

        def tell(what: str, done: int, total: int) -> None:
            nonlocal said
            if what != said:
                say(f"{what} ...")
            said = what

        yield tell
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show
