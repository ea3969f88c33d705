"""Votes sorted by pair, so that all annotators' answers about a pair follow each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import unordered, unpacked
from sortnet.preference.base import Judgement
from sortnet.preference.comparisons import Comparisons
from sortnet.preference.judgement_table import Judgements


def _differs_from_previous(numbers: I64) -> Bool:
    """Tell which numbers differ from the number before; the first number always does.

    No number may be negative.
    """
    differs: Bool = np.diff(numbers, prepend=-1) != 0
    return differs


@dataclass(frozen=True, eq=False)
class SharedVotes:
    """The m votes about p pairs of items, sorted by pair, annotator and time.

    Attributes:
        rows: (m,) the row of the judgement. Each comparison that follows from an answer about a set
            is a vote.
        low, high: (m,) the items, the lower number first.
        pair: (m,) the number of the pair, from 0.
        annotator: (m,) the number of the annotator.
        better: (m,) 1 if the item with the lower number was preferred, 0 if not, ½ for a tie.
        first: (m,) whether the vote is the annotator's first answer about the pair.
        weight: (m,) 1 for an answer about a pair; 1 / n for a comparison from an answer about a
            set, if n comparisons follow from the answer.
        starts: (p,) the index of each pair's first vote.
    """

    rows: I64
    low: I64
    high: I64
    pair: I64
    annotator: I64
    better: F64
    first: Bool
    weight: F64
    starts: I64

    @classmethod
    def of(
        cls, judgements: Judgements, rows: I64 | None = None, *, sets: bool = False
    ) -> SharedVotes:
        """Sort the votes in a table of judgements.

        Args:
            judgements: the table of judgements.
            rows: the rows of answers about two items. If None, all answers about the order of two
                items that are not undone.
            sets: whether to add the comparisons that follow from answers about sets.
        """
        if rows is None:
            is_wanted = judgements.is_answer if sets else judgements.is_answer & judgements.is_pair
            rows = np.flatnonzero(is_wanted)
        votes = Comparisons.of_table(judgements, rows)
        is_ascending = votes.left < votes.right
        n_votes_of_row = np.maximum(np.bincount(votes.row), 1)
        keys = unordered(votes.left, votes.right)
        # Sort by pair, then by annotator, then by row: `lexsort` takes the first key last.
        order = np.lexsort((votes.row, votes.annotator, keys))
        low, high = unpacked(keys[order])
        annotator = votes.annotator[order]
        is_new_pair = _differs_from_previous(low) | _differs_from_previous(high)
        return cls(
            rows=votes.row[order],
            low=low,
            high=high,
            pair=np.cumsum(is_new_pair) - 1,
            annotator=annotator,
            better=np.where(is_ascending, votes.target, 1 - votes.target)[order],
            first=is_new_pair | _differs_from_previous(annotator),
            weight=(1 / n_votes_of_row[votes.row])[order],
            starts=np.flatnonzero(is_new_pair),
        )

    def answers(self, judgements: Judgements, pair: int) -> list[Judgement]:
        """List the judgements about the pair with the number `pair`, in the order of the table."""
        is_last_pair = pair == len(self.starts) - 1
        start = self.starts[pair]
        end = len(self.rows) if is_last_pair else self.starts[pair + 1]
        rows = np.sort(self.rows[start:end])
        return [judgements[row] for row in rows.tolist()]

    def oldest(self) -> I64:
        """Return the row of the first answer about each pair, (p,)."""
        if not len(self.rows):
            return self.rows
        return np.minimum.reduceat(self.rows, self.starts)

    def repeated(self) -> tuple[I64, I64]:
        """Find the votes with which an annotator answered a pair again.

        A vote is left out if it is a tie, or if the annotator's first vote about the pair is a tie.

        Returns:
            The indices of the repeated votes, and the indices of the corresponding first votes.
        """
        indices = np.arange(len(self.rows))
        # An annotator's votes about a pair follow each other. So the annotator's first vote about
        # the pair is the last vote so far that is marked as `first`.
        first_indices = np.maximum.accumulate(np.where(self.first, indices, 0))
        has_no_tie = (self.better != 0.5) & (self.better[first_indices] != 0.5)
        is_repeated = ~self.first & has_no_tie
        return indices[is_repeated], first_indices[is_repeated]
