"""The goal of a session: a whole order, or the top k items of each group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, I64
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
        """Compute how many items may be wrong among k top items."""
        rounding_error = 1e-9  # .29 times 100 is a little less than 29
        return int(self.wrong * k + rounding_error)


def top_margins(posterior: Posterior, groups: Groups, top: int) -> Draws:
    """Compute the margin of each item: its score minus the score at the edge of the top k.

    The edge of a group is half-way between its k-th and its next score, so a margin above 0 means
    that the item is among the top. In a group of at most k items all margins are large.

    Args:
        posterior: the posterior of the scores.
        groups: the groups of the items.
        top: the number k of top items of each group.

    Returns:
        (draws, n) the margins in each draw of the scores.

    Cost: a partition of each group's scores in each draw.
    """
    scores = posterior.draws[:, : posterior.n_items]
    margins = np.full_like(scores, -_ALL)  # retired items are in no group and keep this value
    for members in groups.members:
        margins[:, members] = above_edge(scores[:, members], top)
    return margins


def above_edge(scores: Draws, top: int) -> Draws:
    """Compute the margin of each item of a group: its score minus the score at the edge of the top.

    The edge is half-way between the k-th and the next score of the group. In a group of at most k
    items all margins are large.

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
    edge = best_outside_and_worst_inside.mean(axis=1, keepdims=True)
    margins: Draws = scores - edge
    return margins


def among_top(posterior: Posterior, groups: Groups, top: int) -> F64:
    """Estimate the probability that each item is in its group's top k, by the share of draws.

    Returns:
        (n,) the probabilities.
    """
    q: F64 = np.mean(top_margins(posterior, groups, top) > 0, axis=0)
    return q


def wrong_of_top(margins: Draws, tie: float = 0.0) -> I64:
    """Count the chosen items that are not top items, in each draw of the scores.

    An item that is below the edge by less than half of the tie threshold counts as a top item.

    Args:
        margins: (draws, k) the margins of the chosen items, see `top_margins`.
        tie: the tie threshold.

    Returns:
        (draws,) the counts.
    """
    n_wrong: I64 = np.count_nonzero(margins < -tie / 2, axis=1)
    return n_wrong
