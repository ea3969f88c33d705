"""What a program or a model answers about the documents of a run, and the pairs to learn from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sortnet.core import Pairs
from sortnet.preference.base import TARGETS, Pair, by_pair, unordered_pair


@dataclass(frozen=True)
class JudgeAnswer:
    """An answer about two documents of one query, as they were shown.

    Attributes:
        left, right: the documents' numbers in their split.
        answer: one of `sortnet.preference.ANSWERS`.
        p: how probably the left one is better, where the judge says so.
        milliseconds, cost, comment, flagged, meta: as `sortnet.preference.Judgement` has them.
        at: when it was stored, in seconds since 1970.
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
        """The two documents, the lower number first."""
        return unordered_pair(self.left, self.right)

    @property
    def target(self) -> float:
        """How probably the left document is better; NaN where the judge could not say.

        >>> JudgeAnswer(0, 1, "left").target, JudgeAnswer(0, 1, "left", p=0.7).target
        (1.0, 0.7)
        """
        if self.answer not in TARGETS:
            return math.nan
        return TARGETS[self.answer] if self.p is None else self.p


def target_of(answers: Sequence[JudgeAnswer]) -> float:
    """Probability that the document of the lower number is better; NaN if the judge cannot say.

    Of a pair that was asked in both orders it is the mean.

    >>> target_of([JudgeAnswer(4, 2, "left", p=0.9), JudgeAnswer(2, 4, "right", p=0.3)])
    0.2
    """
    of_lower = [
        answer.target if answer.left < answer.right else 1.0 - answer.target for answer in answers
    ]
    known = [target for target in of_lower if not math.isnan(target)]
    return round(sum(known) / len(known), 12) if known else math.nan


def targets_of(answers: Iterable[JudgeAnswer]) -> dict[tuple[int, int], float]:
    """Probability that a pair's document of the lower number is better: {(lower, higher): p}."""
    return {pair: target_of(both) for pair, both in by_pair(answers).items()}


def judged_pairs(targets: Mapping[tuple[int, int], float]) -> Pairs:
    """The pairs to learn from, without those of which the judge could not say anything."""
    known = {pair: target for pair, target in targets.items() if not math.isnan(target)}
    documents = np.array([*known], np.int64).reshape(-1, 2)
    return Pairs.judged(documents[:, 0], documents[:, 1], soft=[*known.values()])
