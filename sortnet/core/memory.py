"""Memory: measure how much is free, and refuse arrays that do not fit."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError

_ENDLESS = 1 << 47  # free bytes if the machine does not report its memory
# An array of texts pads every text with blanks to the length of the longest text. An array is
# refused if it takes more bytes than `_BLANK`, and more than `_BLANKS_A_LETTER` characters for each
# letter of its texts.
_BLANK = 1 << 28
_BLANKS_A_LETTER = 16
_CGROUPS = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Bytes that this process can still use, within the machine's memory and its control group."""
    kilobytes = _numbers(Path("/proc/meminfo")).get("MemAvailable:")
    n_free = _ENDLESS if kilobytes is None else 1024 * kilobytes
    return min([n_free, *_left_in_groups()])


def refuse_too_large(n_bytes: int, name: str) -> None:
    """Refuse an array that needs more memory than is free, before it is allocated.

    Raises:
        DataError: with `name` and both sizes.

    >>> refuse_too_large(10**16, "t.txt: the rows")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    sortnet.errors.DataError: t.txt: the rows need 10000000.0 GB of memory, ... GB are free
    """
    n_free = free_memory()
    if n_bytes > n_free:
        sizes = f"need {n_bytes / 1e9:.1f} GB of memory, {n_free / 1e9:.1f} GB are free"
        raise DataError(f"{name} {sizes}")


def texts(values: Sequence[str], name: str) -> NDArray[np.str_]:
    """Make an array of texts; each text takes as much memory as the longest text.

    Raises:
        DataError: see `refuse_long`.
    """
    refuse_long(max(map(len, values), default=0), len(values), sum(map(len, values)), name)
    return np.array(values, np.str_)


def refuse_long(longest: int, n: int, letters: int, name: str) -> None:
    """Refuse an array of n texts that is too large; `letters` counts the letters of all texts.

    Raises:
        DataError: if it does not fit, or if nearly all of it would be blank.
    """
    n_bytes = 4 * longest * n
    name = f"{name}, the longest of {longest} characters,"
    if n_bytes > max(_BLANK, 4 * _BLANKS_A_LETTER * letters):
        raise DataError(f"{name} need {n_bytes / 1e9:.1f} GB of memory, most of it blank: cut it")
    refuse_too_large(n_bytes, name)


def _left_in_groups() -> list[int]:
    """Bytes left below the memory limit of each control group of this process.

    Memory that caches files counts as free.
    """
    try:
        own_group = Path("/proc/self/cgroup").read_text().partition("0::/")[2].partition("\n")[0]
    except OSError:
        return []
    bytes_left = []
    path = Path(own_group.lstrip("/"))
    for group in (path, *path.parents):
        folder = _CGROUPS / group
        limit = _numbers(folder / "memory.max").get("")
        used = _numbers(folder / "memory.current").get("")
        if limit is not None and used is not None:
            stat = _numbers(folder / "memory.stat")
            cached = stat.get("inactive_file", 0) + stat.get("active_file", 0)
            bytes_left.append(max(0, limit - used + cached))
    return bytes_left


def _numbers(path: Path) -> dict[str, int]:
    """Read the integers of a kernel file by the word before each; a number alone in a line gets "".

    A file that does not exist has no integers.

    A file that does not exist has none.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    numbers = {}
    for line in lines:
        words = line.split()
        if len(words) == 1:
            words = ["", *words]
        if words and words[1].isdigit():
            numbers[words[0]] = int(words[1])
    return numbers


def return_freed() -> None:
    """Give freed memory back to the system where the C library would keep it for later.

    glibc keeps the memory of freed arrays of less than 32 MB, in each thread for itself. After
    steps with such arrays this is several times the memory in use.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
