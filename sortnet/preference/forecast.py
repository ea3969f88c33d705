"""Forecast how many answers a session still needs, by short simulations of its future."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from sortnet.core import F64, I64, Bool
from sortnet.preference.goal import SURE, Goal, above_edge, among_top, wrong_of_top
from sortnet.preference.groups import Groups
from sortnet.preference.likelihood import MOST_PROBIT, measurement_likelihood, pair_likelihood
from sortnet.preference.posterior import (
    Draws,
    Measuring,
    Posterior,
    information,
    information_of_measurement,
)

SIMULATIONS = 16
LEVEL = 0.8  # share of simulated sessions that end within the range
# Number of simulations that end below the range, and as many end above it.
_N_BEYOND_EACH_END = int((1 - LEVEL) / 2 * SIMULATIONS)
_ITEMS = 40  # if there are more items, a sample of this number is simulated
_GROWTH = 0.08  # answers between two checks of the goal, relative to all answers so far
_ANSWERS_PER_ITEM = 40  # a simulation ends after this number of answers about each item
_SHARED_ITEM = 0.5  # factor of a pair's worth after a question about one of the pair's items
_DRAWS = 100  # number of draws of the scores that tell how sure the top is
# The standard deviation, over the simulations, of the logarithm of the variance of the scores. A
# session knows this variance poorly until each pair of neighbours was asked several times. With 0.8
# the forecast range holds the true number in 85 to 97 % of sessions of 20 to 80 items whose scores
# have standard deviations from 0.8 to 3.
_SD_OF_LOG_VARIANCE = 0.8
_SD_OF_LOG_VARIANCE_MEASURED = 0.4  # measurements tell more about the variance than words
# A range is widened by this share, because a session notices a few per cent too late that the goal
# is reached.
_SLACK = 0.05
MANY = 1 << 20  # a larger number of answers is "not known"
_LEAST_VARIANCE = 1e-12  # keeps variances positive despite rounding errors
_LEAST_UNCERTAINTY = 1e-9  # keeps a sum of uncertainties above 0, so that it can be a divisor
_RANDOM_BITS = 1e-9  # random differences, in bits, between pairs of equal information


@dataclass(frozen=True)
class Forecast:
    """The number of answers with which a session is expected to stop, including all answers so far.

    Attributes:
        low, high: range that has the number with a probability of about 80 %; `high` is None if it
            is not known.
        middle: median of the number; None if it is not known.
    """

    low: int
    middle: int | None
    high: int | None

    def left(self, answered: int) -> tuple[int, int | None, int | None]:
        """Subtract the answers so far from `low`, `middle` and `high`; each result is at least 1.

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
    """Forecast with how many answers a session stops, by simulating the session to its end.

    In each simulation the scores are a draw from the posterior. Questions are chosen, answered and
    learned from as in a session. The variance of the scores differs between simulations, because a
    session hardly knows this variance. Before the first answer the posterior is the prior, so a
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
        measuring: the annotator's reliability and scale, if answers are measurements; None if
            answers are words.
        seed: the seed of all random choices.

    Cost: about a tenth of a second for any number of items. Of more than 40 items a sample is
    simulated, and the number of answers is scaled up to all items.
    """
    n_of_largest_group = max(len(members) for members in groups.members)
    if goal.top >= n_of_largest_group:
        return Forecast(answered, answered, answered)  # all items are top items
    rng = np.random.default_rng(seed)
    sample = _draw_sample(posterior, groups, goal, rng)
    sessions = _Sessions(posterior, sample, goal, holdout, measuring, rng)
    answered_of_sample = worth * answered / sample.ratio
    n_answers_about_pairs = sample.ratio * sessions.answers_to_goal(answered_of_sample)
    n_questions = n_answers_about_pairs / worth
    if checks_left and holdout > 0:
        # The session also goes on until the hold-out has enough answers. The probability that a
        # question is a hold-out question is `holdout`.
        n_other_questions = rng.negative_binomial(checks_left, holdout, SIMULATIONS)
        n_questions = np.maximum(n_questions, n_other_questions + checks_left)
    return _forecast_from_simulations(answered + n_questions, answered)


def _forecast_from_simulations(n_answers: F64, answered: int) -> Forecast:
    """Make a forecast from the number of answers with which each simulated session stops.

    The range leaves out the lowest and the highest of the 16 numbers. It is widened by 5 % of the
    answers so far, because a session notices a little too late that the goal is reached.

    Args:
        n_answers: (simulations,) the numbers, all answers so far included.
        answered: the number of answers so far.
    """
    ascending = np.sort(n_answers)
    lowest = float(ascending[_N_BEYOND_EACH_END])
    middle = float(ascending[SIMULATIONS // 2])
    highest = float(ascending[SIMULATIONS - 1 - _N_BEYOND_EACH_END])
    slack = _SLACK * answered
    low = max(lowest - slack, answered)
    return Forecast(
        low=ceil(min(low, MANY)),
        middle=_whole_if_known(middle),
        high=_whole_if_known(highest + slack),
    )


def _whole_if_known(number: float) -> int | None:
    """Round a number up; return None, for "not known", if the number is above 2²⁰."""
    return ceil(number) if number <= MANY else None


@dataclass(frozen=True, eq=False)
class _Sample:
    """The items that are simulated, in groups.

    Attributes:
        items: (m,) numbers of the items.
        members: for each group, the indices in `items` of its members.
        top: for each group, the number of top items in the sample; 0 if the goal is the whole
            order.
        ratio: number of answers of the session that one simulated answer stands for.
    """

    items: I64
    members: tuple[I64, ...]
    top: tuple[int, ...]
    ratio: float

    def pairs(self) -> tuple[I64, I64]:
        """List all pairs of items in the same group.

        Returns:
            The indices in `items` of the first items and of the second items.
        """
        pairs_of_groups = [
            members[np.array(np.triu_indices(len(members), 1))] for members in self.members
        ]
        first, second = np.concatenate(pairs_of_groups, axis=1)
        return first, second


def _draw_sample(
    posterior: Posterior, groups: Groups, goal: Goal, rng: np.random.Generator
) -> _Sample:
    """Draw groups in random order until there are 40 items; of the last group, take a part.

    Groups without a question are left out: groups of one item, and groups whose items are all among
    the top.
    """
    larger_groups = [members for members in groups.members if len(members) > max(goal.top, 1)]
    q = None  # the probability that each item is among the top
    if goal.top:
        q = among_top(posterior, groups, goal.top)
    sampled_groups: list[_SampledGroup] = []
    n_missing = _ITEMS
    for number in rng.permutation(len(larger_groups)).tolist():
        if n_missing < 2:  # one further item would have no pair
            break
        group = _SampledGroup(larger_groups[number], goal.top)
        if len(group.items) > n_missing:
            group = _part_of_group(group.items, n_missing, q, rng)
        sampled_groups.append(group)
        n_missing -= len(group.items)
    items = np.concatenate([group.items for group in sampled_groups])
    ends = np.cumsum([len(group.items) for group in sampled_groups])
    return _Sample(
        items=items,
        members=tuple(np.split(np.arange(len(items)), ends[:-1])),
        top=tuple(group.top for group in sampled_groups),
        ratio=_answers_per_simulated_answer(items, np.concatenate(larger_groups), q),
    )


class _SampledGroup(NamedTuple):
    """The simulated items of one group.

    Attributes:
        items: the numbers of the items.
        top: the number of top items among these items; 0 if the goal is the whole order.
    """

    items: I64
    top: int


def _part_of_group(
    members: I64, size: int, q: F64 | None, rng: np.random.Generator
) -> _SampledGroup:
    """Choose some members of a group to simulate.

    If the goal is a top, they are the members whose place inside or outside the top is least
    certain. If the goal is the whole order, they are random members.

    Args:
        members: the items of the group.
        size: number of items to choose.
        q: (n,) the probability that each item is among the top; None if the goal is the whole
            order.
        rng: draws random members.
    """
    if q is None:
        return _SampledGroup(rng.choice(members, size, replace=False), top=0)
    least_certain_first = np.argsort(-_uncertainty(q[members]), kind="stable")
    chosen = members[least_certain_first[:size]]
    n_expected_in_top = round(float(q[chosen].sum()))
    # A simulation needs an item inside and an item outside the top.
    return _SampledGroup(chosen, top=min(max(n_expected_in_top, 1), size - 1))


def _answers_per_simulated_answer(items: I64, all_items: I64, q: F64 | None) -> float:
    """Estimate how many answers of a session one answer about the simulated items stands for.

    The number of answers grows with the number of items. If the goal is a top, it grows with the
    uncertainty q (1 - q) whether an item belongs to the top, summed over the items.

    Args:
        items: the simulated items.
        all_items: the items of the session.
        q: (n,) the probability that each item is among the top; None if the goal is the whole
            order.
    """
    if q is None:
        return len(all_items) / len(items)
    uncertainty_of_items = max(np.sum(_uncertainty(q[items])), _LEAST_UNCERTAINTY)
    return max(float(np.sum(_uncertainty(q[all_items])) / uncertainty_of_items), 1.0)


def _uncertainty(q: F64) -> F64:
    """Compute q (1 - q), the variance of an event of probability q.

    Here q is the probability that an item is among the top.
    """
    variance: F64 = q * (1 - q)
    return variance


class _Tops(NamedTuple):
    """An estimate of the top items in each simulated session.

    Attributes:
        q: (simulations, items) the probability that each item is a top item.
        sure: (simulations,) the probability that the top is good enough for the goal. If there are
            several groups, it is the smallest probability of a group.
    """

    q: F64
    sure: F64


class _Sessions:
    """Simulated sessions about the same items, all computed together.

    Each session has its own true scores, drawn from the posterior, and believes in a Gaussian of
    the scores. Each answer updates the Gaussian as `Posterior.observe` does.

    Args:
        posterior: the posterior of the scores, given the answers so far.
        sample: the items that are simulated.
        goal: the goal at which a session stops.
        holdout: the share of questions about random pairs.
        measuring: the annotator's reliability and scale, if answers are measurements.
        rng: draws the true scores, the questions and the answers.
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
        """Draw the true scores of each session, and let it begin with the present posterior."""
        self._measuring = measuring
        self._sample = sample
        self._goal = goal
        self._holdout = holdout
        self._rng = rng
        self._tie = posterior.tie
        if measuring is None:
            self._reliability = _typical_reliability(posterior)
            sd_of_log_variance = _SD_OF_LOG_VARIANCE
        else:
            self._reliability, _ = measuring
            sd_of_log_variance = _SD_OF_LOG_VARIANCE_MEASURED
        factor_of_variance = _factors_of_variance(sd_of_log_variance)
        factor_of_scores = np.sqrt(factor_of_variance)[:, None]
        items = sample.items
        draws = rng.integers(len(posterior.draws), size=SIMULATIONS)
        # True scores and expected scores, (simulations, items).
        drawn_scores = np.asarray(posterior.draws[np.ix_(draws, items)], np.float64)
        self._truth: F64 = factor_of_scores * drawn_scores
        self._mean: F64 = factor_of_scores * posterior.mean[items]
        # Covariances of the scores, (simulations, items, items).
        covariance = _covariance_of_items(posterior, items)
        self._covariance: F64 = factor_of_variance[:, None, None] * covariance
        self._first, self._second = sample.pairs()
        # Whether an item belongs to a pair, (items, pairs).
        item = np.arange(len(items))[:, None]
        self._has_item: Bool = (self._first == item) | (self._second == item)

    def answers_to_goal(self, answered: float) -> F64:
        """Run the simulations, and count the answers until each of them reaches the goal.

        All simulations get a few answers, then it is checked which have reached the goal, and so
        on. Only the slowest simulations, which end above the forecast range, are not run to their
        ends. After 40 answers about each item, the numbers of the simulations that are still
        running are extrapolated.

        Args:
            answered: the number of answers about the sample so far.

        Returns:
            (simulations,) the number of further answers; inf if it is not known.
        """
        n_items = len(self._sample.items)
        most_answers = _ANSWERS_PER_ITEM * n_items // 2  # an answer is about two items
        n_needed = np.full(SIMULATIONS, np.inf)  # inf: the goal is not reached yet
        n_given = 0
        while True:
            mean, variance = self._differences()
            wrong_share = self._wrong_share(mean, variance)
            tops = self._estimate_tops() if self._goal.top else None
            was_running = np.isinf(n_needed)
            n_needed[was_running & self._is_reached(wrong_share, tops)] = n_given
            n_running = np.isinf(n_needed).sum()
            if n_running <= _N_BEYOND_EACH_END or n_given >= most_answers:
                return self._extrapolated(n_needed, wrong_share, answered, n_given)
            worth = self._worth_of_pairs(mean, variance, tops)
            n_questions = self._n_until_next_check(n_given + answered)
            self._ask(worth, n_questions)
            n_given += n_questions

    def _is_reached(self, wrong_share: F64, tops: _Tops | None) -> Bool:
        """Tell which simulations have reached the goal, (simulations,).

        The goal of a whole order is reached if few enough pairs are in the wrong order. The goal of
        a top is reached if it is at least 90 % sure that the top is good enough.

        Args:
            wrong_share: (simulations,) the present share of pairs in the wrong order.
            tops: the estimate of the top items; None if the goal is the whole order.
        """
        if tops is None:
            return wrong_share <= self._goal.wrong
        return tops.sure >= SURE

    def _extrapolated(self, n_needed: F64, wrong_share: F64, answered: float, n_given: int) -> F64:
        """Extrapolate the number of answers in simulations that have not reached the goal yet.

        Late in a session, the share of wrong pairs falls with the root of the number of answers. So
        the whole number of answers is estimated as

            present number of answers × (present share of wrong pairs / largest share allowed)²

        If the goal is a top, there is no estimate, and the numbers stay inf.

        Args:
            n_needed: (simulations,) the number of further answers; inf if the goal is not reached.
            wrong_share: (simulations,) the present share of pairs in the wrong order.
            answered: the number of answers about the sample before the simulations.
            n_given: the number of answers in each simulation.

        Returns:
            (simulations,) the numbers of further answers.
        """
        if self._goal.top:
            return n_needed
        n_answers = answered + n_given
        n_further = n_answers * (wrong_share / self._goal.wrong) ** 2 - answered
        is_running = np.isinf(n_needed)
        return np.where(is_running, np.maximum(n_further, n_given), n_needed)

    def _n_until_next_check(self, n_answers: float) -> int:
        """Return the number of questions until the goal is checked again.

        It is about 8 % of the answers so far, and at most a quarter of the number of items.
        """
        n_items = len(self._sample.items)
        growth = round(_GROWTH * (n_answers + n_items / 2))
        return min(max(growth, 1), max(n_items // 4, 1))

    def _worth_of_pairs(self, mean: F64, variance: F64, tops: _Tops | None) -> F64:
        """Compute how useful the answer to a question about each pair is for reaching the goal.

        If the goal is the whole order, the worth of an answer is its information. If the goal is a
        top, the information is multiplied by the uncertainty whether the two items are top items:
        q (1 - q) of the first item plus q (1 - q) of the second item.

        Args:
            mean: (simulations, pairs) the expected difference of the two scores of each pair.
            variance: (simulations, pairs) the variance of this difference.
            tops: has the probability q that each item is a top item; None if the goal is the whole
                order.

        Returns:
            (simulations, pairs) the worth.
        """
        bits = self._information(mean, variance)
        if tops is None:
            return bits
        uncertainty_of_item = _uncertainty(tops.q)
        uncertainty_of_first = uncertainty_of_item[:, self._first]
        uncertainty_of_second = uncertainty_of_item[:, self._second]
        return bits * (uncertainty_of_first + uncertainty_of_second)

    def _differences(self) -> tuple[F64, F64]:
        """Compute the distribution of the difference of the two scores of each pair.

        Returns:
            (simulations, pairs) means, (simulations, pairs) variances.
        """
        first = self._first
        second = self._second
        variance_of_scores = np.diagonal(self._covariance, axis1=1, axis2=2)
        variance = (
            variance_of_scores[:, first]
            + variance_of_scores[:, second]
            - 2 * self._covariance[:, first, second]
        )
        mean = self._mean[:, first] - self._mean[:, second]
        return mean, np.maximum(variance, _LEAST_VARIANCE)

    def _wrong_share(self, mean: F64, variance: F64) -> F64:
        """Compute the expected share of pairs in the wrong order, as `stopping.wrong_share` does.

        A pair counts as wrong only if the scores differ by more than half of the tie threshold.

        Args:
            mean, variance: (simulations, pairs) the mean and the variance of the difference of the
                two scores of each pair.

        Returns:
            (simulations,) the share in each simulation.
        """
        wrong: F64 = ndtr(-(np.abs(mean) + self._tie / 2) / np.sqrt(variance)).mean(axis=1)
        return wrong

    def _information(self, mean: F64, variance: F64) -> F64:
        """Compute how informative an answer about each pair is, to choose the best pairs.

        If ties are possible, an answer has the information of two comparisons: whether the
        difference of the scores is above the tie threshold, and whether it is below minus the
        threshold. Pairs of equal information get random differences of at most 1e-9.

        Args:
            mean, variance: (simulations, pairs) the mean and the variance of the difference of the
                two scores of each pair.

        Returns:
            (simulations, pairs) the information in bits.
        """
        if self._measuring is not None:
            reliability, scale = self._measuring
            bits = information_of_measurement(reliability * mean, reliability**2 * variance, scale)
        elif not self._tie:
            bits = information(mean, variance)
        else:
            bits = information(mean - self._tie, variance) + information(mean + self._tie, variance)
        return bits + _RANDOM_BITS * self._rng.random(bits.shape)

    def _estimate_tops(self) -> _Tops:
        """Estimate which items are top items, from draws of the scores."""
        q = np.zeros(self._mean.shape)
        sure = np.ones(SIMULATIONS)
        for simulation, scores in enumerate(self._draw_scores()):
            for members, top in zip(self._sample.members, self._sample.top, strict=True):
                margins = above_edge(scores[:, members], top)
                is_top_item = margins > 0  # (draws, members)
                q[simulation, members] = np.mean(is_top_item, axis=0)
                best_first = np.argsort(-self._mean[simulation, members])
                margins_of_expected_top = margins[:, best_first[:top]]
                sure_of_group = self._p_of_good_top(margins_of_expected_top)
                # Every group must reach the goal, so the least sure group counts.
                sure[simulation] = min(sure[simulation], sure_of_group)
        return _Tops(q, sure)

    def _p_of_good_top(self, margins: Draws) -> float:
        """Estimate the probability that the expected top of a group is good enough for the goal.

        Args:
            margins: (draws, top) the margins of the items that are expected to be the top, see
                `above_edge`.
        """
        # Items that are surely top items are not in the sample, and none of them is wrong. So the
        # sample may have as many wrong items as the whole top.
        n_allowed = self._goal.allowed(self._goal.top)
        n_wrong = wrong_of_top(margins, self._tie)
        return float(np.mean(n_wrong <= n_allowed))

    def _draw_scores(self) -> F64:
        """Draw scores from the simulated posteriors, as (simulations, draws, items)."""
        n_items = len(self._sample.items)
        jitter = 1e-9 * np.eye(n_items)  # keeps the covariance positive definite
        root = np.linalg.cholesky(self._covariance + jitter)
        noise = self._rng.standard_normal((_DRAWS, n_items))
        scores: F64 = self._mean[:, None, :] + noise @ root.transpose(0, 2, 1)
        return scores

    def _ask(self, worth: F64, n_questions: int) -> None:
        """Ask about the most informative pairs and some random pairs, and learn from the answers.

        After a question, pairs that share an item with its pair are worth less. If the goal is the
        whole order, they are worth nothing. If the goal is a top, they are worth half, because few
        items are worth asking about.

        Args:
            worth: (simulations, pairs) the worth of an answer about each pair; it is changed.
            n_questions: number of questions in each simulation.
        """
        factor_of_sharing = _SHARED_ITEM if self._goal.top else 0.0
        for _ in range(n_questions):
            best_pair = worth.argmax(axis=1)
            is_holdout = self._rng.random(SIMULATIONS) < self._holdout
            random_pair = self._rng.integers(worth.shape[1], size=SIMULATIONS)
            pair = np.where(is_holdout, random_pair, best_pair)
            first = self._first[pair]
            second = self._second[pair]
            shares_item = self._has_item[first] | self._has_item[second]
            worth[shares_item] *= factor_of_sharing
            self._observe(first, second)

    def _observe(self, first: I64, second: I64) -> None:
        """Draw an answer about a pair in each simulation, and learn from it.

        The update is moment matching, as in `Posterior.observe`: with the slope and the weight of
        the log-likelihood of the difference z = c (s_first - s_second),

            gain = covariance of the scores with z
            mean of the scores += gain slope,  covariance -= gain gain^T weight

        Args:
            first, second: (simulations,) the indices of the two items of the pair.
        """
        rows = np.arange(SIMULATIONS)
        c = self._reliability
        true_z = c * (self._truth[rows, first] - self._truth[rows, second])
        noisy_z = true_z + self._rng.standard_normal(SIMULATIONS)
        covariance = self._covariance
        gain = c * (covariance[rows, :, first] - covariance[rows, :, second])
        mean_of_z = c * (self._mean[rows, first] - self._mean[rows, second])
        variance_of_z = c * (gain[rows, first] - gain[rows, second])
        slope, weight = self._slope_and_weight(noisy_z, mean_of_z, variance_of_z)
        self._mean += gain * slope[:, None]
        weighted_gain = gain * weight[:, None]
        covariance -= gain[:, :, None] * weighted_gain[:, None, :]

    def _slope_and_weight(self, noisy_z: F64, mean: F64, variance: F64) -> tuple[F64, F64]:
        """Compute the derivatives of an answer's log-likelihood in z, with z uncertain.

        An answer depends on z plus noise of variance 1. The uncertainty of z is added to the noise,
        and the standard deviation of both together is the unit of z in the likelihood.

        Args:
            noisy_z: (simulations,) z plus noise, which decides the answer.
            mean, variance: (simulations,) the mean and the variance of z before the answer.

        Returns:
            (simulations,) the first derivatives, (simulations,) minus the second derivatives.
        """
        noise_sd = np.sqrt(1 + np.maximum(variance, _LEAST_VARIANCE))
        if self._measuring is None:
            target = self._target(noisy_z)
            blind = np.zeros(SIMULATIONS)  # simulated annotators give no answer blindly
            likelihood = pair_likelihood(mean / noise_sd, target, self._tie / noise_sd, blind, 0.0)
        else:
            _, scale = self._measuring
            probit = np.clip(scale * noisy_z, -MOST_PROBIT, MOST_PROBIT)
            likelihood = measurement_likelihood(mean / noise_sd, probit, scale * noise_sd)
        return likelihood.slope / noise_sd, likelihood.weight / noise_sd**2

    def _target(self, noisy_z: F64) -> F64:
        """Turn noisy differences of two scores into answers: 1 for left, 0 for right, ½ for a tie.

        The answer is a tie if the difference is at most the tie threshold above or below 0.
        """
        right_or_tie = np.where(noisy_z < -self._tie, 0.0, 0.5)
        return np.where(noisy_z > self._tie, 1.0, right_or_tie)


def _factors_of_variance(sd_of_logarithm: float) -> F64:
    """Choose the factor by which the variance of the scores is multiplied in each simulation.

    The factors are evenly spaced quantiles of a log-normal distribution with the median 1.
    """
    quantiles = ndtri((np.arange(SIMULATIONS) + 0.5) / SIMULATIONS)
    factors: F64 = np.exp(sd_of_logarithm * quantiles)
    return factors


def _covariance_of_items(posterior: Posterior, items: I64) -> F64:
    """Return the covariance of the scores of some items, estimated from draws if necessary."""
    if posterior.covariance is None:
        return np.asarray(np.cov(posterior.draws[:, items], rowvar=False))
    return posterior.covariance[np.ix_(items, items)]


def _typical_reliability(posterior: Posterior) -> float:
    """Return the mean of the annotators' reliabilities; 1 before anybody has answered.

    It is at least 0.05, so that a simulated answer always says something about the scores.
    """
    if not len(posterior.reliability):
        return 1.0
    return max(float(posterior.reliability.mean()), 0.05)
