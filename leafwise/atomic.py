"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from leafwise.exceptions import OutputError

# What goes wrong with the file that is written, rather than with one that is read meanwhile.
OUTPUT_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only if the block ends without an exception.

    Whether it can be written is found out at once, before any work is done.
    """
    name = os.fspath(path)
    check_writable(name)
    target, is_device = _target(name)
    part = os.path.join(os.path.dirname(target), f".leafwise-{secrets.token_hex(6)}.part")
    try:
        file = open(target, "wb") if is_device else open(part, "xb")  # noqa: SIM115
    except OSError as error:
        raise _cannot_write(name, error) from None
    try:
        try:
            yield file
        except OSError as error:
            if error.errno in OUTPUT_ERRORS:
                raise _cannot_write(name, error) from error
            raise
        try:
            file.close()  # what is still in the buffer may not fit
            if not is_device:
                if os.path.exists(target):
                    shutil.copymode(target, part)
                os.replace(part, target)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cannot_write(name, error) from error
    finally:
        with suppress(OSError):
            file.close()
        with suppress(OSError):
            os.unlink(part)


def appear(part: str, target: str) -> None:
    """Give a file that is whole its name; FileExistsError where another has it."""
    try:
        os.link(part, target)  # at once, and never over another file
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        os.rename(part, target)
    else:
        os.unlink(part)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an OutputError where a file cannot be written, without touching anything."""
    name = os.fspath(path)
    target, is_device = _target(name)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise OutputError(f"Cannot write {name}: it is a folder. Name a file in it.")
    if not is_device and not os.path.isdir(folder):
        raise OutputError(f"Cannot write {name}: there is no folder {folder}. Make it first.")
    try:
        with suppress(FileNotFoundError):
            os.lstat(target)
    except OSError as error:  # a name that is too long, say
        raise _cannot_write(name, error) from None
    for place, what in ((target, "the file"), (folder, "its folder")):
        if not os.path.exists(place) or (is_device and place == folder):
            continue
        # Replacing would not mind a read-only file, and nothing stops root; its owner does mind.
        if not os.access(place, os.W_OK) or not os.stat(place).st_mode & 0o222:
            raise OutputError(
                f"Cannot write {name}: {what} is read-only. Choose another output, or chmod u+w it."
            )


def _target(name: str) -> tuple[str, bool]:
    """Return the path to write to, and whether it is a device or a pipe, which is not replaced."""
    if os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)):
        return name, True  # where /dev/stdout is a pipe, only this link leads to it
    return os.path.realpath(name), False  # a link stays a link; the file it points to is replaced


def _cannot_write(name: str, error: OSError) -> OutputError:
    return OutputError(f"Cannot write {name}: {error.strerror or error}.")
