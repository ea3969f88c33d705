"""Comparisons of two items that follow from answers, for training a comparator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.preference.base import TARGETS, Judgement


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of two items, as arrays.

    Attributes:
        left, right: (m,) the two items.
        target: (m,) the share of votes for the left item: 1 or 0, 1/2 for a tie.
        annotator: (m,) the number of the annotator.
        weight: (m,) the number of answers that a comparison counts for. The comparisons from one
            answer about k items weigh k - 1 together.
    """

    left: I64
    right: I64
    target: F64
    annotator: I64
    weight: F64

    def __len__(self) -> int:
        return len(self.left)

    @classmethod
    def of_one(cls, left: I64, right: I64, target: F64) -> Comparisons:
        """Make comparisons as if a single annotator had made all of them."""
        return cls(left, right, target, np.zeros(len(left), np.int64), np.ones(len(left)))

    @classmethod
    def of_judgements(cls, judgements: Sequence[Judgement]) -> Comparisons:
        """Make comparisons from judgements about pairs, as if by a single annotator."""
        target = np.array([TARGETS[judgement.answer] for judgement in judgements])
        sides = [(judgement.left, judgement.right) for judgement in judgements]
        left, right = np.array(sides, np.int64).T
        return cls.of_one(left, right, target)

    def where(self, selected: Bool | I64) -> Comparisons:
        """Select comparisons by a mask or by row numbers."""
        columns = {name: column[selected] for name, column in vars(self).items()}
        return replace(self, **columns)
