"""Votes sorted by pair, so that all annotators' answers about a pair follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import packed
from sortnet.preference.base import Judgement
from sortnet.preference.judgement_table import Judgements


class SetComparisons(NamedTuple):
    """The m comparisons of two items that follow from answers about more than two items.

    Attributes:
        row: (m,) the row of the judgement from which the comparison follows.
        better, worse: (m,) the two items; equally good items are in the order of the question.
        target: (m,) 1, or ½ if the two items are equally good.
    """

    row: I64
    better: I64
    worse: I64
    target: F64

    @property
    def weight(self) -> F64:
        """Weight of each comparison, (m,); the comparisons of an answer add up to the weight 1."""
        n_comparisons_of_row = np.maximum(np.bincount(self.row), 1)
        weight: F64 = 1 / n_comparisons_of_row[self.row]
        return weight

    @property
    def for_low(self) -> F64:
        """Whether the item with the lower number is better, (m,): 1 if yes, 0 if no, ½ for ties."""
        is_low_better = self.better < self.worse
        return np.where(is_low_better, self.target, 1 - self.target)


def set_comparisons(judgements: Judgements, rows: I64) -> SetComparisons:
    """Derive comparisons of two items from answers about sets, as `Judgement.comparisons` does.

    The best item is better than each other item, and each other item is better than the worst item.
    If all items are equally good, each pair of items is a tie.

    Args:
        judgements: a table of judgements.
        rows: the rows of the answers about sets.
    """
    names_best = judgements.best[rows] >= 0
    names_worst = judgements.worst[rows] >= 0
    parts = (
        _comparisons_with_best(judgements, rows[names_best]),
        _comparisons_with_worst(judgements, rows[names_worst]),
        _ties_of_all_items(judgements, rows[~names_best]),
    )
    columns = zip(*parts, strict=True)
    return SetComparisons(*(np.concatenate(column_parts) for column_parts in columns))


def _comparisons_with_best(judgements: Judgements, rows: I64) -> SetComparisons:
    """Make the comparisons in which the best item of an answer is better than another item.

    Args:
        judgements: a table of judgements.
        rows: the rows of answers that name a best item.
    """
    items = judgements.items(rows).astype(np.int64)
    best = judgements.best[rows].astype(np.int64)
    is_other = (items >= 0) & (items != best[:, None])  # -1 is an empty place
    answer, place = np.nonzero(is_other)
    return SetComparisons(
        row=rows[answer],
        better=best[answer],
        worse=items[answer, place],
        target=np.ones(len(answer)),
    )


def _comparisons_with_worst(judgements: Judgements, rows: I64) -> SetComparisons:
    """Make the comparisons in which another item than the best is better than the worst item.

    Args:
        judgements: a table of judgements.
        rows: the rows of answers that name a worst item, and so a best item, too.
    """
    items = judgements.items(rows).astype(np.int64)
    best = judgements.best[rows].astype(np.int64)
    worst = judgements.worst[rows].astype(np.int64)
    is_between = (items >= 0) & (items != best[:, None]) & (items != worst[:, None])
    answer, place = np.nonzero(is_between)
    return SetComparisons(
        row=rows[answer],
        better=items[answer, place],
        worse=worst[answer],
        target=np.ones(len(answer)),
    )


def _ties_of_all_items(judgements: Judgements, rows: I64) -> SetComparisons:
    """Make a tie of each pair of items in answers that call all items equally good.

    Args:
        judgements: a table of judgements.
        rows: the rows of these answers.
    """
    items = judgements.items(rows).astype(np.int64)
    first, second = np.triu_indices(items.shape[1], 1)  # the two places of each pair
    # Items fill the first places of a row. So if the second item of a pair exists, both exist.
    answer, pair = np.nonzero(items[:, second] >= 0)
    return SetComparisons(
        row=rows[answer],
        better=items[answer, first[pair]],
        worse=items[answer, second[pair]],
        target=np.full(len(answer), 0.5),
    )


class _VoteColumns(NamedTuple):
    """Columns of votes about pairs of items, in any order.

    Attributes:
        row, low, high, annotator, better, weight: see `SharedVotes`, whose `rows` are `row`.
    """

    row: I64
    low: I64
    high: I64
    annotator: I64
    better: F64
    weight: F64


def _votes_about_pairs(judgements: Judgements, rows: I64 | None) -> _VoteColumns:
    """Make a vote of each answer about two items.

    Args:
        judgements: a table of judgements.
        rows: the rows of the answers. If None, all answers about the order of two items that are
            not undone.
    """
    if rows is None:
        rows = np.flatnonzero(judgements.is_vote)
    low, high = judgements.pairs()
    return _VoteColumns(
        row=rows,
        low=low[rows],
        high=high[rows],
        annotator=judgements.annotator[rows],
        better=judgements.for_low()[rows],
        weight=np.ones(len(rows)),
    )


def _votes_about_sets(judgements: Judgements) -> _VoteColumns:
    """Make a vote of each comparison that follows from an answer about a set."""
    set_rows = np.flatnonzero(judgements.is_answer & judgements.is_set)
    comparisons = set_comparisons(judgements, set_rows)
    return _VoteColumns(
        row=comparisons.row,
        low=np.minimum(comparisons.better, comparisons.worse),
        high=np.maximum(comparisons.better, comparisons.worse),
        annotator=judgements.annotator[comparisons.row],
        better=comparisons.for_low,
        weight=comparisons.weight,
    )


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
        votes = _votes_about_pairs(judgements, rows)
        if sets:
            columns = zip(votes, _votes_about_sets(judgements), strict=True)
            votes = _VoteColumns(*(np.concatenate(column_parts) for column_parts in columns))
        # Sort by pair, then by annotator, then by row: `lexsort` takes the first key last.
        order = np.lexsort((votes.row, votes.annotator, packed(votes.low, votes.high)))
        low = votes.low[order]
        high = votes.high[order]
        annotator = votes.annotator[order]
        is_new_pair = _differs_from_previous(low) | _differs_from_previous(high)
        return cls(
            rows=votes.row[order],
            low=low,
            high=high,
            pair=np.cumsum(is_new_pair) - 1,
            annotator=annotator,
            better=votes.better[order],
            first=is_new_pair | _differs_from_previous(annotator),
            weight=votes.weight[order],
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
