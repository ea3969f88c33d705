"""Tuning: every combination is tried, the validation part decides, nothing is run twice."""

from types import SimpleNamespace

import numpy as np
import pytest
from graded_queries import graded

from sortnet.config import Config, LoopTraining
from sortnet.errors import DataError
from sortnet.rankers.sortnet import fit
from sortnet.rankers.tuning import tune

FAST = Config(
    committee=1, max_iter=2, hidden=(4,), scaling="query", start="warm",
    training=LoopTraining(epochs=2, batch_size=64, weight_decay=0.01),
)  # fmt: skip


def test_the_best_on_validation_wins_and_every_trial_is_recorded():
    train, vali = graded(1, 6), graded(2, 6)
    grid = {"hidden": [(1,), (6,)], "lr": [1e-5, 0.05], "start": ["warm", "fresh"]}
    tuned = tune(train, vali, FAST, grid=grid)
    seen = tuned.trials
    assert len(seen) == 8
    best = max(seen, key=lambda trial: trial["quality"])
    assert list(tuned.config.hidden) == best["hidden"]
    assert tuned.config.training.lr == best["lr"]
    assert tuned.config.start == best["start"]
    for trial in (seen[0], seen[-1]):
        settings = {name: trial[name] for name in grid}
        again = fit(train, vali, FAST.changed(**settings))
        assert again.info["quality"] == trial["quality"]


@pytest.mark.parametrize("name", ["quality", "relevant_from", "gain", "empty"])
def test_a_grid_over_what_the_trials_are_compared_by_is_refused(name):
    grids = [{"hidden": [(1,)]}, {name: [getattr(FAST, name)]}]
    with pytest.raises(DataError, match=f"grid cannot name '{name}'"):
        tune(graded(1, 6), graded(2, 6), FAST, grid=grids)


def test_a_later_grid_starts_from_what_the_one_before_it_chose():
    train, vali = graded(1, 6), graded(2, 6)
    grids = [{"hidden": [(1,), (6,)]}, {"start": ["warm", "fresh"]}]
    tuned = tune(train, vali, FAST, grid=grids)
    first = tune(train, vali, FAST, grid=grids[0])
    second = tune(train, vali, first.config, grid=grids[1])
    assert tuned.config == second.config
    hidden = list(first.config.hidden)
    tried = [(trial["hidden"], trial["start"]) for trial in tuned.trials]
    assert tried == [([1], "warm"), ([6], "warm"), (hidden, "fresh")]  # nothing is run twice


def test_an_inner_part_is_scored_by_what_was_stopped_by_others(monkeypatch):
    seen = []

    def fit_constant(T, V, config):
        """Claim to be perfect on what it was stopped by, and order as the rows are."""
        seen.append((T, V))
        rank_by_row = lambda queries: np.arange(queries.n_docs)  # noqa: E731
        return SimpleNamespace(info={"quality": 1.0}, order=rank_by_row)

    monkeypatch.setattr("sortnet.rankers.tuning.fit_ranker", fit_constant)
    tuned = tune(graded(1, 6), graded(2, 6), FAST, grid={"lr": [0.1]}, inner=3)
    assert [(len(T), len(V)) for T, V in seen] == [(6, 2)] * 3
    for T, V in seen:
        assert not {*map(bytes, T.features)} & {*map(bytes, V.features)}
    assert tuned.trials[0]["quality"] < 1
