"""A committee sums margins; one-hidden-layer CmpNNs are also one wide net."""

import numpy as np
import pytest

from sortnet.comparators import CmpNN, Committee, DirectRanker
from sortnet.errors import ComparatorError

X = np.random.default_rng(0).normal(0, 1, (12, 3)).astype(np.float32)
I, J = np.triu_indices(12, 1)  # noqa: E741


def margin(comparator):
    return comparator.prefer(comparator.prepare(X), I, J)


def test_the_margin_is_the_sum_of_the_members():
    members = [CmpNN(3, hidden=4, seed=1), CmpNN(3, hidden=(3, 2), seed=2), DirectRanker(3)]
    expected = sum(margin(member).astype(np.float64) for member in members)
    np.testing.assert_allclose(margin(Committee(members)), expected, atol=1e-6)


class Opposite(CmpNN):
    def margin(self, e_i, e_j):
        return -super().margin(e_i, e_j)


class Reversed(DirectRanker):
    def prefer(self, prepared, i, j):
        return super().prefer(prepared, j, i)


def test_what_the_compiled_sort_would_get_wrong_offers_no_kernel():
    assert CmpNN(3).kernel() is not None and DirectRanker(3).kernel() is not None
    for own in (CmpNN(3, hidden=(3, 2)), Opposite(3), Reversed(3)):
        assert own.kernel() is None
        assert Committee([CmpNN(3), own]).kernel() is None
    assert Committee([CmpNN(3), CmpNN(3, units="sigmoid")]).kernel() is None
    assert Committee([DirectRanker(3), DirectRanker(3, tau="identity")]).kernel() is None


def test_empty_and_ill_matched_committees_are_refused():
    with pytest.raises(ComparatorError, match="at least one"):
        Committee([])
    with pytest.raises(ComparatorError, match="same features"):
        Committee([CmpNN(3), CmpNN(4)])
