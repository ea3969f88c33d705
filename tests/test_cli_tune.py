"""sortnet train --tune: settings tried on the validation part, kept, and learned with."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from cli_made import copy_run, done, fault, invoke, make_fold

import sortnet.experiments.tuning
from sortnet.config import Config, Training
from sortnet.data import read_queries
from sortnet.experiments.tuning import tune
from sortnet.rankers.sortnet import Model
from store import open_store

FAST = (
    *("--epochs", "2", "--max-iter", "3", "--committee", "1", "--threads", "1"),
    *("--batch-size", "64"),
)
TRAIN = ("train", "fold", "--tune", "--out", "m", "--store", "s.db", *FAST)


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_fold(tmp_path / "fold")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    fold = make_fold(tmp_path_factory.mktemp("tune"))
    train, vali = (read_queries(fold / f"{part}.txt") for part in ("train", "vali"))
    how = Training(epochs=2, batch_size=64)
    config = Config(committee=1, max_iter=3, quality="ndcg@10", training=how)
    return tune(train, vali, config)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory) -> Path:
    """A folder with a tuned run and its store, and what it said in `said.txt`."""
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_fold(Path("fold"))
        Path("said.txt").write_text(done(*TRAIN))
    return folder


def test_the_trials_are_shown_and_the_best_is_learned_with(expected, tuned, tmp_path):
    copy_run(tuned, tmp_path)
    lines = Path("said.txt").read_text().splitlines()
    shown = [line.split()[-1] for line in lines[2 : 2 + len(expected.trials)]]
    assert shown == [f"{trial['quality']:.4f}" for trial in expected.trials]
    assert lines[1].split() == ["hidden", "weight_decay", "warm_start", "ndcg@10"]
    model = Model.load("m")
    assert model.config.to_json() == expected.config.to_json()
    assert model.info["quality"] == max(trial["quality"] for trial in expected.trials)


def test_the_trials_are_kept_in_the_folder_and_in_the_run(expected):
    summary = json.loads(done(*TRAIN, "--json"))
    kept = json.loads(Path("m/tuning.json").read_text())
    with open_store("s.db") as store:
        recorded = store.run("last").config
    assert kept["trials"] == recorded["tuning"] == summary["tuning"] == expected.trials
    assert kept["chosen"] == json.loads(json.dumps(expected.config.to_json()))
    assert recorded["hidden"] == list(expected.config.hidden)


def count_runs(patch, *, stop_at=None):
    """Counts the runs of the tuning; Ctrl-C comes in place of one of them."""
    fit, runs = sortnet.experiments.tuning.fit_ranker, []

    def counted(*args, **options):
        if len(runs) == stop_at:
            raise KeyboardInterrupt
        runs.append(1)
        return fit(*args, **options)

    patch.setattr(sortnet.experiments.tuning, "fit_ranker", counted)
    return runs


def test_trials_of_a_stopped_tuning_are_not_run_again(expected, monkeypatch):
    with monkeypatch.context() as patch:
        count_runs(patch, stop_at=4)
        result = invoke(*TRAIN)
    assert result.exit_code == 2
    again = shlex.split(result.stderr.strip().split("interrupted; resume with: ")[1])
    assert len(json.loads(Path("m/tuning.json").read_text())["trials"]) == 4
    runs = count_runs(monkeypatch)
    done(*again[1:])
    assert len(runs) == len(expected.trials) - 4
    assert Model.load("m").config.to_json() == expected.config.to_json()


def test_trials_with_other_settings_are_run_again(expected, tuned, tmp_path, monkeypatch):
    copy_run(tuned, tmp_path)
    for name in ("run.json", "model.json", "state.safetensors"):
        Path("m", name).unlink()
    runs = count_runs(monkeypatch)
    done(*TRAIN, "--resume", "--seed", "3")
    assert len(runs) == len(expected.trials)
    assert json.loads(Path("m/tuning.json").read_text())["asked"]["seed"] == 3


def test_a_tuned_run_is_resumed_without_tuning_again(tuned, tmp_path, monkeypatch):
    copy_run(tuned, tmp_path)
    monkeypatch.setattr(sortnet.experiments.tuning, "fit_ranker", None)
    result = invoke("train", "--out", "m", "--resume")
    assert result.exit_code == 0, result.output
    assert "finished already" in result.stderr


def test_a_run_that_was_not_tuned_is_not_tuned_in_the_middle():
    done("train", "fold", "--out", "m", "--store", "s.db", *FAST)
    assert "without it" in fault("train", "--out", "m", "--resume", "--tune")
