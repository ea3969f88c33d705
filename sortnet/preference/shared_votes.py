"""Answers sorted by pair, so that all annotators' answers about one pair follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import packed
from sortnet.preference.base import Judgement
from sortnet.preference.judgement_table import Judgements


class SetComparisons(NamedTuple):
    """The comparisons that follow from answers about more than two items.

    Attributes:
        row: (m,) the row of the judgement.
        better, worse: (m,) the items; equally good items are in the order of the question.
        target: (m,) 1, or ½ if the two items are equally good.
    """

    row: I64
    better: I64
    worse: I64
    target: F64

    @property
    def weight(self) -> F64:
        """(m,) 1 / the number of comparisons from the same answer: each answer counts once."""
        weight: F64 = 1 / np.maximum(np.bincount(self.row), 1)[self.row]
        return weight


def set_comparisons(judgements: Judgements, rows: I64) -> SetComparisons:
    """Derive comparisons of two items from the answers about sets in the given rows.

    The best item is better than each other item, and each other item is better than the worst, as
    in `Judgement.comparisons`. If all items are equally good, each pair of them is a tie.
    """
    items = judgements.items(rows).astype(np.int64)
    # (m, places): the best and the worst item of an answer are repeated for each place.
    best = np.broadcast_to(judgements.best[rows].astype(np.int64)[:, None], items.shape)
    worst = np.broadcast_to(judgements.worst[rows].astype(np.int64)[:, None], items.shape)

    def comparisons(is_compared: Bool, better: I64, worse: I64, target: float) -> SetComparisons:
        """The comparisons at the selected places of the given arrays."""
        answer, _ = np.nonzero(is_compared)
        targets = np.full(len(answer), target)
        return SetComparisons(rows[answer], better[is_compared], worse[is_compared], targets)

    is_not_best = (items >= 0) & (items != best)
    is_between = is_not_best & (items != worst)
    with_best = comparisons(is_not_best & (best >= 0), best, items, 1.0)
    with_worst = comparisons(is_between & (worst >= 0), items, worst, 1.0)
    first, second = np.triu_indices(items.shape[1], 1)
    left = items[:, first]
    right = items[:, second]
    # Items fill the first places of a row. So a pair is complete if its second item is there.
    ties = comparisons((best[:, first] < 0) & (right >= 0), left, right, 0.5)
    columns = zip(with_best, with_worst, ties, strict=True)
    return SetComparisons(*(np.concatenate(parts) for parts in columns))


@dataclass(frozen=True, eq=False)
class SharedVotes:
    """Votes about two items, sorted by pair, annotator and time.

    Attributes:
        rows: (m,) the row of the judgement; an answer about a set becomes several votes, one for
            each comparison that follows from the answer.
        low, high: (m,) the items, the lower number first.
        pair: (m,) number of the pair, from 0.
        annotator: (m,) number of the annotator.
        better: (m,) 1 if the item with the lower number was preferred, 0 if not, ½ for a tie.
        first: (m,) whether the vote is the annotator's first answer to the pair.
        weight: (m,) 1 for an answer about a pair; for a comparison from an answer about a set,
            1 / the number of comparisons from that answer.
        starts: (p,) the place of each pair's first vote.
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
        """Sort the votes in the given rows of a table of judgements.

        Args:
            judgements: the table.
            rows: rows of answers about two items; None: all such answers about the order that are
                not undone.
            sets: whether the comparisons that follow from answers about sets are votes, too.
        """
        if rows is None:
            rows = np.flatnonzero(judgements.is_vote)
        low, high = (items[rows] for items in judgements.pairs())
        better = judgements.for_low()[rows]
        weight = np.ones(len(rows))
        if sets:
            set_rows = np.flatnonzero(judgements.is_answer & judgements.is_set)
            comparisons = set_comparisons(judgements, set_rows)
            is_better_low = comparisons.better < comparisons.worse
            for_low = np.where(is_better_low, comparisons.target, 1 - comparisons.target)
            rows = np.append(rows, comparisons.row)
            low = np.append(low, np.minimum(comparisons.better, comparisons.worse))
            high = np.append(high, np.maximum(comparisons.better, comparisons.worse))
            better = np.append(better, for_low)
            weight = np.append(weight, comparisons.weight)
        annotator = judgements.annotator[rows]
        order = np.lexsort((rows, annotator, packed(low, high)))
        low = low[order]
        high = high[order]
        annotator = annotator[order]
        is_new_pair = (np.diff(low, prepend=-1) != 0) | (np.diff(high, prepend=-1) != 0)
        return cls(
            rows=rows[order],
            low=low,
            high=high,
            pair=np.cumsum(is_new_pair) - 1,
            annotator=annotator,
            better=better[order],
            first=is_new_pair | (np.diff(annotator, prepend=-1) != 0),
            weight=weight[order],
            starts=np.flatnonzero(is_new_pair),
        )

    def answers(self, judgements: Judgements, pair: int) -> list[Judgement]:
        """The judgements about the pair with the number `pair`, in the order of the table."""
        ends = np.append(self.starts[1:], len(self.rows))
        rows = np.sort(self.rows[self.starts[pair] : ends[pair]])
        return [judgements[row] for row in rows.tolist()]

    def oldest(self) -> I64:
        """(p,) the row of the first answer to each pair."""
        return np.minimum.reduceat(self.rows, self.starts) if len(self.rows) else self.rows

    def repeated(self) -> tuple[I64, I64]:
        """Find repeated answers; return their places, and the places of the first answers.

        A repeated answer and its first answer are of one annotator about one pair. They are left
        out if either is a tie.
        """
        places = np.arange(len(self.rows))
        # Votes of one annotator about one pair follow each other, so the place of the first of them
        # is the latest place of a first vote.
        first_places = np.maximum.accumulate(np.where(self.first, places, 0))
        has_no_tie = (self.better != 0.5) & (self.better[first_places] != 0.5)
        is_repeated = ~self.first & has_no_tie
        return places[is_repeated], first_places[is_repeated]
