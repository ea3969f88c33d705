"""A table of judgements in columns, about 200 bytes per judgement."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64, I64, Bool
from sortnet.preference.base import ANSWERS, HOLDOUT, MOST_ITEMS, Judgement

Objects: TypeAlias = NDArray[np.object_]

UNDO = ANSWERS.index("undo")
SKIP = ANSWERS.index("skip")
BEST = ANSWERS.index("best")
SAME = ANSWERS.index("same")
_FIELDS = [field.name for field in fields(Judgement)]
_FRACTIONS = ("p", "probability", "cost", "at")  # columns in which NaN stands for None
_OBJECTS = ("strategy", "comment", "meta", "flagged")  # columns of texts, True, False and None
_NEVER = 1 << 62  # `undone_by` of a judgement that is not undone
_BLOCK = 4096  # judgements that are converted at once


class Judgements(Sequence[Judgement]):
    """Judgements in their order, stored in columns.

    The table is also a sequence: reading a row makes a `Judgement`. Only `extend` changes
    a table. It does not change the tables that `where` returned before.

    Attributes:
        annotators: {name: number}, in the order of appearance.
        annotator: (m,) the numbers of the annotators.
        items: (m, 6) the items in their places, -1 for an empty place.
        question: (m,) the number of the question, the same for the same items in any places.
        answer: (m,) the answers as indices in `ANSWERS`.
        best, worst, milliseconds, undoes: (m,) the fields of `Judgement`, -1 for None.
        p, probability, cost, at: (m,) the fields of `Judgement`, NaN for None.
        strategy, comment, meta, flagged: (m,) the fields of `Judgement` as objects.
        model, number: (m,) the fields of `Judgement`.
        is_holdout: (m,) whether the question is of the hold-out.

    >>> table = Judgements.of([Judgement("ana", (3, 1), "best", 3, number=1)])
    >>> table.best, table[0].annotator, len(table)
    (array([3]), 'ana', 1)
    """

    annotator: I64
    items: I64
    question: I64
    answer: I64
    best: I64
    worst: I64
    milliseconds: I64
    undoes: I64
    model: I64
    number: I64
    p: F64
    probability: F64
    cost: F64
    at: F64
    strategy: Objects
    comment: Objects
    meta: Objects
    flagged: Objects
    is_holdout: Bool

    def __init__(self, judgements: Sequence[Judgement] = ()) -> None:
        """Make a table of judgements."""
        self.annotators: dict[str, int] = {}
        self._questions: dict[tuple[int, ...], int] = {}
        self._columns = {name: self._encoded(name, judgements) for name in _FIELDS}
        questions = [tuple(sorted(judgement.items)) for judgement in judgements]
        self._columns["question"] = _numbered(questions, self._questions)
        is_holdout = [judgement.strategy == HOLDOUT for judgement in judgements]
        self._columns["is_holdout"] = np.array(is_holdout, np.bool_)
        self._n = len(judgements)

    def __getattr__(self, name: str) -> Any:
        """Return a column, without the spare rows at its end."""
        columns = self.__dict__.get("_columns", {})
        if name not in columns:
            raise AttributeError(name)
        return columns[name][: self._n]

    @classmethod
    def of(cls, judgements: Iterable[Judgement]) -> Judgements:
        """Make a table of judgements; a table is returned unchanged."""
        return judgements if isinstance(judgements, Judgements) else cls([*judgements])

    def _encoded(self, name: str, judgements: Sequence[Judgement]) -> NDArray[Any]:
        """Convert a field of judgements to a column."""
        values = [getattr(judgement, name) for judgement in judgements]
        if name == "items":
            padded = [(*items, *[-1] * (MOST_ITEMS - len(items))) for items in values]
            return np.array(padded, np.int64).reshape(-1, MOST_ITEMS)
        if name == "annotator":
            return _numbered(values, self.annotators)
        if name == "answer":
            return np.array([ANSWERS.index(value) for value in values], np.int64)
        if name in _OBJECTS:
            return np.array(values, object)
        if name in _FRACTIONS:
            return np.array(values, np.float64)  # None becomes NaN
        return np.array([-1 if value is None else value for value in values], np.int64)

    def values(self, name: str, start: int = 0, end: int | None = None) -> list[Any]:
        """List the values of a field of `Judgement`, from row `start` to before row `end`."""
        end = len(self) if end is None else end
        column: list[Any] = self._columns[name][start:end].tolist()
        if name == "items":
            return [tuple(item for item in items if item >= 0) for items in column]
        if name == "annotator":
            names = [*self.annotators]
            return [names[number] for number in column]
        if name == "answer":
            return [ANSWERS[number] for number in column]
        if name in _OBJECTS:
            return column
        if name in _FRACTIONS:
            return [None if math.isnan(value) else value for value in column]
        return [None if value < 0 else value for value in column]

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Judgement: ...
    @overload
    def __getitem__(self, index: slice) -> Judgements: ...
    def __getitem__(self, index: int | slice) -> Judgement | Judgements:
        if isinstance(index, slice):
            return self.where(index)
        row = range(len(self))[index]  # a negative index counts from the end
        return next(self._judgements(row, row + 1))

    def __iter__(self) -> Iterator[Judgement]:
        for start in range(0, len(self), _BLOCK):
            yield from self._judgements(start, min(start + _BLOCK, len(self)))

    def _judgements(self, start: int, end: int) -> Iterator[Judgement]:
        """Make the judgements from row `start` to before row `end`."""
        return map(Judgement, *(self.values(name, start, end) for name in _FIELDS))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Judgements({[*self]})"

    @property
    def n_items(self) -> I64:
        """The number of items of each judgement, (m,)."""
        n_items: I64 = np.count_nonzero(self.items >= 0, axis=1)
        return n_items

    @property
    def is_pair(self) -> Bool:
        """Mask (m,) of the judgements about two items."""
        is_pair: Bool = self.items[:, 2] < 0
        return is_pair

    @cached_property
    def undone_by(self) -> I64:
        """The row of the first undo of each judgement, (m,); a huge number without an undo."""
        undone_by = np.full(len(self), _NEVER)
        undo_rows = np.flatnonzero(self.answer == UNDO)
        rows = self.rows_of_numbers(self.undoes[undo_rows])
        is_known = rows >= 0
        np.minimum.at(undone_by, rows[is_known], undo_rows[is_known])
        return undone_by

    @property
    def live(self) -> Bool:
        """Mask (m,) of the events that are not undone; it is true for undos, too."""
        is_live: Bool = self.undone_by >= len(self)
        return is_live

    @property
    def is_order(self) -> Bool:
        """Mask (m,) of the answers about the order of items, undone or not."""
        is_order: Bool = (self.answer == BEST) | (self.answer == SAME)
        return is_order

    @property
    def is_answer(self) -> Bool:
        """Mask (m,) of the answers about the order of items that are not undone."""
        return self.live & self.is_order

    @property
    def highest_item(self) -> int:
        """The highest item number in the table; -1 without judgements."""
        return int(self.items.max(initial=-1))

    def number_of_question(self, items: Iterable[int]) -> int:
        """Return the number of the question about these items; -1 if it was never asked."""
        return self._questions.get(tuple(sorted(items)), -1)

    def by(self, annotator: str) -> Bool:
        """Return a mask (m,) of the judgements by this annotator."""
        is_theirs: Bool = self.annotator == self.annotators.get(annotator, -1)
        return is_theirs

    def without(self, annotators: Collection[str]) -> Judgements:
        """Return the judgements that are by none of these annotators."""
        numbers = [self.annotators[name] for name in annotators if name in self.annotators]
        if not numbers:
            return self
        return self.where(~np.isin(self.annotator, numbers))

    def where(self, rows: I64 | Bool | slice) -> Judgements:
        """Select judgements by row numbers, by a slice, or by a mask with an entry for each row.

        An undo that is not selected undoes nothing in the new table. Annotators and questions keep
        their numbers. A slice copies no judgements.
        """
        table = Judgements()
        table.annotators = self.annotators
        table._questions = self._questions
        table._columns = {name: column[: self._n][rows] for name, column in self._columns.items()}
        table._n = len(table._columns["number"])
        return table

    def rows_of_numbers(self, numbers: I64) -> I64:
        """Find the rows of the judgements with these numbers; -1 for an unknown number.

        Of several judgements with the same number, the last is found.
        """
        if not len(self) or not len(numbers):
            return np.full(len(numbers), -1)
        by_number = np.argsort(self.number, kind="stable")
        n_at_most = np.searchsorted(self.number, numbers, side="right", sorter=by_number)
        rows = by_number[n_at_most - 1]
        return np.where(self.number[rows] == numbers, rows, -1)

    def extend(self, new: Judgements) -> None:
        """Append judgements; a judgement without a number gets the next number.

        Cost: a copy of the new judgements. When the columns are full, all judgements are copied.
        """
        start = len(self)
        end = start + len(new)
        for name, column in self._columns.items():
            if end > len(column):
                n_spare = len(column) // 8 + 64  # columns seldom grow
                empty = np.empty((end - start + n_spare, *column.shape[1:]), column.dtype)
                self._columns[name] = np.concatenate((column[:start], empty))
            self._columns[name][start:end] = new._columns[name][: len(new)]
        self._n = end
        self.annotator[start:] = _numbered(new.values("annotator"), self.annotators)
        questions = [*new._questions]
        new_questions = [questions[number] for number in new.question.tolist()]
        self.question[start:] = _numbered(new_questions, self._questions)
        for row in start + np.flatnonzero(self.number[start:] == 0):
            self.number[row] = self.number[row - 1] + 1 if row else 1
        self.__dict__.pop("undone_by", None)


def _numbered(names: Iterable[Hashable], number_of_name: dict[Any, int]) -> I64:
    """Number names, (m,), by a numbering, which grows by the names that it lacks."""
    numbers = [number_of_name.setdefault(name, len(number_of_name)) for name in names]
    return np.array(numbers, np.int64)
