"""The goal of a session, the distance from it, how many questions are left, and whether to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import gammainccinv, ndtr

from sortnet.core import F64, I64, Bool
from sortnet.preference.groups import Apart, Groups
from sortnet.preference.model import Draws, Posterior, information_of_words, laplacian

WRONG = 0.1  # the share that may be wrong, unless the user sets another
SURE = 0.9  # wanted probability that at most the allowed share of the top items is wrong
_ALL = 1e6  # the margin of an item if all items of its group are top items
ENOUGH_CHECKS = 8  # hold-out answers needed for a check
_QUESTIONS_PER_CHECK = 10  # one question in ten is of the hold-out
_DRAWS_OF_FUTURE = 100
_WIDEST = 3.0  # the end of a range of questions is at most 3 times the start
# The share that is wrong falls with these powers of the number of answers: the best ones of
# simulated studies of 20 to 80 items with a whole order as the goal, and of 100 with the top 10.
_POWER_OF_ORDER, _POWER_OF_TOP = 0.85, 2.2
_LEAST_GROWTH = 0.05
_LEAST_WANTED = 0.001  # a goal of no error at all is never sure
# A goal that is reached in fewer than 5 % of 40 futures is out of reach.
_FUTURES_OF_ALL, _HOPELESS = 40, 0.05
_OPEN = 0.1  # a place is open if it is wrong or right with at least this probability
_MANY_PAIRS = 20_000  # the share of wrong pairs is estimated from at most this number of pairs
_PAIRS_OF_FUTURE = 2_000  # and in a future that is drawn, from at most this number
_MANY_PAIRS_OF_GROUP = 200  # a group's share is estimated from this number, even with many groups


@dataclass(frozen=True)
class Goal:
    """The goal of a session: a ranking that is good enough.

    Attributes:
        wrong: largest share that may be wrong. For a whole order it is the expected share of pairs
            in the wrong order. For top items it is the share of items that do not belong there; it
            may be exceeded with a probability of 10 %.
        top: number k of top items of each group; 0 if the goal is the whole order.

    >>> Goal(0.29).allowed(100)
    29
    """

    wrong: float = WRONG
    top: int = 0

    def allowed(self, k: int) -> int:
        """Compute how many items may be wrong among k top items."""
        rounding_error = 1e-9  # .29 times 100 is a little less than 29
        return int(self.wrong * k + rounding_error)


def above_edge(scores: Draws, top: int) -> Draws:
    """Compute the margin of each item of a group: its score minus the score at the edge of the top.

    The edge is half-way between the k-th and the next score of the group, so a margin above 0 means
    that the item is among the top. In a group of at most k items all margins are large.

    Args:
        scores: (draws, n) the scores of the items of the group.
        top: the number k of top items.

    Returns:
        (draws, n) the margins.
    """
    n = scores.shape[1]
    if n <= top:
        return np.full(scores.shape, _ALL)
    # In ascending order the best k scores begin at n - k. Only the two scores at this edge are
    # needed in their places, which is faster than a sort.
    partitioned = np.partition(scores, (n - top - 1, n - top), axis=1)
    best_outside_and_worst_inside = partitioned[:, n - top - 1 : n - top + 1]
    margins: Draws = scores - best_outside_and_worst_inside.mean(axis=1, keepdims=True)
    return margins


def among_top(posterior: Posterior, groups: Groups, top: int) -> F64:
    """Estimate the probability that each item is in its group's top k, by the share of draws.

    Returns:
        (n,) the probabilities.
    """
    q = np.zeros(posterior.n_items)  # retired items are in no group and keep the 0
    for members in groups.members:
        q[members] = np.mean(above_edge(posterior.draws[:, members], top) > 0, axis=0)
    return q


class Standing(Enum):
    """State of a session."""

    ASKING = "the goal is not reached"
    SHORT = "the questions that are left are too few for the goal"
    NEAR_TIES = "near-ties keep the goal out of reach"
    UNCHECKED = "the goal is reached, if unseen answers confirm the model"
    CONTRADICTED = "the goal is reached by the model, which unseen answers contradict"
    REACHED = "the goal is reached"
    ALL_TOP = "all items are top items"


class GroupStanding(NamedTuple):
    """The distance of a group of items from the goal.

    Attributes:
        group: the number of the group, in the order of the groups' first items.
        items: the number of items.
        answers: the number of answers about pairs in the group, if they were counted.
        wrong: the expected share of the group's pairs that are in the wrong order, 0 for a single
            item. If the goal is a top, the expected share of the top items that do not belong to
            the top.
        sure: the probability that no more top items are wrong than the goal allows; 1 if the goal
            is not a top.
        stop: whether the goal is reached, if the model is right; in `Remaining`, whether the check
            of the model passed, too.
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

    @classmethod
    def of(cls, p: F64, is_right: Bool, *, left_out: bool) -> Check:
        """Check the model by unseen answers.

        The check passes if there are at least 8 answers, and the share of right predictions is at
        most two standard errors below the mean of p. The standard error is
        sqrt(mean of p (1 - p) / m).

        Args:
            p: (m,) the probability of the answer that the model expects to each question.
            is_right: (m,) whether the expected answer was given.
            left_out: as in `Check`.
        """
        m = len(p)
        if not m:
            return cls(left_out=left_out)
        right = float(is_right.mean())
        expected = float(p.mean())
        standard_error = float(np.sqrt(np.mean(p * (1 - p)) / m))
        passed = m >= ENOUGH_CHECKS and right >= expected - 2 * standard_error
        return cls(m, right, expected, passed, left_out)


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

    def with_check(self) -> Remaining:
        """Tell whether unseen answers confirm the reached goal, and how many are missing."""
        if self.check.passed:
            return replace(self, standing=Standing.REACHED, questions=0, fewest=0, most=0)
        if self.check.n >= ENOUGH_CHECKS:
            # More answers are needed until the check is passed, but their number is not known.
            return replace(self, standing=Standing.CONTRADICTED)
        n_wanted = (ENOUGH_CHECKS - self.check.n) * _QUESTIONS_PER_CHECK
        n = min(n_wanted, self.n_free)
        return replace(self, standing=Standing.UNCHECKED, questions=n, fewest=n, most=n)

    def with_questions(self, n_votes: int, n_for_unseen: int) -> Remaining:
        """Estimate the number of questions left; each group must reach a top by itself.

        Args:
            n_votes: the number of answers so far.
            n_for_unseen: the number of questions that ask about each item without an answer.
        """
        n_answers = n_votes + n_for_unseen
        if self.groups and self.goal.top:
            # Each item counts as if it had taken part in one answer at least.
            shares = np.array([max(group.answers, group.items // 2) for group in self.groups])
            n_of_group = n_answers * shares / shares.sum()
            n_left = sum(
                questions_left(group.wrong, self.goal, n)
                for group, n in zip(self.groups, n_of_group.tolist(), strict=True)
                if group.sure < SURE
            )
        else:
            n_left = questions_left(self.wrong, self.goal, n_answers)
        questions = n_for_unseen + n_left
        fewest, most = range_of(questions, self.n_free)
        return replace(
            self,
            standing=Standing.ASKING if questions <= self.n_free else Standing.SHORT,
            questions=min(ceil(questions), self.n_free),
            fewest=fewest,
            most=most,
        )


def group_standings(
    posterior: Posterior,
    groups: Groups,
    goal: Goal,
    *,
    seed: int,
    n_answers: I64 | None = None,
    most_pairs: int = _MANY_PAIRS,
) -> list[GroupStanding]:
    """Measure the distance of each group from the goal.

    Args:
        posterior: the posterior of the scores.
        groups: the groups of the items.
        goal: the goal of the session.
        seed: the seed of the pairs from which the share of wrong pairs is estimated.
        n_answers: (n,) the number of answers about each item; 0 if None.
        most_pairs: the most pairs from which the share is estimated.

    Cost: a look at 20,000 pairs at most, or at 200 of each group; for a goal of top items, a
    partition of the scores in each draw of the posterior.
    """
    rng = np.random.default_rng(seed)
    most_of_group = max(most_pairs // len(groups), _MANY_PAIRS_OF_GROUP)
    standings = []
    for number, members in enumerate(groups.members):
        n_items = len(members)
        # An answer about a pair counts for both of its items.
        answers = 0 if n_answers is None else int(n_answers[members].sum()) // 2
        wrong, sure = 0.0, 1.0
        if goal.top:
            wrong, sure = _of_top(posterior, members, goal)
        elif n_items > 1:
            group = Groups(None, n_items)  # pairs of indexes in the array `members`
            is_few = group.n_pairs <= most_of_group
            i, j = group.all_within() if is_few else group.draw(rng, most_of_group)
            wrong = _wrong_share(posterior, members[i], members[j])
        reached = sure >= SURE if goal.top else wrong <= goal.wrong
        standings.append(GroupStanding(number, n_items, answers, wrong, sure, reached))
    return standings


def overall(standings: Sequence[GroupStanding], goal: Goal) -> tuple[float, float, bool]:
    """Sum up the distances of all groups: `wrong`, `sure`, and whether the goal is reached.

    Each group must reach a top.
    """
    _, items, _, wrong, sure, reached = np.array(standings).T
    if goal.top:
        return float(wrong.mean()), float(sure.mean()), bool(reached.all())
    wrong_share = float(np.average(wrong, weights=items * (items - 1)))
    return wrong_share, 1.0, wrong_share <= goal.wrong


def _of_top(posterior: Posterior, members: I64, goal: Goal) -> tuple[float, float]:
    """Return the expected wrong share of a group's k items with the highest scores, and `sure`.

    An item that is below the edge by less than half of the tie threshold counts as a top item.
    """
    best_first = np.argsort(-posterior.scores[members], kind="stable")
    margins = above_edge(posterior.draws[:, members], goal.top)[:, best_first[: goal.top]]
    n_wrong = np.count_nonzero(margins < -posterior.tie_threshold / 2, axis=1)
    k = margins.shape[1]
    return float(n_wrong.mean()) / max(k, 1), float(np.mean(n_wrong <= goal.allowed(k)))


def _wrong_share(posterior: Posterior, i: I64, j: I64) -> float:
    """Compute the share of pairs that are expected to be in the wrong order.

    It is the mean of Φ(-(|μ| + τ/2) / σ) over the pairs, where μ and σ are the mean and the
    standard deviation of the difference of two scores. Items that differ by less than the tie
    threshold τ have no wrong order. Only half of the threshold is counted, because the threshold is
    uncertain itself.
    """
    mean, variance = posterior.difference(i, j)
    margin = np.abs(mean) + posterior.tie_threshold / 2
    return float(ndtr(-margin / np.sqrt(variance)).mean())


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
    126
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
    i, j, times = left
    n = posterior.n_items
    weight = times * information_of_words(*posterior.difference(i, j))
    floor = np.linalg.inv(np.linalg.inv(covariance) + laplacian(i, j, weight, n).toarray())
    values, vectors = np.linalg.eigh(covariance - floor)
    root = vectors * np.sqrt(np.maximum(values, 0))
    rng = np.random.default_rng(seed)
    noise = rng.multivariate_normal(np.zeros(n), floor, _DRAWS_OF_FUTURE, method="eigh")

    def future(scores: F64) -> tuple[Posterior, list[GroupStanding]]:
        posterior_then = replace(posterior, scores=scores, draws=scores + noise, covariance=floor)
        return posterior_then, group_standings(
            posterior_then, groups, goal, seed=seed, most_pairs=_PAIRS_OF_FUTURE
        )

    n_reached = 0
    for _ in range(_FUTURES_OF_ALL):
        _, standings = future(posterior.scores + root @ rng.standard_normal(n))
        n_reached += overall(standings, goal)[-1]
    if n_reached >= _HOPELESS * _FUTURES_OF_ALL:
        return None
    last, standings = future(posterior.scores)
    furthest = int(np.argmax([standing.wrong for standing in standings]))
    return OpenRanks(furthest, *_open_ranks(last, groups.members[furthest], goal))


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
    ends = np.concatenate(([0], np.flatnonzero(is_sure) + 1, [len(members)]))
    longest = int(np.argmax(np.diff(ends)))
    return int(ends[longest]) + 1, int(ends[longest + 1])
