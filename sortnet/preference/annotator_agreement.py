"""Measure how far annotators agree, from the answers alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from sortnet.preference.base import Judgement, Pair
from sortnet.preference.comparisons import ByPair, Comparisons, counted
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.model import Posterior

ENOUGH_SHARED = 20  # a share of fewer pairs or answers says nothing
_ROUNDING = 1e-9  # a contradiction below this is an error of rounding


@dataclass(frozen=True)
class Agreement:
    """The agreement of annotators with each other and with themselves.

    Attributes:
        krippendorff_alpha: Krippendorff's nominal alpha over the pairs that two or more annotators
            answered; 1 is perfect, 0 is chance. None if there are no such pairs, or if all answers
            are the same.
        shared_pairs: number of pairs that two or more annotators answered.
        consistency: share of repeated answers that are the same as the annotator's first answer,
            ties left out; None without repeated answers.
        repeats: number of repeated answers.
    """

    krippendorff_alpha: float | None
    shared_pairs: int
    consistency: float | None
    repeats: int


def agreement(judgements: Iterable[Judgement]) -> Agreement:
    """Measure agreement over the judgements that were not undone.

    Krippendorff's alpha is over all pairs, the hold-out included. It is lower than over random
    pairs alone, because annotators disagree more on pairs of close items, which sessions ask about.
    Each pair counts in both orders of its items, because neither item is the first by nature. An
    answer about a set counts once, by parts: the comparisons that it implies.

    Cost: a sort of the judgements.

    >>> judgements = [Judgement.of("ana", (0, 1), "left"), Judgement.of("ben", (1, 0), "right")]
    >>> agreement(judgements).shared_pairs
    1
    """
    votes = ByPair(Comparisons.of_table(Judgements.of(judgements)))
    part = votes.comparisons.part
    repeated, is_same = votes.repeated()
    # Each annotator's first answer to a pair: for the lower item number, for the higher, ties.
    counts = counted(votes.pair_of_group, votes.for_low[votes.first], len(votes.low))
    counts_with_items_swapped = counts[:, [1, 0, 2]]
    n_repeats = float(part[repeated].sum())
    return Agreement(
        krippendorff_alpha=krippendorff_alpha(np.concatenate((counts, counts_with_items_swapped))),
        shared_pairs=int((np.bincount(votes.pair_of_group) > 1).sum()),
        consistency=float(part[repeated] @ is_same / n_repeats) if len(repeated) else None,
        repeats=round(n_repeats),
    )


def agreement_by_group(
    judgements: Judgements, groups: Sequence[str] | None
) -> list[tuple[str, Agreement]]:
    """Measure the agreement in each group that has judgements, the least alpha first.

    Groups without an alpha are last. Groups of equal alpha are in the order of their first
    judgements.

    Args:
        judgements: the judgements; all items of a judgement are in the same group.
        groups: the name of each item's group. If None, there are no groups, and the list is empty.

    Returns:
        The name and the agreement of each group.
    """
    if groups is None:
        return []
    names, group_of_item = np.unique(groups, return_inverse=True)
    first_item = judgements.items[:, 0]
    group = group_of_item[first_item]  # of each judgement
    agreements = [
        (str(names[number]), agreement(judgements.where(group == number)))
        for number in dict.fromkeys(group.tolist())
    ]

    def alpha_or_last(name_and_agreement: tuple[str, Agreement]) -> float:
        alpha = name_and_agreement[1].krippendorff_alpha
        return np.inf if alpha is None else alpha

    return sorted(agreements, key=alpha_or_last)


@dataclass(frozen=True)
class Dispute:
    """A pair of items with the answers that compare them.

    Attributes:
        pair: the two items, first the item that is probably better.
        p: the probability that the first item is better.
        contradiction: the weight of the answers that contradict each other: twice Σ w (t - mean)^2
            over the answers t, which are 1, 1/2 for a tie, or 0; w is the part of an answer. Two
            opposite answers about two items have 1.
        answers: the judgements, oldest first, each with its t for the first item. Some may be about
            more than two items.
    """

    pair: Pair
    p: float
    contradiction: float
    answers: list[tuple[Judgement, float]]


def most_disputed(
    judgements: Judgements, posterior: Posterior, most: int
) -> tuple[int, list[Dispute]]:
    """Find the pairs whose answers contradict each other most; one annotator may have given all.

    After them come the pairs whose order is least sure by the ranking.

    Args:
        judgements: the judgements.
        posterior: the posterior of the scores.
        most: the largest number of pairs to return.

    Returns:
        The number of all pairs whose answers differ, and the first pairs.

    Cost: two sorts of the judgements, and a sort of their pairs.
    """
    votes = ByPair(Comparisons.of_table(judgements))
    part = votes.comparisons.part
    total, for_low, squares = (
        np.bincount(votes.pair, part * votes.for_low**power) for power in range(3)
    )
    contradiction = 2 * (squares - for_low**2 / total)
    contradiction = np.where(contradiction > _ROUNDING, contradiction, 0.0)
    mean, variance = posterior.difference(votes.low, votes.high)
    p_low = ndtr(mean / np.sqrt(variance))
    first_pairs = np.lexsort((np.abs(p_low - 0.5), -contradiction))[:most].tolist()
    disputes = []
    for pair in first_pairs:
        is_low_better = p_low[pair] >= 0.5
        items = int(votes.low[pair]), int(votes.high[pair])
        rows = np.flatnonzero(votes.pair == pair)
        for_first = votes.for_low[rows] if is_low_better else 1 - votes.for_low[rows]
        answers = zip(votes.comparisons.row[rows].tolist(), for_first.tolist(), strict=True)
        disputes.append(
            Dispute(
                pair=items if is_low_better else items[::-1],
                p=float(max(p_low[pair], 1 - p_low[pair])),
                contradiction=float(contradiction[pair]),
                answers=[(judgements[row], t) for row, t in answers],
            )
        )
    return int(np.count_nonzero(contradiction)), disputes


def krippendorff_alpha(counts: ArrayLike) -> float | None:
    """Compute Krippendorff's alpha of nominal values: 1 - observed / expected disagreement.

    With the number c_uv of answers that give the value v to the unit u:

        alpha = 1 - (n - 1) Σ_u (m_u² - Σ_v c_uv²) / (m_u - 1) / (n² - Σ_v n_v²)
        m_u = Σ_v c_uv,  n_v = Σ_u c_uv,  n = Σ_v n_v

    Args:
        counts: (u, v) how often each unit was given each value. A unit with fewer than two answers
            does not count.

    Returns:
        alpha; None if all values are the same.

    >>> krippendorff_alpha([[2, 0], [0, 2], [1, 1]])  # 1 - (1/3) / (3·3·2 / (6·5))
    0.4444444444444444
    """
    counts_of_all = np.asarray(counts, np.float64)
    c = counts_of_all[counts_of_all.sum(axis=1) > 1]
    m = c.sum(axis=1)
    n_of_value = c.sum(axis=0)
    if np.count_nonzero(n_of_value) < 2:
        return None
    n = n_of_value.sum()
    observed = ((m**2 - (c**2).sum(axis=1)) / (m - 1)).sum()
    expected = n**2 - (n_of_value**2).sum()
    return float(1 - (n - 1) * observed / expected)
