"""Train a comparator on pairs by its own `loss`; keep the epoch best on validation pairs."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators import Learner, NeuralComparator
from sortnet.comparators.base import one_thread_an_operation
from sortnet.config import Training
from sortnet.errors import DivergedError
from sortnet.types import F32, I64, Pairs, Progress, Queries

_MOST_WEIGHT_DECAY = 0.03
_LEAST_STEPS = 32  # per epoch, if the batch size is not given
_EVALUATED = 1 << 16  # pairs whose loss is computed at a time, which bounds memory


@dataclass(frozen=True)
class Trained:
    """Result of training: epochs run and the one kept (from 1; 0 is the start), and losses.

    For a committee, the mean over its members.
    """

    epochs: float
    kept_epoch: float
    train_loss: float
    vali_loss: float


def train_on_pairs(
    comparator: Learner,
    train: Queries,
    tp: Pairs,
    vali: Queries,
    vp: Pairs,
    how: Training,
    *,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Trained:
    """Minimise the comparator's loss over TP, in place; keep the epoch with the lowest loss on VP.

    A mini-batch is all pairs of some queries, about `batch_size` of them: a document is embedded
    once for all its pairs. A query with more pairs is split at random into equal parts.

    Args:
        comparator: trained from its current weights; a committee member by member, each with
            its own mini-batches.
        train: scaled queries, to whose document numbers TP refers.
        tp: training pairs.
        vali: scaled queries of VP.
        vp: validation pairs; if there are none, the last epoch is kept.
        how: settings.
        seed: of the mini-batches and of dropout.
        progress: called with progress messages.

    Raises:
        DivergedError: if the loss is no longer a number.

    Cost: an epoch embeds every document of a pair once, then compares embeddings; a table of
    pairs and features is never built.
    """
    if how.weight_decay is None:
        how = replace(how, weight_decay=strongest_weight_decay(train.n_docs))
    batch_size = how.batch_size or int(np.clip(len(tp) // 64, 32, 8192))
    ours = _Grouped.of(train, tp, batch_size, seed)
    theirs = _Grouped.of(vali, vp, _EVALUATED, seed)
    if len(comparator.members) == 1:
        with one_thread_an_operation():  # mini-batches are small
            return _train(comparator.members[0], ours, theirs, how, seed, progress)
    seeds = np.random.SeedSequence(seed).generate_state(len(comparator.members))
    stop = threading.Event()

    def of_member(k: int, member: NeuralComparator) -> Trained:
        report = _member_progress(progress, k + 1, seeds, stop)
        return _train(member, ours, theirs, how, int(seeds[k]), report)

    with one_thread_an_operation() as threads, _pool(threads) as pool:
        try:
            each = list(pool.map(of_member, range(len(seeds)), comparator.members))
        except BaseException:
            stop.set()  # Ctrl-C, or a member diverged: do not wait for the others
            raise
    columns = zip(*((t.epochs, t.kept_epoch, t.train_loss, t.vali_loss) for t in each), strict=True)
    return Trained(*(float(np.mean(column)) for column in columns))


def strongest_weight_decay(n_docs: int) -> float:
    """The strongest useful weight decay for n training documents: 100 / n, at most 0.03.

    A penalty on the weights is worth a fixed number of documents, so with more documents each
    needs less of it.

    >>> strongest_weight_decay(25_000)
    0.004
    """
    return min(100 / max(n_docs, 1), _MOST_WEIGHT_DECAY)


def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that do as `one_thread_an_operation` says.

    A new one may share its operations among all cores, whatever was set in that which made it.
    """
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


class _Stopped(Exception):
    """Raised in a member's thread to cancel it."""


def _member_progress(progress: Progress, k: int, members: Sized, stop: threading.Event) -> Progress:
    def report(text: str) -> None:
        if stop.is_set():
            raise _Stopped
        progress(f"member {k}/{len(members)}, {text}")

    return report


@dataclass(frozen=True)
class _Grouped:
    """Pairs by group, and their documents.

    A group is a query, or a part of one with more pairs than a batch.
    """

    features: F32  # (n_docs, d), of all documents
    docs: I64  # (n,) those that occur in pairs, by group, ascending within one
    doc_offsets: I64  # (n_groups + 1,) of a group's part of `docs`
    winner: I64  # (m,) indexes into `docs`, by group
    loser: I64
    offsets: I64  # (n_groups + 1,) of a group's part of the pairs
    batch_size: int

    @classmethod
    def of(cls, queries: Queries, pairs: Pairs, batch_size: int, seed: int) -> _Grouped:
        order = np.argsort(pairs.winner, kind="stable")  # documents are numbered by query
        query = np.searchsorted(queries.offsets, pairs.winner[order], side="right") - 1
        order, owner, offsets = _divided(order, query, batch_size, seed)
        # Each group numbers the documents of its query: a document may be in several groups.
        room = queries.sizes[owner]
        bounds = np.append(0, np.cumsum(room))
        shift = bounds[:-1] - queries.offsets[owner]
        of_pairs = np.repeat(shift, np.diff(offsets))
        used, winner, loser = _numbered(
            pairs.winner[order] + of_pairs, pairs.loser[order] + of_pairs, int(bounds[-1])
        )
        doc_offsets = np.searchsorted(used, bounds)
        docs = used - np.repeat(shift, np.diff(doc_offsets))
        return cls(queries.features, docs, doc_offsets, winner, loser, offsets, batch_size)

    def __len__(self) -> int:
        return len(self.winner)

    def batch(self, groups: I64, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Features of the groups' documents (k, d), and their pairs as indexes into these."""
        docs, doc_starts, _ = _ranges(self.doc_offsets, groups)
        pairs, _, sizes = _ranges(self.offsets, groups)
        shift = np.repeat(doc_starts - self.doc_offsets[groups], sizes)
        arrays = (
            self.features[self.docs[docs]],
            self.winner[pairs] + shift,
            self.loser[pairs] + shift,
        )
        x, winner, loser = (torch.from_numpy(array).to(device) for array in arrays)
        return x, winner, loser

    def batches(self, rng: np.random.Generator | None) -> Iterator[I64]:
        """Groups of about `batch_size` pairs; in random order, given a generator."""
        groups = np.arange(len(self.offsets) - 1)
        if rng is not None:
            rng.shuffle(groups)
        before = np.cumsum(np.diff(self.offsets)[groups])
        cuts = np.flatnonzero(np.diff((before - 1) // self.batch_size)) + 1
        yield from np.split(groups, cuts) if len(groups) else ()


def _divided(order: I64, query: I64, most: int, seed: int) -> tuple[I64, I64, I64]:
    """Group the pairs by query; a query of more than `most` pairs in equal random parts.

    Args:
        order: (m,) pair numbers by query.
        query: (m,) their queries, ascending.

    Returns:
        (m,) the pair numbers by group, (n_groups,) the query of each group, and
        (n_groups + 1,) where each group starts.
    """
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    sizes = np.diff(starts, append=len(query))
    parts = -(-sizes // most)
    if (long := np.repeat(parts > 1, sizes)).any():
        shuffled = np.random.default_rng(seed).random(len(order)) * long
        order = order[np.lexsort((shuffled, query))]  # stable: the other queries stay as they are
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    begins = np.repeat(starts, parts) + part * np.repeat(sizes, parts) // np.repeat(parts, parts)
    return order, np.repeat(query[starts], parts), np.append(begins, len(order))


def _numbered(winner: I64, loser: I64, n: int) -> tuple[I64, I64, I64]:
    """The numbers below n that occur, ascending, and where among them winner and loser are."""
    if n > 16 * len(winner):  # a table of them would be large, and mostly empty
        used = np.unique(np.concatenate((winner, loser)))
        return used, np.searchsorted(used, winner), np.searchsorted(used, loser)
    occurs = np.zeros(n, np.bool_)
    occurs[winner] = occurs[loser] = True
    number = np.cumsum(occurs) - 1
    return np.flatnonzero(occurs), number[winner], number[loser]


def _ranges(offsets: I64, groups: I64) -> tuple[I64, I64, I64]:
    """The indexes of the groups, one group after the other; where each starts; its size."""
    sizes = offsets[groups + 1] - offsets[groups]
    starts = np.cumsum(sizes) - sizes
    indexes = np.arange(sizes.sum()) + np.repeat(offsets[groups] - starts, sizes)
    return indexes, starts, sizes


def _train(
    net: NeuralComparator, tp: _Grouped, vp: _Grouped, how: Training, seed: int, progress: Progress
) -> Trained:
    # Few pairs make one step per pass: too few to learn from in any number of iterations.
    steps = len(list(tp.batches(None)))
    passes = 1 if how.batch_size else max(1, _LEAST_STEPS // max(steps, 1))
    rng = np.random.default_rng(seed)
    net.generator.manual_seed(seed)
    optimizer = _optimizer(net, how)
    stairs = torch.optim.lr_scheduler.StepLR(optimizer, how.lr_decay_epochs, how.lr_decay)
    epoch = kept_epoch = 0
    train_loss, least, kept = np.nan, np.inf, net.state_dict()
    for epoch in range(1, how.epochs + 1):
        progress(f"training, epoch {epoch}/{how.epochs}")
        train_loss = _epoch(net, tp, optimizer, passes, rng)
        if not np.isfinite(train_loss):
            raise DivergedError(
                f"the loss is {train_loss} in epoch {epoch}: try a lr lower than {how.lr:g}, "
                "or another scaling"
            )
        stairs.step()
        vali_loss = _mean_loss(net, vp) if len(vp) else -float(epoch)  # no VP: keep the last
        if vali_loss < least:
            kept_epoch, least, kept = epoch, vali_loss, copy.deepcopy(net.state_dict())
        elif how.patience is not None and epoch - kept_epoch >= how.patience:
            break
    net.load_state_dict(kept)
    return Trained(epoch, kept_epoch, train_loss, least if len(vp) else np.nan)


def _optimizer(net: NeuralComparator, how: Training) -> torch.optim.Optimizer:
    assert how.weight_decay is not None
    weight_decay = how.weight_decay
    if how.optimizer == "sgd":
        return torch.optim.SGD(
            net.parameters(), lr=how.lr, momentum=how.momentum, weight_decay=weight_decay
        )
    return torch.optim.Adam(net.parameters(), lr=how.lr, weight_decay=weight_decay)


def _epoch(
    net: NeuralComparator,
    pairs: _Grouped,
    optimizer: torch.optim.Optimizer,
    passes: int,
    rng: np.random.Generator,
) -> float:
    """A few passes over the pairs, queries in random order; returns the mean training loss."""
    net.train()
    total = torch.zeros((), device=net.device)
    for groups in (g for _ in range(passes) for g in pairs.batches(rng)):
        x, winner, loser = pairs.batch(groups, net.device)
        embedded = net.embed(x)
        losses = net.loss(embedded[winner], embedded[loser])
        optimizer.zero_grad()
        losses.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += losses.detach().sum()
    return float(total) / max(len(pairs) * passes, 1)


@torch.no_grad()
def _mean_loss(net: NeuralComparator, pairs: _Grouped) -> float:
    """The mean loss without dropout."""
    net.eval()
    total = 0.0
    for groups in pairs.batches(None):
        x, winner, loser = pairs.batch(groups, net.device)
        embedded = net.embed(x)
        total += float(net.loss(embedded[winner], embedded[loser]).double().sum())
    return total / max(len(pairs), 1)
