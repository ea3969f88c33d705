"""The posterior as a ranker, and which of the two kinds is kept."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sortnet import SortNetRanker
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.explanation.attribution import explain_pair
from sortnet.rankers import posterior_ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.posterior_ranker import PosteriorSettings

N, D = 40, 3
TRUTH = [2.0, -1.0, 0.0]


def judged(n: int) -> Queries:
    """Documents whose score is linear in standard features, with n noisy judgements."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    score = X @ TRUTH
    i = rng.integers(0, N, n)
    j = (i + rng.integers(1, N, n)) % N
    is_i_better = score[i] - score[j] + rng.normal(size=n) > 0
    queries = Queries.from_arrays(X, feature_names=["a", "b", "c"])
    return queries.with_judgements(np.where(is_i_better, i, j), np.where(is_i_better, j, i))


def fit_posterior(queries: Queries):
    return fit_ranker(queries, queries, PosteriorSettings(scaling="standard"))


@pytest.fixture(scope="module")
def queries() -> Queries:
    return judged(150)


@pytest.fixture(scope="module")
def ranker(queries):
    return fit_posterior(queries)


def test_a_margin_is_the_expected_difference_over_its_spread(ranker):
    new = Queries.from_arrays(np.random.default_rng(6).normal(size=(30, D)).astype(np.float32))
    i, j = np.arange(29), np.arange(1, 30)
    X = ranker.scaler(new).features.astype(np.float64)
    weights = ranker.posterior
    gap = X[i] - X[j]
    spread = np.sqrt(np.var(gap @ weights.draws.T, axis=1) + 2 * weights.residual)
    margins = ranker.margins(new, i, j)
    assert margins == pytest.approx(gap @ weights.mean / spread, rel=1e-4, abs=1e-5)
    assert np.array_equal(np.sign(margins), -np.sign(np.diff(ranker.scores(new))))


def test_the_draws_are_of_the_weights_about_their_mean_and_closer_with_more_judgements(ranker):
    draws = ranker.posterior.draws
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - ranker.posterior.mean) < 6 * error).all()
    of_many = fit_posterior(judged(2000)).posterior.draws
    assert (of_many.std(axis=0) < draws.std(axis=0)).all()


def test_its_margin_is_explained_and_saved(ranker, queries, tmp_path):
    margin = ranker.margins(queries, [0], [2])
    assert explain_pair(ranker, queries, 0, 2).margin == pytest.approx(float(margin[0]), rel=1e-4)
    ranker.save(tmp_path)
    assert np.array_equal(load_ranker(tmp_path).margins(queries, [0], [2]), margin)


def test_the_estimator_takes_it_and_grades_are_refused(queries):
    pairs = np.stack((queries.judged.winner, queries.judged.loser), axis=1)
    net = SortNetRanker(ranker="posterior", single_query=True)
    net.fit_pairs(queries.features, pairs, soft=queries.judged.target)
    assert net.score_pairs(queries.features, pairs, soft=queries.judged.target) > 0.8
    with pytest.raises(DataError, match="learned from judged pairs, not grades"):
        SortNetRanker(ranker="posterior").fit(queries.features, np.arange(N) % 3, group=[10] * 4)


@dataclass(frozen=True)
class Fitted:
    """A ranker of a kind, with the accuracy that it reached."""

    config: SimpleNamespace
    info: dict[str, Any]


def fitted(kind: str, quality: float) -> Any:
    measure = SimpleNamespace(name="accuracy")
    config = SimpleNamespace(kind=kind, seed=0, rank_quality=measure)
    return Fitted(config, {"quality": quality, "iterations": 3})


@pytest.mark.parametrize(
    ("quality", "kept", "reason"),
    [
        (17 / 18 + 1e-15, "sortnet", "as good as the posterior"),
        (16 / 18, "sortnet", "better"),
        (1.0, "posterior", "better"),
    ],
)
def test_the_better_one_is_kept_and_the_comparator_if_only_rounding_differs(
    monkeypatch, quality, kept, reason
):
    monkeypatch.setattr(posterior_ranker, "fit_ranker", lambda *_: fitted("posterior", quality))
    vali: Any = SimpleNamespace(judged=object())
    best = posterior_ranker.better_than_posterior(fitted("sortnet", 17 / 18), vali, vali)
    assert best.config.kind == best.info["kept"]["kind"] == kept
    assert best.info["kept"]["reason"].startswith(reason)
