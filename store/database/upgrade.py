"""Upgrade an empty or older database to the newest schema; refuse a database of a newer SortNet.

An upgrade compares the tables of `schema` with the database. It adds missing tables and missing
columns, which may all be NULL. Columns that may be NULL in the schema may be NULL afterwards.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, cast, column, false, inspect, null, select, table, text, true
from sqlalchemy.schema import CreateColumn, CreateTable, Table

from sortnet.errors import StoreError
from store.database.engine import reading_uri
from store.database.schema import Base

# The name tells SortNet's tables from tables of other programs in a team's database.
VERSION_TABLE = "sortnet_schema"
APPLICATION_ID = 0x536F7274  # "Sort": identifies SortNet's files to SQLite
# The revision of the schema in version 0.1.0, and the present revision. A change of `schema` needs
# the next number.
OLDEST = "m0003"
NEWEST = "m0015"
LOCK = 0x536F72744E6574  # "SortNet" as a number, which names the advisory lock in PostgreSQL


def upgrade(connection: Connection, *, name: str) -> Path | None:
    """Upgrade the database within the open transaction to the newest schema.

    Args:
        connection: an open transaction that writes.
        name: the name of the database in messages.

    Returns the path of a copy of the old SQLite file; None if nothing was copied.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        # Another process that upgrades the same database must have ended first.
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
    stored_revision = checked_revision(connection, name=name)
    if stored_revision == NEWEST:
        return None
    copy = None
    if stored_revision is None:
        _create_tables(connection)
    else:
        if is_sqlite:
            copy = _copy_file(Path(connection.engine.url.database or ""), stored_revision)
        _upgrade_tables(connection)
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{NEWEST}'"))
    if is_sqlite:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    else:
        # Version 0.1.0 created this constraint, with which adding pairs takes three times as long.
        drop = "ALTER TABLE pairs DROP CONSTRAINT IF EXISTS pairs_run_fkey"
        connection.execute(text(drop))
    return copy


def _create_tables(connection: Connection) -> None:
    """Create all tables in an empty database, and store the newest revision."""
    # The database is empty, so it need not be searched for tables that exist already.
    Base.metadata.create_all(connection, checkfirst=False)
    connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)"))
    connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{NEWEST}')"))


def _upgrade_tables(connection: Connection) -> None:
    """Add the tables and columns that the schema has and the database lacks."""
    # `_make_nullable` may create a table again. This happens before new tables are created, because
    # these may refer to the table.
    for schema_table, names in _columns_to_make_nullable(connection).items():
        _make_nullable(connection, schema_table, names)
    Base.metadata.create_all(connection)
    _add_missing_columns(connection)


def checked_revision(connection: Connection, *, name: str) -> str | None:
    """Read the revision of the database's schema and check that it can be used; change nothing.

    Returns None if the database is empty.

    Args:
        connection: an open transaction.
        name: the name of the database in messages.

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
    """Yield statements that let a connection read an old schema as the newest schema.

    Each table that lacks columns or does not exist is hidden by a temporary view of its name, in
    which missing columns are NULL. The view of a table that does not exist has no rows.
    """
    name_of_schema = inspect(connection).default_schema_name
    for schema_table, stored_names in _incomplete_tables(connection):
        # A name without the schema would mean the view, which hides the stored table.
        stored_table = table(schema_table.name, *map(column, stored_names), schema=name_of_schema)
        columns = [
            stored_table.c.get(schema_column.name, _missing(schema_column))
            for schema_column in schema_table.columns
        ]
        has_rows = true() if stored_names else false()
        rows = select(*columns).where(has_rows)
        query = rows.compile(connection, compile_kwargs={"literal_binds": True})
        yield f"CREATE TEMPORARY VIEW {schema_table.name} AS {query}"


def _missing(schema_column: Any) -> Any:
    """Make a column of the type and name that the schema has, in which all values are NULL."""
    return cast(null(), schema_column.type).label(schema_column.name)


def _stored_columns(connection: Connection) -> Iterator[tuple[Table, dict[str, bool]]]:
    """Yield each table of the schema, with the columns that the table has in the database.

    The second value is {name of a column: whether it may be NULL} for the columns in the database.
    It is empty for a table that the database does not have.
    """
    inspector = inspect(connection)
    for schema_table in Base.metadata.sorted_tables:
        may_be_null: dict[str, bool] = {}
        if inspector.has_table(schema_table.name):
            for stored_column in inspector.get_columns(schema_table.name):
                may_be_null[stored_column["name"]] = stored_column["nullable"]
        yield schema_table, may_be_null


def _incomplete_tables(connection: Connection) -> Iterator[tuple[Table, set[str]]]:
    """Yield the schema's tables that lack columns in the database, or do not exist there.

    Each table comes with the names of the columns that the database has.
    """
    for schema_table, may_be_null in _stored_columns(connection):
        stored_names = set(may_be_null)
        if not stored_names >= {column.name for column in schema_table.columns}:
            yield schema_table, stored_names


def _add_missing_columns(connection: Connection) -> None:
    """Add the columns of the schema that tables of the database lack."""
    for schema_table, stored_names in _incomplete_tables(connection):
        for schema_column in schema_table.columns:
            if schema_column.name not in stored_names:
                definition = CreateColumn(schema_column).compile(dialect=connection.dialect)
                add = f"ALTER TABLE {schema_table.name} ADD COLUMN {definition}"
                connection.execute(text(add))


def _columns_to_make_nullable(connection: Connection) -> dict[Table, list[str]]:
    """Return {table: its columns that may be NULL in the schema, but not in the database}."""
    columns_of_table: dict[Table, list[str]] = {}
    for schema_table, may_be_null in _stored_columns(connection):
        not_null = {name for name, is_nullable in may_be_null.items() if not is_nullable}
        names = [
            column.name
            for column in schema_table.columns
            if column.nullable and column.name in not_null
        ]
        if names:
            columns_of_table[schema_table] = names
    return columns_of_table


def _make_nullable(connection: Connection, schema_table: Table, names: list[str]) -> None:
    """Change columns of a table, so that they may be NULL.

    Args:
        connection: an open transaction that writes.
        schema_table: the table.
        names: the names of the columns.
    """
    if connection.dialect.name == "sqlite":
        _create_again(connection, schema_table)  # SQLite cannot change a column
        return
    for name in names:
        change = f"ALTER TABLE {schema_table.name} ALTER COLUMN {name} DROP NOT NULL"
        connection.execute(text(change))


def _create_again(connection: Connection, schema_table: Table) -> None:
    """Create a table again as the schema has it, with the rows of the old table.

    No other table may refer to the old table at this time, because its rows would be removed too.
    """
    name = schema_table.name
    create = str(CreateTable(schema_table).compile(dialect=connection.dialect))
    create_new = create.replace(f"CREATE TABLE {name} ", f"CREATE TABLE new_{name} ", 1)
    stored_names = {column["name"] for column in inspect(connection).get_columns(name)}
    shared_names = [column.name for column in schema_table.columns if column.name in stored_names]
    shared = ", ".join(shared_names)
    connection.execute(text(create_new))
    connection.execute(text(f"INSERT INTO new_{name} ({shared}) SELECT {shared} FROM {name}"))
    connection.execute(text(f"DROP TABLE {name}"))
    connection.execute(text(f"ALTER TABLE new_{name} RENAME TO {name}"))
    for index in schema_table.indexes:
        index.create(connection)


def revision(connection: Connection) -> str | None:
    """Read the revision of the database's schema; None for a database without SortNet's tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _unused_path(path: Path) -> Path:
    """Return a path at which no file exists yet.

    This is the given path; if a file exists there, the first free path of PATH-1, PATH-2, ...
    """
    unused = path
    number = 0
    while unused.exists():
        number += 1
        unused = path.with_name(f"{path.name}-{number}")
    return unused


def _copy_file(file: Path, stored_revision: str) -> Path:
    """Copy a SQLite file into its folder, under an unused name that ends in the revision."""
    to = _unused_path(file.with_name(f"{file.name}.{stored_revision}"))
    try:
        # Only the owner may read the copy, because it has the annotators' secret tokens.
        descriptor = os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.close(descriptor)
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
    """Raise a StoreError if the database, which has no table of SortNet, has any table or view."""
    inspector = inspect(connection)
    names = sorted(inspector.get_table_names()) or sorted(inspector.get_view_names())
    if names:
        raise StoreError(f"{name} has a table {names[0]!r} that is not SortNet's; give another")
