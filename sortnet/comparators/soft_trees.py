"""SoftTrees, the default comparator: several heads, each a sum of soft oblivious trees."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sortnet.comparators.base import NeuralComparator, product
from sortnet.comparators.fitted_trees import FittedTrees
from sortnet.comparators.forms import Score
from sortnet.comparators.tree_kernels import (
    LANES,
    Floats,
    add_losses,
    blocks_of,
    fill_gradients,
    fill_scores,
)
from sortnet.core import F32, F64
from sortnet.core.memory import refuse_too_large
from sortnet.threads import one_thread_an_operation

_SHARPEST = 8.0  # sharpness of the choice of features at the end of a training
_SHARPENED = 0.7  # share of a training in which the sharpness grows from 1
_STEEPNESS = 2.0  # initial steepness of all splits
_THRESHOLDS = 0.7  # standard deviation of the initial thresholds
_LEAVES = 0.05  # standard deviation of the initial values of leaves
# Bytes for each weight: the weight, its gradient, Adam's two moments, the softmax and its gradient.
_BYTES_A_WEIGHT = 24
_LARGEST = 350.0  # exp of such a score and of its negative stay within a float64
# The compiled sort is not used for a subclass that overrides one of these methods.
_COMPILED = ("prepare", "embed", "margin", "prefer", "score")


class SoftTrees(NeuralComparator):
    """Comparator by several heads, each a sum of soft trees that gives a document a score.

    The margin of x over y is the mean of g_h(x) - g_h(y) over the heads h with the scores g_h. A
    document x goes right at a split with probability

        s = σ(a (x · softmax(k c) - t)),

    where the choices c, the steepness a and the threshold t are learned. The softmax chooses the
    features of the split. The sharpness k grows from 1 to 8 during a training, so that few features
    remain. All nodes of a level of a tree share a split (an oblivious tree). The value of a leaf is
    weighted with the product of s or 1 - s on the path to the leaf. These are the differentiable
    trees of Köppel et al. 2025, RankNet revisited, in the form of NODE (Popov, Morozov and Babenko
    2019, 1909.06312).

    The comparator is a DirectRanker whose feature part is the trees, so it is antisymmetric and
    transitive. It is also a committee: each head learns by its own loss, and the spread of the
    heads tells how uncertain a margin is.

    Args:
        n_features: the number d of features of a document.
        committee: the number H of heads, which are trained together.
        trees: the number of trees of a head.
        depth: the number of splits on the path to a leaf.
        seed: the seed of the initial weights.

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
        """Draw the weights of all trees; raise DataError if they do not fit into memory."""
        super().__init__()
        self.n_features = n_features
        self.committee = committee
        self.trees = trees
        self.depth = depth
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)
        splits = committee * trees * depth
        leaves = committee * trees << depth
        refuse_too_large(
            _BYTES_A_WEIGHT * (n_features * splits + leaves),
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
        """Sharpen the choice of a feature at each split, when a `share` of the steps is done.

        The sharpness never falls, so that a training that starts from learned weights keeps their
        choices.
        """
        sharpness = 1 + (_SHARPEST - 1) * min(1.0, share / _SHARPENED)
        self.sharpness.fill_(max(sharpness, float(self.sharpness)))

    def fitted(self) -> FittedTrees:
        """Copy the weights to a comparator of numpy arrays, which ranks without torch."""
        weights = {}
        for name, weight in self.state_dict().items():
            weights[name] = weight.detach().cpu().numpy().copy()
        return FittedTrees(self.committee, weights)

    def feature_shares(self) -> F64:
        """Compute the mean share (d,) of each feature in all splits; the shares sum to 1."""
        return self.fitted().feature_shares()

    def _chosen(self) -> Tensor:
        """Compute the share (d, splits) of each feature in each split, by a softmax."""
        # The rounding of torch's softmax depends on how its threads divide the work.
        with one_thread_an_operation():
            return torch.softmax(self.sharpness * self.choices, dim=0)

    def embed(self, x: Tensor) -> Tensor:
        """Compute the score of each head, (n, H), of documents with the features x, (n, d)."""
        is_on_cpu = x.device.type == "cpu"
        if is_on_cpu and not torch.is_grad_enabled():  # as the trees of a saved model compute them
            return torch.from_numpy(self.fitted().prepare(x.numpy()))
        inputs = product(x, self._chosen()).to(self.leaves.dtype).contiguous()
        if is_on_cpu:  # by compiled code, which also computes the gradients
            scores = TreeScores.apply(  # type: ignore[no-untyped-call]
                inputs, self.thresholds, self.log_steepness, self.leaves, self.committee
            )
            return scores  # type: ignore[no-any-return]
        scale, shift = half_logits(self.thresholds, self.log_steepness)
        half_logit = torch.addcmul(shift, inputs, scale)
        half_logit = half_logit.view(len(x), self.committee, self.trees, self.depth)
        p_right = (1 + half_logit.tanh()) / 2
        return leaf_values(p_right, self.leaves)

    def score(self, prepared: Tensor) -> Tensor:
        """Average the heads' scores, (n, H), of prepared documents to one score each, (n,)."""
        with one_thread_an_operation():
            total = prepared[:, 0]
            # torch.mean may round equal rows differently, depending on their position.
            for head_scores in prepared.unbind(1)[1:]:
                total = total + head_scores
            return total / self.committee

    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        return self.score(e_i) - self.score(e_j)

    def votes(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        return (e_i - e_j).T

    def _threads_for(self, rows: int) -> AbstractContextManager[Any]:
        # `product` and the compiled trees divide their work among threads themselves.
        return one_thread_an_operation()

    def kernel(self) -> Score | None:
        """Describe the margin for the compiled sort by a score, the mean of the heads' scores.

        Return None if a subclass overrides a method that the compiled sort would replace.
        """
        if not self._compares_as(SoftTrees, _COMPILED):
            return None

        def scores(X: F32) -> F64:
            g: F64 = self.score(self.prepare(X)).cpu().double().numpy()
            return g

        return Score(scores, "identity", lambda z: z)

    def loss(self, e_winner: Tensor, e_loser: Tensor) -> Tensor:
        """Compute the mean over heads of (1 - margin)^2 of m pairs, (m,)."""
        return ((1 - (e_winner - e_loser)) ** 2).mean(dim=1)

    def logistic_loss(
        self, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor
    ) -> Tensor:
        """Sum weight * log(1 + exp(-margin)) over m pairs, averaged over the heads.

        The loss uses each head's own margin: with a loss of the mean margin the heads would become
        alike. See `NeuralComparator.logistic_loss` for the arguments.
        """
        if embedded.device.type != "cpu":
            losses = nn.functional.softplus(embedded[loser] - embedded[winner]).mean(dim=1)
            return weight @ losses
        loss = HeadLosses.apply(embedded, winner, loser, weight)  # type: ignore[no-untyped-call]
        return loss  # type: ignore[no-any-return]


def leaf_values(p_right: Tensor, leaves: Tensor) -> Tensor:
    """Compute each head's score of a document: the sum of the expected values of its trees.

    A head is a group of trees that has a score of its own. The expected value of a tree is the mean
    of its leaf values, weighted by the probability that the document reaches the leaf.

    Args:
        p_right: (n, H, T, depth) the probability that a document goes right at each level, of n
            documents and H heads of T trees.
        leaves: (H T, 2^depth) the values of the leaves.

    Returns:
        (n, H) the score of each head.

    >>> leaf_values(torch.tensor([[[[0.25, 1.0]]]]), torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[2.5000]])
    """
    n_heads, n_trees = p_right.shape[1:3]
    values = leaves.view(1, n_heads, n_trees, -1)
    # Each level halves the leaves: the left and the right half become their weighted mean.
    for p_right_of_level in p_right.unbind(3):
        left_half, right_half = values.chunk(2, dim=3)
        values = left_half + p_right_of_level[..., None] * (right_half - left_half)
    return values[..., 0].sum(dim=2)


class TreeScores(torch.autograd.Function):
    """Differentiable function of torch that computes the scores of soft trees by compiled code.

    The scores, (n, heads), are `leaf_values` of the probabilities σ(a (inputs - t)), where `inputs`
    (n, splits) are the numbers that the splits compare, t thresholds and a the steepness.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        thresholds: Tensor,
        log_steepness: Tensor,
        leaves: Tensor,
        heads: int,
    ) -> Tensor:
        """Compute scores, (n, heads), of documents with the split inputs `inputs`, (n, splits)."""
        scale, shift = half_logits(thresholds, log_steepness)
        sides = inputs.new_empty(blocks_of(len(inputs)), inputs.shape[1], LANES)
        out = inputs.new_empty(len(inputs), heads)
        fill_scores(*_arrays(inputs, scale, shift, leaves, sides, out))
        ctx.save_for_backward(inputs, thresholds, scale, leaves, sides)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients in the arguments of `forward`, given the gradient in the scores.

        With scale = exp(log_steepness) / 2 and shift = -thresholds * scale, the chain rule turns
        the gradients in scale and shift into gradients in thresholds and log_steepness.
        """
        inputs, thresholds, scale, leaves, sides = ctx.saved_tensors
        d_scores = grads[0].contiguous()
        d_inputs = torch.empty_like(inputs)
        d_leaves = torch.zeros_like(leaves)
        d_scale = torch.zeros_like(scale)
        d_shift = torch.zeros_like(scale)
        fill_gradients(
            *_arrays(inputs, scale, leaves, sides, d_scores, d_inputs, d_scale, d_shift, d_leaves)
        )
        d_thresholds = -scale * d_shift
        d_log_steepness = scale * d_scale + thresholds * d_thresholds
        return d_inputs, d_thresholds, d_log_steepness, d_leaves, None


def half_logits(thresholds: Tensor, log_steepness: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scale and the shift, (splits,), with which half a logit is scale * input + shift.

    The probability of going right at a split is σ(logit) = (1 + tanh(logit / 2)) / 2.
    """
    scale = log_steepness.exp() / 2
    return scale, -thresholds * scale


def _arrays(*tensors: Tensor) -> list[Floats]:
    """Return views of tensors as numpy arrays, for the compiled code."""
    return [tensor.detach().numpy() for tensor in tensors]


class HeadLosses(torch.autograd.Function):
    """Differentiable function of torch: weight * log(1 + exp(-margin)), summed over pairs.

    The loss is averaged over the heads. With e = exp(score) of a head, a pair (i, j) has the loss
    -log(e_i / (e_i + e_j)), and the slope of the loss is e_j / (e_i + e_j). So the compiled code
    needs one exponential for each document and head, and one logarithm for each pair.
    """

    @staticmethod
    def forward(
        ctx: Any, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor
    ) -> Tensor:
        """Compute the loss of m pairs of n documents.

        Args:
            ctx: the object of torch that keeps the gradient for `backward`.
            embedded: (n, H) the score of each document by each head.
            winner, loser: (m,) row numbers in `embedded`.
            weight: (m,) weights of the pairs.
        """
        exp_scores = embedded.double().clamp(-_LARGEST, _LARGEST).exp_().numpy()
        n_heads = exp_scores.shape[1]
        weight_of_head = weight.double() / n_heads
        d_scores = np.zeros_like(exp_scores)
        total = add_losses(
            exp_scores, winner.numpy(), loser.numpy(), weight_of_head.numpy(), d_scores
        )
        ctx.gradient = torch.from_numpy(d_scores).to(embedded.dtype)
        return torch.tensor(total, dtype=embedded.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0] * ctx.gradient, None, None, None
