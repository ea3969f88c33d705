"""Answers about the order, as arrays; and what would be believed without them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64, I64, Bool
from sortnet.preference.base import TARGETS, Judgement, Pair

_BLOCK = 128  # answers left out together, at most
# Who answers: a person, a model, whose errors others share, or nobody: a known answer.
PERSON, MODEL, GOLD = range(3)


@dataclass(frozen=True, eq=False)
class Votes:
    """Answers about the order, as arrays.

    Attributes:
        left, right: (m,) items.
        target: (m,) 1 for left, 0 for right, ½ for a tie.
        annotator: (m,) their numbers.
        weight: (m,) how many answers each counts for; None: 1.
        kind: (m,) `PERSON`, `MODEL` or `GOLD`, the annotator of which does not matter; None: all
            are of people.
        probit: (m,) of the probability that the left item is better, where an answer is a
            measurement, see `measured`; elsewhere NaN. None: no answer is.
    """

    left: I64
    right: I64
    target: F64
    annotator: I64
    weight: F64 | None = None
    kind: I64 | None = None
    probit: F64 | None = None

    def __len__(self) -> int:
        return len(self.left)

    def marked(self, models: Collection[int]) -> Votes:
        """The same votes, those of these annotators as of models."""
        by_model = np.isin(self.annotator, [*models])
        return replace(self, kind=np.where(by_model, MODEL, PERSON)) if by_model.any() else self

    def with_known(self, models: Collection[int], gold: Iterable[Pair]) -> Votes:
        """The same votes, those of models marked, and after them the known answers to gold pairs.

        Without gold pairs a model is not marked that answers alone: what it sees and its errors
        cannot be separated. Nothing is added to no votes. Models are numbers of annotators; of a
        gold pair the better item is the first.
        """
        known = np.array([*gold], np.int64).reshape(-1, 2)
        if not len(known):
            return self.marked(models) if len(np.unique(self.annotator)) > 1 else self
        if not len(self):
            return self
        zeros = np.zeros(len(known), np.int64)
        of_known = {
            **{"left": known[:, 0], "right": known[:, 1], "target": zeros + 1.0},
            **{"annotator": zeros, "weight": zeros + 1.0, "kind": zeros + GOLD},
            **{"probit": np.full(len(known), np.nan)},
        }
        votes = replace(self, kind=np.where(np.isin(self.annotator, [*models]), MODEL, PERSON))
        columns = {name: np.append(has, of_known[name]) for name, has in votes._columns()}
        return Votes(**columns)

    def _columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        return ((name, column) for name, column in vars(self).items() if column is not None)

    @property
    def only_of_models(self) -> bool:
        """Whether there are no answers of people, and no known ones."""
        return bool(self.of_kind(MODEL).all())

    def others_beside_one(self) -> Votes:
        """Votes of models, the one with the most answers taken for a person beside the others."""
        most = np.bincount(self.annotator).argmax()
        return replace(self, kind=np.where(self.annotator == most, PERSON, MODEL))

    @property
    def is_measured(self) -> Bool:
        """(m,) whether the answers are measurements."""
        if self.probit is None:
            return np.zeros(len(self), np.bool_)
        return ~np.isnan(self.probit)

    def in_words(self, annotators: Collection[int] | None = None) -> Votes:
        """The same votes, without the measurements of these annotators; None: of all."""
        if self.probit is None or annotators is None:
            return replace(self, probit=None)
        probit = np.where(np.isin(self.annotator, [*annotators]), np.nan, self.probit)
        return replace(self, probit=None if np.isnan(probit).all() else probit)

    def of_kind(self, *kinds: int) -> Bool:
        """(m,) whether the answers are of one of these kinds."""
        kind = np.full(len(self), PERSON) if self.kind is None else self.kind
        return np.isin(kind, kinds)

    @classmethod
    def of_one(cls, left: I64, right: I64, target: F64) -> Votes:
        """The votes of one annotator, or of several treated as one."""
        return cls(left, right, target, np.zeros(len(left), np.int64))

    @classmethod
    def of_judgements(cls, judgements: Sequence[Judgement]) -> Votes:
        """The answers about the order, as if of one annotator."""
        target = np.array([TARGETS[j.answer] for j in judgements])
        left, right = np.array([(j.left, j.right) for j in judgements], np.int64).T
        return cls.of_one(left, right, target)

    def rows(self) -> Iterator[tuple[int, int, float, int]]:
        """The votes one by one."""
        columns = (self.left, self.right, self.target, self.annotator)
        return zip(*(column.tolist() for column in columns), strict=True)

    def probits(self) -> list[float]:
        """The measurements of the votes one by one; NaN for a word."""
        return [float("nan")] * len(self) if self.probit is None else self.probit.tolist()

    def renumbered(self, items: I64) -> Votes:
        """The same votes, its items given by their places among these, which ascend."""
        left, right = (np.searchsorted(items, side) for side in (self.left, self.right))
        return replace(self, left=left, right=right)

    def where(self, mask: Bool | I64) -> Votes:
        """The votes selected by a mask, or by their places."""
        return replace(self, **{name: has[mask] for name, has in self._columns()})


def unseen(mean: F64, variance: F64, slope: F64, weight: F64) -> tuple[F64, F64]:
    """Means and variances of z as they would be without each answer, given those with it.

    Laplace's approximation of leaving one out (Vehtari and others, 2016, eq. 29), by the slope and
    weight of each answer's log-likelihood, see `Likelihood`; (m,) each.
    """
    without = variance / np.maximum(1 - weight * variance, 0.1)
    return mean - without * slope, without


def unseen_in_blocks(mean: F64, C: F64, votes: Votes, slope: F64, weight: F64) -> tuple[F64, F64]:
    """As `unseen`, for gaps s_left - s_right without all answers of the same annotator, or without
    blocks of them if they are many, given the (n + a, n + a) covariance C.
    """
    mean, variance = mean.copy(), np.empty_like(mean)
    by_annotator = np.argsort(votes.annotator, kind="stable")
    ends = np.searchsorted(votes.annotator[by_annotator], np.arange(votes.annotator.max() + 1))
    for own in np.split(by_annotator, ends[1:]):
        for block in np.array_split(own, -(-len(own) // _BLOCK) or 1):
            i, j = votes.left[block], votes.right[block]
            K = C[np.ix_(i, i)] - C[np.ix_(i, j)] - C[np.ix_(j, i)] + C[np.ix_(j, j)]
            A = np.eye(len(K)) - K * weight[block]
            without = np.linalg.solve(A, K)
            variance[block] = np.maximum(np.diag(without), 1e-12)
            mean[block] -= without @ slope[block]
    return mean, variance
