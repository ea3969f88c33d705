"""Access to the database: its URL (SORTNET_STORE), transactions, and errors in one line."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from sortnet.errors import SortNetError, StoreError
from sortnet.files import plain

BUSY_SECONDS = 60
RETRY_SECONDS = 60.0  # in which a server may be restarted
LONGEST_WAIT = 5.0  # seconds between two attempts
T = TypeVar("T")
POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
SECRETS = ("password", "sslpassword")  # parts of a URL's query
# The beginning of a connection string of keywords, which psql takes, or a password in it.
_KEYWORDS = re.compile(
    r"\s*(host|hostaddr|port|dbname|user|service|passfile|sslmode)\s*=|.*\b(ssl)?password\s*=",
    re.IGNORECASE | re.DOTALL,
)


class Database:
    """An engine and its name in messages, which never shows a password.

    Without `write` a SQLite file and its folder stay unchanged.
    """

    def __init__(self, url: str | Path | URL | None = None, *, write: bool = True) -> None:
        self.url = parse_url(url)
        self.name = _name_in_messages(self.url)
        self._retry_seconds = RETRY_SECONDS
        with self._faults():
            self.engine = _engine(self.url, write=write)

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @property
    def exists(self) -> bool:
        """Whether the file exists; assumed for a server."""
        return self.dialect != "sqlite" or Path(self.url.database or "").exists()

    def to_write(self) -> Database:
        """The same database, opened to write."""
        if self.dialect != "sqlite":
            return self
        self.close()
        return Database(self.url)

    def before_reading(self, *statements: str) -> None:
        """Run these statements at the start of every new connection."""

        def begin(connection: Any, _record: Any) -> None:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

        self.close()
        event.listen(self.engine, "connect", begin)

    @contextmanager
    def transaction(self, *, write: bool = False, durable: bool = True) -> Iterator[Connection]:
        """Open a transaction: committed on leaving, rolled back on an error.

        A transaction that is not `durable` does not wait for the disk, and may be lost in a power
        cut. The next durable transaction includes it, so the order of transactions is kept.
        """
        engine = self.engine.execution_options(sortnet_write=write, sortnet_durable=durable)
        with self._faults(), engine.begin() as connection:
            if not durable and self.dialect == "postgresql":
                connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            yield connection

    def retrying(self, work: Callable[[Connection], T], *, write: bool = False) -> T:
        """Run `work` in a transaction, and retry while a server is unavailable.

        `work` must be idempotent: a commit without a reply may have succeeded. A server may be
        away for a minute; after that every call fails at once until it is back.
        """
        last_attempt = time.monotonic() + self._retry_seconds
        wait = 0.1
        while True:
            try:
                with self.transaction(write=write) as connection:
                    result = work(connection)
                self._retry_seconds = RETRY_SECONDS
                return result
            except StoreError as error:
                if not self.is_away(error):
                    raise
                if time.monotonic() > last_attempt:
                    self._retry_seconds = 0.0
                    raise
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def is_away(self, error: StoreError) -> bool:
        """Whether an error of this database means that its server is unavailable for now."""
        cause = error.__cause__
        return self.dialect != "sqlite" and isinstance(cause, InterfaceError | OperationalError)

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
            raise StoreError(f"{self.name}: {self._message(error)}") from error
        except SortNetError:
            raise
        except (ValueError, TypeError, RecursionError) as error:  # a broken date, JSON, ...
            message = _one_line(error)[:120]
            raise StoreError(f"{self.name} holds data SortNet does not write: {message}") from error

    def _message(self, error: SQLAlchemyError) -> str:
        """The driver's message on one line, without any password of the URL."""
        message = _one_line(getattr(error, "orig", None) or error)
        for secret in _secrets(self.url):
            message = message.replace(secret, "***")
        if not message:
            return type(error).__name__
        if "readonly database" in message:
            return "it is read-only here; to write, SQLite needs the file and its folder writable"
        if "no password supplied" in message:
            return f"{message}; give it by PGPASSWORD, ~/.pgpass, SORTNET_STORE or --store"
        return message


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def parse_url(url: str | Path | URL | None = None) -> URL:
    """The URL of a store, from a path, `sqlite:///...` or `postgresql://...`, or the default.

    The default, for None, is the environment's SORTNET_STORE, else `sortnet/sortnet.db` in the
    user's data folder (XDG_DATA_HOME).

    Raises:
        StoreError: on any other URL, and on a connection string such as `host=... password=...`.
            The message shows at most the scheme, never a password.

    >>> parse_url("postgresql://ann:secret@db/sortnet").drivername
    'postgresql+psycopg'
    >>> str(parse_url("runs.db"))
    'sqlite:///runs.db'
    """
    if isinstance(url, URL):
        return url
    if url is None:
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        url = os.environ.get("SORTNET_STORE") or Path(home, "sortnet", "sortnet.db")
    if isinstance(url, Path):
        return URL.create("sqlite", database=str(url))
    if "://" not in url:
        if _KEYWORDS.match(url):
            raise StoreError(
                "a store is a file or a URL, not keywords as host=...: write "
                "postgresql://USER@HOST/DATABASE, and leave the password to PGPASSWORD or ~/.pgpass"
            )
        return URL.create("sqlite", database=url)
    scheme = url.partition("://")[0]
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(f"store URL {scheme}://...: cannot be read as a URL") from None
    if parsed.drivername in POSTGRESQL:
        _refuse_unescaped(url, parsed)
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername != "sqlite":
        raise StoreError(
            f"store URL {scheme}://...: a store is a file, sqlite:///FILE or postgresql://..."
        )
    if parsed.database in (None, "", ":memory:"):
        raise StoreError(f"store URL {url}: names no file; in memory, use MemoryPairs")
    return parsed


def stored_url(url: URL) -> str:
    """The URL to show and store: without passwords, which PGPASSWORD may give.

    >>> stored_url(parse_url("postgresql://ann:secret@db/x?sslmode=require&password=secret"))
    'postgresql+psycopg://ann@db/x?sslmode=require'
    """
    # URL.set(password=None) would not change the URL.
    without_secrets = url._replace(password=None).difference_update_query(SECRETS)
    return without_secrets.render_as_string(hide_password=False)


# The password of a connection string of keywords: quoted, perhaps cut, or up to a space.
_KEYWORD_PASSWORD = re.compile(
    r"(?<![?&\w])((?:ssl)?password\s*=\s*+)(?!\*\*\*)(?:'(?:\\.|[^'\\])*'?|\S+)",
    re.IGNORECASE | re.DOTALL,
)
# The text before the host of a URL, also where a path has merged two slashes to one slash.
_BEGIN = r"((?:://|\bpostgres(?:ql)?(?:\+\w+)?:/)[^:/@]*)"


def without_keyword_passwords(text: str) -> str:
    """Hide the passwords of connection strings in a text, even if the strings are cut.

    >>> without_keyword_passwords("'host=db password=secret user=me': no such file")
    "'host=db password=*** user=me': no such file"
    >>> without_keyword_passwords("host=db sslpassword = 'a secr...")
    'host=db sslpassword = ***'
    """
    return _KEYWORD_PASSWORD.sub(r"\1***", text)


def without_passwords(word: str) -> str:
    """Remove the password of a URL or a connection string from a word, even if cut or malformed.

    >>> without_passwords("--store=postgresql://ann:p@ss/word@db/x?password=secret&a=b")
    '--store=postgresql://ann@db/x?password=&a=b'
    >>> without_passwords("'postgresql://ann:long..."), without_passwords("http://127.0.0.1:80/x")
    ("'postgresql://ann", 'http://127.0.0.1:80/x')
    """
    word = without_keyword_passwords(word)
    word = re.sub(rf"{_BEGIN}:.*@", r"\1@", word, flags=re.DOTALL)
    word = re.sub(rf"{_BEGIN}:(?!\d+\b|\Z).*", r"\1", word, flags=re.DOTALL)  # no port
    return re.sub(rf"([?&](?:{'|'.join(SECRETS)})=)[^&]*", r"\1", word)


def reading_uri(path: Path) -> str:
    """The URI to read a SQLite file without changing the file or its WAL and journal."""
    logs = [path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-journal")]
    if any(log.exists() and log.stat().st_size for log in logs):
        mode = "ro"  # a process writes, or was killed while it wrote: "rw" would remove the logs
    elif os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        mode = "rw"  # a reader of a WAL database makes files, and removes them in this mode only
    else:
        mode = "ro&immutable=1"
    return f"{path.resolve().as_uri()}?mode={mode}"


def utc_now() -> datetime:
    """The time in UTC without a zone, which the tables store."""
    return datetime.now(UTC).replace(tzinfo=None)


def _name_in_messages(url: URL) -> str:
    if url.drivername == "sqlite":
        return f"store {url.database}"
    server = url.host or ""
    if url.port:
        server = f"{server}:{url.port}"
    return f"store postgresql://{server}/{url.database or ''}"


def _refuse_unescaped(text: str, url: URL) -> None:
    """Refuse an ambiguous URL: its parts may be parts of a password."""
    if text.count("@") > 1 or "@" in f"{url.host}{url.database}":
        raise StoreError(
            "store URL postgresql://...: an '@' too many; in a user's name or password write @ as "
            "%40, / as %2F and : as %3A, or leave the password to PGPASSWORD or ~/.pgpass"
        )


def _secrets(url: URL) -> list[str]:
    in_query = [value for name in SECRETS for value in url.normalized_query.get(name, ())]
    return [secret for secret in (url.password, *in_query) if secret]


def _engine(url: URL, *, write: bool) -> Engine:
    options: dict[str, Any] = {
        "hide_parameters": True,
        "json_serializer": lambda value: json.dumps(plain(value), allow_nan=False),
    }
    if url.drivername != "sqlite":
        return create_engine(url, pool_pre_ping=True, **options)
    path = Path(url.database or "")
    if path.is_dir():
        raise StoreError(f"store {path} is a folder: give a file in it, such as sortnet.db")
    if not write:
        return _reading_engine(path, options)
    _make_file(path, _name_in_messages(url))
    engine = create_engine(url, **options)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _reading_engine(path: Path, options: dict[str, Any]) -> Engine:
    """An engine that only reads a SQLite file.

    It connects for each transaction, because another process may have begun or ended to write.
    """

    def connect() -> sqlite3.Connection:
        uri = reading_uri(path)
        return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, **options)
    event.listen(engine, "begin", _begin_reading)
    return engine


def _make_file(path: Path, name: str) -> None:
    """Make an empty file that only its owner may read: it holds the annotators' tokens."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        failed = error.filename or path
        raise StoreError(f"{name}: cannot make {failed}: {error.strerror}") from error


def _begin_reading(connection: Connection) -> None:
    connection.exec_driver_sql("PRAGMA query_only = ON")
    connection.exec_driver_sql("BEGIN")


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions start in `_begin_sqlite`, not in Python
    for pragma in (
        f"busy_timeout = {BUSY_SECONDS * 1000}",
        "journal_mode = WAL",
        # NORMAL survives a kill but not a power cut. FULL costs one fsync a commit, and an
        # iteration commits three times. `_begin_sqlite` chooses between them per transaction.
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # SQLite refuses at once a transaction that starts by reading and then waits for another
    # writer. So a transaction that will write takes the lock at the start.
    options = connection.get_execution_options()
    if not options.get("sortnet_write"):
        connection.exec_driver_sql("BEGIN")
        return
    level = "FULL" if options.get("sortnet_durable", True) else "NORMAL"
    connection.exec_driver_sql(f"PRAGMA synchronous = {level}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")
