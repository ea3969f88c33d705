"""Answers that compare items, as arrays; and predictions of answers from the other answers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64, I64, Bool
from sortnet.preference.base import TARGETS, Judgement, Pair
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.set_answers import (
    SetColumns,
    SetRows,
    rows_by_layout,
    rows_of_alike,
    rows_of_choices,
)

_BLOCK = 128  # answers left out together, at most
# Kinds of answers. Models share errors with each other; the answer to a gold pair is known.
PERSON, MODEL, GOLD = range(3)


@dataclass(frozen=True, eq=False)
class Votes:
    """Answers that compare items, as arrays.

    An answer about a pair has one row, an answer about a set of items has several rows.

    Attributes:
        left, right: (m,) the two items that a row compares.
        target: (m,) 1 for left, 0 for right, ½ for a tie.
        annotator: (m,) numbers of the annotators.
        weight: (m,) how many answers each row counts for; None: 1.
        kind: (m,) `PERSON`, `MODEL` or `GOLD`; the annotator of a `GOLD` row does not matter. None:
            all answers are of people.
        answer: (m,) for an answer about a set its number, the same in all its rows; these follow
            each other as in `Layout`. -1 for an answer about a pair; None: all are about pairs.
        layout: (m,) for an answer about a set the number of its layout, see `LAYOUTS`; else -1.
            None: all answers are about pairs.
        bias: (m,) factor of the annotator's side bias for the left item; None: 1.
        probit: (m,) probit of the probability that the left item is better, where an answer is a
            measurement, see `measured`; elsewhere NaN. None: no answer is a measurement.
    """

    left: I64
    right: I64
    target: F64
    annotator: I64
    weight: F64 | None = None
    kind: I64 | None = None
    probit: F64 | None = None
    answer: I64 | None = None
    layout: I64 | None = None
    bias: F64 | None = None

    def __len__(self) -> int:
        return len(self.left)

    def marked(self, models: Collection[int]) -> Votes:
        """The same votes, where the votes of the annotators `models` have the kind `MODEL`."""
        by_model = np.isin(self.annotator, [*models])
        if not by_model.any():
            return self
        return replace(self, kind=np.where(by_model, MODEL, PERSON))

    def with_known(self, models: Collection[int], gold: Iterable[Pair]) -> Votes:
        """The same votes with models marked, followed by the known answers to gold pairs.

        Without gold pairs a model that answers alone is not marked, because its errors cannot be
        told from its true preferences. If there are no votes, no known answers are added.

        Args:
            models: numbers of the annotators that are models.
            gold: pairs whose order is known, the better item first.
        """
        better_and_worse = np.array([*gold], np.int64).reshape(-1, 2)
        if not len(better_and_worse):
            is_alone = len(np.unique(self.annotator)) <= 1
            return self if is_alone else self.marked(models)
        if not len(self):
            return self
        n_gold = len(better_and_worse)
        known_columns: dict[str, NDArray[Any]] = {
            "left": better_and_worse[:, 0],
            "right": better_and_worse[:, 1],
            "target": np.ones(n_gold),
            "annotator": np.zeros(n_gold, np.int64),
            "weight": np.ones(n_gold),
            "kind": np.full(n_gold, GOLD),
            "probit": np.full(n_gold, np.nan),
            "answer": np.full(n_gold, -1),
            "layout": np.full(n_gold, -1),
            "bias": np.ones(n_gold),
        }
        by_model = np.isin(self.annotator, [*models])
        votes = replace(self, kind=np.where(by_model, MODEL, PERSON))
        return Votes(
            **{name: np.append(column, known_columns[name]) for name, column in votes._columns()}
        )

    def _columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """The columns that are not None, with their names."""
        return ((name, column) for name, column in vars(self).items() if column is not None)

    @property
    def only_of_models(self) -> bool:
        """Whether there are neither answers of people nor known answers."""
        return bool(self.of_kind(MODEL).all())

    def others_beside_one(self) -> Votes:
        """The same votes, where the busiest annotator counts as a person, the rest as models."""
        busiest = np.bincount(self.annotator).argmax()
        return replace(self, kind=np.where(self.annotator == busiest, PERSON, MODEL))

    @property
    def is_measured(self) -> Bool:
        """(m,) whether an answer is a measurement: a probability in place of a word."""
        if self.probit is None:
            return np.zeros(len(self), np.bool_)
        return ~np.isnan(self.probit)

    def in_words(self, annotators: Collection[int] | None = None) -> Votes:
        """The same votes, where measurements of the given annotators count as words.

        None: the measurements of all annotators.
        """
        if self.probit is None or annotators is None:
            return replace(self, probit=None)
        probit = np.where(np.isin(self.annotator, [*annotators]), np.nan, self.probit)
        return replace(self, probit=None if np.isnan(probit).all() else probit)

    def of_kind(self, *kinds: int) -> Bool:
        """(m,) whether an answer has one of the given kinds."""
        kind = np.full(len(self), PERSON) if self.kind is None else self.kind
        return np.isin(kind, kinds)

    @classmethod
    def of_one(cls, left: I64, right: I64, target: F64) -> Votes:
        """Make the votes of one annotator, or of several annotators treated as one."""
        return cls(left, right, target, np.zeros(len(left), np.int64))

    @classmethod
    def of_judgements(cls, judgements: Sequence[Judgement]) -> Votes:
        """Make votes from answers about pairs, as if all were given by one annotator."""
        target = np.array([TARGETS[j.answer] for j in judgements])
        left, right = np.array([(j.left, j.right) for j in judgements], np.int64).T
        return cls.of_one(left, right, target)

    def rows(self) -> Iterator[tuple[int, int, float, int]]:
        """Iterate over the votes as tuples (left, right, target, annotator)."""
        return zip(
            self.left.tolist(),
            self.right.tolist(),
            self.target.tolist(),
            self.annotator.tolist(),
            strict=True,
        )

    def with_sets(self, judgements: Judgements, rows: I64) -> Votes:
        """These votes, which are about pairs, followed by the votes of judgements about sets.

        Args:
            judgements: all judgements.
            rows: the rows of the judgements about sets.
        """
        has_best = judgements.best[rows] >= 0
        choices = rows[has_best]
        alike = rows[~has_best]
        chosen = np.column_stack((judgements.best[choices], judgements.worst[choices]))
        columns_of_sets = [
            *rows_of_choices(judgements.items(choices), chosen.astype(np.int64), choices),
            *rows_of_alike(judgements.items(alike), alike),
        ]
        of_no_set = np.full(len(self), -1)
        of_pairs = replace(self, answer=of_no_set, layout=of_no_set, bias=np.ones(len(self)))
        parts = [of_pairs, *(_votes_of_sets(judgements, columns) for columns in columns_of_sets)]
        return Votes(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name, _ in of_pairs._columns()
            }
        )

    def probits(self) -> list[float]:
        """The probit of each vote that is a measurement; NaN for each other vote."""
        if self.probit is None:
            return [float("nan")] * len(self)
        probits: list[float] = self.probit.tolist()
        return probits

    def renumbered(self, items: I64) -> Votes:
        """The same votes with other item numbers: each item's index in the ascending `items`."""
        left = np.searchsorted(items, self.left)
        right = np.searchsorted(items, self.right)
        return replace(self, left=left, right=right)

    def where(self, mask: Bool | I64) -> Votes:
        """Select votes by a mask or by their rows.

        A mask selects an answer about a set only if it selects all rows of the answer.
        """
        if self.answer is not None and mask.dtype == np.bool_:
            dropped = np.unique(self.answer[~mask])
            mask = mask & ~((self.answer >= 0) & np.isin(self.answer, dropped))
        return replace(self, **{name: column[mask] for name, column in self._columns()})

    @property
    def sets(self) -> list[SetRows]:
        """The rows of the answers about sets, together for all sets with the same layout."""
        if self.answer is None or self.layout is None:
            return []
        return rows_by_layout(self.answer, self.layout)

    @property
    def of_pairs(self) -> Bool:
        """(m,) whether a row is an answer about a pair, or else a part of an answer about a set."""
        if self.answer is None:
            return np.ones(len(self), np.bool_)
        return self.answer < 0

    @property
    def n_answers(self) -> int:
        """The number of answers; an answer about a set counts once."""
        n_sets = sum(len(sets.rows) for sets in self.sets)
        return int(np.count_nonzero(self.of_pairs)) + n_sets

    @property
    def first(self) -> Bool:
        """(m,) whether a row is the first of its answer; an answer about a pair has one row."""
        first = self.of_pairs.copy()
        for sets in self.sets:
            first[sets.first] = True
        return first

    def drawn(self, share: float, rng: np.random.Generator) -> Bool:
        """Draw a random share of the answers; return (m,) whether a row's answer is drawn."""
        drawn = rng.random(len(self)) < share
        for sets in self.sets:
            drawn[sets.rows] = drawn[sets.first, None]
        return drawn

    def comparisons(self) -> Votes:
        """The same votes, where answers about sets are replaced by comparisons of two items.

        In these comparisons the item with the lower number is on the left: if the better item were
        always on the left, a side bias would explain all answers. Each of them weighs less than 1,
        see `Layout.weight`.
        """
        if self.answer is None:
            return self
        is_comparison = self.of_pairs.copy()
        weight = np.ones(len(self)) if self.weight is None else self.weight.copy()
        for sets in self.sets:
            rows = sets.rows[:, sets.layout.comparisons]
            is_comparison[rows] = True
            weight[rows] *= sets.layout.weight
        is_swapped = ~self.of_pairs & (self.left > self.right)
        pairs = replace(
            self,
            left=np.where(is_swapped, self.right, self.left),
            right=np.where(is_swapped, self.left, self.right),
            target=np.where(is_swapped, 1 - self.target, self.target),
            answer=None,
            layout=None,
            bias=None,
            weight=weight,
        )
        return pairs.where(is_comparison)


def _votes_of_sets(judgements: Judgements, columns: SetColumns) -> Votes:
    """Make votes from the columns of answers about sets."""
    n_rows = len(columns.event)
    return Votes(
        columns.left,
        columns.right,
        np.full(n_rows, columns.target),
        judgements.annotator[columns.event],
        probit=np.full(n_rows, np.nan),
        answer=columns.event,
        layout=np.full(n_rows, columns.layout),
        bias=columns.bias,
    )


def unseen(mean: F64, variance: F64, slope: F64, weight: F64) -> tuple[F64, F64]:
    """Mean and variance of each answer's z as if the answer itself had not been fitted.

    Laplace's approximation of leaving one out (Vehtari and others, 2016, eq. 29):
    variance' = variance / (1 - weight variance), mean' = mean - variance' slope.

    Args:
        mean, variance: (m,) of z, with all answers.
        slope, weight: (m,) derivatives of each answer's log-likelihood, see `Likelihood`.
    """
    # The bound keeps the variance positive where the approximation fails.
    without = variance / np.maximum(1 - weight * variance, 0.1)
    return mean - without * slope, without


def unseen_in_blocks(
    mean: F64,
    C: F64,
    votes: Votes,
    likelihood: tuple[F64, F64],
    reliability: F64,
    side: F64,
    n_items: int,
) -> tuple[F64, F64]:
    """Mean and variance of each gap s_left - s_right as if its annotator had not answered.

    If an annotator gave many answers, they are left out in blocks. In a block, K is the covariance
    of the arguments z of the answers, k the covariance of the gaps with z, and W the diagonal
    matrix of the weights. With k' = k (I - W K)⁻¹, diag(k' W kᵀ) is added to the variances of the
    gaps, and k' times the slopes is subtracted from the means.

    Args:
        mean: (m,) the means of the gaps, with all answers.
        C: (n + a, n + a) covariance of the scores and the side biases.
        votes: the answers.
        likelihood: (m,), (m,) slope and weight of each answer's log-likelihood in z, where z is
            reliability (s_left - s_right) + side b, with the annotator's side bias b.
        reliability, side: (m,) the factors of each answer's z.
        n_items: the number of items, n.
    """
    slope, weight = likelihood
    mean = mean.copy()
    variance = np.empty_like(mean)
    by_annotator = np.argsort(votes.annotator, kind="stable")
    starts = np.searchsorted(votes.annotator[by_annotator], np.arange(votes.annotator.max() + 1))
    for own_rows in np.split(by_annotator, starts[1:]):
        n_blocks = max(math.ceil(len(own_rows) / _BLOCK), 1)
        for block in np.array_split(own_rows, n_blocks):
            i = votes.left[block]
            j = votes.right[block]
            c = reliability[block]
            own_side = side[block]
            bias = n_items + votes.annotator[block]
            gaps = C[np.ix_(i, i)] - C[np.ix_(i, j)] - C[np.ix_(j, i)] + C[np.ix_(j, j)]
            gaps_with_bias = own_side * (C[np.ix_(i, bias)] - C[np.ix_(j, bias)])
            biases = np.outer(own_side, own_side) * C[np.ix_(bias, bias)]
            gaps_with_z = c * gaps + gaps_with_bias
            z_with_z = c[:, None] * gaps_with_z + c * gaps_with_bias.T + biases
            A = np.eye(len(block)) - weight[block][:, None] * z_with_z
            without = np.linalg.solve(A.T, gaps_with_z.T).T
            variance[block] = np.diag(gaps) + np.sum(without * weight[block] * gaps_with_z, axis=1)
            mean[block] -= without @ slope[block]
    return mean, np.maximum(variance, 1e-12)
