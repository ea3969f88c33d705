"""Cache fits on disk, so that the next process need not repeat fits that take seconds.

The name of a cached file is the hash of all inputs of the fit: `folder/<hash>.npz`. The hash
includes the code of the package `sortnet`, so that a cached fit is never out of date.
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
_MOST_BYTES = 256 * 2**20  # size of all files in a cache folder


def cached(folder: Path | None, inputs: Iterable[Any], make: Callable[[], Arrays]) -> Arrays:
    """Read arrays from the cache, or compute them with `make` if the inputs are new.

    Args:
        folder: the folder of the cache, created if it is missing. If None, nothing is cached. If
            the folder cannot be written, or a file in it is damaged, `make` is called.
        inputs: all values that the arrays depend on: arrays, numbers, texts, None.
        make: computes the arrays and returns them by name.

    Cost: a hash of the inputs, a few milliseconds per MB. The cache keeps the most recently used
    files, up to 256 MB.

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
    """Hash the code and all inputs to the name of the cached file, without `.npz`."""
    hasher = hashlib.sha256(_hash_of_code())
    for value in inputs:
        if isinstance(value, np.ndarray):
            type_and_shape = f"{value.dtype.str}{value.shape}"
            hasher.update(type_and_shape.encode() + value.tobytes())
        else:
            hasher.update(f"{value!r};".encode())
    return hasher.hexdigest()[:32]


@cache
def _hash_of_code() -> bytes:
    """Hash the files of the package `sortnet` and the versions of numpy, scipy and torch."""
    versions = " ".join(map(version, ("numpy", "scipy", "torch")))
    hasher = hashlib.sha256(versions.encode())
    package_folder = Path(__file__).parents[1]
    for path in sorted(package_folder.rglob("*.py")):
        hasher.update(path.read_bytes())
    return hasher.digest()


def _read(path: Path) -> Arrays | None:
    """Read the arrays of a cached file; return None if the file is missing or damaged."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception:  # numpy raises many kinds of errors on a damaged file
        return None
    with suppress(OSError):
        os.utime(path)  # the time tells `_remove_oldest` when the file was last used
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    """Write arrays to a file that `_read` can read."""
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _remove_oldest(folder: Path) -> None:
    """Remove the least recently used files until the folder has at most 256 MB."""
    stats = {path: path.stat() for path in folder.iterdir()}
    newest_first = sorted(stats, key=lambda path: stats[path].st_mtime_ns, reverse=True)
    total_size = 0
    for path in newest_first:
        total_size += stats[path].st_size
        if total_size > _MOST_BYTES:
            path.unlink(missing_ok=True)
