"""The ranking of all items, with an interval for each rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, I32, I64
from sortnet.preference.groups import Groups
from sortnet.preference.model import Posterior
from sortnet.preference.stopping import among_top

LEVEL = 0.9  # probability that a rank is in its interval
_DECIMALS = 12  # scores that differ by less are equal
_SCORES_AT_ONCE = 1 << 16  # scores in a block of draws that is sorted together


@dataclass(frozen=True, eq=False)
class Ranking:
    """A ranking of all items, including items that were never compared.

    Attributes:
        order: (n,) the items, the best first; group by group if there are groups.
        rank: (n,) each item's rank in its group, 1 for the best.
        score: (n,) each item's expected score, in units of an answer's noise; comparable within a
            group.
        low, high: (n,) the ends of the 90 % interval of each item's rank in its group.
        judgements: (n,) the number of answers about each item.
        among_top: (n,) the probability that each item is among the top of its group; None if the
            goal of the session is not a top.
    """

    order: I64
    rank: I64
    score: F64
    low: I64
    high: I64
    judgements: I64
    among_top: F64 | None = None

    def __len__(self) -> int:
        return len(self.order)


def rank_items(posterior: Posterior, judgements: I64, groups: Groups, *, top: int = 0) -> Ranking:
    """Rank the items of each group by expected score, with an interval for each rank.

    The interval contains the rank, and 90 % of the item's ranks in draws of the scores.

    Args:
        posterior: the posterior of the scores.
        judgements: (n,) the number of answers about each item.
        groups: the groups of the items.
        top: the number of top items of each group; 0 if the goal of the session is not a top.

    Cost: one sort, and one sort per draw.
    """
    n = posterior.n_items
    rank = np.zeros(n, np.int64)
    low = np.zeros(n, np.int64)
    high = np.zeros(n, np.int64)
    ordered_groups = []
    for members in groups.members:
        # Rounding errors depend on where the fit started, so they must not order equal scores.
        worse = -np.round(posterior.scores[members], _DECIMALS)
        best_first = members[np.argsort(worse, kind="stable")]
        ordered_groups.append(best_first)
        rank[best_first] = np.arange(1, len(members) + 1)
        lowest, highest = shortest(_ranks_in_draws(posterior, members))
        low[members] = np.minimum(lowest, rank[members])
        high[members] = np.maximum(highest, rank[members])
    return Ranking(
        order=np.concatenate(ordered_groups),
        rank=rank,
        score=posterior.scores.copy(),
        low=low,
        high=high,
        judgements=judgements,
        among_top=among_top(posterior, groups, top) if top else None,
    )


def _ranks_in_draws(posterior: Posterior, members: I64) -> I32:
    """Rank the m members of a group by their scores in each draw: (draws, m), 1 for the best."""
    ranks = np.empty((len(posterior.draws), len(members)), np.int32)
    one_to_m = np.arange(1, len(members) + 1, dtype=np.int32)[None]
    # A block of draws is sorted at a time: for a million items, all draws would take 400 MB.
    n_draws = max(1, _SCORES_AT_ONCE // len(members))
    for start in range(0, len(ranks), n_draws):
        block = slice(start, start + n_draws)
        best_first = np.argsort(-posterior.draws[block, members], axis=1)
        np.put_along_axis(ranks[block], best_first, one_to_m, axis=1)
    return ranks


def shortest(ranks: I32) -> tuple[I64, I64]:
    """Find the shortest interval that contains 90 % of the ranks in each column.

    An interval with equal tails would contain more than 90 %, because ranks are whole numbers. If
    several intervals are shortest, the middle one of these is taken.

    Args:
        ranks: (draws, n) the rank of each item in each draw; sorted in place, to save memory.

    Returns:
        The low ends and the high ends of the intervals, both (n,).
    """
    ranks.sort(axis=0)
    n_draws = len(ranks)
    # k draws divide the line into k + 1 gaps. A further draw falls into each gap with the same
    # probability, so an interval needs the share `LEVEL` of k + 1, not of k.
    n_inside = min(int(np.ceil(LEVEL * (n_draws + 1))), n_draws)
    low_ends = ranks[: n_draws - n_inside + 1]
    high_ends = ranks[n_inside - 1 :]
    width = high_ends - low_ends
    is_shortest = width == width.min(axis=0)
    is_past_half = np.cumsum(is_shortest, axis=0) * 2 > is_shortest.sum(axis=0)
    middle = is_past_half.argmax(axis=0)  # the first row past half of the shortest intervals
    column = np.arange(ranks.shape[1])
    return low_ends[middle, column].astype(np.int64), high_ends[middle, column].astype(np.int64)
