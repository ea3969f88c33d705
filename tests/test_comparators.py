"""What every comparator keeps to: trees, nets and committees."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.comparators import CmpNN, Committee, DirectRanker, SoftTrees
from sortnet.config import Training
from sortnet.core import ComparedPairs, Queries
from sortnet.errors import ComparatorError
from sortnet.learning.pairs_to_ask import pairs_of_grades
from sortnet.learning.training import train_on_pairs

MAKERS = {
    "trees": lambda seed: SoftTrees(3, committee=2, trees=2, depth=3, seed=seed),
    "cmpnn": lambda seed: CmpNN(3, hidden=5, seed=seed),
    "deep, of sigmoid units": lambda seed: CmpNN(3, hidden=(5, 4), units="sigmoid", seed=seed),
    "directranker": lambda seed: DirectRanker(3, hidden=(6, 2), seed=seed),
    "relu": lambda seed: DirectRanker(
        3, hidden=7, units="relu", tau="identity", dropout=0.2, seed=seed
    ),
    "committee": lambda seed: Committee([CmpNN(3, seed=seed), DirectRanker(3, seed=seed + 1)]),
}
kinds = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def documents(seed: int, n: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)


def margins(comparator, X: np.ndarray) -> np.ndarray:
    """(n, n) margins of every document over every other."""
    i, j = (index.ravel() for index in np.indices((len(X), len(X))))
    return comparator.prefer(comparator.prepare(X), i, j).reshape(len(X), len(X))


@kinds
@given(seed=st.integers(0, 2**16))
def test_margins_are_reflexive_and_antisymmetric_and_those_of_scores_transitive(make, seed):
    comparator = make(seed)
    r = margins(comparator, documents(seed))
    assert not np.diag(r).any()
    np.testing.assert_array_equal(r, -r.T)
    if isinstance(comparator, SoftTrees | DirectRanker):
        no_worse = r >= 0
        for middle in range(8):  # i >= middle and middle >= j give i >= j
            both = no_worse[:, middle, None] & no_worse[None, middle, :]
            assert (no_worse | ~both).all()


@kinds
@pytest.mark.parametrize("n", [1, 5, 64, 1001, 4101])
def test_equal_documents_tie_wherever_they_stand(make, n):
    comparator = make(1)
    prepared = comparator.prepare(np.repeat(documents(n, 1), n, axis=0))
    i = np.arange(n)
    assert not comparator.prefer(prepared, i, i[::-1].copy()).any()


@kinds
def test_the_seed_decides_the_weights_and_a_copy_learns_by_itself(make):
    comparator, same, other = make(1), make(1), make(2)
    X = documents(0, 40)
    before = margins(comparator, X)
    np.testing.assert_array_equal(margins(same, X), before)
    assert not np.array_equal(margins(other, X), before)
    queries = Queries.from_arrays(X, np.arange(40) % 3)
    pairs = pairs_of_grades(queries)
    learned = copy.deepcopy(comparator)
    train_on_pairs(learned, queries, pairs, queries, ComparedPairs.empty(), Training(epochs=1))
    np.testing.assert_array_equal(margins(comparator, X), before)
    assert not np.array_equal(margins(learned, X), before)


@kinds
def test_arrays_of_a_comparator_make_another_one_equal(make):
    comparator, other = make(1), make(2)
    for one, into in zip(comparator.members, other.members, strict=True):
        into.load_arrays(one.arrays())
    np.testing.assert_array_equal(margins(other, documents(0)), margins(comparator, documents(0)))


@kinds
def test_documents_of_another_width_are_refused(make):
    with pytest.raises(ComparatorError, match="takes 3 features, the data has 4"):
        make(0).prepare(np.zeros((1, 4), np.float32))


@kinds
def test_margins_have_gradients_in_the_features(make):
    x, y = np.random.default_rng(1).normal(size=(2, 5, 3))
    for member in make(3).members:
        margin = member.differentiable()
        values, in_x, in_y = margin(x, y)
        whole = margins(member, np.float32([*x, *y]))
        np.testing.assert_allclose(values, np.diag(whole[:5, 5:]), rtol=1e-4, atol=1e-5)
        for feature in range(3):
            step = 1e-6 * np.eye(3)[feature]
            slope_in_x = (margin(x + step, y)[0] - margin(x - step, y)[0]) / 2e-6
            slope_in_y = (margin(x, y + step)[0] - margin(x, y - step)[0]) / 2e-6
            np.testing.assert_allclose(in_x[:, feature], slope_in_x, rtol=1e-4, atol=1e-7)
            np.testing.assert_allclose(in_y[:, feature], slope_in_y, rtol=1e-4, atol=1e-7)
