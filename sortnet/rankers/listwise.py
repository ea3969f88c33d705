"""RankNet, ListNet and LambdaRank: a net that scores documents, trained by a loss of whole queries.

The rankers differ in their loss and, as in their papers, in the optimizer: gradient descent for
RankNet and ListNet, Adam with weight decay for ListNet* and LambdaRank.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators import DirectRanker
from sortnet.comparators.losses import Loss, lambdarank, listnet, ranknet
from sortnet.config import TRAINING, setting
from sortnet.core import I64, Bool, Progress, Queries
from sortnet.core.memory import refuse_too_large
from sortnet.errors import DivergedError
from sortnet.learning.net_learner import OPTIMIZERS
from sortnet.rankers.base import order_by
from sortnet.rankers.pairwise import NetSettings
from sortnet.threads import one_thread_an_operation

_PAIRS_AT_ONCE = 1 << 22  # pairs of documents in memory, including pairs with padding
_BYTES_A_PAIR = 64  # memory of a pair of documents with its gradient
_MOMENTUM = 0.9  # of SGD
_RATES_OF_SGD = 10  # Adam needs a tenth of the learning rate of SGD
EPOCHS = "Passes over the training queries."
QUERIES = "Number of queries of a mini-batch."
LR = "Highest learning rate of gradient descent; a tenth of it for AdamW."


@dataclass(frozen=True)
class ListwiseSettings(NetSettings):
    """Settings of RankNet, ListNet and LambdaRank."""

    kind: ClassVar[str] = "ranknet"
    nesterov: ClassVar[bool] = False
    l1: ClassVar[float] = 0.0
    # fmt: off
    algorithm: str = setting(
        "ranknet", "Loss of a query, and its optimizer: AdamW for listnet-star and lambdarank.",
        TRAINING, choices=("ranknet", "listnet", "listnet-star", "lambdarank"))
    weighting: str = setting(
        "delta",
        "Weight of a pair of lambdarank: the change of NDCG if its documents swap, in the present "
        "ranking (delta) or in the ideal ranking (ideal); or 1 (none).",
        TRAINING, choices=("delta", "ideal", "none"))
    epochs: int = setting(40, EPOCHS, TRAINING, least=1)
    queries: int = setting(8, QUERIES, TRAINING, least=1)
    lr: float = setting(0.03, LR, TRAINING, within="above 0")
    weight_decay: float | None = setting(
        None, "Weight decay; default: 0.03.", TRAINING, within="from 0")
    # fmt: on

    @property
    def optimizer(self) -> str:
        return "adamw" if self.algorithm in ("listnet-star", "lambdarank") else "sgd"

    @property
    def query_loss(self) -> Loss:
        """The loss of a query as a function of its scores and grades."""
        if self.algorithm == "lambdarank":
            return partial(lambdarank, weighting=self.weighting)
        if self.algorithm == "ranknet":
            return ranknet
        return listnet

    def scores_of(self, net: DirectRanker, part: Queries) -> Tensor:
        """Compute the net's scores (n_docs,) of scaled queries, with gradients."""
        return net.score(net.embed(torch.from_numpy(part.features)))

    def solve(
        self, train: Queries, vali: Queries, progress: Progress
    ) -> tuple[DirectRanker, dict[str, Any]]:
        """Train the net by `descend`, unless the pairs of a query do not fit into memory.

        Cost: an epoch passes over all documents; with RankNet and LambdaRank over all pairs of
        documents of each query.
        """
        longest = int(train.sizes.max())
        n_bytes = _BYTES_A_PAIR * longest**2
        refuse_too_large(n_bytes, f"the pairs of a query of {longest} documents")
        return descend(self, train, vali, progress)


def descend(
    config: Any, train: Queries, vali: Queries, progress: Progress
) -> tuple[Any, dict[str, Any]]:
    """Train a net by the mean loss of the training queries; keep the epoch that ranks `vali` best.

    Args:
        config: the settings of the ranker, which make the net and compute its scores.
        train: the training queries, scaled.
        vali: the validation queries, scaled; the best epoch has the highest RankQuality on them.
        progress: called with a line of text at each epoch.

    Returns:
        The net; and the epoch that was kept and the number of epochs, as `epoch` and `epochs`.

    Raises:
        DivergedError: if the loss is no longer a number.
    """
    net = config.net(train.n_features)
    score = partial(config.scores_of, net)
    net.generator.manual_seed(config.seed)
    optimizer = _make_optimizer(net, config)
    n_batches = math.ceil(len(train) / config.queries)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        optimizer.defaults["lr"],
        total_steps=config.epochs * n_batches,
        cycle_momentum=False,
    )
    rng = np.random.default_rng(config.seed)
    best_quality = -np.inf
    best_weights = net.state_dict()
    best_epoch = 0
    with one_thread_an_operation():
        for epoch in range(1, config.epochs + 1):
            progress(f"training, epoch {epoch}/{config.epochs}")
            net.train()
            order = rng.permutation(len(train))
            for first in range(0, len(train), config.queries):
                optimizer.zero_grad()
                batch = order[first : first + config.queries]
                _add_loss_gradient(score, train, batch, config.query_loss, epoch, config.lr)
                _add_l1_gradient(net, config.l1)
                optimizer.step()
                schedule.step()
            net.eval()
            with torch.no_grad():
                scores = score(vali).numpy()
            quality = config.quality_of(vali, order_by(vali, scores))
            if quality > best_quality:
                best_quality = quality
                best_weights = copy.deepcopy(net.state_dict())
                best_epoch = epoch
    net.load_state_dict(best_weights)
    return net, {"epoch": best_epoch, "epochs": config.epochs}


def _make_optimizer(net: Any, config: Any) -> Any:
    """Make the optimizer of the settings.

    The learning rate in the settings is the rate of SGD. Adam gets a tenth of this rate.
    """
    options: dict[str, Any]
    if config.optimizer == "sgd":
        options = {"lr": config.lr, "momentum": _MOMENTUM, "nesterov": config.nesterov}
    else:
        options = {"lr": config.lr / _RATES_OF_SGD}
    weight_decay = float(config.weight_decay or 0)  # None: no weight decay
    return OPTIMIZERS[config.optimizer](net.parameters(), weight_decay=weight_decay, **options)


def _add_l1_gradient(net: Any, l1: float) -> None:
    """Add the gradient of the penalty l1 Σ |weight| to the gradients of a net's weights."""
    if l1 == 0:
        return
    for weights in net.parameters():
        if weights.grad is not None:
            weights.grad.add_(weights.detach().sign(), alpha=l1)


def _add_loss_gradient(
    score: Callable[[Queries], Tensor],
    part: Queries,
    batch: I64,
    loss: Loss,
    epoch: int,
    lr: float,
) -> None:
    """Add the gradient of the mean loss of a batch of queries to the gradients of the weights.

    The queries are scored a few at a time, as many as fit into memory.

    Args:
        score: function that computes the net's scores of queries, with gradients.
        part: all training queries.
        batch: numbers of the queries of the batch.
        loss: function that computes the losses of queries.
        epoch, lr: number of the epoch and learning rate, for the message of an error.

    Raises:
        DivergedError: if the loss is not a number.
    """
    # Queries of similar length are scored together, so that little is padded.
    by_size = batch[np.argsort(part.sizes[batch], kind="stable")]
    longest = max(int(part.sizes[by_size[-1]]), 1)
    n_queries_at_once = max(1, _PAIRS_AT_ONCE // longest**2)
    for first in range(0, len(batch), n_queries_at_once):
        queries = part.take(by_size[first : first + n_queries_at_once])
        if not queries.n_docs:
            continue
        numbers, is_document = padded(queries, np.arange(len(queries)))
        padded_grades = np.where(is_document, queries.grades[numbers], 0)
        grades = torch.from_numpy(padded_grades.astype(np.float32))
        mask = torch.from_numpy(is_document)
        scores = torch.zeros(mask.shape)
        scores[mask] = score(queries)
        total = loss(scores, grades, mask).sum() / len(batch)
        if not torch.isfinite(total):
            raise DivergedError(
                f"the loss is {total.item()} in epoch {epoch}: try a lr lower than {lr:g}, "
                "or another scaling"
            )
        total.backward()  # type: ignore[no-untyped-call]


def padded(part: Queries, batch: I64) -> tuple[I64, Bool]:
    """List the document numbers of queries in rows that are padded with 0 to the longest query.

    Args:
        part: all queries.
        batch: (q,) numbers of the queries to list.

    Returns:
        Document numbers (q, n), where n is the length of the longest query; and a mask (q, n) that
        is true for a document and false for padding.
    """
    sizes = part.sizes[batch, None]
    position = np.arange(sizes.max())
    is_document = position < sizes
    numbers = np.where(is_document, part.offsets[batch, None] + position, 0)
    return numbers, is_document
