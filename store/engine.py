"""One way to any database: its URL, its settings, its transactions, and its faults in one line."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError, SQLAlchemyError

from sortnet.errors import StoreError

BUSY_SECONDS = 60
AWAY_SECONDS = 60.0  # in which a server may be started again
LONGEST_WAIT = 5.0
T = TypeVar("T")
POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


class Database:
    """An engine and the name that messages call it by, which never shows a password."""

    def __init__(self, url: str | Path | None = None) -> None:
        self._url = parse_url(url)
        self.name = _shown(self._url)
        self._patience = AWAY_SECONDS
        with self._faults():
            self.engine = _engine(self._url)

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @contextmanager
    def transaction(self, *, write: bool = False, durable: bool = True) -> Iterator[Connection]:
        """One transaction: all of it on leaving, nothing of it on an error.

        Args:
            write: whether it will write.
            durable: whether it must survive a power cut; else it does not wait for the disk. The
                next durable one takes it along, so nothing is kept without what came before it.

        Raises:
            StoreError: for whatever the database says.
        """
        engine = self.engine.execution_options(sortnet_write=write, sortnet_durable=durable)
        with self._faults(), engine.begin() as connection:
            if not durable and self.dialect == "postgresql":
                connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            yield connection

    def lasting(self, work: Callable[[Connection], T], *, write: bool = False) -> T:
        """What `work` does in a transaction, again and again while a server is away.

        Only for what may be done twice: a commit that nobody answered may have been one.

        Raises:
            StoreError: for whatever the database says, of a server after a minute; then at once,
                until it is there again.
        """
        until, wait = time.monotonic() + self._patience, 0.1
        while True:
            try:
                with self.transaction(write=write) as connection:
                    done = work(connection)
                self._patience = AWAY_SECONDS
                return done
            except StoreError as error:
                away = isinstance(error.__cause__, (InterfaceError, OperationalError))
                if self.dialect == "sqlite" or not away:
                    raise
                if time.monotonic() > until:
                    self._patience = 0.0
                    raise
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise StoreError(
                f"{self.name} needs the driver psycopg: pip install 'sortnet[postgresql]'"
            ) from error
        except SQLAlchemyError as error:
            raise StoreError(f"{self.name}: {self._line(error)}") from error

    def _line(self, error: SQLAlchemyError) -> str:
        """The driver's own words on one line, without any password of the URL."""
        words = " ".join(str(getattr(error, "orig", None) or error).split())
        for secret in _secrets(self._url):
            words = words.replace(secret, "***")
        return words or type(error).__name__


def parse_url(url: str | Path | None = None) -> URL:
    """A store's URL: of a path, `sqlite:///...` or `postgresql://...`, or of where none is given.

    None is what the environment's SORTNET_STORE says, else `sortnet/sortnet.db` in the user's
    data folder (XDG_DATA_HOME).

    Raises:
        StoreError: on any other URL; the message shows the scheme only, no password.

    >>> parse_url("postgresql://ann:secret@db/sortnet").drivername
    'postgresql+psycopg'
    >>> str(parse_url("runs.db"))
    'sqlite:///runs.db'
    """
    if url is None:
        url = os.environ.get("SORTNET_STORE") or _data_home() / "sortnet" / "sortnet.db"
    if isinstance(url, Path) or "://" not in url:
        return URL.create("sqlite", database=str(url))
    scheme = url.partition("://")[0]
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(f"store URL {scheme}://...: cannot be read as a URL") from None
    if parsed.drivername in POSTGRESQL:
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername != "sqlite":
        raise StoreError(
            f"store URL {scheme}://...: a store is a file, sqlite:///FILE or postgresql://..."
        )
    if parsed.database in (None, "", ":memory:"):
        raise StoreError(f"store URL {url}: names no file; in memory, use MemoryPairs")
    return parsed


def plain(value: Any) -> Any:
    """What JSON can hold of a value: numpy's numbers as Python's, NaN and infinity as None.

    >>> plain({"map": float("nan"), "path": Path("a")})
    {'map': None, 'path': 'a'}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


def _shown(url: URL) -> str:
    if url.drivername == "sqlite":
        return f"store {url.database}"
    place = f"{url.host or ''}{f':{url.port}' if url.port else ''}"
    return f"store postgresql://{place}/{url.database or ''}"


def _secrets(url: URL) -> list[str]:
    query = url.query.get("password", ())
    return [
        secret
        for secret in (url.password, *([query] if isinstance(query, str) else query))
        if secret
    ]


def _engine(url: URL) -> Engine:
    options: dict[str, Any] = {
        "hide_parameters": True,
        "json_serializer": lambda value: json.dumps(plain(value), allow_nan=False),
    }
    if url.drivername != "sqlite":
        return create_engine(url, pool_pre_ping=True, **options)
    _make_parents(url)
    engine = create_engine(url, **options)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_parents(url: URL) -> None:
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{_shown(url)}: cannot make {folder}: {error.strerror}") from error


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins, not Python's guess
    for pragma in (
        f"busy_timeout = {BUSY_SECONDS * 1000}",
        "journal_mode = WAL",
        # NORMAL survives a kill but not a power cut. FULL costs one fsync a commit, and an
        # iteration commits three times. `_begin_sqlite` says which for every transaction.
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins by reading cannot wait for another's writing to end (SQLite
    # refuses it at once), so one that will write says so at the start.
    options = connection.get_execution_options()
    if not options.get("sortnet_write"):
        connection.exec_driver_sql("BEGIN")
        return
    level = "FULL" if options.get("sortnet_durable", True) else "NORMAL"
    connection.exec_driver_sql(f"PRAGMA synchronous = {level}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")
