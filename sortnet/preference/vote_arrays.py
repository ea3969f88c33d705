"""Answers that compare items, as arrays; and leave-one-out predictions of answers.

In shapes, m is the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
_LEAST_SHARE = 0.1  # of 1 - weight variance, which `unseen` divides by
_LEAST_VARIANCE = 1e-12  # keeps variances positive despite rounding errors
# Kinds of answers. Models share errors with each other; the answer to a gold pair is known.
PERSON = 0
MODEL = 1
GOLD = 2


@dataclass(frozen=True, eq=False)
class Votes:
    """Answers that compare items, as arrays.

    An answer about a pair has one row, an answer about a set of items has several rows.

    Attributes:
        left, right: (m,) the two items that a row compares.
        target: (m,) 1 if the left item is better, 0 if the right item is better, ½ for a tie.
        annotator: (m,) the number of the annotator.
        weight: (m,) the number of answers that a row counts for. If None, each row counts for 1.
        kind: (m,) `PERSON`, `MODEL` or `GOLD`; the annotator of a `GOLD` row does not matter. If
            None, all answers are of people.
        answer: (m,) the number of the answer about a set, the same in all rows of the answer, which
            follow each other in the order of the `Layout`; -1 for an answer about a pair. If None,
            all answers are about pairs.
        layout: (m,) the index in `LAYOUTS` for an answer about a set; -1 for an answer about a
            pair. If None, all answers are about pairs.
        bias: (m,) the factor of the annotator's side bias for the left item. If None, it is 1.
        probit: (m,) the probit of the probability that the left item is better if the answer is a
            measurement, see `measurement_likelihood`; else NaN. If None, no answer is a
            measurement.
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
        """Mark the votes of the annotators `models` as answers of models."""
        by_model = np.isin(self.annotator, [*models])
        if not by_model.any():
            return self
        return replace(self, kind=np.where(by_model, MODEL, PERSON))

    def with_known(self, models: Collection[int], gold: Iterable[Pair]) -> Votes:
        """Mark the votes of models, and add a vote for the known answer to each gold pair.

        Without gold pairs, a model that is the only annotator is not marked, because errors of the
        model cannot be told from true differences. Without votes, no known answers are added.

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
        by_model = np.isin(self.annotator, [*models])
        votes = replace(self, kind=np.where(by_model, MODEL, PERSON))
        return votes._followed_by([_known_answers(better_and_worse)])

    def _followed_by(self, others: Sequence[Votes]) -> Votes:
        """Append other votes. A column that is None in these votes stays None."""
        columns = {}
        for name, column in self._columns():
            further_columns = [getattr(votes, name) for votes in others]
            columns[name] = np.concatenate([column, *further_columns])
        return Votes(**columns)

    def _columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Iterate over the columns that are not None, with their names."""
        return ((name, column) for name, column in vars(self).items() if column is not None)

    @property
    def only_of_models(self) -> bool:
        """Whether all answers are of models, without people's answers and known answers."""
        return bool(self.of_kind(MODEL).all())

    def busiest_as_person(self) -> Votes:
        """Mark the annotator with the most rows as a person, and all other annotators as models."""
        busiest = np.bincount(self.annotator).argmax()
        return replace(self, kind=np.where(self.annotator == busiest, PERSON, MODEL))

    @property
    def is_measured(self) -> Bool:
        """Whether each answer is a measurement, which gives a probability and not only a word."""
        if self.probit is None:
            return np.zeros(len(self), np.bool_)
        return ~np.isnan(self.probit)

    def in_words(self, annotators: Collection[int] | None = None) -> Votes:
        """Return the same votes, without the probabilities of the given annotators.

        Their measurements then count as words, left or right. If `annotators` is None, the
        measurements of all annotators count as words.
        """
        if self.probit is None or annotators is None:
            return replace(self, probit=None)
        is_in_words = np.isin(self.annotator, [*annotators])
        probit = np.where(is_in_words, np.nan, self.probit)
        if np.isnan(probit).all():
            return replace(self, probit=None)
        return replace(self, probit=probit)

    def of_kind(self, *kinds: int) -> Bool:
        """Tell for each row whether the answer has one of the given kinds, (m,)."""
        kind = np.full(len(self), PERSON) if self.kind is None else self.kind
        return np.isin(kind, kinds)

    @classmethod
    def of_one(cls, left: I64, right: I64, target: F64) -> Votes:
        """Make votes about pairs, as if a single annotator had given all answers."""
        return cls(left, right, target, np.zeros(len(left), np.int64))

    @classmethod
    def of_judgements(cls, judgements: Sequence[Judgement]) -> Votes:
        """Make votes from judgements about pairs, as if a single annotator had answered."""
        target = np.array([TARGETS[judgement.answer] for judgement in judgements])
        sides = [(judgement.left, judgement.right) for judgement in judgements]
        left, right = np.array(sides, np.int64).T
        return cls.of_one(left, right, target)

    def rows(self) -> Iterator[tuple[int, int, float, int]]:
        """Iterate over the rows as tuples (left, right, target, annotator)."""
        return zip(
            self.left.tolist(),
            self.right.tolist(),
            self.target.tolist(),
            self.annotator.tolist(),
            strict=True,
        )

    def with_sets(self, judgements: Judgements, rows: I64) -> Votes:
        """Append the votes of judgements about sets to these votes, which are about pairs.

        Args:
            judgements: a table of judgements.
            rows: the rows of the judgements about sets in the table.
        """
        has_best = judgements.best[rows] >= 0  # else all items are equally good
        choice_rows = rows[has_best]
        alike_rows = rows[~has_best]
        best = judgements.best[choice_rows].astype(np.int64)
        worst = judgements.worst[choice_rows].astype(np.int64)
        columns_by_layout = [
            *rows_of_choices(judgements.items(choice_rows), best, worst, choice_rows),
            *rows_of_alike(judgements.items(alike_rows), alike_rows),
        ]
        set_votes = [_votes_of_sets(judgements, columns) for columns in columns_by_layout]
        no_set = np.full(len(self), -1)
        pair_votes = replace(self, answer=no_set, layout=no_set, bias=np.ones(len(self)))
        return pair_votes._followed_by(set_votes)

    def probits(self) -> list[float]:
        """List the probit of each vote that is a measurement, and NaN for any other vote."""
        if self.probit is None:
            return [float("nan")] * len(self)
        probits: list[float] = self.probit.tolist()
        return probits

    def renumbered(self, items: I64) -> Votes:
        """Renumber the items: the new number is an item's index in the ascending `items`."""
        left = np.searchsorted(items, self.left)
        right = np.searchsorted(items, self.right)
        return replace(self, left=left, right=right)

    def where(self, mask: Bool | I64) -> Votes:
        """Select votes by a mask or by row numbers.

        A mask selects an answer about a set only if it selects all rows of the answer.
        """
        selected = mask
        if self.answer is not None and mask.dtype == np.bool_:
            incomplete_answers = np.unique(self.answer[~mask])
            is_of_set = self.answer >= 0  # all answers about pairs have the same number, -1
            is_incomplete = is_of_set & np.isin(self.answer, incomplete_answers)
            selected = mask & ~is_incomplete
        return replace(self, **{name: column[selected] for name, column in self._columns()})

    @property
    def sets(self) -> list[SetRows]:
        """Rows of the answers about sets, grouped by the layout of the answers."""
        if self.answer is None or self.layout is None:
            return []
        return rows_by_layout(self.answer, self.layout)

    @property
    def of_pairs(self) -> Bool:
        """Whether each row is an answer about a pair, and not a part of an answer about a set."""
        if self.answer is None:
            return np.ones(len(self), np.bool_)
        return self.answer < 0

    @property
    def n_answers(self) -> int:
        """Number of answers; all rows of an answer about a set count as one answer."""
        n_sets = sum(len(sets.rows) for sets in self.sets)
        return int(np.count_nonzero(self.of_pairs)) + n_sets

    @property
    def first(self) -> Bool:
        """Whether each row is the first row of an answer; an answer about a pair has one row."""
        first = self.of_pairs.copy()
        for sets in self.sets:
            first[sets.first] = True
        return first

    def drawn(self, share: float, rng: np.random.Generator) -> Bool:
        """Draw a random share of the answers; return a mask of the rows of the drawn answers."""
        is_drawn = rng.random(len(self)) < share
        for sets in self.sets:  # the first row of an answer about a set decides for all its rows
            is_drawn[sets.rows] = is_drawn[sets.first, None]
        return is_drawn

    def comparisons(self) -> Votes:
        """Replace each answer about a set by the comparisons of two items that follow from it.

        The item with the lower number is on the left in these comparisons: if the better item were
        always on the left, a side bias would explain all answers. A comparison counts for less than
        one answer, see `Layout.weight`.
        """
        if self.answer is None:
            return self
        is_comparison = self.of_pairs.copy()
        weight = np.ones(len(self)) if self.weight is None else self.weight.copy()
        for sets in self.sets:
            layout = sets.layout
            rows = sets.rows[:, layout.comparisons]
            is_comparison[rows] = True
            weight[rows] *= layout.weight
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


def _known_answers(better_and_worse: I64) -> Votes:
    """Make votes of the known answers to gold pairs, with a value in every column.

    Nobody gave these answers, so their annotator has no meaning.

    Args:
        better_and_worse: (p, 2) the better and the worse item of each gold pair.
    """
    n = len(better_and_worse)
    no_set = np.full(n, -1)
    return Votes(
        left=better_and_worse[:, 0],
        right=better_and_worse[:, 1],
        target=np.ones(n),
        annotator=np.zeros(n, np.int64),
        weight=np.ones(n),
        kind=np.full(n, GOLD),
        probit=np.full(n, np.nan),
        answer=no_set,
        layout=no_set,
        bias=np.ones(n),
    )


def _votes_of_sets(judgements: Judgements, columns: SetColumns) -> Votes:
    """Make votes from the columns of answers about sets with the same layout."""
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
    """Predict each answer from all other answers: approximate the mean and the variance of its z.

    z is the argument of an answer's likelihood: the difference of the two items as the annotator
    sees it. This is Laplace's approximation of leaving one answer out (Vehtari and others, 2016,
    eq. 29): variance' = variance / (1 - weight variance), mean' = mean - variance' slope.

    Args:
        mean, variance: (m,) the mean and the variance of z, given all answers.
        slope, weight: (m,) the derivative of each answer's log-likelihood in z, and minus the
            second derivative.
    """
    # The bound keeps the variance positive where the approximation fails.
    unseen_variance = variance / np.maximum(1 - weight * variance, _LEAST_SHARE)
    return mean - unseen_variance * slope, unseen_variance


def unseen_in_blocks(
    mean: F64,
    covariance: F64,
    votes: Votes,
    likelihood: tuple[F64, F64],
    reliability: F64,
    side: F64,
    n_items: int,
) -> tuple[F64, F64]:
    """Predict the difference of scores in each answer without the answers of its annotator.

    The prediction is the mean and the variance of the gap. The gap of an answer is the score of its
    left item minus the score of its right item. The log-likelihood of the answer depends on
    z = reliability · gap + side · (side bias of the annotator). An annotator's answers are left out
    together, or in blocks of at most 128 answers.

    A block is left out by these formulas. They have the covariances G of the block's gaps with each
    other, K of its z with each other, and k of its gaps with its z, and the diagonal matrix W of
    the weights:

        k' = k (I - W K)⁻¹
        mean' = mean - k' slope,  variance' = diag(G + k' W kᵀ)

    Args:
        mean: (m,) the mean of each gap, given all answers.
        covariance: (n + a, n + a) the covariance of the scores of n items, which come first, and
            the side biases of a annotators.
        votes: the answers.
        likelihood: (m,), (m,) the first derivative of each answer's log-likelihood in z, the slope,
            and minus the second derivative, the weight.
        reliability, side: (m,) the factors in each answer's z.
        n_items: the number of items n.
    """
    slope, weight = likelihood
    unseen_mean = np.empty_like(mean)
    unseen_variance = np.empty_like(mean)
    for block in _blocks_by_annotator(votes.annotator):
        covariances_of_block = _covariances_of_block(
            covariance,
            left=votes.left[block],
            right=votes.right[block],
            bias=n_items + votes.annotator[block],
            reliability=reliability[block],
            side=side[block],
        )
        gaps_with_z = covariances_of_block.gaps_with_z
        weight_of_block = weight[block]
        identity_minus_WK = np.eye(len(block)) - weight_of_block[:, None] * covariances_of_block.z
        # The unseen covariance k' is the solution of k' (I - W K) = k, which is transposed here.
        unseen_gaps_with_z = np.linalg.solve(identity_minus_WK.T, gaps_with_z.T).T
        unseen_mean[block] = mean[block] - unseen_gaps_with_z @ slope[block]
        added_variance = np.sum(unseen_gaps_with_z * weight_of_block * gaps_with_z, axis=1)
        unseen_variance[block] = np.diag(covariances_of_block.gaps) + added_variance
    return unseen_mean, np.maximum(unseen_variance, _LEAST_VARIANCE)


def _blocks_by_annotator(annotator: I64) -> Iterator[I64]:
    """Divide the rows of answers into blocks of at most 128 answers of the same annotator.

    Args:
        annotator: (m,) the number of each answer's annotator.

    Yields:
        The rows of each block.
    """
    rows_by_annotator = np.argsort(annotator, kind="stable")
    is_other_annotator = np.diff(annotator[rows_by_annotator]) != 0
    starts_of_later_annotators = np.flatnonzero(is_other_annotator) + 1
    for rows in np.split(rows_by_annotator, starts_of_later_annotators):
        yield from np.array_split(rows, math.ceil(len(rows) / _BLOCK))


class _Covariances(NamedTuple):
    """Covariances in a block of b answers, each a (b, b) matrix.

    The gap of an answer is the score of its left item minus the score of its right item. The
    log-likelihood of the answer depends on z, the gap as the annotator sees it.

    Attributes:
        gaps: the covariances of the gaps with each other.
        gaps_with_z: the covariances of the gaps (rows) with the z (columns).
        z: the covariances of the z with each other.
    """

    gaps: F64
    gaps_with_z: F64
    z: F64


def _covariances_of_block(
    covariance: F64, *, left: I64, right: I64, bias: I64, reliability: F64, side: F64
) -> _Covariances:
    """Compute the covariances in a block of answers from the covariance of scores and side biases.

    They follow from z = c gap + f b, with the reliability c and the side bias b of the annotator,
    and the factor f of the side bias in the answer.

    Args:
        covariance: the covariance of all scores and side biases.
        left, right: the position in `covariance` of the score of each answer's left and right item.
        bias: the position in `covariance` of the side bias of each answer's annotator.
        reliability: the reliability c in each answer's z.
        side: the factor f in each answer's z.
    """
    c = reliability
    gaps = (
        covariance[np.ix_(left, left)]
        - covariance[np.ix_(left, right)]
        - covariance[np.ix_(right, left)]
        + covariance[np.ix_(right, right)]
    )
    gaps_with_bias = side * (covariance[np.ix_(left, bias)] - covariance[np.ix_(right, bias)])
    biases = np.outer(side, side) * covariance[np.ix_(bias, bias)]
    gaps_with_z = c * gaps + gaps_with_bias
    z = c[:, None] * gaps_with_z + c * gaps_with_bias.T + biases
    return _Covariances(gaps, gaps_with_z, z)
