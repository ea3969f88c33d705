"""Train a comparator on pairs, and keep the epoch that is best on validation pairs."""

from __future__ import annotations

import copy
from collections.abc import Sized
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators import Committee, NeuralComparator
from sortnet.config import Training
from sortnet.errors import DivergedError
from sortnet.types import F32, Pairs, Progress

_EVALUATED = 1 << 16  # pairs whose loss is taken at a time, which bounds memory


@dataclass(frozen=True)
class Trained:
    """What training did: epochs run and the one kept (from 1; 0 is the start), losses by epoch.

    For a committee, the mean over its members.
    """

    epochs: float
    kept_epoch: float
    train_loss: float
    vali_loss: float


def train_on_pairs(
    comparator: NeuralComparator | Committee,
    train: F32,
    tp: Pairs,
    vali: F32,
    vp: Pairs,
    how: Training,
    *,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Trained:
    """Minimise the comparator's loss over TP, in place; the epoch with the least on VP is kept.

    Args:
        comparator: trained from the weights it has; a committee member by member, each with
            mini-batches of its own.
        train: (n_docs, n_features) scaled features that TP's document numbers speak of.
        tp: training pairs.
        vali: (m_docs, n_features) scaled features of VP's documents.
        vp: validation pairs; with none of them the last epoch is kept.
        how: settings.
        seed: of the mini-batches and of dropout.
        progress: told which epoch is run, as text.

    Raises:
        DivergedError: if the loss is no longer a number.

    Cost: a mini-batch embeds its documents, then compares embeddings; no table of pairs is built.
    """
    if isinstance(comparator, Committee):
        seeds = np.random.SeedSequence(seed).generate_state(len(comparator.members))
        each = [
            train_on_pairs(
                member,
                train,
                tp,
                vali,
                vp,
                how,
                seed=int(s),
                progress=_numbered(progress, k, seeds),
            )
            for k, (member, s) in enumerate(zip(comparator.members, seeds, strict=True), 1)
        ]
        columns = zip(
            *((t.epochs, t.kept_epoch, t.train_loss, t.vali_loss) for t in each), strict=True
        )
        return Trained(*(float(np.mean(column)) for column in columns))
    ours, theirs = _Indexed.of(train, tp, comparator), _Indexed.of(vali, vp, comparator)
    return _train(comparator, ours, theirs, how, seed, progress)


def _numbered(progress: Progress, k: int, members: Sized) -> Progress:
    return lambda text: progress(f"member {k}/{len(members)}, {text}")


@dataclass(frozen=True)
class _Indexed:
    """The documents that occur in pairs, and the pairs as indexes into them."""

    x: Tensor  # (n, d)
    winner: Tensor  # (m,)
    loser: Tensor  # (m,)

    @classmethod
    def of(cls, features: F32, pairs: Pairs, comparator: NeuralComparator) -> _Indexed:
        used = np.zeros(len(features), np.bool_)
        used[pairs.winner] = used[pairs.loser] = True
        number = np.cumsum(used) - 1
        device = comparator.device
        return cls(
            torch.from_numpy(features[used]).to(device),
            torch.from_numpy(number[pairs.winner]).to(device),
            torch.from_numpy(number[pairs.loser]).to(device),
        )

    def __len__(self) -> int:
        return len(self.winner)


def _train(
    net: NeuralComparator,
    tp: _Indexed,
    vp: _Indexed,
    how: Training,
    seed: int,
    progress: Progress,
) -> Trained:
    generator = torch.Generator().manual_seed(seed)
    net.generator.manual_seed(seed)
    optimizer = _optimizer(net, how)
    stairs = torch.optim.lr_scheduler.StepLR(optimizer, how.lr_decay_epochs, how.lr_decay)
    epoch = kept_epoch = 0
    train_loss, least, kept = np.nan, np.inf, net.state_dict()
    for epoch in range(1, how.epochs + 1):
        progress(f"training, epoch {epoch}/{how.epochs}")
        train_loss = _epoch(net, tp, optimizer, how.batch_size, generator)
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
    if how.optimizer == "sgd":
        return torch.optim.SGD(
            net.parameters(), lr=how.lr, momentum=how.momentum, weight_decay=how.weight_decay
        )
    return torch.optim.Adam(net.parameters(), lr=how.lr, weight_decay=how.weight_decay)


def _epoch(
    net: NeuralComparator,
    pairs: _Indexed,
    optimizer: torch.optim.Optimizer,
    batch_size: int,
    generator: torch.Generator,
) -> float:
    """One pass over the pairs in random order; the mean loss on the way."""
    net.train()
    total = torch.zeros((), device=net.device)
    shuffled = torch.randperm(len(pairs), generator=generator).to(net.device)
    for batch in torch.split(shuffled, batch_size):
        documents = torch.cat((pairs.winner[batch], pairs.loser[batch]))
        embedded = net.embed(pairs.x[documents])
        losses = net.loss(embedded[: len(batch)], embedded[len(batch) :])
        optimizer.zero_grad()
        losses.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += losses.detach().sum()
    return float(total) / max(len(pairs), 1)


@torch.no_grad()
def _mean_loss(net: NeuralComparator, pairs: _Indexed) -> float:
    """The mean loss without dropout; every document is embedded once."""
    net.eval()
    embedded = net.embed(pairs.x)
    total = torch.zeros((), dtype=torch.float64, device=net.device)
    for some in torch.split(torch.arange(len(pairs), device=net.device), _EVALUATED):
        losses = net.loss(embedded[pairs.winner[some]], embedded[pairs.loser[some]])
        total += losses.double().sum()
    return float(total) / max(len(pairs), 1)
