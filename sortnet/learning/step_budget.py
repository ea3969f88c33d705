"""The training budget of a run: a number of steps, fixed before the first iteration.

A run that begins each training from the last weights spends one budget over its iterations: one
cycle of the learning rate, one sharpening of the splits, one state of the optimiser.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.config import Config, Training
from sortnet.core import Queries
from sortnet.core.shard import offsets_of_all
from sortnet.errors import DataError
from sortnet.learning.mini_batches import pairs_in_epoch

STEPS = 16  # an epoch has at least as many, where the batch size is not given
LARGEST_BATCH = 8192  # pairs
SMALLEST_BATCH = 32
# Where the number of epochs is not given: as many documents are visited, or steps made, for any
# number of documents.
_VISITS, _ALL_STEPS, _FEWEST = 300_000, 320, 3
MOST_PAIRS = 1 << 21  # that an epoch draws: about as many as TP holds of large data
MOST_OF_RUN, MOST_OF_TRAINING = 30, 60  # epochs of a run of several iterations, of one training


@dataclass(frozen=True)
class Share:
    """The steps that one training takes of a budget.

    Attributes:
        first, end: the training makes the steps first .. end - 1.
        total: steps of the whole budget, by which the schedule is set.
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
    """The steps of all trainings of a run.

    Attributes:
        steps: of all trainings together.
        iterations: number of trainings.
        epoch: steps of an epoch.
        epoch_pairs: pairs that an epoch draws, if T's pairs are all known; at most `MOST_PAIRS`.

    >>> budget = Budget(steps=100, iterations=3, epoch=16, epoch_pairs=512)
    >>> [budget.share(i).steps for i in range(3)]
    [33, 33, 34]
    """

    steps: int
    iterations: int
    epoch: int
    epoch_pairs: int

    def share(self, iteration: int) -> Share:
        """The share of the training that follows the sort of an iteration, counted from 0."""
        first, end = (self.steps * k // self.iterations for k in (iteration, iteration + 1))
        return Share(first, end, self.steps, self.epoch)

    @classmethod
    def of(cls, train: Queries, config: Config) -> Budget:
        """The budget of a run on these queries; it follows from their sizes and the settings alone.

        An iteration that continues the one before has at least one epoch, so few epochs make few
        iterations. Trainings that begin from random weights have an own budget each.

        Raises:
            DataError: if the settings choose among the epochs of a training, while the run divides
                one training among its iterations.
        """
        how = config.training
        if config.divides_one_training:
            _refuse_choice_of_epochs(how)
        sizes = np.diff(offsets_of_all(train))
        all_pairs = sizes * (sizes - 1) // 2
        drawn = min(int(pairs_in_epoch(all_pairs, sizes, how.query_pairs).sum()), MOST_PAIRS)
        epoch = steps_of_epoch(drawn, how)
        epochs = how.epochs or default_epochs(int(sizes.sum()), epoch, MOST_OF_RUN)
        iterations = config.trainings
        if config.start == "warm":
            iterations = min(iterations, epochs)
        return cls(epochs * epoch, iterations, epoch, drawn)


def _refuse_choice_of_epochs(how: Training) -> None:
    name = "keep=loss" if how.keep == "loss" else "patience" if how.patience is not None else ""
    if name:
        raise DataError(
            f"{name} chooses among the epochs of a training, and with start=warm one training is "
            "divided among the iterations: give start=fresh, or max_iter=1"
        )


def batch_size(drawn: int, how: Training) -> int:
    """Pairs of a mini-batch, where an epoch draws that many."""
    if how.batch_size is not None:
        return how.batch_size
    return int(np.clip(drawn // STEPS, SMALLEST_BATCH, LARGEST_BATCH))


def steps_of_epoch(drawn: int, how: Training) -> int:
    """Steps of an epoch that draws that many pairs: whole passes, of `STEPS` or more in all.

    Few pairs make few steps a pass: too few to learn from in any number of iterations.
    """
    a_pass = max(1, -(-drawn // batch_size(drawn, how)))
    passes = 1 if how.batch_size else max(1, STEPS // a_pass)
    return a_pass * passes


def default_epochs(n_docs: int, epoch: int, most: int) -> int:
    """Epochs of `epoch` steps for a number of documents, at most `most`.

    >>> default_epochs(100, 16, most=30), default_epochs(1_000_000, 1000, most=30)
    (30, 3)
    """
    epochs = max(_VISITS / max(n_docs, 1), _ALL_STEPS / epoch)
    return int(np.clip(epochs, _FEWEST, most))
