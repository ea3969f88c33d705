"""Train a comparator on pairs by minimising a loss of pairs.

`train_on_pairs` makes a whole training and keeps the weights of the best epoch. `train_share` makes
the steps of one iteration, in a run whose iterations share one budget of steps.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sortnet.comparators import SoftTrees, Trainable, TrainableComparator
from sortnet.config import Training
from sortnet.core import F32, ComparedPairs, Progress, Queries
from sortnet.core.shard import sum_over_processes
from sortnet.errors import DataError, DivergedError
from sortnet.learning.learner import Learner, learner_of
from sortnet.learning.mini_batches import AT_ONCE, MiniBatch, QueryPairs
from sortnet.learning.step_budget import (
    MOST_OF_TRAINING,
    Share,
    batch_size,
    default_epochs,
    learning_rate,
    steps_of_epoch,
)
from sortnet.threads import one_numpy_thread, one_thread_an_operation

Score = Callable[[Trainable], float]
Moments = Mapping[str, NDArray[Any]]  # the arrays of an optimiser by name

_SCORED = 4  # number of epochs in the second half of a training whose RankQuality is measured
_VALUES = 1 << 24  # number of features of the documents processed at a time, which bounds memory
T = TypeVar("T")


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
    """

    epochs: float
    kept_epoch: float
    train_loss: float
    vali_loss: float
    seconds: float = 0.0

    @classmethod
    def mean(cls, members: list[Trained], seconds: float) -> Trained:
        """Average the results of a committee's members, whose training took `seconds` in all."""
        return cls(
            float(np.mean([member.epochs for member in members])),
            float(np.mean([member.kept_epoch for member in members])),
            float(np.mean([member.train_loss for member in members])),
            float(np.mean([member.vali_loss for member in members])),
            seconds,
        )


NOT_TRAINED = Trained(0, 0, math.nan, math.nan)  # the result without a training


@dataclass(frozen=True)
class OptimiserState:
    """State of each member's optimiser between two trainings of a run.

    Attributes:
        steps: the number of steps of the budget that are done.
        moments: for each member, `Learner.moments`; empty before the first step.
    """

    steps: int = 0
    moments: tuple[Moments, ...] = ()


def train_on_pairs(
    comparator: TrainableComparator,
    train: Queries,
    tp: ComparedPairs,
    vali: Queries,
    vp: ComparedPairs,
    settings: Training,
    *,
    score: Score | None = None,
    gain: F32 | None = None,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Trained:
    """Train a comparator, in place, on training pairs, and keep the weights of the best epoch.

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
        score: a function that measures the RankQuality of a comparator on the validation queries.
            It chooses the best of a few epochs in the second half. Without it, and if the settings
            choose by loss, the epoch with the lowest loss on the validation pairs is kept, or the
            last epoch if there are none.
        gain: (m,) factors of the weights of the training pairs.
        seed: the seed of the mini-batches and of dropout.
        progress: a function that is called with progress messages.

    Raises:
        DataError: if all training pairs have weight 0.
        DivergedError: if the loss is no longer a number.

    Cost: an epoch embeds each document about once, then compares embeddings. A table of the
    features of all pairs is never built.
    """
    started = time.perf_counter()
    train_pairs, vali_pairs = _pairs_of(train, tp, vali, vp, settings, gain)
    score = score if settings.keep == "quality" else None

    def train_member(number: int, seed: int, progress: Progress) -> Trained:
        """Train the member with this number for all epochs."""
        member = comparator.members[number]
        return _train(member, train_pairs, vali_pairs, settings, score, seed, progress)

    trained = _train_members(comparator, train, train_member, seed, progress)
    return Trained.mean(trained, time.perf_counter() - started)


def train_share(
    comparator: TrainableComparator,
    train: Queries,
    tp: ComparedPairs,
    vali: Queries,
    vp: ComparedPairs,
    settings: Training,
    share: Share,
    *,
    before: OptimiserState,
    gain: F32 | None = None,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> tuple[Trained, OptimiserState]:
    """Train a comparator, in place, for one share of a budget's steps, and keep the last weights.

    The learning rate, the sharpening of the splits and the optimiser continue from the share
    before. The number of steps does not depend on the number of training pairs. Without training
    pairs no step is made, and the next share begins as if the steps were made.

    Args:
        comparator, train, tp, vali, vp, settings, gain, seed, progress: see `train_on_pairs`.
        share: the steps to make.
        before: the state of the optimiser after the share before.

    Returns:
        The result, and the state of the optimiser to continue from.

    Raises:
        DataError, DivergedError: see `train_on_pairs`.
    """
    started = time.perf_counter()
    train_pairs, vali_pairs = _pairs_of(train, tp, vali, vp, settings, gain)

    def train_member(number: int, seed: int, progress: Progress) -> tuple[Trained, Moments]:
        """Train one member for the share, from the optimiser's moments after the last share."""
        member = comparator.members[number]
        moments = before.moments[number] if before.moments else {}
        return _train_share(
            member, train_pairs, vali_pairs, settings, share, moments, seed, progress
        )

    members = _train_members(comparator, train, train_member, seed, progress)
    trained = Trained.mean([result for result, _ in members], time.perf_counter() - started)
    return trained, OptimiserState(share.end, tuple(moments for _, moments in members))


def _pairs_of(
    train: Queries,
    tp: ComparedPairs,
    vali: Queries,
    vp: ComparedPairs,
    settings: Training,
    gain: F32 | None,
) -> tuple[QueryPairs, QueryPairs]:
    """Group training and validation pairs by query.

    Raises:
        DataError: if all training pairs have weight 0.
    """
    train_pairs = QueryPairs.of(train, tp, settings.pair_weight, gain)
    vali_pairs = QueryPairs.of(vali, vp, settings.pair_weight)
    weight = train_pairs.weight
    if weight is not None and not sum_over_processes(train, np.count_nonzero(weight)):
        raise DataError(f"{train.source}: all pairs to learn from have weight 0")
    return train_pairs, vali_pairs


def _train_members(
    comparator: TrainableComparator,
    train: Queries,
    train_member: Callable[[int, int, Progress], T],
    seed: int,
    progress: Progress,
) -> list[T]:
    """Train the members of a committee side by side, each in a thread.

    If a training raises an error, the other trainings are cancelled.

    Args:
        comparator: the committee, or a single net.
        train: the training queries.
        train_member: a function that trains a member, given its number, a seed, and the function
            that it calls with progress messages.
        seed: the seed from which the seeds of the members are made.
        progress: a function that is called with progress messages.

    Returns:
        The results of `train_member` in the order of the members.
    """
    if isinstance(comparator, SoftTrees):
        with one_numpy_thread():
            return [train_member(0, seed, progress)]
    if len(comparator.members) == 1:
        with one_thread_an_operation():
            return [train_member(0, seed, progress)]
    import torch

    seeds = np.random.SeedSequence(seed).generate_state(len(comparator.members))
    stop = threading.Event()

    def run_member(number: int) -> T:
        """Train a member in this thread, until another member has raised an error."""

        def report(text: str) -> None:
            """Report progress with the number of the member; cancel the training on `stop`."""
            if stop.is_set():
                raise _Stopped
            progress(f"member {number + 1}/{len(seeds)}, {text}")

        return train_member(number, int(seeds[number]), report)

    # Processes that share a model have to train the members in the same order.
    is_alone = train.shard is None or train.shard.group.size == 1
    with one_thread_an_operation() as n_threads:
        # torch gives each new thread all cores for an operation, whatever its parent has set.
        pool = ThreadPoolExecutor(
            n_threads if is_alone else 1, initializer=torch.set_num_threads, initargs=(1,)
        )
        with pool:
            try:
                return list(pool.map(run_member, range(len(seeds))))
            except BaseException:
                stop.set()  # Ctrl-C, or a member diverged: cancel the other members
                raise


class _Stopped(Exception):
    """Raised in a member's thread to cancel the member's training."""


def _generator(net: Trainable, pairs: QueryPairs, seed: int) -> np.random.Generator:
    """Make the generator of mini-batches, and seed the generator of dropout of a net of torch.

    All processes draw the same mini-batches, but each process drops other units.
    """
    if not isinstance(net, SoftTrees):
        shard = pairs.queries.shard
        rank = 0 if shard is None else shard.group.rank
        net.generator.manual_seed(seed + rank)
    return np.random.default_rng(seed)


def _train(
    net: Trainable,
    tp: QueryPairs,
    vp: QueryPairs,
    settings: Training,
    score: Score | None,
    seed: int,
    progress: Progress,
) -> Trained:
    """Train a net for all epochs, and keep the weights of the best epoch.

    The best epoch has the highest RankQuality; without `score`, the lowest loss on the validation
    pairs; without validation pairs, the last epoch is kept. The training ends early if the settings
    have a `patience`, and no better epoch has come for this number of epochs.

    Args:
        net: the net, which is trained in place.
        tp: the training pairs.
        vp: the validation pairs.
        settings: the settings of the training.
        score: a function that measures RankQuality; None to choose the epoch by the loss.
        seed: the seed of the mini-batches and of dropout.
        progress: a function that is called with progress messages.
    """
    epoch_pairs = int(tp.in_epoch(settings.query_pairs).sum())
    epoch_steps = steps_of_epoch(epoch_pairs, settings)
    most_epochs = settings.epochs
    if most_epochs is None:
        most_epochs = default_epochs(int(tp.n_docs.sum()), epoch_steps, most=MOST_OF_TRAINING)
    rng = _generator(net, tp, seed)
    size = batch_size(epoch_pairs, settings)
    batches = tp.endless_batches(size, settings.query_pairs, rng)
    all_steps = most_epochs * epoch_steps
    share = Share(0, all_steps, all_steps, epoch_steps)
    learner = learner_of(net, settings, {})

    epoch = 0
    kept_epoch = 0
    train_loss = np.nan
    best_weights = copy.deepcopy(net.arrays())
    best_value = (-np.inf, 0)  # quality of the kept epoch, and a number that decides in a tie
    for epoch in range(1, most_epochs + 1):
        progress(f"training, epoch {epoch}/{most_epochs}")
        first = (epoch - 1) * epoch_steps
        train_loss = _make_steps(learner, islice(batches, epoch_steps), settings, share, first)
        _check_loss(train_loss, f"epoch {epoch}", settings)
        if score is not None and not _is_scored(epoch, most_epochs):
            continue  # RankQuality needs a sort, and is measured after a few epochs only
        value = _value_of_epoch(epoch, net, learner, vp, score)
        if value > best_value:
            kept_epoch = epoch
            best_value = value
            best_weights = copy.deepcopy(net.arrays())
        elif settings.patience is not None and epoch - kept_epoch >= settings.patience:
            break
    net.load_arrays(best_weights)
    vali_loss = _mean_loss(learner, vp, net.n_features) if len(vp) else np.nan
    return Trained(epoch, kept_epoch, train_loss, vali_loss)


def _value_of_epoch(
    epoch: int, net: Trainable, learner: Learner, vp: QueryPairs, score: Score | None
) -> tuple[float, int]:
    """Compute the value of an epoch; the weights of the epoch with the highest value are kept.

    Args:
        epoch: the number of the epoch that has just ended.
        net: the net after the epoch.
        learner: the learner of the net.
        vp: the validation pairs.
        score: a function that measures RankQuality; None to choose by the loss.

    Returns:
        RankQuality, or minus the loss on the validation pairs, or 0 without validation pairs; and a
        number that decides between equal values: the earlier epoch wins if the loss chooses, the
        later epoch otherwise.
    """
    if score is not None:
        return score(net), epoch
    if len(vp):
        return -_mean_loss(learner, vp, net.n_features), -epoch
    return 0.0, epoch


def _is_scored(epoch: int, epochs: int) -> bool:
    """Whether RankQuality is measured after an epoch: a few times, in the second half only."""
    epochs_between_scores = max(1, epochs // 2 // _SCORED)
    return 2 * epoch > epochs and (epochs - epoch) % epochs_between_scores == 0


def _train_share(
    net: Trainable,
    tp: QueryPairs,
    vp: QueryPairs,
    settings: Training,
    share: Share,
    moments: Moments,
    seed: int,
    progress: Progress,
) -> tuple[Trained, Moments]:
    """Train a net for one share of a budget's steps, and keep its last weights.

    Args:
        net: the net, which is trained in place.
        tp, vp: the training and the validation pairs.
        settings: the settings of the training.
        share: the steps to make.
        moments: the moments of the optimiser after the share before.
        seed: the seed of the mini-batches and of dropout.
        progress: a function that is called with progress messages.

    Returns:
        The result, and the moments of the optimiser after this share.
    """
    rng = _generator(net, tp, seed)
    learner = learner_of(net, settings, moments)
    size = batch_size(int(tp.in_epoch(settings.query_pairs).sum()), settings)
    batches = tp.endless_batches(size, settings.query_pairs, rng)
    train_loss = 0.0
    # The steps are made epoch by epoch, since `progress` may cancel the training.
    for first in range(share.first, share.end, share.epoch):
        end = min(first + share.epoch, share.end)
        progress(f"training, step {first} of {share.total}")
        train_loss = _make_steps(learner, islice(batches, end - first), settings, share, first)
        _check_loss(train_loss, f"step {end}", settings)
    vali_loss = _mean_loss(learner, vp, net.n_features) if len(vp) else np.nan
    epochs = share.steps / share.epoch
    return Trained(epochs, epochs, train_loss, vali_loss), learner.moments()


def _check_loss(loss: float, place: str, settings: Training) -> None:
    """Raise DivergedError if the loss is not a number; `place` is its epoch or step."""
    if not np.isfinite(loss):
        raise DivergedError(
            f"the loss is {loss} in {place}: "
            f"try a lr lower than {settings.lr:g}, or another scaling"
        )


def _make_steps(
    learner: Learner, batches: Iterator[MiniBatch], settings: Training, share: Share, first: int
) -> float:
    """Make a training step on each mini-batch.

    Args:
        learner: the learner of a net.
        batches: the mini-batches.
        settings: the settings of the training.
        share: the share of a budget's steps that is made.
        first: the number of the first of these steps in the budget.

    Returns:
        The mean loss of the mini-batches, each before its step; 0 without mini-batches.
    """
    losses = [
        learner.step(batch, learning_rate(settings, step, share), step / share.total)
        for step, batch in enumerate(batches, start=first)
    ]
    return float(np.mean([float(loss) for loss in losses])) if losses else 0.0


def _mean_loss(learner: Learner, pairs: QueryPairs, n_features: int) -> float:
    """Compute the mean loss over all pairs of all processes, without dropout."""
    size = min(AT_ONCE, _VALUES // n_features + 1)
    sums = []  # for each mini-batch this process's sum of losses
    for k, batch in enumerate(pairs.batches(size, most=None, rng=None)):
        if len(batch.weight):
            # The loss of a mini-batch is a mean over its pairs of all processes.
            n_in_batch = min(size, len(pairs) - k * size)
            sums.append(learner.loss(batch) * n_in_batch)
    total = float(sum_over_processes(pairs.queries, np.array(math.fsum(sums))))
    return total / max(len(pairs), 1)
