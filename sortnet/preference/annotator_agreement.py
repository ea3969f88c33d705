"""The agreement of annotators, computed from the answers alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import packed
from sortnet.preference.base import TARGETS, Judgement
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.shared_votes import SharedVotes

ENOUGH_SHARED = 20  # a share of fewer pairs or answers says nothing
_MOST_TRIPLES = 200_000
_MOST_PATHS = 20_000_000  # looked at for triples; a path is two pairs with an item in common
_PATHS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Agreement:
    """The agreement of annotators with each other, with themselves, and with any order.

    Attributes:
        krippendorff_alpha: nominal, of pairs with two annotators or more; 1 is perfect, 0 is
            chance; None if there are no such pairs, or all answers are the same.
        shared_pairs: number of pairs with two annotators or more.
        cycles: share of cyclic triples among the triples with all three pairs answered.
        triples: number of these triples that were checked.
        consistency: share of repeated answers that repeat the first answer; ties are left out.
        repeats: number of repeated answers.
    """

    krippendorff_alpha: float | None
    shared_pairs: int
    cycles: float | None
    triples: int
    consistency: float | None
    repeats: int


def agreement(judgements: Iterable[Judgement]) -> Agreement:
    """Measure agreement over the judgements that were not undone.

    Krippendorff's alpha is over the hold-out and all other pairs together: annotators disagree more
    on pairs of close items, which active learning asks for. Each pair counts both ways round, since
    nothing says which of its items is the first. The pairs that follow from an answer about a set
    count for one answer together. Cycles are looked for in answers about pairs only, because an
    answer about a set contains none.

    Cost: a sort of the judgements, and a look at 200,000 triples and at 20,000,000 paths of two
    pairs at most.

    >>> judgements = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 0, "right")]
    >>> agreement(judgements).shared_pairs
    1
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table, sets=True)
    # The first answer of each annotator counts.
    pair = votes.pair[votes.first]
    counts = counted(pair, votes.better[votes.first])
    n_annotators = counts.sum(axis=1)
    weight = np.bincount(pair, votes.weight[votes.first]) / n_annotators
    both_ways = np.concatenate((counts, counts[:, [1, 0, 2]]))
    n_cyclic, n_triples = _count_cycles(SharedVotes.of(table))
    again, before = votes.repeated()
    is_same = votes.better[again] == votes.better[before]
    n_repeats = votes.weight[again].sum()
    return Agreement(
        krippendorff_alpha=krippendorff_alpha(both_ways, np.tile(weight, 2)),
        shared_pairs=int((n_annotators > 1).sum()),
        cycles=n_cyclic / n_triples if n_triples else None,
        triples=n_triples,
        consistency=float(votes.weight[again] @ is_same / n_repeats) if len(again) else None,
        repeats=round(n_repeats),
    )


def agreement_by_group(
    judgements: Judgements, groups: Sequence[str] | None
) -> list[tuple[str, Agreement]]:
    """The agreement in each group that has judgements, the least alpha first.

    Groups whose alpha is not known are last; groups of equal alpha are in the order of their first
    judgements.

    Args:
        groups: the group of each item; None: there are no groups.
    """
    if groups is None or not len(judgements):
        return []
    group_numbers = np.unique(groups, return_inverse=True)[1][judgements.left]
    rows = np.argsort(group_numbers, kind="stable")
    boundaries = np.flatnonzero(np.diff(group_numbers[rows])) + 1
    agreements = []
    for rows_of_group in sorted(np.split(rows, boundaries), key=lambda rows: int(rows[0])):
        group = groups[judgements.left[rows_of_group[0]]]
        agreements.append((group, agreement(judgements.where(rows_of_group))))
    return sorted(agreements, key=lambda pair: _alpha_or_last(pair[1]))


def _alpha_or_last(agreement: Agreement) -> float:
    """The alpha, or a number above each alpha if it is not known."""
    alpha = agreement.krippendorff_alpha
    return 2.0 if alpha is None else alpha


def counted(unit: I64, better: F64) -> I64:
    """Count the answers in each unit, such as a pair, by the item that they prefer.

    Args:
        unit: (m,) the number of the unit that each answer belongs to.
        better: (m,) the preferred item, as in `SharedVotes`.

    Returns:
        (u, 3) numbers of answers that prefer the item with the lower number, the item with the
        higher number, and neither of the items.
    """
    column = np.where(better == 0.5, 2, better == 0)
    n_units = unit.max(initial=-1) + 1
    return np.bincount(3 * unit + column, minlength=3 * n_units).reshape(n_units, 3)


def disputed(judgements: Iterable[Judgement], most: int) -> tuple[int, list[list[Judgement]]]:
    """The number of disputed pairs, and the answers to the most disputed pairs, `most` at most.

    A pair is disputed if two answers to it differ, also if both are by the same annotator. The most
    disputed pair is first, by Σ (t - mean)² over its answers: t is 1 for one item, 0 for the other
    item, ½ for a tie.

    Cost: a sort of the judgements, and a sort of the disputed pairs.

    >>> judgements = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 0, "left")]
    >>> [[judgement.annotator for judgement in pair] for pair in disputed(judgements, 9)[1]]
    [['ana', 'ben']]
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table)
    spread = disagreement(votes)
    pairs = np.flatnonzero(spread)
    pairs = pairs[np.lexsort((votes.oldest()[pairs], -spread[pairs]))]
    return len(pairs), [votes.answers(table, pair) for pair in pairs[:most].tolist()]


def disagreement(votes: SharedVotes) -> F64:
    """(p,) four times Σ (t - mean)² over the answers to each pair, see `disputed`."""
    low, high, neither = counted(votes.pair, votes.better).T
    n = low + high + neither
    # In whole numbers up to the division, so that equal answers have exactly 0.
    spread: F64 = (n * (4 * low + neither) - (2 * low + neither) ** 2) / n
    return spread


def krippendorff_alpha(counts: ArrayLike, weight: ArrayLike = 1.0) -> float | None:
    """Krippendorff's alpha of nominal values: 1 - observed / expected disagreement.

    Args:
        counts: (u, v) how often each unit was given each value; a unit with fewer than
            two answers does not count.
        weight: how often each unit counts.

    Returns:
        alpha; None if all values are the same.

    >>> krippendorff_alpha([[2, 0], [0, 2], [1, 1]])  # 1 - (1/3) / (3·3·2 / (6·5))
    0.4444444444444444
    """
    n_given = np.asarray(counts, np.int64)
    is_shared = n_given.sum(axis=1) > 1
    w = np.broadcast_to(np.asarray(weight, np.float64), len(n_given))[is_shared]
    n_given = n_given[is_shared]
    m = n_given.sum(axis=1)
    n_of_value = w @ n_given
    if np.count_nonzero(n_of_value) < 2:
        return None
    observed = w @ ((m**2 - (n_given**2).sum(axis=1)) / (m - 1))
    n = n_of_value.sum()
    expected = n**2 - (n_of_value**2).sum()
    mean_weight = n / m.sum()
    return float(1 - (n - mean_weight) * observed / expected)


def first_better(judgement: Judgement) -> float:
    """1 if the item with the lower number was preferred, 0 if the other item was, ½ for a tie."""
    target = TARGETS[judgement.answer]
    return target if judgement.left < judgement.right else 1 - target


def _count_cycles(votes: SharedVotes) -> tuple[int, int]:
    """Count the cyclic triples and all triples; a majority of the answers decides each pair."""
    majorities = _majorities(votes)
    low_wins = majorities.low_wins
    n_cyclic = 0
    n_triples = 0
    for ab, bc, ac in triples_of(majorities.low, majorities.high, _MOST_TRIPLES):
        n_cyclic += int(cyclic(low_wins[ab], low_wins[bc], low_wins[ac]).sum())
        n_triples += len(ab)
    return n_cyclic, n_triples


def cyclic(ab: Bool, bc: Bool, ac: Bool) -> Bool:
    """Whether a, b and c are preferred in a circle.

    Args:
        ab, bc, ac: whether the first item of each pair is preferred.
    """
    is_cyclic: Bool = (ab == bc) & (bc != ac)
    return is_cyclic


def triples_of(low: I64, high: I64, most: int) -> Iterator[tuple[I64, I64, I64]]:
    """Yield triples a < b < c as the places of their pairs (a, b), (b, c) and (a, c).

    Args:
        low, high: the items of each pair; pairs with the same low item follow each other.
        most: the number of triples at most.

    Cost: a look at each path of two pairs (a, b), (b, c), up to 20,000,000 paths.
    """
    items, first_place, n_pairs = np.unique(low, return_index=True, return_counts=True)
    # For each pair (a, b): how many pairs (b, c) there are, and the place of the first of them.
    k = np.searchsorted(items, high)
    is_low_item = np.append(items, -1)[k] == high
    n_next = np.where(is_low_item, np.append(n_pairs, 0)[k], 0)
    first_next = np.append(first_place, 0)[k]
    n_paths_before = np.cumsum(n_next) - n_next
    key = packed(low, high)
    by_key = np.argsort(key)
    n_paths = min(int(n_next.sum()), _MOST_PATHS)
    cuts = np.searchsorted(
        n_paths_before + n_next, [*range(0, n_paths, _PATHS_AT_ONCE), n_paths], side="right"
    )
    for begin, end in pairwise(cuts.tolist()):
        ab = np.repeat(np.arange(begin, end), n_next[begin:end])
        path = n_paths_before[begin] + np.arange(len(ab))
        bc = first_next[ab] + path - n_paths_before[ab]
        key_of_ac = packed(low[ab], high[bc])
        rank = np.minimum(np.searchsorted(key, key_of_ac, sorter=by_key), len(key) - 1)
        ac = by_key[rank]
        closed = np.flatnonzero(key[ac] == key_of_ac)[:most]
        yield ab[closed], bc[closed], ac[closed]
        most -= len(closed)
        if not most:
            return


class _Majorities(NamedTuple):
    """The pairs with a majority.

    Attributes:
        low, high: the items of each pair; pairs with the same low item follow each other, as
            `triples_of` needs it.
        low_wins: whether the majority prefers the low item.
    """

    low: I64
    high: I64
    low_wins: Bool


def _majorities(votes: SharedVotes) -> _Majorities:
    """The pairs with a majority, oldest first, but pairs with the same low item together."""
    n_low, n_high, _ = counted(votes.pair, votes.better).T
    balance = n_low - n_high
    pairs = np.flatnonzero(balance)
    pairs = pairs[np.argsort(votes.oldest()[pairs])]
    low = votes.low[votes.starts[pairs]]
    _, oldest, number_of_low = np.unique(low, return_index=True, return_inverse=True)
    pairs = pairs[np.argsort(oldest[number_of_low], kind="stable")]
    starts = votes.starts[pairs]
    return _Majorities(votes.low[starts], votes.high[starts], balance[pairs] > 0)
