"""Soft oblivious trees: their formula, gradients and training steps, without torch."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet import write_letor
from sortnet.comparators import SoftTrees
from sortnet.config import Config, Training
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.explanation.columns import permutation_importance
from sortnet.learning.mini_batches import MiniBatch
from sortnet.learning.step_budget import Share, learning_rate
from sortnet.learning.tree_learner import TreeLearner
from sortnet.rankers.sortnet import fit

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


@given(nets, documents, st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_a_head_s_score_is_the_sum_of_its_trees_leaves(net, X, share):
    net.prepare(X)
    net.weights_change()
    net.anneal(share)
    g = net.prepare(X)
    expected = TorchTrees(net).double()(torch.from_numpy(X).double(), net.sharpness).detach()
    np.testing.assert_allclose(g, expected, atol=1e-5)
    apart = (expected[0] - expected[1]).numpy()
    assert net.prefer(net.prepare(X), [0], [1]) == pytest.approx([apart.mean()], abs=1e-5)
    votes = [each["margin"] for each in net.verdicts(net.prepare(X), 0, 1)]
    np.testing.assert_allclose(votes, apart, atol=1e-5)


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


def test_the_loss_of_no_number_is_none_and_of_a_huge_margin_finite():
    queries = Queries.from_arrays([[0.0], [1.0]], [0, 1])
    pair = np.array([0]), np.array([1]), np.ones(1, np.float32)
    batch = MiniBatch(queries, np.arange(2), *pair)
    trees = SoftTrees(1, committee=1, trees=1, depth=1)
    trees.weights["log_steepness"][:] = 20
    trees.weights["leaves"][:] = [-1e6, 1e6]
    trees.weights["thresholds"][:] = 0.5
    assert 600 < TreeLearner(trees, 0.0, {}).loss(batch) < math.inf
    trees.weights["leaves"][:] = math.nan
    assert math.isnan(TreeLearner(trees, 0.0, {}).step(batch, 0.1, 0.0))


@pytest.mark.parametrize(("n", "depth"), [(0, 3), (1, 1), (64, 2), (511, 5), (513, 6), (1300, 8)])
def test_a_mini_batch_in_ranges_has_the_loss_and_the_gradients_of_the_plain_formula(n, depth):
    rng = np.random.default_rng(n)
    queries = Queries.from_arrays(rng.normal(size=(1300, 3)), group=[1300])
    trees = SoftTrees(3, committee=2, trees=2, depth=depth, seed=1)
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


def bumps(seed: int, n: int = 30) -> Queries:
    X = np.random.default_rng(seed).random((n * 12, 3)).astype(np.float32)
    return Queries.from_arrays(X, ((X[:, 0] > 0.4) ^ (X[:, 1] > 0.6)) + 0, group=[12] * n)


def test_steps_and_an_exclusive_or_are_learned_and_the_splits_tell_the_features():
    model = fit(bumps(0), bumps(1), Config(scaling="normal", committee=3))
    assert model.info["quality"] > 0.95
    shares = permutation_importance(model, bumps(2), repeats=1).splits
    assert shares[2] < min(shares[:2]) and shares.sum() == pytest.approx(1)


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
