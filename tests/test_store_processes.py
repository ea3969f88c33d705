"""Several processes at one store, and processes that are killed."""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from forked_processes import ForkedScript
from pair_tables import table

from store import open_store
from store.database import engine

PREAMBLE = """
import os, signal, sys
import numpy as np
from sqlalchemy import event
from pair_tables import table
from sortnet.core import Queries
from store import open_store
from store.runs.pair_rows import AddedPairs

def start(store, n):
    part = Queries.from_arrays(np.zeros((n, 1)))
    return store.start_run(command="", config={}, seed=0, versions={}, train=part, vali=part)
"""

# Stores iteration 0, then dies as it stores iteration 1: at its n-th INSERT, or as it commits.
DIES = """
url, when = sys.argv[1:]
winner, loser = np.triu_indices(200, 1)
half = len(winner) // 2
store = open_store(url)
run = start(store, 200)
run.record({"iteration": 0}, [AddedPairs.of("train", 0, table(winner[:half], loser[:half]))])
seen = 0

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def count(_connection, _cursor, statement, *_):
    global seen
    seen += "INSERT INTO" in statement
    if seen == int(when):
        die()

if when == "commit":
    event.listen(store.database.engine, "commit", die)
else:
    event.listen(store.database.engine, "before_cursor_execute", count)
run.record({"iteration": 1}, [AddedPairs.of("train", 1, table(winner, loser))])
print("not killed", flush=True)
"""

# Opens the store as the others do, and writes when all are ready.
WRITES = """
url, seed = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
with open_store(url) as store:
    run = start(store, 40)
    rng = np.random.default_rng(seed)
    for iteration in range(10):
        winner = rng.integers(0, 40, 300)
        run.add("train", iteration, table(winner, (winner + rng.integers(1, 40, 300)) % 40))
        run.record({"iteration": iteration, "tp": len(run.pairs("train"))})
    run.finish("done")
    print(run.id)
"""


@pytest.mark.parametrize("when", ["1", "2", "commit"])
def test_a_kill_while_an_iteration_is_stored_leaves_all_or_nothing(
    tmp_path: Path, when: str
) -> None:
    path = tmp_path / "s.db"
    with ForkedScript(PREAMBLE + DIES, path, when) as child:
        out, error = child.communicate()
    assert child.returncode == -signal.SIGKILL, error
    winner, loser = np.triu_indices(200, 1)
    half = len(winner) // 2
    assert out == ""
    with open_store(path) as store:
        run = store.run("last")
        assert run.status == "killed"
        stored = run.pairs("train")
        assert stored.i.tolist() == winner[:half].tolist()
        assert stored.j.tolist() == loser[:half].tolist()
        assert [row["iteration"] for row in run.iteration_rows()] == [0]
        run.add("train", 1, table(winner, loser))
        assert run.pairs_frame()["times"].sum() == half + len(winner)


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def test_processes_that_make_and_write_one_store_at_once_lose_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    sqlite = kind == "sqlite"
    url = str(tmp_path / "s.db") if sqlite else request.getfixturevalue("postgresql_url")
    children = [ForkedScript(PREAMBLE + WRITES, url, seed) for seed in range(2)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0, 0], answers
    results = [out.strip() for out, _ in answers]
    with open_store(url) as store:
        assert sorted(store.runs_frame()["id"]) == sorted(results)
        for seed, run_id in enumerate(results):
            expected = _pairs_of(seed)
            stored = store.run(run_id).pairs("train")
            assert list(zip(stored.i, stored.j, strict=True)) == sorted(expected)
            assert store.run(run_id).iterations_frame()["tp"].iloc[-1] == len(expected)


def test_a_new_sqlite_file_is_waited_for_while_another_process_makes_it(tmp_path, monkeypatch):
    first, second = (
        sqlite3.connect(tmp_path / "s.db", isolation_level=None, check_same_thread=False)
        for _ in range(2)
    )
    first.execute("CREATE TABLE runs (id)")
    first.execute("BEGIN IMMEDIATE")  # then SQLite itself does not wait
    monkeypatch.setattr(engine.time, "sleep", lambda seconds: first.execute("COMMIT"))
    engine._switch_to_wal(second)
    assert second.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def _pairs_of(seed: int) -> set[tuple[int, int]]:
    """What the child of that seed adds over all its iterations."""
    rng = np.random.default_rng(seed)
    expected: set[tuple[int, int]] = set()
    for _ in range(10):
        winner = rng.integers(0, 40, 300)
        loser = (winner + rng.integers(1, 40, 300)) % 40
        expected |= set(zip(winner.tolist(), loser.tolist(), strict=True))
    return expected
