"""The command line. Errors leave here as sentences and exit codes, never as tracebacks.

A module for each command, and what they share: `options`, `opening`, `learning`, `talking`,
`ending`. Nothing heavy is imported before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import signal
import sys
import warnings
from typing import Annotated

import typer

from leafwise._version import __version__
from leafwise.cli import classify, compiling, evaluate, grow, project, reproduce, serve, taxonomy
from leafwise.cli.ending import Group, interrupt, run, terminate
from leafwise.cli.talking import say, silence

__all__ = ["app", "main"]

app = typer.Typer(
    name="leafwise",
    cls=Group,
    help="Put documents where they belong in a tree of topics: with no labels, a few, or many.",
    epilog="Exit codes: 0 done, 1 the input cannot be used, 2 wrong usage, 3 the output cannot be "
    "written, 70 a bug in leafwise, 130 interrupted, 143 ended from outside.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(reproduce.demo)
app.command()(classify.classify)
app.command()(grow.grow)
app.command()(evaluate.evaluate)
app.command(cls=reproduce.Reproduce)(reproduce.reproduce)
app.command()(serve.review)
app.command()(serve.serve)
app.command("compile")(compiling.compile_ahead)
app.add_typer(project.app, name="project")
app.add_typer(taxonomy.app, name="taxonomy")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leafwise {__version__}")
        raise typer.Exit


@app.callback()
def _leafwise(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every exception ends as a sentence and an exit code."""
    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is to be ignored
        signal.signal(signal.SIGINT, interrupt)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *where: say(f"Warning: {message}")
        code = run(lambda: app(args=arguments, prog_name="leafwise"))
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # known by now; else Python tries once more, and ends with a code of its own
        silence(sys.stdout)
    sys.exit(code)
