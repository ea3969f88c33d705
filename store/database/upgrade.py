"""Upgrade an empty or older database to the schema; refuse a newer database.

The schema itself is in `schema`. An upgrade compares it with the database: it adds missing tables
and columns, which may all be NULL, and lets columns be NULL that the schema allows to be NULL.
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
    stored_revision = look(connection, name=name)
    if stored_revision == NEWEST:
        return None
    copy = None
    if stored_revision is not None and sqlite:
        copy = _copy_file(Path(connection.engine.url.database or ""), stored_revision)
    # This is done before new tables are created, because these may refer to a table that is
    # created again here.
    for new, names in _columns_to_let_be_null(connection).items():
        _let_be_null(connection, new, names)
    Base.metadata.create_all(connection)
    for new, stored_names in _incomplete_tables(connection):
        for new_column in new.columns:
            if new_column.name not in stored_names:
                definition = CreateColumn(new_column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {new.name} ADD COLUMN {definition}"))
    if stored_revision is None:
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{NEWEST}')"))
    connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{NEWEST}'"))
    if sqlite:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    else:
        # Version 0.1.0 had this constraint; without it pairs are added three times as fast.
        drop = "ALTER TABLE pairs DROP CONSTRAINT IF EXISTS pairs_run_fkey"
        connection.execute(text(drop))
    return copy


def look(connection: Connection, *, name: str) -> str | None:
    """The revision of the database's schema, None if the database is empty; changes nothing.

    Raises:
        StoreError: if the database is another program's, or of an unknown revision.
    """
    if connection.dialect.name == "sqlite":
        owner = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if owner not in (0, APPLICATION_ID):
            raise StoreError(f"{name} is another program's (application_id {owner}); give another")
    stored_revision = revision(connection)
    if stored_revision is None:
        _refuse_foreign_tables(connection, name)
    elif stored_revision < OLDEST:
        raise StoreError(
            f"{name} is of a schema ({stored_revision}) from before version 0.1.0 ({OLDEST})"
        )
    elif stored_revision > NEWEST:
        raise StoreError(
            f"{name} is of a newer schema ({stored_revision}) than this SortNet knows "
            f"({NEWEST}); upgrade SortNet"
        )
    return stored_revision


def as_newest(connection: Connection) -> Iterator[str]:
    """Statements that let a connection read an old schema as the newest.

    A temporary view hides each table that lacks columns or does not exist.
    """
    schema = inspect(connection).default_schema_name
    for new, stored_names in _incomplete_tables(connection):
        stored = table(new.name, *map(column, stored_names), schema=schema)
        columns = [
            stored.c[new_column.name]
            if new_column.name in stored_names
            else cast(null(), new_column.type).label(new_column.name)
            for new_column in new.columns
        ]
        rows = select(*columns).where(true() if stored_names else false())
        query = rows.compile(connection, compile_kwargs={"literal_binds": True})
        yield f"CREATE TEMPORARY VIEW {new.name} AS {query}"


def _stored_columns(connection: Connection) -> Iterator[tuple[Table, dict[str, bool]]]:
    """Each table of the schema, and {name: whether it may be NULL} of its columns in the database.

    A table that does not exist has no columns.
    """
    inspector = inspect(connection)
    for new in Base.metadata.sorted_tables:
        stored = inspector.get_columns(new.name) if inspector.has_table(new.name) else ()
        yield new, {column["name"]: column["nullable"] for column in stored}


def _incomplete_tables(connection: Connection) -> Iterator[tuple[Table, set[str]]]:
    """The tables that lack columns or do not exist, with the names of their stored columns."""
    for new, may_be_null in _stored_columns(connection):
        names = set(may_be_null)
        if not names >= {column.name for column in new.columns}:
            yield new, names


def _columns_to_let_be_null(connection: Connection) -> dict[Table, list[str]]:
    """The columns by table that may be NULL in the schema, but not in the database."""
    columns_of: dict[Table, list[str]] = {}
    for new, may_be_null in _stored_columns(connection):
        names = [
            column.name
            for column in new.columns
            if column.nullable and not may_be_null.get(column.name, True)
        ]
        if names:
            columns_of[new] = names
    return columns_of


def _let_be_null(connection: Connection, new: Table, names: list[str]) -> None:
    """Let columns of a table be NULL.

    SQLite cannot change a column: the table is created again, with all columns of the schema, and
    filled. No other table may refer to the old table then: its rows would be removed with it.
    """
    if connection.dialect.name != "sqlite":
        for name in names:
            change = f"ALTER TABLE {new.name} ALTER COLUMN {name} DROP NOT NULL"
            connection.execute(text(change))
        return
    begin = f"CREATE TABLE {new.name} "
    create = str(CreateTable(new).compile(dialect=connection.dialect))
    create = create.replace(begin, f"CREATE TABLE new_{new.name} ", 1)
    stored_names = {stored["name"] for stored in inspect(connection).get_columns(new.name)}
    shared = ", ".join(column.name for column in new.columns if column.name in stored_names)
    connection.execute(text(create))
    connection.execute(
        text(f"INSERT INTO new_{new.name} ({shared}) SELECT {shared} FROM {new.name}")
    )
    connection.execute(text(f"DROP TABLE {new.name}"))
    connection.execute(text(f"ALTER TABLE new_{new.name} RENAME TO {new.name}"))
    for index in new.indexes:
        index.create(connection)


def revision(connection: Connection) -> str | None:
    """The revision of the database's schema; None for a database without SortNet's tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _copy_file(file: Path, stored_revision: str) -> Path:
    """Copy a SQLite file into its folder, under an unused name that has the revision."""
    to = file.with_name(f"{file.name}.{stored_revision}")
    for number in count(1):
        if not to.exists():
            break
        to = file.with_name(f"{file.name}.{stored_revision}-{number}")
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


def _refuse_foreign_tables(connection: Connection, name: str) -> None:
    inspector = inspect(connection)
    names = sorted(inspector.get_table_names()) or sorted(inspector.get_view_names())
    if names:
        raise StoreError(f"{name} has a table {names[0]!r} that is not SortNet's; give another")
