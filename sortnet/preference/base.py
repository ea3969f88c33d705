"""A question, a judgement, and the possible answers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from sortnet.errors import JudgementError

Answer: TypeAlias = Literal["left", "right", "tie", "skip", "cant-say", "undo", "best", "same"]
Pair: TypeAlias = tuple[int, int]  # two items; as a key, the lower number first
ANSWERS: tuple[Answer, ...] = get_args(Answer)
MOST_ITEMS = 6  # a question is about at most 6 items
SET_ANSWERS = ("best", "same")  # answers about the order of more than two items
SET_FIELDS = ("further", "best", "worst")  # fields of `Judgement` that only questions on sets need
# Answers about the order of two items, with the target of training: 1 if the left item is better.
TARGETS: dict[str, float] = {"left": 1.0, "tie": 0.5, "right": 0.0}
ORDER_ANSWERS = (*TARGETS, *SET_ANSWERS)  # answers about the order of any number of items
# An annotator's probabilities are shares of votes, such as 7 of 10 for the left item; or they
# measure the difference of two items; or they are ignored, and only the words `left`, `right` and
# `tie` count.
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
HOLDOUT = "random"  # the strategy of hold-out questions, whose answers never choose a question


class HasPair(Protocol):
    """A question or an answer about two items."""

    @property
    def pair(self) -> Pair:
        """The two items, the lower number first."""
        ...


T = TypeVar("T", bound=HasPair)


def unordered_pair(left: int, right: int) -> Pair:
    """Order two items, so that the lower number is first."""
    return (left, right) if left < right else (right, left)


def by_pair(answers: Iterable[T]) -> dict[Pair, list[T]]:
    """Collect the answers to each pair, in their order.

    The pairs are in the order of their first answers.

    >>> questions = Question(3, 1, "informative", 1.0), Question(1, 3, "repeat", 1.0)
    >>> {pair: len(questions) for pair, questions in by_pair(questions).items()}
    {(1, 3): 2}
    """
    answers_to: dict[Pair, list[T]] = {}
    for answer in answers:
        answers_to.setdefault(answer.pair, []).append(answer)
    return answers_to


def pairs_among(items: Iterable[int]) -> list[Pair]:
    """List every pair of the items, the lower number first.

    >>> pairs_among((3, 1, 2))
    [(1, 2), (1, 3), (2, 3)]
    """
    return [*combinations(sorted(items), 2)]


@dataclass(frozen=True)
class Question:
    """A question which of two items is better, or which of up to six is the best.

    Attributes:
        left, right: the items in the first two places, numbered from 0.
        strategy: strategy that chose the items: `informative`, `random`, `repeat`, ...
        probability: probability with which the strategy, once it is used, chooses these items; 1
            without a choice.
        model: number of events that the model was fitted to when the question was chosen.
        further: the items from the third place on; none if the question is about two items.
    """

    left: int
    right: int
    strategy: str
    probability: float
    model: int = 0
    further: tuple[int, ...] = ()

    @property
    def items(self) -> tuple[int, ...]:
        """The items in the order in which the question shows them."""
        return self.left, self.right, *self.further

    @property
    def pair(self) -> Pair:
        """The two items of the question, the lower number first.

        Raises:
            JudgementError: if the question is about more than two items.
        """
        return pair_of_two(self.items)

    @property
    def pairs(self) -> list[Pair]:
        """Every pair of the question's items, the lower number first."""
        return pairs_among(self.items)

    @property
    def turned(self) -> Question:
        """The same question with the items in reverse order.

        >>> Question(3, 1, "informative", 1.0).turned.left
        1
        >>> Question(3, 1, "informative", 1.0, further=(4,)).turned.items
        (4, 1, 3)
        """
        left, right, *further = reversed(self.items)
        return replace(self, left=left, right=right, further=tuple(further))

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

        >>> Question(3, 1, "informative", 1.0, further=(4,)).answered_by_place("ana", 2, 0).best
        4
        """
        for place in (best, worst):
            if place is not None and not 0 <= place < len(self.items):
                raise JudgementError(f"place {place} of a question about {len(self.items)} items")
        worst_item = None if worst is None else self.items[worst]
        return self.answered(annotator, "best", best=self.items[best], worst=worst_item, **facts)

    def answered(self, annotator: str, answer: Answer, **facts: Any) -> Judgement:
        """Make the judgement that gives this answer to the question.

        Args:
            annotator: name of the annotator.
            answer: the answer.
            facts: further fields of the judgement, such as milliseconds.

        >>> Question(3, 1, "informative", 1.0).answered("ana", "left").strategy
        'informative'
        """
        fields_of_question = vars(self)
        return Judgement(annotator, answer=answer, **fields_of_question, **facts)


def pair_of_two(items: tuple[int, ...]) -> Pair:
    """Order the items of a pair, so that the lower number is first.

    Raises:
        JudgementError: unless there are two items.
    """
    if len(items) != 2:
        raise JudgementError(f"{len(items)} items are no pair")
    return unordered_pair(*items)


@dataclass(frozen=True)
class Judgement:
    """An annotator's answer about two to six items; never changed, only undone by a later event.

    Attributes:
        annotator: name of the annotator.
        left, right: the items in the first two places.
        answer: the answer. About two items it is `left` or `right`, the side of the better item, or
            `tie`. About more items it is `best`, or `same` if all items are equally good. About any
            number of items it is `skip` or `cant-say`. The event `undo` takes back an earlier
            judgement.
        milliseconds: time from showing the question to the answer, if measured.
        strategy: strategy that chose the question; `given` for an imported judgement.
        probability: probability with which the strategy chose the items, see `Question`.
        model: number of events that the model was fitted to when the question was chosen.
        number: place in the order of the collection's events, from 1; 0 if not stored yet.
        undoes: for an undo, the number of the judgement to undo.
        at: time of the answer in seconds since 1970, if known.
        comment: comment of the annotator on the question.
        flagged: whether the annotator marked the question for the administrator.
        p: the probability that the left item is better, if the annotator gave one; see
            `Probabilities`.
        cost: cost of the answer, in the currency of the prices.
        meta: further facts about the answer, as JSON.
        further: the items from the third place on.
        best, worst: the items chosen by the answer `best`; `worst` is None if the annotator was not
            asked for it.

    Raises:
        JudgementError: on an unknown answer, an item twice, an answer that does not go with the
            number of items, an undo without `undoes`, or a `p` or `cost` out of range.

    >>> Judgement("ana", 3, 1, "left").pair
    (1, 3)
    >>> Judgement("ana", 3, 1, "best", further=(4, 2), best=4, worst=1).comparisons()
    [(4, 3), (4, 1), (4, 2), (3, 1), (2, 1)]
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
    further: tuple[int, ...] = ()
    best: int | None = None
    worst: int | None = None

    def __post_init__(self) -> None:
        check_items(self.items, self.answer)
        check_choice(self.items, self.answer, self.best, self.worst)
        if self.p is not None and not 0 <= self.p <= 1:
            raise JudgementError(f"p must be from 0 to 1, got {self.p}")
        if self.cost is not None and not 0 <= self.cost < math.inf:
            raise JudgementError(f"a cost must be 0 or more, got {self.cost}")
        if self.meta is not None and len(self.meta) > LONGEST_META:
            raise JudgementError(f"meta of {len(self.meta):,} characters: {LONGEST_META:,} at most")
        if self.answer not in ANSWERS:
            raise JudgementError(
                f"unknown answer {str(self.answer)!r}; known are {', '.join(ANSWERS)}"
            )
        if self.milliseconds is not None and not 0 <= self.milliseconds < MOST_MILLISECONDS:
            raise JudgementError(f"an answer after {self.milliseconds} milliseconds cannot be")
        if self.comment is not None and len(self.comment) > LONGEST_COMMENT:
            length = f"{len(self.comment):,} characters"
            raise JudgementError(f"a comment of {length}: at most {LONGEST_COMMENT:,} are kept")
        if (self.answer == "undo") != (self.undoes is not None):
            raise JudgementError('`undoes` must be set if and only if answer is "undo"')

    @property
    def question(self) -> Question:
        """The question that the judgement answers."""
        return Question(
            self.left, self.right, self.strategy, self.probability, self.model, self.further
        )

    def undo(self) -> Judgement:
        """Make the event that undoes this judgement."""
        return self.question.answered(self.annotator, "undo", undoes=self.number)

    @property
    def items(self) -> tuple[int, ...]:
        """The items in the order in which the question shows them."""
        return self.left, self.right, *self.further

    @property
    def pair(self) -> Pair:
        """The two items of the judgement, the lower number first.

        Raises:
            JudgementError: if the judgement is about more than two items.
        """
        return pair_of_two(self.items)

    @property
    def pairs(self) -> list[Pair]:
        """Every pair of the judgement's items, the lower number first."""
        return pairs_among(self.items)

    def comparisons(self) -> list[Pair]:
        """List the comparisons that follow from the answer, as (better item, worse item).

        In an answer about a set, the best item is better than all other items, and all other items
        are better than the worst. A tie has no comparison.
        """
        if self.answer == "left":
            return [(self.left, self.right)]
        if self.answer == "right":
            return [(self.right, self.left)]
        if self.best is None:
            return []
        with_best = [(self.best, item) for item in self.items if item != self.best]
        if self.worst is None:
            return with_best
        between = [item for item in self.items if item not in (self.best, self.worst)]
        return with_best + [(item, self.worst) for item in between]


def check_items(items: tuple[int, ...], answer: str) -> None:
    """Check the items of a judgement, and that its answer goes with their number.

    Raises:
        JudgementError: if an item occurs twice, if there are more than six items, or if the answer
            is for questions about fewer or more items.
    """
    for item in items:
        if items.count(item) > 1:
            raise JudgementError(f"item {item} cannot be compared with itself")
    if len(items) > MOST_ITEMS:
        raise JudgementError(f"a question about {len(items)} items: at most {MOST_ITEMS}")
    refused_answers: Collection[str] = SET_ANSWERS if len(items) == 2 else TARGETS
    if answer in refused_answers:
        raise JudgementError(f"{str(answer)!r} is no answer about {len(items)} items")


def check_choice(items: tuple[int, ...], answer: str, best: int | None, worst: int | None) -> None:
    """Check that the best and the worst item of a judgement go with its answer and its items.

    Raises:
        JudgementError: if `best` is set with another answer than `best`, or missing with the answer
            `best`; if `worst` is set without `best`, or is the same item; or if one of the two
            items is not in the question.
    """
    if (answer == "best") != (best is not None):
        raise JudgementError('`best` must be set if and only if answer is "best"')
    if worst is not None and best is None:
        raise JudgementError(f"item {worst} is the worst, but none is the best")
    if best is not None and best == worst:
        raise JudgementError(f"item {best} cannot be the best and the worst")
    for chosen in (best, worst):
        if chosen is not None and chosen not in items:
            raise JudgementError(f"item {chosen} is none of those in question")


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
        raise undo_of_unknown_judgement(undo)
    if earlier.annotator != undo.annotator:
        raise undo_by_another_annotator(undo)
    if earlier.answer == "undo":
        raise JudgementError(f"judgement {number} is an undo, which cannot be undone")
    if undone:
        raise JudgementError(f"judgement {number} is undone already")


def undo_of_unknown_judgement(undo: Judgement) -> JudgementError:
    """Make the error for an undo of a judgement that does not exist."""
    return JudgementError(f"an undo of judgement {undo.undoes}, which is not there")


def undo_by_another_annotator(undo: Judgement) -> JudgementError:
    """Make the error for an undo of a judgement that another annotator gave."""
    return JudgementError(f"judgement {undo.undoes} is not {undo.annotator!r}'s to undo")
