"""Learner: a net and its optimiser, which make training steps; the same for trees and nets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat

from numpy.typing import NDArray

from sortnet.comparators.soft_trees import SoftTrees
from sortnet.config import Training
from sortnet.core.shard import ALONE, Group
from sortnet.learning.mini_batches import MiniBatch
from sortnet.learning.tree_learner import TreeLearner

if TYPE_CHECKING:
    from sortnet.comparators import Trainable


class Learner(Protocol):
    """A net in training, with the state of its optimiser."""

    def step(self, batch: MiniBatch, rate: float, share: float) -> SupportsFloat:
        """Change the weights by the gradient of a mini-batch's loss; return the loss before.

        Args:
            batch: the mini-batch.
            rate: the learning rate.
            share: the share of the training's steps that are done, 0 to 1.
        """
        ...

    def loss(self, batch: MiniBatch) -> float:
        """Compute the loss of this process's share of a mini-batch, without dropout."""
        ...

    def moments(self) -> dict[str, NDArray[Any]]:
        """Copy the state of the optimiser, from which another learner can continue."""
        ...


def learner_of(
    net: Trainable,
    settings: Training,
    moments: Mapping[str, NDArray[Any]],
    group: Group = ALONE,
) -> Learner:
    """Make the learner of soft trees, or of a net of torch.

    Args:
        net: the comparator, which is trained in place.
        settings: the settings of the training.
        moments: the result of `Learner.moments` of an earlier training to continue, or nothing.
        group: the processes that share the training.
    """
    if isinstance(net, SoftTrees):
        return TreeLearner(net, settings.fixed_weight_decay, moments, group)
    from sortnet.learning.net_learner import NetLearner  # imports torch

    return NetLearner(net, settings, moments, group)
