"""Train a comparator on pairs by minimising a loss of pairs.

`train_on_pairs` makes a whole training and keeps the weights of the best epoch. With a `Share` it
makes the steps of one iteration, in a run whose iterations share one budget of steps. A `Learner`
makes the steps of a net. The loop of sorts and trainings is in `loop.py`.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from sortnet.comparators import SoftTrees, Trainable, TrainableComparator
from sortnet.config import Training
from sortnet.core import F32, Array, ComparedPairs, Progress, Queries
from sortnet.core.shard import ALONE, Group
from sortnet.errors import DataError, DivergedError
from sortnet.learning.mini_batches import AT_ONCE, MiniBatch, QueryPairs
from sortnet.learning.step_budget import Share, batch_size, learning_rate, whole_training
from sortnet.learning.tree_learner import TreeLearner
from sortnet.threads import one_numpy_thread, one_thread_an_operation

if TYPE_CHECKING:
    from sortnet.learning.net_learner import NetLearner

Learner: TypeAlias = Union[TreeLearner, "NetLearner"]  # a net in training, with its optimiser
Score = Callable[[Trainable], float]
Moments = Mapping[str, Array]  # the arrays of an optimiser by name

_SCORED = 4  # number of epochs in the second half of a training whose RankQuality is measured
_VALUES = 1 << 24  # number of features of the documents processed at a time, which bounds memory


@dataclass(frozen=True)
class Trained:
    """Result of a training; for a committee of nets, the mean over its members.

    Attributes:
        epochs: the number of epochs.
        kept_epoch: the epoch whose weights are kept, from 1; 0 for the weights at the start.
        train_loss: the mean loss on the training pairs in the last epoch.
        vali_loss: the mean loss on the validation pairs with the kept weights; NaN without
            validation pairs.
        seconds: the wall-clock seconds of the training.
        moments: for each member, `Learner.moments`, from which the next share of a budget
            continues.
    """

    epochs: float = 0
    kept_epoch: float = 0
    train_loss: float = math.nan
    vali_loss: float = math.nan
    seconds: float = 0.0
    moments: tuple[Moments, ...] = ()


NOT_TRAINED = Trained()  # the result without a training


@dataclass(frozen=True)
class _MemberTraining:
    """Training of each member of a comparator on the same pairs.

    Attributes:
        tp, vp: the training and the validation pairs.
        settings: the settings of the training.
        share: the steps to make.
        keeps_last: whether the last weights are kept; if not, the weights of the best epoch.
        score: a function that measures RankQuality; None to choose the epoch by the loss.
        group: the processes that share the training.
    """

    tp: QueryPairs
    vp: QueryPairs
    settings: Training
    share: Share
    keeps_last: bool
    score: Score | None
    group: Group

    def run(
        self, net: Trainable, moments: Moments, seed: int, progress: Progress
    ) -> tuple[Trained, Moments]:
        """Train a net in place, and keep its last weights, or the weights of its best epoch.

        The best epoch has the highest RankQuality; without `score`, the lowest loss on the
        validation pairs; without validation pairs, the last epoch is kept. The training ends early
        if the settings have a `patience`, and no better epoch has come for so many epochs.

        Args:
            net: the net.
            moments: the moments of the optimiser after the share before.
            seed: the seed of the mini-batches and of dropout.
            progress: a function that is called with progress messages.

        Returns:
            The result, and the moments of the optimiser after this training.
        """
        share = self.share
        patience = self.settings.patience
        learner = learner_of(net, self.settings, moments, self.group)
        batches = self._batches(net, seed)
        epoch, kept_epoch = 0, 0
        train_loss = 0.0 if self.keeps_last else math.nan
        best_weights = None if self.keeps_last else copy.deepcopy(net.arrays())
        best_value = (-np.inf, 0)  # quality of the kept epoch, and a number that decides in a tie
        for first in range(share.first, share.end, share.epoch):
            end = min(first + share.epoch, share.end)
            epoch += 1
            progress(f"training, step {first} of {share.total}")
            train_loss = self._make_steps(learner, islice(batches, end - first), first)
            if not math.isfinite(train_loss):
                raise DivergedError(
                    f"the loss is {train_loss} in step {end}: "
                    f"try a lr lower than {self.settings.lr:g}, or another scaling"
                )
            if best_weights is None or (self.score and not _is_scored(epoch, share.epochs)):
                continue  # RankQuality needs a sort, and is measured after a few epochs only
            value = self._value_of_epoch(epoch, net, learner)
            if value > best_value:
                kept_epoch = epoch
                best_value = value
                best_weights = copy.deepcopy(net.arrays())
            elif patience is not None and epoch - kept_epoch >= patience:
                break
        if best_weights is not None:
            net.load_arrays(best_weights)
        vali_loss = self._vali_loss(learner, net.n_features) if len(self.vp) else np.nan
        if self.keeps_last:
            return Trained(share.epochs, share.epochs, train_loss, vali_loss), learner.moments()
        return Trained(epoch, kept_epoch, train_loss, vali_loss), {}

    def _batches(self, net: Trainable, seed: int) -> Iterator[MiniBatch]:
        """Yield mini-batches without end, and seed the generator of dropout of a net of torch.

        All processes plan the same mini-batches, but each process drops other units.
        """
        if not isinstance(net, SoftTrees):
            net.generator.manual_seed(seed + self.group.rank)
        most = self.settings.query_pairs
        size = batch_size(int(self.tp.in_epoch(most).sum()), self.settings)
        return self.tp.endless_batches(size, most, np.random.default_rng(seed), self.group)

    def _make_steps(self, learner: Learner, batches: Iterator[MiniBatch], first: int) -> float:
        """Make a training step on each mini-batch.

        Args:
            learner: the learner of a net.
            batches: the mini-batches.
            first: the number of the first of these steps in the budget.

        Returns:
            The mean loss of the mini-batches, each before its step; 0 without mini-batches.
        """
        losses = []
        for step, batch in enumerate(batches, start=first):
            rate = learning_rate(self.settings, step, self.share)
            losses.append(learner.step(batch, rate, step / self.share.total))
        return float(np.mean([float(loss) for loss in losses])) if losses else 0.0

    def _value_of_epoch(self, epoch: int, net: Trainable, learner: Learner) -> tuple[float, int]:
        """Compute the value of an epoch; the weights of the epoch with the highest value are kept.

        Args:
            epoch: the number of the epoch that has just ended.
            net: the net after the epoch.
            learner: the learner of the net.

        Returns:
            RankQuality, or minus the loss on the validation pairs, or 0 without validation pairs;
            and a number that decides between equal values: the earlier epoch wins if the loss
            chooses, the later epoch otherwise.
        """
        if self.score is not None:
            return self.score(net), epoch
        if len(self.vp):
            return -self._vali_loss(learner, net.n_features), -epoch
        return 0.0, epoch

    def _vali_loss(self, learner: Learner, n_features: int) -> float:
        """Compute the mean loss over all validation pairs, without dropout."""
        n_pairs = len(self.vp)
        size = min(AT_ONCE, _VALUES // n_features + 1)
        sums = []  # the sum of this process's losses in each mini-batch
        for k, batch in enumerate(
            self.vp.batches(size, usual_pairs=None, rng=None, group=self.group)
        ):
            # The loss of a mini-batch is a mean over its pairs of all processes.
            n_in_batch = min(size, n_pairs - k * size)
            sums.append(learner.loss(batch) * n_in_batch)
        return float(self.group.sum(np.array(math.fsum(sums)))) / n_pairs


def train_on_pairs(
    comparator: TrainableComparator,
    train: Queries,
    tp: ComparedPairs,
    vali: Queries,
    vp: ComparedPairs,
    settings: Training,
    *,
    share: Share | None = None,
    moments: tuple[Moments, ...] = (),
    score: Score | None = None,
    gain: F32 | None = None,
    seed: int = 0,
    group: Group = ALONE,
    progress: Progress = lambda text: None,
) -> Trained:
    """Train a comparator, in place, on training pairs.

    A whole training keeps the weights of the best epoch. A share of a budget keeps the last
    weights: the learning rate, the sharpening of the splits and the optimiser continue from the
    share before. The number of its steps does not depend on the number of training pairs. Without
    training pairs no step is made, and the next share begins as if the steps were made.

    An epoch passes over some pairs of each query, at most as many as
    `sortnet.learning.mini_batches.pairs_in_epoch` allows. The pairs are drawn at random, query by
    query, so that a document is embedded once for all its pairs of a mini-batch.

    Args:
        comparator: the comparator, which is trained from its current weights. Each member of a
            committee is trained with its own mini-batches.
        train: scaled training queries. If they have weights, the weight of a pair is the product
            of the weights of its documents.
        tp: the training pairs, `in_order`. A pair with an answer p < 1 is learned in both orders,
            with the weights p and 1 - p.
        vali: scaled validation queries.
        vp: the validation pairs, `in_order`.
        settings: the settings of the training.
        share: the steps to make of a budget; None: a whole training is made.
        moments: for each member, the moments of its optimiser after the share before; empty before
            the first share.
        score: a function that measures the RankQuality of a comparator on the validation queries.
            It chooses the best of a few epochs in the second half. Without it, and if the settings
            choose by loss, the epoch with the lowest loss on the validation pairs is kept, or the
            last epoch if there are none.
        gain: (m,) factors of the weights of the training pairs.
        seed: the seed of the mini-batches and of dropout.
        group: the processes that share the training.
        progress: a function that is called with progress messages.

    Raises:
        DataError: if all training pairs have weight 0.
        DivergedError: if the loss is no longer a number.

    Cost: an epoch embeds each document about once, then compares embeddings. A table of the
    features of all pairs is never built.
    """
    started = time.perf_counter()
    train_pairs = QueryPairs.of(train, tp, settings.pair_weight, gain)
    vali_pairs = QueryPairs.of(vali, vp, settings.pair_weight)
    if len(train_pairs) and not train_pairs.weight.any():
        raise DataError(f"{train.source}: all pairs to learn from have weight 0")
    steps = share
    if steps is None:
        n_pairs = int(train_pairs.in_epoch(settings.query_pairs).sum())
        steps = whole_training(n_pairs, len(train_pairs.docs), settings)
    training = _MemberTraining(
        train_pairs,
        vali_pairs,
        settings,
        steps,
        keeps_last=share is not None,
        score=score if settings.keep == "quality" else None,
        group=group,
    )
    results = _train_members(comparator, training, moments, seed, progress)
    members = [result for result, _ in results]
    return Trained(
        float(np.mean([member.epochs for member in members])),
        float(np.mean([member.kept_epoch for member in members])),
        float(np.mean([member.train_loss for member in members])),
        float(np.mean([member.vali_loss for member in members])),
        seconds=time.perf_counter() - started,
        moments=tuple(moments_of_member for _, moments_of_member in results),
    )


def _train_members(
    comparator: TrainableComparator,
    training: _MemberTraining,
    moments: tuple[Moments, ...],
    seed: int,
    progress: Progress,
) -> list[tuple[Trained, Moments]]:
    """Train the members of a committee side by side, each in a thread.

    If a training raises an error, the other trainings are cancelled.

    Args:
        comparator: the committee, or a single net.
        training: the training of each member.
        moments: the moments of each member's optimiser; empty at the beginning.
        seed: the seed from which the seeds of the members are made.
        progress: a function that is called with progress messages.

    Returns:
        The results of `training.run` in the order of the members.
    """
    members = comparator.members
    moments = moments or ({},) * len(members)
    if len(members) == 1:
        one_thread: AbstractContextManager[Any] = one_thread_an_operation()
        if isinstance(comparator, SoftTrees):
            one_thread = one_numpy_thread()
        with one_thread:
            return [training.run(members[0], moments[0], seed, progress)]
    import torch

    seeds = np.random.SeedSequence(seed).generate_state(len(members))
    stop = threading.Event()

    def run_member(number: int) -> tuple[Trained, Moments]:
        """Train a member in this thread, until another member has raised an error."""

        def report(text: str) -> None:
            """Report progress with the number of the member; cancel the training on `stop`."""
            if stop.is_set():
                raise CancelledError
            progress(f"member {number + 1}/{len(seeds)}, {text}")

        return training.run(members[number], moments[number], int(seeds[number]), report)

    with one_thread_an_operation() as n_threads:
        # Processes that share a model have to train the members in the same order.
        n_side_by_side = n_threads if training.group.size == 1 else 1
        # torch gives each new thread all cores for an operation, whatever its parent has set.
        pool = ThreadPoolExecutor(n_side_by_side, initializer=torch.set_num_threads, initargs=(1,))
        with pool:
            try:
                return list(pool.map(run_member, range(len(seeds))))
            except BaseException:
                stop.set()  # Ctrl-C, or a member diverged: cancel the other members
                raise


def _is_scored(epoch: int, epochs: float) -> bool:
    """Whether RankQuality is measured after an epoch: a few times, in the second half only."""
    epochs_between_scores = max(1, epochs // 2 // _SCORED)
    return 2 * epoch > epochs and (epochs - epoch) % epochs_between_scores == 0


def learner_of(
    net: Trainable,
    settings: Training,
    moments: Mapping[str, Array],
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
