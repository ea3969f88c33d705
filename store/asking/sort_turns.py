"""Let one `sortnet.sort` at a time work on a collection; other calls wait until it ends.

In PostgreSQL the database holds the lock, and beside a SQLite file a file of its own does. A lock
ends with the process, also if the process is killed.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import func, select

from sortnet.core import Progress
from sortnet.errors import StoreError
from store.database.engine import Database

_WAIT = 0.2  # seconds between two attempts to lock


@contextmanager
def turn_to_sort(database: Database, collection: str, progress: Progress) -> Iterator[None]:
    """Wait until no other `sort` works on a collection, and keep others out in a `with` block.

    Args:
        database: the database of the store.
        collection: name of the collection, which need not exist yet.
        progress: called with a text if the call has to wait.
    """
    lock = _server_lock if database.dialect == "postgresql" else _file_lock
    digest = hashlib.sha256(collection.encode()).hexdigest()
    with lock(database, digest) as attempt:
        is_waiting = False
        while not attempt():
            if not is_waiting:
                progress(f"waiting for another sort of the collection {collection!r}")
            is_waiting = True
            time.sleep(_WAIT)
        yield


@contextmanager
def _server_lock(database: Database, digest: str) -> Iterator[Callable[[], bool]]:
    """Yield a function that tries to take an advisory lock of PostgreSQL, until the block ends."""
    key = int(digest[:15], 16)  # fits into 64 bits
    with database.engine.connect() as pooled:
        connection = pooled.execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # closing the connection ends its locks, too
        yield lambda: bool(connection.execute(select(func.pg_try_advisory_lock(key))).scalar())


@contextmanager
def _file_lock(database: Database, digest: str) -> Iterator[Callable[[], bool]]:
    """Yield a function that tries to lock a file beside the store; remove the file at the end.

    If the system or the file system has no locks of files, nothing is locked.

    Raises:
        StoreError: if the file cannot be made.
    """
    try:
        import fcntl
    except ImportError:
        yield lambda: True
        return
    store = Path(database.url.database or "").resolve()
    path = store.with_name(f"{store.name}-sort-{digest[:12]}")
    handles: list[int] = []

    def attempt() -> bool:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(f"{database.name}: cannot make {path}: {error.strerror}") from error
        handles.append(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = _is_file(handle, path)  # the call before may have removed the file
        except BlockingIOError:
            is_locked = False
        except OSError:
            is_locked = True  # the file system has no locks
        if not is_locked:
            os.close(handles.pop())
        return is_locked

    try:
        yield attempt
    finally:
        for handle in handles:
            with suppress(OSError):
                path.unlink()
            os.close(handle)


def _is_file(handle: int, path: Path) -> bool:
    """Whether an open file still has its path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
