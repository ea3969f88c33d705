"""Table of compared pairs: the comparisons of a sort, and a judge's answers about the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from sortnet.core.arrays import F32, I32, I64, Array, Bool, Ints
from sortnet.core.pairs import is_in, packed, refuse_no_pairs, unordered, unpacked
from sortnet.core.shard import Group


@dataclass(frozen=True, eq=False)
class ComparedPairs:
    """Table of compared pairs: each row has two documents of one query.

    A sort makes the table, a judge fills in the answers, a strategy selects the rows to learn from,
    the training reads them and the store keeps them. A column that `of` makes of a single number
    needs no memory.

    Attributes:
        i, j: (m,) int32 document numbers. In a table that is `in_order`, i is the better document.
        margin: (m,) float32 margins of the comparator; a positive margin prefers document i. The
            margin is NaN if no sort compared the two documents.
        answer: (m,) float32 probabilities of the judge that document i is better, 0 to 1; NaN
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
        """Make a table of m pairs.

        Args:
            i, j: (m,) document numbers.
            margin: (m,) margins, or a single number for all rows.
            answer: (m,) answers, or a single number for all rows.

        Raises:
            DataError: if i and j have different shapes, or a document is compared with itself.
        """
        i, j = np.asarray(i), np.asarray(j)
        are_int32 = i.dtype == np.int32 and j.dtype == np.int32
        if not are_int32:  # check the numbers before a conversion to int32 could change them
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
        """Make a table of pairs without margins, given keys with the better document first."""
        i, j = unpacked(key)
        return cls.of(i, j, answer=1)

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
        """Key (m,) of each pair, as if its document with the lower number were document i."""
        return unordered(self.i, self.j)

    @cached_property
    def decided(self) -> Bool:
        """Mask (m,) of the pairs with an answer that prefers a document."""
        decided: Bool = self.answered & (self.answer != np.float32(0.5))
        return decided

    @cached_property
    def wrong(self) -> Bool:
        """Mask (m,) of the wrong comparisons, whose margin contradicts the judge's answer.

        A margin of 0 is wrong if the judge prefers a document. A pair is never wrong if the answer
        is a tie, if there is no answer, or if the comparator did not compare the pair.
        """
        preferred = np.sign(self.answer - np.float32(0.5))  # 1: document i, -1: j, 0: a tie
        wrong: Bool = (np.sign(self.margin) != preferred) & self.decided & ~np.isnan(self.margin)
        return wrong

    @property
    def answered(self) -> Bool:
        """Mask (m,) of the pairs that have an answer."""
        answered: Bool = ~np.isnan(self.answer)
        return answered

    def judged(self, answer: F32) -> Self:
        """Return a copy of the table with new answers, (m,), of a judge."""
        return replace(self, answer=answer)

    def where(self, rows: Array | slice) -> Self:
        """Select rows by a mask, by row numbers or by a slice."""
        return type(self)(self.i[rows], self.j[rows], self.margin[rows], self.answer[rows])

    def gathered(self, group: Group) -> Self:
        """Join the rows of all processes of a group, in the order of the processes."""
        columns: list[Any] = [self.i, self.j, self.margin, self.answer]
        return type(self)(*(group.gather(column) for column in columns))

    def in_order(self) -> Self:
        """Select the rows that have an answer, put the better document first, and sort by (i, j).

        In a tie the document with the lower number is first.

        Cost: a sort.
        """
        rows = self if self.answered.all() else self.where(self.answered)
        # If document j is better, i and j are swapped, the margin is negated, and the answer p
        # becomes 1 - p.
        i_is_better = prefers_i(rows.i, rows.j, rows.answer)
        better = np.where(i_is_better, rows.i, rows.j)
        worse = np.where(i_is_better, rows.j, rows.i)
        order = np.argsort(packed(better, worse))
        i_is_better = i_is_better[order]
        margin = rows.margin[order]
        margin = np.where(i_is_better, margin, -margin)
        answer = rows.answer[order]
        answer = np.where(i_is_better, answer, 1 - answer)
        return type(self)(better[order], worse[order], margin, answer)

    def is_in(self, table: ComparedPairs) -> Bool:
        """Check which pairs occur in another table; return a mask (m,).

        Both tables must be `in_order`.
        """
        return is_in(self.key, table.key)

    def __or__(self, later: ComparedPairs) -> ComparedPairs:
        """Unite two tables that are `in_order`; a pair of both tables keeps the row of `later`.

        The result has no margins, since the margins of the two tables come from different sorts.
        """
        key = np.concatenate([self.key, later.key])
        order = np.argsort(key, kind="stable")  # fast, since both tables ascend
        key = key[order]
        # Rows of `later` come after all other rows, so a stable sort puts the row of `later` last
        # if two rows have the same key.
        is_last = np.ones(len(key), np.bool_)
        is_last[:-1] = key[1:] != key[:-1]
        answer = np.concatenate([self.answer, later.answer])[order[is_last]]
        i, j = unpacked(key[is_last])
        return ComparedPairs.of(i, j, answer=answer)


@dataclass(frozen=True, eq=False)
class Sorting:
    """Result of a sort: the ranking of every query, and the comparisons.

    Attributes:
        order: (n_docs,) int64 document numbers, query by query, best first.
        compared: all comparisons of the sort, with margins, but without a judge's answers.
    """

    order: I64
    compared: ComparedPairs


def prefers_i(i: Ints, j: Ints, answer: F32) -> Bool:
    """Check which answers prefer document i, a mask (m,).

    In a tie the document with the lower number counts as preferred.
    """
    is_first: Bool = (answer > 0.5) | ((answer == 0.5) & (i < j))
    return is_first
