"""The table of compared pairs: what a sort compared, and what a judge answers about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sortnet.core.arrays import F32, I32, I64, Bool, Ints
from sortnet.core.pairs import is_in, packed, refuse_no_pairs, unordered, unpacked


@dataclass(frozen=True, eq=False)
class ComparedPairs:
    """Compared pairs of documents of one query, a row each.

    The sort makes the table, the judge fills in the answers, a strategy selects the rows to learn
    from, the training reads them and the store keeps them. A column that has one value in all rows
    takes no memory, as `of` makes it.

    Attributes:
        i, j: (m,) int32 document numbers; of a table `in_order` i is the better document.
        margin: (m,) float32 the comparator's margin of i over j: i went first if it is positive;
            NaN where no sort compared the two.
        answer: (m,) float32 how probably i is better, as the judge says: 1, 0 or between; NaN
            without an answer.

    >>> compared = ComparedPairs.of([0, 1, 2], [1, 2, 0], margin=[-1.0, -1.0, -1.0])
    >>> judged = compared.judged(np.array([1, 0, np.nan], np.float32))
    >>> judged.wrong
    array([ True, False, False])
    >>> judged.in_order().i, judged.in_order().j
    (array([0, 2], dtype=int32), array([1, 1], dtype=int32))
    """

    i: I32
    j: I32
    margin: F32
    answer: F32

    @classmethod
    def of(
        cls,
        i: Any,
        j: Any,
        *,
        margin: Any = np.nan,
        answer: Any = np.nan,
    ) -> Self:
        """A table of pairs; a margin or an answer may be one number for all rows.

        Raises:
            DataError: on arrays that do not fit each other, or a document compared with itself.
        """
        i, j = (np.asarray(column) for column in (i, j))
        if not (i.dtype == j.dtype == np.int32):
            i, j = i.astype(np.int64), j.astype(np.int64)
        refuse_no_pairs(i, j)
        i, j = (column.astype(np.int32, copy=False) for column in (i, j))
        margin, answer = (np.asarray(column, np.float32) for column in (margin, answer))
        return cls(i, j, np.broadcast_to(margin, i.shape), np.broadcast_to(answer, i.shape))

    @classmethod
    def empty(cls) -> Self:
        return cls.of([], [])

    @classmethod
    def of_keys(cls, key: I64) -> Self:
        """Pairs that no sort compared, of which the first document is surely better."""
        return cls.of(*unpacked(key), answer=1)

    @classmethod
    def joined(cls, tables: Sequence[ComparedPairs]) -> Self:
        """The rows of one table after the other."""
        columns = ((each.i, each.j, each.margin, each.answer) for each in tables)
        return cls(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))

    def __len__(self) -> int:
        return len(self.i)

    @property
    def key(self) -> I64:
        """(m,) i * 2^32 + j; ascending in a table that is `in_order`."""
        return packed(self.i, self.j)

    @property
    def unordered_key(self) -> I64:
        """(m,) a number for each pair, whichever of the two is first."""
        return unordered(self.i, self.j)

    @cached_property
    def wrong(self) -> Bool:
        """(m,) whether the comparison is wrong: the better document did not win it.

        A margin of 0, which prefers neither, is wrong too. Documents that are equally good, or of
        which the judge cannot say, cannot be mis-compared.
        """
        better = np.sign(self.answer - np.float32(0.5))
        is_compared = ~np.isnan(self.margin)
        wrong: Bool = (np.abs(better) == 1) & (np.sign(self.margin) != better) & is_compared
        return wrong

    @property
    def answered(self) -> Bool:
        """(m,) whether the judge gave an answer."""
        answered: Bool = ~np.isnan(self.answer)
        return answered

    def judged(self, answer: F32) -> Self:
        """The table with the answers of a judge."""
        return replace(self, answer=answer)

    def where(self, rows: NDArray[Any] | slice) -> Self:
        """Some of the rows, by a mask, their places or a slice."""
        return type(self)(self.i[rows], self.j[rows], self.margin[rows], self.answer[rows])

    def moved(self, by: int) -> Self:
        """The table of documents whose numbers are higher by some."""
        shift = np.int32(by)
        return replace(self, i=self.i + shift, j=self.j + shift)

    def in_order(self) -> Self:
        """The rows that have an answer, the better document first, by (i, j).

        Of a tie, which teaches that the two are alike, the document of the lower number is first.

        Cost: a sort.
        """
        rows = self if self.answered.all() else self.where(self.answered)
        stays = is_better_first(rows.i, rows.j, rows.answer)
        i, j = np.where(stays, rows.i, rows.j), np.where(stays, rows.j, rows.i)
        order = np.argsort(packed(i, j))
        stays = stays[order]
        margin, answer = rows.margin[order], rows.answer[order]
        margin, answer = np.where(stays, margin, -margin), np.where(stays, answer, 1 - answer)
        return type(self)(i[order], j[order], margin, _compact(answer))

    def is_in(self, others: ComparedPairs) -> Bool:
        """(m,) whether each pair is one of the others; both tables are `in_order`."""
        return is_in(self.key, others.key)

    def __or__(self, later: ComparedPairs) -> ComparedPairs:
        """The pairs of both tables, which are `in_order`; of a pair in both, the later answer.

        Margins are left out, as they are of different sorts.
        """
        key = np.concatenate([self.key, later.key])
        order = np.argsort(key, kind="stable")  # quick, as both parts ascend
        key = key[order]
        is_last = np.append(key[1:] != key[:-1], True)[: len(key)]
        answer = np.concatenate([self.answer, later.answer])[order[is_last]]
        i, j = (column.astype(np.int32) for column in unpacked(key[is_last]))
        return ComparedPairs(i, j, _constant(np.nan, len(i)), _compact(answer))


def is_better_first(i: Ints, j: Ints, answer: F32) -> Bool:
    """(m,) whether i is the better document by the answer; of a tie the lower number is."""
    is_first: Bool = (answer > 0.5) | ((answer == 0.5) & (i < j))
    return is_first


def _constant(value: float, rows: int) -> F32:
    """(rows,) one value, which is in memory once."""
    return np.broadcast_to(np.float32(value), rows)


def _compact(column: F32) -> F32:
    """The column, as a constant one where all values are the same."""
    if len(column) and (column == column[0]).all():
        return _constant(column[0], len(column))
    return column
