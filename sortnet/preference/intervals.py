"""The ranking of all items, with an interval for each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64, I32, I64
from sortnet.preference.goal import among_top
from sortnet.preference.groups import Groups
from sortnet.preference.posterior import Posterior

LEVEL = 0.9  # probability of the intervals
_COLUMNS = 4096  # columns in a block whose intervals are computed together
_SCORES_AT_ONCE = 1 << 16  # scores in a block of draws that is sorted together


@dataclass(frozen=True, eq=False)
class Ranking:
    """A ranking of all items, including items that were never compared.

    Attributes:
        order: (n,) the items, best first; group by group if there are groups.
        rank: (n,) each item's rank in its group, 1 for the best.
        score: (n,) each item's expected score, in units of an answer's noise; comparable within a
            group.
        low, high: (n,) ends of the 90 % interval of each item's rank in its group.
        judgements: (n,) number of answers about each item.
        among_top: (n,) probability that each item is among the top of its group; None if no top is
            wanted.
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
    """Rank the items of each group by expected score; intervals are from their ranks in the draws.

    Args:
        posterior: the posterior of the scores.
        judgements: (n,) number of answers about each item.
        groups: the groups of the items.
        top: number of top items of each group; 0: no top is wanted.

    Cost: one sort, and one sort per draw.
    """
    n = posterior.n_items
    order = np.concatenate(
        [
            members[np.argsort(-posterior.scores[members], kind="stable")]
            for members in groups.members
        ]
    )
    rank = np.zeros(n, np.int64)
    low = np.zeros(n, np.int64)
    high = np.zeros(n, np.int64)
    rank[order] = np.concatenate([np.arange(1, len(members) + 1) for members in groups.members])
    for members in groups.members:
        lowest, highest = shortest(_ranks_in_draws(posterior, members))
        low[members] = np.minimum(lowest, rank[members])
        high[members] = np.maximum(highest, rank[members])
    q = among_top(posterior, groups, top) if top else None
    return Ranking(order, rank, posterior.scores.copy(), low, high, judgements, q)


def _ranks_in_draws(posterior: Posterior, members: I64) -> I32:
    """(draws, m) the rank of each member of a group in each draw of the scores."""
    ranks = np.empty((len(posterior.draws), len(members)), np.int32)
    one_to_m = np.arange(1, len(members) + 1, dtype=np.int32)[None]
    # A block of draws is sorted at a time: for a million items, all draws would take 400 MB.
    n_draws = max(1, _SCORES_AT_ONCE // len(members))
    for start in range(0, len(ranks), n_draws):
        block = slice(start, start + n_draws)
        best_first = np.argsort(-posterior.draws[block, members], axis=1)
        np.put_along_axis(ranks[block], best_first, one_to_m, axis=1)
    return ranks


def shortest(places: I64 | I32) -> tuple[I64, I64]:
    """Find for each column the shortest interval that contains 90 % of its values; return its ends.

    An interval with equal tails would contain more than 90 %, because ranks are whole numbers.
    """
    ends = np.empty((2, places.shape[1]), np.int64)
    for start in range(0, places.shape[1], _COLUMNS):  # so that a block stays in the cache
        block = slice(start, start + _COLUMNS)
        ends[:, block] = _shortest_of_block(places[:, block])
    return ends[0], ends[1]


def _shortest_of_block(places: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Find the intervals of a block; if a column has several shortest, take the middle interval."""
    ascending: NDArray[Any] = np.sort(places, axis=0)
    n_rows = len(ascending)
    # k draws divide the line into k + 1 gaps. A further draw falls into each gap with the same
    # probability, so an interval needs the share `LEVEL` of k + 1, not of k.
    n_inside = min(int(np.ceil(LEVEL * (n_rows + 1))), n_rows)
    step_to_end = n_inside - 1
    width = ascending[step_to_end:] - ascending[: n_rows - step_to_end]
    is_shortest = width == width.min(axis=0)
    n_so_far = np.cumsum(is_shortest, axis=0)
    # The middle one of the shortest intervals is the first that makes more than half of them.
    start = np.argmax(n_so_far * 2 > is_shortest.sum(axis=0), axis=0)
    column = np.arange(ascending.shape[1])
    return ascending[start, column], ascending[start + step_to_end, column]
