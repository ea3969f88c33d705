"""sortnet train: a folder of files becomes a model, a run in the store, and what it says."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import FAST, done, fault, invoke, letor, make_fold, nothing_changed, weights_of
from result_helpers import notes_of, value_of

from sortnet.data import read_queries
from sortnet.metrics import evaluate
from sortnet.rankers.model import Model
from store import open_store


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    """Every test has a working folder and a user's data folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SORTNET_STORE", raising=False)
    make_fold(tmp_path / "fold")


@pytest.fixture
def said(own_trained) -> str:
    """What a training said; its model is `m` in the working folder, its store `s.db`."""
    return Path("said.txt").read_text()


def iterations_of_the_last_run(url="s.db"):
    with open_store(url) as store:
        return store.run("last").iterations_frame()


def test_a_run_says_into_how_many_iterations_it_divides_its_training():
    options = ("--store", "s.db", *FAST, "--epochs", 3, "--max-iter", 5)
    said = "steps, in 3 iterations, not 5: an iteration has at least one epoch\n"
    assert said in done("train", "fold", *options)
    assert iterations_of_the_last_run()["iteration"].tolist() == [0, 1, 2, 3]


def test_json_is_one_document_and_the_table_goes_to_stderr():
    result = invoke("train", "fold", "--json", "--store", "s.db", *FAST)
    summary = value_of(result.stdout, "training")
    frame = iterations_of_the_last_run()
    assert [row["vali_map"] for row in summary["iterations"]] == frame["vali_map"].tolist()
    best = frame["vali_ndcg@10"].idxmax()
    assert summary["best_iteration"] == best
    assert summary["measures"]["vali"]["map"] == frame["vali_map"][best]
    assert any("counted zero: train" in note for note in notes_of(result.stdout))
    assert summary["iterations"][-1]["train_loss"] is None, "no NaN, which is no JSON"
    assert "\niter " in result.stderr


def test_the_store_is_in_the_user_s_folder_or_where_the_environment_says(tmp_path, monkeypatch):
    done("train", "fold", "--out", "m1", *FAST)
    assert (tmp_path / "data/sortnet/sortnet.db").exists()
    monkeypatch.setenv("SORTNET_STORE", "other.db")
    done("train", "fold", "--out", "m2", *FAST)
    assert weights_of("m2").read_bytes() == weights_of("m1").read_bytes()
    assert Path("other.db").exists()


def test_a_run_whose_store_has_gone_is_not_resumed(said):
    Path("s.db").unlink()
    assert Model.load("m").info["run"] in fault("train", "--out", "m", "--resume")


def test_two_runs_cannot_be_in_one_folder():
    Path("m").mkdir()
    handle = os.open("m", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "another sortnet train is running" in fault("train", "fold", "--out", "m", *FAST)
    finally:
        os.close(handle)
    done("train", "fold", "--out", "m", *FAST)


def test_a_run_json_that_is_not_as_it_was_written_is_refused_and_nothing_built(said, monkeypatch):
    monkeypatch.setattr("store.training.job.make_comparator", None)
    path = Path("m/run.json")
    record = json.loads(path.read_text())
    for changes, why in (
        ({"format_version": 99}, "format version 99"),
        ({"asked": {"hidden": [100_000, 10_000]}}, "settings were changed after it was"),
        ({"config": {"hidden": [100_000, 10_000]}}, "settings were changed after it was"),
    ):
        path.write_text(json.dumps(record | changes))
        assert why in fault("train", "--out", "m", "--resume")
    path.unlink()
    assert "m has a model but no run.json" in fault("train", "--out", "m", "--resume")


def test_the_first_line_says_what_chooses_and_by_how_many_queries(said):
    vali = read_queries("fold/vali.txt")
    several = [len(set(grades)) > 1 for grades in np.split(vali.grades, vali.offsets[1:-1])]
    assert said.splitlines()[0] == (
        f"ndcg@10 chooses the iteration: {sum(several)} of 8 validation queries can choose"
    )
    change_grades("train", lambda grade: min(grade, 1))
    lines = done("train", "fold/train.txt", "fold/train.txt", "--out", "m2", *FAST).splitlines()
    assert lines[0].startswith("map chooses the iteration: ")
    assert lines[1] == "VALI is the data of TRAIN: all figures are training figures"


def test_a_measure_that_cannot_choose_is_refused_with_what_can():
    for part in ("train", "vali"):
        change_grades(part, lambda grade: grade + 1)
    message = fault("train", "fold", "--quality", "p@3", *FAST)
    assert message.startswith("sortnet: fold/vali.txt: p@3 scores every ranking alike")
    assert "try another relevant_from, or quality=ndcg@10" in message
    done("train", "fold", "--quality", "p@3", "--set", "relevant_from=2", *FAST)


def test_the_figures_at_the_end_are_the_model_s_and_the_next_command_works(said):
    lines = said.splitlines()
    vali = read_queries("fold/vali.txt")
    order = Model.load("m").sort(vali).order
    figures = evaluate(vali, order, ["ndcg@10", "map", "p@10", "mrr"])
    line = next(x for x in lines if x.startswith("vali "))
    assert line.split()[1:] == [f"{v:.4f}" for v in figures.values()]
    command = shlex.split(lines[-1].removeprefix("next: "))
    assert done(*command[1:]).startswith("metric")


def test_overwrite_begins_again_in_the_same_folder(said):
    first = Model.load("m").info["run"]
    with nothing_changed(Path("m")):
        fault("train", "nowhere", "--out", "m", "--overwrite", *FAST)
    done("train", "fold", "--out", "m", "--store", "s.db", "--overwrite", *FAST, "--seed", "5")
    model = Model.load("m")
    assert model.info["run"] != first and model.config.seed == 5


def test_a_finished_run_is_resumed_by_its_folder_and_changes_nothing(said):
    before, frame = weights_of("m").read_bytes(), iterations_of_the_last_run()
    result = invoke("train", "--out", "m", "--resume", "--json")
    assert result.exit_code == 0 and "finished already" in result.stderr
    assert value_of(result.stdout)["config"]["hidden"] == [4]
    assert weights_of("m").read_bytes() == before
    assert iterations_of_the_last_run().equals(frame)


@pytest.mark.parametrize(
    ("options", "whys"),
    [
        (("fold", *FAST), ("m has a model", "--resume", "--overwrite", "--out")),
        (("--resume", "--overwrite"), ("one of them",)),
        (("--resume", "--set", "hidden=4,4", "--seed", 3), ("hidden (4, 4), not (4,)", "seed 3")),
        (("--resume", "--epochs", 99), ("; train on: sortnet train DATA --from m --out NEW",)),
        (("--resume", "--store", "t.db"), ("s.db, not in ",)),
    ],
)
def test_a_folder_that_has_a_run_keeps_it_with_its_settings_and_store(said, options, whys):
    with nothing_changed(Path("m")):
        message = fault("train", *options, "--out", "m")
    assert [why for why in whys if why not in message] == []
    assert not Path("t.db").exists()


def test_a_resumed_run_keeps_its_data_which_it_finds_under_another_name(said):
    shutil.move("fold", "moved")
    assert invoke("train", "moved", "--out", "m", "--resume").exit_code == 0
    assert "fold/train.txt" in fault("train", "--out", "m", "--resume")
    Path("moved/vali.txt").write_text(letor(8, 99))
    message = fault("train", "moved", "--out", "m", "--resume")
    assert "vali data moved/vali.txt" in message


def change_grades(part: str, change) -> None:
    """Change the grades of a part of the data."""
    path = Path(f"fold/{part}.txt")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(f"{change(int(line[0]))}{line[1:]}" for line in lines))


def test_an_iteration_is_a_line_and_the_best_is_named(said):
    frame = iterations_of_the_last_run()
    lines = said.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("iter ")) + 1
    shown = lines[start : start + len(frame)]
    assert [line.split()[7] for line in shown] == [f"{v:.4f}" for v in frame["vali_ndcg@10"]]
    assert [line.endswith("*") for line in shown] == frame["best"].tolist()
    kept = frame["quality"].idxmax()
    assert f"best is iteration {kept} of 0 to {len(frame) - 1} (the last *)" in lines
