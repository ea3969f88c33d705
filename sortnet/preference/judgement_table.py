"""A table of judgements in columns, about 200 bytes per judgement."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from sortnet.core import I64, Bool
from sortnet.preference.base import ANSWERS, HOLDOUT, MOST_ITEMS, Judgement

T = TypeVar("T", bound=np.generic)
UNDO = ANSWERS.index("undo")
SKIP = ANSWERS.index("skip")
BEST = ANSWERS.index("best")
SAME = ANSWERS.index("same")
_FIELDS = [field.name for field in fields(Judgement)]
_TEXTS = ("strategy", "comment", "meta")  # columns of texts, or None
_FLAG = "flagged"  # a column of True, False and None
_FRACTIONS = ("p", "probability", "cost", "at")  # columns in which NaN stands for None
_OPTIONAL = ("best", "worst", "milliseconds", "undoes")  # columns in which -1 stands for None
_NEVER = 1 << 62  # `undone_by` of a judgement that is not undone
_BLOCK = 4096  # judgements that are converted at once


class _Column(Generic[T]):
    """A column as an attribute of a table, without the spare rows at its end."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: Judgements, owner: type) -> NDArray[T]:
        return table._columns[self._name][: len(table)]


class Judgements(Sequence[Judgement]):
    """Judgements in their order, stored in columns.

    The table is also a sequence: reading a row makes a `Judgement`. Only `extend` and `cut` change
    a table. They do not change the tables that `so_far` or `where` returned before.

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
        undone_by: (m,) the row of the first undo of a judgement; a huge number without an undo.

    >>> table = Judgements.of([Judgement("ana", (3, 1), "best", 3, number=1)])
    >>> table.best, table[0].annotator, len(table)
    (array([3]), 'ana', 1)
    """

    annotator = _Column[np.int64]()
    items = _Column[np.int64]()
    question = _Column[np.int64]()
    answer = _Column[np.int64]()
    best = _Column[np.int64]()
    worst = _Column[np.int64]()
    milliseconds = _Column[np.int64]()
    undoes = _Column[np.int64]()
    model = _Column[np.int64]()
    number = _Column[np.int64]()
    undone_by = _Column[np.int64]()
    p = _Column[np.float64]()
    probability = _Column[np.float64]()
    cost = _Column[np.float64]()
    at = _Column[np.float64]()
    strategy = _Column[np.object_]()
    comment = _Column[np.object_]()
    meta = _Column[np.object_]()
    flagged = _Column[np.object_]()
    is_holdout = _Column[np.bool_]()

    def __init__(self, judgements: Sequence[Judgement] = ()) -> None:
        """Make a table of judgements."""
        self.annotators: dict[str, int] = {}
        self._questions: dict[tuple[int, ...], int] = {}
        self._columns = {name: self._encoded(name, judgements) for name in _FIELDS}
        self._columns["question"] = np.array(
            [
                self._questions.setdefault(tuple(sorted(judgement.items)), len(self._questions))
                for judgement in judgements
            ],
            np.int64,
        )
        self._columns["is_holdout"] = np.array(
            [judgement.strategy == HOLDOUT for judgement in judgements], np.bool_
        )
        self._columns["undone_by"] = np.full(len(judgements), _NEVER)
        self._n = len(judgements)
        self._mark_undone(0)

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
            numbers = [self.annotators.setdefault(text, len(self.annotators)) for text in values]
            return np.array(numbers, np.int64)
        if name == "answer":
            return np.array([ANSWERS.index(value) for value in values], np.int64)
        if name in _FRACTIONS:
            return np.array(values, np.float64)  # None becomes NaN
        if name in _OPTIONAL:
            return np.array([-1 if value is None else value for value in values], np.int64)
        return np.array(values, object if name in (*_TEXTS, _FLAG) else np.int64)

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
        if name in _FRACTIONS:
            return [None if math.isnan(value) else value for value in column]
        if name in _OPTIONAL:
            return [None if value < 0 else value for value in column]
        return column

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Judgement: ...
    @overload
    def __getitem__(self, index: slice) -> Judgements: ...
    def __getitem__(self, index: int | slice) -> Judgement | Judgements:
        if isinstance(index, slice):
            return self.where(np.arange(len(self))[index])
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

    def so_far(self) -> Judgements:
        """Return the present judgements as a table that does not grow, without copying them."""
        return self._with_columns(
            {name: column[: len(self)] for name, column in self._columns.items()}
        )

    def where(self, rows: I64 | Bool) -> Judgements:
        """Select judgements by row numbers, or by a mask with an entry for each row.

        An undo that is not selected undoes nothing in the new table.
        """
        table = self._with_columns(
            {name: column[: len(self)][rows] for name, column in self._columns.items()}
        )
        table._columns["undone_by"][:] = _NEVER
        table._mark_undone(0)
        return table

    def _with_columns(self, columns: dict[str, NDArray[Any]]) -> Judgements:
        """Make a table of the given columns; annotators and questions keep their numbers."""
        table = Judgements()
        table.annotators = self.annotators
        table._questions = self._questions
        table._columns = columns
        table._n = len(columns["number"])
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
        self.annotator[start:] = _renumbered(new.annotator, new.annotators, self.annotators)
        self.question[start:] = _renumbered(new.question, new._questions, self._questions)
        for row in start + np.flatnonzero(self.number[start:] == 0):
            self.number[row] = self.number[row - 1] + 1 if row else 1
        self.undone_by[start:] = _NEVER
        self._mark_undone(start)

    def cut(self, n: int) -> None:
        """Remove the judgements after the first n, and annotators who gave only these."""
        self._n = n
        self.undone_by[self.undone_by >= n] = _NEVER
        n_annotators = self.annotator.max(initial=-1) + 1
        for name in [*self.annotators][n_annotators:]:
            del self.annotators[name]

    def _mark_undone(self, start: int) -> None:
        """Set `undone_by` of each judgement that an undo from row `start` on takes back."""
        undo_rows = start + np.flatnonzero(self.answer[start:] == UNDO)
        if len(undo_rows):
            rows = self.rows_of_numbers(self.undoes[undo_rows])
            np.minimum.at(self.undone_by, rows[rows >= 0], undo_rows[rows >= 0])


def _renumbered(numbers: I64, old: dict[Any, int], new: dict[Any, int]) -> I64:
    """Translate numbers from one numbering to another, which grows by what it lacks.

    Args:
        numbers: (m,) numbers in the numbering `old`.
        old, new: {name: number}, in the order of the numbers.
    """
    names = [*old]
    translated = np.zeros(len(names), np.int64)
    for number in dict.fromkeys(numbers.tolist()):  # in the order of appearance
        translated[number] = new.setdefault(names[number], len(new))
    return translated[numbers]
