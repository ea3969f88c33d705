"""The goal of a session: a whole order, or the top k items of each group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, I64
from sortnet.preference.groups import Groups
from sortnet.preference.posterior import Draws, Posterior

WRONG = 0.1  # share that may be wrong
SURE = 0.9  # probability that at most the allowed share of the top items is wrong
_ALL = 1e6  # the margin of an item if all items of the group are top


@dataclass(frozen=True)
class Goal:
    """The goal of a session: a ranking that is good enough.

    Attributes:
        wrong: largest share that may be wrong. For a whole order it is the expected share of all
            pairs; for top items it may be exceeded with a probability of 10 %.
        top: k, the number of top items of each group; 0: the goal is the whole order.

    >>> str(Goal()), str(Goal(0.1, top=10))
    ('at most 10% of the pairs in the wrong order', 'the top 10, at most 1 of them wrong')
    """

    wrong: float = WRONG
    top: int = 0

    def __str__(self) -> str:
        if not self.top:
            return f"at most {100 * self.wrong:.3g}% of the pairs in the wrong order"
        return f"the top {self.top}, at most {self.allowed(self.top)} of them wrong"

    def expected(self, wrong: float) -> str:
        """Say in a sentence which share is expected to be wrong.

        >>> Goal(top=10).expected(0.12)
        '12% of the top 10 are expected not to belong there'
        """
        if self.top:
            return f"{wrong:.0%} of the top {self.top} are expected not to belong there"
        return f"{wrong:.0%} of the pairs are expected to be in the wrong order"

    def allowed(self, k: int) -> int:
        """The number of items that may be wrong among k top items."""
        return int(self.wrong * k + 1e-9)  # .3 times 10 is a little less than 3


def top_margins(posterior: Posterior, groups: Groups, top: int) -> Draws:
    """(draws, n) margins: each item's score minus the edge of its group's top k, in each draw.

    The edge is half-way between the k-th and the next score. In a group of at most k items all
    margins are large.

    Cost: a partition of each group's scores in each draw.
    """
    scores = posterior.draws[:, : posterior.n_items]
    margins = np.full_like(scores, -_ALL)  # retired items are in no group and keep this value
    for members in groups.members:
        margins[:, members] = above_edge(scores[:, members], top)
    return margins


def above_edge(scores: Draws, top: int) -> Draws:
    """(draws, n) the margins of the items of one group; see `top_margins`."""
    n = scores.shape[1]
    if n <= top:
        return np.full(scores.shape, _ALL)
    ascending_at_edge = np.partition(scores, (n - top - 1, n - top), axis=1)
    at_edge = ascending_at_edge[:, n - top - 1 : n - top + 1]
    margins: Draws = scores - at_edge.mean(axis=1, keepdims=True)
    return margins


def among_top(posterior: Posterior, groups: Groups, top: int) -> F64:
    """(n,) the probability that an item is in its group's top k: the share of draws where it is."""
    q: F64 = np.mean(top_margins(posterior, groups, top) > 0, axis=0)
    return q


def wrong_of_top(margins: Draws, tie: float = 0.0) -> I64:
    """(draws,) how many of the chosen items are not top items, in each draw.

    An item that is below the edge by less than half of the tie threshold counts as a top item.

    Args:
        margins: (draws, k) the margins of the chosen items, see `top_margins`.
        tie: the tie threshold.
    """
    wrong: I64 = np.count_nonzero(margins < -tie / 2, axis=1)
    return wrong
