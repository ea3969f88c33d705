"""Training by blocks: mini-batches that are even among them, sums of gradients of any size."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from sortnet.comparators import CmpNN
from sortnet.config import Training
from sortnet.learning import training
from sortnet.learning.training import _ByQuery
from sortnet.sorting.diagnostics import cyclic_triples
from sortnet.types import Pairs, Queries
from sortnet.types.shard import Alone, Shard, sharded

BLOCKS, SIZE = 4, 12


def made(n: int = 200) -> tuple[Queries, Pairs]:
    """Queries of four blocks, which one process has, and all their pairs."""
    X = np.random.default_rng(0).normal(size=(n * SIZE, 3)).astype(np.float32)
    queries = sharded(Queries.from_arrays(X, group=[SIZE] * n), Alone(), BLOCKS)
    i, j = np.triu_indices(SIZE, 1)
    i, j = (np.add.outer(queries.offsets[:-1], each).ravel() for each in (i, j))
    better = X[i, 0] > X[j, 0]
    return queries, Pairs(np.where(better, i, j), np.where(better, j, i))


def batches_of(queries: Queries, pairs: Pairs, size: int, rng: np.random.Generator, most=500):
    return list(_ByQuery.of(queries, pairs).batches(size, most, rng, torch.device("cpu")))


@pytest.mark.parametrize("size", [20, 330, 1000])
def test_an_epoch_has_every_pair_once_and_each_block_an_even_part_of_each_mini_batch(size):
    queries, pairs = made()
    batches = batches_of(queries, pairs, size, np.random.default_rng(0))
    assert len(batches) == -(-len(pairs) // size)
    seen: list[tuple[bytes, bytes]] = []
    for parts in batches:
        for part in parts:
            x = part.x.numpy()
            seen += zip(map(bytes, x[part.winner]), map(bytes, x[part.loser]), strict=True)
    X = queries.features
    theirs = zip(map(bytes, X[pairs.winner]), map(bytes, X[pairs.loser]), strict=True)
    assert sorted(seen) == sorted(theirs)
    of_query = SIZE * (SIZE - 1) // 2
    taken = np.zeros((len(batches), BLOCKS))
    for k, parts in enumerate(batches):
        for part in parts:
            taken[k, part.block] = len(part.weight)
    ideal = np.outer(np.arange(1, len(batches) + 1) / len(batches), taken.sum(axis=0))
    assert np.abs(np.cumsum(taken, axis=0) - ideal).max() <= of_query
    # Blocks take turns: together they are nearer to the ideal than one by one.
    assert np.abs((np.cumsum(taken, axis=0) - ideal).sum(axis=1)).max() <= 1.5 * of_query
    if size > of_query:  # whole queries
        assert (taken % of_query == 0).all()


def test_epochs_of_blocks_differ_and_a_limited_one_takes_as_many_pairs_of_each_query(monkeypatch):
    queries, pairs = made()
    monkeypatch.setattr(training, "_A_DOCUMENT", 0)
    query_of = dict(zip(map(bytes, queries.features), queries.query_of_docs(), strict=True))
    rng = np.random.default_rng(0)
    of_epochs = []
    for _ in range(2):
        seen: list[tuple[bytes, bytes]] = []
        for part in chain.from_iterable(batches_of(queries, pairs, 330, rng, most=10)):
            x = part.x.numpy()
            seen += zip(map(bytes, x[part.winner]), map(bytes, x[part.loser]), strict=True)
        taken = np.bincount([query_of[winner] for winner, _ in seen], minlength=len(queries))
        assert (taken == 10).all()
        of_epochs.append(set(seen))
    assert of_epochs[0] != of_epochs[1]


@pytest.mark.parametrize("times", [1e-6, 1.0, 1e6, 1e12, 1e30])
def test_gradients_of_blocks_are_those_of_the_whole_however_large_they_are(times):
    """Sums of whole numbers hold gradients of float32's whole range."""
    queries, pairs = made()
    (parts, *_) = batches_of(queries, pairs, 1000, np.random.default_rng(0))
    parts = [replace(part, weight=part.weight * np.float32(times)) for part in parts]
    assert len(parts) == BLOCKS
    net, how = CmpNN(3, hidden=4, seed=0), Training()
    shard = queries.shard
    assert isinstance(shard, Shard)
    loss = training._begun(net, shard, parts, how, 0)()
    found = [w.grad.clone() for w in net.parameters() if w.grad is not None]
    n = sum(len(part.weight) for part in parts)
    of_parts = []
    for part in parts:
        one = training._gradients(net, part, how)
        grads = [torch.zeros_like(w) if w.grad is None else w.grad for w in net.parameters()]
        of_parts.append([t.double() * len(part.weight) / n for t in (one, *grads)])
    whole = [sum(each) for each in zip(*of_parts, strict=True)]
    largest = max(float(t.abs().max()) for t in whole)
    for one, other in zip([loss, *found], whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7 * largest)


def test_a_gradient_that_is_no_number_ends_the_training_as_without_blocks():
    queries, pairs = made(8)
    (parts, *_) = batches_of(queries, pairs, 330, np.random.default_rng(0))
    parts[-1] = replace(parts[-1], weight=parts[-1].weight * np.inf)
    net = CmpNN(3, hidden=4, seed=0)
    loss = training._begun(net, queries.shard, parts, Training(), 0)()
    assert loss is not None and torch.isnan(loss)


class ByNeighbours:
    """A comparator that sees what else is prepared with a document, as rounding does."""

    def prepare(self, X):
        return X[:, 0] * X[:, 0].mean()

    def prefer(self, x, i, j):
        return np.sin(9 * (x[j] - x[i]))


class OneOf(Alone):
    """A process of two, which adds nothing up."""

    size = 2

    def __init__(self, rank: int) -> None:
        self.rank = rank


def test_cyclic_triples_do_not_depend_on_the_processes_that_share_the_blocks():
    queries = replace(made()[0], shard=None)
    alone = cyclic_triples(ByNeighbours(), sharded(queries, Alone(), BLOCKS), samples=500)
    each = [
        cyclic_triples(ByNeighbours(), sharded(queries, OneOf(rank), BLOCKS), samples=500)
        for rank in (0, 1)
    ]
    assert 0 < alone.share == sum(found.share for found in each)
