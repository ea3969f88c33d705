"""Memory: measure how much is free, and refuse arrays that do not fit."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError

_ENDLESS = 1 << 47  # number of free bytes that is assumed if the system does not report its memory
# An array of texts pads every text with blanks to the length of the longest text, so a single long
# text can fill the memory with blanks. A small array, of at most `_BLANK` bytes, may be nearly all
# blank. A larger array is refused if it has more than `_BLANKS_A_LETTER` characters, with the
# blanks, for each letter of its texts.
_BLANK = 1 << 28
_BLANKS_A_LETTER = 16
_BYTES_A_CHARACTER = 4  # in NumPy's arrays of texts
_CGROUPS = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Measure how many bytes this process can still use.

    The machine's memory and the control groups of the process limit them.
    """
    kilobytes = _integers_in_file(Path("/proc/meminfo")).get("MemAvailable:")
    n_free = _ENDLESS if kilobytes is None else 1024 * kilobytes
    return min([n_free, *_left_in_groups()])


def refuse_too_large(n_bytes: int, name: str) -> None:
    """Raise DataError if an array of `n_bytes` bytes is larger than the free memory.

    Raises:
        DataError: with the name of the array, its size and the size of the free memory.

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
    """Make an array of texts, in which each text needs as much memory as the longest text.

    Raises:
        DataError: see `refuse_long`.
    """
    lengths = [len(text) for text in values]
    refuse_long(max(lengths, default=0), len(values), sum(lengths), name)
    return np.array(values, np.str_)


def refuse_long(longest: int, n: int, letters: int, name: str) -> None:
    """Raise DataError if an array of texts does not fit into memory, or is nearly all blank.

    Args:
        longest: the length of the longest text.
        n: the number of texts.
        letters: the sum of the lengths of all texts.
        name: the name of the texts in the message.
    """
    n_bytes = _BYTES_A_CHARACTER * longest * n
    texts_and_longest = f"{name}, the longest of {longest} characters,"
    may_be_blank = _BLANKS_A_LETTER * _BYTES_A_CHARACTER * letters
    if n_bytes > max(_BLANK, may_be_blank):
        gigabytes = f"{n_bytes / 1e9:.1f} GB"
        raise DataError(f"{texts_and_longest} need {gigabytes} of memory, most of it blank: cut it")
    refuse_too_large(n_bytes, texts_and_longest)


def _left_in_groups() -> list[int]:
    """Measure how many bytes each control group of this process may still use.

    The control groups are the group of the process and the groups that contain it. Memory that
    caches files counts as free.
    """
    try:
        groups = Path("/proc/self/cgroup").read_text()
    except OSError:
        return []
    # The line `0::/a/b` of the file names the group of the process, b, and the group a around it.
    _, _, own_group_and_rest = groups.partition("0::/")
    own_group, _, _ = own_group_and_rest.partition("\n")
    bytes_left = []
    path = Path(own_group.lstrip("/"))
    for group in (path, *path.parents):
        folder = _CGROUPS / group
        # These files have an integer without a word; without a limit the word "max".
        limit = _integers_in_file(folder / "memory.max").get("")
        used = _integers_in_file(folder / "memory.current").get("")
        if limit is not None and used is not None:
            stat = _integers_in_file(folder / "memory.stat")
            cached = stat.get("inactive_file", 0) + stat.get("active_file", 0)
            bytes_left.append(max(0, limit - used + cached))
    return bytes_left


def _integers_in_file(path: Path) -> dict[str, int]:
    """Read a kernel file of lines with a word and an integer, such as /proc/meminfo, into a dict.

    The words are the keys. An integer alone in a line has the key "". A file that does not exist
    gives an empty dict.
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
    """Give freed memory back to the system, if the C library would keep it for later arrays.

    The C library glibc keeps the memory of freed arrays of less than 32 MB, separately in each
    thread. After work with such arrays it may keep several times the memory in use.
    """
    if sys.platform != "linux":
        return
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
