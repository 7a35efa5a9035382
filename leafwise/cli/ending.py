"""How commands end: every exception becomes a sentence and an exit code, here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from leafwise.atomic import OUTPUT_ERRORS
from leafwise.cli.codes import BAD_INPUT, BAD_OUTPUT, BUG, INTERRUPTED, OK, TERMINATED
from leafwise.cli.talking import say, silence
from leafwise.exceptions import LeafwiseError, OutputError


class _Interrupt(KeyboardInterrupt):
    """A KeyboardInterrupt of our own type.

    Where a plain one leaves an ``exec`` of source text (numba and dataclasses make functions that
    way), Python remembers it and kills the process with SIGINT at the end, whoever caught it.
    """


class Terminated(SystemExit):
    """The process is ended from outside."""

    said = False  # what is left of its work


def interrupt(*_: Any) -> NoReturn:
    """Take a signal."""
    raise _Interrupt


def terminate(*_: Any) -> NoReturn:
    """Take a signal: as an exception, so that half-written files are removed."""
    raise Terminated(TERMINATED)


class Group(TyperGroup):
    """Takes what typer would end without a word, or with another exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("Interrupted. No half-written file is left.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever read our output has had enough
            silence(sys.stdout)
            raise typer.Exit(OK) from None


def _damage() -> tuple[type[Exception], ...]:
    """What SQLite raises, where it was used: importing it for others would cost time."""
    module = sys.modules.get("sqlite3")
    return () if module is None else (module.DatabaseError,)


def run(command: Callable[[], Any]) -> int:
    """Return the exit code of a command, after saying what went wrong."""
    try:
        command()
    except Terminated as stop:
        if not stop.said:
            say("Ended from outside. No half-written file is left.")
        return TERMINATED
    except SystemExit as stop:  # typer's own end: done, or wrong usage
        return stop.code if isinstance(stop.code, int) else OK
    except OutputError as error:
        say(f"Error: {error}")
        return BAD_OUTPUT
    except LeafwiseError as error:
        # Errors name arguments of Python; here they are options.
        message = str(error).replace("skip_bad=True", "--skip-bad")
        say(f"Error: {message.replace('memory=', '--memory ')}")
        return BAD_INPUT
    except _damage() as error:  # met after a project was opened
        say(f"Error: the project is damaged: {error}. Go back to a backup, if there is one.")
        return BAD_INPUT
    except MemoryError:
        say("Error: there is not enough memory. Try fewer or shorter documents at a time.")
        return BAD_INPUT
    except OSError as error:  # of the machine: a full disk, a drive that is gone
        if error.filename is None and error.errno in OUTPUT_ERRORS:  # files say which they are
            say(f"Error: Cannot write standard output: {error.strerror}.")
            return BAD_OUTPUT
        say(f"Error: {error}.")
        return BAD_INPUT
    except Exception as error:
        if os.environ.get("LEAFWISE_DEBUG"):
            raise
        say(
            f"Error: {type(error).__name__}: {error}",
            "This is a bug in leafwise. LEAFWISE_DEBUG=1 shows where it happened.",
        )
        return BUG
    return OK
