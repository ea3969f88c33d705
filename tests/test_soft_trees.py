"""Soft oblivious trees: their formula, gradients and training steps, without torch."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet import Model, SortNetRanker, write_letor
from sortnet.comparators import SoftTrees
from sortnet.comparators.soft_trees import inputs_of
from sortnet.comparators.tree_kernels import LANES, blocks_of, fill_gradients, fill_scores
from sortnet.config import Config, Training
from sortnet.core import Queries
from sortnet.errors import ComparatorError, DataError
from sortnet.explanation.permutation import permutation_importance
from sortnet.learning.mini_batches import MiniBatch
from sortnet.learning.step_budget import Share, learning_rate
from sortnet.learning.tree_learner import TreeLearner
from sortnet.rankers.sortnet import fit
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
    weights = {name: w.astype(np.float64) for name, w in net.weights.items()}
    for tree in range(head * net.trees, (head + 1) * net.trees):
        right = []
        for level in range(net.depth):
            split = tree * net.depth + level
            c = np.exp(net.sharpness * weights["choices"][:, split])
            z = x @ (c / c.sum()) - weights["thresholds"][split]
            right.append(1 / (1 + math.exp(-math.exp(weights["log_steepness"][split]) * z)))
        for leaf, sides in enumerate(product((0, 1), repeat=net.depth)):
            reached = math.prod(s if side else 1 - s for s, side in zip(right, sides, strict=True))
            total += reached * weights["leaves"][tree, leaf]
    return total


@given(nets, documents, st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_a_head_s_score_is_the_sum_of_its_trees_leaves(net, X, share):
    net.prepare(X)
    net.weights_change()
    net.anneal(share)
    g = net.prepare(X)
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
    np.testing.assert_array_equal(twice[:n], twice[n:][::-1])
    if n == 1:  # alone a document may be rounded in another way
        np.testing.assert_array_equal(net.prepare(X), twice[:1])


def plain_leaf_values(right: torch.Tensor, leaves: torch.Tensor) -> torch.Tensor:
    """The scores (n, heads) of documents that go right with probabilities (n, heads, trees, depth).

    The first level is the highest bit of a leaf's number.
    """
    n, heads, trees, depth = right.shape
    reached = torch.ones(n, heads, trees, 1, dtype=right.dtype)
    for level in range(depth):
        p = right[..., level, None]
        reached = torch.stack((reached * (1 - p), reached * p), dim=-1).flatten(-2)
    return (reached * leaves.view(heads, trees, -1)).sum((2, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [1, 2, 3, 5, 6, 8])
@pytest.mark.parametrize("n", [1, 64, 130])
def test_the_compiled_scores_and_their_gradients_are_those_of_the_plain_formula(n, depth, dtype):
    heads, trees = 2, 3
    rng = np.random.default_rng(depth)
    seen, scale, shift, leaves, d_out = (
        rng.normal(size=shape)
        for shape in (
            (n, heads * trees * depth),
            heads * trees * depth,
            heads * trees * depth,
            (heads * trees, 2**depth),
            (n, heads),
        )
    )
    exact = [torch.tensor(each, requires_grad=True) for each in (seen, scale, shift, leaves)]
    half_logit = exact[0] * exact[1] + exact[2]
    right = torch.sigmoid(2 * half_logit).view(n, heads, trees, depth)
    scores = plain_leaf_values(right, exact[3])
    peers = torch.autograd.grad((scores * torch.from_numpy(d_out)).sum(), exact)

    seen, scale, shift, leaves, d_out = (
        each.astype(dtype) for each in (seen, scale, shift, leaves, d_out)
    )
    sides = np.empty((blocks_of(n), seen.shape[1], LANES), dtype)
    ours = np.empty((n, heads), dtype)
    fill_scores(seen, scale, shift, leaves, sides, ours)
    gradients = [np.empty_like(seen), *(np.zeros_like(each) for each in (scale, shift, leaves))]
    fill_gradients(seen, scale, leaves, sides, d_out, *gradients)
    for mine, peer in zip([ours, *gradients], [scores, *peers], strict=True):
        exact_peer = peer.detach().numpy()
        tolerance = 3e-5 if dtype == np.float32 else 1e-13
        np.testing.assert_allclose(
            mine, exact_peer, rtol=0, atol=tolerance * max(1, np.abs(exact_peer).max())
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_splits_saturate_and_what_is_no_number_stays_none(dtype):
    seen = np.array([[-1e30], [-9.0], [0.0], [9.0], [1e30], [math.nan]], dtype)
    leaves, scores = np.array([[2.0, 3.0]], dtype), np.empty((6, 1), dtype)
    sides = np.empty((1, 1, LANES), dtype)
    fill_scores(seen, np.ones(1, dtype), np.zeros(1, dtype), leaves, sides, scores)
    assert scores[:5, 0].tolist() == pytest.approx([2, 2, 2.5, 3, 3], abs=1e-6)
    assert math.isnan(scores[5, 0])


class TorchTrees(torch.nn.Module):
    """The same trees by torch's operations, with gradients by autograd."""

    def __init__(self, trees: SoftTrees) -> None:
        super().__init__()
        self.sizes = trees.committee, trees.trees, trees.depth
        for name, weight in trees.weights.items():
            self.register_parameter(name, torch.nn.Parameter(torch.from_numpy(weight.copy())))

    def forward(self, x: torch.Tensor, sharpness: float) -> torch.Tensor:
        inputs = x @ torch.softmax(sharpness * self.choices, dim=0)
        right = torch.sigmoid(self.log_steepness.exp() * (inputs - self.thresholds))
        return plain_leaf_values(right.view(len(x), *self.sizes), self.leaves)


def batches_of(queries: Queries, n: int, seed: int) -> list[MiniBatch]:
    """Mini-batches of random documents and pairs with random weights."""
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(n):
        docs = rng.choice(queries.n_docs, 70, replace=False)
        winner, loser = rng.integers(0, 70, (2, 200))
        weight = rng.random(200).astype(np.float32) / 200
        batches.append(MiniBatch(queries, docs, winner, loser, weight))
    return batches


@pytest.mark.parametrize("depth", [2, 6])
def test_training_steps_are_those_of_torch_with_its_adamw_and_one_cycle_to_rounding(depth):
    """The independent implementation: autograd, torch.optim.AdamW and OneCycleLR in float32."""
    queries, n = bumps(3), 40
    trees = SoftTrees(3, committee=2, trees=3, depth=depth, seed=4)
    peer = TorchTrees(trees)
    optimizer = torch.optim.AdamW(peer.parameters(), lr=0.03, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.03, total_steps=n, cycle_momentum=False
    )
    learner = TreeLearner(trees, 0.01, {})
    how, share = Training(), Share(0, n, n, 10)
    for step, batch in enumerate(batches_of(queries, n, seed=5)):
        if step == n // 2:  # a learner continues from the moments of another learner
            learner = TreeLearner(trees, 0.01, learner.moments())
        loss = learner.step(batch, learning_rate(how, step, share), step / n)
        scores = peer(torch.from_numpy(batch.x), 1 + 7 * min(1.0, step / n / 0.7))
        winner, loser = torch.from_numpy(batch.winner), torch.from_numpy(batch.loser)
        losses = torch.nn.functional.softplus(scores[loser] - scores[winner]).mean(1)
        theirs = (torch.from_numpy(batch.weight) * losses).sum()
        assert loss == pytest.approx(theirs.item(), rel=1e-4)
        optimizer.zero_grad()
        theirs.backward()
        optimizer.step()
        if step < n - 1:
            schedule.step()
    before = SoftTrees(3, committee=2, trees=3, depth=depth, seed=4)
    for name, weight in peer.named_parameters():
        ours, theirs = trees.weights[name], weight.detach().numpy()
        assert np.abs(theirs - before.weights[name]).max() > 0.1  # something was learned
        np.testing.assert_allclose(ours, theirs, atol=3e-3)


@pytest.mark.parametrize(
    ("settings", "schedule"),
    [
        ({"lr": 0.03}, lambda o: torch.optim.lr_scheduler.OneCycleLR(
            o, 0.03, total_steps=53, cycle_momentum=False)),
        ({"lr": 0.5, "schedule": "steps", "lr_decay": 0.7, "lr_decay_epochs": 2},
         lambda o: torch.optim.lr_scheduler.StepLR(o, 14, 0.7)),
    ],
)  # fmt: skip
def test_learning_rates_are_those_of_torch(settings, schedule):
    how, share = Training(**settings), Share(0, 53, 53, 7)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=how.lr)
    peer = schedule(optimizer)
    for step in range(53):
        ours = learning_rate(how, step, share)
        assert ours == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        if step < 52:
            peer.step()


def test_the_loss_of_no_number_is_none_and_of_a_huge_margin_finite():
    queries = Queries.from_arrays([[0.0], [1.0]], [0, 1])
    pair = np.array([0]), np.array([1]), np.ones(1, np.float32)
    batch = MiniBatch(queries, np.arange(2), *pair)
    trees = SoftTrees(1, committee=1, trees=1, depth=1)
    trees.weights["choices"][:] = 1
    trees.weights["log_steepness"][:] = 20
    trees.weights["leaves"][:] = [-1e6, 1e6]
    trees.weights["thresholds"][:] = 0.5
    assert 600 < TreeLearner(trees, 0.0, {}).loss(batch) < math.inf
    trees.weights["leaves"][:] = math.nan
    trees.weights_change()
    assert math.isnan(TreeLearner(trees, 0.0, {}).loss(batch))
    assert math.isnan(TreeLearner(trees, 0.0, {}).step(batch, 0.1, 0.0))


@pytest.mark.parametrize("n", [0, 1, 64, 511, 512, 513, 1300])
def test_a_mini_batch_in_ranges_has_the_loss_and_the_gradients_of_the_plain_formula(n):
    rng = np.random.default_rng(n)
    queries = Queries.from_arrays(rng.normal(size=(1300, 3)), group=[1300])
    trees = SoftTrees(3, committee=2, trees=2, depth=3, seed=1)
    m = 4 * n
    winner, loser = rng.integers(0, max(n, 1), (2, m))
    batch = MiniBatch(queries, np.arange(n), winner, loser, rng.random(m).astype(np.float32))
    loss, gradients = TreeLearner(trees, 0.0, {})._gradients(batch)
    peer = TorchTrees(trees)
    scores = peer(torch.from_numpy(batch.x), 1.0)
    margins = scores[torch.from_numpy(winner)] - scores[torch.from_numpy(loser)]
    expected = torch.from_numpy(batch.weight) @ torch.nn.functional.softplus(-margins).mean(1)
    assert loss == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
    expected.backward()
    for name, weight in peer.named_parameters():
        scale = max(1, float(weight.grad.abs().max()))
        np.testing.assert_allclose(gradients[name], weight.grad.numpy(), atol=1e-4 * scale)


def test_inputs_are_products_of_features_and_shares():
    X, chosen = np.random.default_rng(0).normal(size=(2, 70, 70)).astype(np.float32)
    np.testing.assert_allclose(inputs_of(X, chosen), X @ chosen, rtol=1e-4, atol=1e-4)


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


@given(nets, st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_margins_have_gradients_in_the_features(net, seed):
    x, y = np.random.default_rng(seed).normal(size=(2, 5, 3))
    margin = net.differentiable()
    margins, *gradients = margin(x, y)
    expected = [
        np.mean([slow_score(net, a, h) - slow_score(net, b, h) for h in range(net.committee)])
        for a, b in zip(x, y, strict=True)
    ]
    np.testing.assert_allclose(margins, expected, rtol=1e-9, atol=1e-12)
    for feature in range(3):
        step = 1e-5 * np.eye(3)[feature]
        for gradient, (up, down) in zip(
            gradients, (((x + step, y), (x - step, y)), ((x, y + step), (x, y - step))), strict=True
        ):
            slope = (margin(*up)[0] - margin(*down)[0]) / 2e-5
            np.testing.assert_allclose(gradient[:, feature], slope, rtol=1e-5, atol=1e-8)


def test_a_copy_learns_by_itself_and_documents_of_another_width_are_refused():
    trees = SoftTrees(3, committee=2, trees=2, depth=2)
    other = copy.deepcopy(trees)
    (batch,) = batches_of(bumps(1), 1, seed=0)
    TreeLearner(other, 0.01, {}).step(batch, 0.1, 0.5)
    assert trees.sharpness == 1
    for name, weight in SoftTrees(3, committee=2, trees=2, depth=2).weights.items():
        np.testing.assert_array_equal(trees.weights[name], weight)
        assert (other.weights[name] != weight).any()
    with pytest.raises(ComparatorError, match="takes 3 features, the data has 4"):
        trees.prepare(np.zeros((1, 4), np.float32))


RUN = """
import sys
from cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0, end.code
print("torch" in sys.modules, file=sys.stderr)
"""
COMMANDS = {
    "train": ["train", "train.txt", "test.txt", "--out", "n", "--max-iter", "2"],
    "rank": ["rank", "m", "test.txt"],
    "evaluate": ["evaluate", "m", "test.txt"],
    "importance": ["importance", "m", "test.txt", "--repeats", "1"],
    "explain": ["explain", "m", "test.txt", "row:0", "row:1"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_process_that_learns_or_ranks_by_trees_loads_no_torch(command, tmp_path):
    queries = bumps(0, n=6)
    fit(queries, queries, Config(scaling="normal", committee=2, max_iter=1)).save(tmp_path / "m")
    write_letor(queries, tmp_path / "train.txt")
    write_letor(bumps(1, n=6), tmp_path / "test.txt")
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *COMMANDS[command]],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines()[-1] == "False" and ran.stdout


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
