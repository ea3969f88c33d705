"""Losses of pairs of documents, by which comparators learn, and losses of whole queries.

A loss of queries takes the scores, (q, n) for q queries, padded; the grades, (q, n) whole numbers
as floats; and the mask, (q, n) whether there is a document. It returns (q,) losses. Documents of
one grade are in no order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from sortnet.comparators.base import NeuralComparator

Loss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

_NOWHERE = -1e30  # score of padding: its probability is 0, and no number is infinite


def pair_loss(
    net: NeuralComparator, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor,
    *, loss: str,
) -> Tensor:  # fmt: skip
    """Weighted sum, a scalar tensor, of the losses of m pairs.

    Args:
        embedded: (n, width) embeddings of the documents, see `NeuralComparator.embed`.
        winner, loser: (m,) document numbers: the winner should be before the loser.
        weight: (m,) of the pairs.
        loss: `logistic`: log(1 + exp(-logit)), as in RankNet; `squared`: the loss of the
            comparator's paper, (1 - N_>)² + N_<² of CmpNN, (1 - margin)² of DirectRanker.

    Cost: O(m width).
    """
    if loss == "logistic":
        return net.logistic_loss(embedded, winner, loser, weight)
    return weight @ net.loss(embedded[winner], embedded[loser])


def ranknet(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """RankNet's loss: mean of log(1 + exp(s_j - s_i)) over the pairs with grade i > grade j.

    Burges et al. 2005, Learning to Rank using Gradient Descent, with target 1.

    Returns:
        (q,) losses, 0 for a query without a pair.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(ranknet(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931

    Cost: O(n²) a query.
    """
    return of_pairs(nn.functional.softplus, scores, ordered(grades, mask).to(scores.dtype))


def lambdarank(scores: Tensor, grades: Tensor, mask: Tensor, *, weighting: str = "delta") -> Tensor:
    """LambdaRank's loss: RankNet's loss of each pair times the NDCG change of swapping the pair.

    weight of i, j = abs(gain_i - gain_j) abs(1 / log2(1 + rank_i) - 1 / log2(1 + rank_j)) / ideal
    DCG, a constant for the gradient. Burges 2010, From RankNet to LambdaRank to LambdaMART
    (Burges, Ragno and Le 2006).

    Args:
        weighting: `delta`: ranks by the scores; `ideal`: ranks of the ideal ranking, so that a
            pair always has the same weight; `none`: `ranknet`.

    >>> grades = torch.tensor([[1.0, 0.0]])
    >>> loss = lambdarank(torch.zeros(1, 2), grades, grades >= 0)  # (1 - 1 / log2(3)) log(2)
    >>> round(float(loss[0]), 4)
    0.2558
    """
    if weighting == "none":
        return ranknet(scores, grades, mask)
    ranked = scores if weighting == "delta" else grades
    with torch.no_grad():
        best = grades.max(dim=1, keepdim=True).values
        # Gains are divided by 2^best, where best is the query's best grade, so that no grade
        # overflows.
        gain = (torch.exp2(grades - best) - torch.exp2(-best)) * mask
        discount = 1 / torch.log2(torch.arange(scores.shape[1]).to(scores) + 2)
        padded = ranked.masked_fill(~mask, -torch.inf)
        order = torch.sort(padded, dim=1, descending=True, stable=True).indices
        doc_discount = torch.empty_like(scores).scatter_(1, order, discount.expand_as(scores))
        ideal = (gain.sort(1, descending=True).values * discount).sum(1)[:, None, None]
        gain_difference = gain[:, :, None] - gain[:, None]
        change = gain_difference * (doc_discount[:, :, None] - doc_discount[:, None])
        weight = change.abs() / torch.where(ideal > 0, ideal, 1.0) * ordered(grades, mask)
    return of_pairs(nn.functional.softplus, scores, weight, mean=False)


def hinge(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Hinge loss: mean of max(0, 1 - (s_i - s_j)) over a query's pairs with grade i > grade j.

    It is never below the share of pairs in the wrong order. Pfannschmidt, Gupta and Hüllermeier
    2018, Deep architectures for learning context-dependent ranking functions, section 4.3.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> hinge(torch.tensor([[0.5, 0.25]]), one, one >= 0).tolist()
    [0.75]

    Cost: O(n²) a query.
    """
    weight = ordered(grades, mask).to(scores.dtype)
    return of_pairs(lambda behind: torch.relu(1 + behind), scores, weight)


def plackett_luce(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Plackett-Luce loss: sum over documents i of -log(exp(s_i) / (exp(s_i) + Σ exp(s_j))).

    The inner sum runs over the documents j whose grade is lower than the grade of i.

    Without ties it is the negative logarithm of the ranking's probability in the model of Plackett
    and Luce (the paper's second loss, section 4.3). A tied document is chosen from itself and the
    documents of lower grades, so the order of tied documents does not matter, and a query of one
    grade has loss 0.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(plackett_luce(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931

    Cost: O(n²) a query.
    """
    is_same = torch.eye(scores.shape[1], dtype=torch.bool)
    difference = scores[:, None] - scores[:, :, None]
    choices = difference.masked_fill(~(ordered(grades, mask) | is_same), -torch.inf)
    return torch.logsumexp(choices, 2).sum(1)


def listnet(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """ListNet's loss: -Σ P(i) log Q(i), where P = softmax(grades) and Q = softmax(scores).

    Cross entropy of the top-one probabilities: Cao et al. 2007, Learning to Rank: From Pairwise
    Approach to Listwise Approach.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(listnet(torch.zeros(1, 2), one, one >= 0)[0]), 4)
    0.6931
    """
    target = grades.masked_fill(~mask, _NOWHERE).softmax(1)
    logarithms = scores.masked_fill(~mask, _NOWHERE).log_softmax(1)
    return -(target * logarithms).masked_fill(~mask, 0).sum(1)


def softmax(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """ListNet's loss, but 0 for a query whose grades are all equal: it has no order to learn."""
    has_first_grade = (grades == grades[:, :1]) | ~mask
    return listnet(scores, grades, mask).masked_fill(has_first_grade.all(1), 0)


LOSSES: dict[str, Loss] = {
    "logistic": ranknet,
    "hinge": hinge,
    "plackett-luce": plackett_luce,
    "softmax": softmax,
}


def ordered(grades: Tensor, mask: Tensor) -> Tensor:
    """Matrix (q, n, n): whether document i has a higher grade than document j."""
    return (grades[:, :, None] > grades[:, None]) & mask[:, :, None] & mask[:, None]


def of_pairs(
    loss: Callable[[Tensor], Tensor], scores: Tensor, weight: Tensor, *, mean: bool = True
) -> Tensor:
    """Sum or mean (q,) over pairs i, j of `weight` (q, n, n) times `loss` of scores s_j - s_i."""
    total = (loss(scores[:, None] - scores[:, :, None]) * weight).sum((1, 2))
    return total / weight.sum((1, 2)).clamp_min(1) if mean else total
