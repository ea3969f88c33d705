"""Fits kept on disk, so that the next process need not repeat what takes seconds.

    folder/<hash of all that was fitted>.safetensors

What is kept is found by its inputs, this package's code included, and never is out of date.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import SortNetError
from sortnet.files import write_atomically

Arrays = Mapping[str, NDArray[Any]]
_MOST = 256 * 2**20  # bytes in a folder
_CHECK = "checksum"


def kept(folder: Path | None, inputs: Iterable[Any], make: Callable[[], Arrays]) -> Arrays:
    """The arrays that `make` returns, or returned earlier for the same inputs.

    Args:
        folder: created if it is missing; None: nothing is kept. If it cannot be written, or a file
            in it is damaged, `make` is called as if there were none.
        inputs: what the arrays depend on: arrays, numbers, texts, None.
        make: returns them by name.

    Cost: a hash of the inputs, a few ms per MB; the files used last are kept, 256 MB at most.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [int(kept(Path(folder), ["ten"], lambda: {"x": np.array(x)})["x"]) for x in (10, 11)]
    [10, 10]
    """
    if folder is None:
        return make()
    path = folder / f"{_hash(inputs)}.safetensors"
    found = _read(path)
    if found is None:
        found = make()
        with suppress(OSError, SortNetError):
            folder.mkdir(parents=True, exist_ok=True)
            _write(path, found)
            _clean(folder)
    return found


def _hash(inputs: Iterable[Any]) -> str:
    found = hashlib.sha256(_code())
    for each in inputs:
        found.update(_bytes_of(each))
    return found.hexdigest()[:32]


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str}{value.shape}".encode() + value.tobytes()
    return f"{value!r};".encode()


@cache
def _code() -> bytes:
    """A hash of all that computes: this package's files, and the versions of what it calls."""
    found = hashlib.sha256(" ".join(map(version, ("numpy", "scipy", "torch"))).encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        found.update(path.read_bytes())
    return found.digest()


def _checksum(arrays: Arrays) -> NDArray[Any]:
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(name.encode() + _bytes_of(array))
    return np.frombuffer(found.digest(), np.uint8)


def _read(path: Path) -> Arrays | None:
    """The arrays of a file; None if it is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = {name: array.copy() for name, array in load(path.read_bytes()).items()}
        if not np.array_equal(arrays.pop(_CHECK), _checksum(arrays)):
            return None
    except (OSError, SafetensorError, KeyError, ValueError, TypeError):
        return None
    with suppress(OSError):
        os.utime(path)  # used last
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    from safetensors.numpy import save

    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    raw = save(whole | {_CHECK: _checksum(arrays)})
    write_atomically(path, lambda file: file.write_bytes(raw))


def _clean(folder: Path) -> None:
    """Remove the files that have not been used for longest."""
    files = [(path, path.stat()) for path in folder.iterdir()]
    size = 0
    for path, stat in sorted(files, key=lambda file: -file[1].st_mtime_ns):
        size += stat.st_size
        if size > _MOST:
            path.unlink(missing_ok=True)
