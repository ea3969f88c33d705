"""Train a comparator on pairs by its own `loss`; keep the epoch best on validation pairs."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators import Learner, NeuralComparator
from sortnet.comparators.base import to_device
from sortnet.comparators.products import one_thread_an_operation
from sortnet.config import FIXED, Training
from sortnet.errors import DataError, DivergedError
from sortnet.learning.judges import judge_by_data
from sortnet.types import F32, F64, I32, I64, Pairs, Progress, Queries
from sortnet.types.shard import MOST_BLOCKS, Group, Shard, block_of, gathered, summed

Score = Callable[[NeuralComparator], float]

_SCORED = 4  # epochs of the second half that RankQuality is taken of
_A_DOCUMENT = 6  # pairs for each document of a query with many
_LONG = 500  # but of no more documents than this
_STEPS = 16  # an epoch at least, if the batch size is not given
_LARGEST = 8192  # pairs of a mini-batch, then
# Epochs, if their number is not given: as many documents are gone through, or steps made, whatever
# the number of documents.
_VISITS, _ALL_STEPS, _FEWEST, _MOST = 300_000, 320, 3, 60
# Gradients of several blocks are added up in the first unit in which none is too large.
_UNITS = [2.0**k for k in range(-40, 105, 24)]
_GOLDEN = (5**0.5 - 1) / 2
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

    An epoch passes over at most `query_pairs` pairs of each query, or 6 for each of its documents,
    500 at most, where that is more, drawn at random, query by query: a document is embedded once
    for all its pairs of a mini-batch. `query_pairs` None: over all pairs.

    Args:
        comparator: trained from its current weights; a committee member by member, each with
            its own mini-batches.
        train: scaled queries, to whose document numbers TP refers; where they have weights, a pair
            counts by the product of its documents'.
        tp: training pairs; of one that people or a judge are not sure of, p < 1, the reverse is
            learned too: the two count p and 1 - p.
        vali: scaled queries of VP.
        vp: validation pairs.
        how: settings.
        score: RankQuality of a comparator on V; where the settings keep an epoch by quality, the
            best of a few in the second half of the training is kept. Left out, or where they keep
            it by loss: the epoch of the lowest loss on VP, the last one where VP is empty.
        seed: of the mini-batches and of dropout.
        progress: called with progress messages.

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
        report = _member_progress(progress, k + 1, seeds, stop)
        return _train(member, ours, theirs, how, score, int(seeds[k]), report)

    # Processes that share a model have to do the same in turn.
    alone = train.shard is None or train.shard.group.size == 1
    with one_thread_an_operation() as threads, _pool(threads if alone else 1) as pool:
        try:
            each = list(pool.map(of_member, range(len(seeds)), comparator.members))
        except BaseException:
            stop.set()  # Ctrl-C, or a member diverged: do not wait for the others
            raise
    columns = zip(*((t.epochs, t.kept_epoch, t.train_loss, t.vali_loss) for t in each), strict=True)
    epochs, kept_epoch, train_loss, vali_loss = (float(np.mean(column)) for column in columns)
    seconds = time.perf_counter() - started
    return Trained(epochs, kept_epoch, train_loss, vali_loss, seconds)


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
class _Batch:
    """Some documents' features (k, d); pairs as indexes into them, (m,); the pairs' weights."""

    block: int
    x: Tensor
    winner: Tensor
    loser: Tensor
    weight: Tensor


@dataclass(frozen=True)
class _Plan:
    """The pairs of a block that an epoch passes over, and how they are divided."""

    block: int
    queries: I64  # (n,) in their order
    ends: I64  # (n,) of a query's part of `pairs`
    pairs: I64
    cuts: I64  # (n_batches + 1,) of a mini-batch's part of `pairs`

    def part(self, k: int) -> tuple[I64, I64, I64]:
        """Queries of mini-batch k, the number of pairs of each, and the pairs."""
        begin, end = self.cuts[k : k + 2]
        if begin == end:
            return self.queries[:0], self.ends[:0], self.pairs[:0]
        first, last = np.searchsorted(self.ends, (begin, end - 1), side="right")
        taken = np.diff(np.minimum(self.ends[first : last + 1], end), prepend=begin)
        return self.queries[first : last + 1], taken, self.pairs[begin:end]


@dataclass(frozen=True)
class _ByQuery:
    """Pairs query by query, and the documents that occur in them.

    Of a shard those of its own blocks. A block draws its part of every mini-batch by itself, so
    no process knows more of the others' blocks than their numbers of pairs.
    """

    queries: Queries
    docs: I64  # (n,) documents that occur in pairs, ascending
    doc_offsets: I64  # (n_queries + 1,) of a query's part of `docs`, of queries that have pairs
    winner: I32  # (m,) indexes into `docs`, query by query
    loser: I32
    weight: F32 | None  # (m,) of the pairs, 1 in the mean; None: 1
    offsets: I64  # (n_queries + 1,) of a query's part of the pairs
    blocks: I64  # (n_blocks + 1,) the first query of each block, see `Shard`
    n_pairs: int  # of all blocks
    kept: Tensor | None = None  # (n, d) the features of `docs`, on a GPU

    def __len__(self) -> int:
        return self.n_pairs

    @classmethod
    def of(cls, queries: Queries, pairs: Pairs, pair_weight: str = "none") -> _ByQuery:
        winner, loser, weight = _weighted(queries, pairs, pair_weight)
        occurs = np.zeros(queries.n_docs, np.bool_)
        occurs[winner] = occurs[loser] = True
        number = np.append(np.int32(0), np.cumsum(occurs, dtype=np.int32))  # among those that occur
        # Ordered by the winner, and documents are numbered query by query.
        sizes = np.diff(np.searchsorted(winner, queries.offsets))
        some = np.flatnonzero(sizes)
        n_blocks = 1 if queries.shard is None else queries.shard.n_blocks
        return cls(
            queries,
            np.flatnonzero(occurs),
            np.append(number[queries.offsets[some]], number[-1]),
            number[winner],
            number[loser],
            weight,
            np.append(0, np.cumsum(sizes[some])),
            np.searchsorted(block_of(queries, some), np.arange(n_blocks + 1)),
            int(summed(queries, len(winner))),
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

    def drawn(self, most: int | None) -> I64:
        """(n_queries,) pairs of each query in an epoch, see `train_on_pairs`."""
        sizes = np.diff(self.offsets)
        if most is not None:
            docs = np.minimum(np.diff(self.doc_offsets), _LONG)
            sizes = np.minimum(sizes, np.maximum(_A_DOCUMENT * docs, most))
        return sizes

    def in_epoch(self, most: int | None) -> I64:
        """(n_blocks,) pairs of each block in an epoch, of those of other processes too."""
        ends = np.append(0, np.cumsum(self.drawn(most)))[self.blocks]
        of_blocks: I64 = summed(self.queries, np.diff(ends))
        return of_blocks

    def batches(
        self, size: int, most: int | None, rng: np.random.Generator | None, device: torch.device
    ) -> Iterator[list[_Batch]]:
        """Mini-batches of `size` pairs; given a generator, of queries in random order.

        Of each the parts of the blocks here; of one block all of it.
        """
        of_blocks = self.in_epoch(most)
        n_blocks, n_batches = len(of_blocks), -(-int(of_blocks.sum()) // size)
        rngs = [rng] if n_blocks == 1 or rng is None else rng.spawn(n_blocks)
        plans = [
            self._planned(
                block, int(of_blocks[block]), n_batches, size, most, rngs[block % len(rngs)]
            )
            for block in np.flatnonzero(np.diff(self.blocks)).tolist()
        ]
        for k in range(n_batches):
            parts = [(plan.block, *plan.part(k)) for plan in plans]
            yield [self._batch(*part, device) for part in parts if len(part[-1])]

    def _planned(
        self,
        block: int,
        n_pairs: int,
        n_batches: int,
        size: int,
        most: int | None,
        rng: np.random.Generator | None,
    ) -> _Plan:
        """About `n_pairs` pairs of a block, in `n_batches` mini-batches, of `size` pairs in all."""
        queries = np.arange(*self.blocks[block : block + 2])
        if rng is not None:
            rng.shuffle(queries)
        sizes = self.drawn(most)[queries]
        ends = np.cumsum(sizes)
        if len(self.blocks) > 2:
            cuts = _cuts(sizes, ends, n_pairs * np.arange(n_batches + 1) // n_batches, size, block)
        else:
            last = max(1, int(np.searchsorted(ends, n_pairs, side="right"))) - 1
            cuts = np.minimum(size * np.arange(n_batches + 1), ends[last])
        n = int(np.searchsorted(ends, cuts[-1])) + 1
        queries, sizes, ends = queries[:n], sizes[:n], ends[:n]
        starts, all_of = self.offsets[queries], np.diff(self.offsets)[queries]
        pairs = _ranges(starts, sizes)
        if rng is not None:
            _draw(pairs, starts, all_of, sizes, size, rng)
        return _Plan(block, queries, ends, pairs, cuts)

    def _batch(
        self, block: int, queries: I64, taken: I64, pairs: I64, device: torch.device
    ) -> _Batch:
        """The documents of some queries, and `taken` pairs of each."""
        starts = self.doc_offsets[queries]
        n_docs = self.doc_offsets[queries + 1] - starts
        winner, loser = (each[pairs].astype(np.int64) for each in (self.winner, self.loser))
        if n_docs.sum() > 2 * (len(pairs) + _LONG):  # of a long query few occur in a small batch
            some, places = np.unique(np.append(winner, loser), return_inverse=True)
            winner, loser = np.split(places, 2)
        else:
            some = _ranges(starts, n_docs)
            shift = np.repeat(np.cumsum(n_docs) - n_docs - starts, taken)
            winner, loser = winner + shift, loser + shift
        weight = np.full(len(pairs), 1 / len(pairs), np.float32)
        if self.weight is not None:  # a batch of little weight makes a small step
            weight *= self.weight[pairs]
        if self.kept is None:
            x = to_device(self.queries.features[self.docs[some]], device)
        else:
            x = self.kept[to_device(some, device)]
        return _Batch(block, x, *(to_device(each, device) for each in (winner, loser, weight)))


def _cuts(sizes: I64, ends: I64, cuts: I64, size: int, block: int) -> I64:
    """The cuts, moved to the end of a query: a document is embedded once for all its pairs.

    Up to which part of a query a cut is moved back differs from block to block, and evenly among
    neighbours, so blocks take turns; a query of more than `size` pairs is divided.
    """
    query = np.minimum(np.searchsorted(ends, cuts, side="right"), len(ends) - 1)
    end, of_query = ends[query], sizes[query]
    past = cuts - end + of_query > of_query * (block * _GOLDEN % 1)
    moved: I64 = np.where(of_query > size, cuts, np.where(past, end, end - of_query))
    return moved


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
        weight *= queries.judged.of_pairs(winner, loser)[1]
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
    mean = float(weight.mean(dtype=np.float64)) if len(weight) else 0.0
    if queries.shard is not None and queries.shard.n_blocks == 1:
        mean = float(gathered(queries, np.array([mean] if len(weight) else [], np.float64))[0])
    elif queries.shard is not None:  # by query, so no sum depends on the number of processes
        of_query = np.searchsorted(queries.offsets, winner, side="right") - 1
        sums = gathered(queries, np.bincount(of_query, weight, len(queries)))
        mean = math.fsum(sums) / int(summed(queries, len(weight)))
    return winner, loser, (weight / (mean or 1.0)).astype(np.float32)


def _ranges(starts: I64, sizes: I64) -> I64:
    """The indexes start .. start + size - 1 of each range, one range after the other."""
    before = np.cumsum(sizes) - sizes
    indexes: I64 = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
    return indexes


def _draw(
    pairs: I64, starts: I64, all_of: I64, sizes: I64, size: int, rng: np.random.Generator
) -> None:
    """Draw other pairs, in place, for each query of which not all are taken, with replacement.

    A query that is divided among mini-batches of `size` pairs has its pairs in random order.
    """
    ends = np.cumsum(sizes)
    for query in np.flatnonzero((sizes > size) & (sizes == all_of)):
        own = slice(ends[query] - sizes[query], ends[query])
        pairs[own] = starts[query] + rng.permutation(int(sizes[query]))
    owner = np.repeat(np.arange(len(sizes)), np.where(sizes < all_of, sizes, 0))
    drawn = starts[owner] + (rng.random(len(owner)) * all_of[owner]).astype(np.int64)
    pairs[np.repeat(sizes < all_of, sizes)] = drawn


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
    net.generator.manual_seed(seed)
    size = _batch_size(tp, how)
    batches = max(1, -(-int(tp.in_epoch(how.query_pairs).sum()) // size))
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
        train_loss = _epoch(steps, tp, how, size, passes, rng, seed)
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
    docs = max(1, int(summed(pairs.queries, len(pairs.docs))))
    return int(np.clip(max(_VISITS / docs, _ALL_STEPS / steps), _FEWEST, _MOST))


def _batch_size(pairs: _ByQuery, how: Training) -> int:
    drawn = int(pairs.in_epoch(how.query_pairs).sum())
    return how.batch_size or int(np.clip(drawn // _STEPS, 32, _LARGEST))


def _optimizer(net: NeuralComparator, how: Training) -> torch.optim.Optimizer:
    decayed = FIXED["weight_decay"] if how.weight_decay is None else how.weight_decay
    if how.optimizer == "sgd":
        return torch.optim.SGD(
            net.parameters(), lr=how.lr, momentum=how.momentum, weight_decay=decayed
        )
    kind = torch.optim.AdamW if how.optimizer == "adamw" else torch.optim.Adam
    # One call a step for all weights of a small net.
    return kind(net.parameters(), lr=how.lr, weight_decay=decayed, fused=True)


@dataclass(frozen=True)
class _Steps:
    """The steps of a training: those of its optimiser and of the learning rate."""

    net: NeuralComparator
    optimizer: torch.optim.Optimizer
    rates: torch.optim.lr_scheduler.LRScheduler
    total: int

    @classmethod
    def of(cls, net: NeuralComparator, how: Training, an_epoch: int, epochs: int) -> _Steps:
        optimizer, total = _optimizer(net, how), epochs * an_epoch
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
    if how.loss == "logistic":
        return net.logistic_loss(embedded, batch.winner, batch.loser, batch.weight)
    return batch.weight @ net.loss(embedded[batch.winner], embedded[batch.loser])


def _products(net: NeuralComparator, how: Training) -> AbstractContextManager[None]:
    """Matrices are multiplied in bf16 within it, if the settings say so, in training."""
    if how.precision == "float32" or not net.training:
        return nullcontext()
    return torch.autocast(net.device.type, torch.bfloat16)


def _gradients(net: NeuralComparator, batch: _Batch, how: Training) -> Tensor:
    """The loss of a mini-batch, whose gradients the net then has."""
    net.zero_grad()
    loss = _loss(net, batch, how)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def _begun(
    net: NeuralComparator, shard: Shard | None, parts: list[_Batch], how: Training, seed: int
) -> Callable[[], Tensor | None]:
    """Begin a step; what is returned gives the loss, None where the mini-batch has no pairs, when
    the net has its gradients.

    Those of several blocks are added up as whole numbers, which gives the same in any order.
    """
    if shard is None or shard.n_blocks == 1:
        loss = _gradients(net, parts[0], how) if parts else None
        return lambda: loss
    weights, found = list(net.parameters()), []
    for part in parts:
        net.generator.manual_seed(seed * MOST_BLOCKS + part.block)
        of_part = _gradients(net, part, how)
        slopes = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        found.append((_flat(of_part, slopes).astype(np.float64), len(part.weight)))
    first = shard.group.begin_sum(_sums(found, weights, _UNITS[0]))
    return lambda: _added_up(shard.group, first, found, weights)


def _added_up(
    group: Group,
    first: Callable[[], I64],
    found: Sequence[tuple[F64, int]],
    weights: Sequence[Tensor],
) -> Tensor | None:
    total, unit = first(), _UNITS[0]
    for coarser in _UNITS[1:]:
        if not total[0]:
            break
        total, unit = group.sum(_sums(found, weights, coarser)), coarser
    if not total[1]:
        return None
    loss, slopes = _apart(np.where(total[0], np.nan, total[2:] * (unit / total[1])), weights)
    for w, slope in zip(weights, slopes, strict=True):
        w.grad = slope
    return loss


def _flat(loss: Tensor, of_weights: Sequence[Tensor]) -> F32:
    """The loss and some numbers of each weight, one after the other."""
    flat: F32 = torch.cat([loss.view(1), *(each.reshape(-1) for each in of_weights)]).cpu().numpy()
    return flat


def _apart(flat: F32 | F64, weights: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """What `_flat` has put together."""
    of_all = torch.from_numpy(flat.astype(np.float32)).to(weights[0])
    loss, *each = torch.split(of_all, [1, *(w.numel() for w in weights)])
    return loss[0], [part.view_as(w) for part, w in zip(each, weights, strict=True)]


def _sums(found: Sequence[tuple[F64, int]], weights: Sequence[Tensor], unit: float) -> I64:
    """The parts in which a number is too large or none, the number of pairs, and sums in units."""
    total = np.zeros(3 + sum(w.numel() for w in weights), np.int64)
    for means, n_pairs in found:
        sums = np.rint(means * (n_pairs / unit))
        good = bool(np.abs(sums).max() < 2.0**63 / MOST_BLOCKS)
        total[:2] += (not good, n_pairs)
        total[2:] += sums.astype(np.int64) if good else 0
    return total


def _epoch(
    steps: _Steps,
    pairs: _ByQuery,
    how: Training,
    size: int,
    passes: int,
    rng: np.random.Generator,
    seed: int,
) -> float:
    """A few passes over the pairs, queries in random order; returns the mean training loss."""
    net = steps.net.train()
    losses: list[Tensor] = []
    shard = pairs.queries.shard
    for _ in range(passes):
        under_way: Callable[[], Tensor | None] = lambda: None  # noqa: E731
        # The next mini-batch is made while the sums of other processes are waited for.
        for parts in chain(pairs.batches(size, how.query_pairs, rng, net.device), [None]):
            if (loss := under_way()) is not None:
                losses.append(loss)
                steps.end()
            if parts is not None:
                steps.begin()
                under_way = _begun(net, shard, parts, how, seed + steps.done)
    mean = torch.stack(losses).mean() if losses else torch.zeros(())
    one_block = shard is not None and shard.n_blocks == 1
    return float(_of_owner(net, pairs, mean) if one_block else mean)


@torch.no_grad()
def _of_owner(net: NeuralComparator, pairs: _ByQuery, loss: Tensor) -> Tensor:
    """The loss of the process that has the only block; the net gets its weights."""
    weights = list(net.parameters())
    own = _flat(loss, weights)[None]
    for row in gathered(pairs.queries, own if len(pairs.doc_offsets) > 1 else own[:0]):
        loss, learned = _apart(row, weights)
        for w, found in zip(weights, learned, strict=True):
            w.copy_(found)
    return loss


@torch.no_grad()
def _mean_loss(net: NeuralComparator, pairs: _ByQuery, how: Training) -> float:
    """The mean loss over all pairs, without dropout."""
    net.eval()
    at_once = min(_EVALUATED, _VALUES // net.n_features + 1)
    found = [
        (_loss(net, part, how), len(part.weight))
        for parts in pairs.batches(at_once, None, None, net.device)
        for part in parts
    ]
    sums = [float(loss) * size for loss, size in found]  # now a GPU is waited for, if it was one
    return math.fsum(gathered(pairs.queries, np.array(sums))) / max(len(pairs), 1)
