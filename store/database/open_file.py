"""Notice that a SQLite file is removed or replaced while a process has it open."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from sortnet.errors import StoreError

# The device and the number of a file, by which the system identifies the file; None: no such file.
Identity: TypeAlias = tuple[int, int] | None
_LOGS = ("-wal", "-shm")  # SQLite keeps the latest changes in these files beside the database


class OpenFile:
    """A SQLite file that a process has open, while somebody may remove or replace the file.

    SQLite goes on to read and to write the file that it has opened. If the path no longer leads to
    this file, the changes are lost when the process ends, or damage the file that is there now.

    Args:
        path: the file, which exists.
        name: the name of the store in messages.

    Attributes:
        path: the absolute path of the file, as the process may change its folder.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Identify the file that is to be opened."""
        self.path = path.absolute()
        self._name = name
        self._file = _identity(self.path)

    def check(self) -> None:
        """Raise a StoreError unless the path leads to the file that was there at the start."""
        if _identity(self.path) != self._file:
            raise self._fault(self.path)

    def logs(self) -> dict[str, Identity]:
        """Identify the logs of a connection that was just opened, {suffix: identity}."""
        return {suffix: _identity(self._log(suffix)) for suffix in _LOGS}

    def check_logs(self, logs: dict[str, Identity]) -> None:
        """Raise a StoreError unless the path leads to the file and to these logs.

        SQLite removes the logs only after all connections are closed, so the logs of an open
        connection stay the same.
        """
        self.check()
        for suffix, identity in logs.items():
            log = self._log(suffix)
            if identity is not None and _identity(log) != identity:
                raise self._fault(log)

    def _log(self, suffix: str) -> Path:
        """Return the path of a log, which is beside the file that a link leads to."""
        file = self.path.resolve()
        return file.with_name(f"{file.name}{suffix}")

    def _fault(self, path: Path) -> StoreError:
        """Make the error about a file that is missing or another file now."""
        change = "removed" if _identity(path) is None else "replaced"
        return StoreError(
            f"{self._name}: {path.name} was {change} while it was in use, so nothing more is "
            "stored; put the file back, or start the command again"
        )


def _identity(path: Path) -> Identity:
    """Identify the file at a path, after all links."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
