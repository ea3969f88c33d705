"""Memory: how much is free, arrays that are refused, and arrays that are mapped from files."""

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

import numpy as np
from numpy.typing import DTypeLike

from sortnet.core.arrays import F32, I64, Array, Ints, Str
from sortnet.errors import DataError

_ENDLESS = 1 << 47  # number of free bytes that is assumed if the system does not report its memory
# An array of texts pads every text with blanks to the length of the longest text, so a single long
# text can fill the memory with blanks. A small array, of at most `_BLANK` bytes, may be nearly all
# blank. A larger array is refused if it has more than `_BLANKS_A_LETTER` characters, with the
# blanks, for each letter of its texts.
_BLANK = 1 << 28
_BLANKS_A_LETTER = 16
_BYTES_A_CHARACTER = 4  # bytes of a character in NumPy's arrays of texts
_CGROUPS = Path("/sys/fs/cgroup")
IN_MEMORY = 256 << 20  # largest number of bytes of an array that is not mapped from a file
_BYTES = 4  # number of bytes of a float32


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


def texts(values: Sequence[str], name: str) -> Str:
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


def allocate(shape: tuple[int, ...], dtype: DTypeLike = np.float32, name: str = "data") -> Array:
    """Allocate an uninitialised array: in memory up to 256 MiB, else in a mapped temporary file.

    The file has no name, and lies in TMPDIR, else in /var/tmp. Its pages are page cache: the system
    writes them to disk when memory is short, and reads them again. The file is freed with the
    array.

    Args:
        shape: the shape of the array.
        dtype: the number type of the array.
        name: the name of the data in messages.

    Raises:
        DataError: if the folder has no space for the array, which is reserved at once.

    >>> allocate((2, 3)).shape
    (2, 3)
    """
    dtype = np.dtype(dtype)
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes <= IN_MEMORY:
        return np.empty(shape, dtype)
    return np.frombuffer(_mapped(n_bytes, name), dtype).reshape(shape)


def rows_of(array: Array, rows: Ints, name: str) -> Array:
    """Copy the given rows of an array into an array from `allocate`.

    Args:
        array: (n, ...) the array.
        rows: (m,) row numbers.
        name: the name of the data in messages.
    """
    out = allocate((len(rows), *array.shape[1:]), array.dtype, name)
    # With another `mode` np.take would first fill a buffer as large as `out`.
    np.take(array, rows, axis=0, out=out, mode="clip")
    return out


def runs_of_queries(offsets: I64, docs: int) -> Iterator[tuple[int, int]]:
    """Divide queries into runs of at most `docs` documents; a longer query is a run of its own.

    Args:
        offsets: (n + 1,) `Queries.offsets`.
        docs: the largest number of documents of a run.

    Yields:
        The first query of a run, and the first query after the run.

    >>> [*runs_of_queries(np.array([0, 2, 4, 9, 10]), 4)]
    [(0, 2), (2, 3), (3, 4)]
    """
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + docs, side="right")) - 1
        last = min(max(last, first + 1), len(offsets) - 1)  # a run has at least one query
        yield first, last
        first = last


def joined_ranges(starts: I64, sizes: I64) -> I64:
    """Concatenate the ranges start .. start + size - 1 of all given starts and sizes.

    >>> joined_ranges(np.array([5, 1]), np.array([2, 3])).tolist()
    [5, 6, 1, 2, 3]
    """
    n_before = np.cumsum(sizes) - sizes
    numbers: I64 = np.arange(sizes.sum()) + np.repeat(starts - n_before, sizes)
    return numbers


class GrowingTable:
    """Table of float32 numbers that grows row by row.

    Args:
        name: the name of the data in messages.
        width: the number of columns at first.

    Attributes:
        rows: the n rows so far, and spare rows behind them, each with `width` numbers.
        n: the number of rows so far.
    """

    def __init__(self, name: str, width: int = 0) -> None:
        self.name = name
        self.n = 0
        self.rows: F32 = np.empty((0, width), np.float32)

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    def next_rows(self, n_new: int, width: int) -> F32:
        """Return the next rows of the table, (n_new, width), for the caller to fill.

        The rows belong to the table when the caller has increased `n`. The result is valid until
        the next call. If `width` is larger than before, the earlier rows get zeros; it must not be
        smaller.

        Raises:
            DataError: if there is not enough memory or disk space.
        """
        n_needed = self.n + n_new
        if width != self.width or n_needed > len(self.rows):
            # The table grows by half its rows, so that all copies together cost O(n).
            n_rows = n_needed if self.n == 0 else max(n_needed, self.n * 3 // 2)
            name = f"{self.name}: {n_rows} rows of {width} features"
            n_bytes = _BYTES * n_rows * width
            if n_bytes <= IN_MEMORY:
                refuse_too_large(n_bytes, name)
            earlier_rows = self.rows[: self.n]
            self.rows = allocate((n_rows, width), name=name)
            self.rows[: self.n, : earlier_rows.shape[1]] = earlier_rows
            self.rows[: self.n, earlier_rows.shape[1] :] = 0
        return self.rows[self.n : n_needed]

    def finished(self) -> F32:
        """Return the n rows, (n, width), without the spare rows at the end."""
        return self.rows[: self.n]


def _mapped(n_bytes: int, name: str) -> mmap.mmap:
    """Map a temporary file of `n_bytes` bytes, and reserve its disk space."""
    folder = _folder()
    try:
        if shutil.disk_usage(folder).free < n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with tempfile.TemporaryFile(dir=folder) as file:
            # The space is reserved now: if the disk filled up later, writing to a page of the map
            # would kill the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
            return mmap.mmap(file.fileno(), n_bytes)
    except OSError as error:
        raise DataError(
            f"{name}: {n_bytes / 1e9:.1f} GB of temporary space in {folder}: "
            f"{error.strerror or error}: set TMPDIR to a folder with that much"
        ) from None


def _folder() -> str:
    """Choose the folder of large temporary files: TMPDIR, else /var/tmp, else the system's folder.

    On many systems /tmp is kept in memory, so it is the last choice.
    """
    if chosen := os.environ.get("TMPDIR"):
        return chosen
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
