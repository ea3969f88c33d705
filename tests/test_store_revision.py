"""The tables of a store: created, migrated by alembic, or refused and left as they are."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from collection_helpers import made_items
from sqlalchemy import inspect, text

from sortnet.errors import StoreError
from store import open_store
from store.database import revision
from store.database.engine import Database
from store.database.schema import Base

EMPTY_BASELINE = """
revision, down_revision = "{0}", {1!r}
def upgrade():
    from alembic import op
    op.execute("{2}")
"""


def execute(url: str, *statements: str) -> None:
    with (
        closing(Database(url)) as database,
        database.transaction(write=True) as connection,
    ):
        for statement in statements:
            connection.execute(text(statement))


def test_the_newest_revision_is_that_of_the_migrations() -> None:
    scripts = ScriptDirectory.from_config(revision._alembic_config())
    assert scripts.get_heads() == [revision.REVISION]


def test_alembic_finds_nothing_to_migrate_in_a_new_store(url: str) -> None:
    with open_store(url) as store, store.database.transaction(write=True) as connection:
        options = {"version_table": revision.VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=options)
        assert context.get_current_revision() == revision.REVISION
        assert compare_metadata(context, Base.metadata) == []


@pytest.fixture
def two_migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second migration, which adds a table."""
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    there = Path(revision.__file__).parent / "migrations"
    (folder / "env.py").write_text((there / "env.py").read_text())
    first, second = ("r1", None, "SELECT 1"), ("r2", "r1", "CREATE TABLE added (x INTEGER)")
    for migration in (first, second):
        path = folder / "versions" / f"{migration[0]}.py"
        path.write_text(EMPTY_BASELINE.format(*migration))
    monkeypatch.setattr(revision, "MIGRATIONS", str(folder))
    monkeypatch.setattr(revision, "REVISION", "r2")
    monkeypatch.setattr("store.store.REVISION", "r2")


@pytest.mark.usefixtures("two_migrations")
def test_older_tables_are_migrated_by_what_writes_and_refused_by_what_reads(url: str) -> None:
    open_store(url).close()
    execute(url, f"UPDATE {revision.VERSION_TABLE} SET version_num = 'r1'")
    with pytest.raises(StoreError, match=r"older schema.*the first command that writes"):
        open_store(url, write=False)
    with open_store(url) as store, store.database.transaction() as connection:
        assert inspect(connection).has_table("added")
    with open_store(url, write=False) as store, store.database.transaction() as connection:
        assert revision.checked_revision(connection, name="s") == "r2"


def test_opening_a_store_imports_no_alembic(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom store import open_store\n"
        "open_store('s.db').close(); open_store('s.db').close()\n"
        "open_store('s.db', write=False).close()\n"
        "print([name for name in sys.modules if name.startswith('alembic')])"
    )
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_sqlite_keeps_pairs_in_the_tree_of_their_key(tmp_path: Path) -> None:
    # Half the speed hangs on it.
    with open_store(tmp_path / "s.db") as store, store.database.transaction() as connection:
        sql = "SELECT sql FROM sqlite_master WHERE name = 'pairs'"
        assert "WITHOUT ROWID" in connection.execute(text(sql)).scalar_one()


def test_a_number_of_a_removed_collection_is_never_given_again(url: str) -> None:
    with open_store(url) as store:
        first = store.add_items("a", made_items(2))
        first.remove()
        assert store.add_items("b", made_items(2)).number > first.number


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("version", ["m0003", "m0015", "m9999", "r9999", "\x1b[2Jx"])
def test_a_store_of_another_version_is_refused_in_one_line(
    url: str, version: str, write: bool
) -> None:
    open_store(url).close()
    execute(url, f"UPDATE {revision.VERSION_TABLE} SET version_num = '{version}'")
    with pytest.raises(StoreError) as refused:
        open_store(url, write=write)
    assert "sortnet doctor --convert OLD NEW" in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("write", [True, False])
def test_a_database_of_another_program_is_refused_whatever_its_tables_are_called(
    url: str, write: bool
) -> None:
    execute(url, "CREATE TABLE places (miles INTEGER)")
    with pytest.raises(StoreError, match="has a table 'places' that is not SortNet's"):
        open_store(url, write=write)
    database = Database(url, write=False)
    with closing(database), database.transaction() as connection:
        assert inspect(connection).get_table_names() == ["places"]


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_foreign_file_keeps_every_byte(tmp_path: Path, write: bool, mode: str) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE moz_places (url TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="'moz_places'"):
        open_store(path, write=write)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_file_that_says_it_is_another_programs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        (ours,) = connection.execute("PRAGMA application_id").fetchone()
        connection.execute("PRAGMA application_id = 7")
    assert ours == revision.APPLICATION_ID
    with pytest.raises(StoreError, match="another program's"):
        open_store(path, write=False)


def test_what_reads_nothing_but_a_new_or_empty_file_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open"):
        open_store(tmp_path / "no" / "s.db", write=False)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="is empty: sortnet train"):
        open_store(tmp_path / "empty.db", write=False)
    assert [p.name for p in tmp_path.iterdir()] == ["empty.db"]
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with open_store(tmp_path / "s.db") as store:
            store.add_items("args", made_items(3))
            modes = {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("s.db", "s.db-wal", "s.db-shm"), 0o600)
