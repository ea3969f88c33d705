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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators import NeuralComparator, TrainableComparator
from sortnet.comparators.losses import pair_loss
from sortnet.config import Training
from sortnet.core import F32, ComparedPairs, Progress, Queries
from sortnet.core.shard import Shard, sum_over_processes
from sortnet.errors import DataError, DivergedError
from sortnet.learning.mini_batches import AT_ONCE, MiniBatch, QueryPairs
from sortnet.learning.step_budget import (
    MOST_OF_TRAINING,
    Share,
    batch_size,
    default_epochs,
    steps_of_epoch,
)
from sortnet.threads import one_thread_an_operation

Score = Callable[[NeuralComparator], float]
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}

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
        moments: for each member, the optimiser's tensors by keys `parameter:name`; empty before the
            first step.
    """

    steps: int = 0
    moments: tuple[Mapping[str, Tensor], ...] = ()


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
    train_pairs, vali_pairs = _pairs_of(comparator, train, tp, vali, vp, settings, gain)
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
    train_pairs, vali_pairs = _pairs_of(comparator, train, tp, vali, vp, settings, gain)

    def train_member(
        number: int, seed: int, progress: Progress
    ) -> tuple[Trained, Mapping[str, Tensor]]:
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
    comparator: TrainableComparator,
    train: Queries,
    tp: ComparedPairs,
    vali: Queries,
    vp: ComparedPairs,
    settings: Training,
    gain: F32 | None,
) -> tuple[QueryPairs, QueryPairs]:
    """Group training and validation pairs by query; copy their features to a GPU if they fit.

    Raises:
        DataError: if all training pairs have weight 0.
    """
    device = comparator.members[0].device
    train_pairs = QueryPairs.of(train, tp, settings.pair_weight, gain).with_features_on(device)
    vali_pairs = QueryPairs.of(vali, vp, settings.pair_weight).with_features_on(device)
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
    if len(comparator.members) == 1:
        with one_thread_an_operation():
            return [train_member(0, seed, progress)]
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


def _generator(net: NeuralComparator, pairs: QueryPairs, seed: int) -> np.random.Generator:
    """Make the generator of mini-batches, and seed the net's generator of dropout.

    All processes draw the same mini-batches, but each process drops other units.
    """
    shard = pairs.queries.shard
    rank = 0 if shard is None else shard.group.rank
    net.generator.manual_seed(seed + rank)
    return np.random.default_rng(seed)


def _train(
    net: NeuralComparator,
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
    batches = tp.endless_batches(size, settings.query_pairs, rng, net.device)
    all_steps = most_epochs * epoch_steps
    steps = _Steps.of(net, settings, Share(0, all_steps, all_steps, epoch_steps))

    epoch = 0
    kept_epoch = 0
    train_loss = np.nan
    best_weights = net.state_dict()
    best_value = (-np.inf, 0)  # quality of the kept epoch, and a number that decides in a tie
    for epoch in range(1, most_epochs + 1):
        progress(f"training, epoch {epoch}/{most_epochs}")
        train_loss = steps.train_on(islice(batches, epoch_steps), tp.queries.shard)
        _check_loss(train_loss, f"epoch {epoch}", settings)
        if score is not None and not _is_scored(epoch, most_epochs):
            continue  # RankQuality needs a sort, and is measured after a few epochs only
        value = _value_of_epoch(epoch, net, vp, settings, score)
        if value > best_value:
            kept_epoch = epoch
            best_value = value
            best_weights = copy.deepcopy(net.state_dict())
        elif settings.patience is not None and epoch - kept_epoch >= settings.patience:
            break
    net.load_state_dict(best_weights)
    vali_loss = _mean_loss(net, vp, settings) if len(vp) else np.nan
    return Trained(epoch, kept_epoch, train_loss, vali_loss)


def _value_of_epoch(
    epoch: int, net: NeuralComparator, vp: QueryPairs, settings: Training, score: Score | None
) -> tuple[float, int]:
    """Compute the value of an epoch; the weights of the epoch with the highest value are kept.

    Args:
        epoch: the number of the epoch that has just ended.
        net: the net after the epoch.
        vp: the validation pairs.
        settings: the settings of the training.
        score: a function that measures RankQuality; None to choose by the loss.

    Returns:
        RankQuality, or minus the loss on the validation pairs, or 0 without validation pairs; and a
        number that decides between equal values: the earlier epoch wins if the loss chooses, the
        later epoch otherwise.
    """
    if score is not None:
        return score(net), epoch
    if len(vp):
        return -_mean_loss(net, vp, settings), -epoch
    return 0.0, epoch


def _is_scored(epoch: int, epochs: int) -> bool:
    """Whether RankQuality is measured after an epoch: a few times, in the second half only."""
    epochs_between_scores = max(1, epochs // 2 // _SCORED)
    return 2 * epoch > epochs and (epochs - epoch) % epochs_between_scores == 0


def _train_share(
    net: NeuralComparator,
    tp: QueryPairs,
    vp: QueryPairs,
    settings: Training,
    share: Share,
    moments: Mapping[str, Tensor],
    seed: int,
    progress: Progress,
) -> tuple[Trained, Mapping[str, Tensor]]:
    """Train a net for one share of a budget's steps, and keep its last weights.

    Args:
        net: the net, which is trained in place.
        tp, vp: the training and the validation pairs.
        settings: the settings of the training.
        share: the steps to make.
        moments: the optimiser's tensors after the share before, see `OptimiserState`.
        seed: the seed of the mini-batches and of dropout.
        progress: a function that is called with progress messages.

    Returns:
        The result, and the optimiser's tensors after this share.
    """
    rng = _generator(net, tp, seed)
    steps = _Steps.of(net, settings, share, moments)
    size = batch_size(int(tp.in_epoch(settings.query_pairs).sum()), settings)
    batches = tp.endless_batches(size, settings.query_pairs, rng, net.device)
    train_loss = 0.0
    # The steps are made epoch by epoch, since `progress` may cancel the training.
    for first in range(share.first, share.end, share.epoch):
        end = min(first + share.epoch, share.end)
        progress(f"training, step {first} of {share.total}")
        train_loss = steps.train_on(islice(batches, end - first), tp.queries.shard)
        _check_loss(train_loss, f"step {end}", settings)
    vali_loss = _mean_loss(net, vp, settings) if len(vp) else np.nan
    epochs = share.steps / share.epoch
    return Trained(epochs, epochs, train_loss, vali_loss), steps.moments()


def _check_loss(loss: float, place: str, settings: Training) -> None:
    """Raise DivergedError if the loss is not a number; `place` is its epoch or step."""
    if not np.isfinite(loss):
        raise DivergedError(
            f"the loss is {loss} in {place}: "
            f"try a lr lower than {settings.lr:g}, or another scaling"
        )


@dataclass(frozen=True)
class _Steps:
    """Steps of a training: the optimiser of a net, and the schedule of the learning rate.

    Attributes:
        net: the net.
        settings: the settings of the training.
        optimizer: the optimiser, with the moments of earlier steps.
        schedule: the schedule of the learning rate.
        total: the number of steps of the whole budget.
    """

    net: NeuralComparator
    settings: Training
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    total: int

    @classmethod
    def of(
        cls,
        net: NeuralComparator,
        settings: Training,
        share: Share,
        moments: Mapping[str, Tensor] | None = None,
    ) -> _Steps:
        """Make the optimiser and the schedule, ready for the first step of the share."""
        options = {"lr": settings.lr, "weight_decay": settings.fixed_weight_decay}
        if settings.optimizer == "sgd":
            options["momentum"] = settings.momentum
        else:
            options["fused"] = True  # a single operation updates all weights of a small net
        optimizer = OPTIMIZERS[settings.optimizer](net.parameters(), **options)
        if moments is not None:
            _restore_moments(optimizer, net, moments)
        schedule = _learning_rates(optimizer, settings, share)
        return cls(net, settings, optimizer, schedule, share.total)

    def train_on(self, batches: Iterator[MiniBatch], shard: Shard | None) -> float:
        """Make a training step on each mini-batch.

        Args:
            batches: the mini-batches.
            shard: this process's share of the queries, if several processes train the net.

        Returns:
            The mean loss of the mini-batches, each before its step; 0 without mini-batches.
        """
        self.net.train()
        losses: list[Tensor] = []
        for batch in batches:
            n_steps_done = self.schedule.last_epoch  # the schedule counts steps as epochs
            self.net.anneal(n_steps_done / self.total)  # soft trees get sharper splits
            loss = _set_gradients(self.net, batch, self.settings, shard)
            losses.append(loss)
            self.optimizer.step()  # changes the weights by the gradients
            self.schedule.step()  # sets the next learning rate
        if not losses:
            return 0.0
        return float(torch.stack(losses).mean())

    def moments(self) -> dict[str, Tensor]:
        """Copy the tensors of the optimiser's state, by keys `parameter:name`."""
        moments = {}
        for parameter, weights in self.net.named_parameters():
            for name, value in self.optimizer.state[weights].items():
                if isinstance(value, Tensor):
                    moments[f"{parameter}:{name}"] = value.detach().cpu().clone()
        return moments


def _restore_moments(
    optimizer: torch.optim.Optimizer, net: NeuralComparator, moments: Mapping[str, Tensor]
) -> None:
    """Put the optimiser's tensors after an earlier share of the steps into a new optimiser.

    Args:
        optimizer: the new optimiser of the net's weights.
        net: the net.
        moments: the tensors by keys `parameter:name`.
    """
    weights_by_name = dict(net.named_parameters())
    for key, moment in moments.items():
        parameter, _, name = key.rpartition(":")
        weights = weights_by_name[parameter]
        device = "cpu" if name == "step" else weights.device  # torch counts steps on the CPU
        optimizer.state[weights][name] = moment.to(device, copy=True)


def _learning_rates(
    optimizer: torch.optim.Optimizer, settings: Training, share: Share
) -> torch.optim.lr_scheduler.LRScheduler:
    """Make the schedule of the learning rate, ready for the first step of the share.

    The learning rates of the optimiser are set for this step.
    """
    if settings.schedule == "one-cycle":
        return _one_cycle(optimizer, settings.lr, share)
    steps_a_decay = settings.lr_decay_epochs * share.epoch
    last_step = share.first - 1  # the step before this share; -1 if the share is the first
    n_decays = max(0, last_step // steps_a_decay)
    # torch's schedule continues from two rates that it expects in the optimiser: the rate of the
    # first step, and the rate of the last step.
    for group in optimizer.param_groups:
        group["initial_lr"] = settings.lr
        group["lr"] = settings.lr * settings.lr_decay**n_decays
    return torch.optim.lr_scheduler.StepLR(
        optimizer, steps_a_decay, settings.lr_decay, last_epoch=last_step
    )


def _one_cycle(
    optimizer: torch.optim.Optimizer, highest_rate: float, share: Share
) -> torch.optim.lr_scheduler.LRScheduler:
    """Make a one-cycle schedule over all steps of a run, ready for the share's first step."""
    make_schedule = partial(
        torch.optim.lr_scheduler.OneCycleLR,
        optimizer,
        highest_rate,
        total_steps=share.total,
        cycle_momentum=False,
    )
    # A new schedule writes its limits into the optimiser, and a schedule that continues reads the
    # limits from the optimiser. So a new schedule is made first in both cases.
    schedule = make_schedule()
    if share.first:
        schedule = make_schedule(last_epoch=share.first - 1)
    return schedule


def _loss(net: NeuralComparator, batch: MiniBatch, settings: Training) -> Tensor:
    """Compute the weighted loss of the pairs of a mini-batch, a scalar tensor."""
    with _products(net, settings):
        embedded = net.embed(batch.x).float()
    return pair_loss(net, embedded, batch.winner, batch.loser, batch.weight, loss=settings.loss)


def _products(net: NeuralComparator, settings: Training) -> AbstractContextManager[None]:
    """Return a context in which a training multiplies matrices in the precision of the settings."""
    if settings.precision == "float32" or not net.training:
        return nullcontext()
    return torch.autocast(net.device.type, torch.bfloat16)


def _set_gradients(
    net: NeuralComparator, batch: MiniBatch, settings: Training, shard: Shard | None
) -> Tensor:
    """Set the gradients of the net's weights to the gradients of a mini-batch's loss.

    If several processes train the net, each has a part of the mini-batch. The gradients and the
    loss are summed over all processes.

    Returns:
        The loss, a scalar tensor.
    """
    net.zero_grad()
    loss = torch.zeros((), device=net.device)
    if len(batch.weight):
        loss = _loss(net, batch, settings)
        loss.backward()  # type: ignore[no-untyped-call]
    if shard is not None:
        loss = _sum_gradients(net, loss, shard)
    return loss.detach().view(())


def _sum_gradients(net: NeuralComparator, loss: Tensor, shard: Shard) -> Tensor:
    """Replace the net's gradients by their sums over all processes; return the summed loss."""
    weights = list(net.parameters())
    gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    # All numbers are sent in one message, since each message has a fixed cost.
    message = torch.cat([loss.detach().view(1), *(grad.reshape(-1) for grad in gradients)])
    total = torch.from_numpy(shard.group.sum(message.cpu().numpy())).to(message)
    sizes = [weight.numel() for weight in weights]
    total_loss, *sums = torch.split(total, [1, *sizes])
    for weight, gradient in zip(weights, sums, strict=True):
        weight.grad = gradient.view_as(weight)
    return total_loss


@torch.no_grad()
def _mean_loss(net: NeuralComparator, pairs: QueryPairs, settings: Training) -> float:
    """Compute the mean loss over all pairs of all processes, without dropout."""
    net.eval()
    size = min(AT_ONCE, _VALUES // net.n_features + 1)
    sums = []  # for each mini-batch this process's sum of losses, on the device of the net
    for k, batch in enumerate(pairs.batches(size, most=None, rng=None, device=net.device)):
        if len(batch.weight):
            # The loss of a mini-batch is a mean over its pairs of all processes.
            n_in_batch = min(size, len(pairs) - k * size)
            sums.append(_loss(net, batch, settings) * n_in_batch)
    own_sum = math.fsum(map(float, sums))  # only here the computation waits for a GPU
    total = float(sum_over_processes(pairs.queries, np.array(own_sum)))
    return total / max(len(pairs), 1)
