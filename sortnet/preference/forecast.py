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
_OUTSIDE = int((1 - LEVEL) / 2 * SIMULATIONS)  # simulations that end before it, and after it
_ITEMS = 40  # items that are simulated; of more a sample stands for all
_GROWTH = 0.08  # answers between two looks, relative to all so far
_ANSWERS_PER_ITEM = 40  # simulated at most
_SHARED_ITEM = 0.5  # what a pair is worth after a question about one of its items
_DRAWS = 100  # of the scores, to see how sure the top is
# The spread of the scores is poorly known until each pair of neighbours was asked several times.
# With this standard deviation of the logarithm of their variance, ranges hold the true number in
# 85 to 97 % of sessions of 20 to 80 items whose scores spread by 0.8 to 3.
_SPREAD = 0.8
_SPREAD_OF_MEASURED = 0.4  # measurements say more of it
# The moment at which a session sees that its goal is reached varies by a few per cent.
_SLACK = 0.05
MANY = 1 << 20  # answers; more are "not known"


@dataclass(frozen=True)
class Forecast:
    """The number of answers, from the first one on, with which a session is expected to stop.

    Attributes:
        low, high: with a probability of about 80 % it is between them; None: not known.
        middle: as probably more as less; None: not known.
    """

    low: int
    middle: int | None
    high: int | None

    def left(self, answered: int) -> tuple[int, int | None, int | None]:
        """The same counted from now on, at least one each.

        >>> Forecast(40, 70, None).left(50)
        (1, 20, None)
        """
        low, middle, high = (
            None if number is None else max(number - answered, 1)
            for number in (self.low, self.middle, self.high)
        )
        return low or 1, middle, high


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

    In each simulation the scores are a draw from the posterior, and the answers are chosen, n_given
    and learned from as in a session. Their spread is varied, as a session knows it badly itself.
    Before any answer the posterior is the prior, so that a session is forecast that has not begun.

    Args:
        posterior: of the scores, by the answers so far.
        groups: of the items.
        goal: at which the session stops.
        answered: number of answers so far.
        checks_left: number of answers to the hold-out that are missing to check the model.
        holdout: share of questions about random pairs.
        worth: how many answers about pairs an answer says as much as: 1 if it is about a pair.
        measuring: the reliability and the scale of who measures; None: answers are words.
        seed: of all random choices.

    Cost: about a tenth of a second, whatever the number of items: of more than 40 a sample is
    simulated, each of whose answers stands for as many as the items that each of them stands for.
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
    return Forecast(ceil(min(low, MANY)), _whole(middle), _whole(highest + slack))


def _whole(number: float) -> int | None:
    return ceil(number) if number <= MANY else None


@dataclass(frozen=True, eq=False)
class _Sample:
    """Items that are simulated, and what they stand for.

    Attributes:
        items: (m,) their numbers.
        members: of each of their groups, the places in `items`.
        top: number of wanted top items of each group; 0s without such a goal.
        ratio: answers of the session for each one of the sample.
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
    """Groups in random order, until there are enough items; of a large group a part.

    For a goal of top items the part has those whose membership is least certain.
    """
    larger = [members for members in groups.members if len(members) > max(goal.top, 1)]
    q = among_top(posterior, groups, goal.top) if goal.top else None
    items: list[I64] = []
    places: list[I64] = []
    top: list[int] = []
    n_items = 0
    for number in rng.permutation(len(larger)).tolist():
        members = larger[number]
        room = _ITEMS - n_items
        if room < 2:
            break
        if q is None:
            part = members if len(members) <= room else rng.choice(members, room, replace=False)
            top.append(0)
        else:
            part, k = _undecided(members, q[members], room, goal.top)
            top.append(k)
        items.append(part)
        places.append(np.arange(n_items, n_items + len(part)))
        n_items += len(part)
    chosen = np.concatenate(items)
    if q is None:
        ratio = sum(map(len, larger)) / n_items
    else:
        every = np.concatenate(larger)
        open_, open_chosen = (np.sum(q[group] * (1 - q[group])) for group in (every, chosen))
        ratio = max(float(open_ / max(open_chosen, 1e-9)), 1.0)
    return _Sample(chosen, tuple(places), tuple(top), ratio)


def _undecided(members: I64, q: F64, most: int, top: int) -> tuple[I64, int]:
    """Members of a group that may or may not be of its top, and how many of them are."""
    if len(members) <= most:
        return members, top
    open_first = np.argsort(-q * (1 - q), kind="stable")[:most]
    return members[open_first], min(max(round(float(q[open_first].sum())), 1), most - 1)


class _Sessions:
    """Simulated sessions about the same items, side by side; each has its own true scores.

    What they know is a Gaussian that is updated answer by answer, as `Posterior.observe` does.
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
        self._reliability = _typical_reliability(posterior) if measuring is None else measuring[0]
        items = sample.items
        unknown = _SPREAD if measuring is None else _SPREAD_OF_MEASURED
        spread = np.exp(unknown * ndtri((np.arange(SIMULATIONS) + 0.5) / SIMULATIONS))
        root = np.sqrt(spread)[:, None]
        draws = rng.integers(len(posterior.draws), size=SIMULATIONS)
        self._truth: F64 = root * posterior.draws[np.ix_(draws, items)]
        self._mean: F64 = root * posterior.mean[items]
        if posterior.covariance is None:
            covariance = np.cov(posterior.draws[:, items], rowvar=False)
        else:
            covariance = posterior.covariance[np.ix_(items, items)]
        self._covariance: F64 = spread[:, None, None] * covariance
        self._first, self._second = sample.pairs()
        n_pairs = len(self._first)
        self._has_item: Bool = np.zeros((len(items), n_pairs), np.bool_)
        self._has_item[self._first, np.arange(n_pairs)] = True
        self._has_item[self._second, np.arange(n_pairs)] = True

    def answers_to_goal(self, answered: float) -> F64:
        """(simulations,) the number of answers until each reaches its goal; inf: not known.

        `answered` is the number of answers so far about the sample. The last simulations are not
        run to their ends, which no forecast reads.
        """
        n_items = len(self._sample.items)
        most = _ANSWERS_PER_ITEM * n_items // 2
        needed = np.full(SIMULATIONS, np.inf)
        n_given = 0
        while True:
            mean, variance = self._differences()
            wrong = self._wrong_share(mean, variance)
            q, sure = self._top()
            reached = wrong <= self._goal.wrong if sure is None else sure >= SURE
            needed[reached & np.isinf(needed)] = n_given
            if n_given >= most or np.isfinite(needed).sum() >= SIMULATIONS - _OUTSIDE:
                break
            worth = self._information(mean, variance)
            if q is not None:
                open_ = q * (1 - q)
                worth *= open_[:, self._first] + open_[:, self._second]
            growth = round(_GROWTH * (n_given + answered + n_items / 2))
            count = min(max(growth, 1), max(n_items // 4, 1))
            self._ask(worth, count)
            n_given += count
        if not self._goal.top:
            # Late in a session errors fall with the root of the number of answers.
            later = (answered + n_given) * (wrong / self._goal.wrong) ** 2 - answered
            needed = np.where(np.isinf(needed), np.maximum(later, n_given), needed)
        return needed

    def _differences(self) -> tuple[F64, F64]:
        """(simulations, pairs) the means and variances of the differences of all pairs."""
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
        """(simulations, items) how probably each is of the top; (simulations,) how sure the top is.

        None and None without a goal of top items.
        """
        if not self._goal.top:
            return None, None
        jitter = 1e-9 * np.eye(len(self._sample.items))
        root = np.linalg.cholesky(self._covariance + jitter)
        noise = self._rng.standard_normal((_DRAWS, len(jitter)))
        scores = self._mean[:, None, :] + noise @ root.transpose(0, 2, 1)
        q, sure = np.zeros(self._mean.shape), np.ones(SIMULATIONS)
        for places, top in zip(self._sample.members, self._sample.top, strict=True):
            for simulation in range(SIMULATIONS):
                margins = above_edge(scores[simulation][:, places], top)
                q[simulation, places] = np.mean(margins > 0, axis=0)
                best = np.argsort(-self._mean[simulation, places])[:top]
                wrong = wrong_of_top(margins[:, best], self._tie)
                # Items that are surely of the top are not in the sample, and none of them is wrong.
                of_group = np.mean(wrong <= self._goal.allowed(self._goal.top))
                sure[simulation] = min(sure[simulation], of_group)
        return q, sure

    def _ask(self, worth: F64, count: int) -> None:
        """Ask about the most informative pairs, some random ones, and learn from the answers.

        Each answer makes others about its items worth less: of a whole order no item is in two of
        the informative pairs; but of a top, few items are worth asking about.
        """
        rows = np.arange(SIMULATIONS)
        for _ in range(count):
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
        c, covariance = self._reliability, self._covariance
        gap = c * (self._truth[rows, first] - self._truth[rows, second])
        noisy_gap = gap + self._rng.standard_normal(SIMULATIONS)
        target = np.where(noisy_gap > self._tie, 1.0, np.where(noisy_gap < -self._tie, 0.0, 0.5))
        gain = c * (covariance[rows, :, first] - covariance[rows, :, second])
        mean = c * (self._mean[rows, first] - self._mean[rows, second])
        variance = np.maximum(c * (gain[rows, first] - gain[rows, second]), 1e-12)
        noise = np.sqrt(1 + variance)
        sighted = np.zeros(SIMULATIONS)  # nobody answers blindly
        if self._measuring is None:
            _, slope, weight = answers(mean / noise, target, self._tie / noise, sighted, 0.0)
        else:
            scale = self._measuring[1]
            probit = np.clip(scale * noisy_gap, -MOST_PROBIT, MOST_PROBIT)
            _, slope, weight = measured(mean / noise, probit, scale * noise)
        self._mean += gain * (slope / noise)[:, None]
        shrunk = gain * (weight / noise**2)[:, None]
        covariance -= gain[:, :, None] * shrunk[:, None, :]


def _typical_reliability(posterior: Posterior) -> float:
    """The mean of the annotators' reliabilities; 1 before anybody has answered."""
    if not len(posterior.reliability):
        return 1.0
    return max(float(posterior.reliability.mean()), 0.05)
