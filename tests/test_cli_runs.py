"""sortnet runs, show and pairs: what the store keeps, as tables and as data."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke, runner
from pandas.testing import assert_frame_equal
from result_helpers import value_of
from sqlalchemy import update

from cli.main import main
from sortnet.data import read_queries
from store import Run, open_store
from store.database.schema import RunRow


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
    with open_store("s.db") as store:
        frame = store.runs_frame()
    for line, row in zip(lines[1:], frame.to_dict("records"), strict=True):
        cells = line.split()
        assert cells[3] == "done" and cells[-1] == row["out"]
        assert cells[4] == f"{row['best_iteration']}/{row['iterations']}"
        assert cells[6] == f"{row['best_quality']:.4f}"
        assert cells[7] == str(row["tp"] + row["vp"])
    summary = value_of(done("runs", "--json"))
    assert [row["id"] for row in summary] == [run_of("m2"), run_of("m")]
    assert summary[0]["config"]["quality"] == "ndcg@5"
    assert pd.Timestamp(summary[0]["created"]).tzinfo is not None


def test_a_run_is_shown_with_its_iterations_by_a_prefix_or_as_last(run):
    lines = done("show", run.id[:8]).splitlines()
    assert lines[0].split() == ["id", run.id]
    assert lines[2].split(maxsplit=1) == ["command", run.command]
    figure = f"ndcg@10 {run.iterations_frame()['quality'].max():.4f}"
    reason = "best on the validation queries of iterations 0 to "
    assert lines[4].startswith(f"kept     the comparator: {figure}; {reason}")
    data = {name: read_queries(f"fold/{name}.txt") for name in ("train", "vali")}
    for line, (name, q) in zip(lines[5:7], data.items(), strict=True):
        assert line.startswith(f"{name} ")
        assert line.endswith(f": {len(q)} queries, {q.n_docs} documents, 4 features")
    assert lines[7] == "scaling  query: a margin depends on the other documents of the query too"
    frame = run.iterations_frame()
    assert [line.split()[7] for line in lines[-len(frame) :]] == [
        f"{value:.4f}" for value in frame["vali_ndcg@10"]
    ]
    lines = done("show", "last").splitlines()
    assert lines[0].split() == ["id", run_of("m2")]
    assert any("ndcg@5  " in line for line in lines)


def test_a_run_as_json_has_all_there_is(run):
    summary = value_of(done("show", run.id, "--json"))
    frame = run.iterations_frame()
    assert summary["seed"] == 0 and summary["data"]["train"]["n_queries"] == 20
    assert [row["tp"] for row in summary["iterations"]] == frame["tp"].tolist()
    assert [row["best"] for row in summary["iterations"]] == frame["best"].tolist()
    assert summary["iterations"][-1]["train_loss"] is None


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_run_of_a_model_folder_is_shown_wherever_its_store_is(
    run, tmp_path, monkeypatch, options
):
    expected = done("show", run.id, *options)
    assert done("show", "m", *options) == expected
    folder = Path("m").resolve()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", str(tmp_path / "other.db"))
    assert done("show", folder, *options) == expected


def test_a_run_of_a_model_folder_is_followed():
    assert "is done" in invoke("show", "m", "--follow").stderr


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
    assert lines["run"] == run.id
    figure = f"ndcg@10 {run.iterations_frame()['quality'].max():.4f}"
    assert lines["kept"].startswith(f"the comparator: {figure}")
    assert "gone.db" in fault("show", "m", "--follow")


def test_a_model_of_another_kind_which_no_run_made_is_shown(tmp_path):
    done("train", "fold", "--ranker", "ranksvm", "--out", tmp_path / "svm")
    result = invoke("show", tmp_path / "svm")
    assert "no run of a store made this model" in result.stderr
    assert f"{tmp_path / 'svm'}, a ranker of kind ranksvm" in result.stdout
    model = value_of(done("show", tmp_path / "svm", "--json"))
    assert (model["kind"], model["n_features"]) == ("ranksvm", 4)
    assert result.stdout.count("\n") == 4 and "ndcg@10 " in result.stdout


def test_the_newest_run_is_last_even_beside_a_folder_of_that_name():
    shutil.copytree("m", "last")
    try:
        assert done("show", "last").splitlines()[0].split() == ["id", run_of("m2")]
        assert done("show", "./last").splitlines()[0].split() == ["id", run_of("m")]
    finally:
        shutil.rmtree("last")


def test_a_run_without_iterations_is_shown_as_well():
    train = read_queries("fold/train.txt")
    with open_store("s2.db") as store:
        store.start_run(
            command="none", config={}, seed=0, versions={}, train=train, vali=train
        )  # fmt: skip
    assert done("show", "last", "--store", "s2.db").splitlines()[1].split() == ["status", "killed"]
    assert done("runs", "--store", "s2.db").splitlines()[1].split()[4:7] == ["-", "-", "0"]
    header = done("pairs", "last", "--store", "s2.db")
    assert header.startswith("split,qid,winner,loser,") and header.count("\n") == 1
    done("pairs", "last", "--store", "s2.db", "--format", "parquet", "--output", "none.parquet")
    assert len(pd.read_parquet("none.parquet")) == 0


def with_ids(pairs: pd.DataFrame) -> pd.DataFrame:
    docids = {split: read_queries(f"fold/{split}.txt").docids for split in ("train", "vali")}
    return pairs.assign(
        **{
            f"{side}_id": [docids[s][d] for s, d in zip(pairs["split"], pairs[side], strict=True)]
            for side in ("winner", "loser")
        }
    )


@pytest.mark.parametrize("split", ["train", "vali", "all"])
def test_pairs_in_every_format_are_those_of_the_run(run, tmp_path, split):
    expected = run.pairs_frame(None if split == "all" else split)
    expected = with_ids(expected.astype({"split": object, "qid": object}))
    assert len(expected)
    read = {"csv": pd.read_csv, "jsonl": lambda p: pd.read_json(p, lines=True),
            "parquet": pd.read_parquet}  # fmt: skip
    for form, reader in read.items():
        to = tmp_path / form
        assert done("pairs", run.id, "--format", form, "--output", to, "--split", split) == ""
        frame = reader(to).astype({"split": object, "qid": object})
        assert_frame_equal(frame, expected, check_dtype=False)


def test_pairs_come_in_parts_that_join_without_a_seam(run, monkeypatch):
    whole = {form: done("pairs", run.id, "--format", form) for form in ("csv", "jsonl")}
    iter_pairs = Run.iter_pairs
    monkeypatch.setattr(Run, "iter_pairs", lambda run, *, split: iter_pairs(run, 7, split=split))
    for form, text in whole.items():
        assert done("pairs", run.id, "--format", form) == text
    result = invoke("pairs", run.id, "--format", "parquet")
    assert result.exit_code == 0
    found = pd.read_parquet(io.BytesIO(result.stdout_bytes))
    assert_frame_equal(found, with_ids(run.pairs_frame()))


def test_pairs_of_data_that_are_gone_or_changed_have_no_ids_and_say_why(made, tmp_path):
    shutil.copy(made / "s.db", tmp_path / "s.db")
    vali = Path("fold/vali.txt")
    text = vali.read_text()
    with open_store(tmp_path / "s.db") as store:
        run = store.run(run_of("m"))
        gone = {**run.data, "train": {**run.data["train"], "path": "gone.txt"}}
        with store.database.transaction(write=True) as connection:
            connection.execute(update(RunRow).values(data=gone))
    found = invoke("pairs", run.id, "--store", tmp_path / "s.db")
    assert found.exit_code == 0 and found.stderr.startswith(
        "no ids for training documents: gone.tx"
    )
    frame = pd.read_csv(io.StringIO(found.stdout))
    of_train = frame["split"] == "train"
    assert frame.loc[of_train, "winner_id"].isna().all() and of_train.any()
    assert frame.loc[~of_train, "winner_id"].str.startswith("d").all()
    try:
        vali.write_text(text.replace("d0-0", "d9-9"))
        found = invoke("pairs", run.id, "--store", tmp_path / "s.db")
    finally:
        vali.write_text(text)
    assert found.stderr.count("\n") == 2 and "differs from what the run read" in found.stderr
    assert found.stdout == done("pairs", run.id, "--no-ids")


def test_parquet_without_pyarrow_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "sortnet[parquet]" in fault("pairs", run.id, "--format", "parquet", "--output", "p")


def test_an_empty_store_says_how_runs_are_made(tmp_path):
    open_store(tmp_path / "new.db").close()
    result = invoke("runs", "--store", tmp_path / "new.db")
    assert result.exit_code == 0 and result.stdout == ""
    assert "no runs yet: sortnet train makes one" in result.stderr
    assert value_of(done("runs", "--store", tmp_path / "new.db", "--json")) == []


@pytest.mark.postgresql
def test_a_run_in_postgresql_is_the_run_in_sqlite(postgresql_url, tmp_path, run):
    done("train", "fold", "--out", tmp_path / "m", "--store", postgresql_url, *FAST)
    assert done("pairs", "last", "--store", postgresql_url) == done("pairs", run.id)
    summary, ours = (
        value_of(done("show", name, "--store", url, "--json"))["iterations"]
        for name, url in (("last", postgresql_url), (run.id, "s.db"))
    )
    for row, other in zip(summary, ours, strict=True):
        same = {k: v for k, v in row.items() if k != "created" and not k.startswith("seconds")}
        assert same.items() <= other.items()


def test_a_labelling_has_answers_in_place_of_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "answers.db")
    texts = "".join(f"a{k},{'word ' * (k + 1)}\n" for k in range(6))
    Path("texts.csv").write_text(f"id,text\n{texts}")
    done("items", "add", "texts", "texts.csv")
    answers = "left\n" * 8 + "quit\n"
    result = runner().invoke(main, ["label", "texts", "--as", "ana"], input=answers)
    assert result.exit_code == 0, result.output
    message = fault("pairs", "last", "--output", "pairs.csv")
    assert "(sortnet label texts) has answers and no pairs: sortnet judgements export" in message
    assert not Path("pairs.csv").exists()
