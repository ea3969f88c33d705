"""Losses of whole queries, by which nets learn to score documents.

A loss takes three matrices (q, n) of q queries, padded to n documents each: `scores`,
`grades`, which are whole numbers as floats, and `mask`, which is False for padding. It returns (q,)
losses. The order of documents with the same grade does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

Loss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

# The score of padding in a softmax. It gives the probability 0, and no infinite number.
_PADDING_SCORE = -1e30


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
