"""Training budget of a run: a number of optimiser steps, fixed before the first iteration.

A run that begins each training from the last weights spends one budget over its iterations, with
one cycle of the learning rate, one sharpening of the splits and one state of the optimiser.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.config import Config, Training
from sortnet.core import Queries
from sortnet.core.shard import offsets_of_all
from sortnet.errors import DataError
from sortnet.learning.mini_batches import pairs_in_epoch

STEPS = 16  # least number of steps of an epoch, where the batch size is not given
LARGEST_BATCH = 8192  # pairs
SMALLEST_BATCH = 32
# If the number of epochs is not set, a run visits `_VISITS` documents or makes `_ALL_STEPS` steps,
# whichever takes more epochs, and has at least `_FEWEST_EPOCHS` epochs.
_VISITS = 300_000
_ALL_STEPS = 320
_FEWEST_EPOCHS = 3
MOST_PAIRS = 1 << 21  # pairs that an epoch draws at most, about the size of TP for large data
MOST_OF_RUN = 30  # epochs of a run of several iterations, at most
MOST_OF_TRAINING = 60  # epochs of a single training, at most


@dataclass(frozen=True)
class Share:
    """Steps that one training takes out of a budget.

    Attributes:
        first, end: the training makes the steps first .. end - 1.
        total: steps of the whole budget, which set the schedule.
        epoch: steps of an epoch.
    """

    first: int
    end: int
    total: int
    epoch: int

    @property
    def steps(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class Budget:
    """Budget of a run: the steps of all its trainings.

    Attributes:
        steps: steps of all trainings together.
        iterations: number of trainings.
        epoch: steps of an epoch.
        epoch_pairs: pairs that an epoch would draw from all pairs of T; at most `MOST_PAIRS`.

    >>> budget = Budget(steps=100, iterations=3, epoch=16, epoch_pairs=512)
    >>> [budget.share(i).steps for i in range(3)]
    [33, 33, 34]
    """

    steps: int
    iterations: int
    epoch: int
    epoch_pairs: int

    def share(self, iteration: int) -> Share:
        """Steps of the training after the sort of an iteration; iterations count from 0."""
        first = self.steps * iteration // self.iterations
        end = self.steps * (iteration + 1) // self.iterations
        return Share(first, end, self.steps, self.epoch)

    @classmethod
    def of(cls, train: Queries, config: Config) -> Budget:
        """Compute the budget of a run from the sizes of its training queries and its settings.

        An iteration that continues the training of the iteration before has at least one epoch, so
        few epochs make few iterations. Trainings that begin from random weights have a budget each.

        Raises:
            DataError: if the settings choose among the epochs of a training, while the run divides
                one training among its iterations.
        """
        settings = config.training
        if config.divides_one_training:
            _refuse_choice_of_epochs(settings)
        sizes = np.diff(offsets_of_all(train))
        n_pairs = pairs_in_epoch(sizes * (sizes - 1) // 2, sizes, settings.query_pairs)
        epoch_pairs = min(int(n_pairs.sum()), MOST_PAIRS)
        epoch = steps_of_epoch(epoch_pairs, settings)
        epochs = settings.epochs or default_epochs(int(sizes.sum()), epoch, MOST_OF_RUN)
        iterations = config.trainings
        if config.start == "warm":
            iterations = min(iterations, epochs)
        return cls(epochs * epoch, iterations, epoch, epoch_pairs)


def _refuse_choice_of_epochs(settings: Training) -> None:
    """Refuse settings that choose among the epochs of a training, if all iterations share one."""
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


def batch_size(epoch_pairs: int, settings: Training) -> int:
    """Number of pairs in a mini-batch, for an epoch of `epoch_pairs` pairs."""
    if settings.batch_size is not None:
        return settings.batch_size
    return int(np.clip(epoch_pairs // STEPS, SMALLEST_BATCH, LARGEST_BATCH))


def steps_of_epoch(epoch_pairs: int, settings: Training) -> int:
    """Number of steps of an epoch: whole passes over its pairs, and at least about `STEPS` steps.

    One pass over few pairs makes too few steps to learn from, whatever the number of iterations.
    """
    steps_of_pass = max(1, -(-epoch_pairs // batch_size(epoch_pairs, settings)))
    n_passes = 1 if settings.batch_size else max(1, STEPS // steps_of_pass)
    return steps_of_pass * n_passes


def default_epochs(n_docs: int, epoch: int, most: int) -> int:
    """Default number of epochs of `epoch` steps each for n_docs documents; at most `most`.

    >>> default_epochs(100, 16, most=30), default_epochs(1_000_000, 1000, most=30)
    (30, 3)
    """
    epochs = max(_VISITS / max(n_docs, 1), _ALL_STEPS / epoch)
    return int(np.clip(epochs, _FEWEST_EPOCHS, most))
