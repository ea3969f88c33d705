"""Many judgements as columns, 120 bytes each; a `Judgement` is made only when it is read."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, get_type_hints, overload

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64, I64, Bool
from sortnet.errors import JudgementError
from sortnet.preference.base import (
    ANSWERS,
    LONGEST_COMMENT,
    LONGEST_META,
    MOST_ITEMS,
    SET_ANSWERS,
    SET_FIELDS,
    TARGETS,
    Answer,
    Judgement,
)

T = TypeVar("T", bound=np.generic)
# The code of an answer is its place in ANSWERS; by code: its target, whether it orders the items.
TARGET: F64 = np.array([TARGETS.get(answer, np.nan) for answer in ANSWERS])
UNDO = ANSWERS.index("undo")
BEST = ANSWERS.index("best")
_ABOUT_SETS = [ANSWERS.index(answer) for answer in SET_ANSWERS]
ABOUT_ORDER = ~np.isnan(TARGET)
ABOUT_ORDER[_ABOUT_SETS] = True
_CODES = {answer: code for code, answer in enumerate(ANSWERS)}
# The type of a field of `Judgement` decides how its column is stored.
_TYPES = get_type_hints(Judgement)
_TEXTS = tuple(name for name, type_ in _TYPES.items() if type_ == str | None)
_OR_NONE = (int | None, bool | None)  # -1 stands for None
_DTYPE_OF_TYPE = {
    Answer: np.int8,
    bool | None: np.int8,
    float: np.float64,
    float | None: np.float64,
}
_DTYPES = {
    name: _DTYPE_OF_TYPE.get(type_, np.int64)
    for name, type_ in _TYPES.items()
    if name not in _TEXTS
}
_DTYPES |= {"undone": np.int64, "further": np.int32, "best": np.int32, "worst": np.int32}
_WIDTHS = {"further": MOST_ITEMS - 2}  # of columns that have several numbers a row
_FLAGS = {-1: None, 0: False, 1: True}
_NEVER = 1 << 62  # in `undone`
_BLOCK = 4096  # judgements made at once


def _empty(name: str, n: int) -> NDArray[Any]:
    """A column of n rows without values."""
    shape = (n, _WIDTHS[name]) if name in _WIDTHS else n
    return np.empty(shape, _DTYPES[name])


def _padded(further: Sequence[int]) -> list[int]:
    """The items from the third place on, and -1 for each empty place."""
    n_empty = MOST_ITEMS - 2 - len(further)
    if n_empty < 0:
        raise JudgementError(f"a question about {len(further) + 2} items: at most {MOST_ITEMS}")
    return [*further, *[-1] * n_empty]


class Names(dict[str, int]):
    """{name: number} in the order of appearance; a new name gets the next number."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self.order)
        self.order.append(name)
        return number


class _Column(Generic[T]):
    """An attribute of a table: a column, cut to the judgements that the table has so far."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: Judgements, owner: type) -> NDArray[T]:
        return table._column(self._name)


class Judgements(Sequence[Judgement]):
    """Judgements in their order, as columns; as a sequence, a `Judgement` is made when it is read.

    Only `extend` and `cut` change a table; tables taken from it before stay as they were.

    Attributes:
        annotators, strategies: {name: number}, in the order of appearance.
        annotator, strategy: (m,) the number of the annotator and of the strategy.
        answer: (m,) places in `ANSWERS`.
        left, right, probability, model, number: (m,) as in `Judgement`.
        milliseconds, undoes, flagged: (m,) as in `Judgement`, -1 for None.
        at, p, cost: (m,) as in `Judgement`, NaN for None.
        further: (m, 4) the items from the third place on, -1 for an empty place.
        best, worst: (m,) as in `Judgement`, -1 for None.
        texts: {field: {row: text}} of the fields that are texts or None.
        undone: (m,) the number of judgements up to and including the first undo of this judgement;
            a huge number if it is not undone.

    >>> table = Judgements.of([Judgement("ana", 3, 1, "left", number=1)])
    >>> table.left, table[0].annotator, len(table)
    (array([3]), 'ana', 1)
    """

    annotator, strategy, undone = _Column[np.int64](), _Column[np.int64](), _Column[np.int64]()
    left, right, model = _Column[np.int64](), _Column[np.int64](), _Column[np.int64]()
    number, milliseconds, undoes = _Column[np.int64](), _Column[np.int64](), _Column[np.int64]()
    answer, flagged = _Column[np.int8](), _Column[np.int8]()
    probability, at = _Column[np.float64](), _Column[np.float64]()
    p, cost = _Column[np.float64](), _Column[np.float64]()
    further, best, worst = _Column[np.int32](), _Column[np.int32](), _Column[np.int32]()

    def __init__(self) -> None:
        self.annotators = Names()
        self.strategies = Names()
        self.texts: dict[str, dict[int, str]] = {name: {} for name in _TEXTS}
        self._columns = {name: _empty(name, 0) for name in _DTYPES}
        self._n = 0
        self._numbers_ascend = True

    @classmethod
    def of(cls, judgements: Iterable[Judgement]) -> Judgements:
        """The judgements as a table; a table is returned as it is."""
        if isinstance(judgements, Judgements):
            return judgements
        return cls._of_unchecked([tuple(vars(judgement).values()) for judgement in judgements])

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Any]]) -> Judgements:
        """A table of rows that have the fields of `Judgement` in its order.

        If all rows are about pairs, they may lack `SET_FIELDS`, which are the last fields.

        Raises:
            JudgementError: as `Judgement` does for one of the rows.
        """
        table = cls._of_unchecked(rows)
        if not table._has_sound_rows():
            for row in rows:
                Judgement(*row)
        return table

    @classmethod
    def _of_unchecked(cls, rows: Sequence[Sequence[Any]]) -> Judgements:
        """A table as of `of_rows`, whose values are not checked."""
        table = cls()
        for name, values in zip(_TYPES, zip(*rows, strict=True), strict=False):
            if name in _TEXTS:
                table.texts[name] = {k: text for k, text in enumerate(values) if text is not None}
            else:
                table._columns[name] = table._encoded(name, values)
        for name in SET_FIELDS:
            has_field = len(table._columns[name]) == len(rows)
            if not has_field:
                table._columns[name] = _empty(name, len(rows))
                table._columns[name].fill(-1)
        table._columns["undone"] = np.empty(len(rows), np.int64)
        table._n = len(rows)
        table._mark_undone(0)
        return table

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Judgement: ...
    @overload
    def __getitem__(self, index: slice) -> Judgements: ...
    def __getitem__(self, index: int | slice) -> Judgement | Judgements:
        if isinstance(index, slice):
            return self.where(np.arange(self._n)[index])
        row = range(self._n)[index]
        return next(self._judgements(row, row + 1))

    def __iter__(self) -> Iterator[Judgement]:
        for start in range(0, self._n, _BLOCK):
            yield from self._judgements(start, min(start + _BLOCK, self._n))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Judgements({[*self]})"

    @property
    def live(self) -> Bool:
        """(m,) whether it is not undone; an undo is live, too."""
        return self.undone > self._n

    @property
    def is_set(self) -> Bool:
        """(m,) whether it is about more than two items."""
        return self.further[:, 0] >= 0

    @property
    def is_vote(self) -> Bool:
        """(m,) whether it is an answer about the order of two items that is not undone."""
        return self.live & ~np.isnan(TARGET[self.answer])

    @property
    def is_answer(self) -> Bool:
        """(m,) whether it is an answer about the order of its items that is not undone."""
        return self.live & ABOUT_ORDER[self.answer]

    @property
    def highest_item(self) -> int:
        """The highest number of an item that a judgement is about; -1 without judgements."""
        return max(int(items.max(initial=-1)) for items in (self.left, self.right, self.further))

    def items(self, rows: I64) -> I64:
        """(q, 6) the items of these rows in the order of their places, -1 for an empty place."""
        return np.column_stack((self.left[rows], self.right[rows], self.further[rows]))

    def pairs(self) -> tuple[I64, I64]:
        """(m,), (m,) the items in the first two places, the lower number first."""
        return np.minimum(self.left, self.right), np.maximum(self.left, self.right)

    def for_low(self) -> F64:
        """(m,) 1 if the item with the lower number was preferred, 0 if the other was, ½ for a tie.

        NaN unless the judgement is an answer about the order of two items.
        """
        target = TARGET[self.answer]
        return np.where(self.left < self.right, target, 1 - target)

    def words(self, rows: I64) -> F64:
        """1 for `left`, 0 for `right`, ½ for `tie`, NaN for any other answer, of these rows."""
        word: F64 = TARGET[self.answer[rows]]
        return word

    def targets(self, rows: I64) -> F64:
        """The probability that the left item is better, of these rows: `p`, or without it the word.

        NaN unless the answer is about the order of two items.
        """
        word = self.words(rows)
        p = self.p[rows]
        return np.where(np.isnan(p) | np.isnan(word), word, p)

    def by(self, annotator: str) -> Bool:
        """(m,) whether the judgement is by this annotator."""
        is_theirs: Bool = self.annotator == self.annotators.get(annotator, -1)
        return is_theirs

    def without(self, annotators: Collection[str]) -> Judgements:
        """The judgements by nobody of these annotators."""
        numbers = [self.annotators[name] for name in annotators if name in self.annotators]
        return self.where(~np.isin(self.annotator, numbers)) if numbers else self

    def so_far(self) -> Judgements:
        """The present judgements as a table that does not grow; it shares the memory."""
        columns = {name: values[: self._n] for name, values in self._columns.items()}
        table = self._with_columns(columns)
        table.texts = {name: dict(texts) for name, texts in self.texts.items()}
        table._numbers_ascend = self._numbers_ascend
        return table

    def where(self, rows: I64 | Bool) -> Judgements:
        """The judgements in the given rows, or selected by a mask.

        `undone` is recomputed from the selected judgements only.
        """
        table = self._with_columns({name: self._column(name)[rows] for name in self._columns})
        if any(self.texts.values()):
            old_rows = np.arange(self._n)[rows].tolist()
            for name, texts in self.texts.items():
                table.texts[name] = {
                    row: texts[old_row] for row, old_row in enumerate(old_rows) if old_row in texts
                }
        table._mark_undone(0)
        return table

    def places(self, numbers: I64) -> I64:
        """The rows of the judgements with these numbers, -1 for a missing one.

        Cost: a binary search for each; a sort if the numbers of the table do not ascend.
        """
        if not self._n:
            return np.full(len(numbers), -1)
        order = None if self._numbers_ascend else np.argsort(self.number, kind="stable")
        rows = np.searchsorted(self.number, numbers, side="right", sorter=order) - 1
        if order is not None:
            rows = order[rows]
        return np.where(self.number[rows] == numbers, rows, -1)

    def values(self, name: str, start: int = 0, end: int | None = None) -> list[Any]:
        """A field of the judgements from row `start` to row `end`, as it is in a `Judgement`."""
        end = self._n if end is None else end
        if name in _TEXTS:
            return [self.texts[name].get(row) for row in range(start, end)]
        values: list[Any] = self._column(name)[start:end].tolist()
        if name == "annotator":
            return [self.annotators.order[value] for value in values]
        if name == "strategy":
            return [self.strategies.order[value] for value in values]
        if name == "further":
            return [tuple(item for item in items if item >= 0) for items in values]
        type_ = _TYPES[name]
        if type_ == Answer:
            return [ANSWERS[value] for value in values]
        if type_ == float | None:
            return [None if math.isnan(value) else value for value in values]
        if type_ == bool | None:
            return [_FLAGS[value] for value in values]
        if type_ == int | None:
            return [None if value < 0 else value for value in values]
        return values

    def extend(self, new: Judgements) -> None:
        """Append judgements; a judgement without a number gets the next number.

        Cost: a copy of the new judgements; at times of all columns, one after the other.
        """
        start = self._n
        end = start + len(new)
        last_number = int(self.number[-1]) if start else 0
        for name, values in self._columns.items():
            if end > len(values):
                larger = _empty(name, max(end, len(values) * 9 // 8 + 64))
                larger[:start] = values[:start]
                self._columns[name] = larger
            self._columns[name][start:end] = new._column(name)
        for name, names, new_names in (
            ("annotator", self.annotators, new.annotators),
            ("strategy", self.strategies, new.strategies),
        ):
            self._columns[name][start:end] = _renumbered(new._column(name), names, new_names)
        for name, texts in new.texts.items():
            self.texts[name].update({start + row: text for row, text in texts.items()})
        self._n = end
        number = self.number[start:]
        for row in np.flatnonzero(number == 0).tolist():
            number_before = number[row - 1] if row else last_number
            number[row] = number_before + 1
        self._mark_undone(start)

    def cut(self, n: int) -> None:
        """Keep the first n judgements, and the names that occur in them."""
        self._n = n
        for name, texts in self.texts.items():
            self.texts[name] = {row: text for row, text in texts.items() if row < n}
        undone = self.undone
        undone[undone > n] = _NEVER
        for names, numbers in ((self.annotators, self.annotator), (self.strategies, self.strategy)):
            n_names = numbers.max(initial=-1) + 1
            while len(names.order) > n_names:
                del names[names.order.pop()]

    def _column(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self._n]

    def _with_columns(self, columns: dict[str, NDArray[Any]]) -> Judgements:
        """A table with other columns, whose annotators and strategies have the same numbers."""
        table = Judgements()
        table.annotators = self.annotators
        table.strategies = self.strategies
        table._columns = columns
        table._n = len(columns["left"])
        return table

    def _encoded(self, name: str, values: Sequence[Any]) -> NDArray[Any]:
        """A column with the values of a field, as numbers."""
        if name == "annotator":
            values = [self.annotators[value] for value in values]
        elif name == "strategy":
            values = [self.strategies[value] for value in values]
        elif name == "answer":
            values = [_CODES.get(value, -1) for value in values]
        elif name == "further":
            values = [_padded(items) for items in values]
        elif _TYPES[name] in _OR_NONE:
            values = [-1 if value is None else value for value in values]
        try:
            column = np.array(values, _DTYPES[name])
        except OverflowError:
            bits = 8 * np.dtype(_DTYPES[name]).itemsize
            raise JudgementError(f"a judgement whose {name} has more than {bits} bits") from None
        return column

    def _has_sound_rows(self) -> bool:
        """Whether `Judgement` takes each row without an error."""
        is_sound = self._has_sound_items()
        is_sound &= self.answer >= 0
        is_sound &= (self.answer == UNDO) == (self.undoes >= 0)
        is_sound &= (self.milliseconds >= -1) & (self.milliseconds < 2**53)
        # The opposite is tested, because NaN stands for None and must pass.
        is_sound &= ~((self.p < 0) | (self.p > 1))
        is_sound &= ~((self.cost < 0) | (self.cost == np.inf))
        if not is_sound.all():
            return False
        for name, longest in (("comment", LONGEST_COMMENT), ("meta", LONGEST_META)):
            if any(len(text) > longest for text in self.texts[name].values()):
                return False
        return True

    def _has_sound_items(self) -> Bool:
        """(m,) whether items, answer and choice go together: `check_items` and `check_choice`."""
        items = np.column_stack((self.left, self.right, self.further))
        ascending = np.sort(items, axis=1)
        is_twice = (ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)
        is_sound: Bool = (self.left != self.right) & ~is_twice.any(axis=1)
        is_about_pairs = ~np.isnan(TARGET[self.answer])
        is_about_sets = np.isin(self.answer, _ABOUT_SETS)
        is_sound &= np.where(self.is_set, ~is_about_pairs, ~is_about_sets)
        has_best = self.best >= 0
        has_worst = self.worst >= 0
        is_sound &= (self.answer == BEST) == has_best
        is_sound &= ~has_worst | (has_best & (self.best != self.worst))
        for chosen in (self.best, self.worst):
            is_sound &= (chosen < 0) | (items == chosen[:, None]).any(axis=1)
        return is_sound

    def _mark_undone(self, start: int) -> None:
        """Update `undone` by the judgements from row `start` on; the first undo counts."""
        number = self.number[max(start - 1, 0) :]
        self._numbers_ascend = self._numbers_ascend and bool((number[1:] > number[:-1]).all())
        self.undone[start:] = _NEVER
        undo_rows = start + np.flatnonzero(self.answer[start:] == UNDO)
        if not len(undo_rows):
            return
        rows = self.places(self.undoes[undo_rows])
        is_there = rows >= 0
        np.minimum.at(self.undone, rows[is_there], undo_rows[is_there] + 1)

    def _judgements(self, start: int, end: int) -> Iterator[Judgement]:
        return map(Judgement, *(self.values(name, start, end) for name in _TYPES))


def _renumbered(numbers: I64, names: Names, new_names: Names) -> I64:
    """The numbers that `names` has for numbers of `new_names`.

    A name that is missing in `names` is added there, in the order of appearance.
    """
    number_in_names: I64 = np.zeros(len(new_names.order), np.int64)
    for number in dict.fromkeys(numbers.tolist()):
        number_in_names[number] = names[new_names.order[number]]
    return number_in_names[numbers]
