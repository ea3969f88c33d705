"""DirectRanker over soft oblivious trees, several heads of them: the default comparator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from sortnet.comparators.base import NeuralComparator
from sortnet.comparators.forms import Score
from sortnet.comparators.products import product
from sortnet.comparators.tree_kernels import HeadLosses, LeafValues, leaf_values
from sortnet.threads import one_thread_an_operation
from sortnet.types.memory import refuse_too_large

_SHARPEST = 8.0  # the factor of the logits that choose features, at the end of a training
_SHARPENED = 0.7  # the share of a training in which it grows from 1
_STEEPNESS, _THRESHOLDS, _LEAVES = 2.0, 0.7, 0.05  # initial: a value, two standard deviations
_COPIES = 24  # bytes for each number: it, its gradient, Adam's moments, the softmax, its gradient
_COMPARED = ("prepare", "embed", "margin", "prefer", "score")  # what the compiled sort relies on


class SoftTrees(NeuralComparator):
    """r(x, y) = mean over heads of (g_h(x) - g_h(y)), with g_h the sum of a few soft trees.

    A split chooses its feature by a softmax c over all, and goes right with probability

        s = σ(a (x · softmax(k c) - t)),

    with steepness a and threshold t learned and k growing from 1 to 8 during a training, so that
    few features remain. All nodes of a level share a split (an oblivious tree); a leaf counts by
    the product of s or 1 - s on the way to it. These are the differentiable trees of Köppel et al.
    2025, RankNet revisited, in the form of NODE (Popov, Morozov and Babenko 2019, 1909.06312).

    It is a DirectRanker whose feature part is the trees, so antisymmetric and transitive, and a
    committee too: each head learns by its own loss, and their spread says how sure they are.

    Args:
        n_features: d, of a document.
        committee: H, heads that are trained at once.
        trees: of a head.
        depth: splits on the way to a leaf.
        seed: of the initial weights.

    Raises:
        ComparatorError: if the splits would not fit into memory.

    >>> import numpy as np
    >>> net = SoftTrees(2, committee=3, seed=1)
    >>> g = net.prepare(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32))
    >>> g.shape, float(net.prefer(g, [0], [2])[0])
    (torch.Size([3, 3]), 0.0)

    Cost: O(H trees (d depth + 2^depth)) a document, O(H) a comparison.
    """

    sharpness: Tensor

    def __init__(
        self, n_features: int, *, committee: int = 8, trees: int = 8, depth: int = 6, seed: int = 0
    ) -> None:
        super().__init__()
        self.n_features, self.seed = n_features, seed
        self.committee, self.trees, self.depth = committee, trees, depth
        self.generator = torch.Generator().manual_seed(seed)
        splits, leaves = committee * trees * depth, committee * trees << depth
        refuse_too_large(
            _COPIES * (n_features * splits + leaves),
            f"{splits:,} splits over {n_features:,} features",
        )

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=self.generator)

        self.choices = nn.Parameter(normal(n_features, splits))
        self.thresholds = nn.Parameter(_THRESHOLDS * normal(splits))
        self.log_steepness = nn.Parameter(torch.full((splits,), math.log(_STEEPNESS)))
        self.leaves = nn.Parameter(_LEAVES * normal(committee * trees, 1 << depth))
        self.register_buffer("sharpness", torch.ones(()))

    def config(self) -> dict[str, Any]:
        names = ("n_features", "committee", "trees", "depth", "seed")
        return {name: getattr(self, name) for name in names}

    def anneal(self, share: float) -> None:
        # A training that goes on from learned weights does not blur them again.
        now = 1 + (_SHARPEST - 1) * min(1.0, share / _SHARPENED)
        self.sharpness.fill_(max(now, float(self.sharpness)))

    def feature_shares(self) -> Tensor:
        """(d,) the share of all splits that each column has, by the softmax; they sum to 1."""
        return self._chosen().detach().mean(dim=1)

    def _chosen(self) -> Tensor:
        with one_thread_an_operation():  # torch's softmax is rounded as threads divide it
            return torch.softmax(self.sharpness * self.choices, dim=0)

    def embed(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, H), the scores g_h."""
        steepness = self.log_steepness.exp() / 2
        seen = product(x, self._chosen()).to(self.leaves.dtype)
        half = torch.addcmul(-self.thresholds * steepness, seen, steepness)
        half = half.view(len(x), self.committee, self.trees, self.depth)
        if half.device.type != "cpu":
            return leaf_values((1 + half.tanh()) / 2, self.leaves)
        return LeafValues.apply(half, self.leaves)  # type: ignore[no-any-return,no-untyped-call]

    def score(self, prepared: Tensor) -> Tensor:
        total = prepared[:, 0]
        for of_head in prepared.unbind(1)[1:]:  # a sum along rows may be rounded by their places
            total = total + of_head
        return total / self.committee

    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        return self.score(e_i) - self.score(e_j)

    def votes(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        return (e_i - e_j).T

    def kernel(self) -> Score | None:
        if not self._compares_as(SoftTrees, _COMPARED):
            return None
        return Score(lambda X: self.score(self.prepare(X))[:, None], "identity", lambda z: z)

    def loss(self, e_winner: Tensor, e_loser: Tensor) -> Tensor:
        """The mean over heads of (1 - margin)^2."""
        return ((1 - (e_winner - e_loser)) ** 2).mean(dim=1)

    def logistic_loss(
        self, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor
    ) -> Tensor:
        """The mean over heads of each one's loss: were they to share one, they would be alike."""
        if embedded.device.type != "cpu":
            losses = nn.functional.softplus(embedded[loser] - embedded[winner]).mean(dim=1)
            return weight @ losses
        total = HeadLosses.apply(embedded, winner, loser, weight)  # type: ignore[no-untyped-call]
        return total / self.committee  # type: ignore[no-any-return]
