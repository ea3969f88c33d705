"""Check the revision of a store's tables; create the tables, or migrate them by alembic.

A store of another version or of another program is refused and left as it is.
`store.database.conversion` brings the collections of a store of version 0.4 to a new store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from sortnet.errors import StoreError
from sortnet.files import shown
from store.database.schema import Base

if TYPE_CHECKING:
    from alembic.config import Config

# The newest revision in the folder `migrations`. Alembic is imported only to migrate a store,
# because importing alembic takes longer than opening a store.
REVISION = "r0001"
MIGRATIONS = "store.database:migrations"
# The name tells SortNet's tables from tables of other programs in a team's database.
VERSION_TABLE = "sortnet_schema"
APPLICATION_ID = 0x536F7274  # "Sort": identifies SortNet's files to SQLite
_LOCK = 0x536F72744E6574  # "SortNet" as a number, which names the advisory lock in PostgreSQL


def checked_revision(connection: Connection, *, name: str) -> str | None:
    """Read the revision of a database and check that it can be used; change nothing.

    Returns None if the database is empty, or a revision of the folder `migrations`.

    Args:
        connection: an open transaction.
        name: the name of the database in messages.

    Raises:
        StoreError: if the database is another program's, or of another version.
    """
    revision = stored_revision(connection, name=name)
    if revision not in (None, REVISION) and not _is_older(revision):
        raise StoreError(
            f"{name} is of another version of SortNet (schema {shown(revision)}): "
            "sortnet doctor --convert OLD NEW brings its collections to a new store"
        )
    return revision


def stored_revision(connection: Connection, *, name: str) -> str | None:
    """Read the revision of a database, of any version of SortNet; None if the database is empty.

    Raises:
        StoreError: if the database is another program's.
    """
    if connection.dialect.name == "sqlite":
        owner = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if owner not in (0, APPLICATION_ID):
            raise StoreError(f"{name} is another program's (application_id {owner}); give another")
    revision: str | None = None
    inspector = inspect(connection)
    if inspector.has_table(VERSION_TABLE):
        revision = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    if revision is not None:
        return revision
    names = sorted(inspector.get_table_names()) or sorted(inspector.get_view_names())
    if names:
        raise StoreError(f"{name} has a table {names[0]!r} that is not SortNet's; give another")
    return None


def make_newest(connection: Connection, *, name: str) -> None:
    """Create the tables in an empty database, or migrate older tables by alembic.

    Nothing is done if another process has just done it.

    Args:
        connection: an open transaction that writes.
        name: the name of the database in messages.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        # Another process that changes the same tables must have ended first.
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    revision = checked_revision(connection, name=name)
    if revision is None:
        # The database is empty, so it need not be searched for tables that exist already.
        Base.metadata.create_all(connection, checkfirst=False)
        # Alembic would create the table of versions in the same way.
        columns = f"version_num VARCHAR(32) NOT NULL CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY"
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} ({columns})"))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{REVISION}')"))
        if is_sqlite:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    elif revision != REVISION:
        from alembic.command import upgrade

        upgrade(_alembic_config(connection), "head")


def _is_older(revision: object) -> bool:
    """Whether alembic has migrations from this revision to the newest revision."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_alembic_config())
    return revision in {script.revision for script in scripts.walk_revisions()}


def _alembic_config(connection: Connection | None = None) -> Config:
    """Make the configuration with which alembic finds the migrations and uses the connection."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", MIGRATIONS)
    return config
