"""Open the database of a store by its URL, and run transactions.

Errors are raised as a StoreError, with a message of one line.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from sortnet.errors import SortNetError, StoreError
from sortnet.files import plain, user_folder
from store.database.claims import Claims

BUSY_SECONDS = 60
_WAIT_FOR_WAL = 0.05  # seconds between two attempts to switch to WAL
# {end of the name of a SQLite file or its log: the device and number that identify the file}
# A file, `sqlite:///FILE` or `postgresql://...`; None: the environment's SORTNET_STORE, or else a
# file in the user's data folder.
StoreAddress: TypeAlias = str | Path | URL | None
_Files: TypeAlias = dict[str, tuple[int, int]]
_FILES = "sortnet_files"  # key of the files that a connection to SQLite writes
SECRETS = ("password", "sslpassword")  # secret parameters in the query of a URL
# Matches a text such as "host=db user=me", which psql accepts, by its first keyword or a password.
_KEYWORDS = re.compile(
    r"\s*(host|hostaddr|port|dbname|user|service|passfile|sslmode)\s*=|.*\b(ssl)?password\s*=",
    re.IGNORECASE | re.DOTALL,
)


class Database:
    """A database, which is opened to read or to write by an engine of SQLAlchemy.

    Opened without `write`, it leaves a SQLite file and its folder unchanged.

    Attributes:
        url: the URL.
        name: the name of the database in messages, which never shows a password.
        engine: the engine.
        claims: the names that this process holds for as long as it lives.
    """

    def __init__(self, url: StoreAddress = None, *, write: bool = True) -> None:
        """Make the engine of the database at a path or URL; None: at the default store."""
        self.url = parse_url(url)
        without_user = self.url.set(drivername="postgresql", query={})._replace(
            username=None, password=None
        )
        is_sqlite = self.url.drivername == "sqlite"
        self.name = f"store {self.url.database if is_sqlite else without_user}"
        # The transaction of each thread that reads one state of the database, if one is open.
        self._snapshot = threading.local()
        self._file: Path | None = None  # the file of SQLite
        with self._as_store_errors():
            if is_sqlite:
                self._file = Path(self.url.database or "").absolute()
                self.engine = self._sqlite_engine(self._file, write=write)
            else:
                self.engine = create_engine(self.url, pool_pre_ping=True, **_ENGINE_OPTIONS)
        self.claims = Claims(self.engine, self._file, self._as_store_errors)

    @property
    def dialect(self) -> str:
        """The kind of database: `sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @property
    def exists(self) -> bool:
        """Whether the SQLite file exists; always true for a server."""
        return self._file is None or self._file.exists()

    @contextmanager
    def transaction(self, *, write: bool = False, durable: bool = True) -> Iterator[Connection]:
        """Open a transaction in a `with` block; it is committed, or rolled back on an error.

        All statements of a transaction that only reads see the same state of the database. Within
        `one_state` it is a part of the transaction that is open already.

        A transaction that is not `durable` does not wait for the disk, and may be lost in a power
        cut. The next durable transaction saves earlier transactions too, so their order is kept.
        """
        one_state: Connection | None = getattr(self._snapshot, "connection", None)
        if one_state is not None:
            if write:
                raise RuntimeError("while one state of the database is read, nothing is written")
            yield one_state
            return
        options: dict[str, Any] = {"sortnet_write": write, "sortnet_durable": durable}
        if not write and self.dialect == "postgresql":
            # By default each statement sees what other processes have committed before it.
            options["isolation_level"] = "REPEATABLE READ"
        engine = self.engine.execution_options(**options)
        with self._as_store_errors(), engine.connect() as connection:
            with connection.begin():
                if not durable and self.dialect == "postgresql":
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                yield connection
                self._refuse_changed(connection.info)
            # The file may have been removed during the commit. Nobody may rely on what is lost.
            self._refuse_changed(connection.info)

    @contextmanager
    def one_state(self) -> Iterator[Connection]:
        """Let all reads of this thread in a `with` block see the same state of the database.

        Nothing can be written in the block.
        """
        with self.transaction() as connection:
            outer = getattr(self._snapshot, "connection", None)
            self._snapshot.connection = connection
            try:
                yield connection
            finally:
                self._snapshot.connection = outer

    def check_file(self) -> None:
        """Raise a StoreError if the SQLite file that was opened to write was removed or replaced.

        Each transaction is checked, too. Call this before reporting what was stored earlier.
        """
        with self.transaction():
            pass  # the end of the transaction checks the file

    def close(self) -> None:
        """End the claims of this process, and close all connections."""
        self.claims.close()
        self.engine.dispose()

    def _refuse_changed(self, facts: Mapping[str, Any]) -> None:
        """Raise a StoreError if a SQLite file that a connection writes was removed or replaced.

        SQLite goes on to read and to write the file that it has opened. If the path no longer leads
        to this file, the changes are lost when the process ends, or damage the file that is there
        now.

        Args:
            facts: facts about the connection.
        """
        if self._file is None or _FILES not in facts:
            return
        files_now = _identified(self._file)
        for suffix, identity in facts[_FILES].items():
            if files_now.get(suffix) != identity:
                change = "replaced" if suffix in files_now else "removed"
                raise StoreError(
                    f"{self.name}: {self._file.name}{suffix} was {change} while it was in use, so "
                    "nothing more is stored; put the file back, or start the command again"
                )

    def _sqlite_engine(self, path: Path, *, write: bool) -> Engine:
        """Make the engine of a SQLite file; an engine that writes creates the file if necessary.

        An engine that reads opens a connection for each transaction, because the mode of reading
        depends on whether another process writes at this time.
        """
        if path.is_dir():
            raise StoreError(f"{self.name} is a folder: give a file in it, such as sortnet.db")
        if write:
            self._make_file(path)
        # What is remembered of a file is a dict by suffix: "" is the file itself, -wal and -shm are
        # its logs, which a connection makes.
        file_facts = {_FILES: {"": _identified(path).get("")}}

        def connect() -> sqlite3.Connection:
            # Without an isolation level, Python's driver begins no transactions: `_begin` does.
            options: dict[str, Any] = {"timeout": BUSY_SECONDS, "isolation_level": None}
            if not write:
                connection: sqlite3.Connection = sqlite3.connect(
                    reading_uri(path), uri=True, **options
                )
                connection.execute("PRAGMA query_only = ON")
                return connection
            # SQLite opens the file that is there, and makes none if it was removed.
            self._refuse_changed(file_facts)
            uri = f"{path.as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False, **options)
            _switch_to_wal(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("SELECT count(*) FROM sqlite_master")  # opens the logs
            return connection

        def remember_files(connection: object, record: Any) -> None:
            record.info[_FILES] = _identified(path) | file_facts[_FILES]

        pool = QueuePool if write else NullPool
        engine = create_engine("sqlite://", creator=connect, poolclass=pool, **_ENGINE_OPTIONS)
        event.listen(engine, "begin", _begin)
        if write:
            event.listen(engine, "connect", remember_files)
        return engine

    def _make_file(self, path: Path) -> None:
        """Create an empty file that only its owner may read, because it will have secret tokens."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            failed_path = error.filename or path
            raise StoreError(f"{self.name}: cannot make {failed_path}: {error.strerror}") from error

    @contextmanager
    def _as_store_errors(self) -> Iterator[None]:
        """Raise errors of the database and its driver in the `with` block as a StoreError.

        The message names the database.
        """
        try:
            yield
        except ImportError as error:
            raise StoreError(
                f"{self.name} needs the driver psycopg: pip install 'sortnet[postgresql]'"
            ) from error
        except SQLAlchemyError as error:
            raise StoreError(f"{self.name}: {self._message(error)}") from error
        except SortNetError:
            raise  # an error of SortNet may be a ValueError too, and keeps its message
        except UnicodeEncodeError as error:
            text = ascii(error.object)[:120]
            raise StoreError(
                f"{self.name}: {text} is no text in UTF-8, and is not stored"
            ) from error
        except (ValueError, TypeError, RecursionError) as error:  # such as a damaged date or JSON
            message = _one_line(error)[:120]
            raise StoreError(f"{self.name} holds data SortNet does not write: {message}") from error

    def _message(self, error: SQLAlchemyError) -> str:
        """Return the driver's message on one line, without any password of the URL."""
        driver_error = getattr(error, "orig", None)
        message = _one_line(driver_error or error)
        passwords = [self.url.password]
        for name in SECRETS:
            passwords += self.url.normalized_query.get(name, ())
        for password in filter(None, passwords):
            message = message.replace(password, "***")
        if not message:
            return type(error).__name__
        if "readonly database" in message:
            return "it is read-only here; to write, SQLite needs the file and its folder writable"
        if "no password supplied" in message:
            return f"{message}; give it by PGPASSWORD, ~/.pgpass, SORTNET_STORE or --store"
        return message


_ENGINE_OPTIONS: dict[str, Any] = {
    "hide_parameters": True,
    "json_serializer": lambda value: json.dumps(plain(value), allow_nan=False),
}


def _one_line(error: BaseException) -> str:
    """Return the message of an error with all white space replaced by single spaces."""
    return " ".join(str(error).split())


def parse_url(url: StoreAddress = None) -> URL:
    """Make the URL of a store from a path or a text.

    Args:
        url: a path of a file, `sqlite:///...` or `postgresql://...`. If None, the environment's
            SORTNET_STORE, else `sortnet/sortnet.db` in the user's data folder (XDG_DATA_HOME).

    Raises:
        StoreError: on any other URL, and on a connection string such as `host=... password=...`.
            The message shows at most the scheme, never a password. Also if the user has no home
            folder.

    >>> parse_url("postgresql://ann:secret@db/sortnet").drivername
    'postgresql+psycopg'
    >>> str(parse_url("runs.db"))
    'sqlite:///runs.db'
    """
    if isinstance(url, URL):
        return url
    path_or_text = _default_store() if url is None else url
    if isinstance(path_or_text, Path):
        return URL.create("sqlite", database=str(path_or_text))
    if "://" in path_or_text:
        return _parse_text(path_or_text)
    if _KEYWORDS.match(path_or_text):
        raise StoreError(
            "a store is a file or a URL, not keywords as host=...: write "
            "postgresql://USER@HOST/DATABASE, and leave the password to PGPASSWORD or ~/.pgpass"
        )
    return URL.create("sqlite", database=path_or_text)


def _default_store() -> Path | str:
    """Return the store in the variable SORTNET_STORE, or the file in the user's data folder."""
    named_store = os.environ.get("SORTNET_STORE")
    if named_store:
        return named_store
    folder = user_folder("XDG_DATA_HOME", ".local/share")
    if folder is None:
        raise StoreError(
            "no home folder to keep the store in: set HOME or XDG_DATA_HOME, or name a store with "
            "--store or SORTNET_STORE"
        )
    return folder / "sortnet" / "sortnet.db"


def _parse_text(text: str) -> URL:
    """Parse a text such as `sqlite:///...` or `postgresql://...`.

    Raises:
        StoreError: on any other URL; the message never shows a password.
    """
    scheme, _, _ = text.partition("://")
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise StoreError(f"store URL {scheme}://...: cannot be read as a URL") from None
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        _refuse_unescaped(text, url)
        return url.set(drivername="postgresql+psycopg")
    if url.drivername != "sqlite":
        raise StoreError(
            f"store URL {scheme}://...: a store is a file, sqlite:///FILE or postgresql://..."
        )
    if url.database in (None, "", ":memory:"):
        raise StoreError(f"store URL {text}: names no file; in memory, use MemoryPairs")
    return url


def stored_url(url: URL) -> str:
    """Return a URL as a text to show and to store, without its passwords.

    >>> stored_url(parse_url("postgresql://ann:secret@db/x?sslmode=require&password=secret"))
    'postgresql+psycopg://ann@db/x?sslmode=require'
    """
    # `URL.set(password=None)` would keep the password.
    without_secrets = url._replace(password=None).difference_update_query(SECRETS)
    if url.database is not None:
        # A file name may have bytes that are no UTF-8, or letters that the locale has not.
        raw_name = url.database.encode(errors="surrogateescape")
        name = raw_name.decode(errors="backslashreplace")
        without_secrets = without_secrets._replace(database=name)
    return without_secrets.render_as_string(hide_password=False)


# Matches the password in a text such as "host=db password='secret'". A quoted password may lack
# its last quote, because texts are cut; a password without quotes ends at a space.
_KEYWORD_PASSWORD = re.compile(
    r"(?<![?&\w])((?:ssl)?password\s*=\s*+)(?!\*\*\*)(?:'(?:\\.|[^'\\])*'?|\S+)",
    re.IGNORECASE | re.DOTALL,
)
# Matches the start of a URL, up to the user's name. There may be only one slash after the colon,
# because `Path` merges two slashes.
_URL_TO_USER = r"((?:://|\bpostgres(?:ql)?(?:\+\w+)?:/)[^:/@]*)"
# Matches a URL up to the host. The password may have an @ itself, so it ends at the last @.
_URL_TO_HOST = re.compile(rf"{_URL_TO_USER}:.*@", re.DOTALL)
# Matches a URL that was cut before its host. Text after the second colon is a password, unless it
# is the number of a port.
_URL_WITHOUT_HOST = re.compile(rf"{_URL_TO_USER}:(?!\d+\b|\Z).*", re.DOTALL)
_PASSWORD_PARAMETER = re.compile(rf"([?&](?:{'|'.join(SECRETS)})=)[^&]*")


def without_keyword_passwords(text: str) -> str:
    """Hide the passwords of connection strings in a text, even if a string is cut short.

    >>> without_keyword_passwords("'host=db password=secret user=me': no such file")
    "'host=db password=*** user=me': no such file"
    >>> without_keyword_passwords("host=db sslpassword = 'a secr...")
    'host=db sslpassword = ***'
    """
    return _KEYWORD_PASSWORD.sub(r"\1***", text)


def without_passwords(word: str) -> str:
    """Remove the passwords of a URL or a connection string from a word.

    The URL may be cut short or malformed.

    >>> without_passwords("--store=postgresql://ann:p@ss/word@db/x?password=secret&a=b")
    '--store=postgresql://ann@db/x?password=&a=b'
    >>> without_passwords("'postgresql://ann:long..."), without_passwords("http://127.0.0.1:80/x")
    ("'postgresql://ann", 'http://127.0.0.1:80/x')
    """
    word = without_keyword_passwords(word)
    word = _URL_TO_HOST.sub(r"\1@", word)
    word = _URL_WITHOUT_HOST.sub(r"\1", word)
    return _PASSWORD_PARAMETER.sub(r"\1", word)


def reading_uri(path: Path) -> str:
    """Return a URI with which SQLite reads a file, but changes neither the file nor its logs."""
    logs = [path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-journal")]
    if any(log.exists() and log.stat().st_size for log in logs):
        # Another process is writing, or was killed while writing, and the logs have its changes.
        # The mode "rw" would remove the logs.
        mode = "ro"
    elif os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        # Reading a WAL database creates files, which SQLite removes again only in this mode.
        mode = "rw"
    else:
        # SQLite cannot create the files of a WAL here, and reads without them in this mode.
        mode = "ro&immutable=1"
    return f"{path.resolve().as_uri()}?mode={mode}"


def utc_now() -> datetime:
    """Return the present time in UTC without a time zone, as the tables store times."""
    return datetime.now(UTC).replace(tzinfo=None)


def _refuse_unescaped(text: str, url: URL) -> None:
    """Refuse a URL that was misread: its user's name or password has an unescaped @ or /.

    The only @ of a URL ends the user's name and password. A second @, or an @ in the host or the
    database, means that the URL was split at a wrong place. Messages might then show a part of the
    password as the host or the database.

    Args:
        text: the URL as the user wrote it.
        url: the URL as SQLAlchemy read it.
    """
    has_second_at = text.count("@") > 1
    is_at_misplaced = any("@" in part for part in (url.host or "", url.database or ""))
    if has_second_at or is_at_misplaced:
        raise StoreError(
            "store URL postgresql://...: an '@' too many; in a user's name or password write @ as "
            "%40, / as %2F and : as %3A, or leave the password to PGPASSWORD or ~/.pgpass"
        )


def _switch_to_wal(connection: Any) -> None:
    """Let the database have a log of changes (WAL), beside which others can read.

    The first switch needs the file alone. SQLite does not wait for a process that makes the same
    store, but raises an error at once, so the waiting is done here.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(_WAIT_FOR_WAL)


def _identified(path: Path) -> _Files:
    """Identify a SQLite file and its logs, which are beside the file that a link leads to."""
    files: _Files = {}
    target = path.resolve()
    for suffix in ("", "-wal", "-shm"):  # SQLite keeps the latest changes in the logs
        with suppress(OSError):
            status = Path(f"{target}{suffix}").stat()
            files[suffix] = status.st_dev, status.st_ino
    return files


def _begin(connection: Connection) -> None:
    """Begin a transaction of SQLite; a transaction that will write takes the lock at its start.

    A transaction that starts by reading could not wait for the lock of another writer later: SQLite
    would refuse it at once.
    """
    options = connection.get_execution_options()
    if not options.get("sortnet_write"):
        connection.exec_driver_sql("BEGIN")
        return
    # With NORMAL, the last commits survive a killed process but not a power cut. FULL waits for the
    # disk at each commit.
    level = "FULL" if options.get("sortnet_durable", True) else "NORMAL"
    connection.exec_driver_sql(f"PRAGMA synchronous = {level}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")
