"""Many judgements as columns: 120 bytes each, and a `Judgement` only where one is looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints, overload

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import packed
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
TARGET: F64 = np.array([TARGETS.get(answer, np.nan) for answer in ANSWERS])  # by code
UNDO, BEST = ANSWERS.index("undo"), ANSWERS.index("best")
_ABOUT_SETS = [ANSWERS.index(answer) for answer in SET_ANSWERS]
ABOUT_ORDER = ~np.isnan(TARGET)  # by code: whether an answer is about the order of the items
ABOUT_ORDER[_ABOUT_SETS] = True
_TYPES = get_type_hints(Judgement)  # what a field is decides how it is kept
_TEXTS = tuple(name for name, type_ in _TYPES.items() if type_ == str | None)
_CODES = {answer: code for code, answer in enumerate(ANSWERS)}
_OR_NONE = (int | None, bool | None)  # -1 stands for None
_AS = {Answer: np.int8, bool | None: np.int8, float: np.float64, float | None: np.float64}
_KINDS = {name: _AS.get(type_, np.int64) for name, type_ in _TYPES.items() if name not in _TEXTS}
_KINDS |= {"undone": np.int64, "further": np.int32, "best": np.int32, "worst": np.int32}
_WIDTHS = {"further": MOST_ITEMS - 2}  # of columns that have several numbers a row
_NEVER = 1 << 62
_BLOCK = 4096  # judgements made at once


def _empty(name: str, n: int) -> NDArray[Any]:
    """Room for n rows of a column."""
    shape = (n, _WIDTHS[name]) if name in _WIDTHS else n
    return np.empty(shape, _KINDS[name])


def _padded(further: Sequence[int]) -> list[int]:
    """The items in the third place and on, and -1 for each place that is left empty."""
    n_empty = MOST_ITEMS - 2 - len(further)
    if n_empty < 0:
        raise JudgementError(f"a question about {len(further) + 2} items: at most {MOST_ITEMS}")
    return [*further, *[-1] * n_empty]


class Names(dict[str, int]):
    """{name: number} in the order of appearance; a name that is new gets the next number."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self.order)
        self.order.append(name)
        return number


class _Column(Generic[T]):
    """A column of the judgements that a table has so far."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: Judgements, owner: type) -> NDArray[T]:
        return table._column(self._name)


class Judgements(Sequence[Judgement]):
    """Judgements in their order, as columns; a sequence of `Judgement` that are made when read.

    Only `extend` and `cut` change a table; what was taken from it before stays as it was.

    Attributes:
        annotators, strategies: {name: number}, in the order of appearance.
        annotator, strategy: (m,) numbers of those.
        answer: (m,) places in `ANSWERS`.
        left, right, probability, model, number: (m,) as in `Judgement`.
        milliseconds, undoes, flagged: (m,) as in `Judgement`, -1 for None.
        at, p, cost: (m,) as in `Judgement`, NaN for None.
        further: (m, 4) the items in the third place and on, -1 where there is none.
        best, worst: (m,) as in `Judgement`, -1 for None.
        texts: {field: {row: text}} of the fields that are texts or None.
        undone: (m,) of how many judgements, from the first, the one that undoes it is the last; a
            huge number if none does.

    >>> said = Judgements.of([Judgement("ana", 3, 1, "left", number=1)])
    >>> said.left, said[0].annotator, len(said)
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
        self.annotators, self.strategies = Names(), Names()
        self.texts: dict[str, dict[int, str]] = {name: {} for name in _TEXTS}
        self._columns = {name: _empty(name, 0) for name in _KINDS}
        self._n = 0
        self._ascending = True  # the numbers

    @classmethod
    def of(cls, judgements: Iterable[Judgement]) -> Judgements:
        """These judgements as a table, which they may be already."""
        if isinstance(judgements, Judgements):
            return judgements
        return cls._of_sound([tuple(vars(judgement).values()) for judgement in judgements])

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Any]]) -> Judgements:
        """Judgements whose fields are in the order of those of `Judgement`; errors are the same.

        Rows about pairs alone may lack `SET_FIELDS`, which are the last ones.
        """
        table = cls._of_sound(rows)
        if not table._sound():
            for row in rows:
                Judgement(*row)
        return table

    @classmethod
    def _of_sound(cls, rows: Sequence[Sequence[Any]]) -> Judgements:
        table = cls()
        for name, values in zip(_TYPES, zip(*rows, strict=True), strict=False):
            if name in _TEXTS:
                table.texts[name] = {k: text for k, text in enumerate(values) if text is not None}
            else:
                table._columns[name] = table._encoded(name, values)
        for name in SET_FIELDS:
            if len(table._columns[name]) < len(rows):  # rows about pairs alone
                table._columns[name] = _empty(name, len(rows))
                table._columns[name].fill(-1)
        table._columns["undone"] = np.empty(len(rows), np.int64)
        table._n = len(rows)
        table._mark(0)
        return table

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, at: int) -> Judgement: ...
    @overload
    def __getitem__(self, at: slice) -> Judgements: ...
    def __getitem__(self, at: int | slice) -> Judgement | Judgements:
        if isinstance(at, slice):
            return self.where(np.arange(self._n)[at])
        row = range(self._n)[at]
        return next(self._made(row, row + 1))

    def __iter__(self) -> Iterator[Judgement]:
        for start in range(0, self._n, _BLOCK):
            yield from self._made(start, min(start + _BLOCK, self._n))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Judgements({[*self]})"

    @property
    def live(self) -> Bool:
        """(m,) whether it is not undone; a judgement that undoes another one is live."""
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
        columns = (self.left, self.right, self.further)
        return max(int(items.max(initial=-1)) for items in columns)

    def items(self, rows: I64) -> I64:
        """(q, 6) the items of these in the order of their places, -1 where there is none."""
        return np.column_stack((self.left[rows], self.right[rows], self.further[rows]))

    def pairs(self) -> tuple[I64, I64]:
        """(m,), (m,) the two items of each, the lower number first."""
        return np.minimum(self.left, self.right), np.maximum(self.left, self.right)

    def for_low(self) -> F64:
        """(m,) 1 if the item with the lower number was preferred, 0 if the other was, ½ for a tie;
        NaN of what is no answer about the order.
        """
        target = TARGET[self.answer]
        return np.where(self.left < self.right, target, 1 - target)

    def words(self, rows: I64) -> F64:
        """1, 0, or ½ for a tie of these rows; NaN of what is no answer about the order."""
        word: F64 = TARGET[self.answer[rows]]
        return word

    def targets(self, rows: I64) -> F64:
        """How probably the left item of these is better: `p` where it was given, else the word."""
        word, p = self.words(rows), self.p[rows]
        return np.where(np.isnan(p) | np.isnan(word), word, p)

    def by(self, annotator: str) -> Bool:
        """(m,) whether it is that annotator's."""
        mine: Bool = self.annotator == self.annotators.get(annotator, -1)
        return mine

    def without(self, annotators: Collection[str]) -> Judgements:
        """Those of all others."""
        numbers = [self.annotators[name] for name in annotators if name in self.annotators]
        return self.where(~np.isin(self.annotator, numbers)) if numbers else self

    def so_far(self) -> Judgements:
        """The same, without those that are added later; in the same memory."""
        found = self._like({name: values[: self._n] for name, values in self._columns.items()})
        found.texts = {name: dict(texts) for name, texts in self.texts.items()}
        found._ascending = self._ascending
        return found

    def where(self, rows: I64 | Bool) -> Judgements:
        """Those of these rows, or selected by a mask; undone are those that are by them."""
        found = self._like({name: self._column(name)[rows] for name in self._columns})
        kept = np.arange(self._n)[rows].tolist() if any(self.texts.values()) else []
        for name, texts in self.texts.items():
            found.texts[name] = {k: texts[row] for k, row in enumerate(kept) if row in texts}
        found._mark(0)
        return found

    def places(self, numbers: I64) -> I64:
        """The rows of these numbers, -1 where there is none, by binary searches."""
        if not self._n:
            return np.full(len(numbers), -1)
        order = None if self._ascending else np.argsort(self.number, kind="stable")
        at = np.searchsorted(self.number, numbers, side="right", sorter=order) - 1
        at = at if order is None else order[at]
        return np.where(self.number[at] == numbers, at, -1)

    def values(self, name: str, start: int = 0, end: int | None = None) -> list[Any]:
        """A field of the judgements from one row to another, as it is in a `Judgement`."""
        end = self._n if end is None else end
        if name in _TEXTS:
            return [self.texts[name].get(row) for row in range(start, end)]
        values, type_ = self._column(name)[start:end].tolist(), _TYPES[name]
        if type_ is str:
            order = (self.annotators if name == "annotator" else self.strategies).order
            return [order[value] for value in values]
        if type_ == Answer:
            return [ANSWERS[value] for value in values]
        if name == "further":
            return [tuple(item for item in items if item >= 0) for items in values]
        if type_ == float | None:
            return [None if value != value else value for value in values]
        if type_ == bool | None:
            return [(None, False, True)[value + 1] for value in values]
        return [None if value < 0 else value for value in values] if type_ in _OR_NONE else values

    def extend(self, new: Judgements) -> None:
        """Append judgements; those without a number get the next one.

        Cost: theirs; at times a copy of all columns, one after the other.
        """
        start, end = self._n, self._n + len(new)
        last = int(self.number[-1]) if start else 0
        for name, values in self._columns.items():
            if end > len(values):
                wider = _empty(name, max(end, len(values) * 9 // 8 + 64))
                wider[:start] = values[:start]
                self._columns[name] = wider
            self._columns[name][start:end] = new._column(name)
        for name, ours, theirs in (
            ("annotator", self.annotators, new.annotators),
            ("strategy", self.strategies, new.strategies),
        ):
            self._columns[name][start:end] = _renumbered(new._column(name), ours, theirs)
        for name, texts in new.texts.items():
            self.texts[name].update({start + row: text for row, text in texts.items()})
        self._n = end
        number = self.number[start:]
        for row in np.flatnonzero(number == 0).tolist():
            number[row] = (number[row - 1] if row else last) + 1
        self._mark(start)

    def cut(self, n: int) -> None:
        """Keep the first n, and the names that they have."""
        self._n = n
        for name, texts in self.texts.items():
            self.texts[name] = {row: text for row, text in texts.items() if row < n}
        undone = self.undone
        undone[undone > n] = _NEVER
        for names, used in ((self.annotators, self.annotator), (self.strategies, self.strategy)):
            while len(names.order) > used.max(initial=-1) + 1:
                del names[names.order.pop()]

    def _column(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self._n]

    def _like(self, columns: dict[str, NDArray[Any]]) -> Judgements:
        """Other rows of the same annotators and strategies."""
        table = Judgements()
        table.annotators, table.strategies = self.annotators, self.strategies
        table._columns, table._n = columns, len(columns["left"])
        return table

    def _encoded(self, name: str, values: Sequence[Any]) -> NDArray[Any]:
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
            column = np.array(values, _KINDS[name])
        except OverflowError:
            bits = 8 * np.dtype(_KINDS[name]).itemsize
            raise JudgementError(f"a judgement whose {name} has more than {bits} bits") from None
        return column

    def _sound(self) -> bool:
        """Whether each is what `Judgement` takes."""
        answer, milliseconds = self.answer, self.milliseconds
        fault = (answer < 0) | ((answer == UNDO) != (self.undoes >= 0)) | ~self._has_sound_items()
        fault |= (milliseconds < -1) | (milliseconds >= 2**53)
        fault |= (self.p < 0) | (self.p > 1) | (self.cost < 0) | (self.cost == np.inf)
        longest = {"comment": LONGEST_COMMENT, "meta": LONGEST_META}
        long = any(
            len(text) > longest[name] for name in longest for text in self.texts[name].values()
        )
        return not (long or fault.any())

    def _has_sound_items(self) -> Bool:
        """(m,) whether items, answer and choice go together: `check_items` and `check_choice`."""
        items = np.column_stack((self.left, self.right, self.further))
        ordered = np.sort(items, axis=1)
        is_twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        sound: Bool = (self.left != self.right) & ~is_twice.any(axis=1)
        is_about_pairs = ~np.isnan(TARGET[self.answer])
        is_about_sets = np.isin(self.answer, _ABOUT_SETS)
        sound &= np.where(self.is_set, ~is_about_pairs, ~is_about_sets)
        has_best, has_worst = self.best >= 0, self.worst >= 0
        sound &= (self.answer == BEST) == has_best
        sound &= ~has_worst | (has_best & (self.best != self.worst))
        for chosen in (self.best, self.worst):
            sound &= (chosen < 0) | (items == chosen[:, None]).any(axis=1)
        return sound

    def _mark(self, start: int) -> None:
        """Note which ones are undone by those from that row on; the first undo of one counts."""
        number = self.number[max(start - 1, 0) :]
        self._ascending = self._ascending and bool((number[1:] > number[:-1]).all())
        self.undone[start:] = _NEVER
        undo = self.answer[start:] == UNDO
        if undo.any():
            undos = start + np.flatnonzero(undo)
            at = self.places(self.undoes[undos])
            np.minimum.at(self.undone, at[at >= 0], undos[at >= 0] + 1)

    def _made(self, start: int, end: int) -> Iterator[Judgement]:
        return map(Judgement, *(self.values(name, start, end) for name in _TYPES))


class SetComparisons(NamedTuple):
    """The comparisons that follow from answers about more than two items.

    Attributes:
        row: (m,) of the judgement, ascending within those of one kind.
        better, worse: (m,) the items; of items that are alike in the order of their places.
        target: (m,) 1, or ½ if the items are alike.
    """

    row: I64
    better: I64
    worse: I64
    target: F64

    @property
    def weight(self) -> F64:
        """(m,) 1 / number of comparisons of the answer, so that an answer counts once."""
        weight: F64 = 1 / np.maximum(np.bincount(self.row), 1)[self.row]
        return weight


def set_comparisons(judgements: Judgements, rows: I64) -> SetComparisons:
    """What follows from the answers of these rows, which are about the order of sets.

    The best item is better than each other one, and each other one better than the worst, as in
    `Judgement.comparisons`; of items that are alike each pair is a tie.
    """
    items = judgements.items(rows).astype(np.int64)
    best = judgements.best[rows].astype(np.int64)[:, None]
    worst = judgements.worst[rows].astype(np.int64)[:, None]
    is_other = (items >= 0) & (items != best)
    after_best, at_best = np.nonzero(is_other & (best >= 0))
    before_worst, at_worst = np.nonzero(is_other & (items != worst) & (worst >= 0))
    first, second = np.triu_indices(items.shape[1], 1)
    alike, at_alike = np.nonzero((best < 0) & (items[:, second] >= 0))
    better = best[after_best, 0], items[before_worst, at_worst], items[alike, first[at_alike]]
    worse = items[after_best, at_best], worst[before_worst, 0], items[alike, second[at_alike]]
    row = np.concatenate((after_best, before_worst, alike))
    target = np.where(np.arange(len(row)) < len(row) - len(alike), 1.0, 0.5)
    return SetComparisons(rows[row], np.concatenate(better), np.concatenate(worse), target)


@dataclass(frozen=True, eq=False)
class SharedVotes:
    """Judgements sorted by pair, annotator and time.

    Attributes:
        rows: (m,) of the judgements; one about a set has a row for each of its comparisons.
        low, high: (m,) the items.
        pair: (m,) number of the pair, from 0.
        annotator: (m,) number of the annotator.
        better: (m,) 1 if the item with the lower number was preferred, 0 if not, ½ for a tie.
        first: (m,) whether it is the annotator's first answer to the pair.
        weight: (m,) 1, or of a comparison that follows from an answer about a set, its share of it.
        starts: (p,) the place of each pair's first one.
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
        """These rows of a table; None: the answers about the order that are not undone.

        Args:
            sets: whether the comparisons that follow from answers about sets are votes, too.
        """
        rows = np.flatnonzero(judgements.is_vote) if rows is None else rows
        low, high = (side[rows] for side in judgements.pairs())
        better, weight = judgements.for_low()[rows], np.ones(len(rows))
        if sets and (of_sets := judgements.is_answer & judgements.is_set).any():
            more = set_comparisons(judgements, np.flatnonzero(of_sets))
            low = np.append(low, np.minimum(more.better, more.worse))
            high = np.append(high, np.maximum(more.better, more.worse))
            for_low = np.where(more.better < more.worse, more.target, 1 - more.target)
            better, weight = np.append(better, for_low), np.append(weight, more.weight)
            rows = np.append(rows, more.row)
        annotator = judgements.annotator[rows]
        order = np.lexsort((rows, annotator, packed(low, high)))
        low, high, annotator = low[order], high[order], annotator[order]
        new = (np.diff(low, prepend=-1) != 0) | (np.diff(high, prepend=-1) != 0)
        first = new | (np.diff(annotator, prepend=-1) != 0)
        pair, starts = np.cumsum(new) - 1, np.flatnonzero(new)
        sorted_facts = better[order], first, weight[order]
        return cls(rows[order], low, high, pair, annotator, *sorted_facts, starts)

    def answers(self, judgements: Judgements, pair: int) -> list[Judgement]:
        """Those to a pair, in the order of the table that they were taken of."""
        rows = np.sort(self.rows[slice(*np.append(self.starts, len(self.rows))[pair : pair + 2])])
        return [judgements[row] for row in rows.tolist()]

    def oldest(self) -> I64:
        """(p,) the row of the first answer to each pair."""
        return np.minimum.reduceat(self.rows, self.starts) if len(self.rows) else self.rows

    def repeated(self) -> tuple[I64, I64]:
        """The places of an annotator's later answers to a pair, and of the first; without ties."""
        places = np.arange(len(self.rows))
        before = np.maximum.accumulate(np.where(self.first, places, 0))
        again = ~self.first & (self.better != 0.5) & (self.better[before] != 0.5)
        return places[again], before[again]


def _renumbered(numbers: I64, ours: Names, theirs: Names) -> I64:
    """Other numbers for names; new names get theirs in the order of appearance."""
    to: I64 = np.zeros(len(theirs.order), np.int64)
    for number in dict.fromkeys(numbers.tolist()):
        to[number] = ours[theirs.order[number]]
    return to[numbers]
