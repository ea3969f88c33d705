"""RankNet, ListNet and LambdaRank: a net that scores documents, trained by a loss of whole queries.

The rankers differ in their loss and, as in their papers, in the optimizer: gradient descent for
RankNet and ListNet, Adam with weight decay for ListNet* and LambdaRank.

A loss takes three matrices (q, n) of q queries, padded to n documents each: `scores`, `grades`,
which are whole numbers as floats, and `mask`, which is False for padding. It returns (q,) losses.
The order of documents with the same grade does not matter.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from sortnet.comparators import DirectRanker
from sortnet.config import TRAINING, setting
from sortnet.core import I64, Bool, Progress, Queries
from sortnet.core.memory import refuse_too_large
from sortnet.errors import DivergedError
from sortnet.learning.net_learner import OPTIMIZERS
from sortnet.rankers.base import Solved, order_by
from sortnet.rankers.pairwise import NetSettings
from sortnet.threads import one_thread_an_operation

_PAIRS_AT_ONCE = 1 << 22  # pairs of documents in memory, including pairs with padding
_BYTES_A_PAIR = 64  # memory of a pair of documents with its gradient
_MOMENTUM = 0.9  # momentum of SGD
_RATES_OF_SGD = 10  # Adam needs a tenth of the learning rate of SGD
EPOCHS = "Passes over the training queries."
QUERIES = "Number of queries of a mini-batch."
LR = "Highest learning rate of gradient descent; a tenth of it for AdamW."
Loss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
# The score of padding in a softmax. It gives the probability 0, and no infinite number.
_PADDING_SCORE = -1e30


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

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Train the net by `descend`, unless the pairs of a query do not fit into memory.

        Cost: an epoch passes over all documents; with RankNet and LambdaRank over all pairs of
        documents of each query.
        """
        longest = int(train.sizes.max())
        n_bytes = _BYTES_A_PAIR * longest**2
        refuse_too_large(n_bytes, f"the pairs of a query of {longest} documents")
        return descend(self, train, vali, progress)


def descend(config: Any, train: Queries, vali: Queries, progress: Progress) -> Solved:
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


def ranknet(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Compute RankNet's loss: the mean of log(1 + exp(s_j - s_i)) over pairs (i, j) of documents.

    Document i has a higher grade than document j, and s are the scores. Burges et al. 2005,
    Learning to Rank using Gradient Descent, with target 1.

    Returns:
        (q,) losses, 0 for a query without a pair.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(ranknet(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931

    Cost: O(n²) a query.
    """
    weight = ordered(grades, mask).to(scores.dtype)
    return of_pairs(nn.functional.softplus, scores, weight)


def lambdarank(scores: Tensor, grades: Tensor, mask: Tensor, *, weighting: str = "delta") -> Tensor:
    """Compute LambdaRank's loss: the sum over pairs of RankNet's loss times a change of NDCG.

    The change is the change of NDCG if the two documents exchange their ranks. It is a constant for
    the gradient. For documents i and j it is

        |gain_i - gain_j| |1 / log2(1 + rank_i) - 1 / log2(1 + rank_j)| / ideal DCG

    Burges 2010, From RankNet to LambdaRank to LambdaMART (Burges, Ragno and Le 2006).

    Args:
        scores, grades, mask: (q, n) matrices, see the module's docstring.
        weighting: the ranks in the formula. `delta`: ranks by the scores; `ideal`: ranks of the
            ideal ranking, so that a pair always has the same weight. `none`: no weights, the loss
            is `ranknet`.

    >>> grades = torch.tensor([[1.0, 0.0]])
    >>> loss = lambdarank(torch.zeros(1, 2), grades, grades >= 0)  # (1 - 1 / log2(3)) log(2)
    >>> round(float(loss[0]), 4)
    0.2558
    """
    if weighting == "none":
        return ranknet(scores, grades, mask)
    rank_by = scores if weighting == "delta" else grades
    with torch.no_grad():
        change = _ndcg_changes(rank_by, grades.to(scores), mask)
        weight = change * ordered(grades, mask)
    return of_pairs(nn.functional.softplus, scores, weight, mean=False)


def _ndcg_changes(rank_by: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Compute how much NDCG changes, (q, n, n), if documents i and j of a query swap their ranks.

    Args:
        rank_by: (q, n) numbers; the documents of a query are ranked by them, highest first.
        grades: (q, n) grades, whole numbers as floats.
        mask: (q, n) False for padding.
    """
    best = grades.max(dim=1, keepdim=True).values
    # The gains 2^grade - 1 of a query are divided by 2^best, so that no grade overflows.
    gain = (torch.exp2(grades - best) - torch.exp2(-best)) * mask
    discount_of_rank = 1 / torch.log2(torch.arange(grades.shape[1]).to(grades) + 2)
    padded = rank_by.masked_fill(~mask, -torch.inf)
    order = torch.sort(padded, dim=1, descending=True, stable=True).indices
    discount = torch.empty_like(grades)
    discount.scatter_(1, order, discount_of_rank.expand_as(grades))
    ideal = (gain.sort(1, descending=True).values * discount_of_rank).sum(1)[:, None, None]
    gain_difference = gain[:, :, None] - gain[:, None]
    change = gain_difference * (discount[:, :, None] - discount[:, None])
    return change.abs() / torch.where(ideal > 0, ideal, 1.0)


def hinge(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Compute the hinge loss: the mean of max(0, 1 - (s_i - s_j)) over pairs (i, j) of documents.

    Document i has a higher grade than document j, and s are the scores. The loss is never below the
    share of pairs in the wrong order. Pfannschmidt, Gupta and Hüllermeier 2018, Deep architectures
    for learning context-dependent ranking functions, section 4.3.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> hinge(torch.tensor([[0.5, 0.25]]), one, one >= 0).tolist()
    [0.75]

    Cost: O(n²) a query.
    """
    weight = ordered(grades, mask).to(scores.dtype)
    return of_pairs(lambda difference: torch.relu(1 + difference), scores, weight)


def plackett_luce(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Compute the Plackett-Luce loss: Σ_i -log(exp(s_i) / (exp(s_i) + Σ_j exp(s_j))).

    The outer sum runs over all documents i, and the inner sum over the documents j whose grade is
    lower than the grade of document i. The order of documents with equal grades does not matter,
    and a query of one grade has loss 0. If no grades are equal, the loss is the negative logarithm
    of the probability of the ranking by grades in the model of Plackett and Luce (the second loss
    in section 4.3 of Pfannschmidt et al. 2018, see `hinge`).

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(plackett_luce(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931

    Cost: O(n²) a query.
    """
    is_same = torch.eye(scores.shape[1], dtype=torch.bool)
    is_in_sum = ordered(grades, mask) | is_same
    difference = scores[:, None] - scores[:, :, None]  # s_j - s_i
    terms = difference.masked_fill(~is_in_sum, -torch.inf)
    return torch.logsumexp(terms, 2).sum(1)


def listnet(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Compute ListNet's loss: -Σ P(i) log Q(i) with P = softmax(grades) and Q = softmax(scores).

    It is the cross entropy of the probabilities that a document is ranked first (Cao et al. 2007,
    Learning to Rank: From Pairwise Approach to Listwise Approach).

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(listnet(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931
    """
    target = grades.masked_fill(~mask, _PADDING_SCORE).softmax(1)
    logarithms = scores.masked_fill(~mask, _PADDING_SCORE).log_softmax(1)
    return -(target * logarithms).masked_fill(~mask, 0).sum(1)


def softmax(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Compute ListNet's loss, but 0 for a query whose grades are all equal."""
    has_first_grade = (grades == grades[:, :1]) | ~mask
    return listnet(scores, grades, mask).masked_fill(has_first_grade.all(1), 0)


LOSSES: dict[str, Loss] = {
    "logistic": ranknet,
    "hinge": hinge,
    "plackett-luce": plackett_luce,
    "softmax": softmax,
}


def ordered(grades: Tensor, mask: Tensor) -> Tensor:
    """Whether document i of a query has a higher grade than document j, a (q, n, n) tensor."""
    is_higher = grades[:, :, None] > grades[:, None]
    return is_higher & mask[:, :, None] & mask[:, None]


def of_pairs(
    loss: Callable[[Tensor], Tensor], scores: Tensor, weight: Tensor, *, mean: bool = True
) -> Tensor:
    """Add up weight_ij * loss(s_j - s_i) over the pairs of documents i and j of each query, (q,).

    Args:
        loss: a function that is applied to each number of a tensor.
        scores: (q, n) scores s.
        weight: (q, n, n) weights of the pairs.
        mean: whether the sum is divided by the sum of the weights, if that is above 1.
    """
    differences = scores[:, None] - scores[:, :, None]
    total = (loss(differences) * weight).sum((1, 2))
    if not mean:
        return total
    return total / weight.sum((1, 2)).clamp_min(1)
