"""A store of every schema that there was is upgraded to the models, in both databases."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from collection_helpers import made_items
from pair_tables import table
from sqlalchemy import Connection, inspect, text

from sortnet.core import ComparedPairs
from sortnet.errors import StoreError
from store import open_store
from store.database import upgrade
from store.database.engine import Database
from store.database.schema import Base
from store.database.upgrade import NEWEST
from store.database.upgrade import OLDEST as RELEASED

WRITTEN = Path(__file__).parent / "data" / "store-0.1.0.sqlite"
# What PostgreSQL calls otherwise.
SERVERS = {
    "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT": "SERIAL PRIMARY KEY",
    "CREATE TABLE runs (\n\tnumber INTEGER": "CREATE TABLE runs (\n\tnumber SERIAL",
    **{"DATETIME": "TIMESTAMP", "DOUBLE": "DOUBLE PRECISION", "BLOB": "BYTEA"},
    **{"WITHOUT ROWID": "", "WHERE open = 1": "WHERE open"},
}
# What the schema of a version from 0.3.0 on lacked of today's.
_OF_M0011 = [
    "ALTER TABLE pairs DROP COLUMN first_wrong",
    "ALTER TABLE runs DROP COLUMN kept",
    *(f"ALTER TABLE leases DROP COLUMN {name}" for name in ("host", "pid", "process_start")),
]
_OF_M0012 = ["DROP TABLE answers", "ALTER TABLE runs DROP COLUMN judge"]
_OF_M0015 = ["DROP TABLE judgement_items", "DROP TABLE lease_items"]
_OF_M0014 = [*_OF_M0015, "DROP TABLE batches", "ALTER TABLE leases DROP COLUMN batch"]
_OF_M0013 = [*_OF_M0014, "ALTER TABLE servers DROP COLUMN process_start"]
LACKED = {
    "m0014": _OF_M0015,
    "m0013": _OF_M0014,
    "m0012": _OF_M0013,
    "m0011": _OF_M0013 + _OF_M0012,
    "m0010": _OF_M0013 + _OF_M0012 + _OF_M0011,
}
# Columns that were NOT NULL before m0015: a question was about two items.
_STRICT = {
    "judgements": ("left_item", "right_item"),
    "leases": ("low", "high", "left_item", "right_item"),
}
REVISIONS = (NEWEST, *LACKED, RELEASED)


# What was not counted, and is shown as missing.
NOT_COUNTED = pd.Series([pd.NA], dtype="Int32")


def execute(url: str, *statements: str) -> None:
    database = Database(url)
    with database.transaction(write=True) as connection:
        for statement in statements:
            connection.execute(text(statement))
    database.close()


def make_old(url: str, revision: str) -> None:
    """A store of that revision with one run, two queries and a pair, as its time wrote them."""
    if revision in (NEWEST, *LACKED):
        open_store(url).close()
        execute(url, *LACKED.get(revision, ()))
        if revision in LACKED:
            execute(url, *strict(url))
    else:
        execute(url, *released(url))
    execute(url, f"UPDATE {upgrade.VERSION_TABLE} SET version_num = '{revision}'")
    best = "TRUE" if url.startswith("postgresql") else 1
    execute(
        url,
        "INSERT INTO runs (number, id, created, status, command, config, seed, versions, data)"
        " VALUES (1, 'abc', '2020-01-02 03:04:05', 'done', 'train', '{}', 1, '{}', '{}')",
        "INSERT INTO queries (run, split, query, qid, first, size)"
        " VALUES (1, 'train', 0, 'q', 0, 3)",
        "INSERT INTO iterations (run, iteration, created, quality, best)"
        f" VALUES (1, 0, '2020-01-02 03:04:05', 0.5, {best})",
        "INSERT INTO pairs (run, split, winner, loser, query, first_iteration, last_iteration,"
        " times) VALUES (1, 'train', 2, 1, 0, 0, 4, 3)",
    )


def strict(url: str) -> list[str]:
    """The statements that make the columns of pairs NOT NULL, as they were before m0015."""
    if url.startswith("postgresql"):
        return [
            f"ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL"
            for table, columns in _STRICT.items()
            for column in columns
        ]
    changes = [
        f"UPDATE sqlite_master SET sql = replace(sql, '{column} INTEGER,', "
        f"'{column} INTEGER NOT NULL,') WHERE type = 'table' AND name = '{table}'"
        for table, columns in _STRICT.items()
        for column in columns
    ]
    return ["PRAGMA writable_schema = ON", *changes, "PRAGMA writable_schema = RESET"]


def released(url: str) -> list[str]:
    """The statements that make the tables of 0.1.0, as a file that it wrote has them."""
    with closing(sqlite3.connect(f"{WRITTEN.as_uri()}?mode=ro&immutable=1", uri=True)) as file:
        made = "SELECT sql FROM sqlite_master WHERE sql > '' AND name NOT LIKE 'sqlite%'"
        statements = [sql for (sql,) in file.execute(made)]
    for ours, theirs in SERVERS.items() if url.startswith("postgresql") else ():
        statements = [sql.replace(ours, theirs) for sql in statements]
    return [*statements, f"INSERT INTO {upgrade.VERSION_TABLE} VALUES ('{RELEASED}')"]


def described(connection: Connection) -> dict[str, list[object]]:
    """{table: its columns, keys, constraints and indexes}; `pairs` checks no run by now."""
    known = inspect(connection)
    names = sorted({*known.get_table_names()} - {upgrade.VERSION_TABLE})
    return {
        name: [
            sorted((c["name"], str(c["type"]), c["nullable"]) for c in known.get_columns(name)),
            known.get_pk_constraint(name)["constrained_columns"],
            sorted(key["column_names"] for key in known.get_unique_constraints(name)),
            sorted((i["name"], i["column_names"], i["unique"]) for i in known.get_indexes(name)),
            sorted(
                (key["constrained_columns"], key["referred_table"], key["options"].get("ondelete"))
                for key in known.get_foreign_keys(name)
                if name != "pairs"
            ),
        ]
        for name in names
    }


@pytest.fixture
def today(url: str, request: pytest.FixtureRequest) -> dict[str, list[object]]:
    """The tables of a new store in the same database."""
    made = f"sqlite:///{request.getfixturevalue('made_sqlite')}"
    if url.startswith("postgresql"):
        made = request.getfixturevalue("made_postgresql")
    with open_store(made, write=False) as store, store.database.transaction() as connection:
        return described(connection)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_store_of_any_revision_is_upgraded_to_the_models_with_its_rows(
    url: str, revision: str, today: dict[str, list[object]]
) -> None:
    make_old(url, revision)
    with open_store(url) as store:
        with store.database.transaction() as connection:
            assert described(connection) == today
            assert upgrade.revision(connection) == NEWEST
        run = store.run("abc")
        frame, iterations = run.pairs_frame(), run.iterations_frame()
        observed = run.margins_frame(), run.mistakes_frame(), run.cycles_frame()
    assert frame[["qid", "winner", "loser", "times"]].to_numpy().tolist() == [["q", 2, 1, 3]]
    # A run that learned from wrong pairs alone did count when they were wrong.
    wrong_in = frame[["first_iteration", "first_wrong", "last_wrong"]]
    assert wrong_in.to_numpy().tolist() == [[0, 0, 4]]
    assert iterations[["quality", "best"]].to_numpy().tolist() == [[0.5, True]]
    assert all(frame.empty for frame in observed), "rows of that time have none"


@pytest.mark.parametrize("revision", ["m0010", RELEASED])
def test_pairs_of_an_older_store_have_no_iterations_in_which_nobody_counted_and_go_on_counting(
    url: str, revision: str
) -> None:
    make_old(url, revision)
    execute(url, """UPDATE runs SET config = '{"pairs": "even"}'""")
    with open_store(url, write=False) as store:
        frame = store.run("abc").pairs_frame()
        assert store.run("abc").kept is None
    assert frame[["first_iteration", "times"]].to_numpy().tolist() == [[0, 3]]
    for name in ("first_wrong", "last_wrong"):
        pd.testing.assert_series_equal(frame[name], NOT_COUNTED, check_names=False)
    with open_store(url) as store:
        run, pair = store.run("abc"), table(np.array([2]), np.array([1]))
        new_pair = table(np.array([0]), np.array([1]))
        run.add("train", 4, pair)  # the iteration that a kill cut off is done again
        assert run.pairs_frame()["times"].tolist() == [3]
        assert run.add("train", 5, new_pair, ComparedPairs.joined([new_pair, pair])) == 1
        counted = run.pairs_frame()
    columns = ["winner", "first_iteration", "first_wrong", "last_wrong", "times"]
    assert counted[columns].fillna(-1).to_numpy(int).tolist() == [
        [0, 5, 5, 5, 1],
        [2, 0, -1, -1, 4],
    ]


def test_a_server_of_an_older_store_is_live_before_and_after_the_upgrade(url: str) -> None:
    with open_store(url) as store:
        store.add_items("args", made_items(3)).serving(beat=None)
    execute(
        url,
        *LACKED["m0012"],
        *strict(url),
        f"UPDATE {upgrade.VERSION_TABLE} SET version_num = 'm0012'",
    )
    for write in (False, True):
        with open_store(url, write=write) as store:
            assert store.collection("args").is_served()
    with open_store(url) as store, pytest.raises(StoreError, match="is served by process"):
        store.collection("args").serving(beat=None)


def test_the_tables_of_a_new_store_are_the_models(today: dict[str, list[object]]) -> None:
    models = Base.metadata.tables
    assert {name: [c[0] for c in told[0]] for name, told in today.items()} == {
        name: sorted(c.name for c in table.columns) for name, table in models.items()
    }


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


def test_opening_again_changes_nothing(url: str, today: dict[str, list[object]]) -> None:
    open_store(url).close()
    with open_store(url) as store, store.database.transaction() as connection:
        assert described(connection) == today


def test_a_newer_schema_is_refused(url: str) -> None:
    open_store(url).close()
    execute(url, f"UPDATE {upgrade.VERSION_TABLE} SET version_num = 'm9999'")
    with pytest.raises(StoreError, match=r"newer schema \(m9999\).*; upgrade SortNet"):
        open_store(url)


def test_a_schema_from_before_the_first_release_is_refused(url: str) -> None:
    open_store(url).close()
    execute(url, f"UPDATE {upgrade.VERSION_TABLE} SET version_num = 'm0002'")
    for write in (True, False):
        with pytest.raises(StoreError, match=r"schema \(m0002\) from before version 0.1.0"):
            open_store(url, write=write)


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
    assert ours == upgrade.APPLICATION_ID
    with pytest.raises(StoreError, match="another program's"):
        open_store(path, write=False)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 0")  # a store of 0.1
    open_store(path, write=False).close()
    open_store(path).close()


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_store_of_any_revision_is_read_as_it_is(url: str, revision: str) -> None:
    make_old(url, revision)
    with open_store(url, write=False) as store:
        run = store.run("abc")
        assert run.pairs_frame()["times"].tolist() == [3]
        assert run.iterations_frame()["quality"].tolist() == [0.5]
        assert run.margins_frame().empty
        assert store.runs_frame()["best_quality"].tolist() == [0.5]
        assert store.collections_frame().empty
        with store.database.transaction() as connection:
            assert upgrade.revision(connection) == revision
    assert_refused_to_write(url)


def assert_refused_to_write(url: str) -> None:
    if url.startswith("sqlite"):
        with open_store(url, write=False) as store, pytest.raises(StoreError, match="read-only"):
            store.add_items("args", made_items(3))


def test_what_reads_nothing_but_a_new_or_empty_file_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open"):
        open_store(tmp_path / "no" / "s.db", write=False)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="is empty: sortnet train"):
        open_store(tmp_path / "empty.db", write=False)
    assert [p.name for p in tmp_path.iterdir()] == ["empty.db"]
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_an_old_file_is_copied_before_it_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make_old(f"sqlite:///{path}", RELEASED)
    old = tmp_path / "s.db.m0003"
    old.write_text("another file of that name")
    with open_store(path) as store:
        copy = store.copy
    assert copy == tmp_path / "s.db.m0003-1"
    assert copy.stat().st_mode & 0o777 == 0o600
    with open_store(copy, write=False) as store, store.database.transaction() as connection:
        assert upgrade.revision(connection) == RELEASED
        assert len(store.run("abc").pairs("train")) == 1
    with open_store(path) as store:
        assert store.copy is None
    assert sorted(tmp_path.iterdir()) == [path, old, copy]


def test_a_file_that_cannot_be_copied_is_not_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    make_old(f"sqlite:///{path}", RELEASED)

    def full(*args: object) -> int:
        raise OSError("No space left on device")

    monkeypatch.setattr("store.database.upgrade.os.open", full)
    with pytest.raises(StoreError, match=r"cannot copy it to .*No space left"):
        open_store(path)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [path]
    database = Database(path, write=False)
    with closing(database), database.transaction() as connection:
        assert upgrade.revision(connection) == RELEASED


def test_a_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with open_store(tmp_path / "s.db") as store:
            store.add_items("args", made_items(3))
            modes = {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("s.db", "s.db-wal", "s.db-shm"), 0o600)
