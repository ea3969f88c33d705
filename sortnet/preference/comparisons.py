"""Comparisons of two items that follow from answers: the one view that reports and training use."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import packed, unordered, unpacked
from sortnet.preference.base import Pair
from sortnet.preference.judgement_table import Judgements


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of two items, as arrays.

    Attributes:
        left, right: (m,) the two items.
        target: (m,) the share of votes for the left item: 1 or 0, 1/2 for a tie.
        annotator: (m,) the number of the annotator.
        weight: (m,) the number of answers that a comparison counts for. The comparisons from one
            answer about k items weigh k - 1 together.
        row: (m,) the row of the judgement that the comparison follows from, ascending.
    """

    left: I64
    right: I64
    target: F64
    annotator: I64
    weight: F64
    row: I64

    def __len__(self) -> int:
        return len(self.left)

    @classmethod
    def of_one(cls, left: I64, right: I64, target: F64) -> Comparisons:
        """Make comparisons as if a single annotator had made all of them."""
        n = len(left)
        return cls(left, right, target, np.zeros(n, np.int64), np.ones(n), np.arange(n))

    @classmethod
    def of_table(cls, table: Judgements, rows: I64 | None = None) -> Comparisons:
        """List the comparisons that follow from answers, row after row.

        An answer that names the best item compares the best, and the worst if it is named, with
        all other items. Any other answer compares all of its items.

        Args:
            table: a table of judgements.
            rows: ascending rows of the table. If None, the rows of all answers about the order that
                are not undone.
        """
        if rows is None:
            rows = np.flatnonzero(table.is_answer)
        items = table.items[rows]
        best = table.best[rows, None]
        worst = table.worst[rows, None]
        first, second = np.triu_indices(items.shape[1], 1)  # the two places of each pair
        i, j = items[:, first], items[:, second]
        is_compared = (best < 0) | (i == best) | (j == best) | (i == worst) | (j == worst)
        # Items fill the first places of a row, so a pair exists if its second place has an item.
        place, pair = np.nonzero(is_compared & (j >= 0))
        left_items, right_items = i[place, pair], j[place, pair]
        row = rows[place]
        is_left_better = (left_items == table.best[row]) | (right_items == table.worst[row])
        n_items = np.count_nonzero(items >= 0, axis=1)
        n_comparisons = np.bincount(place, minlength=len(rows))
        return cls(
            left=left_items,
            right=right_items,
            target=np.where(table.best[row] < 0, 0.5, is_left_better),
            annotator=table.annotator[row],
            weight=(n_items[place] - 1) / n_comparisons[place],
            row=row,
        )

    def where(self, selected: Bool | I64) -> Comparisons:
        """Select comparisons by a mask or by row numbers."""
        columns = {name: column[selected] for name, column in vars(self).items()}
        return replace(self, **columns)

    @property
    def part(self) -> F64:
        """The part of its answer that each comparison is, (m,): the parts add up to 1."""
        part: F64 = 1 / np.bincount(self.row)[self.row]
        return part

    @property
    def for_low(self) -> F64:
        """The target of the item with the lower number, (m,)."""
        return np.where(self.left < self.right, self.target, 1 - self.target)


class ByPair:
    """Comparisons grouped by pair of items, and by pair and annotator.

    Args:
        comparisons: (m,) the comparisons, oldest first.

    Attributes:
        low, high: (p,) the items of each pair, the lower number first.
        pair: (m,) the number of each comparison's pair.
        group: (m,) the number of each comparison's group: the comparisons of a pair by one
            annotator.
        first: (g,) the first comparison of each group.
        for_low: (m,) 1 if the item with the lower number is better, 0 if not, 1/2 for a tie.

    Cost: two sorts of the comparisons.
    """

    def __init__(self, comparisons: Comparisons) -> None:
        self.comparisons = comparisons
        keys, self.pair = np.unique(
            unordered(comparisons.left, comparisons.right), return_inverse=True
        )
        self.low, self.high = unpacked(keys)
        n_annotators = comparisons.annotator.max(initial=0) + 1
        _, self.first, self.group = np.unique(
            self.pair * n_annotators + comparisons.annotator, return_index=True, return_inverse=True
        )
        self.for_low = comparisons.for_low

    @cached_property
    def counts(self) -> F64:
        """Counts of each group's answers, (g, 3): for the lower number, for the higher, ties."""
        return counted(self.group, self.for_low, len(self.first))

    @property
    def pair_of_group(self) -> I64:
        """The number of each group's pair, (g,)."""
        return self.pair[self.first]

    def others(self, counts: F64) -> F64:
        """Sum the counts of all other annotators about the pair of each group.

        Args:
            counts: (g, k) counts of each group.
        """
        sums = np.zeros((len(self.low), counts.shape[1]))
        np.add.at(sums, self.pair_of_group, counts)
        return sums[self.pair_of_group] - counts

    def repeated(self) -> tuple[I64, Bool]:
        """Find the comparisons in which an annotator answered a pair again.

        Ties, and answers after a tie, are left out.

        Returns:
            The comparisons, and whether each is the same as the annotator's first about the pair.
        """
        first = self.first[self.group]
        has_no_tie = (self.for_low != 0.5) & (self.for_low[first] != 0.5)
        repeated = np.flatnonzero((first < np.arange(len(first))) & has_no_tie)
        return repeated, self.for_low[repeated] == self.for_low[first[repeated]]


def counted(unit: I64, for_low: F64, n_units: int) -> F64:
    """Count the comparisons in each unit: for the lower item number, for the higher, and ties.

    Args:
        unit: (m,) the number of each comparison's unit, such as its pair.
        for_low: (m,) 1, 0, or 1/2 for a tie.
        n_units: number of units.

    Returns:
        (n_units, 3) the counts.
    """
    counts = np.zeros((n_units, 3))
    column = np.select([for_low == 1, for_low == 0], [0, 1], 2)
    np.add.at(counts, (unit, column), 1)
    return counts


def gold_targets(votes: ByPair, gold: Collection[Pair]) -> F64:
    """Look up which item of each pair is known to be better.

    Args:
        votes: the comparisons by pair.
        gold: pairs (better, worse) whose order is known.

    Returns:
        (p,) 1 if the item with the lower number is better, 0 if not; NaN if nothing is known.
    """
    for_low = np.full(len(votes.low), np.nan)
    better, worse = np.array([*gold], np.int64).reshape(-1, 2).T
    keys = packed(votes.low, votes.high)
    for_low[np.isin(keys, packed(better, worse))] = 1
    for_low[np.isin(keys, packed(worse, better))] = 0
    return for_low
