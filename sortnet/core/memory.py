"""Memory: how much is free, and refusing what will not fit."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError

_ENDLESS = 1 << 47  # assumed where the machine does not report its memory
_BLANK = 1 << 28  # bytes that texts may take beside a long one
_BLANKS_A_LETTER = 16
_CGROUPS = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Bytes of memory that this process can still use, on the machine or in its control group."""
    machine = _numbers(Path("/proc/meminfo")).get("MemAvailable:")
    return min([_ENDLESS if machine is None else 1024 * machine, *_left_in_groups()])


def refuse_too_large(n_bytes: int, what: str) -> None:
    """Refuse what needs more memory than is free, before it is allocated.

    Raises:
        DataError: naming `what` and both sizes.

    >>> refuse_too_large(10**16, "t.txt: the rows")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    sortnet.errors.DataError: t.txt: the rows need 10000000.0 GB of memory, ... GB are free
    """
    free = free_memory()
    if n_bytes > free:
        sizes = f"need {n_bytes / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free"
        raise DataError(f"{what} {sizes}")


def texts(values: Sequence[str], what: str) -> NDArray[np.str_]:
    """Texts as an array, in which each takes as much memory as the longest.

    Raises:
        DataError: see `refuse_long`.
    """
    refuse_long(max(map(len, values), default=0), len(values), sum(map(len, values)), what)
    return np.array(values, np.str_)


def refuse_long(longest: int, n: int, letters: int, what: str) -> None:
    """Refuse an array of n texts, each as wide as the longest, with that many letters in all.

    Raises:
        DataError: if it does not fit, or if next to all of it would be blank.
    """
    n_bytes, what = 4 * longest * n, f"{what}, the longest of {longest} characters,"
    if n_bytes > max(_BLANK, 4 * _BLANKS_A_LETTER * letters):
        raise DataError(f"{what} need {n_bytes / 1e9:.1f} GB of memory, most of it blank: cut it")
    refuse_too_large(n_bytes, what)


def _left_in_groups() -> list[int]:
    """Bytes left below the limits of this process's control groups; cached files count as free."""
    try:
        own = Path("/proc/self/cgroup").read_text().partition("0::/")[2].partition("\n")[0]
    except OSError:
        return []
    left = []
    path = Path(own.lstrip("/"))
    for group in (path, *path.parents):
        place = _CGROUPS / group
        most, used = (_numbers(place / f"memory.{what}").get("") for what in ("max", "current"))
        if most is not None and used is not None:
            stat = _numbers(place / "memory.stat")
            cached = stat.get("inactive_file", 0) + stat.get("active_file", 0)
            left.append(max(0, most - used + cached))
    return left


def _numbers(path: Path) -> dict[str, int]:
    """The integers of a kernel file, by the word before each; none if it does not exist."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    pairs = [
        ("", words[0]) if len(words) == 1 else (words[0], words[1]) for words in lines if words
    ]
    return {name: int(value) for name, value in pairs if value.isdigit()}


def return_freed() -> None:
    """Return freed memory to the system, where the C library keeps it.

    glibc keeps what arrays of less than 32 MB have used, in each thread for itself: after steps
    with such arrays it is several times what is in use.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
