"""What the user is told: messages, errors and how far the work has come."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TextIO

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


@contextmanager
def progress(what: str, corpus: Corpus) -> Iterator[None]:
    """Show how far reading has come, on a terminal, while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        corpus.on_progress = lambda done, total: bar.update(task, completed=done, total=total)
        try:
            yield
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
