"""sortnet runs, show and pairs: what the store keeps, as tables and as data."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke
from pandas.testing import assert_frame_equal
from result_helpers import value_of

from sortnet.data import read_queries
from store import Run, open_store


@pytest.fixture(scope="module")
def made(copy_of_trained) -> Path:
    """A folder with a store of two runs."""
    folder = copy_of_trained
    where = ("--out", folder / "m2", "--store", folder / "s.db")
    done("train", folder / "fold", *where, "--quality", "ndcg@5", *FAST)
    return folder


@pytest.fixture(autouse=True)
def _there(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setenv("SORTNET_STORE", "s.db")


def run_of(name: str) -> str:
    return json.loads(Path(name, "run.json").read_text())["run"]


@pytest.fixture
def run():
    with open_store("s.db") as store:
        yield store.run(run_of("m"))


def test_runs_are_listed_the_newest_first_with_their_best():
    lines = done("runs").splitlines()
    assert [line.split()[0] for line in lines] == ["run", run_of("m2"), run_of("m")]
    summary = value_of(done("runs", "--json"))
    for line, row in zip(lines[1:], summary, strict=True):
        assert line.split()[3:5] == ["done", f"{row['best_iteration']}/{row['iterations']}"]
        assert f" {row['best_quality']:.4f} " in line and line.endswith(row["out"])
    assert summary[0]["config"]["quality"] == "ndcg@5"


def test_a_run_is_shown_with_its_iterations_by_a_prefix_or_as_last(run):
    lines = done("show", run.id[:8]).splitlines()
    facts = dict(line.split(maxsplit=1) for line in lines[:8])
    frame = run.iterations_frame()
    assert facts["id"] == run.id and facts["command"] == run.command
    assert facts["kept"].startswith(f"the comparator: ndcg@10 {frame['quality'].max():.4f}; best")
    shown = [line.split()[7] for line in lines[-len(frame) :]]
    assert shown == [f"{value:.4f}" for value in frame["vali_ndcg@10"]]
    summary = value_of(done("show", "last", "--json"))
    assert summary["id"] == run_of("m2") and len(summary["iterations"]) > 1


def test_a_model_whose_store_is_gone_is_shown_by_what_its_folder_says(run, tmp_path, monkeypatch):
    shutil.copytree("m", tmp_path / "m")
    record = tmp_path / "m/run.json"
    record.write_text(record.read_text().replace("s.db", "gone.db"))
    monkeypatch.chdir(tmp_path)
    result = invoke("show", "m")
    assert result.exit_code == 0 and result.stderr.endswith("\nnext: sortnet evaluate m TEST\n")
    assert "the run is not shown: store" in result.stderr and "gone.db" in result.stderr
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["model"] == "m, a ranker of kind sortnet"
    assert lines["run"] == run.id and lines["kept"].startswith("the comparator: ndcg@10 ")
    assert "gone.db" in fault("show", "m", "--follow")


def test_a_run_without_iterations_is_shown_as_well():
    train = read_queries("fold/train.txt")
    with open_store("s2.db") as store:
        store.start_run(command="none", config={}, seed=0, versions={}, train=train, vali=train)
    there = ("--store", "s2.db")
    assert done("show", "last", *there).splitlines()[1].split() == ["status", "killed"]
    assert done("runs", *there).splitlines()[1].split()[4:7] == ["-", "-", "0"]
    header = done("pairs", "last", *there)
    assert header.startswith("split,qid,winner,loser,") and header.count("\n") == 1


def test_pairs_of_data_that_are_gone_or_changed_have_no_ids_and_say_why(own_trained, monkeypatch):
    monkeypatch.chdir(own_trained)
    Path("fold/train.txt").unlink()
    found = invoke("pairs", "last")
    assert found.exit_code == 0 and found.stderr.startswith("no ids for training documents: ")
    frame = pd.read_csv(io.StringIO(found.stdout))
    of_train = frame["split"] == "train"
    assert frame.loc[of_train, "winner_id"].isna().all() and of_train.any()
    assert frame.loc[~of_train, "winner_id"].str.startswith("d").all()
    with Path("fold/vali.txt").open("a") as vali:
        vali.write("0 qid:new 1:0\n")
    found = invoke("pairs", "last")
    assert found.stderr.count("\n") == 2 and "differs from what the run read" in found.stderr
    assert found.stdout == done("pairs", "last", "--no-ids")


def test_parquet_without_pyarrow_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "sortnet[parquet]" in fault("pairs", run.id, "--format", "parquet", "--output", "p")


def test_an_empty_store_says_how_runs_are_made(tmp_path):
    open_store(tmp_path / "new.db").close()
    result = invoke("runs", "--store", tmp_path / "new.db")
    assert result.exit_code == 0 and result.stdout == ""
    assert "no runs yet: sortnet train makes one" in result.stderr
    assert value_of(done("runs", "--store", tmp_path / "new.db", "--json")) == []


def test_a_model_folder_names_its_run_wherever_its_store_is(run, tmp_path, monkeypatch):
    expected = done("show", run.id)
    assert done("show", "m") == expected
    folder = Path("m").resolve()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", str(tmp_path / "other.db"))
    assert done("show", folder) == expected
    assert "is done" in invoke("show", folder, "--follow").stderr


@pytest.mark.parametrize("chunk", [7, 10**6])
def test_pairs_in_every_format_are_those_of_the_run_with_ids(run, tmp_path, monkeypatch, chunk):
    expected = run.pairs_frame().astype({"split": object, "qid": object})
    docids = {split: read_queries(f"fold/{split}.txt").docids for split in ("train", "vali")}
    for side in ("winner", "loser"):
        places = zip(expected["split"], expected[side], strict=True)
        expected[f"{side}_id"] = [docids[split][document] for split, document in places]
    iter_pairs = Run.iter_pairs
    monkeypatch.setattr(
        Run, "iter_pairs", lambda run, *, split: iter_pairs(run, chunk, split=split)
    )
    read = {"csv": pd.read_csv, "jsonl": lambda p: pd.read_json(p, lines=True),
            "parquet": pd.read_parquet}  # fmt: skip
    for form, reader in read.items():
        to = tmp_path / form
        assert done("pairs", run.id, "--format", form, "--output", to) == ""
        found = reader(to).astype({"split": object, "qid": object})
        assert_frame_equal(found, expected, check_dtype=False)
    printed = invoke("pairs", run.id, "--format", "parquet", "--split", "vali").stdout_bytes
    assert set(pd.read_parquet(io.BytesIO(printed))["split"]) == {"vali"}
