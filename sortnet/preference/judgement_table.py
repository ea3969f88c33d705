"""A table of judgements in columns, about 120 bytes per judgement."""

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
    MOST_MILLISECONDS,
    SET_ANSWERS,
    SET_FIELDS,
    TARGETS,
    Answer,
    Judgement,
)

T = TypeVar("T", bound=np.generic)
# Answers are stored as codes: an answer's code is its index in ANSWERS.
_CODES: dict[str, int] = {answer: code for code, answer in enumerate(ANSWERS)}
UNDO = _CODES["undo"]
BEST = _CODES["best"]
_ABOUT_SETS = [_CODES[answer] for answer in SET_ANSWERS]
# By code: the target of the answer, or NaN if the answer is not about the order of two items.
TARGET: F64 = np.array([TARGETS.get(answer, np.nan) for answer in ANSWERS])
# By code: whether the answer is about the order of two or more items.
ABOUT_ORDER = ~np.isnan(TARGET)
ABOUT_ORDER[_ABOUT_SETS] = True
# The type of a field of `Judgement` decides how its column is stored.
_TYPE_OF_FIELD = get_type_hints(Judgement)
_TEXT_FIELDS = tuple(name for name, type_ in _TYPE_OF_FIELD.items() if type_ == str | None)
_TYPES_WITH_MINUS_ONE = (int | None, bool | None)  # in columns of these types, -1 stands for None
_DTYPE_OF_TYPE = {
    Answer: np.int8,
    bool | None: np.int8,
    float: np.float64,
    float | None: np.float64,
}
_DTYPES = {
    name: _DTYPE_OF_TYPE.get(type_, np.int64)
    for name, type_ in _TYPE_OF_FIELD.items()
    if name not in _TEXT_FIELDS
}
_DTYPES |= {"undone": np.int64, "further": np.int32, "best": np.int32, "worst": np.int32}
_WIDTHS = {"further": MOST_ITEMS - 2}  # columns that have several numbers in a row
_FLAGS = {-1: None, 0: False, 1: True}
_NO_NUMBER = 0  # the number of a judgement that has not got its number yet
_NOT_UNDONE = 1 << 62  # the value of `undone` for a judgement that is not undone
_BLOCK = 4096  # judgements that are converted at once


def _empty_column(name: str, n: int) -> NDArray[Any]:
    """Allocate a column of n rows, without setting the values."""
    shape = (n, _WIDTHS[name]) if name in _WIDTHS else n
    return np.empty(shape, _DTYPES[name])


def _padded(further: Sequence[int]) -> list[int]:
    """Append -1 for each empty place to the items from the third place on."""
    n_empty = MOST_ITEMS - 2 - len(further)
    if n_empty < 0:
        raise JudgementError(f"a question about {len(further) + 2} items: at most {MOST_ITEMS}")
    return [*further] + [-1] * n_empty


def _text_by_row(texts: Sequence[str | None]) -> dict[int, str]:
    """Make {row: text} of the rows that have a text."""
    return {row: text for row, text in enumerate(texts) if text is not None}


class Names(dict[str, int]):
    """Numbers of names in the order of appearance: looking up a new name gives it a number.

    Attributes:
        order: the names by their numbers.
    """

    def __init__(self) -> None:
        self.order: list[str] = []

    def __missing__(self, name: str) -> int:
        number = len(self.order)
        self[name] = number
        self.order.append(name)
        return number

    def cut(self, n: int) -> None:
        """Remove the names after the first n."""
        for name in self.order[n:]:
            del self[name]
        del self.order[n:]


class _Column(Generic[T]):
    """A column as an attribute of a table, without the spare rows at its end."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: Judgements, owner: type) -> NDArray[T]:
        return table._column(self._name)


class Judgements(Sequence[Judgement]):
    """Judgements in their order, stored in columns, one for each field of `Judgement`.

    The table is also a sequence: reading a row makes a `Judgement`. Only `extend` and `cut` change
    a table. They do not change the tables that `so_far` or `where` returned before.

    Attributes:
        annotators, strategies: {name: number}, in the order of appearance.
        annotator, strategy: (m,) the numbers of the annotators and of the strategies.
        answer: (m,) the answers as indices in `ANSWERS`.
        left, right, probability, model, number: (m,) the fields of `Judgement` with these names.
        milliseconds, undoes, flagged, best, worst: (m,) the fields with these names, -1 for None.
        at, p, cost: (m,) the fields with these names, NaN for None.
        further: (m, 4) the items from the third place on, -1 for an empty place.
        texts: {field: {row: text}} for the fields that are texts or None.
        undone: (m,) for an undone judgement, the number of events up to and including its first
            undo; a huge number for a judgement that is not undone.

    >>> table = Judgements.of([Judgement("ana", 3, 1, "left", number=1)])
    >>> table.left, table[0].annotator, len(table)
    (array([3]), 'ana', 1)
    """

    annotator = _Column[np.int64]()
    strategy = _Column[np.int64]()
    undone = _Column[np.int64]()
    left = _Column[np.int64]()
    right = _Column[np.int64]()
    model = _Column[np.int64]()
    number = _Column[np.int64]()
    milliseconds = _Column[np.int64]()
    undoes = _Column[np.int64]()
    answer = _Column[np.int8]()
    flagged = _Column[np.int8]()
    probability = _Column[np.float64]()
    at = _Column[np.float64]()
    p = _Column[np.float64]()
    cost = _Column[np.float64]()
    further = _Column[np.int32]()
    best = _Column[np.int32]()
    worst = _Column[np.int32]()

    def __init__(self) -> None:
        """Make a table without judgements."""
        self.annotators = Names()
        self.strategies = Names()
        self.texts: dict[str, dict[int, str]] = {name: {} for name in _TEXT_FIELDS}
        self._columns = {name: _empty_column(name, 0) for name in _DTYPES}
        self._n = 0
        self._numbers_ascend = True

    @classmethod
    def of(cls, judgements: Iterable[Judgement]) -> Judgements:
        """Make a table of judgements; a table is returned unchanged."""
        if isinstance(judgements, Judgements):
            return judgements
        return cls._of_unchecked([tuple(vars(judgement).values()) for judgement in judgements])

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Any]]) -> Judgements:
        """Make a table from rows; each row has the fields of a `Judgement` in their order.

        If all rows are about pairs, they may lack the last three fields: `further`, `best` and
        `worst`.

        Raises:
            JudgementError: if one of the rows is no valid `Judgement`.
        """
        table = cls._of_unchecked(rows)
        if not table._has_valid_rows():
            for row in rows:
                Judgement(*row)  # raises the error of the first invalid row
        return table

    @classmethod
    def _of_unchecked(cls, rows: Sequence[Sequence[Any]]) -> Judgements:
        """Make a table from rows as `of_rows` does, but without a check of the values."""
        table = cls()
        table._n = len(rows)
        # Rows about pairs may lack the last fields, which only questions about sets need. Their
        # columns begin without items, and the loop below overwrites them if the rows have them.
        for name in SET_FIELDS:
            table._columns[name] = _empty_column(name, len(rows))
            table._columns[name].fill(-1)
        values_by_field = zip(*rows, strict=True)  # for each field, the values of all rows
        for name, values in zip(_TYPE_OF_FIELD, values_by_field, strict=False):
            if name in _TEXT_FIELDS:
                table.texts[name] = _text_by_row(values)
            else:
                table._columns[name] = table._encoded(name, values)
        table._columns["undone"] = _empty_column("undone", len(rows))
        table._update_undone(from_row=0)  # sets the values of the column
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
        row = range(self._n)[index]  # a negative index counts from the end
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
        """Mask (m,) of the events that are not undone; it is true for undos, too."""
        return self.undone > self._n

    def are_live_after(self, n_events: int, rows: I64) -> Bool:
        """Tell which of the given rows were not undone by the first `n_events` events."""
        is_live: Bool = self.undone[rows] > n_events
        return is_live

    def is_undone(self, row: int) -> bool:
        """Tell whether the event in the given row is undone, without a look at other events."""
        return bool(self.undone[row] <= self._n)

    def rows_of_first_undos(self, rows: I64) -> I64:
        """Return the row of the first undo of each of the given judgements, which are undone."""
        n_events_with_undo = self.undone[rows]
        return n_events_with_undo - 1

    @property
    def is_set(self) -> Bool:
        """Mask (m,) of the judgements about more than two items."""
        return self.further[:, 0] >= 0

    @property
    def is_vote(self) -> Bool:
        """Mask (m,) of the answers about the order of two items that are not undone."""
        return self.live & ~np.isnan(TARGET[self.answer])

    @property
    def is_answer(self) -> Bool:
        """Mask (m,) of the answers about the order of any number of items that are not undone."""
        return self.live & ABOUT_ORDER[self.answer]

    @property
    def highest_item(self) -> int:
        """The highest item number in the table; -1 without judgements."""
        return max(int(items.max(initial=-1)) for items in (self.left, self.right, self.further))

    def items(self, rows: I64) -> I64:
        """Return the items of q rows in the order of their places, as an array (q, 6).

        An empty place has -1.
        """
        return np.column_stack((self.left[rows], self.right[rows], self.further[rows]))

    def pairs(self) -> tuple[I64, I64]:
        """Return the lower and the higher number of the items in the first two places.

        Returns:
            (m,) the lower numbers, (m,) the higher numbers.
        """
        return np.minimum(self.left, self.right), np.maximum(self.left, self.right)

    def for_low(self) -> F64:
        """Return whether each answer prefers the item with the lower number.

        Returns:
            (m,) 1 if the item with the lower number is preferred, 0 if the other item is, ½ for a
            tie; NaN if the judgement is no answer about the order of two items.
        """
        left_is_better = TARGET[self.answer]  # 1, ½, 0 or NaN
        left_has_lower_number = self.left < self.right
        return np.where(left_has_lower_number, left_is_better, 1 - left_is_better)

    def words(self, rows: I64) -> F64:
        """Return the answers in the given rows as numbers.

        The number is 1 for `left`, 0 for `right`, ½ for `tie`, and NaN for any other answer.
        """
        word: F64 = TARGET[self.answer[rows]]
        return word

    def targets(self, rows: I64) -> F64:
        """Return the probability that the left item is better, for each of the given rows.

        It is the annotator's probability `p`, or without `p` the number in `words`. It is NaN
        unless the answer is about the order of two items.
        """
        word = self.words(rows)
        p = self.p[rows]
        return np.where(np.isnan(p) | np.isnan(word), word, p)

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
        columns = {name: values[: self._n] for name, values in self._columns.items()}
        table = self._with_columns(columns)
        table.texts = {name: dict(texts) for name, texts in self.texts.items()}
        table._numbers_ascend = self._numbers_ascend
        return table

    def where(self, rows: I64 | Bool) -> Judgements:
        """Select judgements by row numbers, or by a mask with an entry for each row.

        An undo that is not selected undoes nothing in the new table.
        """
        all_rows = np.arange(self._n)
        selected_rows = all_rows[rows]
        columns = {name: self._column(name)[selected_rows] for name in self._columns}
        table = self._with_columns(columns)
        table.texts = self._texts_in(selected_rows)
        # The selected values of `undone` refer to rows of the old table, so they are recomputed.
        table._update_undone(from_row=0)
        return table

    def _texts_in(self, rows: I64) -> dict[str, dict[int, str]]:
        """Return the texts in the given rows as {field: {place in `rows`: text}}."""
        has_texts = any(self.texts.values())
        rows_to_look_up = rows.tolist() if has_texts else []
        return {
            name: _text_by_row([text_of_row.get(row) for row in rows_to_look_up])
            for name, text_of_row in self.texts.items()
        }

    def rows_of_numbers(self, numbers: I64) -> I64:
        """Find the rows of the judgements with these numbers; -1 for an unknown number.

        Of several judgements with the same number, the last is found.

        Cost: a binary search for each number; a sort if the numbers of the table do not ascend.
        """
        if not self._n:
            return np.full(len(numbers), -1)
        # With `side="right"`, `searchsorted` counts the judgements whose number is at most the
        # wanted number. Only the last of these judgements can be the wanted one.
        if self._numbers_ascend:
            rows = np.searchsorted(self.number, numbers, side="right") - 1
        else:
            by_number = np.argsort(self.number, kind="stable")
            n_at_most = np.searchsorted(self.number, numbers, side="right", sorter=by_number)
            rows = by_number[n_at_most - 1]
        is_found = self.number[rows] == numbers
        return np.where(is_found, rows, -1)

    def values(self, name: str, start: int = 0, end: int | None = None) -> list[Any]:
        """List the values of a field of `Judgement`, from row `start` to before row `end`.

        Args:
            name: name of the field.
            start: the first row.
            end: the row after the last row. If None, the values of all later rows are listed.
        """
        end = self._n if end is None else end
        if name in _TEXT_FIELDS:
            return [self.texts[name].get(row) for row in range(start, end)]
        return self._decoded(name, self._column(name)[start:end].tolist())

    def _decoded(self, name: str, values: list[Any]) -> list[Any]:
        """Convert the numbers in a field's column to the values of the field.

        This is the inverse of `_encoded`: numbers become names or answers, and -1 in a column of
        whole numbers, or NaN in a column of fractions, becomes None.
        """
        if name == "annotator":
            return [self.annotators.order[value] for value in values]
        if name == "strategy":
            return [self.strategies.order[value] for value in values]
        if name == "further":
            return [tuple(item for item in items if item >= 0) for items in values]
        if name == "answer":
            return [ANSWERS[value] for value in values]
        field_type = _TYPE_OF_FIELD[name]
        if field_type == float | None:
            return [None if math.isnan(value) else value for value in values]
        if field_type == bool | None:
            return [_FLAGS[value] for value in values]
        if field_type == int | None:
            return [None if value < 0 else value for value in values]
        return values

    def extend(self, new: Judgements) -> None:
        """Append judgements; a judgement without a number gets the next number.

        Cost: a copy of the new judgements. When the columns are full, all judgements are copied.
        """
        start = self._n
        end = start + len(new)
        for name in self._columns:
            self._allocate_rows(name, end)
            self._columns[name][start:end] = new._column(name)
        # The same name may have different numbers in the two tables.
        for name, names, new_names in (
            ("annotator", self.annotators, new.annotators),
            ("strategy", self.strategies, new.strategies),
        ):
            self._columns[name][start:end] = _renumbered(new._column(name), names, new_names)
        for name, texts in new.texts.items():
            self.texts[name].update({start + row: text for row, text in texts.items()})
        self._n = end
        self._number_rows(start)
        self._update_undone(from_row=start)

    def _allocate_rows(self, name: str, n: int) -> None:
        """Make a column at least n rows long.

        A column that is too short grows by an eighth and 64 rows at least, so that it seldom grows.
        """
        column = self._columns[name]
        if n <= len(column):
            return
        n_with_spare_rows = len(column) * 9 // 8 + 64
        larger_column = _empty_column(name, max(n, n_with_spare_rows))
        larger_column[: self._n] = column[: self._n]
        self._columns[name] = larger_column

    def _number_rows(self, start: int) -> None:
        """Give the next number to each judgement from row `start` on that has no number."""
        number = self.number
        unnumbered_rows = start + np.flatnonzero(number[start:] == _NO_NUMBER)
        for row in unnumbered_rows.tolist():
            number_before = number[row - 1] if row else 0
            number[row] = number_before + 1

    def cut(self, n: int) -> None:
        """Remove the judgements after the first n, and names that only these judgements have."""
        self._n = n
        for name, texts in self.texts.items():
            self.texts[name] = {row: text for row, text in texts.items() if row < n}
        undone = self.undone
        is_undo_removed = undone > n
        undone[is_undo_removed] = _NOT_UNDONE
        # Names are numbered in the order of appearance, so the names to remove are the last ones.
        self.annotators.cut(self.annotator.max(initial=-1) + 1)
        self.strategies.cut(self.strategy.max(initial=-1) + 1)

    def _column(self, name: str) -> NDArray[Any]:
        """Return a column without the spare rows at its end."""
        return self._columns[name][: self._n]

    def _with_columns(self, columns: dict[str, NDArray[Any]]) -> Judgements:
        """Make a table of the given columns; annotators and strategies keep their numbers."""
        table = Judgements()
        table.annotators = self.annotators
        table.strategies = self.strategies
        table._columns = columns
        table._n = len(columns["left"])
        return table

    def _encoded(self, name: str, values: Sequence[Any]) -> NDArray[Any]:
        """Convert the values of a field to a column of numbers.

        Annotators and strategies get the numbers of their names, and new names get new numbers. An
        answer gets its index in `ANSWERS`, or -1 if it is unknown. None gets -1 in a column of
        whole numbers, and NaN in a column of fractions.

        Raises:
            JudgementError: if a value is too large for its column, or a question has too many
                items.
        """
        if name == "annotator":
            values = [self.annotators[value] for value in values]
        elif name == "strategy":
            values = [self.strategies[value] for value in values]
        elif name == "answer":
            values = [_CODES.get(value, -1) for value in values]
        elif name == "further":
            values = [_padded(items) for items in values]
        elif _TYPE_OF_FIELD[name] in _TYPES_WITH_MINUS_ONE:
            values = [-1 if value is None else value for value in values]
        try:
            column = np.array(values, _DTYPES[name])  # None becomes NaN in a column of fractions
        except OverflowError:
            bits = 8 * np.dtype(_DTYPES[name]).itemsize
            raise JudgementError(f"a judgement whose {name} has more than {bits} bits") from None
        return column

    def _has_valid_rows(self) -> bool:
        """Whether every row is a valid `Judgement`, checked for all rows at once.

        The rules are the same as in `Judgement`: the items, the best and the worst item fit the
        answer, only an undo names a judgement to undo, and numbers and texts are within limits.
        """
        is_valid = self._has_valid_items()
        is_valid &= self.answer >= 0  # -1 is an unknown answer
        is_valid &= (self.answer == UNDO) == (self.undoes >= 0)
        is_valid &= (self.milliseconds >= -1) & (self.milliseconds < MOST_MILLISECONDS)
        # The opposite is tested, because NaN stands for None and must pass.
        is_valid &= ~((self.p < 0) | (self.p > 1))
        is_valid &= ~((self.cost < 0) | (self.cost == np.inf))
        if not is_valid.all():
            return False
        for name, longest in (("comment", LONGEST_COMMENT), ("meta", LONGEST_META)):
            if any(len(text) > longest for text in self.texts[name].values()):
                return False
        return True

    def _has_valid_items(self) -> Bool:
        """Check the items of each row as `check_items` and `check_choice` do.

        No item may occur twice in a row. Answers such as `left` are only for pairs, answers such as
        `best` are only for sets, and answers such as `skip` are for both.

        Returns:
            (m,) whether the items, the answer, the best and the worst item go together.
        """
        # The number -1 marks an empty place.
        items = np.column_stack((self.left, self.right, self.further))
        ascending = np.sort(items, axis=1)
        is_repeated = (ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)
        is_valid: Bool = (self.left != self.right) & ~is_repeated.any(axis=1)
        is_only_about_pairs = ~np.isnan(TARGET[self.answer])
        is_only_about_sets = np.isin(self.answer, _ABOUT_SETS)
        is_valid &= np.where(self.is_set, ~is_only_about_pairs, ~is_only_about_sets)
        return is_valid & self._has_valid_choice(items)

    def _has_valid_choice(self, items: NDArray[Any]) -> Bool:
        """Check the best and the worst item of each row as `check_choice` does.

        The answer `best`, and no other answer, names a best item. Only an answer with a best item
        may name a worst item, and the two items differ. Both are among the items of the row.

        Args:
            items: (m, 6) the items of each row.

        Returns:
            (m,) whether both go with the answer and the items.
        """
        has_best = self.best >= 0
        has_worst = self.worst >= 0
        is_valid: Bool = (self.answer == BEST) == has_best
        is_valid &= ~has_worst | (has_best & (self.best != self.worst))
        for chosen in (self.best, self.worst):
            is_valid &= (chosen < 0) | (items == chosen[:, None]).any(axis=1)
        return is_valid

    def _update_undone(self, *, from_row: int) -> None:
        """Set the column `undone` in the new rows, and in earlier rows that the new rows undo.

        If a judgement is undone several times, the first undo counts.

        Args:
            from_row: the first new row.
        """
        self._update_numbers_ascend(from_row)
        self.undone[from_row:] = _NOT_UNDONE
        undo_rows = from_row + np.flatnonzero(self.answer[from_row:] == UNDO)
        if not len(undo_rows):
            return
        undone_rows = self.rows_of_numbers(self.undoes[undo_rows])
        is_found = undone_rows >= 0
        n_events_with_undo = undo_rows[is_found] + 1
        np.minimum.at(self.undone, undone_rows[is_found], n_events_with_undo)

    def _update_numbers_ascend(self, start: int) -> None:
        """Update `_numbers_ascend`, because the rows from row `start` on are new."""
        row_before = max(start - 1, 0)
        numbers = self.number[row_before:]
        self._numbers_ascend = self._numbers_ascend and bool((numbers[1:] > numbers[:-1]).all())

    def _judgements(self, start: int, end: int) -> Iterator[Judgement]:
        """Make the judgements from row `start` to before row `end`."""
        return map(Judgement, *(self.values(name, start, end) for name in _TYPE_OF_FIELD))


def _renumbered(numbers: I64, names: Names, new_names: Names) -> I64:
    """Translate numbers of names from one numbering to another.

    Args:
        numbers: (m,) numbers of names in `new_names`.
        names: the numbering to translate to. Names that it lacks are added, in the order of
            appearance.
        new_names: the numbering to translate from.
    """
    translated: I64 = np.zeros(len(new_names.order), np.int64)
    numbers_once = dict.fromkeys(numbers.tolist())  # in the order of appearance
    for number in numbers_once:
        name = new_names.order[number]
        translated[number] = names[name]  # a missing name is added, see `Names`
    return translated[numbers]
