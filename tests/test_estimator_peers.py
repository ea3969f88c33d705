"""SortNetRanker for who comes from LightGBM or XGBoost: weights, eval sets, categories, scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from test_estimator import X, made, parts, qid, small, y  # noqa: F401  # parts is a fixture

from sortnet import Queries, SortNetRanker
from sortnet.errors import DataError, ModelError
from sortnet.threads import kernel_threads, limit_threads

QUICK = {"max_iter": 2, "epochs": 2}


def shop() -> tuple[pd.DataFrame, np.ndarray]:
    """The grade is the colour's; `maker` has 15 levels, `size` an order, `price` is noise."""
    generator = np.random.default_rng(0)
    colours = np.array(["blue", "green", "red"])
    grade = generator.integers(0, 3, 120)
    maker = generator.integers(0, 15, 120)
    frame = pd.DataFrame(
        {
            "qid": np.arange(120) // 10,
            "price": generator.normal(size=120),
            "colour": colours[grade],
            "maker": pd.Categorical([f"m{k}" for k in maker]),
            "size": pd.Categorical(
                np.array(["S", "M", "L"])[maker % 3], categories=["S", "M", "L"], ordered=True
            ),
            "new": maker > 7,
        }
    )
    return frame, grade


# weights


@pytest.mark.parametrize("per", ["row", "query"])
def test_weights_reach_what_is_learned_from(parts, per):  # noqa: F811
    """The weight of a query is the product of the weights of two of its documents."""
    weights = np.arange(len(y)) / 7 if per == "row" else np.arange(12) + 0.5
    small(**QUICK).fit(X, y, qid=qid, sample_weight=weights)
    of_rows = weights if per == "row" else weights[pd.factorize(qid)[0]] ** 0.5
    for part in parts[:2]:
        np.testing.assert_allclose(part.weights, of_rows[part.rows], rtol=1e-6)


@pytest.mark.parametrize(
    ("weights", "fault"),
    [
        ([1, 2, 3, 4], r"one a row \(3\) or one a query \(2\), got shape \(4,\)"),
        ([[1], [1], [1]], r"got shape \(3, 1\)"),
        ([1, -1, 1], "weight 1 is -1, not a finite number from 0"),
        ([1, 1, np.nan], "weight 2 is nan"),
        ([np.inf, 1], "weight 0 is inf"),
        ([0, 0, 0], "all weights are zero"),
        (["a", "b", "c"], "weights must be numbers"),
    ],
)
def test_weights_that_are_none_are_refused(weights, fault):
    with pytest.raises(DataError, match=fault):
        Queries.from_arrays([[1.0], [2.0], [3.0]], qid=[1, 1, 2], weights=weights)


# what is measured, and what is said


def test_the_first_eval_set_chooses_and_the_others_are_measured():
    sets = [made(seed=1), made(seed=2)]
    given = {"eval_set": [s[:2] for s in sets], "eval_qid": [s[2] for s in sets]}
    names = ["chooses", "watched"]
    ranker = small().fit(
        X, y, qid=qid, **given, eval_metric=["map", "NDCG@3"], eval_names=names
    )  # fmt: skip
    alone = small().fit(X, y, qid=qid, eval_set=sets[0][:2], eval_qid=sets[0][2])
    np.testing.assert_array_equal(ranker.predict(X, qid), alone.predict(X, qid))
    found = ranker.evals_result_
    assert [list(found), *(list(found[name]) for name in names)] == [
        names, *[["ndcg@10", "map", "nDCG@3"]] * 2
    ]  # fmt: skip
    assert len(found["watched"]["map"]) == ranker.n_iter_ == len(ranker.history_)
    for name, (Xv, yv, qv) in zip(names, sets, strict=True):
        assert found[name]["ndcg@10"][ranker.best_iteration_] == pytest.approx(
            ranker.score(Xv, yv, qid=qv)
        )


def test_the_training_queries_are_measured_by_their_name_without_a_validation_part():
    ranker = small().fit(X, y, qid=qid, eval_metric="map")
    expected = [record.measures["train"]["map"] for record in ranker.history_]
    assert ranker.evals_result_.keys() == {"training"}
    assert ranker.evals_result_["training"]["map"] == expected
    named = small().fit(X, y, qid=qid, eval_names=["all"])
    assert named.evals_result_.keys() == {"all"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"eval_set": []}, "eval_set is empty"),
        ({"eval_names": ["a", "b"]}, "eval_names must be 1 different names"),
        ({"eval_metric": max}, "eval_metric takes names of measures, such as ndcg@10"),
        ({"eval_metric": 5}, "eval_metric takes names of measures, such as ndcg@10, not 5"),
        ({"eval_metric": "auc"}, "unknown metric 'auc'"),
        (
            {"eval_set": [(X, y), (X[:50], y[:50])], "eval_qid": [qid, qid[:50]]},
            "and it is the training data: put another one first",
        ),
        ({"n_jobs": 0}, "n_jobs must be None, a number of threads or -1, got 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(given, fault):
    n_jobs = given.pop("n_jobs", None)
    with pytest.raises(ValueError, match=fault):
        small(n_jobs=n_jobs, **QUICK).fit(X, y, qid=qid, **given)


def test_verbose_writes_a_line_an_iteration(capsys):
    frame, grades = shop()
    SortNetRanker(verbose=1, **QUICK).fit(frame, grades)
    assert capsys.readouterr().err.startswith("X: features are made of numbers (price")
    ranker = small(verbose=1).fit(X, y, qid=qid)
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert said.out == "" and len(lines) == ranker.n_iter_
    assert all(line.startswith(f"[{k}] training ndcg@10 ") for k, line in enumerate(lines))
    small(verbose=-1, **QUICK).fit(X, y, qid=qid)
    assert capsys.readouterr().err == ""


def test_threads_are_as_asked_and_then_as_before(fitted_threads):
    before = torch.get_num_threads(), kernel_threads()
    with limit_threads(2):
        assert torch.get_num_threads() == 2
        with limit_threads(1):
            assert (torch.get_num_threads(), kernel_threads()) == (1, 1)
        assert torch.get_num_threads() == 2
    assert (torch.get_num_threads(), kernel_threads()) == before
    assert fitted_threads == [2]


@pytest.fixture
def fitted_threads():
    X, y, qid = made()
    seen = []
    small(n_jobs=2, **QUICK).fit(X, y, qid=qid, callbacks=[
        lambda record, state: seen or seen.append(torch.get_num_threads())])  # fmt: skip
    return seen


class WithOneMore(SortNetRanker):
    """A subclass with a parameter of its own, which passes the other parameters on."""

    def __init__(self, *, boost=1.0, **parameters):
        super().__init__(**parameters)
        self.boost = boost


def test_a_subclass_with_one_more_parameter_survives_clone():
    ranker = clone(WithOneMore(boost=2.0, committee=3))
    assert (ranker.boost, ranker.committee) == (2.0, 3)
    assert ranker.get_params().keys() == SortNetRanker().get_params().keys() | {"boost"}
    assert ranker.set_params(lr=0.5, boost=3.0).lr == 0.5
    with pytest.raises(TypeError, match="no parameter 'hiden'"):
        WithOneMore(hiden=3)


# importances


@pytest.mark.parametrize("params", [{}, {"comparator": "directranker", "committee": 2}])
def test_the_feature_that_decides_is_the_most_important(params, tmp_path):
    ranker = small(max_iter=4, epochs=15, lr=0.02, **params).fit(X, y, qid=qid)
    shares = ranker.feature_importances_
    assert shares.shape == (4,) and shares.sum() == pytest.approx(1) and shares[0] > 0.5
    ranker.save(tmp_path)
    np.testing.assert_array_equal(SortNetRanker.load(tmp_path).feature_importances_, shares)


# categories


@pytest.fixture(scope="module")
def shopped() -> SortNetRanker:
    frame, y = shop()
    return small(max_iter=5, epochs=8).fit(frame, y)


def test_categorical_columns_are_learned_from(shopped):
    frame, y = shop()
    assert shopped.score(frame, y) > 0.95
    assert shopped.n_features_in_ == 5
    assert shopped.feature_names_in_.tolist() == ["price", "colour", "maker", "size", "new"]
    names = shopped.model_.feature_names
    assert names[:4] == ("price", "size", "new", "colour=blue")
    assert len(names) == 3 + 3 + 15 and names[4:6] == ("colour=green", "colour=red")
    assert np.argmax(shopped.feature_importances_) == 1 and len(shopped.feature_importances_) == 5


def test_each_level_is_an_indicator_and_ordered_ones_are_numbered_by_their_order(shopped):
    frame, _ = shop()
    queries = shopped._queries(frame, None)
    columns = dict(
        zip(queries.feature_names, queries.in_row_order(queries.features).T, strict=True)
    )
    for level in frame["maker"].unique():
        np.testing.assert_array_equal(columns[f"maker={level}"], frame["maker"] == level)
    np.testing.assert_array_equal(columns["size"], frame["size"].cat.codes)
    assert shopped.features_.ordered == {"size": ("S", "M", "L")}


def test_a_level_that_fit_did_not_see_is_no_level(shopped):
    frame, _ = shop()
    rows = frame.head(3).astype({"colour": object, "maker": object})
    rows["colour"], rows["maker"] = ["pink", None, "red"], ["nobody", None, "m1"]
    queries = shopped._queries(rows, None)
    found = queries.in_row_order(queries.features)
    assert found[:, 3:6].tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert found[:, 6:].sum(axis=1).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"levels"', '"stairs"'),
        ('"maker"', '"makers"'),
        ('"n_columns": 5', '"n_columns": 2'),
    ],
)
def test_damaged_categories_are_refused(shopped, tmp_path, old, new):
    shopped.save(tmp_path)
    path = tmp_path / "model.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ModelError, match="damaged info"):
        SortNetRanker.load(tmp_path)


def test_columns_without_features_are_named_and_an_array_where_columns_were_is_refused(shopped):
    frame, y = shop()
    named = frame.assign(colour=[f"bike {k}" for k in range(len(frame))], grade=y)
    with pytest.warns(UserWarning, match="no features are made of 'colour', 'grade': "):
        ranker = small(**QUICK).fit(named, y)
    assert not {name for name in ranker.model_.feature_names if name[:6] in ("colour", "grade")}
    with pytest.raises(DataError, match="X must be a DataFrame"):
        shopped.predict(np.zeros((2, 5)), qid=[1, 1])
    with pytest.raises(DataError, match="feature names should match"):
        shopped.predict(frame[["qid", "colour", "price", "maker", "size", "new"]])


# real scores


def test_a_score_of_directranker_is_the_sum_of_its_scores_and_the_same_in_every_query():
    ranker = small(comparator="directranker", tau="identity", committee=2, scaling="quantile")
    ranker.fit(X, y, qid=qid)
    scores = ranker.predict(X, qid, kind="score")
    pairs = np.array([(i, j) for i in range(20) for j in range(20) if i != j])
    margins = ranker.compare(*pairs.T, context=X, qid=np.zeros(len(X)))
    np.testing.assert_allclose(scores[pairs[:, 0]] - scores[pairs[:, 1]], margins, atol=1e-5)
    np.testing.assert_allclose(scores, ranker.predict(X, np.zeros(len(X)), kind="score"), atol=1e-6)
    places = ranker.predict(X, qid)
    for query in np.unique(qid):
        mine = qid == query
        np.testing.assert_array_equal(np.argsort(scores[mine]), np.argsort(places[mine]))


def test_a_score_of_cmpnn_is_the_mean_margin_over_the_others(monkeypatch):
    monkeypatch.setattr("sortnet.rankers.model._PAIRS_AT_ONCE", 40)
    X, y, qid = made()
    ranker = small(committee=2, **QUICK).fit(X, y, qid=qid)
    qid = np.where(np.arange(len(qid)) == 5, 99, qid)  # a query of one document
    scores = ranker.predict(X, qid, kind="score")
    for row in range(len(X)):
        others = [j for j in range(len(X)) if qid[j] == qid[row] and j != row]
        if others:
            margins = ranker.compare([row] * len(others), others, context=X, qid=qid)
            assert scores[row] == pytest.approx(np.mean(margins), abs=1e-6)
    assert scores[5] == 0


def test_a_column_that_alone_is_nearly_as_good_as_the_model_is_told_of_once(caplog):
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(600, 4))
    noise = rng.normal(size=600)
    grades = np.digitize(columns.sum(axis=1) + noise, [-2, -0.5, 0.5, 2])
    frame = pd.DataFrame(columns, columns=[*"abcd"])
    qid = np.arange(600) // 10
    ranker = SortNetRanker(committee=1, epochs=10, max_iter=2)
    ranker.fit(frame, grades, qid=qid)
    assert "alone" not in caplog.text
    frame["clicks"] = -(grades + 0.3 * rng.normal(size=600))
    ranker.fit(frame, grades, qid=qid)
    clone(ranker).fit(frame, grades, qid=qid)
    said = "column 'clicks' alone orders documents nearly as well as the model"
    assert caplog.text.count(said) == 1


def test_whole_numbers_that_became_floats_are_the_same_levels():
    frame, y = shop()
    frame = frame[["qid", "price"]].assign(code=pd.Categorical(y + 1))
    ranker = small(**QUICK).fit(frame, y)
    expected = ranker.predict(frame)
    np.testing.assert_array_equal(ranker.predict(frame.assign(code=y + 1.0)), expected)
    assert ranker.model_.feature_names == ("price", "code=1", "code=2", "code=3")
