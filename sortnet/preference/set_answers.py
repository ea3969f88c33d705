"""Likelihood of answers about sets: the best of three to six items, and perhaps the worst.

The best item of a set is drawn by a softmax of the utilities (Luce, 1959). The worst item is drawn
from the other items by a softmax of minus the utilities (Marley and Louviere, 2005).

An answer has several rows of `Votes`, and each row compares two items of the set. This is possible
because the derivatives of the logarithm of a softmax are sums over pairs of items. If item b is
chosen, with the utilities u, the probabilities p, the factor f of the utilities, and the unit
vectors e:

    d log p_b / du = f Σ_j p_j (e_b - e_j)                  (rows of b and each other item)
    -d² log p_b / du² = f² Σ_{i<j} p_i p_j (e_i - e_j)(e_i - e_j)ᵀ          (rows of every pair)

So code that sums over the rows of answers about pairs is right for answers about sets, too.

In shapes, q is the number of answers, r the number of rows of an answer, k of items of a set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from sortnet.core import F64, I64
from sortnet.preference.base import MOST_ITEMS
from sortnet.preference.likelihood import Likelihood

# Factors of a utility in the softmax, by the number of items of the set. They bring the softmax
# nearest to a choice by utilities with normal noise: they have the highest likelihood for 400,000
# simulated answers, where the variance of the scores is the variance of the noise of a pair. The
# worst item is chosen from all items but the best.
BEST_FACTOR = {3: 1.85, 4: 1.92, 5: 1.98, 6: 2.03}
WORST_FACTOR = {3: 1.48, 4: 1.71, 5: 1.85, 6: 1.94}

_PAIR_FACTOR = 1.7  # the sigmoid σ(1.7 z) is nearest to the normal distribution function Φ(z)
_LEAST_P = 1e-300  # keeps a probability above 0, so that it has a logarithm and can be a divisor
_NEWTON_STEPS = 20
_SMALLEST_STEP = 1e-3  # share of a Newton step below which the step is not halved again
_SETTLED = 1e-6  # largest change of an unknown below which there is no further step
_ROUNDING = 1e-12  # by this much a loss may grow because of rounding errors


@dataclass(frozen=True)
class Layout:
    """The rows of an answer about a set: one row for each pair of items, the better on the left.

    The items are ordered: the best item is first, the worst item is last, and the other items are
    between them in the order of their places in the question. If all items are called equally good,
    all are in the order of their places.

    Attributes:
        n_items: the number of items of the set, at least 3.
        has_worst: whether the answer names the worst item.
        is_alike: whether the answer calls all items equally good.

    >>> layout = Layout(3, has_worst=True)
    >>> layout.left.tolist(), layout.right.tolist()
    ([0, 0, 1], [1, 2, 2])
    """

    n_items: int
    has_worst: bool = False
    is_alike: bool = False

    @property
    def left(self) -> I64:
        """Left item of each row, as a position among the ordered items, (r,)."""
        return np.triu_indices(self.n_items, 1)[0]

    @property
    def right(self) -> I64:
        """Right item of each row, as a position among the ordered items, (r,)."""
        return np.triu_indices(self.n_items, 1)[1]

    @property
    def n_rows(self) -> int:
        """Number of rows, which is the number of pairs of items."""
        return self.n_items * (self.n_items - 1) // 2

    @property
    def n_answers(self) -> int:
        """Number of possible answers: choices of a best item, or of a best and a worst item."""
        if self.is_alike:
            return 1
        n_choices_of_worst = self.n_items - 1 if self.has_worst else 1
        return self.n_items * n_choices_of_worst

    def chance(self, ties: float) -> float:
        """Return the probability of this answer if it is given blindly.

        Args:
            ties: the share of blind answers that call all items equally good.
        """
        return ties if self.is_alike else (1 - ties) / self.n_answers

    @property
    def comparisons(self) -> I64:
        """Rows of the pairs of items whose order follows from the answer.

        These are the pairs with the best item, and the pairs with the worst item, if it is named.
        If all items are equally good, these are all pairs.
        """
        if self.is_alike:
            return np.arange(self.n_rows)
        if not self.has_worst:
            return self._rows_with_best
        return np.append(self._rows_with_best, self._further_rows_with_worst)

    @property
    def _rows_with_best(self) -> I64:
        """Rows of the pairs with the best item, which is the left item of the first rows."""
        return np.arange(self.n_items - 1)

    @property
    def _further_rows_with_worst(self) -> I64:
        """Rows of the pairs of the worst item and any item except the best item."""
        best_position = 0
        worst_position = self.n_items - 1
        return np.flatnonzero((self.left != best_position) & (self.right == worst_position))

    @property
    def rows_of_worst(self) -> I64:
        """Rows of the pairs without the best item, first the pairs with the worst item.

        The worst item is chosen from the items of these pairs.
        """
        rows_with_worst = self._further_rows_with_worst
        rows_with_best_or_worst = np.append(self._rows_with_best, rows_with_worst)
        rows_of_others = np.setdiff1d(np.arange(self.n_rows), rows_with_best_or_worst)
        return np.append(rows_with_worst, rows_of_others)

    @property
    def weight(self) -> float:
        """Weight in training of each comparison that follows from the answer.

        An answer about a pair has the weight 1, which is one bit. If items are chosen, the weights
        of the comparisons add up to the bits of a choice among all possible answers. If all items
        are equally good, they add up to the number of independent differences of scores.
        """
        if self.is_alike:
            return (self.n_items - 1) / self.n_rows
        return float(np.log2(self.n_answers)) / len(self.comparisons)


CHOICES = [Layout(n, has_worst) for n in range(3, MOST_ITEMS + 1) for has_worst in (False, True)]
ALIKE = [Layout(n, is_alike=True) for n in range(3, MOST_ITEMS + 1)]
LAYOUTS = [*CHOICES, *ALIKE]  # the column `layout` of `Votes` has indices in this list


@dataclass(frozen=True, eq=False)
class SetRows:
    """The rows of all answers with the same layout.

    Attributes:
        layout: the layout of the answers.
        rows: (q, r) the row numbers of each answer, which follow each other.
    """

    layout: Layout
    rows: I64

    @property
    def first(self) -> I64:
        """First row of each answer, (q,), which represents the answer."""
        return self.rows[:, 0]


def rows_by_layout(answer: I64, layout: I64) -> list[SetRows]:
    """Group the rows of all answers about sets by the layout of the answers.

    Args:
        answer: (m,) the number of each row's answer, the same in all rows of the answer, which
            follow each other; -1 if the row is an answer about a pair.
        layout: (m,) the index in `LAYOUTS` of each row's layout.
    """
    is_of_set = answer >= 0
    # No answer has the number -2, so the first row always differs from the row before it.
    is_other_answer_than_before = np.diff(answer, prepend=-2) != 0
    first_rows = np.flatnonzero(is_of_set & is_other_answer_than_before)
    layout_of_answer = layout[first_rows]
    sets = []
    for layout_index in np.unique(layout_of_answer).tolist():
        answer_layout = LAYOUTS[layout_index]
        first_row = first_rows[layout_of_answer == layout_index]
        # The r rows of an answer follow each other. So the row numbers are the sum of the q first
        # rows, as a column, and the numbers from 0 to r - 1.
        rows = first_row[:, None] + np.arange(answer_layout.n_rows)
        sets.append(SetRows(answer_layout, rows))
    return sets


def set_likelihood(layout: Layout, z: F64, blind: F64, ties: float) -> Likelihood:
    """Compute the log-likelihood of answers about sets, with the slope and weight of each row.

    Args:
        layout: the layout of the answers.
        z: (..., r) the difference of two utilities in each row, in units of the noise of an answer
            about a pair.
        blind: (...,) the share of answers that do not depend on the items.
        ties: the share of blind answers that call all items equally good.

    Returns:
        log p (...,), and slopes and weights (..., r). If a share of answers is blind, log p is not
        concave; then the weights are reduced, so that their sum over the rows is at most the
        curvature.
    """
    genuine = _all_alike(z, layout.n_items) if layout.is_alike else _best_and_worst(z, layout)
    if not np.any(blind):
        return Likelihood(genuine.log_p, genuine.slope, genuine.weight)
    return _with_blind_answers(genuine, blind, layout.chance(ties))


class _GenuineLikelihood(NamedTuple):
    """The likelihood of genuine answers, which depend on the items, unlike blind answers.

    Attributes:
        log_p: (...,) the log-likelihood.
        slope: (..., r) the derivative of the log-likelihood in the z of each row.
        weight: (..., r) the weight of each row; the sum over rows is minus the second derivative.
        excess: (...,) the number gᵀ H⁻¹ g, with the slope g and the curvature H of the answer in
            the utilities.
    """

    log_p: F64
    slope: F64
    weight: F64
    excess: F64


def _with_blind_answers(genuine: _GenuineLikelihood, blind: F64, p_if_blind: float) -> Likelihood:
    """Mix the likelihood of answers that depend on the items with the likelihood of blind answers.

    Args:
        genuine: the likelihood of answers that depend on the items.
        blind: (...,) the share of blind answers.
        p_if_blind: the probability of the answer if it is given blindly.
    """
    log_p, slope, weight, excess = genuine
    p_genuine = (1 - blind) * np.exp(log_p)
    p = np.maximum(p_genuine + blind * p_if_blind, _LEAST_P)
    # The probability that the answer is genuine, given what it says.
    share = np.where(blind > 0, p_genuine / p, 1.0)
    mixed_log_p = np.where(blind > 0, np.log(p), log_p)
    mixed_slope = share[..., None] * slope
    # With the slope g and the curvature H of genuine answers, the curvature of the mixture is
    # share (H - (1 - share) g gᵀ). Because g gᵀ is at most (gᵀ H⁻¹ g) H, it is at least H times
    # this factor.
    factor = share * np.maximum(1 - (1 - share) * excess, 0)
    return Likelihood(mixed_log_p, mixed_slope, factor[..., None] * weight)


def _best_and_worst(z: F64, layout: Layout) -> _GenuineLikelihood:
    """Compute the likelihood of a choice of the best item, and of the worst item if it is named.

    Args:
        z: (..., r) the difference of two utilities in each row.
        layout: the layout of the answers.
    """
    n_items = layout.n_items
    best = _choice(z, n_items, BEST_FACTOR[n_items])
    if not layout.has_worst:
        return best
    # The worst item is chosen from the items except the best item.
    rows = layout.rows_of_worst
    worst = _choice(z[..., rows], n_items - 1, WORST_FACTOR[n_items])
    best.slope[..., rows] += worst.slope
    best.weight[..., rows] += worst.weight
    return _GenuineLikelihood(
        best.log_p + worst.log_p, best.slope, best.weight, best.excess + worst.excess
    )


def _choice(z: F64, n_items: int, factor: float) -> _GenuineLikelihood:
    """Compute the likelihood that a softmax of factor * utility chooses an item from a set.

    With the probabilities p of the items, the chosen item c and the factor f, a row of c and
    another item j has the slope f p_j. A row of two items i and j has the weight f² p_i p_j. See
    the formulas at the top of the module.

    Args:
        z: (..., r) the difference of two utilities in each row. The first rows compare the chosen
            item with each other item; the further rows compare the other items with each other.
        n_items: the number of items of the set.
        factor: the factor f of the utilities.
    """
    n_others = n_items - 1
    log_p, p_of_others = _softmax(-(factor * z[..., :n_others]))
    p_of_chosen = np.exp(log_p)
    # The rows with the chosen item are followed by the rows of two other items.
    first, second = np.triu_indices(n_others, 1)
    weight_of_others = p_of_others[..., first] * p_of_others[..., second]
    weight_of_chosen = p_of_chosen[..., None] * p_of_others
    weight = np.concatenate((weight_of_chosen, weight_of_others), axis=-1)
    slope = np.concatenate((p_of_others, np.zeros_like(weight_of_others)), axis=-1)
    # The slope g and the curvature H of log p for a softmax, where p is the probability of the
    # chosen item, give gᵀ H⁻¹ g = (1 - p) / p.
    excess = p_of_others.sum(axis=-1) / np.maximum(p_of_chosen, _LEAST_P)
    return _GenuineLikelihood(log_p, factor * slope, factor**2 * weight, excess)


def _softmax(utility_of_others: F64) -> tuple[F64, F64]:
    """Compute the softmax of the utilities of a set in which the chosen item has the utility 0.

    Args:
        utility_of_others: (..., k - 1) the utility of each other item.

    Returns:
        The log probability of the chosen item, (...,), and the probabilities of the other items,
        (..., k - 1).
    """
    # The largest utility is subtracted before exp, so that exp does not overflow.
    largest = np.maximum(utility_of_others.max(axis=-1, keepdims=True), 0)
    sum_of_exp = np.exp(-largest[..., 0]) + np.exp(utility_of_others - largest).sum(axis=-1)
    log_sum = largest[..., 0] + np.log(sum_of_exp)
    return -log_sum, np.exp(utility_of_others - log_sum[..., None])


def _all_alike(z: F64, n_items: int) -> _GenuineLikelihood:
    """Compute the likelihood of the answer that all items of a set are equally good.

    Each pair counts as half an answer for the left item and half an answer for the right item. All
    n (n - 1) / 2 pairs of n items together count as n - 1 answers, so a pair has the share 2 / n.
    With the sigmoid σ and the factor f = 1.7:

        log p = Σ_rows (2 / n) (log σ(f z) + log σ(-f z)) / 2

    Args:
        z: (..., r) the difference of two utilities in each row.
        n_items: the number of items of the set.
    """
    share = 2 / n_items
    p_left = expit(_PAIR_FACTOR * z)
    log_p_left = np.log(np.maximum(p_left, _LEAST_P))
    log_p_right = np.log(np.maximum(1 - p_left, _LEAST_P))
    log_p = share / 2 * (log_p_left + log_p_right)
    slope = share * _PAIR_FACTOR * (0.5 - p_left)
    weight = share * _PAIR_FACTOR**2 * p_left * (1 - p_left)
    # The exact number gᵀ H⁻¹ g is at most this sum over the rows. A larger number only reduces the
    # weights of answers that may be blind a little more than needed.
    excess = np.sum(slope**2 / np.maximum(weight, _LEAST_P), axis=-1)
    return _GenuineLikelihood(log_p.sum(axis=-1), slope, weight, excess)


class _SearchPoint(NamedTuple):
    """A point in the search for the mode of the posterior of a set's utilities.

    Attributes:
        pull: (k - 1,) the point g, which stands for the differences of utility z = mean + V g.
        loss: minus the logarithm of the posterior, up to a constant.
        slope: (k - 1,) the slope of the log-likelihood in z.
        precision: (k - 1, k - 1) minus the second derivative of the log-likelihood in z.
    """

    pull: F64
    loss: float
    slope: F64
    precision: F64


@dataclass(frozen=True, eq=False)
class _SetPosterior:
    """The posterior of the utilities of a set's k items, given one answer about the set.

    The unknowns z are the differences of utility between the best item and each other item. Their
    posterior has its mode where

        loss = gᵀ V g / 2 - log p(answer | z),   z = mean + V g

    is smallest, with the covariance V of z before the answer. The search is for the pull g, so that
    V need not be inverted. At the mode, g is the slope of the log-likelihood.

    Attributes:
        layout: the layout of the answer.
        mean: (k - 1,) the mean of z before the answer.
        variance: (k - 1, k - 1) the covariance V of z before the answer.
        blind: the share of blind answers.
        ties: the share of blind answers that call all items equally good.
    """

    layout: Layout
    mean: F64
    variance: F64
    blind: float
    ties: float

    @cached_property
    def _differences(self) -> F64:
        """Matrix (r, k - 1) that turns z into the difference of the two utilities in each row."""
        # The utility of the best item counts as 0, so the utilities of the other items are -z.
        n_others = self.layout.n_items - 1
        utilities = np.concatenate((np.zeros((1, n_others)), -np.eye(n_others)))
        return utilities[self.layout.left] - utilities[self.layout.right]

    def point(self, pull: F64) -> _SearchPoint:
        """Compute the loss and the derivatives of the log-likelihood at mean + variance @ pull."""
        z = self.mean + self.variance @ pull
        differences = self._differences
        likelihood = set_likelihood(
            self.layout, (differences @ z)[None], np.array([self.blind]), self.ties
        )
        loss = float(0.5 * pull @ self.variance @ pull) - float(likelihood.log_p[0])
        slope = differences.T @ likelihood.slope[0]
        precision = (differences.T * likelihood.weight[0]) @ differences
        return _SearchPoint(pull, loss, slope, precision)

    def newton_step(self, point: _SearchPoint) -> F64:
        """Compute Newton's step from a point, as a change of its pull.

        With the pull g, the precision P at the point and the covariance V, the step d is the
        solution of (I + P V) d = slope - g.
        """
        identity = np.eye(len(self.mean))
        matrix = identity + point.precision @ self.variance
        return np.asarray(np.linalg.solve(matrix, point.slope - point.pull), np.float64)

    def take(self, step: F64, point: _SearchPoint) -> tuple[_SearchPoint, F64]:
        """Take a step from a point, halved until it does not raise the loss.

        A step that was halved ten times is taken even if it raises the loss.

        Returns:
            The new point, and the step that leads to it.
        """
        share = 1.0
        new_point = self.point(point.pull + step)
        while new_point.loss > point.loss + _ROUNDING and share >= _SMALLEST_STEP:
            share /= 2
            new_point = self.point(point.pull + share * step)
        return new_point, share * step


def observed_set(
    layout: Layout, mean: F64, variance: F64, blind: float, ties: float
) -> tuple[F64, F64]:
    """Find the mode of the utilities of a set's items given one answer, by Newton's method.

    The unknowns z are the differences of utility between the best item and each other item.

    Args:
        layout: the layout of the answer.
        mean: (k - 1,) the mean of z before the answer.
        variance: (k - 1, k - 1) the covariance of z before the answer.
        blind: the share of blind answers.
        ties: the share of blind answers that call all items equally good.

    Returns:
        The slope of the log-likelihood at the mode, (k - 1,), and minus the second derivative,
        (k - 1, k - 1). The mode is z = mean + variance @ slope.
    """
    posterior = _SetPosterior(layout, mean, variance, blind, ties)
    point = posterior.point(np.zeros(len(mean)))
    for _ in range(_NEWTON_STEPS):
        step = posterior.newton_step(point)
        point, taken_step = posterior.take(step, point)
        if np.abs(taken_step).max() < _SETTLED:
            break
    return point.pull, point.precision


def summed_over_answers(layout: Layout, slope: F64, weight: F64) -> tuple[F64, F64]:
    """Compute the derivatives of the whole answer's log-likelihood in the difference of each row.

    The difference x of a row is a vector with 1 for the left item and -1 for the right item. With
    the slopes a and the weights b of the rows, the whole answer has the slope g = Σ_r a_r x_r and
    the curvature H = Σ_r b_r x_r x_rᵀ in the utilities. Along the difference x the answer has

        slope  = g · x / 2  = Σ_r a_r (x_r · x) / 2
        weight = xᵀ H x / 4 = Σ_r b_r (x_r · x)² / 4

    as if the utilities had the same variance and were independent. For an answer about a pair the
    result is exact.

    Args:
        layout: the layout of the answers.
        slope, weight: (q, r) the slope and the weight of each row.

    Returns:
        (q, r) the slope and the weight of the whole answer along the difference of each row.
    """
    differences = np.zeros((layout.n_rows, layout.n_items))
    rows = np.arange(layout.n_rows)
    differences[rows, layout.left] = 1
    differences[rows, layout.right] = -1
    products = differences @ differences.T  # x_r · x for every two rows
    return slope @ products / 2, weight @ products**2 / 4


class SetColumns(NamedTuple):
    """The rows of answers about sets with the same layout, as columns of `Votes`.

    Attributes:
        left, right: the items of each row.
        target: the target of all rows.
        event: the number of each row's answer among the events.
        layout: the index of the layout in `LAYOUTS`.
        bias: the factor of the annotator's side bias in each row.
    """

    left: I64
    right: I64
    target: float
    event: I64
    layout: int
    bias: F64


def rows_of_choices(items: I64, best: I64, worst: I64, event: I64) -> list[SetColumns]:
    """Make the rows of answers that name the best item, and perhaps the worst item.

    Args:
        items: (q, 6) the items of each answer in the order of their places, filled up with -1.
        best: (q,) the best item of each answer.
        worst: (q,) the worst item of each answer; -1 if none is named.
        event: (q,) the number of each answer among the events.
    """
    n_items = np.count_nonzero(items >= 0, axis=1)
    columns = []
    for layout in CHOICES:
        has_layout = (n_items == layout.n_items) & ((worst >= 0) == layout.has_worst)
        if has_layout.any():
            shown = items[has_layout, : layout.n_items]
            places = _places_best_first(shown, best[has_layout], worst[has_layout])
            columns.append(_columns_of(layout, shown, places, event[has_layout]))
    return columns


def _places_best_first(items: I64, best: I64, worst: I64) -> I64:
    """Order the places of each question: the best item's first, the worst item's last.

    Args:
        items: (q, k) the items of each answer in the order of their places.
        best: (q,) the best item of each answer.
        worst: (q,) the worst item of each answer; -1 if none is named.

    Returns:
        (q, k) the places, numbered from 0. Places between the first and the last ascend.
    """
    rank = np.zeros(items.shape, np.int64)
    rank[items == best[:, None]] = -1
    rank[items == worst[:, None]] = 1
    return np.argsort(rank, axis=1, kind="stable")


def rows_of_alike(items: I64, event: I64) -> list[SetColumns]:
    """Make the rows of answers that call all items equally good.

    Args:
        items: (q, 6) the items of each answer in the order of their places, filled up with -1.
        event: (q,) the number of each answer among the events.
    """
    n_items = np.count_nonzero(items >= 0, axis=1)
    columns = []
    for layout in ALIKE:
        has_layout = n_items == layout.n_items
        if has_layout.any():
            shown = items[has_layout, : layout.n_items]
            places = np.tile(np.arange(layout.n_items), (len(shown), 1))
            columns.append(_columns_of(layout, shown, places, event[has_layout]))
    return columns


def _columns_of(layout: Layout, items: I64, places: I64, event: I64) -> SetColumns:
    """Make the rows of answers with the same layout.

    Args:
        layout: the layout of the answers.
        items: (q, k) the items of each answer in the order of their places in the question.
        places: (q, k) the places of the items in the order of the layout.
        event: (q,) the number of each answer among the events.
    """
    ordered = np.take_along_axis(items, places, axis=1)
    bias = place_bias(places[:, layout.left], places[:, layout.right], layout.n_items)
    return SetColumns(
        left=ordered[:, layout.left].ravel(),
        right=ordered[:, layout.right].ravel(),
        target=0.5 if layout.is_alike else 1.0,
        event=np.repeat(event, layout.n_rows),
        layout=LAYOUTS.index(layout),
        bias=bias.ravel(),
    )


def place_bias(left: I64, right: I64, n_items: int) -> F64:
    """Compute the factor of an annotator's side bias in the comparison of two items of a set.

    The bias falls evenly from the first to the last place of the question, in total by 1. So the
    factor is 1 if the set is a pair.

    Args:
        left, right: the places of the left and the right item of the comparison, numbered from 0.
        n_items: the number of items of the set.
    """
    bias: F64 = (right - left) / (n_items - 1)
    return bias
