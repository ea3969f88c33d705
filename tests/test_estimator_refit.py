"""A fit that fails changes nothing; weights and routing of `score`; masks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sortnet import SortNetRanker
from sortnet.core import Queries
from sortnet.errors import DataError, SortNetError
from sortnet.estimator import ranker as module

QUICK = {"max_iter": 1, "epochs": 1, "scaling": "none", "trees": 2, "depth": 2}


def frame(levels, n=60):
    rng = np.random.default_rng(0)
    size = pd.Categorical(rng.choice(["low", "mid", "high"], n), categories=levels, ordered=True)
    table = pd.DataFrame({"qid": np.arange(n) // 6, "size": size, "x": rng.random(n)})
    return table, rng.integers(0, 3, n)


@pytest.mark.parametrize("error", [SortNetError("no"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("step", ["choose_quality", "fit_ranker", "some_queries"])
def test_a_refit_that_fails_leaves_the_old_model_whole(monkeypatch, step, error):
    X, y = frame(["low", "mid", "high"])
    ranker = SortNetRanker(**QUICK).fit(X, y)
    expected = ranker.predict(X)
    state = dict(vars(ranker))

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(module, step, fail)
    others, grades = frame(["high", "mid", "low"])
    for call in (
        lambda: ranker.fit(others.rename(columns={"x": "z"}), grades),
        lambda: ranker.fit(others, grades),
        lambda: ranker.fit_pairs(others, [(6 * k + 1, 6 * k) for k in range(10)]),
    ):
        with pytest.raises(type(error)):
            call()
    assert vars(ranker) == state
    np.testing.assert_array_equal(ranker.predict(X), expected)


@pytest.fixture(scope="module")
def fitted():
    X, y = frame(["low", "mid", "high"])
    return SortNetRanker(**QUICK).fit(X, y)


def test_score_weighs_the_queries(fitted):
    X, y = frame(["low", "mid", "high"])
    of_query = [fitted.score(X[X.qid == k], y[X.qid == k]) for k in range(10)]
    weights = np.arange(10.0)
    expected = np.average(of_query, weights=weights)
    assert fitted.score(X, y, sample_weight=weights) == pytest.approx(expected)
    assert fitted.score(X, y, sample_weight=np.repeat(weights, 6)) == pytest.approx(expected)
    uneven = np.repeat(weights, 6) + np.tile([-0.5, 0.5], 30) * np.repeat(weights > 0, 6)
    assert fitted.score(X, y, sample_weight=uneven) == pytest.approx(expected)
    # The last query has three rows, and its mean weight.
    of_query[-1] = fitted.score(X[54:57], y[54:57])
    found = fitted.score(X[:57], y[:57], sample_weight=np.repeat(weights, 6)[:57])
    assert found == pytest.approx(np.average(of_query, weights=weights))
    with pytest.raises(DataError, match="weight 3 is -1"):
        fitted.score(X, y, sample_weight=[0, 0, 0, -1, 1, 1, 1, 1, 1, 1])


def test_masked_values_are_refused(fitted):
    X, y = frame(["low", "mid", "high"])
    masked = np.ma.array(y, mask=np.arange(len(y)) == 4)
    for call in (fitted.fit, fitted.score):
        with pytest.raises(DataError, match="X: y, row 4: the value is masked"):
            call(X, masked)
    with pytest.raises(DataError, match="data: weights, row 4: the value is masked"):
        Queries.from_arrays(X[["x"]], y, weights=masked)
    with pytest.raises(DataError, match="soft, row 4: the value is masked"):
        fitted.fit_pairs(X, [(1, 0)] * len(y), soft=masked)
