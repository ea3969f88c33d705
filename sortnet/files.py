"""Write files so that whoever reads them finds the old content or the new, never a part."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sortnet.errors import SortNetError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place.

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
    """Make a folder where there is none yet; what it stands in must be there.

    Raises:
        SortNetError: if it cannot be made.
    """
    try:
        path.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise SortNetError(f"cannot make {path}: no folder {path.parent}: make it first") from None
    except OSError as error:
        raise SortNetError(f"cannot make {path}: {error.strerror or error}") from None
