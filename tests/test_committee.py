"""A committee sums margins; one-hidden-layer CmpNNs are also one wide net."""

import numpy as np
import pytest

from sortnet.comparators import CmpNN, Committee, DirectRanker, as_one_cmpnn
from sortnet.errors import ComparatorError

X = np.random.default_rng(0).normal(0, 1, (12, 3)).astype(np.float32)
I, J = np.triu_indices(12, 1)  # noqa: E741


def margin(comparator):
    return comparator.prefer(comparator.prepare(X), I, J)


def test_the_margin_is_the_sum_of_the_members():
    members = [CmpNN(3, hidden=4, seed=1), CmpNN(3, hidden=(3, 2), seed=2), DirectRanker(3)]
    expected = sum(margin(member).astype(np.float64) for member in members)
    np.testing.assert_allclose(margin(Committee(members)), expected, atol=1e-6)


@pytest.mark.parametrize("units", ["tanh", "sigmoid"])
def test_one_wide_net_has_the_margin_of_the_committee(units):
    committee = Committee([CmpNN(3, hidden=h, units=units, seed=h) for h in (2, 5, 3)])
    wide = as_one_cmpnn(committee)
    assert wide is not None and wide.hidden == (10,)
    np.testing.assert_allclose(margin(wide), margin(committee), atol=1e-6)


def test_deep_or_mixed_committees_are_not_one_wide_net():
    assert as_one_cmpnn(CmpNN(3, hidden=(3, 2))) is None
    assert as_one_cmpnn(Committee([CmpNN(3), DirectRanker(3)])) is None
    assert as_one_cmpnn(Committee([CmpNN(3), CmpNN(3, units="sigmoid")])) is None


def test_disagreement_is_the_members_spread():
    members = [CmpNN(3, hidden=4, seed=s) for s in range(3)]
    committee = Committee(members)
    expected = np.std([margin(member) for member in members], axis=0)
    spread = committee.disagreement(committee.prepare(X), I, J)
    np.testing.assert_allclose(spread, expected, atol=1e-6)


def test_empty_and_ill_matched_committees_are_refused():
    with pytest.raises(ComparatorError, match="at least one"):
        Committee([])
    with pytest.raises(ComparatorError, match="same features"):
        Committee([CmpNN(3), CmpNN(4)])
