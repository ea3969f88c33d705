"""Forecast of the answers that a session still needs, by short simulations of its future."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sortnet.core import F64, I64, Bool
from sortnet.preference.goal import SURE, Goal, above_edge, among_top, wrong_of_top
from sortnet.preference.groups import Groups
from sortnet.preference.likelihood import MOST_PROBIT, answers, measured
from sortnet.preference.posterior import (
    Measuring,
    Posterior,
    information,
    information_of_measurement,
)

SIMULATIONS = 16
LEVEL = 0.8  # share of simulated sessions that end within the range
_OUTSIDE = int((1 - LEVEL) / 2 * SIMULATIONS)  # simulations that end before the range, and after it
_ITEMS = 40  # items that are simulated at most; they are a sample if there are more items
_GROWTH = 0.08  # answers between two checks of the goal, relative to all answers so far
_ANSWERS_PER_ITEM = 40  # answers for each item that are simulated at most
_SHARED_ITEM = 0.5  # factor of a pair's worth after a question about one of its items
_DRAWS = 100  # draws of the scores that tell how sure the top is
# The spread of the scores is poorly known until each pair of neighbours was asked several times.
# With this standard deviation of the logarithm of their variance, ranges hold the true number in
# 85 to 97 % of sessions of 20 to 80 items whose scores spread by 0.8 to 3.
_SPREAD = 0.8
_SPREAD_OF_MEASURED = 0.4  # measurements tell more about the spread
# The moment at which a session notices that its goal is reached varies by a few per cent.
_SLACK = 0.05
MANY = 1 << 20  # a larger number of answers is "not known"


@dataclass(frozen=True)
class Forecast:
    """The number of answers, counted from the first, with which a session is expected to stop.

    Attributes:
        low, high: range of the number, with a probability of about 80 %; None: not known.
        middle: median of the number; None: not known.
    """

    low: int
    middle: int | None
    high: int | None

    def left(self, answered: int) -> tuple[int, int | None, int | None]:
        """`low`, `middle` and `high` counted from now on; none of them is below 1.

        >>> Forecast(40, 70, None).left(50)
        (1, 20, None)
        """
        middle = None if self.middle is None else max(self.middle - answered, 1)
        high = None if self.high is None else max(self.high - answered, 1)
        return max(self.low - answered, 1), middle, high


def forecast(
    posterior: Posterior,
    groups: Groups,
    goal: Goal,
    *,
    answered: int,
    checks_left: int = 0,
    holdout: float = 0.1,
    worth: float = 1.0,
    measuring: Measuring | None = None,
    seed: int = 0,
) -> Forecast:
    """Forecast with how many answers a session stops, by simulating it to its end.

    In each simulation the scores are a draw from the posterior. Questions are chosen, answered and
    learned from as in a session. The spread of the scores varies between simulations, because a
    session hardly knows the spread. Before the first answer the posterior is the prior, so a
    session can be forecast before it begins.

    Args:
        posterior: the posterior of the scores, given the answers so far.
        groups: the groups of the items.
        goal: the goal at which the session stops.
        answered: the number of answers so far.
        checks_left: the number of hold-out answers that are missing for the check of the model.
        holdout: the share of questions about random pairs.
        worth: the number of answers about pairs that are as informative as one answer of the
            session; 1 if the session asks about pairs.
        measuring: the annotator's reliability and scale, if answers are measurements; None: answers
            are words.
        seed: the seed of all random choices.

    Cost: about a tenth of a second for any number of items. More than 40 items are simulated by a
    sample, and the number of answers is scaled up to all items.
    """
    if goal.top >= max(len(members) for members in groups.members):
        return Forecast(answered, answered, answered)
    rng = np.random.default_rng(seed)
    sample = _sampled(posterior, groups, goal, rng)
    sessions = _Sessions(posterior, sample, goal, holdout, measuring, rng)
    about_pairs = sample.ratio * sessions.answers_to_goal(worth * answered / sample.ratio)
    questions = about_pairs / worth
    if checks_left and holdout > 0:
        failures = rng.negative_binomial(checks_left, holdout, SIMULATIONS)
        questions = np.maximum(questions, failures + checks_left)
    ordered = np.sort(answered + questions)
    lowest, highest = ordered[_OUTSIDE], ordered[SIMULATIONS - 1 - _OUTSIDE]
    middle = ordered[SIMULATIONS // 2]
    slack = _SLACK * answered
    low = max(float(lowest) - slack, answered)
    return Forecast(ceil(min(low, MANY)), _whole_if_known(middle), _whole_if_known(highest + slack))


def _whole_if_known(number: float) -> int | None:
    """The number rounded up; None, not known, if it is too large."""
    return ceil(number) if number <= MANY else None


@dataclass(frozen=True, eq=False)
class _Sample:
    """The items that are simulated.

    Attributes:
        items: (m,) numbers of the items.
        members: the places in `items` of the members of each group.
        top: number of top items of each group; 0 if the goal is the whole order.
        ratio: number of the session's answers that an answer of the sample stands for.
    """

    items: I64
    members: tuple[I64, ...]
    top: tuple[int, ...]
    ratio: float

    def pairs(self) -> tuple[I64, I64]:
        """All pairs within groups."""
        within = [places[np.array(np.triu_indices(len(places), 1))] for places in self.members]
        first, second = np.concatenate(within, axis=1)
        return first, second


def _sampled(posterior: Posterior, groups: Groups, goal: Goal, rng: np.random.Generator) -> _Sample:
    """Take groups in random order until there are enough items; take a part of a large group.

    If the goal is a top, the part has the items whose membership in the top is least certain.
    """
    larger_groups = [members for members in groups.members if len(members) > max(goal.top, 1)]
    q = among_top(posterior, groups, goal.top) if goal.top else None
    items_of_groups: list[I64] = []
    places: list[I64] = []
    tops: list[int] = []
    n_items = 0
    for number in rng.permutation(len(larger_groups)).tolist():
        members = larger_groups[number]
        n_wanted = _ITEMS - n_items
        if n_wanted < 2:
            break
        top = goal.top
        if len(members) > n_wanted and q is None:
            members = rng.choice(members, n_wanted, replace=False)
        elif len(members) > n_wanted and q is not None:
            members = members[np.argsort(-_uncertainty(q[members]), kind="stable")[:n_wanted]]
            n_expected_in_top = round(float(q[members].sum()))
            top = min(max(n_expected_in_top, 1), n_wanted - 1)
        items_of_groups.append(members)
        tops.append(top)
        places.append(np.arange(n_items, n_items + len(members)))
        n_items += len(members)
    items = np.concatenate(items_of_groups)
    all_items = np.concatenate(larger_groups)
    if q is None:
        ratio = len(all_items) / n_items
    else:
        uncertainty_of_items = max(np.sum(_uncertainty(q[items])), 1e-9)
        ratio = max(float(np.sum(_uncertainty(q[all_items])) / uncertainty_of_items), 1.0)
    return _Sample(items, tuple(places), tuple(tops), ratio)


def _uncertainty(q: F64) -> F64:
    """The variance of whether an item is among the top, given the probability q that it is."""
    variance: F64 = q * (1 - q)
    return variance


class _Sessions:
    """Simulated sessions about the same items, side by side; each has its own true scores.

    The posterior of each session is a Gaussian, updated answer by answer as `Posterior.observe`
    does.
    """

    def __init__(
        self,
        posterior: Posterior,
        sample: _Sample,
        goal: Goal,
        holdout: float,
        measuring: Measuring | None,
        rng: np.random.Generator,
    ) -> None:
        self._measuring = measuring
        self._sample = sample
        self._goal = goal
        self._holdout = holdout
        self._rng = rng
        self._tie = posterior.tie
        if measuring is None:
            self._reliability = _typical_reliability(posterior)
            sd_of_log = _SPREAD
        else:
            self._reliability, _ = measuring
            sd_of_log = _SPREAD_OF_MEASURED
        # In each simulation the variance of the scores is multiplied by another factor.
        factor = np.exp(sd_of_log * ndtri((np.arange(SIMULATIONS) + 0.5) / SIMULATIONS))
        factor_of_scores = np.sqrt(factor)[:, None]
        items = sample.items
        draws = rng.integers(len(posterior.draws), size=SIMULATIONS)
        self._truth: F64 = factor_of_scores * posterior.draws[np.ix_(draws, items)]
        self._mean: F64 = factor_of_scores * posterior.mean[items]
        if posterior.covariance is None:
            covariance = np.cov(posterior.draws[:, items], rowvar=False)
        else:
            covariance = posterior.covariance[np.ix_(items, items)]
        self._covariance: F64 = factor[:, None, None] * covariance
        self._first, self._second = sample.pairs()
        n_pairs = len(self._first)
        self._has_item: Bool = np.zeros((len(items), n_pairs), np.bool_)
        self._has_item[self._first, np.arange(n_pairs)] = True
        self._has_item[self._second, np.arange(n_pairs)] = True

    def answers_to_goal(self, answered: float) -> F64:
        """(simulations,) the number of answers until each session reaches its goal; inf: not known.

        The slowest simulations are not run to their ends, because no forecast reads them.

        Args:
            answered: the number of answers about the sample so far.
        """
        n_items = len(self._sample.items)
        most_answers = _ANSWERS_PER_ITEM * n_items // 2
        needed = np.full(SIMULATIONS, np.inf)
        n_given = 0
        while True:
            mean, variance = self._differences()
            wrong = self._wrong_share(mean, variance)
            q, sure = self._top()
            is_reached = wrong <= self._goal.wrong if sure is None else sure >= SURE
            needed[is_reached & np.isinf(needed)] = n_given
            n_ended = np.isfinite(needed).sum()
            if n_given >= most_answers or n_ended >= SIMULATIONS - _OUTSIDE:
                break
            worth = self._information(mean, variance)
            if q is not None:
                uncertainty = _uncertainty(q)
                worth *= uncertainty[:, self._first] + uncertainty[:, self._second]
            growth = round(_GROWTH * (n_given + answered + n_items / 2))
            n_questions = min(max(growth, 1), max(n_items // 4, 1))
            self._ask(worth, n_questions)
            n_given += n_questions
        if not self._goal.top:
            # Late in a session errors fall with the root of the number of answers.
            later = (answered + n_given) * (wrong / self._goal.wrong) ** 2 - answered
            needed = np.where(np.isinf(needed), np.maximum(later, n_given), needed)
        return needed

    def _differences(self) -> tuple[F64, F64]:
        """(simulations, pairs) the means and variances of the score differences of all pairs."""
        first, second = self._first, self._second
        spread = np.diagonal(self._covariance, axis1=1, axis2=2)
        variance = spread[:, first] + spread[:, second] - 2 * self._covariance[:, first, second]
        return self._mean[:, first] - self._mean[:, second], np.maximum(variance, 1e-12)

    def _wrong_share(self, mean: F64, variance: F64) -> F64:
        """(simulations,) the share of pairs expected in the wrong order."""
        wrong: F64 = ndtr(-(np.abs(mean) + self._tie / 2) / np.sqrt(variance)).mean(axis=1)
        return wrong

    def _information(self, mean: F64, variance: F64) -> F64:
        """(simulations, pairs) the information of an answer, by which pairs are chosen."""
        if self._measuring is not None:
            reliability, scale = self._measuring
            bits = information_of_measurement(reliability * mean, reliability**2 * variance, scale)
        elif not self._tie:
            bits = information(mean, variance)
        else:
            bits = information(mean - self._tie, variance) + information(mean + self._tie, variance)
        return bits + 1e-9 * self._rng.random(bits.shape)

    def _top(self) -> tuple[F64 | None, F64 | None]:
        """How likely each item is a top item, and how sure the top is; None if no top is the goal.

        Returns:
            (simulations, items) probabilities that an item is a top item; (simulations,)
            probabilities that the top is good enough for the goal.
        """
        if not self._goal.top:
            return None, None
        jitter = 1e-9 * np.eye(len(self._sample.items))
        root = np.linalg.cholesky(self._covariance + jitter)
        noise = self._rng.standard_normal((_DRAWS, len(jitter)))
        scores = self._mean[:, None, :] + noise @ root.transpose(0, 2, 1)
        q = np.zeros(self._mean.shape)
        sure = np.ones(SIMULATIONS)
        for places, top in zip(self._sample.members, self._sample.top, strict=True):
            for simulation in range(SIMULATIONS):
                margins = above_edge(scores[simulation][:, places], top)
                q[simulation, places] = np.mean(margins > 0, axis=0)
                best = np.argsort(-self._mean[simulation, places])[:top]
                wrong = wrong_of_top(margins[:, best], self._tie)
                # Items that are surely top items are not in the sample, and none of them is wrong.
                sure_of_group = np.mean(wrong <= self._goal.allowed(self._goal.top))
                sure[simulation] = min(sure[simulation], sure_of_group)
        return q, sure

    def _ask(self, worth: F64, n_questions: int) -> None:
        """Ask about the most informative pairs and some random pairs, and learn from the answers.

        Each answer makes other pairs of its items worth less. If the goal is the whole order, no
        item is in two of the informative pairs. If it is a top, an item may be in several, because
        few items are worth asking about.
        """
        rows = np.arange(SIMULATIONS)
        for _ in range(n_questions):
            pair = worth.argmax(axis=1)
            by_chance = self._rng.random(SIMULATIONS) < self._holdout
            random_pair = self._rng.integers(worth.shape[1], size=SIMULATIONS)
            pair = np.where(by_chance, random_pair, pair)
            first, second = self._first[pair], self._second[pair]
            shares_item = self._has_item[first] | self._has_item[second]
            worth[shares_item] *= _SHARED_ITEM if self._goal.top else 0.0
            self._observe(rows, first, second)

    def _observe(self, rows: NDArray[np.intp], first: I64, second: I64) -> None:
        """Give an answer about a pair in each simulation, and update the Gaussian by it."""
        c = self._reliability
        covariance = self._covariance
        gap = c * (self._truth[rows, first] - self._truth[rows, second])
        noisy_gap = gap + self._rng.standard_normal(SIMULATIONS)
        target = np.where(noisy_gap > self._tie, 1.0, np.where(noisy_gap < -self._tie, 0.0, 0.5))
        gain = c * (covariance[rows, :, first] - covariance[rows, :, second])
        mean = c * (self._mean[rows, first] - self._mean[rows, second])
        variance = np.maximum(c * (gain[rows, first] - gain[rows, second]), 1e-12)
        noise = np.sqrt(1 + variance)
        if self._measuring is None:
            blind = np.zeros(SIMULATIONS)
            likelihood = answers(mean / noise, target, self._tie / noise, blind, 0.0)
        else:
            _, scale = self._measuring
            probit = np.clip(scale * noisy_gap, -MOST_PROBIT, MOST_PROBIT)
            likelihood = measured(mean / noise, probit, scale * noise)
        self._mean += gain * (likelihood.slope / noise)[:, None]
        weighted_gain = gain * (likelihood.weight / noise**2)[:, None]
        covariance -= gain[:, :, None] * weighted_gain[:, None, :]


def _typical_reliability(posterior: Posterior) -> float:
    """The mean of the annotators' reliabilities; 1 before anybody has answered."""
    if not len(posterior.reliability):
        return 1.0
    return max(float(posterior.reliability.mean()), 0.05)
