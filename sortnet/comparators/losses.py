"""Losses: of pairs, by which comparators learn, and of whole queries.

Those of queries take scores, (q, n) of q queries, padded; grades, (q, n) whole numbers as floats;
there, (q, n) whether there is a document; and return (q,) losses. Documents of one grade are in no
order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from sortnet.comparators.base import NeuralComparator

Loss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

_NOWHERE = -1e30  # the score of what is not there: its probability is 0, and no number is infinite


def pair_loss(
    net: NeuralComparator, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor,
    *, loss: str,
) -> Tensor:  # fmt: skip
    """The weighted sum of the losses of pairs, ().

    Args:
        embedded: (n, width) of the documents, see `NeuralComparator.embed`.
        winner, loser: (m,) document numbers: the first of a pair should be first.
        weight: (m,) of the pairs.
        loss: `logistic`: log(1 + exp(-logit)), that of RankNet; `squared`: the comparator's own,
            its paper's: (1 - N_>)² + N_<² of CmpNN, (1 - margin)² of DirectRanker.

    Cost: O(m width).
    """
    if loss == "logistic":
        return net.logistic_loss(embedded, winner, loser, weight)
    return weight @ net.loss(embedded[winner], embedded[loser])


def ranknet(scores: Tensor, grades: Tensor, there: Tensor) -> Tensor:
    """log(1 + exp(-(s_i - s_j))), the mean over a query's pairs of grade i > grade j.

    Burges et al. 2005, Learning to Rank using Gradient Descent, with target 1.

    Returns:
        (q,) losses, 0 of a query without a pair.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(ranknet(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931

    Cost: O(n²) a query.
    """
    return of_pairs(nn.functional.softplus, scores, ordered(grades, there).to(scores.dtype))


def lambdarank(
    scores: Tensor, grades: Tensor, there: Tensor, *, weighting: str = "delta"
) -> Tensor:
    """As `ranknet`, but a pair counts by how much swapping its documents changes NDCG; a sum.

    weight of i, j = abs(gain_i - gain_j) abs(1 / log2(1 + rank_i) - 1 / log2(1 + rank_j)) / ideal
    DCG, a constant for the gradient. Burges 2010, From RankNet to LambdaRank to LambdaMART
    (Burges, Ragno and Le 2006).

    Args:
        weighting: `delta`: ranks by the scores; `ideal`: ranks of the best ranking there is, so
            that a pair always has the same weight; `none`: `ranknet`.

    >>> grades = torch.tensor([[1.0, 0.0]])
    >>> loss = lambdarank(torch.zeros(1, 2), grades, grades >= 0)  # (1 - 1 / log2(3)) log(2)
    >>> round(float(loss[0]), 4)
    0.2558
    """
    if weighting == "none":
        return ranknet(scores, grades, there)
    ranked = scores if weighting == "delta" else grades
    with torch.no_grad():
        best = grades.max(dim=1, keepdim=True).values
        # Relative to the best gain of the query, so that no grade overflows.
        gain = (torch.exp2(grades - best) - torch.exp2(-best)) * there
        discount = 1 / torch.log2(torch.arange(scores.shape[1]).to(scores) + 2)
        placed = ranked.masked_fill(~there, -torch.inf)
        place = torch.sort(placed, dim=1, descending=True, stable=True).indices
        of_doc = torch.empty_like(scores).scatter_(1, place, discount.expand_as(scores))
        ideal = (gain.sort(1, descending=True).values * discount).sum(1)[:, None, None]
        change = (gain[:, :, None] - gain[:, None]) * (of_doc[:, :, None] - of_doc[:, None])
        weight = change.abs() / torch.where(ideal > 0, ideal, 1.0) * ordered(grades, there)
    return of_pairs(nn.functional.softplus, scores, weight, mean=False)


def hinge(scores: Tensor, grades: Tensor, there: Tensor) -> Tensor:
    """max(0, 1 - (s_i - s_j)), the mean over a query's pairs of grade i > grade j.

    It is never below the share of pairs in the wrong order. Pfannschmidt, Gupta and Hüllermeier
    2018, Deep architectures for learning context-dependent ranking functions, section 4.3.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> hinge(torch.tensor([[0.5, 0.25]]), one, one >= 0).tolist()
    [0.75]

    Cost: O(n²) a query.
    """
    weight = ordered(grades, there).to(scores.dtype)
    return of_pairs(lambda behind: torch.relu(1 + behind), scores, weight)


def plackett_luce(scores: Tensor, grades: Tensor, there: Tensor) -> Tensor:
    """-Σ log(exp(s_i) / (exp(s_i) + Σ exp(s_j))), j of lower grades than i.

    Without ties the negative logarithm of the ranking's probability in the model of Plackett and
    Luce (the paper's second loss, section 4.3). Of tied documents each is chosen from itself and
    those of lower grades, so nothing is asked of their order, and a query of one grade has loss 0.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(plackett_luce(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931

    Cost: O(n²) a query.
    """
    own = torch.eye(scores.shape[1], dtype=torch.bool)
    behind = scores[:, None] - scores[:, :, None]
    chosen_from = behind.masked_fill(~(ordered(grades, there) | own), -torch.inf)
    return torch.logsumexp(chosen_from, 2).sum(1)


def listnet(scores: Tensor, grades: Tensor, there: Tensor) -> Tensor:
    """-Σ P(i) log Q(i), of which P = softmax(grades), Q = softmax(scores); (q,).

    Cross entropy of the top-one probabilities: Cao et al. 2007, Learning to Rank: From Pairwise
    Approach to Listwise Approach.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(listnet(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931
    """
    target = grades.masked_fill(~there, _NOWHERE).softmax(1)
    logarithms = scores.masked_fill(~there, _NOWHERE).log_softmax(1)
    return -(target * logarithms).masked_fill(~there, 0).sum(1)


def softmax(scores: Tensor, grades: Tensor, there: Tensor) -> Tensor:
    """As `listnet`, but 0 of a query of one grade, which says nothing of an order."""
    alike = (grades == grades[:, :1]) | ~there
    return listnet(scores, grades, there).masked_fill(alike.all(1), 0)


LOSSES: dict[str, Loss] = {
    "logistic": ranknet,
    "hinge": hinge,
    "plackett-luce": plackett_luce,
    "softmax": softmax,
}


def ordered(grades: Tensor, there: Tensor) -> Tensor:
    """(q, n, n) whether document i is of a higher grade than document j."""
    return (grades[:, :, None] > grades[:, None]) & there[:, :, None] & there[:, None]


def of_pairs(
    loss: Callable[[Tensor], Tensor], scores: Tensor, weight: Tensor, *, mean: bool = True
) -> Tensor:
    """(q,) the weighted sum, or mean, of the loss of s_j - s_i; weight is (q, n, n)."""
    total = (loss(scores[:, None] - scores[:, :, None]) * weight).sum((1, 2))
    return total / weight.sum((1, 2)).clamp_min(1) if mean else total
