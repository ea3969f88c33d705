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
        """
        if self.is_alike:
            return np.arange(self.n_rows)
        rows_with_best = np.arange(self.n_items - 1)
        if not self.has_worst:
            return rows_with_best
        # The pair of the best and the worst item is among the rows with the best item.
        n_further_with_worst = self.n_items - 2
        return np.append(rows_with_best, self.rows_of_worst[:n_further_with_worst])

    @property
    def rows_of_worst(self) -> I64:
        """Rows of the pairs without the best item, first the pairs with the worst item.

        The worst item is chosen from the items of these pairs.
        """
        best_position = 0
        worst_position = self.n_items - 1
        without_best = self.left != best_position
        with_worst = self.right == worst_position
        rows_with_worst = np.flatnonzero(without_best & with_worst)
        rows_of_others = np.flatnonzero(without_best & ~with_worst)
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
        layout_of_rows = LAYOUTS[layout_index]
        first_rows_of_layout = first_rows[layout_of_answer == layout_index]
        rows = first_rows_of_layout[:, None] + np.arange(layout_of_rows.n_rows)
        sets.append(SetRows(layout_of_rows, rows))
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
    """The likelihood of answers that depend on the items.

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
    # With the slope g and the curvature H of genuine answers, the curvature of the mixture is
    # share (H - (1 - share) g gᵀ), and g gᵀ is at most (gᵀ H⁻¹ g) H.
    factor = share * np.maximum(1 - (1 - share) * excess, 0)
    return Likelihood(mixed_log_p, share[..., None] * slope, factor[..., None] * weight)


def _best_and_worst(z: F64, layout: Layout) -> _GenuineLikelihood:
    """Compute the likelihood of a choice of the best item, and of the worst item if it is named.

    Args:
        z: (..., r) the difference of two utilities in each row.
        layout: the layout of the answers.
    """
    n_items = layout.n_items
    factor = BEST_FACTOR[n_items]
    best = _choice(factor * z, n_items)
    slope = factor * best.slope
    weight = factor**2 * best.weight
    if not layout.has_worst:
        return _GenuineLikelihood(best.log_p, slope, weight, best.excess)
    rows = layout.rows_of_worst
    factor = WORST_FACTOR[n_items]
    worst = _choice(factor * z[..., rows], n_items - 1)
    slope[..., rows] += factor * worst.slope
    weight[..., rows] += factor**2 * worst.weight
    return _GenuineLikelihood(best.log_p + worst.log_p, slope, weight, best.excess + worst.excess)


def _choice(z: F64, n_items: int) -> _GenuineLikelihood:
    """Compute the likelihood that a softmax chooses an item from a set of items.

    Args:
        z: (..., r) the log odds of two items in each row. The first rows compare the chosen item
            with each other item; the further rows compare the other items with each other.
        n_items: the number of items of the set.
    """
    # The utility of the chosen item counts as 0, so the utilities of the other items are minus the
    # log odds. The largest utility is subtracted before exp, so that exp does not overflow.
    utility = -z[..., : n_items - 1]
    largest = np.maximum(utility.max(axis=-1, keepdims=True), 0)
    sum_of_exp = np.exp(-largest[..., 0]) + np.exp(utility - largest).sum(axis=-1)
    log_sum = largest[..., 0] + np.log(sum_of_exp)
    p_of_others = np.exp(utility - log_sum[..., None])
    p_of_chosen = np.exp(-log_sum)
    # The rows with the chosen item are followed by the rows of two other items.
    first, second = np.triu_indices(n_items - 1, 1)
    weight_of_others = p_of_others[..., first] * p_of_others[..., second]
    weight_of_chosen = p_of_chosen[..., None] * p_of_others
    weight = np.concatenate((weight_of_chosen, weight_of_others), axis=-1)
    slope = np.concatenate((p_of_others, np.zeros_like(weight_of_others)), axis=-1)
    # For a softmax, gᵀ H⁻¹ g is (1 - p) / p, with the probability p of the chosen item.
    excess = p_of_others.sum(axis=-1) / np.maximum(p_of_chosen, _LEAST_P)
    return _GenuineLikelihood(-log_sum, slope, weight, excess)


def _all_alike(z: F64, n_items: int) -> _GenuineLikelihood:
    """Compute the likelihood of the answer that all items of a set are equally good.

    Each pair counts as half an answer for the left item and half an answer for the right item. All
    n (n - 1) / 2 pairs of n items together count as n - 1 answers, so a pair has the share 2 / n.

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
    # This sum over the rows is at least gᵀ H⁻¹ g, so weights are reduced enough, see
    # `_with_blind_answers`.
    excess = np.sum(slope**2 / np.maximum(weight, _LEAST_P), axis=-1)
    return _GenuineLikelihood(log_p.sum(axis=-1), slope, weight, excess)


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
    n_others = layout.n_items - 1
    # The utility of the best item counts as 0, so the utilities of the other items are -z. The
    # products `utilities @ z` are the utilities of the items, and the products `differences @ z`
    # are the differences of two utilities, one for each row.
    utilities = np.concatenate((np.zeros((1, n_others)), -np.eye(n_others)))
    differences = utilities[layout.left] - utilities[layout.right]
    blind_share = np.array([blind])

    def likelihood_at(z: F64) -> tuple[float, F64, F64]:
        """Return log p of the answer at z, the slope in z, and minus the second derivative."""
        likelihood = set_likelihood(layout, (differences @ z)[None], blind_share, ties)
        precision = (differences.T * likelihood.weight[0]) @ differences
        return float(likelihood.log_p[0]), differences.T @ likelihood.slope[0], precision

    def loss(pull: F64, log_p: float) -> float:
        """Return minus the logarithm of the posterior at z = mean + variance @ pull."""
        return float(0.5 * pull @ variance @ pull) - log_p

    # The search is for `pull`, with z = mean + variance @ pull, so that the variance need not be
    # inverted. At the mode the pull is the slope.
    pull = np.zeros(n_others)
    log_p, slope, precision = likelihood_at(mean)
    for _ in range(_NEWTON_STEPS):
        step = np.linalg.solve(np.eye(n_others) + precision @ variance, slope - pull)
        largest_loss = loss(pull, log_p) + _ROUNDING
        new_pull = pull + step
        log_p, slope, precision = likelihood_at(mean + variance @ new_pull)
        # A step that raises the loss is halved, unless it is tiny already.
        share = 1.0
        while loss(new_pull, log_p) > largest_loss and share >= _SMALLEST_STEP:
            share /= 2
            new_pull = pull + share * step
            log_p, slope, precision = likelihood_at(mean + variance @ new_pull)
        pull = new_pull
        if np.abs(share * step).max() < _SETTLED:
            break
    return pull, precision


def summed_over_answers(layout: Layout, slope: F64, weight: F64) -> tuple[F64, F64]:
    """Compute the slope and the weight of whole answers about sets, for each row's difference.

    The answer has the slope g and the curvature H in the utilities. Along the difference x, a
    vector with 1 for the left item and -1 for the right item, the slope is g · x / 2 and the weight
    xᵀ H x / 4, as if the utilities had the same variance and were independent. For an answer about
    a pair the result is exact.

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
    products = differences @ differences.T
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


def rows_of_choices(items: I64, chosen: I64, event: I64) -> list[SetColumns]:
    """Make the rows of answers that name the best item, and perhaps the worst item.

    Args:
        items: (q, 6) the items of each answer in the order of their places, filled up with -1.
        chosen: (q, 2) the best and the worst item; -1 if no worst item is named.
        event: (q,) the number of each answer among the events.
    """
    n_items = np.count_nonzero(items >= 0, axis=1)
    best, worst = chosen.T
    columns = []
    for layout in CHOICES:
        has_layout = (n_items == layout.n_items) & ((worst >= 0) == layout.has_worst)
        if not has_layout.any():
            continue
        shown = items[has_layout, : layout.n_items]
        # A stable sort by this rank puts the best item first and the worst item last.
        rank = np.zeros(shown.shape, np.int64)
        rank[shown == best[has_layout, None]] = -1
        rank[shown == worst[has_layout, None]] = 1
        places = np.argsort(rank, axis=1, kind="stable")
        ordered = np.take_along_axis(shown, places, axis=1)
        columns.append(_columns_of(layout, ordered, places, event[has_layout]))
    return columns


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
        if not has_layout.any():
            continue
        shown = items[has_layout, : layout.n_items]
        places = np.tile(np.arange(layout.n_items), (len(shown), 1))
        columns.append(_columns_of(layout, shown, places, event[has_layout]))
    return columns


def _columns_of(layout: Layout, ordered: I64, places: I64, event: I64) -> SetColumns:
    """Make the rows of answers with the same layout.

    Args:
        layout: the layout of the answers.
        ordered: (q, k) the items of each answer in the order of the layout.
        places: (q, k) the place of each ordered item in the question.
        event: (q,) the number of each answer among the events.
    """
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
