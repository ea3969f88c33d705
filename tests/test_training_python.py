"""`store.training`: a run is trained, resumed and watched from Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from call_counting import count_calls

from sortnet import Pairs, Queries, read_letor
from sortnet.config import Config, choose_quality
from sortnet.errors import SortNetError
from sortnet.learning.judges import check_can_be_learned
from sortnet.metrics import check_can_choose, evaluate, parse_metric
from sortnet.rankers.better_ranker import better_ranker
from sortnet.rankers.fit_ranker import check_same_features
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.registry import settings_for
from sortnet.tables.letor_writer import write_letor
from store import open_store
from store.training import RunOptions, Watcher, resume, train, watch
from store.training.fit_kind import fit_kind
from store.training.run_folder import Folder

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


class Stops(Watcher):
    """Interrupts the run after its first iteration, as Ctrl-C does."""

    def iteration_ended(self, record):
        raise KeyboardInterrupt


class Listens(Watcher):
    def __init__(self):
        self.told = []

    def starting(self, job, origin, *, is_new):
        self.told.append(("starting", is_new))

    def begun(self, training, *, is_new):
        self.told.append(("begun", is_new))

    def iteration_ended(self, record):
        self.told.append(("iteration", record.iteration))

    def ended(self, trained):
        self.told.append(("ended", trained.best["iteration"]))


def with_watcher(options: RunOptions, watcher: Watcher) -> RunOptions:
    return RunOptions(store=options.store, threads=1, watcher=watcher)


def test_a_run_that_is_interrupted_and_resumed_equals_one_that_was_not(data, options, tmp_path):
    whole = train(data, str(tmp_path / "whole"), options=options, **SETTINGS)
    with pytest.raises(SortNetError, match="resume with: sortnet train --resume"):
        train(data, str(tmp_path / "m"), options=with_watcher(options, Stops()), **SETTINGS)
    with open_store(options.store, write=False) as store:
        assert store.run("last").status == "interrupted"
    listener = Listens()
    resumed = resume(str(tmp_path / "m"), options=with_watcher(options, listener))
    assert resumed.ranker.weights_sha256() == whole.ranker.weights_sha256()
    assert resumed.measures == whole.measures and resumed.kept == whole.kept
    assert listener.told[:2] == [("starting", False), ("begun", False)]
    assert listener.told[2:] == [
        *(("iteration", row["iteration"]) for row in whole.rows[1:]),
        ("ended", whole.best["iteration"]),
    ]
    assert Folder(tmp_path / "m").is_finished


def test_a_folder_with_a_model_or_without_a_run_is_refused(data, options, tmp_path):
    out = str(tmp_path / "m")
    with pytest.raises(SortNetError, match=r"no run in .* to resume"):
        resume(out, options=options)
    train(data, out, options=options, **SETTINGS)
    with pytest.raises(SortNetError, match="has a model already"):
        train(data, out, options=options, **SETTINGS)
    with pytest.raises(SortNetError, match="max_iter 3, not 2"):
        resume(out, options=options, max_iter=3)
    again = train(data, out, overwrite=True, options=options, **{**SETTINGS, "max_iter": 1})
    assert len(again.rows) == 2


def test_a_ranker_of_another_kind_is_fitted_without_a_run(data, options, tmp_path):
    settings = settings_for("ranksvm").changed(C=0.1)
    fitted = fit_kind([data], str(tmp_path / "svm"), settings, options=options)
    saved = load_ranker(tmp_path / "svm")
    assert saved.config.kind == "ranksvm" and saved.config.flat()["C"] == 0.1
    vali = read_letor(f"{data}/vali.txt")
    expected = evaluate(vali, saved.order(vali), [parse_metric("ndcg@10")])
    assert fitted.measures["vali"]["ndcg@10"] == pytest.approx(expected["ndcg@10"])
    assert saved.info["data"]["train"]["path"] == f"{data}/train.txt"
    assert not (tmp_path / "runs.db").exists() and not (tmp_path / "svm" / "run.json").exists()
    with pytest.raises(SortNetError, match="has a model already"):
        fit_kind([data], str(tmp_path / "svm"), settings, options=options)


def test_watch_gives_each_iteration_once_until_the_run_ends(tmp_path):
    part = queries(0)
    with open_store(tmp_path / "runs.db") as store:
        run = store.start_run(
            command="train", config={}, seed=0, versions={}, train=part, vali=part
        )
        changes = watch(run, interval=0)
        run.record({"iteration": 0, "quality": 0.5})
        assert [row["iteration"] for row in next(changes).rows] == [0]
        assert next(changes).rows == []
        run.record({"iteration": 1, "quality": 0.6})
        change = next(changes)
        assert [row["iteration"] for row in change.rows] == [1]
        assert change.status == "running"
        run.finish("done")
        last = next(changes)
        assert (last.status, last.rows) == ("done", [])
        assert next(changes, None) is None


def test_each_check_is_made_once_and_the_test_part_is_named(data, options, tmp_path, monkeypatch):
    fold = tmp_path / "fold"
    (fold / "test.txt").write_bytes((fold / "vali.txt").read_bytes())
    checks = [check_same_features, check_can_be_learned, check_can_choose, choose_quality]
    calls = count_calls(monkeypatch, *checks)
    trained = train(data, str(tmp_path / "m"), options=options, **SETTINGS)
    assert calls == {check.__name__: 1 for check in checks}
    assert trained.training.job.test == f"{data}/test.txt"


def test_parts_that_cannot_be_used_are_refused_before_anything_is_written(data, options, tmp_path):
    write_letor(replace(queries(0), grades=np.ones(48, np.int32)), f"{data}/train.txt")
    with pytest.raises(SortNetError, match="nothing to learn"):
        train(data, str(tmp_path / "m"), options=options, **SETTINGS)
    assert not (tmp_path / "m").exists() and not (tmp_path / "runs.db").exists()


def test_the_weights_that_a_folder_has_are_not_written_again(data, options, tmp_path):
    ranker = train(data, str(tmp_path / "m"), options=options, **SETTINGS).ranker
    (weights,) = (tmp_path / "m").glob("weights-*")
    before, content = weights.stat().st_ino, weights.read_bytes()
    replace(ranker, info={**ranker.info, "note": "new"}).save(tmp_path / "m")
    assert weights.stat().st_ino == before
    assert load_ranker(tmp_path / "m").info["note"] == "new"
    weights.write_bytes(content[:-1] + b"?")  # damaged, of the same length
    ranker.save(tmp_path / "m")
    assert weights.read_bytes() == content


def test_better_ranker_says_which_one_it_is_and_why():
    parts = []
    for seed in (0, 1):
        part = queries(seed)
        order = np.argsort(part.features[:8, 0])
        parts.append(replace(part, judged=Pairs(order[1:], order[:-1])))
    ranker = better_ranker(
        *parts, Config(scaling="normal", max_iter=1).changed(epochs=4, committee=2)
    )
    kept = ranker.info["kept"]
    assert set(kept["figures"]) == {"sortnet", "posterior"} and kept["measure"] == "accuracy"
    assert ranker.config.kind == kept["kind"] == max(kept["figures"], key=kept["figures"].get)
    assert ranker.info["quality"] == max(kept["figures"].values())
