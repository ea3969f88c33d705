"""The schema's version: a new or older database is upgraded, a newer one refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, inspect, text

from sortnet.errors import StoreError
from store.models import Base

if TYPE_CHECKING:
    from alembic.config import Config

# Our own name: a team's database may hold another program's `alembic_version`.
VERSION_TABLE = "sortnet_schema"
MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = 0x536F72744E6574  # "SortNet": PostgreSQL's advisory locks go by number


def upgrade(connection: Connection, *, name: str, to: str = "head") -> None:
    """Bring the database to the newest schema within the transaction that is open.

    Raises:
        StoreError: if the database is of a newer schema, or its tables are another program's.
    """
    from alembic import command
    from alembic.script import ScriptDirectory

    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
    scripts = ScriptDirectory(str(MIGRATIONS))
    found = revision(connection)
    if found == scripts.get_current_head():
        return
    if found is None:
        _refuse_foreign(connection, name)
    elif found not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(
            f"{name} is of a newer schema ({found}) than this SortNet knows "
            f"({scripts.get_current_head()}); upgrade SortNet"
        )
    command.upgrade(_config(connection), to)


def is_current(connection: Connection) -> bool:
    """Whether there is nothing to upgrade."""
    from alembic.script import ScriptDirectory

    return revision(connection) == ScriptDirectory(str(MIGRATIONS)).get_current_head()


def revision(connection: Connection) -> str | None:
    """The schema's revision, or None for a database that has none of ours."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["options"] = migration_options(connection)
    return config


def migration_options(connection: Connection) -> dict[str, Any]:
    """How Alembic is to look at the database; the tests compare the models with it so too."""
    return {
        "connection": connection,
        "target_metadata": Base.metadata,
        "version_table": VERSION_TABLE,
        "compare_type": True,
        "compare_server_default": True,
    }


def _refuse_foreign(connection: Connection, name: str) -> None:
    taken = sorted(set(inspect(connection).get_table_names()) & set(Base.metadata.tables))
    if taken:
        raise StoreError(f"{name} has a table {taken[0]!r} that is not SortNet's; give another")
