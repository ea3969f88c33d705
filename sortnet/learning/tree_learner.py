"""TreeLearner: training steps of soft trees by numpy and compiled code, without torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortnet.comparators.soft_trees import SoftTrees, inputs_of
from sortnet.comparators.tree_kernels import (
    LANES,
    add_losses,
    blocks_of,
    fill_gradients,
    fill_scores,
    update_weights,
)
from sortnet.core import F32, F64, Array
from sortnet.core.shard import ALONE, Group, summed
from sortnet.learning.mini_batches import MiniBatch
from sortnet.threads import side_by_side

_OF_A_THREAD = 8 * LANES  # documents of a mini-batch that a thread computes together
_LARGEST = 350.0  # exp of such a score and of its negative stay within a float64


class TreeLearner:
    """Soft trees and the state of AdamW, which changes their weights in each step.

    The loss of a pair is log(1 + exp(-margin)), averaged over the heads. It uses each head's own
    margin: with a loss of the mean margin the heads would become alike.

    Args:
        trees: the trees, which are trained in place.
        weight_decay: the decay of AdamW, apart from the gradient (Loshchilov and Hutter 2019).
        moments: the result of `moments` of an earlier learner, to continue its training.
        group: the processes that share the training.
    """

    def __init__(
        self,
        trees: SoftTrees,
        weight_decay: float,
        moments: Mapping[str, Array],
        group: Group = ALONE,
    ) -> None:
        """Copy the moments; without moments all are 0, as before the first step."""
        self._group = group
        self._trees = trees
        self._weight_decay = np.float32(weight_decay)
        self._n_steps = int(moments.get("step", 0))
        self._means = {}
        self._squares = {}
        for name, weight in trees.weights.items():
            zeros = np.zeros_like(weight)
            self._means[name] = moments.get(f"{name}:mean", zeros).copy()
            self._squares[name] = moments.get(f"{name}:square", zeros).copy()
        self._sides = np.empty((0, len(trees.weights["thresholds"]), LANES), np.float32)

    def moments(self) -> dict[str, Array]:
        """Copy the state of AdamW: the number of steps, and the two moments of each weight."""
        moments: dict[str, Array] = {"step": np.array(self._n_steps, np.int64)}
        for name in self._trees.weights:
            moments[f"{name}:mean"] = self._means[name].copy()
            moments[f"{name}:square"] = self._squares[name].copy()
        return moments

    def step(self, batch: MiniBatch, rate: float, share: float) -> float:
        """Change the weights by the gradient of a mini-batch's loss; return the loss before.

        If several processes train the trees, each has a share of the mini-batch, and the gradients
        and the losses are added up over all processes.

        Args:
            batch: the mini-batch.
            rate: the learning rate.
            share: the share of the training's steps that are done, 0 to 1.
        """
        self._trees.weights_change()
        self._trees.anneal(share)
        loss, gradients = self._gradients(batch)
        if self._group.size > 1:
            arrays = [np.array(loss, np.float32), *gradients.values()]
            total_loss, *sums = summed(self._group, arrays)
            loss = float(total_loss)
            gradients = dict(zip(gradients, sums, strict=True))
        self._n_steps += 1
        for name, gradient in gradients.items():
            update_weights(
                self._trees.weights[name].reshape(-1),
                gradient.reshape(-1),
                self._means[name].reshape(-1),
                self._squares[name].reshape(-1),
                np.float32(rate),
                self._weight_decay,
                self._n_steps,
            )
        return loss

    def loss(self, batch: MiniBatch) -> float:
        """Compute the loss of this process's share of a mini-batch."""
        exp_scores = _exp_scores(self._trees.prepare(batch.x))
        return _add_losses(exp_scores, batch, np.zeros_like(exp_scores))

    def _gradients(self, batch: MiniBatch) -> tuple[float, dict[str, F32]]:
        """Compute the loss of this process's share of a mini-batch, and its gradients by name.

        With scale = exp(log_steepness) / 2 and shift = -thresholds * scale, the chain rule turns
        the gradients in scale and shift into gradients in thresholds and log_steepness. A gradient
        g in the softmax s = softmax(k c) becomes k s (g - Σ s g) in the choices c.
        """
        trees = self._trees
        leaves = trees.weights["leaves"]
        chosen = trees.chosen()
        scale, shift = trees.half_logits()
        n_docs = len(batch.docs)
        ranges = [
            slice(start, min(start + _OF_A_THREAD, n_docs))
            for start in range(0, max(n_docs, 1), _OF_A_THREAD)
        ]
        n_blocks = blocks_of(n_docs)
        if n_blocks > len(self._sides):  # the array is used again, since a new one costs time
            self._sides = np.empty((n_blocks, *self._sides.shape[1:]), np.float32)
        X = np.empty((n_docs, len(chosen)), np.float32)
        inputs = np.empty((n_docs, chosen.shape[1]), np.float32)
        scores = np.empty((n_docs, trees.committee), np.float32)

        def score(docs: slice) -> None:
            """Read the features of a range of documents, and compute their scores."""
            X[docs] = batch.queries.features_of(batch.docs[docs])
            inputs[docs] = inputs_of(X[docs], chosen)
            sides = self._sides_of(docs)
            fill_scores(inputs[docs], scale, shift, leaves, sides, scores[docs])

        side_by_side(score, ranges)
        exp_scores = _exp_scores(scores)
        d_exact_scores = np.zeros_like(exp_scores)
        loss = _add_losses(exp_scores, batch, d_exact_scores)
        d_scores = d_exact_scores.astype(np.float32)
        # The gradients of each range are added up in the same order with any number of threads.
        n_ranges = len(ranges)
        d_scale, d_shift = np.zeros((2, n_ranges, *scale.shape), np.float32)
        d_leaves = np.zeros((n_ranges, *leaves.shape), np.float32)
        d_chosen = np.empty((n_ranges, *chosen.shape), np.float32)

        def backpropagate(number: int) -> None:
            """Compute the gradients of a range of documents."""
            docs = ranges[number]
            d_inputs = np.empty_like(inputs[docs])
            fill_gradients(
                inputs[docs], scale, leaves, self._sides_of(docs), d_scores[docs],
                d_inputs, d_scale[number], d_shift[number], d_leaves[number],
            )  # fmt: skip
            np.matmul(X[docs].T, d_inputs, out=d_chosen[number])

        side_by_side(backpropagate, range(n_ranges))
        d_thresholds = -scale * d_shift.sum(axis=0)
        d_shares = d_chosen.sum(axis=0)
        d_choices = d_shares - (chosen * d_shares).sum(axis=0)
        d_choices *= chosen
        d_choices *= np.float32(trees.sharpness)
        return loss, {
            "choices": d_choices,
            "thresholds": d_thresholds,
            "log_steepness": (
                scale * d_scale.sum(axis=0) + trees.weights["thresholds"] * d_thresholds
            ),
            "leaves": d_leaves.sum(axis=0),
        }

    def _sides_of(self, docs: slice) -> F32:
        """Return the blocks of `sides` of a range of documents, which begins with a block."""
        return self._sides[docs.start // LANES : blocks_of(docs.stop)]


def _exp_scores(scores: F32) -> F64:
    """Compute exp of scores, (n, heads); a score is limited so that the result is finite."""
    exact = scores.astype(np.float64)
    np.clip(exact, -_LARGEST, _LARGEST, out=exact)
    return np.exp(exact, out=exact)


def _add_losses(exp_scores: F64, batch: MiniBatch, d_scores: F64) -> float:
    """Sum the losses of a mini-batch's pairs, and add the gradients in the scores to `d_scores`.

    With e = exp(score) of a head, a pair (i, j) has the loss -log(e_i / (e_i + e_j)), and the slope
    of the loss is e_j / (e_i + e_j). So the compiled code needs one exponential for each document
    and head, and one logarithm for each pair.
    """
    n_heads = exp_scores.shape[1]
    weight_of_head = batch.weight.astype(np.float64) / n_heads
    return add_losses(exp_scores, batch.winner, batch.loser, weight_of_head, d_scores)
