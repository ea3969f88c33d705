"""Soft oblivious trees: their formula and gradients, and heads that are a committee."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet import SortNetRanker
from sortnet.comparators import SoftTrees, margin_of
from sortnet.comparators.soft_trees import HeadLosses, TreeScores, leaf_values
from sortnet.config import Config
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.explain.permutation import permutation_importance
from sortnet.rankers.sortnet import Model, fit
from sortnet.sorting import sort

nets = st.builds(
    SoftTrees,
    st.just(3),
    committee=st.integers(1, 4),
    trees=st.integers(1, 3),
    depth=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
documents = st.integers(0, 2**16).map(
    lambda seed: np.random.default_rng(seed).normal(0, 1, (8, 3)).astype(np.float32)
)


def slow_score(net: SoftTrees, x: np.ndarray, head: int) -> float:
    """g_h(x): the leaves of each tree by the path to them, the first level the highest bit."""
    total = 0.0
    weights = {name: w.detach().double().numpy() for name, w in net.named_parameters()}
    for tree in range(head * net.trees, (head + 1) * net.trees):
        right = []
        for level in range(net.depth):
            split = tree * net.depth + level
            c = np.exp(float(net.sharpness) * weights["choices"][:, split])
            z = x @ (c / c.sum()) - weights["thresholds"][split]
            right.append(1 / (1 + math.exp(-math.exp(weights["log_steepness"][split]) * z)))
        for leaf, sides in enumerate(product((0, 1), repeat=net.depth)):
            reached = math.prod(s if side else 1 - s for s, side in zip(right, sides, strict=True))
            total += reached * weights["leaves"][tree, leaf]
    return total


@given(nets, documents, st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_a_head_s_score_is_the_sum_of_its_trees_leaves(net, X, share):
    net.anneal(share)
    g = net.prepare(X).numpy()
    expected = [[slow_score(net, x, head) for head in range(net.committee)] for x in X]
    np.testing.assert_allclose(g, expected, atol=1e-5)
    margin = np.mean(expected[0]) - np.mean(expected[1])
    assert net.prefer(net.prepare(X), [0], [1]) == pytest.approx([margin], abs=1e-5)
    votes = [each["margin"] for each in net.verdicts(net.prepare(X), 0, 1)]
    np.testing.assert_allclose(votes, np.subtract(expected[0], expected[1]), atol=1e-5)


@given(nets, documents)
@settings(max_examples=25, deadline=None)
def test_it_is_reflexive_antisymmetric_and_transitive(net, X):
    i, j = (index.ravel() for index in np.indices((8, 8)))
    r = net.prefer(net.prepare(X), i, j).reshape(8, 8)
    assert not np.diag(r).any()
    np.testing.assert_array_equal(r, -r.T)
    no_worse = r >= 0
    for middle in range(8):
        assert (no_worse | ~(no_worse[:, middle, None] & no_worse[None, middle, :])).all()


@pytest.mark.parametrize("n", [1, 63, 64, 200, 5000, 9000])
def test_documents_with_the_same_features_tie_wherever_they_stand(n):
    net, X = SoftTrees(5, seed=2), np.random.default_rng(n).normal(size=(n, 5)).astype(np.float32)
    twice = net.prepare(np.concatenate((X, X[::-1])))
    assert torch.equal(twice[:n], twice[n:].flip(0))
    assert torch.equal(net.prepare(X[-1:])[0], twice[n]) or n > 1  # alone it may be rounded so


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("depth", [1, 2, 3, 5, 6, 8])
@pytest.mark.parametrize("n", [1, 64, 130])
def test_the_compiled_scores_and_their_gradients_are_those_of_the_plain_formula(n, depth, dtype):
    heads, trees = 2, 3
    splits = heads * trees * depth
    generator = torch.Generator().manual_seed(depth)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    seen, thresholds, log_steepness = 3 * normal(n, splits), normal(splits), normal(splits)
    leaves, weights = normal(heads * trees, 2**depth), normal(n, heads)

    def scores_and_gradients(dtype, scores_of):
        inputs = [each.to(dtype).requires_grad_() for each in exact]
        scores = scores_of(*inputs)
        loss = (scores * weights.to(dtype)).sum()
        return scores.detach(), *torch.autograd.grad(loss, inputs)

    def compiled(*inputs):
        return TreeScores.apply(*inputs, heads)

    def plain(seen, thresholds, log_steepness, leaves):
        right = torch.sigmoid(log_steepness.exp() * (seen - thresholds))
        return leaf_values(right.view(n, heads, trees, depth), leaves)

    exact = seen, thresholds, log_steepness, leaves
    ours, theirs = scores_and_gradients(dtype, compiled), scores_and_gradients(torch.float64, plain)
    for mine, peer in zip(ours, theirs, strict=True):
        tolerance = 3e-5 if dtype == torch.float32 else 1e-13
        torch.testing.assert_close(
            mine.double(), peer, rtol=0, atol=tolerance * max(1, float(peer.abs().max()))
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_splits_saturate_and_what_is_no_number_stays_none(dtype):
    seen = torch.tensor([[-1e30], [-9.0], [0.0], [9.0], [1e30], [math.nan]], dtype=dtype)
    zero, leaves = torch.zeros(1, dtype=dtype), torch.tensor([[2.0, 3.0]], dtype=dtype)
    scores = TreeScores.apply(seen, zero, math.log(2) + zero, leaves, 1)[:, 0]
    assert scores[:5].tolist() == pytest.approx([2, 2, 2.5, 3, 3], abs=1e-6)
    assert math.isnan(scores[5])


def test_each_head_learns_by_its_own_loss():
    generator = torch.Generator().manual_seed(0)
    g = torch.randn(9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    winner, loser = torch.randint(0, 9, (2, 30), generator=generator)
    weight = torch.rand(30, generator=generator, dtype=torch.float64)
    ours = HeadLosses.apply(g, winner, loser, weight)
    theirs = (weight[:, None] * torch.nn.functional.softplus(g[loser] - g[winner])).mean(1).sum()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(loss, g)[0] for loss in (ours, theirs)))


def test_the_loss_of_no_number_is_none_and_of_a_huge_margin_finite():
    pair = torch.tensor([0]), torch.tensor([1]), torch.ones(1)
    assert math.isnan(HeadLosses.apply(torch.tensor([[math.nan], [0.0]]), *pair))
    assert 600 < float(HeadLosses.apply(torch.tensor([[-1e6], [1e6]]), *pair)) < math.inf


def test_the_choice_of_features_sharpens_in_a_training_and_not_back():
    net = SoftTrees(4, committee=1, trees=2, depth=2)
    seen = []
    for share in (0.0, 0.35, 0.7, 1.0, 0.0):
        net.anneal(share)
        seen.append(float(net.sharpness))
    assert seen == [1.0, 4.5, 8.0, 8.0, 8.0]
    assert float(net.feature_shares().sum()) == pytest.approx(1)


def bumps(seed: int, n: int = 30) -> Queries:
    X = np.random.default_rng(seed).random((n * 12, 3)).astype(np.float32)
    return Queries.from_arrays(X, ((X[:, 0] > 0.4) ^ (X[:, 1] > 0.6)) + 0, group=[12] * n)


def test_steps_and_an_exclusive_or_are_learned_saved_and_explained(tmp_path):
    model = fit(bumps(0), bumps(1), Config(scaling="normal", committee=3))
    assert model.info["quality"] > 0.95
    model.save(tmp_path)
    loaded, test = Model.load(tmp_path), bumps(2)
    np.testing.assert_array_equal(loaded.real_scores(test), model.real_scores(test))
    np.testing.assert_array_equal(loaded.order(test), model.order(test))
    assert len(model.votes(test, 0, 1)) == 3
    shares = model.comparator.feature_shares()
    assert shares[2] < min(shares[:2])
    np.testing.assert_allclose(permutation_importance(model, test, repeats=1).splits, shares)
    order = np.lexsort((-model.real_scores(test), test.query_of_docs()))
    np.testing.assert_array_equal(sort(model.comparator, model.scaler(test)).order, order)


def test_margins_have_gradients_in_the_features():
    net = SoftTrees(3, committee=2, trees=2, depth=3, seed=1)
    x, y = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.autograd.gradcheck(margin_of(net), (x.requires_grad_(), y.requires_grad_()))


def test_splits_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr("sortnet.core.memory.free_memory", lambda: 10**9)
    with pytest.raises(DataError, match=r"splits over 160,000 features need 1\.5 GB"):
        SoftTrees(160_000, committee=8)


def test_trees_are_sorted_by_compiled_code_and_have_a_score_as_the_documentation_says():
    trees = SoftTrees(2, committee=2, trees=2, depth=2)
    assert trees.kernel() is not None
    assert trees.score(trees.prepare(np.ones((3, 2), np.float32))).shape == (3,)
    for function in (sort, SortNetRanker.predict):
        assert "soft trees" in " ".join(function.__doc__.lower().split())
