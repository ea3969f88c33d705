"""The weight decay that a run chooses for itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sortnet.learning.weight_decay
from sortnet.config import Config, Training
from sortnet.learning.weight_decay import settle_weight_decay, weight_decays
from sortnet.rankers.sortnet import Model, fit
from sortnet.types import Queries

CONFIG = Config(quality="ndcg@10", committee=1, max_iter=3)


def made(noise: float, n_queries: int, seed: int, size: int = 12) -> Queries:
    """Grades that bend with the features, and some part of which is noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * size, 8))
    truth = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * X[:, 3] + noise * rng.standard_normal(len(X))
    grades = np.digitize(truth, np.quantile(truth, [0.5, 0.7, 0.9]))
    return Queries.from_arrays(X, grades, group=[size] * n_queries)


def test_a_weight_decay_that_is_given_is_left_alone(monkeypatch):
    monkeypatch.setattr(sortnet.learning.weight_decay, "learn_to_sort", None)  # not to be called
    config = replace(CONFIG, training=Training(weight_decay=0.5))
    queries = made(0, 4, 0)
    assert settle_weight_decay(queries, queries, config) is config


def test_clean_grades_get_a_weak_decay_and_pure_noise_the_strongest():
    clean = settle_weight_decay(made(0, 100, 0), made(0, 100, 1), CONFIG)
    noise = settle_weight_decay(made(50, 100, 0), made(50, 100, 1), CONFIG)
    assert noise.training.weight_decay == weight_decays(1200)[0]
    assert clean.training.weight_decay < weight_decays(1200)[0]


def test_the_strongest_within_one_standard_error_is_taken(monkeypatch):
    # differences from the best (the last): .2 +- .03, then .02 +- .05 / 2
    best = np.array([0.5, 0.6, np.nan, 0.7, 0.8])
    middle = best - [0.07, -0.03, 0.0, 0.07, -0.03]
    worst = best - [0.23, 0.17, 0.0, 0.23, 0.17]
    values = iter([worst, middle, best])
    monkeypatch.setattr(
        sortnet.learning.weight_decay, "_qualities", lambda *arguments: next(values)
    )
    queries = made(0, 4, 0)
    settled = settle_weight_decay(queries, queries, CONFIG)
    assert settled.training.weight_decay == weight_decays(queries.n_docs)[1]


@pytest.mark.parametrize("empty", ["zero", "skip", "one"])
def test_queries_without_a_relevant_document_do_not_weigh(monkeypatch, empty):
    best = np.array([1.0, 1.0, 1.0, *[np.nan] * 50])
    worst = np.array([0.8, 0.79, 0.81, *[np.nan] * 50])
    values = iter([worst, worst, best])
    monkeypatch.setattr(
        sortnet.learning.weight_decay, "_qualities", lambda *arguments: next(values)
    )
    queries = made(0, 4, 0)
    settled = settle_weight_decay(queries, queries, replace(CONFIG, empty=empty))
    assert settled.training.weight_decay == weight_decays(queries.n_docs)[2]


def test_trials_see_a_part_of_much_data_and_what_they_find_fits_all_of_it(monkeypatch):
    monkeypatch.setattr(sortnet.learning.weight_decay, "_TRIED_ON", 120)
    sizes, tried = [], []
    qualities = sortnet.learning.weight_decay._qualities

    def watched(train, vali, config, make):
        sizes.append((train.n_docs, vali.n_docs))
        tried.append(config.training.weight_decay)
        return qualities(train, vali, config, make)

    monkeypatch.setattr(sortnet.learning.weight_decay, "_qualities", watched)
    train = made(0, 1000, 0)
    settled = settle_weight_decay(train, made(0, 40, 1), CONFIG)
    assert sizes == [(120, 120)] * 3
    assert tried == weight_decays(120)
    assert settled.training.weight_decay in weight_decays(12_000)


def test_the_same_seed_chooses_the_same_and_the_model_remembers():
    train, vali = made(0.5, 20, 0), made(0.5, 20, 1)
    chosen = [settle_weight_decay(train, vali, CONFIG) for _ in range(2)]
    assert chosen[0] == chosen[1]
    model = fit(train, vali, CONFIG)
    assert model.config == chosen[0]
    explicit = fit(train, vali, chosen[0])
    np.testing.assert_array_equal(model.scores(vali), explicit.scores(vali))


def test_a_model_folder_says_which_decay_was_chosen(tmp_path):
    fit(made(0, 8, 0), made(0, 8, 1), CONFIG).save(tmp_path / "m")
    assert Model.load(tmp_path / "m").config.training.weight_decay in weight_decays(96)


def test_a_part_with_nothing_to_learn_gets_the_strongest(monkeypatch):
    monkeypatch.setattr(sortnet.learning.weight_decay, "_TRIED_ON", 12)
    train = made(0, 30, 0)
    flat = Queries.from_arrays(train.features, np.zeros(train.n_docs, int), group=train.sizes)
    assert settle_weight_decay(flat, train, CONFIG).training.weight_decay == weight_decays(360)[0]
