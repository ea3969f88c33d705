"""DirectRanker over soft oblivious trees, several heads of them: the default comparator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, nn

from sortnet.comparators.base import NeuralComparator, product
from sortnet.comparators.forms import Score
from sortnet.threads import one_thread_an_operation
from sortnet.types import F64, I64
from sortnet.types.memory import refuse_too_large

_SHARPEST = 8.0  # the factor of the logits that choose features, at the end of a training
_SHARPENED = 0.7  # the share of a training in which it grows from 1
_STEEPNESS, _THRESHOLDS, _LEAVES = 2.0, 0.7, 0.05  # initial: a value, two standard deviations
_COPIES = 24  # bytes for each number: it, its gradient, Adam's moments, the softmax, its gradient
Floats = NDArray[np.floating[Any]]

_LANES = 64  # documents that go down a tree side by side, always as many: so equal ones stay equal
_LARGEST = 350.0  # exp of a score and of its negative stay within a float64
_FAST = {"reassoc", "contract", "arcp"}  # sums are reordered; NaN stays NaN, which ends a training
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


def leaf_values(right: Tensor, leaves: Tensor) -> Tensor:
    """(n, H, T, depth) probabilities of the right sides, (H T, 2^depth) -> (n, H) sums over trees.

    >>> leaf_values(torch.tensor([[[[0.25, 1.0]]]]), torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[2.5000]])
    """
    values = leaves.view(1, *right.shape[1:3], -1)
    for s in right.unbind(3):
        left_half, right_half = values.chunk(2, dim=3)
        values = left_half + s[..., None] * (right_half - left_half)
    return values[..., 0].sum(dim=2)


class LeafValues(torch.autograd.Function):
    """(n, H, T, depth) half logits z / 2 -> `leaf_values` of σ(z), compiled: about eight times as
    fast as torch's operations.

    σ(z) = (1 + tanh(z / 2)) / 2, as torch's own σ rounds the last numbers of a thread differently.
    """

    @staticmethod
    def forward(ctx: Any, half: Tensor, leaves: Tensor) -> Tensor:
        turns = torch.tanh(half)
        ctx.save_for_backward(turns, leaves)
        out = half.new_zeros(half.shape[:2])
        _forward(turns.numpy(), leaves.numpy(), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        turns, leaves = ctx.saved_tensors
        d_half, d_leaves = torch.empty_like(turns), torch.zeros_like(leaves)
        arrays = (turns, leaves, grads[0].contiguous(), d_half, d_leaves)
        _backward(*(tensor.detach().numpy() for tensor in arrays))
        return d_half, d_leaves


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _forward(turns: Floats, leaves: Floats, out: Floats) -> None:
    n, heads, trees, depth = turns.shape
    s = np.zeros((depth, _LANES), turns.dtype)
    v = np.empty((leaves.shape[1] // 2, _LANES), turns.dtype)
    for first in range(0, n, _LANES):
        here = min(_LANES, n - first)
        for tree in range(heads * trees):
            head, own = tree // trees, tree % trees
            _fill_sides(turns[first : first + here, head, own], s)
            half = leaves.shape[1] // 2
            for a in range(half):
                low, step = leaves[tree, a], leaves[tree, a + half] - leaves[tree, a]
                for k in range(_LANES):
                    v[a, k] = low + s[0, k] * step
            for level in range(1, depth):
                half //= 2
                for a in range(half):
                    for k in range(_LANES):
                        v[a, k] += s[level, k] * (v[a + half, k] - v[a, k])
            for k in range(here):
                out[first + k, head] += v[0, k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _backward(
    turns: Floats, leaves: Floats, d_out: Floats, d_half: Floats, d_leaves: Floats
) -> None:
    n, heads, trees, depth = turns.shape
    width = leaves.shape[1]
    s = np.zeros((depth, _LANES), turns.dtype)
    v = np.empty((width, _LANES), turns.dtype)  # values of the nodes, level by level
    g = np.zeros((width, _LANES), turns.dtype)  # the gradient of a level's nodes
    d_s = np.empty((depth, _LANES), turns.dtype)
    for first in range(0, n, _LANES):
        here = min(_LANES, n - first)
        for tree in range(heads * trees):
            head, own = tree // trees, tree % trees
            _fill_sides(turns[first : first + here, head, own], s)
            g[0] = 0
            for k in range(here):
                g[0, k] = d_out[first + k, head]
            _fill_nodes(s, leaves[tree], v)
            _fill_slopes(s, leaves[tree], v, g, d_s)
            for level in range(depth):
                for k in range(_LANES):
                    slope = s[level, k] - s[level, k] * s[level, k]
                    d_s[level, k] *= slope + slope
            for k in range(here):
                for level in range(depth):
                    d_half[first + k, head, own, level] = d_s[level, k]
            for a in range(width):
                d_leaves[tree, a] += g[a].sum()


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_sides(turns: Floats, s: Floats) -> None:
    """The probabilities of the right sides, (depth, documents)."""
    half = s.dtype.type(0.5)  # no whole number, with which a float32 is a float64
    for k in range(len(turns)):
        for level in range(len(s)):
            s[level, k] = half * turns[k, level] + half


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_nodes(s: Floats, leaves: Floats, v: Floats) -> None:
    """The values of all nodes above the leaves, those of the lowest level first."""
    half, at = len(leaves) // 2, 0
    for a in range(half):
        low, step = leaves[a], leaves[a + half] - leaves[a]
        for k in range(_LANES):
            v[a, k] = low + s[0, k] * step
    for level in range(1, len(s)):
        below, at = at, at + half
        half //= 2
        for a in range(half):
            low_values, high_values, node = v[below + a], v[below + a + half], v[at + a]
            for k in range(_LANES):
                node[k] = low_values[k] + s[level, k] * (high_values[k] - low_values[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_slopes(s: Floats, leaves: Floats, v: Floats, g: Floats, d_s: Floats) -> None:
    """The gradients of the splits, and in `g`, which begins with the root's, of the leaves."""
    half, at = 1, len(leaves) - 2  # where the root stands in v
    for level in range(len(s) - 1, -1, -1):
        at -= 2 * half
        d_s[level] = 0
        for a in range(half):
            if level:
                for k in range(_LANES):
                    d_s[level, k] += g[a, k] * (v[at + a + half, k] - v[at + a, k])
            else:
                step = leaves[a + half] - leaves[a]
                for k in range(_LANES):
                    d_s[level, k] += g[a, k] * step
            for k in range(_LANES):
                g[a + half, k] = g[a, k] * s[level, k]
            for k in range(_LANES):
                g[a, k] -= g[a + half, k]
        half *= 2


class HeadLosses(torch.autograd.Function):
    """The sum over heads and pairs of weight * log(1 + exp(-margin)), of each head's own margin.

    With e = exp(g) the loss of a pair is -log(e_i / (e_i + e_j)) and its slope e_j / (e_i + e_j):
    an exponential for each document and head, and one logarithm for each pair.
    """

    @staticmethod
    def forward(
        ctx: Any, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor
    ) -> Tensor:
        """(n, H), (m,) document numbers and weights -> the loss, ()."""
        e = embedded.double().clamp(-_LARGEST, _LARGEST).exp_().numpy()
        d = np.zeros_like(e)
        total = _losses(e, winner.numpy(), loser.numpy(), weight.double().numpy(), d)
        ctx.gradient = torch.from_numpy(d).to(embedded.dtype)
        return torch.tensor(total, dtype=embedded.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0] * ctx.gradient, None, None, None


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _losses(e: F64, winner: I64, loser: I64, weight: F64, d: F64) -> float:
    total = 0.0
    for k in range(len(winner)):
        i, j = winner[k], loser[k]
        for head in range(e.shape[1]):
            right = e[i, head] / (e[i, head] + e[j, head])
            total -= weight[k] * np.log(right)
            slope = weight[k] * (1.0 - right)
            d[i, head] -= slope
            d[j, head] += slope
    return total
