"""Likelihood of answers about more than two items: the best of them, and perhaps the worst.

The best item of a set is drawn by a softmax of the utilities (Luce, 1959). The worst item is drawn
from the other items by a softmax of minus the utilities (Marley and Louviere, 2005). An answer has
several rows of `Votes`, each about two items of the set, because the logarithm of a softmax has
slopes and curvatures along differences of two utilities:

    d log p_b / du = f Σ_j p_j (e_b - e_j)          (rows of the chosen item and each other one)
    -d² log p_b / du² = f² Σ_{i<j} p_i p_j (e_i - e_j)(e_i - e_j)ᵀ          (rows of every pair)

So sums over rows are right for answers about sets as for answers about pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from sortnet.core import F64, I64
from sortnet.preference.base import MOST_ITEMS
from sortnet.preference.likelihood import Likelihood

# Factors of a utility in the softmax, by the number of items. They bring the softmax nearest to a
# choice by utilities with normal noise: the likeliest factors of 400,000 simulated answers whose
# scores vary with the variance of the noise of a pair. The worst item is chosen from the items
# without the best.
BEST_FACTOR = {3: 1.85, 4: 1.92, 5: 1.98, 6: 2.03}
WORST_FACTOR = {3: 1.48, 4: 1.71, 5: 1.85, 6: 1.94}

_PAIR_FACTOR = 1.7  # σ(1.7 z) is nearest to the normal distribution function Φ(z)
_NEWTON_STEPS = 20
_SMALLEST_STEP = 1e-3  # share of a Newton step below which the step is not halved again
_SETTLED = 1e-6  # change of a pull below which there is no further step


@dataclass(frozen=True)
class Layout:
    """The rows of an answer about a set: each pair of its items, with the better item on the left.

    The items are ordered: the best item is first, the worst item is last, and the other items are
    between them in the order of their places. If all items are called alike, all are in the order
    of their places.

    Attributes:
        n_items: the number of items of the set, from three on.
        has_worst: whether the answer names the worst item.
        is_alike: whether the answer calls all items alike.

    >>> layout = Layout(3, has_worst=True)
    >>> layout.left.tolist(), layout.right.tolist()
    ([0, 0, 1], [1, 2, 2])
    """

    n_items: int
    has_worst: bool = False
    is_alike: bool = False

    @property
    def left(self) -> I64:
        """(r,) the left item of each row, as a position in the ordered items."""
        return np.triu_indices(self.n_items, 1)[0]

    @property
    def right(self) -> I64:
        """(r,) the right item of each row, as a position in the ordered items."""
        return np.triu_indices(self.n_items, 1)[1]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.n_items * (self.n_items - 1) // 2

    @property
    def n_answers(self) -> int:
        """The number of different choices of a best item, or of a best and a worst item."""
        if self.is_alike:
            return 1
        return self.n_items * (self.n_items - 1 if self.has_worst else 1)

    def chance(self, ties: float) -> float:
        """The probability that a blind answer is this answer, given the share of ties."""
        return ties if self.is_alike else (1 - ties) / self.n_answers

    @property
    def comparisons(self) -> I64:
        """The rows of the pairs whose order follows from the answer."""
        if self.is_alike:
            return np.arange(self.n_rows)
        with_best = np.arange(self.n_items - 1)
        n_with_worst = self.n_items - 2 if self.has_worst else 0
        return np.append(with_best, self.rows_of_worst[:n_with_worst])

    @property
    def rows_of_worst(self) -> I64:
        """The rows without the best item; rows with the worst item come first."""
        without_best = self.left > 0
        with_worst = self.right == self.n_items - 1
        return np.append(
            np.flatnonzero(without_best & with_worst), np.flatnonzero(without_best & ~with_worst)
        )

    @property
    def weight(self) -> float:
        """The weight of each comparison in training, where an answer about a pair has weight 1.

        If items are chosen, the weights add up to the bits of a choice among all answers. If all
        items are alike, they add up to the number of independent differences of scores.
        """
        if self.is_alike:
            return (self.n_items - 1) / self.n_rows
        return float(np.log2(self.n_answers)) / len(self.comparisons)


CHOICES = [Layout(n, has_worst) for n in range(3, MOST_ITEMS + 1) for has_worst in (False, True)]
ALIKE = [Layout(n, is_alike=True) for n in range(3, MOST_ITEMS + 1)]
LAYOUTS = [*CHOICES, *ALIKE]  # by their number in `Votes`


@dataclass(frozen=True, eq=False)
class SetRows:
    """The rows of all answers of one layout.

    Attributes:
        layout: the layout of the answers.
        rows: (q, r) the rows of each answer, which follow each other.
    """

    layout: Layout
    rows: I64

    @property
    def first(self) -> I64:
        """(q,) the first row of each answer, which stands for the answer."""
        return self.rows[:, 0]


def rows_by_layout(answer: I64, layout: I64) -> list[SetRows]:
    """The rows of all answers about sets, given the (m,) columns of `Votes`.

    Rows of one answer follow each other; the number of answers about pairs is -1.
    """
    starts = np.flatnonzero((answer >= 0) & (np.diff(answer, prepend=-2) != 0))
    layout_of_start = layout[starts]
    sets = []
    for number in np.unique(layout_of_start).tolist():
        starts_of_layout = starts[layout_of_start == number]
        rows = starts_of_layout[:, None] + np.arange(LAYOUTS[number].n_rows)
        sets.append(SetRows(LAYOUTS[number], rows))
    return sets


def set_likelihood(layout: Layout, z: F64, blind: F64, ties: float) -> Likelihood:
    """Log-likelihood of answers about sets, and the slope and the weight of each row.

    Args:
        layout: the layout of the answers.
        z: (..., r) differences of two utilities, in units of the noise of an answer about a pair.
        blind: (...,) share of answers that do not depend on the items.
        ties: share of the blind answers that are ties.

    Returns:
        log p (...,), slopes and weights (..., r). With blind answers log p is not concave any more;
        then weights are cut so far that their sum over the rows is never above the curvature.
    """
    if layout.is_alike:
        log_p, slope, weight, excess = _all_alike(z, layout.n_items)
        return _with_blind_answers(log_p, slope, weight, excess, blind, layout.chance(ties))
    n_items = layout.n_items
    factor = BEST_FACTOR[n_items]
    best = _choice(factor * z, n_items)
    log_p = best.log_p
    excess = best.excess
    slope = factor * best.slope
    weight = factor**2 * best.weight
    if layout.has_worst:
        rows = layout.rows_of_worst
        factor = WORST_FACTOR[n_items]
        worst = _choice(factor * z[..., rows], n_items - 1)
        log_p = log_p + worst.log_p
        excess = excess + worst.excess
        slope[..., rows] += factor * worst.slope
        weight[..., rows] += factor**2 * worst.weight
    return _with_blind_answers(log_p, slope, weight, excess, blind, layout.chance(ties))


def _with_blind_answers(
    log_p: F64, slope: F64, weight: F64, excess: F64, blind: F64, by_chance: float
) -> Likelihood:
    """The likelihood if a share of the answers is given blindly; see `set_likelihood`.

    Args:
        log_p, slope, weight: the likelihood of answers that depend on the items.
        excess: (...,) gᵀ H⁻¹ g of the slope g and the curvature H of this likelihood.
        blind: (...,) the share of blind answers.
        by_chance: the probability of the answer if it is given blindly.
    """
    if not np.any(blind):
        return Likelihood(log_p, slope, weight)
    p_genuine = (1 - blind) * np.exp(log_p)
    p = np.maximum(p_genuine + blind * by_chance, 1e-300)
    share = np.where(blind > 0, p_genuine / p, 1.0)
    mixed_log_p = np.where(blind > 0, np.log(p), log_p)
    # The curvature is share (H - (1 - share) g gᵀ), and g gᵀ is at most (gᵀ H⁻¹ g) H.
    factor = share * np.maximum(1 - (1 - share) * excess, 0)
    return Likelihood(mixed_log_p, share[..., None] * slope, factor[..., None] * weight)


class _Choice(NamedTuple):
    """The likelihood of a choice of an item.

    Attributes:
        log_p: (...,) log p.
        slope, weight: (..., r) the slope and the weight of each row.
        excess: (...,) gᵀ H⁻¹ g of the slope g and the curvature H.
    """

    log_p: F64
    slope: F64
    weight: F64
    excess: F64


def _choice(z: F64, n_items: int) -> _Choice:
    """The likelihood that a softmax chooses an item.

    The first rows compare the chosen item with each other item: z is how far the chosen item is
    ahead, in log odds. The further rows compare the other items with each other.
    """
    behind = -z[..., : n_items - 1]
    highest = np.maximum(behind.max(axis=-1, keepdims=True), 0)
    sum_of_exp = np.exp(-highest[..., 0]) + np.exp(behind - highest).sum(axis=-1)
    log_sum = highest[..., 0] + np.log(sum_of_exp)
    p_of_others = np.exp(behind - log_sum[..., None])
    p_of_chosen = np.exp(-log_sum)
    first, second = np.array([*combinations(range(n_items - 1), 2)], np.int64).reshape(-1, 2).T
    among_others = p_of_others[..., first] * p_of_others[..., second]
    weight = np.concatenate((p_of_chosen[..., None] * p_of_others, among_others), axis=-1)
    slope = np.concatenate((p_of_others, np.zeros_like(among_others)), axis=-1)
    excess = p_of_others.sum(axis=-1) / np.maximum(p_of_chosen, 1e-300)
    return _Choice(-log_sum, slope, weight, excess)


def _all_alike(z: F64, n_items: int) -> _Choice:
    """The likelihood that n items are alike.

    Each pair counts as half an answer for each of its items, and all pairs together count as n - 1
    answers.
    """
    share = 2 / n_items
    left = expit(_PAIR_FACTOR * z)
    log_p = share / 2 * (np.log(np.maximum(left, 1e-300)) + np.log(np.maximum(1 - left, 1e-300)))
    slope = share * _PAIR_FACTOR * (0.5 - left)
    weight = share * _PAIR_FACTOR**2 * left * (1 - left)
    excess = np.sum(slope**2 / np.maximum(weight, 1e-300), axis=-1)
    return _Choice(log_p.sum(axis=-1), slope, weight, excess)


def observed_set(
    layout: Layout, mean: F64, variance: F64, blind: float, ties: float
) -> tuple[F64, F64]:
    """Slope (k - 1,) and precision (k - 1, k - 1) of an answer at the mode of the utilities.

    The unknowns z are the differences between the best item and each other item. Before the answer
    they are normal with `mean` and `variance`; at the mode z = mean + variance @ slope.
    """
    n_others = layout.n_items - 1
    # Each row's difference of two items, in terms of the differences z from the best item.
    by_item = np.concatenate((np.zeros((1, n_others)), -np.eye(n_others)))
    rows = by_item[layout.left] - by_item[layout.right]
    blind_share = np.array([blind])

    def at(z: F64) -> tuple[float, F64, F64]:
        """log p of the answer at z, its slope, and its precision."""
        likelihood = set_likelihood(layout, (rows @ z)[None], blind_share, ties)
        precision = (rows.T * likelihood.weight[0]) @ rows
        return float(likelihood.log_p[0]), rows.T @ likelihood.slope[0], precision

    def loss(pull: F64, log_p: float) -> float:
        return float(0.5 * pull @ variance @ pull) - log_p

    pull = np.zeros(n_others)  # z = mean + variance @ pull, so that a flat prior needs no inverse
    log_p, slope, precision = at(mean)
    for _ in range(_NEWTON_STEPS):
        step = np.linalg.solve(np.eye(n_others) + precision @ variance, slope - pull)
        loss_before = loss(pull, log_p)
        share = 1.0
        while True:
            new_pull = pull + share * step
            log_p, slope, precision = at(mean + variance @ new_pull)
            if loss(new_pull, log_p) <= loss_before + 1e-12 or share < _SMALLEST_STEP:
                break
            share /= 2
        pull = new_pull
        if np.abs(share * step).max() < _SETTLED:
            break
    return pull, precision


def summed_over_answers(layout: Layout, slope: F64, weight: F64) -> tuple[F64, F64]:
    """Slope and weight of a whole answer along the difference of the two items of each row.

    Slope and weight are approximate, as if the items of an answer were known equally well, and
    independently: g · x / 2 and xᵀ H x / 4 for the difference x of two items. For an answer about a
    pair they are exact.

    Args:
        layout: the layout of the answers.
        slope, weight: (q, r) the slope and the weight of each row.
    """
    left, right = layout.left, layout.right
    differences = np.zeros((layout.n_rows, layout.n_items))
    rows = np.arange(layout.n_rows)
    differences[rows, left], differences[rows, right] = 1, -1
    common = differences @ differences.T
    return slope @ common / 2, weight @ common**2 / 4


class SetColumns(NamedTuple):
    """Rows of answers about sets, of one layout; columns are as in `Votes`.

    `event` is the place of the answer among the events.
    """

    left: I64
    right: I64
    target: float
    event: I64
    layout: int
    bias: F64


def rows_of_choices(items: I64, chosen: I64, event: I64) -> list[SetColumns]:
    """The rows of answers that name the best item, and perhaps the worst item.

    Args:
        items: (q, 6) the items of each answer in the order of their places; -1: no item.
        chosen: (q, 2) the best and the worst item; -1: no item.
        event: (q,) the places of the answers among the events.
    """
    n_items = np.count_nonzero(items >= 0, axis=1)
    best, worst = chosen.T
    columns = []
    for layout in CHOICES:
        has_layout = (n_items == layout.n_items) & ((worst >= 0) == layout.has_worst)
        if not has_layout.any():
            continue
        shown = items[has_layout, : layout.n_items]
        position = np.zeros(shown.shape, np.int64)
        position[shown == best[has_layout, None]] = -1
        position[shown == worst[has_layout, None]] = 1
        places = np.argsort(position, axis=1, kind="stable")
        ordered = np.take_along_axis(shown, places, axis=1)
        columns.append(_columns_of(layout, ordered, places, event[has_layout]))
    return columns


def rows_of_alike(items: I64, event: I64) -> list[SetColumns]:
    """The rows of answers that call all items alike; arguments are as in `rows_of_choices`."""
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
    """The rows of answers of one layout.

    Args:
        layout: the layout of the answers.
        ordered: (q, k) the items of each answer in the order of the layout.
        places: (q, k) the place of each of these items in the question.
        event: (q,) the places of the answers among the events.
    """
    i, j = layout.left, layout.right
    return SetColumns(
        ordered[:, i].ravel(),
        ordered[:, j].ravel(),
        0.5 if layout.is_alike else 1.0,
        np.repeat(event, layout.n_rows),
        LAYOUTS.index(layout),
        place_bias(places[:, i], places[:, j], layout.n_items).ravel(),
    )


def place_bias(left: I64, right: I64, n_items: int) -> F64:
    """The share of an annotator's side bias that favours the item in one place over another item.

    The bias falls evenly from the first place to the last, by 1. Of two items, the item on the left
    has all of it.
    """
    bias: F64 = (right - left) / (n_items - 1)
    return bias
