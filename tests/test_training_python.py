"""`store.training`: a run is trained, resumed and watched from Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sortnet import Queries, read_letor
from sortnet.errors import SortNetError
from sortnet.metrics import evaluate, parse_metric
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.registry import settings_for
from sortnet.tables.letor_writer import write_letor
from store.training import RunOptions, Watcher, resume, train
from store.training.fit_kind import fit_kind

SETTINGS = {"scaling": "normal", "max_iter": 2, "hidden": 4, "epochs": 4, "committee": 2}


def queries(seed: int) -> Queries:
    features = np.random.default_rng(seed).random((48, 3)).astype(np.float32)
    grades = np.floor(3 * features[:, 0]).astype(np.int32)
    return Queries.from_arrays(features, grades, group=[8] * 6)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "fold"
    folder.mkdir()
    for seed, name in enumerate(("train", "vali")):
        write_letor(queries(seed), folder / f"{name}.txt")
    return str(folder)


@pytest.fixture
def options(tmp_path):
    return RunOptions(store=str(tmp_path / "runs.db"), threads=1)


class Listens(Watcher):
    """Notes the steps of a run; interrupts it after its first iteration, as Ctrl-C does."""

    def __init__(self, *, stops: bool = False):
        self.told = []
        self.stops = stops

    def starting(self, job, origin):
        self.told.append("starting")

    def begun(self, training):
        self.told.append("begun")

    def iteration_ended(self, record, state):
        self.told.append(("iteration", record.iteration))
        if self.stops:
            raise KeyboardInterrupt

    def ended(self, trained):
        self.told.append(("ended", trained.best["iteration"]))


def test_a_run_that_is_interrupted_and_resumed_equals_one_that_was_not(data, options, tmp_path):
    whole = train(data, str(tmp_path / "whole"), options=options, **SETTINGS)
    stopping = replace(options, watcher=Listens(stops=True))
    with pytest.raises(SortNetError, match="resume with: sortnet train --resume"):
        train(data, str(tmp_path / "m"), options=stopping, **SETTINGS)
    listener = Listens()
    resumed = resume(str(tmp_path / "m"), options=replace(options, watcher=listener))
    assert resumed.ranker.weights_sha256() == whole.ranker.weights_sha256()
    assert resumed.measures == whole.measures and resumed.kept == whole.kept
    assert listener.told == [
        "begun",
        *(("iteration", row["iteration"]) for row in whole.rows[1:]),
        ("ended", whole.best["iteration"]),
    ]


def test_a_ranker_of_another_kind_is_fitted_without_a_run(data, options, tmp_path):
    settings = settings_for("ranksvm").changed(C=0.1)
    out = str(tmp_path / "svm")
    fitted = fit_kind([data], out, settings, options=options)
    saved = load_ranker(out)
    assert saved.config.kind == "ranksvm" and saved.config.flat()["C"] == 0.1
    vali = read_letor(f"{data}/vali.txt")
    expected = evaluate(vali, saved.order(vali), [parse_metric("ndcg@10")])
    assert fitted.measures["vali"]["ndcg@10"] == pytest.approx(expected["ndcg@10"])
    assert not (tmp_path / "runs.db").exists()
    with pytest.raises(SortNetError, match=r"has a model already.* in Python .*overwrite or out"):
        fit_kind([data], out, settings, options=options)


def test_parts_that_cannot_be_used_are_refused_before_anything_is_written(data, options, tmp_path):
    write_letor(replace(queries(0), grades=np.ones(48, np.int32)), f"{data}/train.txt")
    with pytest.raises(SortNetError, match="nothing to learn"):
        train(data, str(tmp_path / "m"), options=options, **SETTINGS)
    assert not (tmp_path / "m").exists() and not (tmp_path / "runs.db").exists()
