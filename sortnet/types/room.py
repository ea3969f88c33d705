"""Where large arrays are: memory, or beyond a size a file that the system may write to disk."""

from __future__ import annotations

import errno
import math
import mmap
import os
import shutil
import tempfile
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sortnet.errors import DataError
from sortnet.types.free import free_memory, refuse_too_large

_F32: TypeAlias = NDArray[np.float32]

IN_MEMORY = 256 << 20  # bytes up to which an array is in memory
_SPARE = 9 / 8  # of the rows that are expected, as an estimate may be too low


def room(shape: tuple[int, ...], dtype: DTypeLike = np.float32, what: str = "data") -> NDArray[Any]:
    """An array to fill, in memory up to 256 MiB, else mapped from a temporary file without a name.

    Such a file is in TMPDIR, else in /var/tmp. Its pages are page cache: the system writes them to
    disk when memory is short, and reads them again. They are freed with the array.

    Args:
        shape: of the array.
        dtype: of its values, which are arbitrary at first.
        what: what error messages call it.

    Raises:
        DataError: if the folder has no space for it, which is reserved at once.

    >>> room((2, 3)).shape
    (2, 3)
    """
    kind = np.dtype(dtype)
    n_bytes = math.prod(shape) * kind.itemsize
    if n_bytes <= IN_MEMORY:
        return np.empty(shape, kind)
    return np.frombuffer(_mapped(n_bytes, what), kind).reshape(shape)


def rows_of(array: NDArray[Any], rows: NDArray[np.integer[Any]], what: str) -> NDArray[Any]:
    """`array[rows]` in a room of its own."""
    out = room((len(rows), *array.shape[1:]), array.dtype, what)
    # The other modes than "clip" fill a buffer of the same size first.
    np.take(array, rows, axis=0, out=out, mode="clip")
    return out


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

    def next_rows(self, more: int, width: int, share: float) -> _F32:
        """(more, width) the rows after those so far, to fill.

        They count once `n` has been increased, and are valid until the next call. Rows so far that
        are less wide get zeros.

        Args:
            more: their number.
            width: the number of columns, not below that so far.
            share: of the input that has been read with them, which shows how much will follow.

        Raises:
            DataError: if there is not enough memory or disk.
        """
        if self.n + more > len(self.rows) or width != self.width:
            self._enlarge(self.n + more, width, share)
        return self.rows[self.n : self.n + more]

    def finished(self) -> _F32:
        """(n, width) the rows."""
        if not self.rows.flags.owndata:
            return self.rows[: self.n]
        self.rows.resize((self.n, self.width), refcheck=False)
        return self.rows

    def _enlarge(self, needed: int, width: int, share: float) -> None:
        row_bytes = 4 * max(1, width)
        guess = needed if share >= 1 else int(needed / share * _SPARE) + 16
        in_memory = guess * row_bytes <= IN_MEMORY
        in_place = in_memory and self.n > 0 and width == self.width and self.rows.flags.owndata
        there = self.n if in_place else 0
        what = f"{self.what}: {needed} rows of {width} features"
        if in_memory:
            refuse_too_large((needed - there) * row_bytes, what)
        # At most what is free: memory that is never filled is not taken. Disk is, so half of it.
        free = free_memory() if in_memory else _free_disk() // 2
        rows = max(needed, min(guess, there + free // row_bytes))
        if in_place:
            self.rows.resize((rows, width), refcheck=False)  # without a copy, as a rule
            return
        old = self.rows[: self.n]
        self.rows = room((rows, width), what=what)
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


def _free_disk() -> int:
    try:
        return shutil.disk_usage(_folder()).free
    except OSError:
        return 0  # the error is raised when the file is made


def _folder() -> str:
    """Where temporary files go that may be larger than memory, as those of /tmp often may not."""
    if chosen := os.environ.get("TMPDIR"):
        return chosen
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
