"""Measure how far annotators agree, from the answers alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64, I64
from sortnet.preference.base import TARGETS, Judgement
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.shared_votes import SharedVotes

ENOUGH_SHARED = 20  # a share of fewer pairs or answers says nothing


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
    Each pair counts in both orders of its items, because neither item is the first by nature. The
    pairs that follow from an answer about a set count for one answer together.

    Cost: a sort of the judgements.

    >>> judgements = [Judgement.of("ana", (0, 1), "left"), Judgement.of("ben", (1, 0), "right")]
    >>> agreement(judgements).shared_pairs
    1
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table, sets=True)
    n_annotators = np.bincount(votes.pair[votes.first])
    consistency, n_repeats = _consistency(votes)
    return Agreement(
        krippendorff_alpha=_alpha_of_pairs(votes),
        shared_pairs=int((n_annotators > 1).sum()),
        consistency=consistency,
        repeats=round(n_repeats),
    )


def _alpha_of_pairs(votes: SharedVotes) -> float | None:
    """Compute Krippendorff's alpha over all pairs, from each annotator's first answer to a pair.

    Each pair counts twice, with its items in both orders.
    """
    pair = votes.pair[votes.first]
    # Columns: answers for the lower item number, answers for the higher item number, ties.
    counts = counted(pair, votes.better[votes.first])
    counts_with_items_swapped = counts[:, [1, 0, 2]]
    counts_both_ways = np.concatenate((counts, counts_with_items_swapped))
    weight_of_pair = np.bincount(pair, votes.weight[votes.first]) / counts.sum(axis=1)
    return krippendorff_alpha(counts_both_ways, np.tile(weight_of_pair, 2))


def _consistency(votes: SharedVotes) -> tuple[float | None, float]:
    """Compare repeated answers with the same annotator's first answers.

    Returns:
        The share of repeated answers that are the same as the first answer, None without repeated
        answers; and the number of repeated answers, where all comparisons that follow from an
        answer about a set count as one.
    """
    repeated_votes, first_votes = votes.repeated()
    weight = votes.weight[repeated_votes]
    n_repeats = float(weight.sum())
    if not len(repeated_votes):
        return None, n_repeats
    is_same = votes.better[repeated_votes] == votes.better[first_votes]
    return float(weight @ is_same / n_repeats), n_repeats


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
    if groups is None or not len(judgements):
        return []
    _, number_of_item = np.unique(groups, return_inverse=True)
    group_number = number_of_item[judgements.items[:, 0]]  # of each judgement
    by_group = np.argsort(group_number, kind="stable")
    boundaries = np.flatnonzero(np.diff(group_number[by_group])) + 1
    rows_of_groups = np.split(by_group, boundaries)
    rows_of_groups.sort(key=lambda rows: int(rows[0]))  # in the order of first judgements
    agreements = []
    for rows in rows_of_groups:
        name = groups[judgements.items[rows[0], 0]]
        agreements.append((name, agreement(judgements.where(rows))))
    return sorted(agreements, key=lambda name_and_agreement: _alpha_or_last(name_and_agreement[1]))


def _alpha_or_last(agreement: Agreement) -> float:
    """Return the alpha as a sort key; 2, which is above every alpha, if there is none."""
    alpha = agreement.krippendorff_alpha
    return 2.0 if alpha is None else alpha


def counted(unit: I64, better: F64) -> I64:
    """Count the answers in each unit by the item that they prefer.

    Args:
        unit: (m,) the number of the unit that each answer belongs to, such as a pair of items.
        better: (m,) 1 if the answer prefers the item with the lower number, 0 if it prefers the
            item with the higher number, ½ for a tie.

    Returns:
        (u, 3) the number of answers that prefer the item with the lower number, that prefer the
        item with the higher number, and that are ties.
    """
    column_without_tie = np.where(better == 0, 1, 0)
    column = np.where(better == 0.5, 2, column_without_tie)
    n_units = unit.max(initial=-1) + 1
    cell = 3 * unit + column  # in an array of three columns, counted row after row
    return np.bincount(cell, minlength=3 * n_units).reshape(n_units, 3)


def disputed(judgements: Iterable[Judgement], most: int) -> tuple[int, list[list[Judgement]]]:
    """Find the disputed pairs, whose answers differ; one annotator may have given all of them.

    The most disputed pair has the largest Σ (t - mean)² over its answers, where t is 1 for the item
    with the lower number, 0 for the other item, and ½ for a tie.

    Args:
        judgements: the judgements.
        most: the largest number of pairs whose answers are returned.

    Returns:
        The number of all disputed pairs, and the answers to each of the most disputed pairs.

    Cost: a sort of the judgements, and a sort of the disputed pairs.

    >>> judgements = [Judgement.of("ana", (0, 1), "left"), Judgement.of("ben", (1, 0), "left")]
    >>> [[judgement.annotator for judgement in pair] for pair in disputed(judgements, 9)[1]]
    [['ana', 'ben']]
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table)
    disagreement_of_pair = disagreement(votes)
    disputed_pairs = np.flatnonzero(disagreement_of_pair)
    # Equally disputed pairs are in the order of their oldest answers.
    most_disputed_first = np.lexsort(
        (votes.oldest()[disputed_pairs], -disagreement_of_pair[disputed_pairs])
    )
    shown_pairs = disputed_pairs[most_disputed_first[:most]].tolist()
    return len(disputed_pairs), [votes.answers(table, pair) for pair in shown_pairs]


def disagreement(votes: SharedVotes) -> F64:
    """Compute how much the answers to each pair differ: 4 Σ (t - mean)² over the answers t.

    Here t is 1 for the item with the lower number, 0 for the other item, and ½ for a tie. With the
    numbers n of answers, l of answers for the item with the lower number, and e of ties, this is
    (n (4 l + e) - (2 l + e)²) / n.

    Returns:
        (p,) the disagreement about each pair.
    """
    n_low, n_high, n_ties = counted(votes.pair, votes.better).T
    n = n_low + n_high + n_ties
    # All numbers before the division are whole numbers, so equal answers give exactly 0.
    disagreement_of_pair: F64 = (n * (4 * n_low + n_ties) - (2 * n_low + n_ties) ** 2) / n
    return disagreement_of_pair


def krippendorff_alpha(counts: ArrayLike, weight: ArrayLike = 1.0) -> float | None:
    """Compute Krippendorff's alpha of nominal values: 1 - observed / expected disagreement.

    With the number c_uv of answers that give the value v to the unit u, and the weight w_u of the
    unit:

        alpha = 1 - (n - w) Σ_u w_u (m_u² - Σ_v c_uv²) / (m_u - 1) / (n² - Σ_v n_v²)
        m_u = Σ_v c_uv,  n_v = Σ_u w_u c_uv,  n = Σ_v n_v

    Here w = n / Σ_u m_u is the mean weight of an answer. A weight repeats a unit in proportion;
    without weights, all w_u and w are 1.

    Args:
        counts: (u, v) how often each unit was given each value. A unit with fewer than two answers
            does not count.
        weight: (u,) the weight of each unit, or one weight for all units.

    Returns:
        alpha; None if all values are the same.

    >>> krippendorff_alpha([[2, 0], [0, 2], [1, 1]])  # 1 - (1/3) / (3·3·2 / (6·5))
    0.4444444444444444
    """
    counts_of_all = np.asarray(counts, np.int64)
    weights_of_all = np.broadcast_to(np.asarray(weight, np.float64), len(counts_of_all))
    is_shared = counts_of_all.sum(axis=1) > 1
    c = counts_of_all[is_shared]
    w = weights_of_all[is_shared]
    m = c.sum(axis=1)
    n_of_value = w @ c
    if np.count_nonzero(n_of_value) < 2:
        return None
    observed = w @ ((m**2 - (c**2).sum(axis=1)) / (m - 1))
    n = n_of_value.sum()
    expected = n**2 - (n_of_value**2).sum()
    mean_weight = n / m.sum()
    return float(1 - (n - mean_weight) * observed / expected)


def first_better(judgement: Judgement) -> float:
    """Return 1 if a judgement on a pair prefers the lower item number, 0 if not, ½ for a tie."""
    target = TARGETS[judgement.word]
    return target if judgement.left < judgement.right else 1 - target
