"""Tuning: every combination is tried, the validation part decides, nothing is run twice."""

import numpy as np
import pytest

from sortnet.config import Config, LoopTraining
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.rankers.sortnet import fit
from sortnet.rankers.tuning import tune

FAST = Config(
    committee=1, max_iter=2, hidden=(4,), scaling="query", start="warm",
    training=LoopTraining(epochs=2, batch_size=64, weight_decay=0.01),
)  # fmt: skip


def made(seed: int) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1, (60, 3)).astype(np.float32)
    return Queries.from_arrays(X, (X[:, 0] > 0.5).astype(int), group=[10] * 6)


def test_the_best_on_validation_wins_and_every_trial_is_recorded():
    train, vali = made(1), made(2)
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


def test_a_grid_of_unknown_settings_is_refused():
    with pytest.raises(DataError, match="'hiden'"):
        tune(made(1), made(2), FAST, grid={"hiden": [1]})


@pytest.mark.parametrize("name", ["quality", "relevant_from", "gain", "empty"])
def test_a_grid_over_what_the_trials_are_compared_by_is_refused(name):
    grids = [{"hidden": [(1,)]}, {name: [getattr(FAST, name)]}]
    with pytest.raises(DataError, match=f"grid cannot name '{name}'"):
        tune(made(1), made(2), FAST, grid=grids)


def test_a_later_grid_starts_from_what_the_one_before_it_chose():
    train, vali = made(1), made(2)
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

    class Constant:
        """Claims to be perfect on what it was stopped by, and orders as the rows are."""

        info = {"quality": 1.0}  # noqa: RUF012

        def order(self, queries):
            return np.arange(queries.n_docs)

    def fit_constant(T, V, config):
        seen.append((T, V))
        return Constant()

    monkeypatch.setattr("sortnet.rankers.tuning.fit_ranker", fit_constant)
    tuned = tune(made(1), made(2), FAST, grid={"lr": [0.1]}, inner=3)
    names = [[set(map(bytes, part.features)) for part in parts] for parts in seen]
    assert len(seen) == 3 and not any(T & V for T, V in names)
    assert [(len(T), len(V)) for T, V in seen] == [(6, 2)] * 3
    assert tuned.trials[0]["quality"] < 1
