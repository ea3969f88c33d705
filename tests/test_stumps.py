"""RankBoost and FRank against slow ones that follow the papers pair by pair."""

from __future__ import annotations

from itertools import permutations
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.core import Queries
from sortnet.metrics import evaluate
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.forest import Forest
from sortnet.rankers.registry import settings_for
from sortnet.rankers.stumps import best_stump, boosted, by_exponential, by_fidelity


def made(seed: int, n: int = 12) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * 6, 3)).astype(np.float32)
    grades = np.clip(np.round(X[:, 0] + (X[:, 1] > 0) + 0.3 * rng.normal(size=n * 6)), 0, 2)
    return Queries.from_arrays(X, grades.astype(int), group=[6] * n)


def pairs_of(part: Queries) -> list[tuple[int, int]]:
    query = part.query_of_docs()
    return [
        (i, j)
        for i, j in permutations(range(part.n_docs), 2)
        if query[i] == query[j] and part.grades[i] > part.grades[j]
    ]


def slow_rounds(part: Queries, rounds: int, *, fidelity: bool) -> np.ndarray:
    """(n_docs,) scores: every threshold of every feature tried, the pairs summed one by one."""
    pairs, query = pairs_of(part), part.query_of_docs()
    count = np.bincount([query[i] for i, _ in pairs])
    D = [1 / count[query[i]] if fidelity else 1 / len(pairs) for i, _ in pairs]
    start, f = D, np.zeros(part.n_docs)
    for _ in range(rounds):
        if fidelity:
            margins = [f[i] - f[j] for i, j in pairs]
            D = [d * exp(m / 2) / (1 + exp(m)) ** 1.5 for d, m in zip(start, margins, strict=True)]
            D = [d / sum(D) for d in D]
        best = (0.0, None)
        for k in range(part.n_features):
            for t in np.unique(part.features[:, k]):
                h = (part.features[:, k] > t).astype(float)
                r = sum(d * (h[i] - h[j]) for d, (i, j) in zip(D, pairs, strict=True))
                if abs(r) > abs(best[0]) + 1e-12:
                    best = (r, h)
        r, h = best
        plus, minus = (1 + r) / 2, (1 - r) / 2
        if fidelity:
            plus = sum(d for d, (i, j) in zip(D, pairs, strict=True) if h[i] > h[j])
            minus = sum(d for d, (i, j) in zip(D, pairs, strict=True) if h[i] < h[j])
        alpha = 0.5 * log((plus + 1e-6) / (minus + 1e-6))
        f = f + alpha * h
        if not fidelity:
            D = [d * exp(alpha * (h[j] - h[i])) for d, (i, j) in zip(D, pairs, strict=True)]
            D = [d / sum(D) for d in D]
    return f


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("weigh", [by_exponential, by_fidelity])
def test_boosted_stumps_are_those_of_a_slow_one(weigh, seed):
    part = made(seed)
    found = Forest.of_stumps(boosted(part, weigh, 4))(part.features)
    slow = slow_rounds(part, 4, fidelity=weigh is by_fidelity)
    np.testing.assert_allclose(found, slow, atol=1e-6)


def fidelity(part: Queries, scores: np.ndarray) -> float:
    """Σ over the queries of the mean of 1 - sqrt(P) of their pairs (Tsai et al. 2007)."""
    query, each = part.query_of_docs(), {}
    for i, j in pairs_of(part):
        P = 1 / (1 + exp(scores[j] - scores[i]))
        each.setdefault(query[i], []).append(1 - sqrt(P))
    return sum(sum(losses) / len(losses) for losses in each.values())


def test_a_stump_of_frank_is_the_one_along_which_the_fidelity_loss_falls_most_steeply():
    whole, e = made(3), 1e-5
    uneven = np.arange(72) % 6 < 2 + whole.query_of_docs() % 5  # queries of 2 to 6 documents
    sizes = np.bincount(whole.query_of_docs()[uneven])
    part = Queries.from_arrays(whole.features[uneven], whole.grades[uneven], group=sizes)
    scores = np.zeros(part.n_docs)
    for feature, threshold, alpha, _ in boosted(part, by_fidelity, 4):

        def falls(k, t, scores=scores):
            h = part.features[:, k] > t
            return (fidelity(part, scores - e * h) - fidelity(part, scores + e * h)) / (2 * e)

        own = falls(feature, threshold)
        every = [falls(k, t) for k in range(3) for t in np.unique(part.features[:, k])]
        assert abs(own) == pytest.approx(max(map(abs, every)), rel=1e-5)
        before = fidelity(part, scores)
        scores = scores + alpha * (part.features[:, feature] > threshold)
        assert fidelity(part, scores) < before


def test_the_fidelity_weights_are_the_gradient_of_the_fidelity_loss():
    margin, start, e = np.array([-3.0, -0.5, 0.0, 2.0]), np.array([1.0, 2.0, 1.0, 0.5]), 1e-6

    def loss(m):
        return 1 - np.sqrt(1 / (1 + np.exp(-m)))

    slope = start * (loss(margin - e) - loss(margin + e)) / (2 * e)
    np.testing.assert_allclose(by_fidelity(margin, start), slope / slope.sum(), rtol=1e-6)
    assert np.isfinite(by_fidelity(np.array([-1e9, 1e9]), np.ones(2))).all()


def test_the_exponential_weights_sum_to_one_whatever_the_margins():
    assert by_exponential(np.array([0.0, log(3)]), np.ones(2)).tolist() == pytest.approx(
        [3 / 4, 1 / 4]
    )
    assert by_exponential(np.array([-1e4, 1e4]), np.ones(2)).tolist() == [1, 0]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 999))
def test_the_best_stump_is_that_of_all(seed):
    rng = np.random.default_rng(seed)
    codes, potential = rng.integers(0, 5, (9, 2)), rng.normal(size=9)
    feature, bin_, r = best_stump(codes, potential, 4)
    every = {(k, b): potential[codes[:, k] > b].sum() for k in range(2) for b in range(4)}
    assert r == pytest.approx(every[feature, bin_])
    assert abs(r) == pytest.approx(max(map(abs, every.values())))


def test_a_missing_value_stands_below_every_threshold():
    part = Queries.from_arrays([[np.nan], [3.0], [np.nan], [1.0]], [0, 1, 0, 1])
    forest = Forest.of_stumps(boosted(part, by_fidelity, 2))
    assert forest(part.features)[[0, 2]].tolist() == [0, 0]
    assert (forest(part.features)[[1, 3]] > 0).all()


@pytest.mark.parametrize("kind", ["rankboost", "frank", "adarank-map", "adarank-ndcg"])
def test_what_can_be_learned_is_learned(kind):
    ranker = fit_ranker(made(0, 30), made(1, 30), settings_for(kind).changed(rounds=50))
    test = made(2, 30)
    assert ranker.info["quality"] > 0.85
    assert evaluate(test, ranker.order(test), "ndcg@10")["ndcg@10"] > 0.85
    assert 1 <= ranker.info["rounds"] <= 50
