"""How much memory there is to work in, and what things take: estimates on the safe side."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import re
from contextlib import suppress
from typing import Any, NamedTuple

from leafwise.exceptions import LeafwiseError

MIB = 1 << 20
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_UNITS |= {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_COMPILED = 224 * MIB  # compiled code, and compiling it where that was not done before
_STEP = 128 * MIB  # what a process holds is taken in such steps: equal runs have equal room
_LEAST = 64 * MIB  # less than this is no room to work in


class Room(NamedTuple):
    """What a process may hold, in bytes.

    Attributes
    ----------
    bound : all of it, Python and its libraries too
    left : what there is to work in
    """

    bound: int
    left: int

    @classmethod
    def of(cls, memory: Any) -> Room:
        """Read a bound; refuse one that the program alone is larger than."""
        bound = bytes_of(memory)
        _give_back()
        # The usual process, with or without Parquet and a small model, is not near a step.
        own = -(-(resident() + _COMPILED - _STEP // 2) // _STEP) * _STEP + _STEP // 2
        if bound < own + _LEAST:
            raise LeafwiseError(
                f"memory={memory!r} is too little: Python, its libraries, compiled code and what "
                f"is loaded take up to {shown(own)}. Give at least {shown(own + _LEAST)}."
            )
        return cls(bound, bound - own)


def bytes_of(memory: Any) -> int:
    """Read "1GiB", "500 MB", "2G" or a number of bytes."""
    if isinstance(memory, int | float) and not isinstance(memory, bool):
        size = int(memory) if math.isfinite(memory) and memory == int(memory) else 0
    else:
        found = isinstance(memory, str) and re.fullmatch(
            r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?(?:i?B)?)\s*", memory, re.IGNORECASE
        )
        size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < 1:
        raise LeafwiseError(
            f"memory={memory!r}: expected a number of bytes above 0, or one with a unit, such as "
            "1GiB or 500MB."
        )
    return size


def _give_back() -> None:
    """Give back what is held and not used, so that the same work has the same room once more."""
    gc.collect()
    with suppress(OSError, AttributeError):  # where there is no C library of this kind
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def shown(size: float) -> str:
    """A number of bytes in words, rounded up."""
    if size < 10 << 30:
        return f"{-int(-size // MIB):,} MiB"
    return f"{size / (1 << 30):,.1f} GiB"


def resident() -> int:
    """Return what this process holds now; where that is not to be had, the most that it held."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 256 * MIB
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
