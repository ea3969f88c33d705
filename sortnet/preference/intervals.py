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

LEVEL = 0.9  # of the intervals
_COLUMNS = 4096
_SORTED_AT_ONCE = 1 << 16  # scores


@dataclass(frozen=True, eq=False)
class Ranking:
    """All items in order, including those never compared. All arrays but `order` are by item.

    Attributes:
        order: (n,) the items, best first; group by group if there are groups.
        rank: (n,) 1 for the best, of its group.
        score: (n,) expected scores, in units of an answer's noise; comparable within a group.
        low, high: (n,) 90 % interval of an item's rank in its group.
        judgements: (n,) number of answers about an item.
        among_top: (n,) probability that an item is of its group's top; None without such a goal.
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
    """Rank by expected score, each group by itself; intervals from the ranks in draws.

    Args:
        posterior: of the scores.
        judgements: (n,) number of answers about an item.
        groups: of the items.
        top: number of top items wanted of each group; 0: all.

    Cost: one sort, and one per draw.
    """
    n = posterior.n_items
    order = np.concatenate(
        [m[np.argsort(-posterior.scores[m], kind="stable")] for m in groups.members]
    )
    rank, low, high = (np.zeros(n, np.int64) for _ in range(3))
    rank[order] = np.concatenate([np.arange(1, len(m) + 1) for m in groups.members])
    for m in groups.members:
        places = np.empty((len(posterior.draws), len(m)), np.int32)
        # Some draws at a time: of a million items the orders of all take 400 MB.
        at_once = max(1, _SORTED_AT_ONCE // len(m))
        for start in range(0, len(places), at_once):
            some = slice(start, start + at_once)
            by_score = np.argsort(-posterior.draws[some, m], axis=1)
            rank_in_draw = np.arange(1, len(m) + 1, dtype=np.int32)[None]
            np.put_along_axis(places[some], by_score, rank_in_draw, axis=1)
        lowest, highest = shortest(places)
        low[m], high[m] = np.minimum(lowest, rank[m]), np.maximum(highest, rank[m])
    q = among_top(posterior, groups, top) if top else None
    return Ranking(order, rank, posterior.scores.copy(), low, high, judgements, q)


def shortest(places: I64 | I32) -> tuple[I64, I64]:
    """Ends of the shortest interval of each column that contains the share `LEVEL` of its rows;
    equal tails would contain more, as ranks are few and whole.
    """
    ends = np.empty((2, places.shape[1]), np.int64)
    for start in range(0, places.shape[1], _COLUMNS):  # so that a block stays in the cache
        block = slice(start, start + _COLUMNS)
        ends[:, block] = _shortest(places[:, block])
    return ends[0], ends[1]


def _shortest(places: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    ordered: NDArray[Any] = np.sort(places, axis=0)
    # A further draw falls with equal probability into each of the gaps between k draws and beyond
    # them: k + 1 places.
    n_inside = min(int(np.ceil(LEVEL * (len(ordered) + 1))), len(ordered))
    most = len(ordered) - n_inside  # draws outside
    width = ordered[len(ordered) - 1 - most :] - ordered[: most + 1]
    # The middle one of the shortest.
    least = width == width.min(axis=0)
    first = np.argmax(np.cumsum(least, axis=0) * 2 > least.sum(axis=0), axis=0)
    column = np.arange(ordered.shape[1])
    return ordered[first, column], ordered[first + len(ordered) - 1 - most, column]
