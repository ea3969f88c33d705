"""Settings left open: settled by trials on the validation part, kept, shown, and learned with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke, make_fold
from result_helpers import value_of

from cli.printing.iterations import chosen
from sortnet.config import DEFAULTS, PAPER, Config
from sortnet.rankers.sortnet import Model
from store import open_store
from store.training import training_run

FAST = ("--epochs", "4", "--committee", "1", "--trees", "2", "--depth", "3", "--threads", "1")
TRAIN = ("train", "fold", "--out", "m", "--store", "s.db", *FAST)


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_fold(tmp_path / "fold")


def test_the_trials_are_shown_kept_and_the_chosen_settings_learned_with():
    out = done(*TRAIN)
    with open_store("s.db") as store:
        trials = store.run("last").config["tuning"]
    header = ["scaling", "weight_decay", "ndcg@10"]
    assert len(trials) == 3
    lines = [line.split() for line in out.splitlines()]
    at = lines.index(header)
    shown = lines[at + 1 : at + 1 + len(trials)]
    assert [line[-1] for line in shown] == [f"{trial['quality']:.4f}" for trial in trials]
    settled, names = Model.load("m").config.flat(), header[:2]
    assert [settled[name] for name in names] in [[t[name] for name in names] for t in trials]
    again = [line.split() for line in done("show", "last", "--store", "s.db").splitlines()]
    assert again[again.index(header) :][: len(trials) + 1] == lines[at : at + len(trials) + 1]
    assert lines[at + len(trials) + 1] in again  # what was chosen


def test_with_a_budget_of_answers_nothing_is_tried_and_the_run_says_which_pairs_it_asks_about():
    out = done(*TRAIN, "--judgements", "100", "--json")
    facts = value_of(out, "training")
    assert facts["tuning"] is None and facts["answers"] <= 100
    assert (facts["config"]["pairs"], facts["config"]["scaling"]) == ("top", "query+rank+normal")
    printed = done("show", "last", "--store", "s.db")
    assert "no trials: scaling query+rank+normal, weight_decay 0.01\n" in printed


def test_nothing_is_tried_where_nothing_is_open():
    whole = ("--scaling", "rank", "--weight-decay", "0.1")
    for k, typed in enumerate((("--no-tune",), whole)):
        folder = f"m{k}"
        out = done("train", "fold", "--out", folder, "--store", "s.db", *FAST, *typed)
        assert "chosen" not in out
        shown = done("show", "last", "--store", "s.db")
        settled = Model.load(folder).config.flat()
        if typed != whole:
            fixed = DEFAULTS["trees"] | {"trees": 2, "depth": 3}
            assert {name: settled[name] for name in fixed} == fixed
        line = "no trials: scaling {scaling}, weight_decay {weight_decay}\n\n"
        assert line.format(**settled) in shown


def test_one_trial_is_said_to_be_one():
    trial = {"scaling": "query", "hidden": [8], "epochs": 3, "quality": 0.5}
    config = {"scaling": "query", "hidden": [8], "weight_decay": 0.0}
    assert chosen(config, [trial]) == "one trial: scaling query, hidden 8"
    assert chosen(config, [trial] * 2) == "chosen: scaling query, hidden 8"
    assert chosen({}, []) == ""


def test_a_run_is_resumed_without_trials(monkeypatch):
    done(*TRAIN)
    monkeypatch.setattr(training_run, "choose", None)
    result = invoke("train", "--out", "m", "--resume")
    assert result.exit_code == 0, result.output
    assert "finished already" in result.stderr


def test_the_preset_of_the_paper_is_its_algorithm_and_can_be_changed():
    done("train", "fold", "--out", "m", "--store", "s.db", "--preset", "paper", "--max-iter", "2")
    asked = json.loads(Path("m/run.json").read_text())["asked"]
    config = Config.from_json(asked)
    assert config == Config().changed(**{**PAPER, "max_iter": 2, "quality": config.quality})
    assert len(Model.load("m").comparator.members) == 1
    assert "invalid" in fault("train", "fold", "--preset", "other").lower()
