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
    """The arrays that `make` returns, or returned earlier for the same inputs.

    Args:
        folder: created if it is missing; None: nothing is cached. If it cannot be written, or a
            file in it is damaged, `make` is called as if there were no folder.
        inputs: all that the arrays depend on: arrays, numbers, texts, None.
        make: returns the arrays by name.

    Cost: a hash of the inputs, a few ms per MB; the files used last are kept, 256 MB at most.

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
    """A hash of the code and of all inputs."""
    hasher = hashlib.sha256(_hash_of_code())
    for value in inputs:
        if isinstance(value, np.ndarray):
            hasher.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
        else:
            hasher.update(f"{value!r};".encode())
    return hasher.hexdigest()[:32]


@cache
def _hash_of_code() -> bytes:
    """A hash of this package's files and of the versions of the libraries that compute for it."""
    hasher = hashlib.sha256(" ".join(map(version, ("numpy", "scipy", "torch"))).encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        hasher.update(path.read_bytes())
    return hasher.digest()


def _read(path: Path) -> Arrays | None:
    """The arrays of a file; None if it is missing, or damaged by its CRC."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception:  # a damaged file raises many kinds
        return None
    with suppress(OSError):
        os.utime(path)  # used last
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _remove_oldest(folder: Path) -> None:
    """Remove the files that have not been used for longest, if the folder is too large."""
    files = [(path, path.stat()) for path in folder.iterdir()]
    size = 0
    for path, stat in sorted(files, key=lambda file: -file[1].st_mtime_ns):
        size += stat.st_size
        if size > _MOST_BYTES:
            path.unlink(missing_ok=True)
