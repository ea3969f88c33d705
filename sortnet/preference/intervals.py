"""The ranking of all items, with an interval for each rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.preference.posterior import Posterior
from sortnet.types import F64, I64

LEVEL = 0.9  # of the intervals


@dataclass(frozen=True, eq=False)
class Ranking:
    """All items in order, including those never compared. All arrays but `order` are by item.

    Attributes:
        order: (n,) the items, best first.
        rank: (n,) 1 for the best.
        score: (n,) expected scores, in units of an answer's noise.
        low, high: (n,) 90 % interval of an item's rank.
        judgements: (n,) number of answers about an item.
    """

    order: I64
    rank: I64
    score: F64
    low: I64
    high: I64
    judgements: I64

    def __len__(self) -> int:
        return len(self.order)


def rank_items(posterior: Posterior, judgements: I64, kept: I64) -> Ranking:
    """Rank by expected score; intervals from the ranks in draws from the posterior.

    Args:
        judgements: (n,) number of answers about an item.
        kept: the items to rank.

    Cost: one sort, and one per draw.
    """
    n = posterior.n_items
    order = kept[np.argsort(-posterior.scores[kept], kind="stable")]
    rank, low, high = (np.zeros(n, np.int64) for _ in range(3))
    rank[order] = np.arange(1, len(order) + 1)
    places = np.argsort(np.argsort(-posterior.draws[:, kept], axis=1), axis=1) + 1
    edges = np.quantile(places, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0)
    low[kept] = np.minimum(np.floor(edges[0]).astype(np.int64), rank[kept])
    high[kept] = np.maximum(np.ceil(edges[1]).astype(np.int64), rank[kept])
    return Ranking(order, rank, posterior.scores.copy(), low, high, judgements)
