"""The distance of a session from its goal, how many questions are left, and whether to stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import gammainccinv, ndtr

from sortnet.core import F64, I64, Bool
from sortnet.preference.goal import SURE, Goal, above_edge, wrong_of_top
from sortnet.preference.groups import Apart, Groups
from sortnet.preference.model import Draws, Posterior, information_of_words

ENOUGH_CHECKS = 8  # hold-out answers needed for a check
NO_HOLDOUT = 30  # 30 answers or more, none of them of the hold-out, are imported votes
_DRAWS_OF_FUTURE = 100
_WIDEST = 3.0  # the end of a range of questions is at most 3 times the start
# The share that is wrong falls with these powers of the number of answers: the best ones of
# simulated studies of 20 to 80 items with a whole order as the goal, and of 100 with the top 10.
_POWER_OF_ORDER, _POWER_OF_TOP = 0.7, 1.75
_LEAST_GROWTH = 0.05
_LEAST_WANTED = 0.001  # a goal of no error at all is never sure
# A goal that is reached in fewer than 5 % of 40 futures is out of reach.
_FUTURES_OF_ALL, _HOPELESS = 40, 0.05
_OPEN = 0.1  # a place is open if it is wrong or right with at least this probability
_MANY_PAIRS = 20_000  # the share of wrong pairs is estimated from at most this number of pairs
_PAIRS_OF_FUTURE = 2_000  # and in a future that is drawn, from at most this number
_MANY_PAIRS_OF_GROUP = 200  # a group's share is estimated from this number, even with many groups


class Standing(Enum):
    """How far a session is."""

    ASKING = "the goal is not reached"
    SHORT = "the questions that are left are too few for the goal"
    NEAR_TIES = "near-ties keep the goal out of reach"
    UNCHECKED = "the goal is reached, if unseen answers confirm the model"
    CONTRADICTED = "the goal is reached by the model, which unseen answers contradict"
    REACHED = "the goal is reached"
    ALL_TOP = "all items are top items"


@dataclass(frozen=True)
class GroupStanding:
    """The distance of one group of items from the goal of the session.

    Attributes:
        group: the number of the group, in the order of the groups' first items.
        items: the number of items in the group.
        answers: the number of answers about pairs in the group.
        wrong: the expected share of the group's pairs that are in the wrong order, 0 for a single
            item. If the goal is a top, the expected share of the top items that do not belong to
            the top.
        sure: the probability that no more top items are wrong than the goal allows; 1 if the goal
            is not a top.
        stop: whether to stop asking about the group.
    """

    group: int
    items: int
    answers: int
    wrong: float
    sure: float
    stop: bool


@dataclass(frozen=True)
class Check:
    """The check whether the model is right about unseen answers as often as it expects.

    Attributes:
        n: number of unseen answers, without ties.
        right: share of the unseen answers that the model predicts.
        expected: share that a well calibrated model predicts.
        passed: whether there are enough answers, and the model is right about the expected share,
            or at most two standard errors less.
        left_out: whether there were no hold-out answers, so that a fifth of all answers was left
            out of a fit to check the model.
    """

    n: int = 0
    right: float = float("nan")
    expected: float = float("nan")
    passed: bool = False
    left_out: bool = False


class OpenRanks(NamedTuple):
    """The first and the last rank of items of a group that cannot be told apart."""

    group: int
    first: int
    last: int


@dataclass(frozen=True)
class Remaining:
    """The distance of a session from its goal; the sentences about it are made by the store.

    Attributes:
        goal: the goal.
        standing: how far the session is.
        wrong: share of pairs of items in the same group that are expected to be in the wrong order.
            If the goal is a top, share of the top items that are expected not to belong there.
        sure: the probability that no more top items are wrong than the goal allows, the mean of all
            groups; 1 if the goal is not a top.
        check: the check of the model by unseen answers.
        questions: number of questions that are expected to be left, of all annotators together, and
            at most the number that can still be asked. None if it is not known.
        fewest, most: a range for the number of questions; None if it is not known.
        n_free: the number of questions that can still be asked.
        n_annotators: the number of annotators who have answered.
        only_models: whether only models have answered, and no gold pair measures their errors.
        features: whether the items have features.
        groups: the distance of each group; empty without groups.
        near_ties: the ranks that cannot be told apart, if they keep the goal out of reach.
        apart: the items that nobody compared across sets; None if there are no such items.
    """

    goal: Goal
    standing: Standing
    wrong: float
    sure: float = 1.0
    check: Check = Check()
    questions: int | None = None
    fewest: int | None = None
    most: int | None = None
    n_free: int = 0
    n_annotators: int = 0
    only_models: bool = False
    features: bool = False
    groups: tuple[GroupStanding, ...] = ()
    near_ties: OpenRanks | None = None
    apart: Apart | None = None

    @property
    def stop(self) -> bool:
        """Whether to stop."""
        return self.standing in (Standing.REACHED, Standing.ALL_TOP)

    @property
    def reached(self) -> bool:
        """Whether the goal is reached, if the model is right."""
        return self.stop or self.standing in (Standing.UNCHECKED, Standing.CONTRADICTED)


class Distance(NamedTuple):
    """The distance of some items from the goal, by the posterior alone.

    Attributes:
        wrong, sure: as in `GroupStanding`.
        reached: whether the goal is reached, if the model is right.
    """

    wrong: float
    sure: float
    reached: bool


def distance(
    posterior: Posterior,
    groups: Groups,
    goal: Goal,
    *,
    seed: int = 0,
    most_pairs: int = _MANY_PAIRS,
) -> Distance:
    """Measure the distance of all groups from the goal. Each group must reach a top.

    Args:
        posterior: the posterior of the scores.
        groups: the groups of the items.
        goal: the goal of the session.
        seed: the seed of the pairs from which the share of wrong pairs is estimated.
        most_pairs: the most pairs from which the share is estimated.

    Cost: a look at 20,000 pairs at most; for a goal of top items, a partition of the scores in each
    draw of the posterior.
    """
    if goal.top:
        tops = [_of_top(posterior, members, goal) for members in groups.members]
        wrong, sure, reached = np.array(tops).T
        return Distance(float(wrong.mean()), float(sure.mean()), bool(reached.all()))
    mean, variance = posterior.difference(
        *_compared_pairs(groups, np.random.default_rng(seed), most_pairs)
    )
    wrong_share = _wrong_share(mean, variance, posterior.tie_threshold)
    return Distance(wrong_share, 1.0, wrong_share <= goal.wrong)


def _compared_pairs(groups: Groups, rng: np.random.Generator, most: int) -> tuple[I64, I64]:
    """Return all pairs within groups; if these are more than `most`, random ones."""
    if groups.n_pairs <= most:
        return groups.every
    return groups.draw(rng, most)


def _of_top(posterior: Posterior, members: I64, goal: Goal) -> Distance:
    """Measure how certain the k items of a group with the highest scores are its top k."""
    scores = posterior.draws[:, members]
    best_first = np.argsort(-posterior.scores[members], kind="stable")
    margins: Draws = above_edge(scores, goal.top)[:, best_first[: goal.top]]
    n_wrong = wrong_of_top(margins, posterior.tie_threshold)
    k = margins.shape[1]
    sure = float(np.mean(n_wrong <= goal.allowed(k)))
    return Distance(float(n_wrong.mean()) / max(k, 1), sure, sure >= SURE)


def _wrong_share(mean: F64, variance: F64, tie_threshold: float) -> float:
    """Compute the share of pairs that are expected to be in the wrong order.

    It is the mean of Φ(-(|μ| + τ/2) / σ) over the pairs, where μ and σ are the mean and the
    standard deviation of the difference of two scores. Items that differ by less than the tie
    threshold τ have no wrong order. Only half of the threshold is counted, because the threshold is
    uncertain itself.
    """
    return float(ndtr(-(np.abs(mean) + tie_threshold / 2) / np.sqrt(variance)).mean())


def group_standings(
    posterior: Posterior, groups: Groups, n_answers: I64, goal: Goal, *, passed: bool, seed: int
) -> tuple[GroupStanding, ...]:
    """Measure the distance of each group from the goal.

    Args:
        posterior: the posterior of the scores.
        groups: the groups of the items.
        n_answers: (n,) the number of answers about each item.
        goal: the goal of the session.
        passed: whether the check of the model passed; there is one check for all groups.
        seed: the seed of the pairs from which a group's share of wrong pairs is estimated.

    Cost: a look at 10,000 pairs of each group at most, fewer if there are many groups.
    """
    rng = np.random.default_rng(seed)
    most_pairs = max(_MANY_PAIRS // len(groups), _MANY_PAIRS_OF_GROUP)
    standings = []
    for number, members in enumerate(groups.members):
        if goal.top:
            wrong, sure, reached = _of_top(posterior, members, goal)
        else:
            wrong, sure = 0.0, 1.0
            if len(members) > 1:
                in_group = Groups(None, len(members))  # pairs of indexes in the array `members`
                i, j = _compared_pairs(in_group, rng, most_pairs)
                mean, variance = posterior.difference(members[i], members[j])
                wrong = _wrong_share(mean, variance, posterior.tie_threshold)
            reached = wrong <= goal.wrong
        # An answer about a pair counts for both of its items.
        n_group_answers = int(n_answers[members].sum()) // 2
        stop = passed and reached
        standing = GroupStanding(number, len(members), n_group_answers, wrong, sure, stop)
        standings.append(standing)
    return tuple(standings)


def questions_left(wrong: float, goal: Goal, n_answers: float) -> float:
    """Estimate the number of questions left, by how the share that is wrong has fallen in studies.

    The share falls with a power of the number of answers. For a top it falls until the number of
    wrong items, if it has a Poisson distribution, is at most the allowed one with the wanted
    probability. At least a twentieth of the answers so far is expected to be left.

    Args:
        wrong: the share that is expected to be wrong, see `Distance`.
        goal: the goal, which is not reached.
        n_answers: the number of answers so far.

    >>> round(questions_left(0.2, Goal(0.1), 100))
    169
    """
    wanted = goal.wrong
    power = _POWER_OF_ORDER
    if goal.top:
        wanted = float(gammainccinv(goal.allowed(goal.top) + 1, SURE)) / goal.top
        power = _POWER_OF_TOP
    growth: float = (wrong / max(wanted, _LEAST_WANTED)) ** (1 / power)
    return n_answers * max(growth - 1, _LEAST_GROWTH)


def range_of(questions: float, n_free: int) -> tuple[int, int]:
    """Return a range around a number of questions, whose end is at most 3 times its start.

    >>> range_of(30, 1000), range_of(30, 40), range_of(30, 10)
    ((18, 51), (18, 40), (10, 10))
    """
    factor_each_way = _WIDEST**0.5
    # The start is rounded up, and the end down.
    fewest = min(ceil(questions / factor_each_way), n_free)
    most = min(max(int(questions * factor_each_way), 1), n_free)
    return min(fewest, most), most


def near_ties(
    posterior: Posterior, groups: Groups, goal: Goal, left: tuple[I64, I64, F64], *, seed: int
) -> OpenRanks | None:
    """Find the ranks that stay open even if every pair is answered, if they forbid the goal.

    With all pairs answered the precision of the scores is today's and the information of the
    answers. The scores of some futures are drawn with the variance that the answers take away.

    Args:
        posterior: the posterior of the scores, with a covariance.
        groups: the groups of the items.
        goal: the goal of the session.
        left: (m,), (m,), (m,) the two items of each pair, and how often it can still be asked.
        seed: the seed of the draws.

    Returns:
        Ranks of the group that is furthest from the goal; None if the goal can be reached.
    """
    covariance = posterior.covariance
    assert covariance is not None
    precision = np.linalg.inv(covariance) + _information(posterior, *left)
    floor = np.linalg.inv(precision).astype(np.float64)
    values, vectors = np.linalg.eigh(covariance - floor)
    root = vectors * np.sqrt(np.maximum(values, 0))
    rng = np.random.default_rng(seed)
    n = posterior.n_items
    noise = rng.multivariate_normal(np.zeros(n), floor, _DRAWS_OF_FUTURE, method="eigh")
    n_reached = 0
    for _ in range(_FUTURES_OF_ALL):
        scores = posterior.scores + root @ rng.standard_normal(n)
        future = replace(posterior, scores=scores, draws=scores + noise, covariance=floor)
        n_reached += distance(future, groups, goal, seed=seed, most_pairs=_PAIRS_OF_FUTURE).reached
    if n_reached >= _HOPELESS * _FUTURES_OF_ALL:
        return None
    last = replace(posterior, draws=posterior.scores + noise, covariance=floor)
    no_answers = np.zeros(n, np.int64)
    standings = group_standings(last, groups, no_answers, goal, passed=False, seed=seed)
    furthest = max(standings, key=lambda standing: standing.wrong).group
    return OpenRanks(furthest, *_open_ranks(last, groups.members[furthest], goal))


def _information(posterior: Posterior, i: I64, j: I64, times: F64) -> F64:
    """Return the expected information, (n, n), of answers about these pairs."""
    of_answer = information_of_words(*posterior.difference(i, j))
    information = np.zeros((posterior.n_items, posterior.n_items))
    information[i, j] = information[j, i] = -times * of_answer
    information[np.diag_indices(posterior.n_items)] = -information.sum(axis=1)
    return information


def _open_ranks(posterior: Posterior, members: I64, goal: Goal) -> tuple[int, int]:
    """Return the first and the last rank of items whose place is open.

    For a whole order, it is the longest run of neighbours that may be in the wrong order.
    """
    best_first = members[np.argsort(-posterior.scores[members], kind="stable")]
    if goal.top:
        q = np.mean(above_edge(posterior.draws[:, best_first], goal.top) > 0, axis=0)
        is_open = np.minimum(q, 1 - q) >= _OPEN
        is_open[goal.top - 1 : goal.top + 1] = True
        ranks = np.flatnonzero(is_open) + 1
        return int(ranks[0]), int(ranks[-1])
    mean, variance = posterior.difference(best_first[:-1], best_first[1:])
    is_sure = ndtr(-np.abs(mean) / np.sqrt(variance)) < _OPEN
    ends = np.concatenate(([-1], np.flatnonzero(is_sure), [len(is_sure)]))
    longest = int(np.argmax(np.diff(ends)))
    return int(ends[longest]) + 2, int(ends[longest + 1]) + 1


def holdout_check(p: F64, is_right: Bool, *, left_out: bool) -> Check:
    """Check the model by unseen answers.

    The check passes if there are at least 8 answers, and the share of right predictions is at most
    two standard errors below the mean of p. The standard error is sqrt(mean of p (1 - p) / m).

    Args:
        p: (m,) the probability of the answer that the model expects to each question.
        is_right: (m,) whether the expected answer was given.
        left_out: as in `Check`.
    """
    m = len(p)
    if not m:
        return Check(left_out=left_out)
    share_right = float(is_right.mean())
    expected_share = float(p.mean())
    standard_error = float(np.sqrt(np.mean(p * (1 - p)) / m))
    passed = m >= ENOUGH_CHECKS and share_right >= expected_share - 2 * standard_error
    return Check(m, share_right, expected_share, passed, left_out)
