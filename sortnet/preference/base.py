"""A question, a judgement, and the possible answers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias, get_args

from sortnet.errors import JudgementError

Answer: TypeAlias = Literal["best", "same", "skip", "cant-say", "undo"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)
# Pages, terminals, programs and files of pairs have words for the two places of a pair.
Side: TypeAlias = Literal["left", "right", "tie"]
Word: TypeAlias = Side | Answer
SIDES: tuple[Side, ...] = get_args(Side)
# The target of training for each word about a pair: 1 if the item in the left place is better.
TARGETS: dict[str, float] = {"left": 1.0, "tie": 0.5, "right": 0.0}
ORDER_ANSWERS: tuple[Word, ...] = (*SIDES, "best", "same")  # words about the order of items
Pair: TypeAlias = tuple[int, int]  # two items; as a key, the lower number first
MOST_ITEMS = 6  # a question is about at most 6 items
# An annotator's probabilities are shares of votes, such as 7 of 10 for the first item; or they
# measure the difference of two items; or they are ignored, and only the answers count.
Probabilities: TypeAlias = Literal["share", "measurement", "ignored"]
PROBABILITIES: tuple[Probabilities, ...] = get_args(Probabilities)
P_IN_WORDS: dict[Probabilities, str] = {
    "share": "a share of votes",
    "measurement": "a measurement",
    "ignored": "ignored",
}
LONGEST_COMMENT = 2000  # characters
LONGEST_META = 4000  # characters
MOST_MILLISECONDS = 2**53  # from this number on, a float does not hold every whole number
# {field of a judgement: (its largest value, its range in words)}; and the most characters of a text
_RANGES: dict[str, tuple[float, str]] = {
    "p": (1, "from 0 to 1"),
    "cost": (sys.float_info.max, "0 or more"),
    "milliseconds": (MOST_MILLISECONDS - 1, "0 or more, and less than 2^53"),
}
_LONGEST = {"comment": LONGEST_COMMENT, "meta": LONGEST_META}
HOLDOUT = "random"  # the strategy of hold-out questions, whose answers never choose a question


def unordered_pair(left: int, right: int) -> Pair:
    """Order two items, so that the lower number is first."""
    return (left, right) if left < right else (right, left)


class OfItems:
    """Base of a question and a judgement: two to six items in their places."""

    items: tuple[int, ...]

    @property
    def left(self) -> int:
        """The item in the first place."""
        return self.items[0]

    @property
    def right(self) -> int:
        """The item in the second place."""
        return self.items[1]

    @property
    def pairs(self) -> list[Pair]:
        """Every pair of the items, the lower number first."""
        return [*combinations(sorted(self.items), 2)]

    @property
    def pair(self) -> Pair:
        """The two items, the lower number first.

        Raises:
            JudgementError: if there are more than two items.
        """
        if len(self.items) != 2:
            raise JudgementError(f"{len(self.items)} items are no pair")
        return unordered_pair(*self.items)


@dataclass(frozen=True)
class Question(OfItems):
    """A question which of two to six items is the best.

    Attributes:
        items: the items in the order in which the question shows them, numbered from 0.
        strategy: strategy that chose the items: `informative`, `random`, `repeat`, ...
        probability: probability with which the strategy, once it is used, chooses these items; 1
            without a choice.
        model: number of events that the model was fitted to when the question was chosen.
    """

    items: tuple[int, ...]
    strategy: str
    probability: float
    model: int = 0

    @property
    def turned(self) -> Question:
        """The same question with the items in reverse order.

        >>> Question((3, 1, 4), "informative", 1.0).turned.items
        (4, 1, 3)
        """
        return replace(self, items=self.items[::-1])

    def answered(self, annotator: str, word: Word, **facts: Any) -> Judgement:
        """Make the judgement that gives this answer to the question.

        Args:
            annotator: name of the annotator.
            word: the answer. About two items it may be `left`, `right` or `tie`.
            facts: further fields of the judgement, such as milliseconds.

        >>> Question((3, 1), "informative", 1.0).answered("ana", "left").best
        3
        """
        return Judgement.of(annotator, word=word, **vars(self), **facts)

    def answered_by_place(
        self, annotator: str, best: int, worst: int | None = None, **facts: Any
    ) -> Judgement:
        """Make the judgement that names the best item, and perhaps the worst, by their places.

        Args:
            annotator: name of the annotator.
            best: place of the best item, from 0.
            worst: place of the worst item, from 0; None if the annotator did not name it.
            facts: further fields of the judgement, such as milliseconds.

        Raises:
            JudgementError: on a place that the question does not have, or if `best` is `worst`.

        >>> Question((3, 1, 4), "informative", 1.0).answered_by_place("ana", 2, 0).best
        4
        """
        for place in (best, worst):
            if place is not None and not 0 <= place < len(self.items):
                raise JudgementError(f"place {place} of a question about {len(self.items)} items")
        worst_item = None if worst is None else self.items[worst]
        return self.answered(annotator, "best", best=self.items[best], worst=worst_item, **facts)


@dataclass(frozen=True)
class Judgement(OfItems):
    """An annotator's answer about two to six items; never changed, only undone by a later event.

    Attributes:
        annotator: name of the annotator.
        items: the items in the order in which the question shows them.
        answer: `best` if one item is the best, `same` if all items are equally good, `skip` or
            `cant-say`. The event `undo` takes back an earlier judgement.
        best, worst: the items chosen by the answer `best`; `worst` is None if the annotator was not
            asked for it, and about two items, where it is the other item.
        p: the probability that the first of two items is better, if the annotator gave one; see
            `Probabilities`. There is none about more than two items.
        strategy: strategy that chose the question; `given` for an imported judgement.
        probability: probability with which the strategy chose the items, see `Question`.
        milliseconds: time from showing the question to the answer, if measured.
        cost: cost of the answer, in the currency of the prices.
        at: time of the answer in seconds since 1970, if known.
        comment: comment of the annotator on the question.
        flagged: whether the annotator marked the question for the administrator.
        meta: further facts about the answer, as JSON.
        model: number of events that the model was fitted to when the question was chosen.
        number: place in the order of the collection's events, from 1; 0 if not stored yet.
        undoes: for an undo, the number of the judgement to undo.

    Raises:
        JudgementError: on an unknown answer, an item twice, a best or worst item that does not go
            with the answer, an undo without `undoes`, or a `p` or `cost` out of range.

    >>> Judgement("ana", (3, 1, 4, 2), "best", best=4, worst=1).pairs[:2]
    [(1, 2), (1, 3)]
    """

    annotator: str
    items: tuple[int, ...]
    answer: Answer
    best: int | None = None
    worst: int | None = None
    p: float | None = None
    strategy: str = "given"
    probability: float = 1.0
    milliseconds: int | None = None
    cost: float | None = None
    at: float | None = None
    comment: str | None = None
    flagged: bool | None = None
    meta: str | None = None
    model: int = 0
    number: int = 0
    undoes: int | None = None

    def __post_init__(self) -> None:
        fault = self._fault_of_items() or self._fault_of_choice() or self._fault_of_value()
        if fault:
            raise JudgementError(fault)

    def _fault_of_items(self) -> str:
        """Return what is wrong with the items; empty if nothing is."""
        if not 2 <= len(self.items) <= MOST_ITEMS:
            return f"a question about {len(self.items)} items: it takes 2 to {MOST_ITEMS}"
        for item in self.items:
            if item < 0:
                return f"there is no item {item}"
            if self.items.count(item) > 1:
                return f"item {item} cannot be compared with itself"
        return ""

    def _fault_of_choice(self) -> str:
        """Return why best and worst item do not go with the answer; empty if they do."""
        if (self.answer == "best") != (self.best is not None):
            return '`best` must be set if and only if answer is "best"'
        if self.worst is not None and (self.best is None or len(self.items) == 2):
            return f"item {self.worst} is the worst, but none is the best, or only one is left"
        if self.best is not None and self.best == self.worst:
            return f"item {self.best} cannot be the best and the worst"
        for chosen in (self.best, self.worst):
            if chosen is not None and chosen not in self.items:
                return f"item {chosen} is none of those in question"
        return ""

    def _fault_of_value(self) -> str:
        """Say which other field has a value that is not allowed; empty if no field has one."""
        if self.answer not in ANSWERS:
            return f"unknown answer {str(self.answer)!r}; known are {', '.join(ANSWERS)}"
        if (self.answer == "undo") != (self.undoes is not None):
            return '`undoes` must be set if and only if answer is "undo"'
        if self.p is not None and len(self.items) > 2:
            return f"a p is for two items, and there are {len(self.items)}"
        for name, (most, in_words) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value <= most:
                return f"{name} must be {in_words}, got {value}"
        for name, most_characters in _LONGEST.items():
            n_characters = len(getattr(self, name) or "")
            if n_characters > most_characters:
                return (
                    f"{name} of {n_characters:,} characters: at most {most_characters:,} are kept"
                )
        return ""

    @classmethod
    def of(cls, annotator: str, items: tuple[int, ...], word: Word, **fields: Any) -> Judgement:
        """Make a judgement from an answer in words.

        Args:
            annotator: name of the annotator.
            items: the items in their places.
            word: an answer; or `left`, `right` or `tie`, which are words about two items.
            fields: further fields of the judgement. The worst of two items is left out.

        Raises:
            JudgementError: if a word about two items is said of more, or as `Judgement` does.

        >>> Judgement.of("ana", (3, 1), "right").best
        1
        """
        if len(items) == 2:
            fields["worst"] = None
        if word in SIDES and len(items) != 2:
            raise JudgementError(f"{word!r} is no answer about {len(items)} items")
        if word == "left":
            return cls(annotator, items, "best", best=items[0], **fields)
        if word == "right":
            return cls(annotator, items, "best", best=items[1], **fields)
        return cls(annotator, items, "same" if word == "tie" else word, **fields)

    @property
    def word(self) -> Word:
        """The answer in words: about two items, `left`, `right` or `tie` in place of best and same.

        >>> Judgement.of("ana", (3, 1), "right").word
        'right'
        """
        if len(self.items) != 2 or self.answer not in ("best", "same"):
            return self.answer
        if self.best is None:
            return "tie"
        return "left" if self.best == self.left else "right"

    def better_of(self, i: int, j: int) -> int | None:
        """Return the better of two of the items by this answer; None if it prefers neither."""
        if self.best in (i, j):
            return self.best
        if self.worst in (i, j):
            return i if self.worst == j else j
        return None

    @property
    def lacks_worst(self) -> bool:
        """Whether the answer names the best of more than two items, and no worst item."""
        return self.best is not None and self.worst is None and len(self.items) > 2

    @property
    def question(self) -> Question:
        """The question that the judgement answers."""
        return Question(self.items, self.strategy, self.probability, self.model)

    def undo(self) -> Judgement:
        """Make the event that undoes this judgement."""
        return self.question.answered(self.annotator, "undo", undoes=self.number)


def check_undo(undo: Judgement, earlier: Judgement | None, *, undone: bool = False) -> None:
    """Check that an undo can be applied to an earlier judgement.

    Args:
        undo: the undo.
        earlier: the judgement to undo; None if there is no such judgement.
        undone: whether the earlier judgement is undone already.

    Raises:
        JudgementError: if there is no earlier judgement, or if the earlier judgement is by another
            annotator, is an undo, or is undone already.
    """
    number = undo.undoes
    if earlier is None:
        raise JudgementError(f"an undo of judgement {number}, which is not there")
    if earlier.annotator != undo.annotator:
        raise JudgementError(f"judgement {number} is not {undo.annotator!r}'s to undo")
    if earlier.answer == "undo":
        raise JudgementError(f"judgement {number} is an undo, which cannot be undone")
    if undone:
        raise JudgementError(f"judgement {number} is undone already")
