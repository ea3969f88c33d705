"""Memory: how much is free, refusing what will not fit, and large arrays in files on disk."""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sortnet.errors import DataError

_F32: TypeAlias = NDArray[np.float32]

IN_MEMORY = 256 << 20  # bytes up to which an array is in memory
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


def allocate(
    shape: tuple[int, ...], dtype: DTypeLike = np.float32, what: str = "data"
) -> NDArray[Any]:
    """An array to fill, in memory up to 256 MiB, else mapped from a temporary file without a name.

    Such a file is in TMPDIR, else in /var/tmp. Its pages are page cache: the system writes them to
    disk when memory is short, and reads them again. They are freed with the array.

    Raises:
        DataError: if the folder has no space for it, which is reserved at once.

    >>> allocate((2, 3)).shape
    (2, 3)
    """
    kind = np.dtype(dtype)
    n_bytes = math.prod(shape) * kind.itemsize
    if n_bytes <= IN_MEMORY:
        return np.empty(shape, kind)
    return np.frombuffer(_mapped(n_bytes, what), kind).reshape(shape)


def rows_of(array: NDArray[Any], rows: NDArray[np.integer[Any]], what: str) -> NDArray[Any]:
    """`array[rows]` in a room of its own."""
    out = allocate((len(rows), *array.shape[1:]), array.dtype, what)
    # The other modes than "clip" fill a buffer of the same size first.
    np.take(array, rows, axis=0, out=out, mode="clip")
    return out


def runs_of_queries(offsets: NDArray[np.int64], docs: int) -> Iterator[tuple[int, int]]:
    """The first query and the one after the last of runs of about that many documents.

    >>> [*runs_of_queries(np.array([0, 2, 4, 9, 10]), 4)]
    [(0, 2), (2, 3), (3, 4)]
    """
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + docs, side="right")) - 1
        last = min(max(last, first + 1), len(offsets) - 1)  # a long query is a run
        yield first, last
        first = last


class GrowingTable:
    """Rows of float32 that are appended.

    Attributes:
        rows: (n or more, width) the n rows so far, and room for more.
        n: the rows so far.
    """

    def __init__(self, what: str, width: int = 0) -> None:
        self.what, self.n = what, 0
        self.rows: _F32 = np.empty((0, width), np.float32)

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    def next_rows(self, more: int, width: int) -> _F32:
        """(more, width) the rows after those so far, to fill; `width` is not below that so far.

        They count once `n` has been increased, and are valid until the next call. Rows so far that
        are less wide get zeros.

        Raises:
            DataError: if there is not enough disk.
        """
        needed = self.n + more
        if width != self.width:
            self._enlarge(needed, width)
        elif needed > len(self.rows):
            self._enlarge(max(needed, len(self.rows) * 3 // 2), width)
        return self.rows[self.n : needed]

    def finished(self) -> _F32:
        """(n, width) the rows."""
        if not self.rows.flags.owndata:
            return self.rows[: self.n]
        self.rows.resize((self.n, self.width), refcheck=False)
        return self.rows

    def _enlarge(self, rows: int, width: int) -> None:
        what = f"{self.what}: {rows} rows of {width} features"
        if 4 * rows * width <= IN_MEMORY:
            refuse_too_large(4 * (rows * width - self.rows.size), what)
            if width == self.width and self.rows.flags.owndata:
                self.rows.resize((rows, width), refcheck=False)  # without a copy, as a rule
                return
        old = self.rows[: self.n]
        self.rows = allocate((rows, width), what=what)
        self.rows[: self.n, : old.shape[1]] = old
        self.rows[: self.n, old.shape[1] :] = 0


def _mapped(n_bytes: int, what: str) -> mmap.mmap:
    folder = _folder()
    try:
        if shutil.disk_usage(folder).free < n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with tempfile.TemporaryFile(dir=folder) as file:
            # A page that finds no space when it is written would kill the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
            return mmap.mmap(file.fileno(), n_bytes)
    except OSError as error:
        raise DataError(
            f"{what}: {n_bytes / 1e9:.1f} GB of temporary space in {folder}: "
            f"{error.strerror or error}: set TMPDIR to a folder with that much"
        ) from None


def _folder() -> str:
    """Where temporary files go that may be larger than memory, as those of /tmp often may not."""
    if chosen := os.environ.get("TMPDIR"):
        return chosen
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
