"""Answers of a machine judge about a run's documents, and the training pairs made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sortnet.core import Pairs
from sortnet.preference.base import TARGETS, Pair, by_pair, unordered_pair


@dataclass(frozen=True)
class JudgeAnswer:
    """An answer about two documents of one query, which were shown left and right.

    Attributes:
        left, right: the documents' numbers in their split.
        answer: one of `sortnet.preference.ANSWERS`.
        p: the probability that the left document is better; None if the judge gives none.
        milliseconds, cost, comment, flagged, meta: see `sortnet.preference.Judgement`.
        at: time of storage, in seconds since 1970.
    """

    left: int
    right: int
    answer: str
    p: float | None = None
    milliseconds: int | None = None
    cost: float | None = None
    comment: str | None = None
    flagged: bool | None = None
    meta: str | None = None
    at: float | None = None

    @property
    def pair(self) -> Pair:
        """The numbers of the two documents, the lower one first."""
        return unordered_pair(self.left, self.right)

    @property
    def target(self) -> float:
        """The probability that the left document is better; NaN if the judge did not decide.

        >>> JudgeAnswer(0, 1, "left").target, JudgeAnswer(0, 1, "left", p=0.7).target
        (1.0, 0.7)
        """
        if self.answer not in TARGETS:
            return math.nan
        return TARGETS[self.answer] if self.p is None else self.p


def target_of(answers: Sequence[JudgeAnswer]) -> float:
    """Return the probability that the document with the lower number is better.

    If the judge was asked in both orders, the result is the mean over both answers. It is NaN if
    the judge did not decide.

    Args:
        answers: all answers of the judge about one pair of documents.

    >>> target_of([JudgeAnswer(4, 2, "left", p=0.9), JudgeAnswer(2, 4, "right", p=0.3)])
    0.2
    """
    targets = [
        answer.target if answer.left < answer.right else 1.0 - answer.target for answer in answers
    ]
    decided = [target for target in targets if not math.isnan(target)]
    if not decided:
        return math.nan
    mean = sum(decided) / len(decided)
    return round(mean, 12)  # so that 1 - 0.9 is 0.1


def targets_of(answers: Iterable[JudgeAnswer]) -> dict[tuple[int, int], float]:
    """Return {pair (a, b) of document numbers, a < b: probability that `a` is better}."""
    return {pair: target_of(answers_of_pair) for pair, answers_of_pair in by_pair(answers).items()}


def judged_pairs(targets: Mapping[tuple[int, int], float]) -> Pairs:
    """Make training pairs of the result of `targets_of`, without pairs that are undecided."""
    decided = {pair: target for pair, target in targets.items() if not math.isnan(target)}
    documents = np.array([*decided], np.int64).reshape(-1, 2)
    return Pairs.judged(documents[:, 0], documents[:, 1], soft=[*decided.values()])
