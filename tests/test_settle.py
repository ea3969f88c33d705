"""Settings left open: what trials choose on data that needs one of them, and their budget."""

from __future__ import annotations

import numpy as np
import pytest

from sortnet.comparators import make_comparator
from sortnet.comparators.make import kind_of
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


def steps(seed: int, n_queries: int = 40) -> Queries:
    """Grades by the parity of three thresholds, beside a feature of no use."""
    X = np.random.default_rng(seed).random((12 * n_queries, 4))
    above = X[:, :3] > (0.4, 0.6, 0.3)
    return Queries.from_arrays(X, above.sum(axis=1) % 2, group=[12] * n_queries)


def test_a_deep_net_is_chosen_where_thresholds_interact():
    asked = OPEN.changed(epochs=24, weight_decay=0.03, tune_budget=7.0)
    config, trials = settle(steps(1), steps(2), asked)
    settled = {name: config.flat()[name] for name in module.DEEP}
    assert settled == module.DEEP | {"weight_decay": 0.03}
    best = {t["comparator"]: t["quality"] for t in sorted(trials, key=lambda t: t["quality"])}
    assert best["directranker"] > best["cmpnn"] + 0.005


def made_up(monkeypatch, value):
    """Trials whose qualities are a function of the settings, of 40 queries with a small spread."""
    spread = np.tile((-0.01, 0.01), 20)

    def qualities(train, vali, config, share, make_for):
        return value(config, share) + spread * (-1 if config.scaling == "zscore" else 1)

    monkeypatch.setattr(module, "_qualities", qualities)


@pytest.mark.parametrize(
    ("given", "scalings"),
    [
        ({}, {"normal+piecewise"}),
        ({"scaling": "log"}, {"log"}),
        ({"comparator": "cmpnn"}, set()),
        ({"hidden": (20,)}, set()),
        ({"units": "sigmoid"}, set()),
    ],
)
def test_the_deep_net_is_tried_where_its_shape_is_left_open(monkeypatch, given, scalings):
    made_up(monkeypatch, lambda config, share: 0.5)
    config, trials = settle(band(1), band(2), OPEN.changed(**given, tune_budget=7.0))
    assert {t["scaling"] for t in trials if t["comparator"] == "directranker"} == scalings
    for name, value in given.items():
        assert config.flat()[name] == value
    assert config.comparator == "cmpnn" and config.training.lr == 0.03


@pytest.mark.parametrize("given", [{"tau": "tanh"}, {"units": "relu"}])
def test_a_setting_that_only_directranker_has_chooses_it(monkeypatch, given):
    made_up(monkeypatch, lambda config, share: 0.5)
    asked = OPEN.changed(**given, tune_budget=7.0)
    config, trials = settle(band(1), band(2), asked)
    assert {t["comparator"] for t in trials} == {config.comparator} == {"directranker"}
    assert kind_of(make_comparator(asked, 3)(0)) == "directranker"
    assert make_comparator(asked.changed(comparator="directranker"), 3)(0).config() == (
        make_comparator(asked, 3)(0).config()
    )
    assert asked.changed(comparator="cmpnn").settled.comparator == "cmpnn"


def test_the_default_budget_reaches_the_deep_net_where_trials_are_cross_validated(monkeypatch):
    made_up(monkeypatch, lambda config, share: 0.5)
    _, trials = settle(band(1, 14), band(2, 4), Config(quality="ndcg@10"))
    assert "directranker" in {trial["comparator"] for trial in trials}


def test_judged_pairs_are_learned_by_one_layer(monkeypatch):
    made_up(monkeypatch, lambda config, share: 0.5)
    parts = [band(seed).with_judgements([0, 1, 14], [1, 2, 15]) for seed in (1, 2)]
    _, trials = settle(*parts, OPEN.changed(quality="accuracy", tune_budget=7.0))
    assert {trial["comparator"] for trial in trials} == {"cmpnn"}


def test_the_deep_net_learns_as_it_was_asked_to(monkeypatch):
    made_up(monkeypatch, lambda config, share: 0.5 + (config.comparator == "directranker") / 4)
    config, _ = settle(band(1), band(2), OPEN.changed(lr=0.002, weight_decay=0.5, tune_budget=7.0))
    assert config.hidden == module.DEEP["hidden"]
    assert (config.training.lr, config.training.weight_decay) == (0.002, 0.5)


@pytest.mark.parametrize(("gain", "whole"), [(0.2, 0), (0.003, 2), (-0.2, 0)])
def test_all_epochs_are_spent_only_where_half_do_not_decide(monkeypatch, gain, whole):
    made_up(monkeypatch, lambda config, share: 0.5 + gain * (config.scaling == "zscore"))
    given = {"comparator": "cmpnn", "hidden": (32,), "weight_decay": 0.0}
    others = Config().changed(**given, quality="ndcg@10", tune_budget=9.0)
    if gain < 0:  # all of the others are clearly worse
        made_up(monkeypatch, lambda config, share: 0.5 + 0.2 * (config.scaling == "query+rank"))
    config, trials = settle(band(1), band(2), others)
    assert sum(trial["epochs"] == 40 for trial in trials) == whole
    assert config.scaling == ("zscore" if gain > 0 else "query+rank")


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
