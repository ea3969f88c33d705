"""Arrays that may be larger than memory: large ones are mapped from files on disk."""

from __future__ import annotations

import errno
import math
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sortnet.core.arrays import F32
from sortnet.core.memory import refuse_too_large
from sortnet.errors import DataError

IN_MEMORY = 256 << 20  # bytes up to which an array is in memory


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
        self.rows: F32 = np.empty((0, width), np.float32)

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    def next_rows(self, more: int, width: int) -> F32:
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

    def finished(self) -> F32:
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
