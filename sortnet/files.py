"""Files: open them with one kind of error, fingerprint them, write them atomically."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from sortnet.errors import DataError, SortNetError

_PIECE = 1 << 16
_PIECES = 16


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error of reading a file into a DataError of one line."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, not a file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: the compressed file is cut or damaged: {error}") from None
    except MemoryError:
        raise DataError(f"{path}: does not fit into memory") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def open_bytes(path: Path) -> BinaryIO:
    """Open a file, decompressed if its first bytes or its name say gzip."""
    file = path.open("rb")
    magic = file.read(2)
    file.seek(0)
    if magic == b"\x1f\x8b" or path.suffix == ".gz":
        file.close()
        return cast(BinaryIO, gzip.open(path, "rb"))
    return file


def fingerprint(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, as `sha256sum` prints it, for the record of a run.

    Raises:
        DataError: if the file cannot be read.

    Cost: about a second for 1 GB.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     fingerprint(file.name)[:12]
    'e3b0c44298fc'
    """
    path = Path(path)
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sample_hash(path: Path) -> str:
    """A hash of samples spread over a file, including both ends; reads at most 1 MB."""
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    step = max(_PIECE, (size - _PIECE) // (_PIECES - 1))
    with path.open("rb") as file:
        for start in range(0, size, step):
            file.seek(min(start, max(0, size - _PIECE)))
            digest.update(file.read(_PIECE))
    return digest.hexdigest()


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`.

    Raises:
        SortNetError: if the disk is full or the folder cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise SortNetError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def make_folder(path: Path) -> None:
    """Make a folder if there is none yet; its parent folder must exist.

    Raises:
        SortNetError: if it cannot be made.
    """
    try:
        path.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise SortNetError(f"cannot make {path}: no folder {path.parent}: make it first") from None
    except OSError as error:
        raise SortNetError(f"cannot make {path}: {error.strerror or error}") from None
