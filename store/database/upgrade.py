"""The schema's version: a new or older database is upgraded, a newer one refused.

The schema itself is in `schema`. What an older store lacks of it, tables and columns that may be
NULL, is added by comparing the two; columns that may be NULL by now are made so.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, cast, column, false, inspect, null, select, table, text, true
from sqlalchemy.schema import CreateColumn, CreateTable, Table

from sortnet.errors import StoreError
from store.database.engine import reading_uri
from store.database.schema import Base

# Our own name: a team's database may hold another program's tables.
VERSION_TABLE = "sortnet_schema"
APPLICATION_ID = 0x536F7274  # "Sort": identifies SortNet's files to SQLite
OLDEST, NEWEST = "m0003", "m0015"  # of version 0.1.0; one more with each change of `schema`
LOCK = 0x536F72744E6574  # "SortNet": PostgreSQL's advisory locks are numbers


def upgrade(connection: Connection, *, name: str) -> Path | None:
    """Upgrade the database within the open transaction; returns the copy of the old SQLite file."""
    sqlite = connection.dialect.name == "sqlite"
    if not sqlite:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
    found, copy = look(connection, name=name), None
    if found == NEWEST:
        return None
    if found is not None and sqlite:
        copy = _copied(Path(connection.engine.url.database or ""), found)
    # First: a table that is created below may refer to one that is created again here.
    for new, strict in _strict_columns(connection).items():
        _loosen(connection, new, strict)
    Base.metadata.create_all(connection)
    for new, names in _lacking(connection):
        for each in (each for each in new.columns if each.name not in names):
            added = CreateColumn(each).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {new.name} ADD COLUMN {added}"))
    if found is None:
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{NEWEST}')"))
    connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{NEWEST}'"))
    if sqlite:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    else:  # of 0.1.0: without it pairs are added three times as fast
        dropped = "ALTER TABLE pairs DROP CONSTRAINT IF EXISTS pairs_run_fkey"
        connection.execute(text(dropped))
    return copy


def look(connection: Connection, *, name: str) -> str | None:
    """The schema's revision, or None for an empty database; refuses any other; changes nothing."""
    if connection.dialect.name == "sqlite":
        owner = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if owner not in (0, APPLICATION_ID):
            raise StoreError(f"{name} is another program's (application_id {owner}); give another")
    found = revision(connection)
    if found is None:
        _refuse_foreign(connection, name)
    elif found < OLDEST:
        raise StoreError(f"{name} is of a schema ({found}) from before version 0.1.0 ({OLDEST})")
    elif found > NEWEST:
        raise StoreError(
            f"{name} is of a newer schema ({found}) than this SortNet knows "
            f"({NEWEST}); upgrade SortNet"
        )
    return found


def as_newest(connection: Connection) -> Iterator[str]:
    """Statements that let a connection read an old schema as the newest.

    A temporary view hides each table that lacks columns or does not exist.
    """
    schema = inspect(connection).default_schema_name
    for new, names in _lacking(connection):
        old = table(new.name, *map(column, names), schema=schema)
        columns = [
            old.c[c.name] if c.name in names else cast(null(), c.type).label(c.name)
            for c in new.columns
        ]
        rows = select(*columns).where(true() if names else false())
        query = rows.compile(connection, compile_kwargs={"literal_binds": True})
        yield f"CREATE TEMPORARY VIEW {new.name} AS {query}"


def _lacking(connection: Connection) -> Iterator[tuple[Table, set[str]]]:
    """The tables that lack columns or do not exist, with the names of the columns they have."""
    known = inspect(connection)
    for new in Base.metadata.sorted_tables:
        there = known.get_columns(new.name) if known.has_table(new.name) else ()
        names = {column["name"] for column in there}
        if not names >= {column.name for column in new.columns}:
            yield new, names


def _strict_columns(connection: Connection) -> dict[Table, list[str]]:
    """The columns by table that may be NULL in the schema, but not in the database."""
    inspector = inspect(connection)
    strict: dict[Table, list[str]] = {}
    for new in Base.metadata.sorted_tables:
        stored = inspector.get_columns(new.name) if inspector.has_table(new.name) else ()
        required = {each["name"] for each in stored if not each["nullable"]}
        names = [each.name for each in new.columns if each.nullable and each.name in required]
        if names:
            strict[new] = names
    return strict


def _loosen(connection: Connection, new: Table, names: list[str]) -> None:
    """Let these columns of a table be NULL.

    SQLite cannot change a column: the table is created again, with all columns of the schema, and
    filled. When the old table is dropped, no other one may refer to it, as its rows would go, too.
    """
    if connection.dialect.name != "sqlite":
        for name in names:
            change = f"ALTER TABLE {new.name} ALTER COLUMN {name} DROP NOT NULL"
            connection.execute(text(change))
        return
    begin = f"CREATE TABLE {new.name} "
    create = str(CreateTable(new).compile(dialect=connection.dialect))
    create = create.replace(begin, f"CREATE TABLE new_{new.name} ", 1)
    stored = {each["name"] for each in inspect(connection).get_columns(new.name)}
    shared = ", ".join(each.name for each in new.columns if each.name in stored)
    connection.execute(text(create))
    connection.execute(
        text(f"INSERT INTO new_{new.name} ({shared}) SELECT {shared} FROM {new.name}")
    )
    connection.execute(text(f"DROP TABLE {new.name}"))
    connection.execute(text(f"ALTER TABLE new_{new.name} RENAME TO {new.name}"))
    for index in new.indexes:
        index.create(connection)


def revision(connection: Connection) -> str | None:
    """The schema's revision, or None for a database without one of SortNet's."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _copied(file: Path, found: str) -> Path:
    """Copy a SQLite file into its folder, under an unused name."""
    places = (file.with_name(f"{file.name}.{found}{f'-{k}' if k else ''}") for k in count())
    to = next(place for place in places if not place.exists())
    try:
        os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with (
            closing(sqlite3.connect(reading_uri(file), uri=True)) as source,
            closing(sqlite3.connect(to)) as copy,
        ):
            source.backup(copy)
    except (OSError, sqlite3.Error) as error:
        to.unlink(missing_ok=True)
        raise StoreError(f"store {file}: cannot copy it to {to} to upgrade it: {error}") from error
    return to


def _refuse_foreign(connection: Connection, name: str) -> None:
    known = inspect(connection)
    if taken := sorted(known.get_table_names()) or sorted(known.get_view_names()):
        raise StoreError(f"{name} has a table {taken[0]!r} that is not SortNet's; give another")
