"""The goal of a session: a whole order, or the top k items of each group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import F64
from sortnet.preference.groups import Groups
from sortnet.preference.model import Draws, Posterior

WRONG = 0.1  # the share that may be wrong, unless the user sets another
SURE = 0.9  # wanted probability that at most the allowed share of the top items is wrong
_ALL = 1e6  # the margin of an item if all items of its group are top items


@dataclass(frozen=True)
class Goal:
    """The goal of a session: a ranking that is good enough.

    Attributes:
        wrong: largest share that may be wrong. For a whole order it is the expected share of pairs
            in the wrong order. For top items it is the share of items that do not belong there; it
            may be exceeded with a probability of 10 %.
        top: number k of top items of each group; 0 if the goal is the whole order.

    >>> Goal(0.29).allowed(100)
    29
    """

    wrong: float = WRONG
    top: int = 0

    def allowed(self, k: int) -> int:
        """Compute how many items may be wrong among k top items."""
        rounding_error = 1e-9  # .29 times 100 is a little less than 29
        return int(self.wrong * k + rounding_error)


def above_edge(scores: Draws, top: int) -> Draws:
    """Compute the margin of each item of a group: its score minus the score at the edge of the top.

    The edge is half-way between the k-th and the next score of the group, so a margin above 0 means
    that the item is among the top. In a group of at most k items all margins are large.

    Args:
        scores: (draws, n) the scores of the items of the group.
        top: the number k of top items.

    Returns:
        (draws, n) the margins.
    """
    n = scores.shape[1]
    if n <= top:
        return np.full(scores.shape, _ALL)
    # In ascending order the best k scores begin at n - k. Only the two scores at this edge are
    # needed in their places, which is faster than a sort.
    partitioned = np.partition(scores, (n - top - 1, n - top), axis=1)
    best_outside_and_worst_inside = partitioned[:, n - top - 1 : n - top + 1]
    margins: Draws = scores - best_outside_and_worst_inside.mean(axis=1, keepdims=True)
    return margins


def among_top(posterior: Posterior, groups: Groups, top: int) -> F64:
    """Estimate the probability that each item is in its group's top k, by the share of draws.

    Returns:
        (n,) the probabilities.
    """
    q = np.zeros(posterior.n_items)  # retired items are in no group and keep the 0
    for members in groups.members:
        q[members] = np.mean(above_edge(posterior.draws[:, members], top) > 0, axis=0)
    return q
