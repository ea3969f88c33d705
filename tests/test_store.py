"""The store around its pairs: opening, runs, iterations, frames, faults."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pair_tables import table
from sqlalchemy import Engine, event, text

from sortnet.core import ComparedPairs, Queries
from sortnet.errors import StoreError
from sortnet.learning.iterations import Iteration
from store import Run, Store, open_store
from store.store import new_run_id


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
            versions={"sortnet": "0.1"},
            data={"train": {"fingerprint": "ab12"}},
            out=Path("models/one"),
        )
    with open_store(url) as store:
        run = store.run(started.id)
    assert run.id == started.id
    assert run.command == "train x"
    assert run.config == {"lr": 0.5, "hidden": [20], "tau": None}
    assert run.seed == 2**40
    assert run.versions == {"sortnet": "0.1"}
    assert run.out == "models/one"
    assert run.created == started.created
    assert run.data == {
        "train": {
            "path": "train.txt",
            "fingerprint": "ab12",
            "n_queries": 2,
            "n_docs": 9,
            "n_features": 3,
        },
        "vali": {"path": "vali.txt", "n_queries": 2, "n_docs": 5, "n_features": 3},
    }


def test_a_run_goes_by_the_beginning_of_its_id_or_as_the_last(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        first, last = start(store), start(store)
        assert store.run(first.id[:11]).id == first.id
        assert store.run(first.id.upper()).id == first.id
        assert store.run("last").id == last.id


def test_an_unknown_run_is_refused_and_the_known_ones_named(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        with pytest.raises(StoreError, match="no run 'last'; runs: none yet"):
            store.run("last")
        ids = [start(store).id for _ in range(17)]  # more than hexadecimal digits
        with pytest.raises(StoreError, match=f"no run 'xyz'; runs: {ids[-1]}, {ids[-2]}"):
            store.run("xyz")
        with pytest.raises(StoreError, match="no run ''"):
            store.run("")
        digit = next(d for d in "0123456789abcdef" if sum(i[0] == d for i in ids) > 1)
        with pytest.raises(StoreError, match=f"runs begin with '{digit}'"):
            store.run(digit)


def test_every_figure_of_the_loop_has_its_column(url: str) -> None:
    figures: dict[str, Any] = {
        field.name: k for k, field in enumerate(dataclasses.fields(Iteration))
    }
    figures.update(measures={"train": {"map": 0.5}}, best=False, train_loss=float("nan"))
    figures["observed"] = {"vali": {"cycles": {"share": 0.25, "sampled": 8}}}
    with open_store(url) as store:
        run = start(store)
        run.record(vars(Iteration(**figures)))
        (kept,) = run.iterations_frame().to_dict("records")
        (cycles,) = run.cycles_frame().to_dict("records")
    cycles_given = figures.pop("observed")["vali"]["cycles"]
    assert cycles == {"iteration": 0, "split": "vali", **cycles_given}
    assert kept.pop("train_map") == figures.pop("measures")["train"]["map"]
    assert np.isnan(kept.pop("train_loss")) and np.isnan(figures.pop("train_loss"))
    del kept["created"]
    assert kept == figures


def test_recording_an_iteration_again_replaces_what_is_given(url: str) -> None:
    with open_store(url) as store:
        run = start(store)
        run.record({"iteration": 1, "tp": np.int64(5), "quality": np.float32(0.25)})
        run.record({"iteration": 0, "tp": 3, "best": np.bool_(True), "seconds_sort": 0.5})
        run.record({"iteration": 1, "tp": 6, "measures": {"vali": {"map": 0.75, "mrr": np.nan}}})
        frame = run.iterations_frame()
    assert frame["iteration"].tolist() == [0, 1]
    assert frame["tp"].tolist() == [3, 6]
    assert frame["quality"].tolist()[1] == 0.25
    assert frame["vali_map"].tolist()[1] == 0.75
    assert frame["vali_mrr"].isna().all()
    assert frame["vp"].isna().all()
    assert frame["best"].tolist() == [True, pd.NA]
    assert frame["seconds_sort"][0] == 0.5


@pytest.mark.parametrize("given", [{"iteration": 0, "colour": 1}, {"tp": 1}])
def test_a_record_of_no_column_or_no_iteration_is_refused(
    tmp_path: Path, given: dict[str, object]
) -> None:
    with (
        open_store(tmp_path / "s.db") as store,
        pytest.raises(StoreError, match=r"'colour'|'iteration' is missing"),
    ):
        start(store).record(given)


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
    assert str(frame["created"].dtype) == "datetime64[us, UTC]"


def test_a_resumed_run_is_running_again_and_no_other_status_is_taken(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        run = start(store)
        run.finish("interrupted")
        assert run.status == "interrupted"
        run.finish("running")
        assert run.status == "running"
        assert store.runs_frame()["finished"].isna().all()
        with pytest.raises(StoreError, match="'happy' is none of running, done"):
            run.finish("happy")


def test_a_run_gets_the_id_that_was_made_for_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        new = new_run_id()
        assert not store.has_run(new)
        assert start(store, run_id=new).id == new
        assert store.has_run(new) and not store.has_run(new[:6])
        with pytest.raises(StoreError):
            start(store, run_id=new)


def test_pairs_are_shown_with_their_query_and_their_places_in_it(url: str) -> None:
    with open_store(url) as store:
        run = start(store)
        run.add("train", 0, pairs((3, 0), (8, 4)))
        run.add("vali", 2, pairs((4, 2), (0, 1)))
        frame = run.pairs_frame()
        chunks = list(run.iter_pairs(chunk=1))
    assert frame["split"].tolist() == ["train", "train", "vali", "vali"]
    assert frame["qid"].tolist() == ["b", "a", "c", "b"]
    assert frame["winner"].tolist() == [3, 8, 0, 4]
    assert frame["winner_place"].tolist() == [3, 4, 0, 2]
    assert frame["loser_place"].tolist() == [0, 0, 1, 0]
    assert frame["first_iteration"].tolist() == [0, 0, 2, 2]
    assert [len(chunk) for chunk in chunks] == [1, 1, 1, 1]
    assert pd.concat(chunks, ignore_index=True).equals(frame)


def test_a_frame_without_pairs_has_the_same_columns_and_types(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        run = start(store)
        empty = run.pairs_frame("vali")
        run.add("vali", 0, pairs((0, 1)))
        assert empty.empty
        assert empty.dtypes.equals(run.pairs_frame("vali").dtypes)


@pytest.mark.parametrize("column", ["winner", "loser"])
@pytest.mark.parametrize("value", [2**62, -(2**62), 2**31, "'x'"])
def test_a_damaged_document_of_a_pair_is_refused(
    tmp_path: Path, column: str, value: object
) -> None:
    with open_store(tmp_path / "s.db") as store:
        run = start(store)
        run.add("train", 0, pairs((0, 1), (2, 1)))
        with closing(sqlite3.connect(tmp_path / "s.db")) as other, other:
            other.execute("PRAGMA ignore_check_constraints = ON")
            other.execute(f"UPDATE pairs SET {column} = {value} WHERE winner = 2")
        with pytest.raises(StoreError, match="holds data SortNet does not write"):
            run.pairs("train")


def test_queries_without_documents_do_not_shift_the_others(tmp_path: Path) -> None:
    gaps = Queries.from_arrays(np.zeros((5, 1)), group=[0, 2, 0, 3, 0])
    with open_store(tmp_path / "s.db") as store:
        run = start(store, train=gaps, vali=gaps.take([]))
        run.add("train", 0, pairs((1, 0), (2, 4)))
        assert run.pairs_frame("train")["qid"].tolist() == ["1", "3"]


def test_without_a_url_the_environment_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SORTNET_STORE", str(tmp_path / "named" / "x.db"))
    open_store().close()
    assert (tmp_path / "named" / "x.db").exists()
    monkeypatch.delenv("SORTNET_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    open_store().close()
    assert (tmp_path / "home" / "sortnet" / "sortnet.db").exists()
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    open_store().close()
    assert (tmp_path / "me" / ".local" / "share" / "sortnet" / "sortnet.db").exists()


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


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)
    assert f"{path}: file is not a database" in fault(path)
    assert path.read_text() == "not a database\n" * 100


def test_a_place_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    assert "is a folder: give a file in it" in fault(tmp_path)
    (tmp_path / "file").touch()
    assert "cannot make" in fault(tmp_path / "file" / "s.db")


def test_a_read_only_store_is_refused() -> None:
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        open_store(path).close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        if root:
            os.seteuid(65534)  # root may write anything
        try:
            message = fault(path)
        finally:
            if root:
                os.seteuid(0)
            Path(folder).chmod(0o755)
    assert message.startswith(f"store {path}: it is read-only here; to write, SQLite needs")


def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    many = Queries.from_arrays(np.zeros((300, 1)))
    winner, loser = np.triu_indices(300, 1)
    with open_store(tmp_path / "s.db") as store:
        run = start(store, train=many)
        run.add("train", 0, pairs((0, 1)))
        _allow_pages(store.database.engine, 60)
        with pytest.raises(StoreError, match="database or disk is full"):
            run.add("train", 1, table(winner, loser))
        assert run.pairs_frame()["times"].tolist() == [1]


def _allow_pages(engine: Engine, pages: int) -> None:
    """Give SQLite no more room than that, as a full disk does."""

    def limit(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "connect", limit)
    engine.dispose()


def test_a_database_that_fails_in_the_middle_is_a_store_error(url: str) -> None:
    with open_store(url) as store:
        run = start(store)
        with store.database.transaction(write=True) as connection:
            connection.execute(text("DROP TABLE pairs"))
        with pytest.raises(StoreError, match="pairs"):
            run.add("train", 0, pairs((0, 1)))
        with pytest.raises(StoreError, match="pairs"):
            run.pairs("train")


def test_importing_the_store_imports_neither_torch_nor_pandas() -> None:
    code = "import sys, store; print(sorted({'torch', 'numba', 'pandas'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_store_is_opened_and_read_while_another_process_writes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.database.engine.BUSY_SECONDS", 0)
    with open_store(url) as writer:
        run = start(writer)
        run.add("train", 0, pairs((0, 1)))
        with writer.database.transaction(write=True) as connection:
            connection.execute(text("UPDATE pairs SET times = 9"))
            with open_store(url) as reader:
                assert reader.run(run.id).pairs_frame()["times"].tolist() == [1]


def test_waiting_too_long_for_another_writer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.database.engine.BUSY_SECONDS", 0)
    with open_store(tmp_path / "s.db") as one, open_store(tmp_path / "s.db") as other:
        run = start(one)
        with (
            other.database.transaction(write=True),
            pytest.raises(StoreError, match="database is locked"),
        ):
            run.add("train", 0, pairs((0, 1)))
