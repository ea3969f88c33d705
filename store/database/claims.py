"""Claims: names in a store that a process holds for as long as it lives.

A running run, a served collection, a process that asks questions and a call of `sort` are claims.
PostgreSQL holds a claim as an advisory lock of a session of its own. Beside a SQLite file, a locked
file of the claim's name is the claim. The system ends both locks with the process, also if the
process is killed, so nobody has to guess from a process number or a time whether it still lives.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from glob import escape
from pathlib import Path

from sqlalchemy import Connection, Engine, func, text
from sqlalchemy.exc import SQLAlchemyError

from sortnet.errors import StoreError

_ATTEMPTS = 4  # a process that asks whether a claim is held locks the file for a moment
_WAIT = 0.05  # seconds between two attempts
# The server ends the session of a machine that is gone after 30 + 3 * 10 seconds, not two hours.
_KEEPALIVES = (
    "SELECT set_config('tcp_keepalives_idle', '30', false), "
    "set_config('tcp_keepalives_interval', '10', false), "
    "set_config('tcp_keepalives_count', '3', false)"
)
_KEY_OF_NAME = func.hashtextextended(text(":name"), 0)  # the statement gets the parameter `name`
_IS_HELD = text(
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database "
    "WHERE locktype = 'advisory' AND granted AND datname = current_database() "
    "AND (classid::bigint << 32) + objid::bigint = hashtextextended(:name, 0)"
)


class Claims:
    """The claims of a process in one database.

    Args:
        engine: the engine of the database.
        file: the file of a SQLite database; None: the database is on a server.
        as_store_errors: makes a context that raises errors of the database as a StoreError.
    """

    def __init__(
        self,
        engine: Engine,
        file: Path | None,
        as_store_errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Store the arguments, which the class describes; nothing is claimed yet."""
        self._engine = engine
        self._file = None if file is None else file.resolve()
        self._as_store_errors = as_store_errors
        # {name: function that ends the claim}; {name: session of a claim in PostgreSQL}
        self._end_of_claim: dict[str, Callable[[], None]] = {}
        self._sessions: dict[str, Connection] = {}
        self._process = f"process-{secrets.token_hex(8)}"
        self._lock = threading.Lock()

    def take(self, name: str) -> bool:
        """Claim a name; return False if a process, which may be this process, holds the name.

        Raises:
            StoreError: if the server cannot be reached, or no file can be made.
        """
        if name in self._end_of_claim:
            return False
        if self._file is None:
            return self._take_in_server(name)
        return self._take_in_file(self._file, name)

    def keep(self, name: str) -> bool:
        """Claim a name unless this process has the claim; return False if another process has it.

        A claim is lost if the server of PostgreSQL is restarted, and taken again here.
        """
        session = self._sessions.get(name)
        try:
            if session is not None:
                session.exec_driver_sql("SELECT 1")
        except SQLAlchemyError:
            self.drop(name)
        return name in self._end_of_claim or self.take(name)

    def drop(self, name: str) -> None:
        """End a claim of this process; without the claim nothing happens."""
        end_claim = self._end_of_claim.pop(name, None)
        self._sessions.pop(name, None)
        if end_claim is not None:
            with suppress(SQLAlchemyError):  # the server is away, and has ended the session
                end_claim()

    def close(self) -> None:
        """End all claims of this process."""
        for name in tuple(self._end_of_claim):
            self.drop(name)

    def is_held(self, name: str) -> bool:
        """Whether a process, which may be this process, holds a name; nothing is written."""
        if self._file is not None:
            return _is_locked(_file_of(self._file, name))
        with self._as_store_errors(), self._engine.connect() as connection:
            return bool(connection.execute(_IS_HELD, {"name": name}).scalar_one())

    @property
    def process(self) -> str:
        """A name of this process, which is claimed when it is first read.

        Raises:
            StoreError: as `take`.
        """
        with self._lock:  # several threads may ask questions
            self.keep(self._process)
        return self._process

    def _take_in_file(self, database: Path, name: str) -> bool:
        """Claim a name by locking its file; remove the files that killed processes have left."""
        _remove_free_files(database)
        path = _file_of(database, name)
        for _ in range(_ATTEMPTS):
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                fault = f"cannot make {path}: {error.strerror}"
                raise StoreError(f"store {database}: {fault}") from error
            if lock(handle) and _is_file(handle, path):  # its last owner may have removed the file
                self._end_of_claim[name] = partial(_remove_and_close, path, handle)
                return True
            os.close(handle)
            time.sleep(_WAIT)
        return False

    def _take_in_server(self, name: str) -> bool:
        """Claim a name in PostgreSQL: open a session, and lock the name in it."""
        with self._as_store_errors():
            session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            session.detach()  # the session has a lock, so it must not go back to the pool
            session.exec_driver_sql(_KEEPALIVES)
            is_taken: bool = session.execute(
                func.pg_try_advisory_lock(_KEY_OF_NAME), {"name": name}
            ).scalar_one()
        if is_taken:
            self._end_of_claim[name] = session.close
            self._sessions[name] = session
        else:
            session.close()
        return is_taken


def lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed; return False if another process has done so.

    If the system or the file system has no locks, the file counts as locked by this process.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # the file system has no locks
    return True


def _file_of(database: Path, name: str) -> Path:
    """Return the file beside a SQLite file that is locked while the name is claimed."""
    return database.with_name(f"{database.name}-{name}.lock")


def _remove_free_files(database: Path) -> None:
    """Remove the files of claims beside a SQLite file that no process has locked."""
    for path in database.parent.glob(f"{escape(database.name)}-*-*.lock"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR)
            if lock(handle):
                path.unlink()
            os.close(handle)


def _is_locked(path: Path) -> bool:
    """Whether a process has locked a file, which may be missing."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not lock(handle)
    finally:
        os.close(handle)


def _is_file(handle: int, path: Path) -> bool:
    """Whether an open file still has its path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


def _remove_and_close(path: Path, handle: int) -> None:
    """Remove a locked file, and end its lock."""
    with suppress(OSError):
        path.unlink()
    os.close(handle)
