"""The schema's version: a new or older database is upgraded, a newer one refused.

The schema itself is in `tables`, the steps of an upgrade in `migrations/versions`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, cast, column, false, inspect, null, select, table, text, true

from sortnet.errors import StoreError
from store.database.engine import reading_uri
from store.database.tables import Base

if TYPE_CHECKING:
    from alembic.config import Config

# Our own name: a team's database may hold another program's `alembic_version`.
VERSION_TABLE = "sortnet_schema"
APPLICATION_ID = 0x536F7274  # "Sort": identifies SortNet's files to SQLite
MIGRATIONS = Path(__file__).parent / "migrations"
OLDEST = "m0003"  # of version 0.1.0
LOCK = 0x536F72744E6574  # "SortNet": PostgreSQL's advisory locks are numbers


def upgrade(connection: Connection, *, name: str, to: str = "head") -> Path | None:
    """Upgrade the database within the open transaction; returns the copy of the old SQLite file."""
    from alembic import command

    sqlite = connection.dialect.name == "sqlite"
    if not sqlite:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
    found, copy = look(connection, name=name), None
    if found == newest():
        return None
    if found is not None and sqlite:
        copy = _copied(Path(connection.engine.url.database or ""), found)
    if found not in (None, *_revisions()):  # of a time between: the next one adds what it lacks
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{OLDEST}'"))
    command.upgrade(_config(connection), to)
    if sqlite:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
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
    elif found > newest():
        raise StoreError(
            f"{name} is of a newer schema ({found}) than this SortNet knows "
            f"({newest()}); upgrade SortNet"
        )
    return found


def newest() -> str:
    """The revision that this SortNet writes."""
    return max(_revisions())


def as_newest(connection: Connection) -> Iterator[str]:
    """Statements that let a connection read an old schema as the newest.

    A temporary view hides each table that lacks columns or does not exist.
    """
    known = inspect(connection)
    for new in Base.metadata.sorted_tables:
        there = known.has_table(new.name)
        names = {c["name"] for c in known.get_columns(new.name)} if there else set()
        if names >= set(new.columns.keys()):
            continue
        old = table(new.name, *map(column, names), schema=known.default_schema_name)
        columns = [
            old.c[c.name] if c.name in names else cast(null(), c.type).label(c.name)
            for c in new.columns
        ]
        rows = select(*columns).where(true() if there else false())
        query = rows.compile(connection, compile_kwargs={"literal_binds": True})
        yield f"CREATE TEMPORARY VIEW {new.name} AS {query}"


def revision(connection: Connection) -> str | None:
    """The schema's revision, or None for a database without one of SortNet's."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _revisions() -> set[str]:
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}


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


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["options"] = migration_options(connection)
    return config


def migration_options(connection: Connection) -> dict[str, Any]:
    """Options of Alembic; the tests compare the models with the same."""
    return {
        "connection": connection,
        "target_metadata": Base.metadata,
        "version_table": VERSION_TABLE,
        "compare_type": True,
        "compare_server_default": True,
        # See `PairRow`.
        "include_object": lambda it, _name, kind, *_: (
            not (
                kind == "foreign_key_constraint"
                and it.table.name == "pairs"
                and connection.dialect.name == "postgresql"
            )
        ),
    }


def _refuse_foreign(connection: Connection, name: str) -> None:
    known = inspect(connection)
    if taken := sorted(known.get_table_names()) or sorted(known.get_view_names()):
        raise StoreError(f"{name} has a table {taken[0]!r} that is not SortNet's; give another")
