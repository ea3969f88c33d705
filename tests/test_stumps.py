"""RankBoost and FRank against slow ones that follow the papers pair by pair."""

from __future__ import annotations

from itertools import permutations
from math import exp, log

import numpy as np
import pytest
from graded_queries import graded

from sortnet.core import Queries
from sortnet.rankers.stumps import boosted, by_exponential, by_fidelity
from sortnet.rankers.trees import Forest


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
    part = graded(seed, 12, size=6)
    found = Forest.of_stumps(boosted(part, weigh, 4))(part.features)
    slow = slow_rounds(part, 4, fidelity=weigh is by_fidelity)
    np.testing.assert_allclose(found, slow, atol=1e-6)


def test_the_fidelity_weights_are_the_gradient_of_the_fidelity_loss():
    margin, start, e = np.array([-3.0, -0.5, 0.0, 2.0]), np.array([1.0, 2.0, 1.0, 0.5]), 1e-6

    def loss(m):
        return 1 - np.sqrt(1 / (1 + np.exp(-m)))

    slope = start * (loss(margin - e) - loss(margin + e)) / (2 * e)
    np.testing.assert_allclose(by_fidelity(margin, start), slope / slope.sum(), rtol=1e-6)
    assert np.isfinite(by_fidelity(np.array([-1e9, 1e9]), np.ones(2))).all()


def test_a_missing_value_stands_below_every_threshold():
    part = Queries.from_arrays([[np.nan], [3.0], [np.nan], [1.0]], [0, 1, 0, 1])
    forest = Forest.of_stumps(boosted(part, by_fidelity, 2))
    assert forest(part.features)[[0, 2]].tolist() == [0, 0]
    assert (forest(part.features)[[1, 3]] > 0).all()
