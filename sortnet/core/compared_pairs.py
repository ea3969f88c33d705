"""Table of compared pairs: the comparisons of a sort, and a judge's answers about the pairs."""

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
    """Table of compared pairs: each row has two documents of one query.

    The sort makes the table, the judge fills in the answers, a strategy selects the rows to learn
    from, the training reads them and the store keeps them. A column made by `of` takes no memory if
    it has one value in all rows.

    Attributes:
        i, j: (m,) int32 document numbers; in a table `in_order` i is the better document.
        margin: (m,) float32 the comparator's margin of i over j: i went first if it is positive;
            NaN where no sort compared the two.
        answer: (m,) float32 the judge's probability that i is better, 0 to 1; NaN without an
            answer.

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
        """Make a table of pairs; a single number as `margin` or `answer` holds for all rows.

        Raises:
            DataError: on arrays that do not fit each other, or a document compared with itself.
        """
        i, j = np.asarray(i), np.asarray(j)
        if not (i.dtype == j.dtype == np.int32):
            i, j = i.astype(np.int64), j.astype(np.int64)
        refuse_no_pairs(i, j)
        return cls(
            i.astype(np.int32, copy=False),
            j.astype(np.int32, copy=False),
            np.broadcast_to(np.asarray(margin, np.float32), i.shape),
            np.broadcast_to(np.asarray(answer, np.float32), i.shape),
        )

    @classmethod
    def empty(cls) -> Self:
        return cls.of([], [])

    @classmethod
    def of_keys(cls, key: I64) -> Self:
        """Make a table of pairs that no sort compared, each with its better document first."""
        return cls.of(*unpacked(key), answer=1)

    @classmethod
    def joined(cls, tables: Sequence[ComparedPairs]) -> Self:
        """Join the rows of tables, one table after another."""
        return cls(
            np.concatenate([table.i for table in tables]),
            np.concatenate([table.j for table in tables]),
            np.concatenate([table.margin for table in tables]),
            np.concatenate([table.answer for table in tables]),
        )

    def __len__(self) -> int:
        return len(self.i)

    @property
    def key(self) -> I64:
        """Key (m,) of each pair, i * 2^32 + j; the keys ascend in a table that is `in_order`."""
        return packed(self.i, self.j)

    @property
    def unordered_key(self) -> I64:
        """Key (m,) of each pair, computed with the lower document number first."""
        return unordered(self.i, self.j)

    @cached_property
    def wrong(self) -> Bool:
        """Whether (m,) the comparison went wrong: the document that the judge prefers did not win.

        A margin of 0, which prefers neither document, is wrong too. Equally good documents, and
        documents without an answer, cannot be mis-compared.
        """
        better = np.sign(self.answer - np.float32(0.5))  # 1: document i, -1: j, 0 in a tie
        is_compared = ~np.isnan(self.margin)
        wrong: Bool = (np.abs(better) == 1) & (np.sign(self.margin) != better) & is_compared
        return wrong

    @property
    def answered(self) -> Bool:
        """Whether (m,) the judge answered about the pair."""
        answered: Bool = ~np.isnan(self.answer)
        return answered

    def judged(self, answer: F32) -> Self:
        """Copy of the table with a judge's answers (m,) in place of its own."""
        return replace(self, answer=answer)

    def where(self, rows: NDArray[Any] | slice) -> Self:
        """Select rows by a mask, by row numbers or by a slice."""
        return type(self)(self.i[rows], self.j[rows], self.margin[rows], self.answer[rows])

    def moved(self, by: int) -> Self:
        """Copy of the table with `by` added to all document numbers."""
        shift = np.int32(by)
        return replace(self, i=self.i + shift, j=self.j + shift)

    def in_order(self) -> Self:
        """Rows that have an answer, sorted by (i, j), with the better document as i.

        In a tie, which teaches that the two are alike, the document with the lower number is first.

        Cost: a sort.
        """
        rows = self if self.answered.all() else self.where(self.answered)
        # A row whose document j is the better is turned round, with its margin and its answer.
        stays = is_better_first(rows.i, rows.j, rows.answer)
        i = np.where(stays, rows.i, rows.j)
        j = np.where(stays, rows.j, rows.i)
        order = np.argsort(packed(i, j))
        stays = stays[order]
        margin = rows.margin[order]
        margin = np.where(stays, margin, -margin)
        answer = rows.answer[order]
        answer = np.where(stays, answer, 1 - answer)
        return type(self)(i[order], j[order], margin, _compact(answer))

    def is_in(self, table: ComparedPairs) -> Bool:
        """Whether (m,) each pair occurs in another table; both tables must be `in_order`."""
        return is_in(self.key, table.key)

    def __or__(self, later: ComparedPairs) -> ComparedPairs:
        """Unite two tables that are `in_order`; a pair of both tables keeps its later answer.

        Margins are left out, since they are of different sorts.
        """
        key = np.concatenate([self.key, later.key])
        order = np.argsort(key, kind="stable")  # quick, since both tables ascend
        key = key[order]
        is_last = np.append(key[1:] != key[:-1], True)[: len(key)]
        answer = np.concatenate([self.answer, later.answer])[order[is_last]]
        i, j = (column.astype(np.int32) for column in unpacked(key[is_last]))
        return ComparedPairs(i, j, _constant(np.nan, len(i)), _compact(answer))


def is_better_first(i: Ints, j: Ints, answer: F32) -> Bool:
    """Whether (m,) the answer prefers i; in a tie, whether i has the lower document number."""
    is_first: Bool = (answer > 0.5) | ((answer == 0.5) & (i < j))
    return is_first


def _constant(value: float, rows: int) -> F32:
    """Array (rows,) that repeats a value, but stores the value only once."""
    return np.broadcast_to(np.float32(value), rows)


def _compact(column: F32) -> F32:
    """Store the value of a constant column only once; return any other column itself."""
    if len(column) and (column == column[0]).all():
        return _constant(column[0], len(column))
    return column
