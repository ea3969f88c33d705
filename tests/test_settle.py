"""Settings left open: what trials choose on data that needs one of them, and their budget."""

from __future__ import annotations

import numpy as np
import pytest

from sortnet.config import FIXED, Config
from sortnet.rankers import settle as module
from sortnet.rankers.settle import settle
from sortnet.types import Queries

OPEN = Config(quality="ndcg@10", committee=1).changed(epochs=8)


def band(seed: int, n_queries: int = 40) -> Queries:
    """The nearer a feature is to 5, the better, while its range differs by query."""
    rng = np.random.default_rng(seed)
    low = np.repeat(rng.uniform(-10, 10, n_queries), 12)
    x = low + rng.uniform(0, 8, 12 * n_queries)
    grades = np.digitize(-np.abs(x - 5), [-8, -4, -2, -1])
    X = np.stack((x, rng.normal(size=len(x))), axis=1)
    return Queries.from_arrays(X, grades, group=[12] * n_queries)


def test_a_scaling_that_keeps_the_range_is_chosen_where_the_range_decides():
    config, trials = settle(band(1), band(2), OPEN.changed(tune_budget=7.0))
    assert "normal" in config.scaling
    tried = {trial["scaling"]: trial["quality"] for trial in reversed(trials)}
    assert tried["zscore"] < tried[config.scaling] - 0.05
    assert set(tried) == set(module.SCALINGS)


@pytest.mark.parametrize("budget", [0.5, 2.0, 5.0])
def test_trials_cost_no_more_than_their_budget(budget):
    _, trials = settle(band(1), band(2), OPEN.changed(tune_budget=budget))
    assert 0 < sum(trial["epochs"] for trial in trials) <= budget * 8


def test_what_is_given_is_not_tried_otherwise():
    given = OPEN.changed(scaling="zscore", hidden=(10,), tune_budget=9.0)
    config, trials = settle(band(1), band(2), given)
    assert {(t["scaling"], *t["hidden"]) for t in trials} == {("zscore", 10)}
    assert (config.scaling, config.hidden) == ("zscore", (10,))
    assert config.training.weight_decay in module.WEIGHT_DECAYS


def test_the_same_seed_settles_the_same_and_nothing_stays_open():
    found = [settle(band(1), band(2), OPEN) for _ in range(2)]
    assert found[0] == found[1]
    assert None not in [found[0][0].flat()[name] for name in FIXED]


def test_few_validation_queries_are_joined_by_those_to_learn_from(monkeypatch):
    seen = []
    qualities = module._qualities

    def counted(train, vali, *rest):
        seen.append((len(train), len(vali)))
        return qualities(train, vali, *rest)

    monkeypatch.setattr(module, "_qualities", counted)
    settle(band(1, 14), band(2, 4), OPEN.changed(tune_budget=3.0))
    assert seen[:3] == [(12, 6)] * 3  # each of 18 queries is predicted once
    seen.clear()
    settle(band(1, 40), band(2, 40), OPEN)
    assert set(seen) == {(40, 40)}


def test_missing_values_get_columns_of_their_own():
    queries = band(1)
    queries.features[::3, 1] = np.nan
    _, trials = settle(queries, band(2), OPEN)
    assert all(trial["scaling"].endswith("+missing") for trial in trials)
