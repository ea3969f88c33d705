"""Decide whether to stop asking, by the goal, the questions left and the hold-out check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sortnet.core import F64, I64, Bool
from sortnet.messages import count
from sortnet.preference.goal import SURE, Goal, top_margins, wrong_of_top
from sortnet.preference.groups import Groups, GroupStanding
from sortnet.preference.model import Draws, Posterior

ENOUGH_CHECKS = 8  # hold-out answers needed for a check
NO_HOLDOUT = 30  # 30 answers or more, none of them of the hold-out, are imported votes
_FUTURES = 12  # draws of the posterior that are taken as the truth
_BISECTIONS = 6
_MOST_GROWTH = 40.0  # of the number of answers; more are not foreseen
_DRAWS_OF_FUTURE = 100
_WIDEST = 3.0  # the end of a range of questions is at most 3 times the start
_MANY_PAIRS = 20_000  # the share of wrong pairs is estimated from at most this number of pairs
_MANY_PAIRS_OF_GROUP = 200  # a group's share is estimated from this number, even with many groups


@dataclass(frozen=True)
class Remaining:
    """The distance of a session from its goal.

    Attributes:
        questions: median of the number of questions that are left until the session may stop. It is
            at most the number of questions that annotators can still be asked. None if it is not
            known.
        wrong: share of pairs of items in the same group that are expected to be in the wrong order.
            If the goal is a top, share of the top items that are expected not to belong there.
        reached: whether the goal is reached, if the model is right.
        holdout_n: number of hold-out answers, without ties.
        holdout_right: share of the hold-out answers that a model fitted without them predicts.
        holdout_expected: share of the hold-out answers that a well calibrated model predicts.
        stop: whether to stop.
        why: one short line on the distance from the goal, the questions left and what to do.
        groups: the distance of each group; empty without groups.
        left_out: whether there were no hold-out answers, so that the model was checked by all
            answers, each predicted from all other answers.
        fewest, most: range that has the number of questions with a probability of 80 %. A bound
            that is not known is None.
        details: further sentences, without a full stop.
        apart: a sentence on items that nobody compared, see `parts_apart`; or empty.
    """

    questions: int | None
    wrong: float
    reached: bool
    holdout_n: int
    holdout_right: float
    holdout_expected: float
    stop: bool
    why: str
    groups: tuple[GroupStanding, ...] = ()
    left_out: bool = False
    fewest: int | None = None
    most: int | None = None
    details: tuple[str, ...] = ()
    apart: str = ""

    @property
    def checked(self) -> str:
        """Say in a sentence which share of unseen answers the model predicts."""
        kind = "left-out" if self.left_out else "hold-out"
        if not self.holdout_n:
            return f"no {kind} answers yet to check the model"
        answers = count(self.holdout_n, f"{kind} answer")
        return (
            f"the model predicts {self.holdout_right:.0%} of {answers} correctly, "
            f"{self.holdout_expected:.0%} were to be expected"
        )

    @property
    def likely_range(self) -> tuple[int, int] | None:
        """A narrow range of the number of questions that are left; None if it is not known.

        The range lies around the median, and its end is at most 3 times its start.

        >>> Remaining(30, 0.2, False, 0, 0, 0, False, "", fewest=5, most=40).likely_range
        (18, 40)
        """
        if self.questions is None:
            return None
        factor_each_way = _WIDEST**0.5
        low = int(self.questions / factor_each_way + 1)  # rounded up; `high` is rounded down
        high = int(self.questions * factor_each_way)
        if self.fewest is not None:
            low = max(low, self.fewest)
        if self.most is not None:
            high = min(high, self.most)
        return min(low, self.questions), max(high, self.questions)

    @property
    def range_left(self) -> str:
        """The range of the number of questions left, in words; empty if it is not known."""
        return range_in_words(self.fewest, self.most)


def range_in_words(fewest: int | None, most: int | None) -> str:
    """Write a range of numbers in words, rounded outwards.

    A range whose end is more than 3 times its start is too wide to help. Then only its start is
    written; if the start is below 3, only the end is written.

    Args:
        fewest: start of the range; None if the range is not known.
        most: end of the range; None if the end is not known.

    >>> range_in_words(63, 142), range_in_words(63, 400), range_in_words(63, None)
    ('60 to 150', 'at least 60', 'at least 60')
    >>> range_in_words(1, 12), range_in_words(7, 7), range_in_words(None, None)
    ('at most 12', '7', '')
    """
    if fewest is None:
        return ""
    step_of_low = _rounding_step(fewest)
    low = fewest // step_of_low * step_of_low
    if most is None:
        return f"at least {low:,}"
    step_of_high = _rounding_step(most)
    high = ceil(most / step_of_high) * step_of_high
    if low == high:
        return f"{low:,}"
    if most <= _WIDEST * fewest:
        return f"{low:,} to {high:,}"
    if fewest >= _WIDEST:
        return f"at least {low:,}"
    return f"at most {high:,}"


def _rounding_step(number: int) -> int:
    """Return the step for rounding a number: about a tenth of the number, 1 below 20."""
    if number < 20:
        return 1
    if number < 100:
        return 5
    return int(10 ** (len(str(number)) - 2))


class Check(NamedTuple):
    """The check whether the model is right about unseen answers as often as it expects.

    Attributes:
        n: number of unseen answers, without ties.
        right: share of the unseen answers that the model predicts.
        expected: share that a well calibrated model predicts.
        passed: whether there are enough answers, and the model is right about the expected share,
            or at most two standard errors less.
        left_out: whether the unseen answers are all answers, each predicted from all other answers,
            and not the hold-out.
    """

    n: int
    right: float
    expected: float
    passed: bool
    left_out: bool


class Left(NamedTuple):
    """The number of questions that are left until the session may stop.

    Attributes:
        fewest, most: range that has the number with a probability of 80 %. A bound that is not
            known is None.
        questions: median of the number; None if it is not known.
        suffices: whether the questions that can still be asked are enough to reach the goal.
    """

    fewest: int | None
    questions: int | None
    most: int | None
    suffices: bool = True


def questions_left(
    posterior: Posterior, groups: Groups, goal: Goal, n_answers: int, n_free: int, *, seed: int
) -> Left:
    """Estimate the number of questions left, by the draws of the posterior.

    With f times as many answers the variances of the scores are 1 / f of today's. What the session
    would believe then is drawn: the expected scores are drawn around today's with the variance that
    the answers take away. The number of answers is found by bisection for each of a dozen draws.

    Args:
        posterior: the posterior of the scores.
        groups: the groups of the items.
        goal: the goal of the session.
        n_answers: the number of answers so far.
        n_free: the number of questions that can still be asked.
        seed: the seed of the pairs that are looked at.

    Cost: about 70 looks at the distance from the goal.
    """
    if not n_answers:
        return Left(None, None, None, suffices=n_free > 0)
    factors = [_growth_needed(posterior, groups, goal, k, seed) for k in range(_FUTURES)]
    few, middle, many = np.quantile(factors, (0.1, 0.5, 0.9)).tolist()
    factor_each_way = _WIDEST**0.5
    few = max(few, 1 + (middle - 1) / factor_each_way)
    many = min(many, 1 + (middle - 1) * factor_each_way)
    if middle >= _MOST_GROWTH:
        return Left(min(round((few - 1) * n_answers), n_free), None, None, suffices=False)
    left = [ceil((factor - 1) * n_answers) for factor in (few, middle, many)]
    fewest, questions, most = (min(max(number, 1), n_free) for number in left)
    return Left(fewest, questions, most, suffices=left[1] <= n_free)


def _growth_needed(
    posterior: Posterior, groups: Groups, goal: Goal, number: int, seed: int
) -> float:
    """Find by which factor the answers must grow until the goal is reached in one future.

    Args:
        posterior, groups, goal, seed: as in `questions_left`.
        number: the draw of the posterior that is taken as the truth of this future.
    """
    low, high = 0.0, float(np.log(_MOST_GROWTH))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        future = _with_answers(posterior, number, float(np.exp(middle)))
        if progress(future, groups, goal, seed=seed).reached:
            high = middle
        else:
            low = middle
    return float(np.exp(high))


def _with_answers(posterior: Posterior, number: int, growth: float) -> Posterior:
    """Return the posterior that is expected when the answers have grown by a factor."""
    draws = posterior.draws[:_DRAWS_OF_FUTURE]
    truth = posterior.draws[-1 - number]
    scores = posterior.scores + np.sqrt(1 - 1 / growth) * (truth - posterior.scores)
    future_draws = scores + (draws - posterior.scores) / np.sqrt(growth)
    C = posterior.covariance
    return replace(
        posterior,
        scores=scores,
        draws=future_draws,
        covariance=None if C is None else C / growth,
    )


class Progress(NamedTuple):
    """The distance from the goal by the posterior alone, before the check of the model.

    Attributes:
        wrong: share of pairs expected to be in the wrong order. If the goal is a top, share of the
            top items expected not to belong there.
        reached: whether the goal is reached, if the model is right.
        summary: the distance in a short line.
        details: the distance in a sentence.
        is_final: whether no answer can change the distance.
    """

    wrong: float
    reached: bool
    summary: str
    details: str
    is_final: bool = False


def progress(posterior: Posterior, groups: Groups, goal: Goal, *, seed: int = 0) -> Progress:
    """Measure the distance from the goal by the posterior.

    Args:
        posterior: the posterior of the scores.
        groups: the groups of the items.
        goal: the goal of the session.
        seed: the seed of the pairs from which the share of wrong pairs is estimated.

    Cost: a look at 20,000 pairs at most; for a goal of top items, a partition of the scores in each
    draw of the posterior.
    """
    n_of_largest_group = max(len(members) for members in groups.members)
    if goal.top >= n_of_largest_group:
        summary = f"all items are of the top {goal.top}"
        return Progress(wrong=0.0, reached=True, summary=summary, details=summary, is_final=True)
    if goal.top:
        return _progress_of_top(posterior, groups, goal)
    if groups.n_pairs <= _MANY_PAIRS:
        i, j = groups.every()
    else:
        i, j = groups.draw(np.random.default_rng(seed), _MANY_PAIRS)
    mean, variance = posterior.difference(i, j)
    wrong = wrong_share(mean, variance, posterior.tie)
    # Shares are rounded to whole per cents. A share that misses the goal by less than 1 % has a
    # decimal, so that the goal never looks reached.
    misses_narrowly = goal.wrong < wrong < goal.wrong + 0.01
    share = f"{wrong:.1%}" if misses_narrowly else f"{wrong:.0%}"
    summary = f"{share} of the pairs may be in the wrong order, the goal is {100 * goal.wrong:.3g}%"
    return Progress(wrong, wrong <= goal.wrong, summary, goal.expected(wrong))


def _progress_of_top(posterior: Posterior, groups: Groups, goal: Goal) -> Progress:
    """Measure the distance from a goal of top items.

    Each group must reach the goal. The shares in the texts are means over the groups.
    """
    tops = [
        _top_of_group(margins, goal, posterior.tie)
        for margins in _margins_of_best(posterior, groups, goal)
    ]
    wrong = float(np.mean([top.wrong for top in tops]))
    sure = float(np.mean([top.sure for top in tops]))
    reached = all(top.sure >= SURE for top in tops)
    summary = f"the top {goal.top} is {sure:.0%} sure, the goal is {SURE:.0%}"
    risk = f"more than {goal.allowed(goal.top)} with a probability of {1 - sure:.0%}"
    return Progress(wrong, reached, summary, f"{goal.expected(wrong)}, and {risk}")


def _margins_of_best(posterior: Posterior, groups: Groups, goal: Goal) -> list[Draws]:
    """Return the margins of each group's k best items, as one (draws, k) array per group.

    The best items are those with the highest expected scores. For margins see `top_margins`.
    """
    margins = top_margins(posterior, groups, goal.top)
    margins_of_groups = []
    for members in groups.members:
        best_first = members[np.argsort(-posterior.scores[members], kind="stable")]
        margins_of_groups.append(margins[:, best_first[: goal.top]])
    return margins_of_groups


class _TopOfGroup(NamedTuple):
    """The certainty of a group's top items.

    Attributes:
        wrong: the share of the items that are expected not to belong to the top.
        sure: the probability that no more items are wrong than the goal allows.
    """

    wrong: float
    sure: float


def _top_of_group(margins: Draws, goal: Goal, tie: float) -> _TopOfGroup:
    """Measure how certain the k best items of a group are its top k.

    Args:
        margins: (draws, k) the margins of the k best items, see `top_margins`.
        goal: the goal of the session, which is about the top.
        tie: the tie threshold.
    """
    n_wrong = wrong_of_top(margins, tie)
    k = margins.shape[1]
    sure = float(np.mean(n_wrong <= goal.allowed(k)))
    wrong = float(n_wrong.mean()) / max(k, 1)
    return _TopOfGroup(wrong, sure)


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
    margins = _margins_of_best(posterior, groups, goal) if goal.top else []
    standings = []
    for number, members in enumerate(groups.members):
        if goal.top:
            top = _top_of_group(margins[number], goal, posterior.tie)
            wrong = top.wrong
            reached = top.sure >= SURE
        else:
            wrong = _wrong_share_of_group(posterior, members, most_pairs, rng)
            reached = wrong <= goal.wrong
        # An answer about a pair counts for both of its items.
        n_group_answers = int(n_answers[members].sum()) // 2
        standing = GroupStanding(number, len(members), n_group_answers, wrong, passed and reached)
        standings.append(standing)
    return tuple(standings)


def _wrong_share_of_group(
    posterior: Posterior, members: I64, most_pairs: int, rng: np.random.Generator
) -> float:
    """Estimate the share of a group's pairs that are expected to be in the wrong order.

    Args:
        posterior: the posterior of the scores.
        members: (n,) the item numbers of the group.
        most_pairs: the largest number of pairs to look at. If the group has more pairs, this number
            of random pairs is drawn.
        rng: the generator of the random pairs.
    """
    if len(members) < 2:
        return 0.0
    # The pairs are listed or drawn as pairs of indexes in the array `members`.
    indexes = Groups(None, len(members))
    if indexes.n_pairs <= most_pairs:
        i, j = indexes.every()
    else:
        i, j = indexes.draw(rng, most_pairs)
    mean, variance = posterior.difference(members[i], members[j])
    return wrong_share(mean, variance, posterior.tie)


def wrong_share(mean: F64, variance: F64, tie: float = 0.0) -> float:
    """Compute the share of pairs that are expected to be in the wrong order.

    It is the mean of Φ(-(|μ| + τ/2) / σ) over the pairs. Items that differ by less than the tie
    threshold τ have no wrong order. Only half of the threshold is counted, because the threshold is
    uncertain itself.

    Args:
        mean: (m,) the expected difference μ of the two scores of each pair.
        variance: (m,) the variance σ² of the difference.
        tie: the tie threshold τ.
    """
    sd = np.sqrt(variance)
    return float(ndtr(-(np.abs(mean) + tie / 2) / sd).mean())


def holdout_check(p: F64, is_right: Bool, *, left_out: bool) -> Check:
    """Check the model by unseen answers.

    The check passes if there are at least 8 answers, and the share of right predictions is at most
    two standard errors below the mean of p. The standard error is sqrt(mean of p (1 - p) / m).

    Args:
        p: (m,) the probability of the answer that the model expects to each question.
        is_right: (m,) whether the expected answer was given.
        left_out: whether the unseen answers are all answers, each predicted from all other answers,
            and not the hold-out.
    """
    m = len(p)
    if not m:
        return Check(0, float("nan"), float("nan"), passed=False, left_out=left_out)
    share_right = float(is_right.mean())
    expected_share = float(p.mean())
    standard_error = float(np.sqrt(np.mean(p * (1 - p)) / m))
    passed = m >= ENOUGH_CHECKS and share_right >= expected_share - 2 * standard_error
    return Check(m, share_right, expected_share, passed, left_out)


def about_models(n_models: int, is_measured: bool) -> str:
    """Warn in a sentence that the intervals lack some errors, if only models have answered.

    Args:
        n_models: number of models that have answered.
        is_measured: whether people's answers or gold pairs measure the errors of the models. Then,
            or without models, the text is empty.
    """
    if is_measured or not n_models:
        return ""
    return (
        "only models have answered: models can be wrong together, which is not in the intervals; "
        "30 answers of people show it"
    )


def whether_to_stop(
    state: Progress, goal: Goal, n_free: int, check: Check, left: Left
) -> tuple[bool, str]:
    """Decide whether to stop, and give the reason as a line of text.

    A session stops if the goal is reached and the check of the model is passed, or if no answer can
    change the distance from the goal.

    Args:
        state: the distance from the goal.
        goal: the goal of the session.
        n_free: the number of questions that can still be asked.
        check: the check of the model.
        left: the number of questions that are left.

    Returns:
        Whether to stop, and the reason.
    """
    if state.is_final:
        return True, state.summary
    range_left = range_in_words(left.fewest, left.most)
    if not state.reached:
        return False, _why_not_reached(state, range_left, n_free, suffices=left.suffices)
    if check.passed:
        return True, f"the goal is reached, {goal}"
    if check.n < ENOUGH_CHECKS:
        answers_left = f"{range_left or 'a few'} answers left"
        return False, f"the goal seems to be reached: {answers_left} to check the model"
    kind = "left-out" if check.left_out else "hold-out"
    return False, (
        f"the goal seems to be reached, but the {kind} answers contradict the model: keep answering"
    )


def _why_not_reached(state: Progress, range_left: str, n_free: int, *, suffices: bool) -> str:
    """Say how far the goal is, and how many answers are left, if that is known."""
    if not suffices:
        questions = count(n_free, "question")
        return f"{state.summary}: more annotators are needed, {questions} left for these"
    if range_left:
        return f"{state.summary}: {range_left} answers left"
    return state.summary
