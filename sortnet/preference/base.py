"""Question, Judgement, and the possible answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from sortnet.errors import JudgementError

Answer: TypeAlias = Literal["left", "right", "tie", "skip", "cant-say", "undo"]
Pair: TypeAlias = tuple[int, int]  # two items, the lower number first where it is a key
ANSWERS: tuple[Answer, ...] = get_args(Answer)
# The answers about the order; a skip and a "can't say" are not.
TARGETS: dict[str, float] = {"left": 1.0, "tie": 0.5, "right": 0.0}
# What the probabilities of an annotator are: a share of votes, such as 7 of 10 for the left item; a
# measurement of the difference of two items; or nothing, only the word counts.
Probabilities: TypeAlias = Literal["share", "measurement", "ignored"]
PROBABILITIES: tuple[Probabilities, ...] = get_args(Probabilities)
P_IN_WORDS: dict[Probabilities, str] = {
    "share": "a share of votes",
    "measurement": "a measurement",
    "ignored": "ignored",
}
LONGEST_COMMENT = 2000  # characters
LONGEST_META = 4000
HOLDOUT = "random"  # the strategy of the hold-out, which is never used to choose


class HasPair(Protocol):
    """Something that is about two items."""

    @property
    def pair(self) -> Pair:
        """The two items, the lower number first."""
        ...


T = TypeVar("T", bound=HasPair)


def unordered_pair(left: int, right: int) -> Pair:
    """The two items, the lower number first, whichever was on which side."""
    return (left, right) if left < right else (right, left)


def by_pair(answers: Iterable[T]) -> dict[Pair, list[T]]:
    """The answers to each pair in their order; pairs in the order of their first answers.

    >>> questions = Question(3, 1, "bald", 1.0), Question(1, 3, "repeat", 1.0)
    >>> {pair: len(asked) for pair, asked in by_pair(questions).items()}
    {(1, 3): 2}
    """
    of_pair: dict[Pair, list[T]] = {}
    for answer in answers:
        of_pair.setdefault(answer.pair, []).append(answer)
    return of_pair


@dataclass(frozen=True)
class Question:
    """Which of two items is better? Items are numbered from 0.

    Attributes:
        left, right: the items shown there.
        strategy: what chose the pair: `merge`, `connect`, `bald`, `random`, `repeat`, ...
        probability: with which the strategy chose this pair; 1 if it had no choice. How often each
            strategy is used is a setting of the session.
        model: number of events known to the model that chose it.
    """

    left: int
    right: int
    strategy: str
    probability: float
    model: int = 0

    @property
    def pair(self) -> Pair:
        """The two items, the lower number first."""
        return unordered_pair(self.left, self.right)

    def answered(self, annotator: str, answer: Answer, **facts: Any) -> Judgement:
        """An answer to it as a judgement; `facts` are further fields, such as milliseconds.

        >>> Question(3, 1, "bald", 1.0).answered("ana", "left").strategy
        'bald'
        """
        return Judgement(annotator, answer=answer, **vars(self), **facts)


@dataclass(frozen=True)
class Judgement:
    """An annotator's answer about two items; never changed, only undone by another judgement.

    Attributes:
        annotator: name of the annotator.
        left, right: the items shown there.
        answer: `left` or `right` is better, `tie`, `skip`, `cant-say`; or `undo` of an earlier one.
        milliseconds: time from showing to answering, if measured.
        strategy, probability, model: as in `Question`; the strategy of imports is `given`.
        number: its place in the order of the collection's events, from 1; 0 if not stored yet.
        undoes: for an undo, the number of the judgement to undo.
        at: time in seconds since 1970, if known.
        comment, flagged: of the annotator on the pair; whether it is marked for the administrator.
        p: how probably the left item is better, if given; see `Probabilities`.
        cost: of the answer, in whatever currency its prices were given.
        meta: what else is known of the answer, as JSON.

    Raises:
        JudgementError: on an unknown answer, the same item twice, an undo without `undoes`, or a
            `p` or `cost` that is none.

    >>> Judgement("ana", 3, 1, "left").pair
    (1, 3)
    """

    annotator: str
    left: int
    right: int
    answer: Answer
    milliseconds: int | None = None
    strategy: str = "given"
    probability: float = 1.0
    model: int = 0
    number: int = 0
    undoes: int | None = None
    at: float | None = None
    comment: str | None = None
    flagged: bool | None = None
    p: float | None = None
    cost: float | None = None
    meta: str | None = None

    def __post_init__(self) -> None:
        if self.p is not None and not 0 <= self.p <= 1:
            raise JudgementError(f"p must be from 0 to 1, got {self.p}")
        if self.cost is not None and not 0 <= self.cost < math.inf:
            raise JudgementError(f"a cost must be 0 or more, got {self.cost}")
        if self.meta is not None and len(self.meta) > LONGEST_META:
            raise JudgementError(f"meta of {len(self.meta):,} characters: {LONGEST_META:,} at most")
        if self.answer not in ANSWERS:
            raise JudgementError(f"unknown answer {self.answer!r}; known are {', '.join(ANSWERS)}")
        if self.milliseconds is not None and not 0 <= self.milliseconds < 2**53:
            raise JudgementError(f"an answer after {self.milliseconds} milliseconds cannot be")
        if self.left == self.right:
            raise JudgementError(f"item {self.left} cannot be compared with itself")
        if self.comment is not None and len(self.comment) > LONGEST_COMMENT:
            long = f"{len(self.comment):,} characters"
            raise JudgementError(f"a comment of {long}: at most {LONGEST_COMMENT:,} are kept")
        if (self.answer == "undo") != (self.undoes is not None):
            raise JudgementError('`undoes` must be set if and only if answer is "undo"')

    @property
    def question(self) -> Question:
        """The question it answers."""
        return Question(self.left, self.right, self.strategy, self.probability, self.model)

    def undo(self) -> Judgement:
        """The event that undoes it."""
        return self.question.answered(self.annotator, "undo", undoes=self.number)

    @property
    def pair(self) -> Pair:
        """The two items, the lower number first."""
        return unordered_pair(self.left, self.right)


def check_undo(undo: Judgement, earlier: Judgement | None, *, undone: bool = False) -> None:
    """Refuse an undo of an earlier judgement, None if it is missing, which may be undone already.

    Raises:
        JudgementError: if there is no such judgement, or it is another's, an undo, or undone.
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
