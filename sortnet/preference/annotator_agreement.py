"""How much annotators agree, computed from the answers alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import packed
from sortnet.preference.base import TARGETS, Judgement
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.shared_votes import SharedVotes

ENOUGH_SHARED = 20  # pairs or answers below which a share of them says nothing
_MOST_TRIPLES = 200_000
_MOST_PATHS = 20_000_000  # looked at for triples: two pairs with an item in common
_PATHS = 1_000_000  # of those at once


@dataclass(frozen=True)
class Agreement:
    """How much the annotators agree with each other, with themselves, and with any order.

    Attributes:
        krippendorff_alpha: nominal, of pairs with two annotators or more; 1 is perfect, 0 is
            chance; None if there are none, or all answers are the same.
        shared_pairs: number of pairs with two annotators or more.
        cycles: share of cyclic triples among the triples with all three pairs answered.
        triples: number of such triples checked.
        consistency: share of the repeated answers that are those given first; ties are left out.
        repeats: number of such answers.
    """

    krippendorff_alpha: float | None
    shared_pairs: int
    cycles: float | None
    triples: int
    consistency: float | None
    repeats: int


def agreement(judgements: Iterable[Judgement]) -> Agreement:
    """Measure agreement over the judgements that were not undone, by those about pairs.

    Answers about more items do not count: the comparisons that follow from one of them are not
    independent. A session with such questions still asks hold-out questions about pairs.

    Krippendorff's alpha is over the hold-out and all other pairs together: annotators disagree more
    on pairs of close items, which active learning asks for. Each pair counts both ways round, since
    nothing says which of its items is the first. The pairs that follow from an answer about a set
    count for one answer together. Cycles are those of answers about pairs: within an answer about a
    set there can be none.

    Cost: a sort of the judgements, and a look at the triples: at most 200,000, and at most
    20,000,000 times at two pairs that may be sides of one.

    >>> judgements = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 0, "right")]
    >>> agreement(judgements).shared_pairs
    1
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table, sets=True)
    # The first answer of each annotator counts.
    pair = votes.pair[votes.first]
    counts = counted(pair, votes.better[votes.first])
    weight = np.bincount(pair, votes.weight[votes.first]) / counts.sum(axis=1)
    both_ways = np.concatenate((counts, counts[:, [1, 0, 2]]))
    alpha = krippendorff_alpha(both_ways, np.tile(weight, 2))
    cycles, triples = _cycles(SharedVotes.of(table))
    again, before = votes.repeated()
    same = votes.better[again] == votes.better[before]
    n_repeats = votes.weight[again].sum()
    consistency = float(votes.weight[again] @ same / n_repeats) if len(same) else None
    shared = int((counts.sum(axis=1) > 1).sum())
    return Agreement(alpha, shared, cycles, triples, consistency, round(n_repeats))


def agreement_by_group(
    judgements: Judgements, groups: Sequence[str] | None
) -> list[tuple[str, Agreement]]:
    """The agreement in each group that has judgements, the least alpha first.

    Groups whose alpha is not known are last; equal ones are in the order of their first judgement.

    Args:
        groups: the group of each item; None: there are no groups.
    """
    if groups is None or not len(judgements):
        return []
    group_numbers = np.unique(groups, return_inverse=True)[1][judgements.left]
    rows = np.argsort(group_numbers, kind="stable")
    boundaries = np.flatnonzero(np.diff(group_numbers[rows])) + 1
    agreements = []
    for rows_of_group in sorted(np.split(rows, boundaries), key=lambda some: int(some[0])):
        group = groups[judgements.left[rows_of_group[0]]]
        agreements.append((group, agreement(judgements.where(rows_of_group))))
    return sorted(agreements, key=lambda pair: _alpha_or_last(pair[1]))


def _alpha_or_last(agreement: Agreement) -> float:
    alpha = agreement.krippendorff_alpha
    return 2.0 if alpha is None else alpha


def counted(unit: I64, better: F64) -> I64:
    """(u, 3) how many answers of each unit prefer the lower number, the other one, and neither."""
    kind = np.where(better == 0.5, 2, better == 0)
    n = unit.max(initial=-1) + 1
    return np.bincount(3 * unit + kind, minlength=3 * n).reshape(n, 3)


def disputed(judgements: Iterable[Judgement], most: int) -> tuple[int, list[list[Judgement]]]:
    """The number of pairs on which annotators differ, or one of them at two times; and the answers
    to the `most` most disputed ones.

    The most disputed pair first, by Σ (t - mean)² over its answers: t is 1 for one item, 0 for the
    other, ½ for a tie.

    Cost: a sort of the judgements, and one of the disputed pairs.

    >>> said = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 0, "left")]
    >>> [[judgement.annotator for judgement in pair] for pair in disputed(said, 9)[1]]
    [['ana', 'ben']]
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table)
    spread = disagreement(votes)
    found = np.flatnonzero(spread)
    found = found[np.lexsort((votes.oldest()[found], -spread[found]))]
    return len(found), [votes.answers(table, pair) for pair in found[:most].tolist()]


def disagreement(votes: SharedVotes) -> F64:
    """(p,) four times Σ (t - mean)² over the answers to each pair, see `disputed`."""
    low, high, neither = counted(votes.pair, votes.better).T
    n = low + high + neither
    spread: F64 = (n * (4 * low + neither) - (2 * low + neither) ** 2) / n  # 0 of equal ones
    return spread


def krippendorff_alpha(counts: ArrayLike, weight: ArrayLike = 1.0) -> float | None:
    """Krippendorff's alpha of nominal values, 1 - observed / expected disagreement.

    Counted is, (u, v), how often each unit was given each value; units with a single value do not
    count. None if all values are the same. The weight of each unit is how often it counts.

    >>> krippendorff_alpha([[2, 0], [0, 2], [1, 1]])  # 1 - (1/3) / (3·3·2 / (6·5))
    0.4444444444444444
    """
    each = np.asarray(counts, np.int64)
    is_shared = each.sum(axis=1) > 1
    w = np.broadcast_to(np.asarray(weight, np.float64), len(each))[is_shared]
    each = each[is_shared]
    m, values = each.sum(axis=1), w @ each
    differing = w @ ((m**2 - (each**2).sum(axis=1)) / (m - 1))
    n = values.sum()
    expected = n**2 - (values**2).sum()
    if np.count_nonzero(values) < 2:
        return None
    one = n / m.sum()  # the mean weight of a value
    return float(1 - (n - one) * differing / expected)


def first_better(judgement: Judgement) -> float:
    """1 if the item with the lower number was preferred, 0 if the other was, ½ for a tie."""
    target = TARGETS[judgement.answer]
    return target if judgement.left < judgement.right else 1 - target


def _cycles(votes: SharedVotes) -> tuple[float | None, int]:
    """Share of cyclic triples, all pairs decided by majority; and the number of triples."""
    low, high, wins = _decided(votes)
    circular = triples = 0
    for ab, bc, ac in triples_of(low, high, _MOST_TRIPLES):
        circular += int(cyclic(wins[ab], wins[bc], wins[ac]).sum())
        triples += len(ab)
    return (circular / triples if triples else None), triples


def cyclic(ab: Bool, bc: Bool, ac: Bool) -> Bool:
    """Whether a, b and c are preferred in a circle, given who is preferred of each pair."""
    circle: Bool = (ab == bc) & (bc != ac)
    return circle


def triples_of(low: I64, high: I64, most: int) -> Iterator[tuple[I64, I64, I64]]:
    """The places of the pairs (a, b), (b, c), (a, c) of at most `most` triples a < b < c.

    Given are the items of each pair; those of a lower number are together.

    Cost: a look at two pairs with an item in common each, at most 20,000,000 times.
    """
    # Pairs (b, c) follow each pair (a, b); those with the same b are next to each other.
    known, start, number = np.unique(low, return_index=True, return_counts=True)
    at = np.searchsorted(known, high)
    ends_there = np.append(known, -1)[at] != high
    following = np.where(ends_there, 0, np.append(number, 0)[at])
    start = np.append(start, 0)[at]
    before = np.cumsum(following) - following
    key = packed(low, high)
    by_key = np.argsort(key)
    paths = min(int(following.sum()), _MOST_PATHS)
    cuts = np.searchsorted(before + following, [*range(0, paths, _PATHS), paths], side="right")
    for begin, end in pairwise(cuts.tolist()):
        ab = np.repeat(np.arange(begin, end), following[begin:end])
        bc = start[ab] + np.arange(len(ab)) + before[begin] - before[ab]
        ac = packed(low[ab], high[bc])
        found = np.minimum(np.searchsorted(key, ac, sorter=by_key), len(key) - 1)
        there = np.flatnonzero(key[by_key[found]] == ac)[:most]
        yield ab[there], bc[there], by_key[found[there]]
        most -= len(there)
        if not most:
            return


def _decided(votes: SharedVotes) -> tuple[I64, I64, Bool]:
    """The items of each pair with a majority, and whether the lower number has it.

    Those of a lower number are together; what was answered first is first, as in `triples_of`.
    """
    balance = np.subtract(*counted(votes.pair, votes.better).T[:2])
    pairs = np.flatnonzero(balance)
    pairs = pairs[np.argsort(votes.oldest()[pairs])]
    low = votes.low[votes.starts[pairs]]
    _, oldest, of = np.unique(low, return_index=True, return_inverse=True)
    pairs = pairs[np.argsort(oldest[of], kind="stable")]
    return votes.low[votes.starts[pairs]], votes.high[votes.starts[pairs]], balance[pairs] > 0
