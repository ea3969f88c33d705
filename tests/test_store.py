"""The store around its pairs: opening, runs, iterations, frames, faults."""

from __future__ import annotations

import dataclasses
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pair_tables import table
from sqlalchemy import event, text

from sortnet.core import ComparedPairs, Queries
from sortnet.errors import StoreError
from sortnet.learning.iterations import Iteration
from store import Run, Store, open_store


def parts() -> dict[str, Queries]:
    train = Queries.from_arrays(np.zeros((9, 3)), qid=["b"] * 4 + ["a"] * 5, source="train.txt")
    vali = Queries.from_arrays(np.zeros((5, 3)), qid=["c"] * 2 + ["b"] * 3, source="vali.txt")
    return {"train": train, "vali": vali}


def start(store: Store, **changes: Any) -> Run:
    facts: dict[str, Any] = {"command": "train x", "config": {}, "seed": 7, "versions": {}}
    return store.start_run(**{**facts, **parts(), **changes})


def pairs(*rows: tuple[int, int]) -> ComparedPairs:
    winner, loser = np.array(rows, np.int64).T
    return table(winner, loser)


def fault(url: str | Path) -> str:
    """What opening it says, on one line."""
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_is_found_again_with_all_it_was_started_with(url: str) -> None:
    with open_store(url) as store:
        started = start(
            store,
            config={"lr": np.float32(0.5), "hidden": (20,), "tau": float("nan")},
            seed=2**40,
            data={"train": {"fingerprint": "ab12"}},
            out=Path("models/one"),
        )
    with open_store(url) as store:
        run = store.run(started.id)
    assert (run.command, run.seed, run.out) == ("train x", 2**40, "models/one")
    assert run.config == {"lr": 0.5, "hidden": [20], "tau": None}
    assert run.created == started.created
    train = {"path": "train.txt", "n_queries": 2, "n_docs": 9, "n_features": 3}
    vali = {"path": "vali.txt", "n_queries": 2, "n_docs": 5, "n_features": 3}
    assert run.data == {"train": {**train, "fingerprint": "ab12"}, "vali": vali}


def test_an_output_whose_name_is_no_text_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match=r"h.udcffme.m' is no text in UTF-8, and is not stored"):
        start(store, out="h\udcffme/m")


def test_a_run_goes_by_the_beginning_of_its_id_or_as_the_last(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        with pytest.raises(StoreError, match="no run 'last'; runs: none yet"):
            store.run("last")
        first, last = start(store, run_id="ab" * 6), start(store, run_id="ac" * 6)
        assert store.has_run(first.id) and not store.has_run("ab")
        assert store.run("AB").id == store.run(first.id).id == first.id
        assert store.run("last").id == last.id
        for name, why in (("xyz", "no run 'xyz'"), ("", "no run ''"), ("a", "2 runs begin with")):
            with pytest.raises(StoreError, match=f"{why}.*; runs: {last.id}, {first.id}"):
                store.run(name)


def test_every_figure_of_the_loop_has_its_column(url: str) -> None:
    figures: dict[str, Any] = {
        field.name: k for k, field in enumerate(dataclasses.fields(Iteration))
    }
    figures.update(measures={"train": {"map": 0.5}}, best=False, train_loss=float("nan"))
    with open_store(url) as store:
        run = start(store)
        run.record(vars(Iteration(**figures)))
        (row,) = run.iterations_frame().to_dict("records")
    assert row.pop("train_map") == figures.pop("measures")["train"]["map"]
    assert np.isnan(row.pop("train_loss")) and np.isnan(figures.pop("train_loss"))
    del row["created"], figures["observed"]
    assert row == figures


def test_recording_an_iteration_again_replaces_what_is_given(url: str) -> None:
    with open_store(url) as store:
        run = start(store)
        run.record({"iteration": 1, "tp": np.int64(5), "quality": np.float32(0.25)})
        run.record({"iteration": 0, "tp": 3, "best": np.bool_(True)})
        run.record({"iteration": 1, "tp": 6, "measures": {"vali": {"map": 0.75, "mrr": np.nan}}})
        frame = run.iterations_frame()
    assert frame["tp"].tolist() == [3, 6]
    assert frame["quality"].tolist()[1] == 0.25
    assert frame["vali_map"].tolist()[1] == 0.75
    assert frame["vali_mrr"].isna().all() and frame["vp"].isna().all()
    assert frame["best"].tolist() == [True, pd.NA]


def test_the_table_of_runs_shows_the_newest_first_with_their_best(url: str) -> None:
    with open_store(url) as store:
        one, two = start(store, out="m"), start(store)
        for k, (quality, best) in enumerate([(0.5, True), (0.625, True), (0.4, False)]):
            one.record({"iteration": k, "quality": quality, "best": best, "tp": 10 * k})
        one.finish("done")
        frame = store.runs_frame()
    assert frame["id"].tolist() == [two.id, one.id]
    assert frame["status"].tolist() == ["running", "done"]
    assert frame["iterations"].tolist() == [0, 3]
    assert frame["best_iteration"].tolist() == [pd.NA, 1]
    assert frame["best_quality"].tolist()[1] == 0.625
    assert frame["tp"].tolist() == [pd.NA, 20]
    assert frame["finished"].isna().tolist() == [True, False]


def test_pairs_are_shown_with_their_query_and_their_places_in_it(url: str) -> None:
    gaps = Queries.from_arrays(np.zeros((5, 1)), group=[0, 2, 0, 3, *[0] * 200])
    with open_store(url) as store:
        run = start(store, vali=gaps)
        empty = run.pairs_frame("vali")
        run.add("train", 0, pairs((3, 0), (8, 4)))
        run.add("vali", 2, pairs((1, 0), (2, 4)))
        frame = run.pairs_frame()
        chunks = list(run.iter_pairs(chunk=1))
        assert empty.empty and empty.dtypes.equals(run.pairs_frame("vali").dtypes)
    columns = ["split", "qid", "winner", "loser", "winner_place", "loser_place", "first_iteration"]
    assert frame[columns].to_numpy().tolist() == [
        ["train", "b", 3, 0, 3, 0, 0],
        ["train", "a", 8, 4, 4, 0, 0],
        ["vali", "1", 1, 0, 1, 0, 2],
        ["vali", "3", 2, 4, 0, 2, 2],
    ]
    assert [len(chunk) for chunk in chunks] == [1, 1, 1, 1]
    assert pd.concat(chunks, ignore_index=True).equals(frame)


@pytest.mark.parametrize("column", ["winner", "loser"])
@pytest.mark.parametrize("value", [-(2**62), 2**31, "'x'"])
def test_a_damaged_document_of_a_pair_is_refused(
    tmp_path: Path, column: str, value: object
) -> None:
    with open_store(tmp_path / "s.db") as store:
        run = start(store)
        run.add("train", 0, pairs((0, 1), (2, 1)))
        with closing(sqlite3.connect(tmp_path / "s.db")) as other, other:
            other.execute(f"UPDATE pairs SET {column} = {value} WHERE winner = 2")
        with pytest.raises(StoreError, match="holds data SortNet does not write"):
            run.pairs("train")


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"SORTNET_STORE": "named/x.db", "XDG_DATA_HOME": "data"}, "named/x.db"),
        ({"XDG_DATA_HOME": "data"}, "data/sortnet/sortnet.db"),
        ({}, ".local/share/sortnet/sortnet.db"),
    ],
)
def test_without_a_url_the_environment_says_where(tmp_path, monkeypatch, variables, place):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SORTNET_STORE", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, path in variables.items():
        monkeypatch.setenv(name, str(tmp_path / path))
    open_store().close()
    assert (tmp_path / place).exists()


def test_a_sqlite_store_writes_ahead_and_syncs_every_commit(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store, store.database.transaction() as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
        assert found == ["wal", 2, 1]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://ann:s3cret@db/x", "mysql"),
        ("postgresql://ann:s3/cret@db:54x2/x", "cannot be read"),
        ("postgresql://ann:s3cret@127.0.0.1:1/x", "127.0.0.1:1/x"),
        ("postgresql://ann@127.0.0.1:1/x?password=s3cret", "127.0.0.1:1/x"),
        ("postgresql://ann:s3cret@127.0.0.1:1/x?nonsense=1", "nonsense"),
        ("postgresql+asyncpg://ann:s3cret@db/x", "postgresql://"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("://", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_used_is_one_line_without_the_password(url: str, says: str) -> None:
    message = fault(url)
    assert says in message
    assert "s3" not in message


def test_a_missing_driver_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'sortnet[postgresql]'" in fault("postgresql://localhost/x")


def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    winner, loser = np.triu_indices(300, 1)
    with open_store(tmp_path / "s.db") as store:
        run = start(store, train=Queries.from_arrays(np.zeros((300, 1))))
        run.add("train", 0, pairs((0, 1)))
        engine = store.database.engine
        event.listen(
            engine, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count=60")
        )
        engine.dispose()
        with pytest.raises(StoreError, match="database or disk is full"):
            run.add("train", 1, table(winner, loser))
        assert run.pairs_frame()["times"].tolist() == [1]


def test_a_place_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)
    assert f"{path}: file is not a database" in fault(path)
    assert path.read_text() == "not a database\n" * 100
    assert "is a folder: give a file in it" in fault(tmp_path)
    assert "cannot make" in fault(path / "s.db")


def test_a_store_is_read_while_another_writes_and_a_second_writer_waits_no_longer_than_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.database.engine.BUSY_SECONDS", 0)
    with open_store(url) as writer:
        run = start(writer)
        run.add("train", 0, pairs((0, 1)))
        with writer.database.transaction(write=True) as connection:
            connection.execute(text("UPDATE pairs SET times = 9"))
            with open_store(url) as reader:
                again = reader.run(run.id)
                assert again.pairs_frame()["times"].tolist() == [1]
                if url.startswith("sqlite"):
                    with pytest.raises(StoreError, match="database is locked"):
                        again.add("train", 0, pairs((0, 1)))


@pytest.mark.parametrize("given", [{"split": "vali"}, {"min_times": 3}, {"min_times": 9}])
def test_the_database_filters_as_a_whole_frame_would(store: Store, given: dict[str, Any]) -> None:
    run = start(store)
    for iteration in range(4):
        for split, n in (("train", 4), ("vali", 2)):
            winners = range(min(iteration + 1, n))
            run.add(split, iteration, pairs(*((w, k) for w in winners for k in range(n) if w != k)))
    whole = run.pairs_frame()
    assert len(whole) == 4 * 3 + 2
    is_kept = whole["times"] >= given.get("min_times", 0)
    is_kept &= whole["split"] == given.get("split", whole["split"])
    expected = whole[is_kept].reset_index(drop=True)
    pd.testing.assert_frame_equal(run.pairs_frame(**given), expected)
    chunks = list(run.iter_pairs(5, **given))
    assert all(0 < len(chunk) <= 5 for chunk in chunks)
    if chunks:
        pd.testing.assert_frame_equal(pd.concat(chunks, ignore_index=True), expected)
