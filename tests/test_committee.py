"""A committee sums margins; one-hidden-layer CmpNNs are also one wide net."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from sortnet.comparators import CmpNN, Committee, DirectRanker, DualUnits, Score, base
from sortnet.core import Queries
from sortnet.errors import ComparatorError
from sortnet.sorting import sort

X = np.random.default_rng(0).normal(0, 1, (12, 3)).astype(np.float32)
I, J = np.triu_indices(12, 1)  # noqa: E741


def margin(comparator):
    return comparator.prefer(comparator.prepare(X), I, J)


def test_the_margin_is_the_sum_of_the_members():
    members = [CmpNN(3, hidden=4, seed=1), CmpNN(3, hidden=(3, 2), seed=2), DirectRanker(3)]
    expected = sum(margin(member).astype(np.float64) for member in members)
    np.testing.assert_allclose(margin(Committee(members)), expected, atol=1e-6)


@pytest.mark.parametrize("units", ["tanh", "sigmoid"])
@pytest.mark.parametrize(("kind", "name"), [(CmpNN, "units"), (DirectRanker, "tau")])
def test_the_layers_of_a_committee_side_by_side_have_its_margin(units, kind, name):
    nets = [CmpNN(3, hidden=h, units=units, seed=h) for h in (2, 3)]
    committee = Committee([nets[0], kind(3, hidden=1, **{name: units}), nets[1]])
    layer = committee.kernel()
    assert layer is not None and layer.units == units
    p, q = layer.embed(X).numpy().reshape(len(X), 2, 6).swapaxes(0, 1)
    s = {"tanh": np.tanh, "sigmoid": lambda z: 1 / (1 + np.exp(-z))}[units]
    expected = (s(p[I] + q[J]) - s(p[J] + q[I])) @ layer.w.numpy()
    np.testing.assert_allclose(expected, margin(committee), atol=1e-6)


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


@pytest.mark.parametrize(
    ("taus", "form"),
    [
        (["tanh"], Score),
        (["identity", "identity"], Score),
        (["tanh", "tanh"], DualUnits),  # a sum of tanh is the difference of no score
        (["sigmoid", "sigmoid"], DualUnits),
        (["tanh", "sigmoid"], type(None)),
    ],
)
def test_a_committee_has_a_score_where_its_margins_are_differences_of_one(taus, form):
    committee = Committee([DirectRanker(3, tau=tau, seed=k) for k, tau in enumerate(taus)])
    assert type(committee.kernel()) is form


def test_a_subclass_sorts_by_its_own_margin():
    queries = Queries.from_arrays(X)
    own = sort(Opposite(3, seed=1), queries)
    ours = sort(CmpNN(3, seed=1), queries)
    prepared = CmpNN(3, seed=1).prepare(X)
    expected = -CmpNN(3, seed=1).prefer(prepared, own.compared.i, own.compared.j)
    np.testing.assert_allclose(own.compared.margin, expected, atol=1e-6)
    assert not np.array_equal(own.order, ours.order)


def test_empty_and_ill_matched_committees_are_refused():
    with pytest.raises(ComparatorError, match="at least one"):
        Committee([])
    with pytest.raises(ComparatorError, match="same features"):
        Committee([CmpNN(3), CmpNN(4)])


class Watched(DirectRanker):
    threads: ClassVar[list[int]] = []

    def embed(self, x):
        self.threads.append(torch.get_num_threads())
        return super().embed(x)


def test_little_work_is_done_in_one_thread_and_much_in_all(monkeypatch):
    net, before = Watched(3), torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        net.prepare(X)
        assert (net.threads, torch.get_num_threads()) == ([1], 3)
        monkeypatch.setattr(base, "_ONE_THREAD", 0)
        net.prepare(X)
        assert net.threads == [1, 3]
    finally:
        torch.set_num_threads(before)
