"""What is left open is chosen by at most three trials of inputs, and of judged pairs two more."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sortnet.comparators import make_comparator
from sortnet.comparators.make import kind_of
from sortnet.config import DEFAULTS, Config
from sortnet.core import Queries
from sortnet.errors import ComparatorError
from sortnet.learning.step_budget import Budget
from sortnet.rankers import choose_inputs as module
from sortnet.rankers.choose_inputs import INPUTS, choose

OPEN = Config(quality="ndcg@10", committee=1, trees=2, depth=3).changed(epochs=8)


def band(seed: int, n_queries: int = 40) -> Queries:
    """The nearer a feature is to 5, the better, while its range differs by query."""
    rng = np.random.default_rng(seed)
    low = np.repeat(rng.uniform(-10, 10, n_queries), 12)
    x = low + rng.uniform(0, 8, 12 * n_queries)
    grades = np.digitize(-np.abs(x - 5), [-8, -4, -2, -1])
    X = np.stack((x, rng.normal(size=len(x))), axis=1)
    return Queries.from_arrays(X, grades, group=[12] * n_queries)


def by_query(seed: int) -> Queries:
    """The best stand in the middle of their query, wherever that is."""
    x = np.random.default_rng(seed).uniform(0, 1, (40, 12))
    ranks = np.argsort(np.argsort(x, axis=1), axis=1)
    x += np.arange(40)[:, None] / 10
    grades = 2 - np.abs(ranks - 5.5) // 2
    return Queries.from_arrays(x.reshape(-1, 1), grades.ravel(), group=[12] * 40)


def outcomes(monkeypatch, value):
    """Trials whose outcomes are a function of the settings, of 40 queries with a small spread."""
    spread = np.tile((-0.01, 0.01), 20)

    def made_up(train, vali, config, make_for):
        return value(config) + spread * (-1 if config.scaling == "query+rank" else 1)

    monkeypatch.setattr(module, "_outcomes", made_up)


@pytest.mark.parametrize(("data", "chosen"), [(band, "normal"), (by_query, "query+rank")])
def test_the_inputs_that_the_data_need_are_chosen(data, chosen):
    config, trials = choose(data(1), data(2), OPEN)
    assert [trial["scaling"] for trial in trials] == list(INPUTS)
    assert chosen in config.scaling
    best = {trial["scaling"]: trial["quality"] for trial in trials}
    worse = {"normal": "query+rank", "query+rank": "normal"}[chosen]
    assert best[config.scaling] > best[worse] + 0.02


def test_the_first_inputs_are_kept_unless_others_are_better_by_more_than_chance(monkeypatch):
    for gain, chosen in ((0.0005, "query+rank"), (0.02, "normal"), (-0.02, "query+rank")):
        outcomes(monkeypatch, lambda c, gain=gain: 0.5 + gain * (c.scaling == "normal"))
        assert choose(band(1), band(2), OPEN)[0].scaling == chosen


def test_what_is_given_is_not_tried_and_nothing_stays_open():
    given = OPEN.changed(scaling="zscore")
    assert choose(band(1), band(2), given) == (given.with_defaults, [])
    config, _ = choose(band(1), band(2), OPEN)
    assert None not in [config.flat()[name] for name in DEFAULTS["trees"]]
    assert config == choose(band(1), band(2), OPEN)[0]


def judged(seed: int, n_pairs: int = 3) -> Queries:
    """The queries of `band` with judgements about the first documents of a few of them."""
    first = 12 * np.arange(n_pairs)
    return band(seed).with_judgements(first, first + 1)


def test_of_judged_pairs_a_stronger_weight_decay_is_tried(monkeypatch):
    outcomes(monkeypatch, lambda config: 0.5 + 0.1 * (config.training.weight_decay > 0.05))
    open_decay = OPEN.changed(quality="accuracy", scaling="normal")
    config, trials = choose(judged(1), judged(2), open_decay)
    assert [trial["weight_decay"] for trial in trials] == pytest.approx([0.01, 0.1, 1.0])
    assert config.training.weight_decay == pytest.approx(0.1)
    assert choose(judged(1), judged(2), open_decay.changed(weight_decay=0.3))[1] == []
    _, trials = choose(judged(1), judged(2), OPEN.changed(quality="accuracy"))
    assert len(trials) == len(INPUTS) + 2


def test_where_answers_are_limited_no_grade_or_judgement_is_looked_at_to_choose():
    limited = OPEN.changed(judgements=100)
    config, trials = choose(band(1), band(2), limited)
    assert trials == [] and config.scaling == INPUTS[-1]
    assert config.training.weight_decay == DEFAULTS["trees"]["weight_decay"]
    assert choose(band(1), band(2), limited.changed(scaling="zscore"))[0].scaling == "zscore"
    by_pairs = limited.changed(quality="accuracy")
    assert choose(judged(1), judged(2), by_pairs)[1] == []


@pytest.mark.parametrize("empty", ["zero", "skip"])
def test_a_choice_goes_on_from_the_trials_that_have_ended_to_the_same_settings(monkeypatch, empty):
    """Outcomes of which one is missing, and whose differences are near to chance."""
    rng, tried = np.random.default_rng(0), []
    noise = {(inputs, k): rng.normal(0, 0.1, 40) for inputs in INPUTS for k in range(3)}

    def made_up(train, vali, config, make_for):
        tried.append(config)
        k = round(np.log10(config.training.weight_decay / 0.01))
        values = 0.5 + noise[config.scaling, k]
        values[3] = np.nan
        return values

    monkeypatch.setattr(module, "_outcomes", made_up)
    settings, recorded = OPEN.changed(empty=empty), []
    config, trials = choose(judged(1), band(2), settings, on_trial=recorded.append)
    assert trials == recorded and len(trials) == len(INPUTS) + 2
    for n in range(len(trials) + 1):
        ended = json.loads(json.dumps(trials[:n]))
        new = []
        tried.clear()
        again = choose(judged(1), band(2), settings, ended=ended, on_trial=new.append)
        assert again == (config, trials)
        assert new == trials[n:] and len(ended) == n
        assert len(tried) == len(trials) - n


def test_the_validation_part_is_predicted_from_the_training_part(monkeypatch):
    seen = []
    tried = module._outcomes

    def counted(train, vali, *rest):
        seen.append((len(train), len(vali)))
        return tried(train, vali, *rest)

    monkeypatch.setattr(module, "_outcomes", counted)
    choose(band(1, 14), band(2, 4), OPEN)
    assert seen == [(14, 4)] * 3
    seen.clear()
    same = band(1)  # the other half, where the two parts are one
    choose(same, same, OPEN)
    assert seen == [(20, 20)] * 3


def test_a_trial_is_a_short_loop_of_few_heads():
    train = band(1)
    trial = module._shortened(train, Config(quality="ndcg@10"))
    assert (trial.committee, trial.training.epochs, trial.max_iter) == (2, 6, 3)
    assert Budget.of(train, trial).epoch == 8
    assert module._shortened(train, Config(quality="ndcg@10", start="fresh")).trainings == 1
    assert module._shortened(train, Config(quality="ndcg@10", max_iter=2)).trainings == 2


def test_missing_values_get_columns_of_their_own():
    queries = band(1)
    queries.features[::3, 1] = np.nan
    _, trials = choose(queries, band(2), OPEN)
    assert all(trial["scaling"].endswith("+missing") for trial in trials)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "trees"),
        ({"hidden": (20,)}, "cmpnn"),
        ({"units": "sigmoid"}, "cmpnn"),
        ({"units": "relu"}, "directranker"),
        ({"tau": "tanh"}, "directranker"),
        ({"comparator": "directranker"}, "directranker"),
        ({"depth": 3}, "trees"),
    ],
)
def test_the_comparator_is_the_first_that_has_what_is_given(given, kind):
    config = Config(**given)
    assert config.with_defaults.comparator == kind == kind_of(make_comparator(config, 3)(0))
    fixed = DEFAULTS["trees" if kind == "trees" else "nets"]
    assert config.with_defaults.training.weight_decay == fixed["weight_decay"]
    for name, value in given.items():
        assert config.with_defaults.flat()[name] == value


@pytest.mark.parametrize(
    "given",
    [
        {"comparator": "trees", "hidden": (3,)},
        {"comparator": "cmpnn", "tau": "tanh"},
        {"comparator": "directranker", "depth": 3},
    ],
)
def test_a_setting_that_the_comparator_has_not_is_refused(given):
    with pytest.raises(ComparatorError, match=rf"comparator {given['comparator']} has no "):
        Config(**given)
