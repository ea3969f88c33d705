"""What rankers of pairs need of memory for each pair, whatever the number of features."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sortnet.core import Queries
from sortnet.learning.pairs_to_ask import pairs_of_grades
from sortnet.rankers.linear import ranksvm
from sortnet.rankers.stumps import boosted, by_exponential, by_fidelity

FEATURES = 64  # whose differences take 256 bytes a pair as float32


@pytest.fixture(scope="module")
def part() -> Queries:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, FEATURES)).astype(np.float32)
    grades = np.clip(np.round(X[:, 0] + rng.normal(size=1200)), 0, 4).astype(int)
    return Queries.from_arrays(X, grades, group=[300] * 4)


@pytest.mark.parametrize(
    "fit",
    [
        lambda part: ranksvm(part, 0.01),
        lambda part: boosted(part, by_exponential, 2),
        lambda part: boosted(part, by_fidelity, 2),
    ],
    ids=["ranksvm", "rankboost", "frank"],
)
def test_a_pair_takes_less_memory_than_its_difference_would(part, fit):
    fit(part)  # what is compiled or loaded once
    tracemalloc.start()
    try:
        fit(part)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / len(pairs_of_grades(part)) < 200
