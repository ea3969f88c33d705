"""Fits cached on disk, so that the next process need not repeat fits that take seconds.

    folder/<hash of all inputs of the fit>.npz

The hash includes the code of this package, so that a cached fit is never out of date.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import SortNetError
from sortnet.files import write_atomically

Arrays = Mapping[str, NDArray[Any]]
_MOST_BYTES = 256 * 2**20  # in a folder


def cached(folder: Path | None, inputs: Iterable[Any], make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays that `make` computes, from the cache if the inputs are the same as before.

    Args:
        folder: the cache, created if it is missing; None: nothing is cached. If the folder cannot
            be written, or a file in it is damaged, `make` is called as if there were no folder.
        inputs: all values that the arrays depend on: arrays, numbers, texts, None.
        make: returns the arrays by name.

    Cost: a hash of the inputs, a few ms per MB. The cache keeps the 256 MB that were used last.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [int(cached(Path(folder), ["ten"], lambda: {"x": np.array(x)})["x"]) for x in (10, 11)]
    [10, 10]
    """
    if folder is None:
        return make()
    path = folder / f"{_hash(inputs)}.npz"
    arrays = _read(path)
    if arrays is None:
        arrays = make()
        with suppress(OSError, SortNetError):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, partial(_write, arrays=arrays))
            _remove_oldest(folder)
    return arrays


def _hash(inputs: Iterable[Any]) -> str:
    """Hash the code and all inputs; the hash is the name of the cached file."""
    hasher = hashlib.sha256(_hash_of_code())
    for value in inputs:
        if isinstance(value, np.ndarray):
            hasher.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
        else:
            hasher.update(f"{value!r};".encode())
    return hasher.hexdigest()[:32]


@cache
def _hash_of_code() -> bytes:
    """Hash the files of the package `sortnet` and the versions of numpy, scipy and torch."""
    hasher = hashlib.sha256(" ".join(map(version, ("numpy", "scipy", "torch"))).encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        hasher.update(path.read_bytes())
    return hasher.digest()


def _read(path: Path) -> Arrays | None:
    """Read the arrays of a cached file; None if the file is missing or its checksum is wrong."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception:  # numpy raises many kinds of errors on a damaged file
        return None
    with suppress(OSError):
        os.utime(path)  # the time tells `_remove_oldest` when the file was last used
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _remove_oldest(folder: Path) -> None:
    """Remove the least recently used files until the folder has at most 256 MB."""
    files = [(path, path.stat()) for path in folder.iterdir()]
    size = 0
    for path, stat in sorted(files, key=lambda file: -file[1].st_mtime_ns):
        size += stat.st_size
        if size > _MOST_BYTES:
            path.unlink(missing_ok=True)
