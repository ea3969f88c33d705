"""Train a comparator on pairs by its own `loss`; keep the epoch best on validation pairs."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sortnet.comparators import Learner, NeuralComparator
from sortnet.comparators.base import to_device
from sortnet.comparators.losses import pair_loss
from sortnet.config import FIXED, Training
from sortnet.errors import DataError, DivergedError
from sortnet.learning.judges import judge_by_data
from sortnet.threads import one_thread_an_operation
from sortnet.types import F32, F64, I32, I64, Pairs, Progress, Queries
from sortnet.types.shard import Shard, before, gathered, summed

Score = Callable[[NeuralComparator], float]
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}

_SCORED = 4  # epochs of the second half that RankQuality is taken of
_A_DOCUMENT = 6  # pairs for each document of a query with many
_LONG = 500  # but of no more documents than this
_STEPS = 16  # an epoch at least, if the batch size is not given
_LARGEST = 8192  # pairs of a mini-batch, then
# Epochs, if their number is not given: as many documents are gone through, or steps made, whatever
# the number of documents.
_VISITS, _ALL_STEPS, _FEWEST, _MOST = 300_000, 320, 3, 60
_EVALUATED = 1 << 16  # pairs whose loss is computed at a time, which bounds memory,
_VALUES = 1 << 24  # fewer where documents have many features


@dataclass(frozen=True)
class Trained:
    """Result of training: epochs run and the one kept (from 1; 0 is the start), and losses.

    For a committee of nets, the mean over its members. `seconds` are by the clock.
    """

    epochs: float
    kept_epoch: float
    train_loss: float
    vali_loss: float
    seconds: float = 0.0


NONE = Trained(0, 0, math.nan, math.nan)  # nothing was trained


def train_on_pairs(
    comparator: Learner,
    train: Queries,
    tp: Pairs,
    vali: Queries,
    vp: Pairs,
    how: Training,
    *,
    score: Score | None = None,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Trained:
    """Minimise the comparator's loss over TP, in place; keep the best epoch.

    An epoch passes over `query_pairs` pairs of each query at most (None: all), or 6 for each of its
    documents, of 500 at most, where that is more; they are drawn at random, query by query: a
    document is embedded once for all its pairs of a mini-batch.

    Args:
        comparator: trained from its current weights; a committee member by member, each with
            its own mini-batches.
        train: scaled queries, to whose document numbers TP refers; where they have weights, a pair
            counts by the product of its documents'.
        tp: training pairs; of one that people or a judge are not sure of, p < 1, the reverse is
            learned too: the two count p and 1 - p.
        score: RankQuality of a comparator on V, by which the best of a few epochs in the second
            half is kept. Left out, or where the settings keep it by loss: the epoch of the lowest
            loss on VP, the last one where VP is empty.

    Raises:
        DataError: if all pairs of TP have weight 0.
        DivergedError: if the loss is no longer a number.

    Cost: an epoch embeds every document of a pair about once, then compares embeddings; a table
    of pairs and features is never built.
    """
    started, device = time.perf_counter(), comparator.members[0].device
    ours, theirs = (
        _ByQuery.of(*each, how.pair_weight).kept_on(device) for each in ((train, tp), (vali, vp))
    )
    if ours.weight is not None and not summed(train, np.count_nonzero(ours.weight)):
        raise DataError(f"{train.source}: all pairs to learn from have weight 0")
    score = score if how.keep == "quality" else None
    if len(comparator.members) == 1:
        with one_thread_an_operation():
            found = _train(comparator.members[0], ours, theirs, how, score, seed, progress)
        return replace(found, seconds=time.perf_counter() - started)
    seeds = np.random.SeedSequence(seed).generate_state(len(comparator.members))
    stop = threading.Event()

    def of_member(k: int, member: NeuralComparator) -> Trained:
        def report(text: str) -> None:
            if stop.is_set():
                raise _Stopped
            progress(f"member {k + 1}/{len(seeds)}, {text}")

        return _train(member, ours, theirs, how, score, int(seeds[k]), report)

    # Processes that share a model have to do the same in turn.
    alone = train.shard is None or train.shard.group.size == 1
    # A new thread may share its operations among all cores, whatever was set in that which made it.
    made = partial(ThreadPoolExecutor, initializer=torch.set_num_threads, initargs=(1,))
    with one_thread_an_operation() as threads, made(threads if alone else 1) as pool:
        try:
            each = list(pool.map(of_member, range(len(seeds)), comparator.members))
        except BaseException:
            stop.set()  # Ctrl-C, or a member diverged: do not wait for the others
            raise
    columns = zip(*((t.epochs, t.kept_epoch, t.train_loss, t.vali_loss) for t in each), strict=True)
    epochs, kept_epoch, train_loss, vali_loss = (float(np.mean(column)) for column in columns)
    seconds = time.perf_counter() - started
    return Trained(epochs, kept_epoch, train_loss, vali_loss, seconds)


class _Stopped(Exception):
    """Raised in a member's thread to cancel it."""


@dataclass(frozen=True)
class _Batch:
    """Some documents' features (k, d); pairs as indexes into them, (m,); the pairs' weights."""

    x: Tensor
    winner: Tensor
    loser: Tensor
    weight: Tensor


@dataclass(frozen=True)
class _Parts:
    """The part of a mini-batch that each of some queries has, (n,) each."""

    queries: I64  # among the own ones that have pairs
    low: I64  # pairs of the query in mini-batches before
    taken: I64  # in this one
    sizes: I64  # in the epoch


@dataclass(frozen=True)
class _ByQuery:
    """Pairs query by query, and the documents that occur in them.

    Processes that share a training plan the same mini-batches, and each has the pairs of its own
    queries: a gradient differs from that of one process by the rounding of a sum.
    """

    queries: Queries
    docs: I64  # (n,) documents that occur in pairs, ascending
    doc_offsets: I64  # (n_own + 1,) of a query's part of `docs`, of own queries that have pairs
    winner: I32  # (m,) indexes into `docs`, query by query
    loser: I32
    weight: F32 | None  # (m,) of the pairs, 1 in the mean; None: 1
    offsets: I64  # (n_own + 1,) of a query's part of the pairs
    n_pairs: I64  # (n_queries,) of each query that has some, those of other processes too
    n_docs: I64  # (n_queries,) that occur in them
    first: int  # the number of the first own query among these
    kept: Tensor | None = None  # (n, d) the features of `docs`, on a GPU

    def __len__(self) -> int:
        return int(self.n_pairs.sum())

    @classmethod
    def of(cls, queries: Queries, pairs: Pairs, pair_weight: str = "none") -> _ByQuery:
        winner, loser, weight = _weighted(queries, pairs, pair_weight)
        occurs = np.zeros(queries.n_docs, np.bool_)
        occurs[winner] = occurs[loser] = True
        number = np.append(np.int32(0), np.cumsum(occurs, dtype=np.int32))  # among those that occur
        # Ordered by the winner, and documents are numbered query by query.
        sizes = np.diff(np.searchsorted(winner, queries.offsets))
        some = np.flatnonzero(sizes)
        doc_offsets = np.append(number[queries.offsets[some]], number[-1]).astype(np.int64)
        own = np.stack((sizes[some], np.diff(doc_offsets)), axis=1)
        n_pairs, n_docs = gathered(queries, own).T
        return cls(
            queries,
            np.flatnonzero(occurs),
            doc_offsets,
            number[winner],
            number[loser],
            weight,
            np.append(0, np.cumsum(sizes[some])),
            n_pairs,
            n_docs,
            before(queries, len(some)),
        )

    def kept_on(self, device: torch.device) -> _ByQuery:
        """With the documents' features on a GPU, if they take at most a quarter of its free memory.

        Else those of a mini-batch are sent with it.
        """
        size = 4 * len(self.docs) * self.queries.n_features
        if device.type != "cuda" or size > torch.cuda.mem_get_info(device)[0] // 4:
            return self
        return replace(self, kept=self._features(device))

    def _features(self, device: torch.device) -> Tensor:
        starts = range(0, max(len(self.docs), 1), _EVALUATED)
        rows = (self.docs[start : start + _EVALUATED] for start in starts)
        return torch.cat([to_device(self.queries.features[some], device) for some in rows])

    def in_epoch(self, most: int | None) -> I64:
        """(n_queries,) pairs of each query in an epoch, see `train_on_pairs`."""
        if most is None:
            return self.n_pairs
        documents = np.minimum(self.n_docs, _LONG)
        drawn: I64 = np.minimum(self.n_pairs, np.maximum(_A_DOCUMENT * documents, most))
        return drawn

    def batches(
        self, size: int, most: int | None, rng: np.random.Generator | None, device: torch.device
    ) -> Iterator[_Batch]:
        """Mini-batches of `size` pairs, of each the own ones; given a generator, of queries in
        random order, and of those that give only some of their pairs other ones.
        """
        order, seed = np.arange(len(self.n_pairs)), 0
        if rng is not None:
            rng.shuffle(order)
            seed = int(rng.integers(1 << 62))

        @lru_cache(2)  # of a query that is divided among mini-batches
        def shuffled(query: int, n: int) -> I64:
            places: I64 = np.random.default_rng([seed, query]).permutation(n)
            return places

        sizes = self.in_epoch(most)[order]
        ends = np.cumsum(sizes)
        for begin in range(0, int(sizes.sum()), size):
            end = min(begin + size, int(ends[-1]))
            first, last = np.searchsorted(ends, (begin, end - 1), side="right")
            here = slice(first, last + 1)
            starts = ends[here] - sizes[here]
            low = np.maximum(begin - starts, 0)
            taken = np.minimum(end - starts, sizes[here]) - low
            queries = order[here] - self.first
            own = (queries >= 0) & (queries < len(self.offsets) - 1)
            parts = _Parts(queries[own], low[own], taken[own], sizes[here][own])
            pairs = _ranges(self.offsets[parts.queries] + parts.low, parts.taken)
            if rng is not None:
                bits = rng.integers(1 << 32, size=end - begin, dtype=np.uint32)
                self._draw(pairs, parts, bits[np.repeat(own, taken)], shuffled)
            yield self._batch(parts, pairs, end - begin, device)

    def _draw(
        self, pairs: I64, parts: _Parts, bits: NDArray[np.uint32], shuffled: Callable[..., I64]
    ) -> None:
        """Draw other pairs, in place, for each query of which not all are taken, with replacement.

        A query that is divided among mini-batches has its pairs in random order.
        """
        queries, taken = parts.queries, parts.taken
        firsts, all_of = self.offsets[queries], np.diff(self.offsets)[queries]
        some = parts.sizes < all_of
        drawn, n = np.repeat(some, taken), taken[some]
        at = bits[drawn].astype(np.uint64) * np.repeat(all_of[some], n).astype(np.uint64)
        pairs[drawn] = np.repeat(firsts[some], n) + (at >> np.uint64(32)).astype(np.int64)
        ends = np.cumsum(taken)
        for k in np.flatnonzero(~some & (taken < all_of)).tolist():
            order = shuffled(int(queries[k]) + self.first, int(all_of[k]))
            here = order[parts.low[k] : parts.low[k] + taken[k]]
            pairs[ends[k] - taken[k] : ends[k]] = firsts[k] + here

    def _batch(self, parts: _Parts, pairs: I64, of_all: int, device: torch.device) -> _Batch:
        """The documents of some queries, and their pairs: `of_all` with those of others."""
        starts = self.doc_offsets[parts.queries]
        n_docs = self.doc_offsets[parts.queries + 1] - starts
        winner, loser = (each[pairs].astype(np.int64) for each in (self.winner, self.loser))
        if n_docs.sum() > 2 * (len(pairs) + _LONG):  # of a long query few occur in a small batch
            some, places = np.unique(np.append(winner, loser), return_inverse=True)
            winner, loser = np.split(places, 2)
        else:
            some = _ranges(starts, n_docs)
            shift = np.repeat(np.cumsum(n_docs) - n_docs - starts, parts.taken)
            winner, loser = winner + shift, loser + shift
        weight = np.full(len(pairs), 1 / of_all, np.float32)
        if self.weight is not None:  # a batch of little weight makes a small step
            weight *= self.weight[pairs]
        if self.kept is None:
            x = to_device(self.queries.features[self.docs[some]], device)
        else:
            x = self.kept[to_device(some, device)]
        return _Batch(x, *(to_device(each, device) for each in (winner, loser, weight)))


def _weighted(queries: Queries, pairs: Pairs, pair_weight: str) -> tuple[I32, I32, F32 | None]:
    """Winners, losers and weights of the pairs, 1 in the mean unless all are 0; None: 1. Ordered by
    the winner.

    The weight of a pair is that of its judgement times those of its documents, and times the grade
    of the better one if `pair_weight` says so.
    """
    winner, loser = pairs.winner.astype(np.int32), pairs.loser.astype(np.int32)
    weight: F32 | F64 = np.ones(len(pairs), np.float32)
    if queries.weights is not None:  # a product may leave float32's range
        weight = queries.weights[winner].astype(np.float64) * queries.weights[loser]
    if pair_weight == "grade":
        weight *= queries.grades[winner]
    if queries.judged is not None:
        weight *= queries.judged.said_of(winner, loser)[1]
        p = weight.copy()
        for start in range(0, len(p), _EVALUATED):
            some = slice(start, start + _EVALUATED)
            p[some] = np.nan_to_num(judge_by_data(queries, winner[some], loser[some]), nan=1.0)
        if (unsure := p < 1).any():
            weight = np.append(weight * p, (weight * (1 - p))[unsure])
            winner, loser = np.append(winner, loser[unsure]), np.append(loser, winner[unsure])
            order = np.argsort(winner, kind="stable")
            winner, loser, weight = winner[order], loser[order], weight[order]
    extremes = [weight.min(), weight.max()] if len(weight) else []
    ends = gathered(queries, np.array(extremes, np.float64))
    if not len(ends) or (ends[0] > 0 and (ends == ends[0]).all()):
        return winner, loser, None
    total, n = summed(queries, np.array([weight.sum(dtype=np.float64), len(weight)]))
    return winner, loser, (weight / (total / n or 1.0)).astype(np.float32)


def _ranges(starts: I64, sizes: I64) -> I64:
    """The indexes start .. start + size - 1 of each range, one range after the other."""
    before = np.cumsum(sizes) - sizes
    indexes: I64 = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
    return indexes


def _train(
    net: NeuralComparator,
    tp: _ByQuery,
    vp: _ByQuery,
    how: Training,
    score: Score | None,
    seed: int,
    progress: Progress,
) -> Trained:
    rng = np.random.default_rng(seed)
    shard = tp.queries.shard
    net.generator.manual_seed(seed + (0 if shard is None else shard.group.rank))
    drawn = int(tp.in_epoch(how.query_pairs).sum())
    size = how.batch_size or int(np.clip(drawn // _STEPS, 32, _LARGEST))
    batches = max(1, -(-drawn // size))
    # Few pairs make few steps an epoch: too few to learn from in any number of iterations.
    passes = 1 if how.batch_size else max(1, _STEPS // batches)
    epochs = how.epochs or _epochs(tp, batches * passes)
    steps = _Steps.of(net, how, batches * passes, epochs)
    every = max(1, epochs // 2 // _SCORED)
    epoch = kept_epoch = 0
    train_loss, kept = np.nan, net.state_dict()
    best = (-np.inf, 0)  # the value, and of equals the last where it is no loss
    for epoch in range(1, epochs + 1):
        progress(f"training, epoch {epoch}/{epochs}")
        train_loss = _epoch(steps, tp, how, size, passes, rng)
        if not np.isfinite(train_loss):
            raise DivergedError(
                f"the loss is {train_loss} in epoch {epoch}: try a lr lower than {how.lr:g}, "
                "or another scaling"
            )
        if score is None:
            value = (-_mean_loss(net, vp, how), -epoch) if len(vp) else (0.0, epoch)
        elif 2 * epoch > epochs and (epochs - epoch) % every == 0:
            value = (score(net), epoch)
        else:
            continue
        if value > best:
            kept_epoch, best, kept = epoch, value, copy.deepcopy(net.state_dict())
        elif how.patience is not None and epoch - kept_epoch >= how.patience:
            break
    net.load_state_dict(kept)
    return Trained(epoch, kept_epoch, train_loss, _mean_loss(net, vp, how) if len(vp) else np.nan)


def _epochs(pairs: _ByQuery, steps: int) -> int:
    """As many epochs of that many steps as the number of documents asks for."""
    docs = max(1, int(pairs.n_docs.sum()))
    return int(np.clip(max(_VISITS / docs, _ALL_STEPS / steps), _FEWEST, _MOST))


@dataclass(frozen=True)
class _Steps:
    """The steps of a training: those of its optimiser and of the learning rate."""

    net: NeuralComparator
    optimizer: torch.optim.Optimizer
    rates: torch.optim.lr_scheduler.LRScheduler
    total: int

    @classmethod
    def of(cls, net: NeuralComparator, how: Training, an_epoch: int, epochs: int) -> _Steps:
        decayed = FIXED["weight_decay"] if how.weight_decay is None else how.weight_decay
        given = {"lr": how.lr, "weight_decay": decayed}
        # Fused: one call a step for all weights of a small net.
        given |= {"momentum": how.momentum} if how.optimizer == "sgd" else {"fused": True}
        optimizer, total = OPTIMIZERS[how.optimizer](net.parameters(), **given), epochs * an_epoch
        rates: torch.optim.lr_scheduler.LRScheduler
        if how.schedule == "one-cycle":
            rates = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, how.lr, total_steps=total, cycle_momentum=False
            )
        else:
            every = how.lr_decay_epochs * an_epoch
            rates = torch.optim.lr_scheduler.StepLR(optimizer, every, how.lr_decay)
        return cls(net, optimizer, rates, total)

    @property
    def done(self) -> int:
        return int(self.rates.last_epoch)

    def begin(self) -> None:
        self.net.anneal(self.done / self.total)

    def end(self) -> None:
        self.optimizer.step()
        self.rates.step()


def _loss(net: NeuralComparator, batch: _Batch, how: Training) -> Tensor:
    """The mean loss of a mini-batch, by the weights of its pairs."""
    with _products(net, how):
        embedded = net.embed(batch.x).float()
    return pair_loss(net, embedded, batch.winner, batch.loser, batch.weight, loss=how.loss)


def _products(net: NeuralComparator, how: Training) -> AbstractContextManager[None]:
    """Matrices are multiplied in bf16 within it, if the settings say so, in training."""
    if how.precision == "float32" or not net.training:
        return nullcontext()
    return torch.autocast(net.device.type, torch.bfloat16)


def _gradients(net: NeuralComparator, batch: _Batch, how: Training, shard: Shard | None) -> Tensor:
    """The loss of a mini-batch, whose gradients the net then has: sums over all processes."""
    net.zero_grad()
    loss = torch.zeros((), device=net.device)
    if len(batch.weight):
        loss = _loss(net, batch, how)
        loss.backward()  # type: ignore[no-untyped-call]
    if shard is not None:
        weights = list(net.parameters())
        slopes = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        flat = torch.cat([loss.detach().view(1), *(slope.reshape(-1) for slope in slopes)])
        total = torch.from_numpy(shard.group.sum(flat.cpu().numpy())).to(flat)
        loss, *parts = torch.split(total, [1, *(w.numel() for w in weights)])
        for w, part in zip(weights, parts, strict=True):
            w.grad = part.view_as(w)
    return loss.detach().view(())


def _epoch(
    steps: _Steps,
    pairs: _ByQuery,
    how: Training,
    size: int,
    passes: int,
    rng: np.random.Generator,
) -> float:
    """A few passes over the pairs, queries in random order; returns the mean training loss."""
    net = steps.net.train()
    losses: list[Tensor] = []
    for _ in range(passes):
        for batch in pairs.batches(size, how.query_pairs, rng, net.device):
            steps.begin()
            losses.append(_gradients(net, batch, how, pairs.queries.shard))
            steps.end()
    return float(torch.stack(losses).mean()) if losses else 0.0


@torch.no_grad()
def _mean_loss(net: NeuralComparator, pairs: _ByQuery, how: Training) -> float:
    """The mean loss over all pairs, without dropout."""
    net.eval()
    at_once = min(_EVALUATED, _VALUES // net.n_features + 1)
    shares = [
        _loss(net, batch, how) * min(at_once, len(pairs) - k * at_once)
        for k, batch in enumerate(pairs.batches(at_once, None, None, net.device))
        if len(batch.weight)
    ]
    of_own = math.fsum(map(float, shares))  # now a GPU is waited for, if it was one
    return float(summed(pairs.queries, np.array(of_own))) / max(len(pairs), 1)
