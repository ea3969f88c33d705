"""Training budget of a run: a number of optimiser steps, fixed before the first iteration.

With `start="warm"` each training continues from the weights of the training before. Then the
iterations of a run share one budget, with one cycle of the learning rate, one sharpening of the
splits of soft trees, and one state of the optimiser.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, cos, pi

import numpy as np

from sortnet.config import Config, Training
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.learning.mini_batches import pairs_in_epoch

STEPS = 32  # least number of steps of an epoch, if the settings name no batch size
LARGEST_BATCH = 8192  # largest default batch size, in pairs
SMALLEST_BATCH = 32  # smallest default batch size, in pairs
# By default, a run has enough epochs to make at least `_ALL_STEPS` steps and to embed at least
# `_VISITS` documents, each document once an epoch. It has at least `_FEWEST_EPOCHS` epochs.
_VISITS = 200_000
_ALL_STEPS = 320
_FEWEST_EPOCHS = 3
MOST_PAIRS = 1 << 21  # largest number of pairs of an epoch, about the size of TP for large data
MOST_OF_RUN = 20  # largest default number of epochs of all iterations of a run together
# The one cycle of the learning rate: it rises in the share `_RISING` of the steps from the highest
# rate / `_FIRST_RATE`, and ends at the first rate / `_LAST_RATE`.
_RISING = 0.3
_FIRST_RATE = 25.0
_LAST_RATE = 10_000.0
MOST_OF_TRAINING = 60  # largest default number of epochs of a training by itself


@dataclass(frozen=True)
class Share:
    """Range of the steps of a budget that one training makes.

    Attributes:
        first, end: the training makes the steps first .. end - 1.
        total: the number of steps of the whole budget, which the learning rate's schedule needs.
        epoch: the number of steps of an epoch.
    """

    first: int
    end: int
    total: int
    epoch: int

    @property
    def epochs(self) -> float:
        """The number of epochs that the training makes."""
        return (self.end - self.first) / self.epoch


@dataclass(frozen=True)
class Budget:
    """Budget of a run: the number of steps of all its trainings together.

    Attributes:
        steps: the number of steps of all trainings together.
        iterations: the number of trainings.
        epoch: the number of steps of an epoch.

    >>> budget = Budget(steps=100, iterations=3, epoch=16)
    >>> [budget.share(i).end for i in range(3)]
    [33, 66, 100]
    """

    steps: int
    iterations: int
    epoch: int

    def share(self, iteration: int) -> Share:
        """Return the steps of the training in an iteration; iterations count from 0."""
        first = self.steps * iteration // self.iterations
        end = self.steps * (iteration + 1) // self.iterations
        return Share(first, end, self.steps, self.epoch)

    @classmethod
    def of(cls, train: Queries, config: Config) -> Budget:
        """Compute the budget of a run from the sizes of its training queries and its settings.

        With `start="warm"` an iteration has at least one epoch, so that few epochs make few
        iterations.

        Raises:
            DataError: if the settings choose among the epochs of a training, while the run divides
                one training among its iterations.
        """
        settings = config.training
        if config.divides_one_training:
            _refuse_choice_of_epochs(settings)
        sizes = train.sizes
        n_pairs = pairs_in_epoch(sizes * (sizes - 1) // 2, sizes, settings.query_pairs)
        epoch_pairs = min(int(n_pairs.sum()), MOST_PAIRS)
        epoch_steps = steps_of_epoch(epoch_pairs, settings)
        n_epochs = settings.epochs
        if n_epochs is None:
            n_epochs = default_epochs(int(sizes.sum()), epoch_steps, most=MOST_OF_RUN)
        iterations = config.trainings
        if config.start == "warm":
            iterations = min(iterations, n_epochs)
        return cls(n_epochs * epoch_steps, iterations, epoch_steps)


def _refuse_choice_of_epochs(settings: Training) -> None:
    """Raise DataError if settings choose an epoch, but all iterations share a single training."""
    if settings.keep == "loss":
        name = "keep=loss"
    elif settings.patience is not None:
        name = "patience"
    else:
        return
    raise DataError(
        f"{name} chooses among the epochs of a training, and with start=warm one training is "
        "divided among the iterations: give start=fresh, or max_iter=1"
    )


def whole_training(n_pairs: int, n_docs: int, settings: Training) -> Share:
    """Compute the steps of a training by itself.

    Args:
        n_pairs: the number of pairs of an epoch.
        n_docs: the number of training documents.
        settings: the settings of the training.
    """
    epoch = steps_of_epoch(n_pairs, settings)
    n_epochs = settings.epochs
    if n_epochs is None:
        n_epochs = default_epochs(n_docs, epoch, most=MOST_OF_TRAINING)
    return Share(0, n_epochs * epoch, n_epochs * epoch, epoch)


def learning_rate(settings: Training, step: int, share: Share) -> float:
    """Compute the learning rate of a step, which depends on its place in the whole budget.

    With the schedule `one-cycle` the rate rises in the first 30 % of the steps from a 25th of
    `settings.lr`, and then falls to a 250,000th of it, both as half a wave of the cosine (Smith and
    Topin 2018, Super-convergence; the defaults of torch's OneCycleLR). With the schedule `steps` it
    is multiplied by `lr_decay` after every `lr_decay_epochs` epochs.

    Args:
        settings: the settings of the training.
        step: the number of the step in the budget, from 0.
        share: a share of the budget.
    """
    if settings.schedule == "steps":
        n_decays = step // (settings.lr_decay_epochs * share.epoch)
        return float(settings.lr * settings.lr_decay**n_decays)
    first_rate = settings.lr / _FIRST_RATE
    top = _RISING * share.total - 1  # the step with the highest rate
    last = share.total - 1
    if step <= top:
        return _between(first_rate, settings.lr, step / top)
    return _between(settings.lr, first_rate / _LAST_RATE, (step - top) / (last - top))


def _between(start: float, end: float, share: float) -> float:
    """Go from `start` to `end` by half a wave of the cosine; `share` is from 0 to 1."""
    return end + (start - end) * (1 + cos(pi * share)) / 2


def batch_size(epoch_pairs: int, settings: Training) -> int:
    """Return the number of pairs of a mini-batch, in an epoch of `epoch_pairs` pairs."""
    if settings.batch_size is not None:
        return settings.batch_size
    return int(np.clip(epoch_pairs // STEPS, SMALLEST_BATCH, LARGEST_BATCH))


def steps_of_epoch(epoch_pairs: int, settings: Training) -> int:
    """Compute the number of steps of an epoch: whole passes over its pairs, about 32 steps or more.

    An epoch of few pairs passes over them several times, since a single pass would make too few
    steps to learn from. If the settings name a batch size, an epoch is a single pass.
    """
    steps_of_pass = max(1, ceil(epoch_pairs / batch_size(epoch_pairs, settings)))
    n_passes = 1 if settings.batch_size is not None else max(1, STEPS // steps_of_pass)
    return steps_of_pass * n_passes


def default_epochs(n_docs: int, epoch: int, most: int) -> int:
    """Compute the default number of epochs, from 3 to `most`; small data get more epochs.

    Args:
        n_docs: the number of training documents.
        epoch: the number of steps of an epoch.
        most: the largest number of epochs.

    >>> default_epochs(100, 16, most=30), default_epochs(1_000_000, 1000, most=30)
    (30, 3)
    """
    epochs = max(_VISITS / max(n_docs, 1), _ALL_STEPS / epoch)
    return int(np.clip(epochs, _FEWEST_EPOCHS, most))
