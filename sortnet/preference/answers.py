"""The answers of a session as arrays: Luce's choices of a best or a worst item."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from sortnet.core import F64, I64, Bool
from sortnet.preference.base import Pair, Probabilities
from sortnet.preference.judgement_table import Judgements

GOLD = -1  # the annotator of the known answers to gold pairs
LARGEST_P = 0.99  # a probability beyond .99 or .01 only says "at least"


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers as choices: in each row an annotator chose one of two to six items.

    An answer about a set that names the best and the worst item has two rows: the choice of the
    best of all items, and the choice of the worst of the other items.

    Attributes:
        items: (m, k) the items by their places; -1 for an empty place.
        share: (m, k) the share of the choice that each place got: 1 for the chosen place, 1/2 for
            both places of a tie, p and 1 - p for a share of votes.
        direction: (m,) 1 if the best item was chosen, -1 if the worst was.
        place: (m, k) the place of each item, from 1/2 for the first place to -1/2 for the last.
        annotator: (m,) the number of each row's annotator; `GOLD` for a gold pair.
        probit: (m,) the probit of the probability that the first item is better, where the
            probability is a measurement; NaN in other rows.
        tied: (m,) whether the row is a tie of two items.
        event: (m,) the row of the answer in the table of judgements; -1 for a gold pair.
        weight: (m,) the number of answers that each row counts for; 1 for what annotators say.
    """

    items: I64
    share: F64
    direction: F64
    place: F64
    annotator: I64
    probit: F64
    tied: Bool
    event: I64
    weight: F64

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def of_table(
        cls,
        table: Judgements,
        rows: I64,
        *,
        probabilities: Mapping[str, Probabilities] | None = None,
    ) -> Answers:
        """Convert judgements about the order of items.

        Args:
            table: the judgements.
            rows: the rows of the answers in the table; none of them is a skip or an undo.
            probabilities: what each annotator's p counts as. The default is a share of votes.

        Cost: about 1 us per answer.
        """
        choices_of_best = _choices_of_best(table, rows, probabilities or {})
        worst = table.worst[rows]
        choices = choices_of_best.where(worst >= 0)
        choices_of_worst = replace(
            choices,
            # The worst item is chosen from all items but the best.
            items=np.where(choices.share == 1, -1, choices.items),
            share=(choices.items == worst[worst >= 0, None]).astype(np.float64),
            direction=-choices.direction,
        )
        return joined([choices_of_best, choices_of_worst])

    def where(self, selected: Bool | I64) -> Answers:
        """Select rows by a mask or by row numbers."""
        return Answers(*(getattr(self, name)[selected] for name in self.__dataclass_fields__))

    def with_gold(self, pairs: Collection[Pair]) -> Answers:
        """Add the known answer to each gold pair, given as (better item, worse item)."""
        if not pairs:
            return self
        items = np.array([*pairs], np.int64)
        m = len(items)
        width = self.items.shape[1]
        return joined([self, choices_of_two(items, np.ones(m), np.full(m, GOLD), width=width)])

    def of_own_items(self) -> tuple[Answers, I64]:
        """Number the items that have answers from 0; return the answers, and these items."""
        items = np.unique(self.items[self.items >= 0])
        numbers = np.where(self.items < 0, -1, np.searchsorted(items, self.items))
        return replace(self, items=numbers), items

    def by_one(self) -> Answers:
        """Let all answers be by the annotator with number 0."""
        return replace(self, annotator=np.zeros(len(self), np.int64))

    def in_words(self, annotators: Collection[int]) -> Answers:
        """Let the measurements of these annotators count as words, best or worst."""
        is_theirs = np.isin(self.annotator, [*annotators])
        return replace(self, probit=np.where(is_theirs, np.nan, self.probit))

    @cached_property
    def may_tie(self) -> Bool:
        """Whether each row may be a tie: it is the choice of the better of two items, (m,)."""
        n_items = np.count_nonzero(self.items >= 0, axis=1)
        may_tie: Bool = (self.direction > 0) & (n_items == 2)
        return may_tie

    @property
    def is_choice(self) -> Bool:
        """Whether each row names the best item, or gives it more than half of the votes, (m,)."""
        is_choice: Bool = (self.direction > 0) & (self.share.max(axis=1, initial=0.0) > 0.5)
        return is_choice

    @property
    def is_measured(self) -> Bool:
        """Whether each row is a measurement of a difference, (m,)."""
        return ~np.isnan(self.probit)

    @cached_property
    def edges(self) -> Edges:
        """Every pair of places of every row, with its two items."""
        k = self.items.shape[1]
        first, second = np.triu_indices(k, 1)
        is_pair = (self.items[:, first] >= 0) & (self.items[:, second] >= 0)
        row, column = np.nonzero(is_pair)
        a = first[column]
        b = second[column]
        return Edges(row, a, b, self.items[row, a], self.items[row, b])


class Edges(NamedTuple):
    """Pairs of places, of which a choice has as many as its items have pairs.

    Attributes:
        row: (e,) the row of the choice.
        a, b: (e,) the two places.
        i, j: (e,) the items in these places.
    """

    row: I64
    a: I64
    b: I64
    i: I64
    j: I64


def joined(parts: Sequence[Answers]) -> Answers:
    """Join answers that have equally many places."""
    names = Answers.__dataclass_fields__
    return Answers(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def choices_of_two(items: I64, for_first: F64, annotator: I64, *, width: int = 2) -> Answers:
    """Make choices of the better of two items, which no judgement has as an answer.

    Args:
        items: (m, 2) the items.
        for_first: (m,) the share of the choice that the first item got.
        annotator: (m,) the annotators.
        width: the number of places, of which all but two are empty.
    """
    m = len(items)
    new_places = ((0, 0), (0, width - 2))
    return Answers(
        items=np.pad(items, new_places, constant_values=-1),
        share=np.pad(np.column_stack((for_first, 1 - for_first)), new_places),
        direction=np.ones(m),
        place=np.pad(np.tile([0.5, -0.5], (m, 1)), new_places),
        annotator=annotator,
        probit=np.full(m, np.nan),
        tied=np.zeros(m, np.bool_),
        event=np.full(m, -1),
        weight=np.ones(m),
    )


def _choices_of_best(
    table: Judgements, rows: I64, probabilities: Mapping[str, Probabilities]
) -> Answers:
    """Convert answers to choices of the best item.

    If all items are equally good, each item gets the same share. A share of votes for the first of
    two items replaces the choice; a measurement is beside it.
    """
    n_places = table.n_items[rows]
    items = table.items[rows, : max(2, n_places.max(initial=0))]
    has_item = items >= 0
    best = table.best[rows, None]
    is_same = best[:, 0] < 0
    share = np.where(best < 0, has_item / n_places[:, None], items == best)
    place = 0.5 - np.arange(items.shape[1]) / (n_places[:, None] - 1)
    annotator = table.annotator[rows]
    p = table.p[rows]  # of two items, or NaN
    kinds = [probabilities.get(name, "share") for name in table.annotators]
    kind = np.array(kinds, np.str_)[annotator]
    has_share = ~np.isnan(p) & (kind == "share")
    share[has_share, 0] = p[has_share]
    share[has_share, 1] = 1 - p[has_share]
    is_within = (p > 1 - LARGEST_P) & (p < LARGEST_P)
    is_measured = is_within & ~is_same & (kind == "measurement")
    m = len(rows)
    return Answers(
        items=items,
        share=share,
        direction=np.ones(m),
        place=np.where(has_item, place, 0.0),
        annotator=annotator,
        probit=ndtri(np.where(is_measured, p, np.nan)),
        tied=is_same & (n_places == 2) & ~has_share,
        event=rows,
        weight=np.ones(m),
    )
