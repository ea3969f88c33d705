"""Rankers: whatever takes one takes any; a new kind is one file and one row."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import ranker_made
import torch
from cli_made import done, fault, make_fold, weights_of
from ranker_made import SETTINGS, Linear
from sklearn.base import clone

from sortnet import Model, SortNetRanker, load_ranker, read_queries
from sortnet.config import Config
from sortnet.errors import DataError, ModelError
from sortnet.experiments.tuning import tune
from sortnet.metrics import evaluate
from sortnet.rankers.base import KINDS, fit_ranker, kind_module
from sortnet.rankers.folder import write_folder
from sortnet.types import Queries

TEST = "fold/test.txt"
OLD = Path(__file__).parent / "data" / "model-0.1.0"


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setitem(KINDS, "linear", ranker_made.__name__)


@pytest.fixture
def parts(tmp_path, monkeypatch) -> list[Queries]:
    monkeypatch.chdir(tmp_path)
    make_fold(tmp_path / "fold")
    return [read_queries(f"fold/{part}.txt") for part in ("train", "vali", "test")]


@pytest.fixture
def linear(parts) -> Linear:
    """A ranker in the folder `m`."""
    ranker = fit_ranker(*parts[:2], SETTINGS())
    ranker.save("m")
    return ranker


def test_every_kind_offers_what_a_kind_has():
    for kind in KINDS:
        module = kind_module(kind)
        assert module.SETTINGS.kind == kind
        assert all(callable(getattr(module, name)) for name in ("fit", "load", "grids_for"))


def test_it_comes_back_from_its_folder(linear, parts):
    loaded, test = load_ranker("m"), parts[2]
    assert (loaded.config, loaded.info) == (linear.config, linear.info)
    np.testing.assert_array_equal(loaded.scores(test), linear.scores(test))
    assert json.loads(Path("m/model.json").read_text())["kind"] == "linear"


def test_a_fitted_ranker_knows_its_rank_quality(linear, parts):
    metric = linear.config.rank_quality
    assert metric.name == "ndcg@10"  # three grades
    assert linear.info["quality"] == evaluate(parts[1], linear.order(parts[1]), metric)["ndcg@10"]


def test_its_order_is_that_of_its_scores_and_of_no_row(linear):
    X = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0.5], [2, 0, 0, 0]], np.float32)
    ranker = Linear(SETTINGS(), np.array([1.0, 0, 0, 0]))
    order = ranker.order(Queries.from_arrays(X)).tolist()
    assert (order[0], order[3]) == (3, 0)
    turned = ranker.order(Queries.from_arrays(X[::-1])).tolist()
    assert [3 - doc for doc in turned] == order
    with pytest.raises(ModelError, match=r"data, row 3: the score is not a number"):
        ranker.order(Queries.from_arrays(np.where(X == 2, np.nan, X)))
    with pytest.raises(ModelError, match="2 features, but the model was trained on 4"):
        ranker.order(Queries.from_arrays(X[:, :2]))


def test_evaluate_and_rank_take_any_ranker(linear, parts):
    test = parts[2]
    order = linear.order(test)
    summary = json.loads(done("evaluate", "m", TEST, "-m", "ndcg@5", "--json"))
    assert summary["measures"] == pytest.approx(evaluate(test, order, ["ndcg@5"]))
    rows = list(csv.DictReader(done("rank", "m", TEST, "--format", "csv").splitlines()))
    assert [row["docid"] for row in rows] == test.docids[order].tolist()


def test_compare_takes_the_difference_of_scores(linear, parts):
    scores = linear.scores(parts[2])
    summary = json.loads(done("compare", "m", TEST, "d1-0", "d1-3", "--json"))
    assert summary["margin"] == pytest.approx(float(scores[6] - scores[9]))
    assert summary["members"] == [{"margin": summary["margin"]}]
    assert summary["first"] == ("a" if scores[6] > scores[9] else "b")
    assert "goes before" in done("compare", "m", TEST, "d1-0", "d1-3")


def test_importance_is_none_of_a_feature_that_is_not_used(parts):
    Linear(SETTINGS(quality="ndcg@10"), np.array([1.0, 0, 0, 0])).save("m")
    summary = json.loads(done("importance", "m", TEST, "--json", "--repeats", 2))
    first, *others = summary["features"]
    assert (first["number"], first["mean"] > 0.1) == (1, True)
    assert [row["mean"] for row in others] == [0, 0, 0]


def test_explain_says_in_one_line_that_it_has_no_gradients(linear):
    said = fault("explain", "m", TEST, "d1-0", "d1-3")
    assert "a ranker of kind linear has no gradients" in said
    assert "sortnet importance" in said


def test_tuning_takes_the_kind_s_own_grid(parts):
    tuned = tune(*parts[:2], SETTINGS())
    assert [trial["ridge"] for trial in tuned.trials] == [0.1, 10.0]
    best = max(tuned.trials, key=lambda trial: trial["quality"])
    assert tuned.config == SETTINGS(ridge=best["ridge"])
    with pytest.raises(DataError, match="of kind linear has no setting 'hidden'"):
        tune(*parts[:2], SETTINGS(), grid={"hidden": [(3,)]})


def test_the_estimator_takes_any_kind(parts):
    train, vali, _ = parts
    qid = train.query_of_docs()
    ranker = clone(SortNetRanker(ranker="linear", quality="ndcg@5", tune=True))
    ranker.fit(train.features, train.grades, qid=qid,
               eval_set=(vali.features, vali.grades), eval_qid=vali.query_of_docs())  # fmt: skip
    assert ranker.model_.config == SETTINGS(quality="ndcg@5", ridge=ranker.model_.config.ridge)
    assert (ranker.history_, ranker.best_iteration_) == ([], None)
    predicted = ranker.predict(train.features, qid)
    np.testing.assert_array_equal(predicted, ranker.model_.scores(train))
    assert ranker.rank(train.features[:6], qid[:6]).tolist() == [
        1 + int((predicted[:6] > score).sum()) for score in predicted[:6]
    ]
    assert ranker.best_score_ == ranker.score(vali.features, vali.grades, vali.query_of_docs())
    ranker.save("m")
    again = SortNetRanker.load("m")
    assert (again.ranker, again.quality) == ("linear", "ndcg@5")
    np.testing.assert_array_equal(again.predict(train.features, qid), predicted)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ranker": "linear", "hidden": (3,)}, "of kind linear has no setting 'hidden'"),
        ({"ranker": "linear", "comparator": max}, "of kind linear has no setting 'comparator'"),
        ({"ranker": "elo"}, "unknown kind of ranker 'elo'; known are sortnet, posterior, linear"),
        ({"ranker": ["x" * 99]}, "unknown kind of ranker"),
    ],
)
def test_the_estimator_refuses_what_a_kind_has_not(params, said):
    with pytest.raises((DataError, ModelError), match=said):
        SortNetRanker(**params).fit([[1.0], [2.0]], [0, 1], qid=[1, 1])


def edit(**changes) -> None:
    path = Path("m/model.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "elo"}, "unknown kind of ranker 'elo'; known are sortnet, posterior, linear"),
        ({"kind": ["linear"]}, r"unknown kind of ranker \['linear'\]"),
        ({"kind": None}, "unknown kind of ranker None"),
        ({"n_features": 5}, "w is float64 4, not float64 5"),
        ({"n_features": 10**18}, "w is float64 4, not float64 10{18}"),
        ({"config": {"hidden": [3]}}, "not the settings of a run"),
        ({"config": {"ridge": "x"}}, "ridge cannot be 'x'"),
    ],
)
def test_a_damaged_folder_of_any_kind_is_refused_in_one_line(linear, change, said):
    edit(**change)
    with pytest.raises(ModelError, match=said):
        load_ranker("m")
    assert weights_of("m").name in fault("rank", "m", TEST) or "model.json" in fault(
        "rank", "m", TEST
    )


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({}, "w is missing, not float64 4"),
        ({"w": torch.full((4,), torch.nan).double()}, "w has NaN or infinity"),
        ({"w": torch.ones(4).double(), "z": torch.ones(1)}, "'z' is none of its own"),
    ],
)
def test_damaged_weights_of_any_kind_are_refused(linear, tensors, said):
    about = json.loads(Path("m/model.json").read_text())
    write_folder("m", about, tensors)
    with pytest.raises(ModelError, match=said):
        load_ranker("m")


def test_a_folder_that_says_no_kind_is_a_sortnet(parts):
    assert "kind" not in json.loads((OLD / "model.json").read_text())
    assert isinstance(load_ranker(OLD), Model)


def test_model_load_says_what_reads_another_kind(linear):
    with pytest.raises(ModelError, match=r"a ranker of kind 'linear', which sortnet\.load_ranker"):
        Model.load("m")


def test_the_settings_of_a_kind_are_the_common_ones_and_its_own():
    assert SETTINGS().flat().keys() - {"ridge"} == Config().flat().keys() & SETTINGS().flat().keys()
