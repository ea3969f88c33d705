"""Sorting and training where tensors stay on a device: on the CPU, and on a GPU if there is one.

Tensors on the device "meta" have shapes and no values: whatever waits for a GPU's values raises
there.
"""

import importlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_tables import table
from test_sort import Batched, Table, numbered, random_queries, sizes
from test_training import made, parts_of

from sortnet.comparators import CmpNN, Committee, DirectRanker, NeuralComparator
from sortnet.comparators.forms import OnDevice
from sortnet.config import Training
from sortnet.core import ComparedPairs
from sortnet.data.digits import digits_fold
from sortnet.data.scaling import fit_scaler
from sortnet.learning import mini_batches, net_learner, training
from sortnet.learning.net_learner import NetLearner
from sortnet.metrics import evaluate
from sortnet.sorting import merge_sort_on_device as device_sort
from sortnet.sorting import sort
from sortnet.sorting.merge_sort_levels import merge_bounds, merge_sort_levels
from sortnet.sorting.merge_sort_on_device import merge_sort_on_device

CPU, META, CUDA = (torch.device(name) for name in ("cpu", "meta", "cuda"))
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here that torch sees")
on_devices = pytest.mark.parametrize("device", [CPU, pytest.param(CUDA, marks=needs_gpu)])
COMMITTEE = Committee([CmpNN(3, hidden=4, seed=1), CmpNN(3, hidden=(3, 2)), DirectRanker(3)])
OF_TENSORS = [
    CmpNN(3, hidden=(5, 4), seed=1),
    CmpNN(3, units="sigmoid"),
    DirectRanker(3),
    COMMITTEE,
]


def margins_of(table: torch.Tensor) -> OnDevice:
    return OnDevice(table.device, lambda prepared, i, j: table[prepared[i], prepared[j]])


@on_devices
@given(sizes, st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_on_a_device_the_sort_level_by_level_is_made_step_for_step(device, sizes, seed):
    n, rng = sum(sizes), np.random.default_rng(seed)
    margins = rng.normal(0, 1, (n, n)).round(1).astype(np.float32)  # ties and cycles among them
    margins[rng.random((n, n)) < 0.02] = np.nan
    queries, order = numbered(sizes), arrangement_of(sizes, rng)
    expected = merge_sort_levels(Table(margins), np.arange(n), order, queries.offsets)
    there = margins_of(torch.from_numpy(margins).to(device))
    found = merge_sort_on_device(there, torch.arange(n, device=device), order, queries.offsets)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def arrangement_of(sizes: list[int], rng: np.random.Generator) -> np.ndarray:
    """Any order of the documents of each query."""
    query = np.repeat(np.arange(len(sizes)), np.array(sizes, dtype=np.int64))
    return np.lexsort((rng.random(len(query)), query))


@pytest.mark.parametrize("sizes", [[1, 0, 700, 2], [3] * 200 + [65, 64, 63], [0, 1]])
def test_long_and_short_queries_side_by_side_are_sorted_as_level_by_level(sizes):
    n, offsets = sum(sizes), np.append(0, np.cumsum(sizes))
    margins = np.random.default_rng(0).normal(0, 1, (n, n)).round(1).astype(np.float32)
    there = margins_of(torch.from_numpy(margins))
    found = merge_sort_on_device(there, torch.arange(n), np.arange(n), offsets)
    expected = merge_sort_levels(Table(margins), np.arange(n), np.arange(n), offsets)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture
def nothing_compiled(monkeypatch):
    """Comparators on the CPU that are sorted as on a GPU."""
    for kind in (CmpNN, DirectRanker, Committee):
        monkeypatch.setattr(kind, "kernel", lambda self: None)
    monkeypatch.setattr(
        NeuralComparator, "on_device", lambda self: OnDevice(self.device, self._compare)
    )


@pytest.mark.parametrize("comparator", OF_TENSORS, ids=lambda one: type(one).__name__)
def test_the_sort_of_a_net_on_a_device_is_that_on_the_cpu(
    comparator, nothing_compiled, monkeypatch
):
    queries = random_queries([30, 3, 0, 90, 5, 1], 0)
    queries = queries.with_features(queries.features.round())  # ties
    module = importlib.import_module("sortnet.sorting.sort")  # the package's `sort` is a function
    monkeypatch.setattr(module, "_BATCHED_CHUNK", 40)
    expected = sort(Batched(comparator), queries)
    monkeypatch.setattr(module, "_BATCHED_CHUNK", 1)
    monkeypatch.setattr(module, "_DEVICE_CHUNK", 40)
    levels = []
    of_level = device_sort._merge_level
    monkeypatch.setattr(device_sort, "_merge_level", lambda *a: levels.append(1) or of_level(*a))
    found = sort(comparator, queries)
    assert len(levels) == 5 + 7 + 3  # levels of 30, 90 and 5 documents
    np.testing.assert_array_equal(found.order, expected.order)
    np.testing.assert_array_equal(found.compared.i, expected.compared.i)
    np.testing.assert_array_equal(found.compared.j, expected.compared.j)
    np.testing.assert_allclose(found.compared.margin, expected.compared.margin, atol=1e-6)


class Reversed(DirectRanker):
    def prefer(self, prepared, i, j):
        return super().prefer(prepared, j, i)


class ReversedCommittee(Committee):
    prefer = Reversed.prefer


def test_only_nets_elsewhere_than_on_the_cpu_with_our_prefer_are_sorted_there():
    for comparator in OF_TENSORS:
        assert comparator.on_device() is None
    there = CmpNN(3).to(META)
    assert there.on_device().device == META
    assert Committee([there, DirectRanker(3).to(META)]).on_device().device == META
    assert Reversed(3).to(META).on_device() is None
    assert Committee([there, Reversed(3).to(META)]).on_device() is None
    assert ReversedCommittee([there]).on_device() is None


@pytest.mark.parametrize("kind", [CmpNN, DirectRanker])
def test_a_level_of_the_sort_waits_for_no_device(kind):
    members = [kind(3, hidden=4, seed=k).to(META) for k in range(2)]
    prepared = Committee(members).prepare(np.zeros((30, 3), np.float32))
    source = torch.empty(60, dtype=torch.int64, device=META)
    bounds = merge_bounds(np.array([0, 10, 30]), 4)
    there = Committee(members).on_device()
    merged, *made = device_sort._merge_level(there, prepared, source, 30, bounds)
    assert {each.device for each in (merged, *made)} == {META}


@pytest.mark.parametrize(
    "waits", [lambda x: x.cpu(), lambda x: x.any().item(), lambda x: x[x > 0], lambda x: bool(x[0])]
)
def test_what_waits_for_values_raises_where_there_are_none(waits):
    with pytest.raises((NotImplementedError, RuntimeError)):
        waits(torch.empty(5, device=META))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("kind", [CmpNN, DirectRanker])
def test_a_step_of_training_waits_for_no_device(kind, loss):
    queries, pairs = made(4, 6, 1)
    net = kind(3).to(META)
    learner = NetLearner(net, Training(loss=loss), {})
    grouped = mini_batches.QueryPairs.of(queries, pairs)
    for batch in grouped.batches(16, 300, np.random.default_rng(0)):
        lost = learner._loss(batch)
        lost.backward()
        assert lost.device == META
    assert {w.grad.device for w in net.parameters() if w.grad is not None} == {META}


def test_features_are_kept_on_a_gpu_where_they_fit_into_a_quarter_of_its_memory(monkeypatch):
    queries, pairs = made(4, 6, 1)
    size = 4 * queries.n_docs * 3
    sent = []
    monkeypatch.setattr(
        net_learner, "to_device", lambda array, device: sent.append(1) or torch.from_numpy(array)
    )
    monkeypatch.setattr(CmpNN, "device", CUDA)
    monkeypatch.setattr(net_learner, "_AT_ONCE", 7)
    grouped = mini_batches.QueryPairs.of(queries, pairs)
    for free, kept in ((4 * size, True), (4 * size - 1, False)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 10**9))
        learner = NetLearner(CmpNN(3), Training(), {})
        for batch in grouped.batches(16, 300, np.random.default_rng(0)):
            np.testing.assert_array_equal(learner._features(batch), batch.x)
        assert (learner._on_gpu is not None) is kept


@needs_gpu
def test_a_gpu_sorts_and_trains_as_the_cpu_does():
    queries, pairs = made(20, 30, 1)
    kinds = (CmpNN, DirectRanker)
    nets = [Committee([kind(3, seed=k) for kind in kinds]) for k in range(2)]
    for net, device in zip(nets, (CPU, CUDA), strict=True):
        for member in net.members:
            member.to(device)
        train_how = Training(epochs=4, batch_size=64)
        training.train_on_pairs(net, queries, pairs, queries, pairs, train_how)
    for ours, theirs in zip(*(net.members for net in nets), strict=True):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b.cpu(), rtol=1e-2, atol=1e-3)
    here, there = (sort(net, queries) for net in nets)
    assert (here.order == there.order).mean() > 0.95
    again = nets[1].prefer(nets[1].prepare(queries.features), there.compared.i, there.compared.j)
    np.testing.assert_allclose(again, there.compared.margin, atol=1e-5)


@needs_gpu
def test_on_a_gpu_levels_and_steps_run_without_a_wait():
    queries, pairs = made(20, 30, 1)
    net = CmpNN(3, seed=1).to(CUDA)
    prepared, there = net.prepare(queries.features), net.on_device()
    source = torch.arange(queries.n_docs, device=CUDA)
    source = torch.cat((source, source[:30]))
    learner = NetLearner(net, Training(), {})
    batches = list(
        mini_batches.QueryPairs.of(queries, pairs).batches(64, 300, np.random.default_rng(0))
    )
    learner.step(batches[0], 0.01, 0.0)  # copies the features to the GPU
    torch.cuda.set_sync_debug_mode("error")
    try:
        bounds = merge_bounds(queries.offsets, 8)
        device_sort._merge_level(there, prepared, source, queries.n_docs, bounds)
        for batch in batches:
            learner.step(batch, 0.01, 0.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture(scope="module")
def digits():
    """Two parts of the digits, scaled, and all pairs of the first that have an order."""
    fold = digits_fold()
    scaled = fit_scaler("query+rank", fold.train)
    train, vali = (scaled(part) for part in (fold.train.take(np.arange(20)), fold.vali))
    i, j = (each + train.offsets[:-1, None] for each in np.triu_indices(36, 1))
    grades = train.grades.astype(int)
    better = np.stack([i.ravel(), j.ravel()])
    better = better[:, grades[better[0]] != grades[better[1]]]
    turned = grades[better[0]] < grades[better[1]]
    return train, vali, table(*np.where(turned, better[::-1], better))


@on_devices
@pytest.mark.parametrize("kind", [CmpNN, DirectRanker])
def test_trained_in_bf16_a_net_ranks_about_as_well(kind, device, digits):
    train, vali, pairs = digits
    found, weights = [], []
    for precision in ("float32", "bf16"):
        net, how = kind(train.n_features, seed=1).to(device), Training(epochs=10)
        how = replace(how, precision=precision)
        training.train_on_pairs(net, train, pairs, train, ComparedPairs.empty(), how)
        found.append(evaluate(vali, sort(net, vali).order, "ndcg@10")["ndcg@10"])
        weights.append(torch.cat([w.detach().flatten() for w in net.parameters()]))
        assert weights[-1].dtype == torch.float32
    assert min(found) > 0.8 and abs(found[0] - found[1]) < 0.02
    assert not torch.equal(*weights)


def test_losses_are_compared_in_float32_whatever_the_training_is_in():
    queries, pairs = made(10, 6, 1)
    net, grouped = CmpNN(3, seed=1), mini_batches.QueryPairs.of(queries, pairs)
    learners = [NetLearner(net, Training(precision=how), {}) for how in ("float32", "bf16")]
    losses = [training._mean_loss(learner, grouped, 3) for learner in learners]
    assert losses[0] == losses[1]
    net.train()
    (batch,) = parts_of(grouped, len(pairs), None, None)
    plain, rounded = (learner._loss(batch) for learner in learners)
    assert plain != rounded
