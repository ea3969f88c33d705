"""Comparisons of two items that follow from answers, for training and for agreement."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.preference.judgement_table import Judgements


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of two items, as arrays.

    An answer that names the best item compares the best, and the worst if it is named, with all
    other items. Any other answer compares all of its items.

    Attributes:
        left, right: (m,) the two items, in the order of their places.
        target: (m,) the share of votes for the left item: 1 or 0, 1/2 for a tie.
        annotator: (m,) the number of the annotator.
        weight: (m,) the number of answers that a comparison counts for. The comparisons from one
            answer about k items weigh k - 1 together.
        row: (m,) the row of the answer in the table of judgements.
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
        m = len(left)
        return cls(left, right, target, np.zeros(m, np.int64), np.ones(m), np.arange(m))

    @classmethod
    def of_table(cls, table: Judgements, rows: I64 | None = None) -> Comparisons:
        """List the comparisons that follow from answers, row after row.

        Args:
            table: a table of judgements.
            rows: rows of the table. If None, the rows of all answers that are not undone.
        """
        if rows is None:
            rows = np.flatnonzero(table.is_answer)
        items = table.items[rows]
        best = table.best[rows, None]
        worst = table.worst[rows, None]
        first, second = np.triu_indices(items.shape[1], 1)  # the two places of each pair
        i, j = items[:, first], items[:, second]
        is_compared = (best < 0) | (i == best) | (j == best) | (i == worst) | (j == worst)
        # Items fill the places from the left, so a pair exists if its second place has an item.
        place, pair = np.nonzero(is_compared & (j >= 0))
        left, right = i[place, pair], j[place, pair]
        row = rows[place]
        is_left = (left == table.best[row]) | (right == table.worst[row])
        target = np.where(table.best[row] < 0, 0.5, is_left)
        n_comparisons = np.bincount(place, minlength=len(rows))
        weight = (table.n_items[row] - 1) / n_comparisons[place]
        return cls(left, right, target, table.annotator[row], weight, row)

    def with_shares(self, table: Judgements, ignored: Collection[int]) -> Comparisons:
        """Let the probability of an answer about two items count as a share of votes.

        Args:
            table: the judgements.
            ignored: the numbers of annotators whose probabilities do not count.
        """
        p = table.p[self.row]
        has_share = ~np.isnan(p) & (table.n_items[self.row] == 2)
        has_share &= ~np.isin(self.annotator, [*ignored])
        return replace(self, target=np.where(has_share, p, self.target))

    def where(self, selected: Bool | I64) -> Comparisons:
        """Select comparisons by a mask or by row numbers."""
        columns = {name: column[selected] for name, column in vars(self).items()}
        return replace(self, **columns)
