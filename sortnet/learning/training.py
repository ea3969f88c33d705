"""Train a comparator on pairs by minimising its own `loss`.

`train_on_pairs` is a whole training, of which the best epoch is kept; `train_share` makes the steps
of one iteration of a run whose iterations share one budget.
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
from sortnet.core.shard import Shard, summed
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

_SCORED = 4  # number of epochs of the second half whose RankQuality is measured
_VALUES = 1 << 24  # features of documents whose loss is computed at a time, which bounds memory
T = TypeVar("T")


@dataclass(frozen=True)
class Trained:
    """Result of a training; for a committee of nets, the mean over its members.

    Attributes:
        epochs: number of epochs.
        kept_epoch: the epoch whose weights are kept, from 1; 0 is the start.
        train_loss: mean loss on TP in the last epoch.
        vali_loss: mean loss on VP with the kept weights; NaN where VP is empty.
        seconds: wall-clock seconds.
    """

    epochs: float
    kept_epoch: float
    train_loss: float
    vali_loss: float
    seconds: float = 0.0

    @classmethod
    def mean(cls, members: list[Trained], seconds: float) -> Trained:
        """Mean of the results of a committee's members."""
        return cls(
            float(np.mean([member.epochs for member in members])),
            float(np.mean([member.kept_epoch for member in members])),
            float(np.mean([member.train_loss for member in members])),
            float(np.mean([member.vali_loss for member in members])),
            seconds,
        )


NONE = Trained(0, 0, math.nan, math.nan)  # the result without a training


@dataclass(frozen=True)
class OptimiserState:
    """State of each member's optimiser between two trainings of a run.

    Attributes:
        steps: number of steps of the budget made so far.
        moments: for each member, the optimiser's tensors by `parameter:name`; empty before the
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

    An epoch passes over `query_pairs` pairs of each query at most (None: all), or 6 for each of its
    documents, counting up to 500 documents, where that is more. The pairs are drawn at random,
    query by query: a document is embedded once for all its pairs of a mini-batch.

    Args:
        comparator: trained from its current weights; a committee member by member, each with
            its own mini-batches.
        train: scaled queries, to whose document numbers TP refers; where they have weights, a pair
            counts by the product of its documents' weights.
        tp: training pairs, in order. A pair with an answer p < 1 is also learned in reverse: the
            two count p and 1 - p.
        score: RankQuality of a comparator on V, which chooses the best of a few epochs in the
            second half. Left out, or where the settings choose by loss: the epoch of the lowest
            loss on VP is kept, or the last epoch where VP is empty.
        gain: (m,) factors of the weights of the pairs of TP.

    Raises:
        DataError: if all pairs of TP have weight 0.
        DivergedError: if the loss is no longer a number.

    Cost: an epoch embeds every document of a pair about once, then compares embeddings; a table
    of pairs and features is never built.
    """
    started = time.perf_counter()
    train_pairs, vali_pairs = _pairs_of(comparator, train, tp, vali, vp, settings, gain)
    score = score if settings.keep == "quality" else None

    def train_member(number: int, seed: int, progress: Progress) -> Trained:
        member = comparator.members[number]
        return _train(member, train_pairs, vali_pairs, settings, score, seed, progress)

    trained = _of_each_member(comparator, train, train_member, seed, progress)
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

    The learning rate, the sharpening of the splits and the optimiser continue from `before`. The
    number of steps does not depend on the size of TP. Without pairs no step is made, and the
    schedule moves on.

    Args:
        comparator, train, tp, vali, vp, gain: as for `train_on_pairs`.
        share: the steps to make.
        before: the state of the optimiser after the share before.

    Returns:
        The result, and the state of the optimiser to continue from.

    Raises:
        DataError, DivergedError: as `train_on_pairs`.
    """
    started = time.perf_counter()
    train_pairs, vali_pairs = _pairs_of(comparator, train, tp, vali, vp, settings, gain)

    def train_member(
        number: int, seed: int, progress: Progress
    ) -> tuple[Trained, Mapping[str, Tensor]]:
        member = comparator.members[number]
        moments = before.moments[number] if before.moments else {}
        return _train_share(
            member, train_pairs, vali_pairs, settings, share, moments, seed, progress
        )

    members = _of_each_member(comparator, train, train_member, seed, progress)
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
    """Group training and validation pairs by query, on the comparator's device if they fit.

    Raises:
        DataError: if all training pairs have weight 0.
    """
    device = comparator.members[0].device
    train_pairs = QueryPairs.of(train, tp, settings.pair_weight, gain).kept_on(device)
    vali_pairs = QueryPairs.of(vali, vp, settings.pair_weight).kept_on(device)
    weight = train_pairs.weight
    if weight is not None and not summed(train, np.count_nonzero(weight)):
        raise DataError(f"{train.source}: all pairs to learn from have weight 0")
    return train_pairs, vali_pairs


def _of_each_member(
    comparator: TrainableComparator,
    train: Queries,
    train_member: Callable[[int, int, Progress], T],
    seed: int,
    progress: Progress,
) -> list[T]:
    """Train the members of a committee side by side, each in a thread.

    Args:
        train_member: trains a member, given its number, a seed, and where to report progress to.
    """
    if len(comparator.members) == 1:
        with one_thread_an_operation():
            return [train_member(0, seed, progress)]
    seeds = np.random.SeedSequence(seed).generate_state(len(comparator.members))
    stop = threading.Event()

    def run_member(number: int) -> T:
        def report(text: str) -> None:
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
    """Make the random generator of mini-batches, and seed the generator of the net's dropout."""
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
    """Train a net for all epochs, and keep the best epoch, see `train_on_pairs`."""
    rng = _generator(net, tp, seed)
    epoch_pairs = int(tp.in_epoch(settings.query_pairs).sum())
    epoch_steps = steps_of_epoch(epoch_pairs, settings)
    epochs = settings.epochs or default_epochs(int(tp.n_docs.sum()), epoch_steps, MOST_OF_TRAINING)
    all_steps = epochs * epoch_steps
    steps = _Steps.of(net, settings, Share(0, all_steps, all_steps, epoch_steps))
    batches = tp.endless_batches(
        batch_size(epoch_pairs, settings), settings.query_pairs, rng, net.device
    )
    epochs_between_scores = max(1, epochs // 2 // _SCORED)
    epoch = kept_epoch = 0
    train_loss = np.nan
    best_weights = net.state_dict()
    # The value of the best epoch, and a number that decides between equal values: the later epoch
    # wins if RankQuality chooses, the earlier epoch if the loss chooses.
    best_value = (-np.inf, 0)
    for epoch in range(1, epochs + 1):
        progress(f"training, epoch {epoch}/{epochs}")
        train_loss = steps.make(islice(batches, epoch_steps), tp.queries.shard)
        _check_loss(train_loss, f"epoch {epoch}", settings)
        if score is None:
            value = (-_mean_loss(net, vp, settings), -epoch) if len(vp) else (0.0, epoch)
        elif 2 * epoch > epochs and (epochs - epoch) % epochs_between_scores == 0:
            value = (score(net), epoch)
        else:
            continue
        if value > best_value:
            kept_epoch = epoch
            best_value = value
            best_weights = copy.deepcopy(net.state_dict())
        elif settings.patience is not None and epoch - kept_epoch >= settings.patience:
            break
    net.load_state_dict(best_weights)
    vali_loss = _mean_loss(net, vp, settings) if len(vp) else np.nan
    return Trained(epoch, kept_epoch, train_loss, vali_loss)


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
    """Train a net for one share of steps; return the result and the optimiser's moments."""
    rng = _generator(net, tp, seed)
    steps = _Steps.of(net, settings, share, moments)
    size = batch_size(int(tp.in_epoch(settings.query_pairs).sum()), settings)
    batches = tp.endless_batches(size, settings.query_pairs, rng, net.device)
    train_loss = 0.0
    # The steps are made epoch by epoch, since `progress` may cancel the training.
    for first in range(share.first, share.end, share.epoch):
        end = min(first + share.epoch, share.end)
        progress(f"training, step {first} of {share.total}")
        train_loss = steps.make(islice(batches, end - first), tp.queries.shard)
        _check_loss(train_loss, f"step {end}", settings)
    vali_loss = _mean_loss(net, vp, settings) if len(vp) else np.nan
    epochs = share.steps / share.epoch
    return Trained(epochs, epochs, train_loss, vali_loss), steps.moments()


def _check_loss(loss: float, place: str, settings: Training) -> None:
    if not np.isfinite(loss):
        raise DivergedError(
            f"the loss is {loss} in {place}: "
            f"try a lr lower than {settings.lr:g}, or another scaling"
        )


@dataclass(frozen=True)
class _Steps:
    """Optimiser of a training with its schedule of the learning rate."""

    net: NeuralComparator
    settings: Training
    optimizer: torch.optim.Optimizer
    rates: torch.optim.lr_scheduler.LRScheduler
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
            options["fused"] = True  # one call a step for all weights of a small net
        optimizer = OPTIMIZERS[settings.optimizer](net.parameters(), **options)
        _restore_moments(optimizer, net, moments or {})
        return cls(
            net, settings, optimizer, _learning_rates(optimizer, settings, share), share.total
        )

    def make(self, batches: Iterator[MiniBatch], shard: Shard | None) -> float:
        """Make a step on each mini-batch; return the mean training loss, 0 without mini-batches."""
        net = self.net.train()
        losses: list[Tensor] = []
        for batch in batches:
            net.anneal(self.rates.last_epoch / self.total)
            losses.append(_gradients(net, batch, self.settings, shard))
            self.optimizer.step()
            self.rates.step()
        return float(torch.stack(losses).mean()) if losses else 0.0

    def moments(self) -> dict[str, Tensor]:
        """Tensors of the optimiser's state for each parameter, by `parameter:name`."""
        return {
            f"{parameter}:{name}": value.detach().cpu().clone()
            for parameter, weights in self.net.named_parameters()
            for name, value in self.optimizer.state[weights].items()
            if isinstance(value, Tensor)
        }


def _restore_moments(
    optimizer: torch.optim.Optimizer, net: NeuralComparator, moments: Mapping[str, Tensor]
) -> None:
    """Restore the optimiser's tensors that `_Steps.moments` returned after the share before."""
    weights = dict(net.named_parameters())
    for key, value in moments.items():
        parameter, _, name = key.rpartition(":")
        device = "cpu" if name == "step" else weights[parameter].device
        optimizer.state[weights[parameter]][name] = value.to(device, copy=True)


def _learning_rates(
    optimizer: torch.optim.Optimizer, settings: Training, share: Share
) -> torch.optim.lr_scheduler.LRScheduler:
    """Make the schedule of the learning rate, ready for the first step of the share."""
    if settings.schedule == "one-cycle":
        schedule = partial(
            torch.optim.lr_scheduler.OneCycleLR,
            optimizer,
            settings.lr,
            total_steps=share.total,
            cycle_momentum=False,
        )
        # A new schedule writes its limits into the optimiser, and a schedule that continues reads
        # them there. So a new schedule is made first in both cases.
        rates = schedule()
        if share.first:
            rates = schedule(last_epoch=share.first - 1)
        return rates
    steps_a_decay = settings.lr_decay_epochs * share.epoch
    last_step = share.first - 1
    for group in optimizer.param_groups:
        group["initial_lr"] = settings.lr
        group["lr"] = settings.lr * settings.lr_decay ** max(0, last_step // steps_a_decay)
    return torch.optim.lr_scheduler.StepLR(
        optimizer, steps_a_decay, settings.lr_decay, last_epoch=last_step
    )


def _loss(net: NeuralComparator, batch: MiniBatch, settings: Training) -> Tensor:
    """Weighted loss of the pairs of a mini-batch."""
    with _products(net, settings):
        embedded = net.embed(batch.x).float()
    return pair_loss(net, embedded, batch.winner, batch.loser, batch.weight, loss=settings.loss)


def _products(net: NeuralComparator, settings: Training) -> AbstractContextManager[None]:
    """Context in which a net in training multiplies matrices in the precision of the settings."""
    if settings.precision == "float32" or not net.training:
        return nullcontext()
    return torch.autocast(net.device.type, torch.bfloat16)


def _gradients(
    net: NeuralComparator, batch: MiniBatch, settings: Training, shard: Shard | None
) -> Tensor:
    """Compute a mini-batch's loss and the net's gradients, both summed over all processes."""
    net.zero_grad()
    loss = torch.zeros((), device=net.device)
    if len(batch.weight):
        loss = _loss(net, batch, settings)
        loss.backward()  # type: ignore[no-untyped-call]
    if shard is not None:
        weights = list(net.parameters())
        gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        # All numbers are sent in one message, since each message has a fixed cost.
        flat = torch.cat([loss.detach().view(1), *(grad.reshape(-1) for grad in gradients)])
        total = torch.from_numpy(shard.group.sum(flat.cpu().numpy())).to(flat)
        loss, *sums = torch.split(total, [1, *(w.numel() for w in weights)])
        for w, gradient in zip(weights, sums, strict=True):
            w.grad = gradient.view_as(w)
    return loss.detach().view(())


@torch.no_grad()
def _mean_loss(net: NeuralComparator, pairs: QueryPairs, settings: Training) -> float:
    """Mean loss over all pairs, without dropout."""
    net.eval()
    size = min(AT_ONCE, _VALUES // net.n_features + 1)
    sums = []
    for k, batch in enumerate(pairs.batches(size, None, None, net.device)):
        if len(batch.weight):
            n_in_batch = min(size, len(pairs) - k * size)  # pairs of all processes
            sums.append(_loss(net, batch, settings) * n_in_batch)
    own_sum = math.fsum(map(float, sums))  # the only place that waits for a GPU
    return float(summed(pairs.queries, np.array(own_sum))) / max(len(pairs), 1)
