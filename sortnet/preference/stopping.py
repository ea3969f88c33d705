"""The decision to stop asking: by the goal, the questions left and the hold-out check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sortnet.core import F64, I64, Bool
from sortnet.messages import count
from sortnet.preference.forecast import MANY, Forecast
from sortnet.preference.goal import SURE, Goal, top_margins, wrong_of_top
from sortnet.preference.groups import Groups, GroupStanding
from sortnet.preference.posterior import Draws, Posterior

ENOUGH_CHECKS = 8  # hold-out answers needed for a check
NO_HOLDOUT = 30  # if none of this number of answers is of the hold-out, no session asked them
_WIDEST = 3.0  # largest end of a likely range of questions, relative to its start
_MANY_PAIRS = 20_000  # most pairs from which the share of wrong pairs is estimated
_MANY_PAIRS_OF_GROUP = 200  # pairs of a group that are enough, however many groups there are


@dataclass(frozen=True)
class Remaining:
    """The distance of a session from its goal.

    Attributes:
        questions: the number of questions that are left until the session may stop, as probably
            too high as too low. It is at most the number of questions that annotators can still
            be asked; None: not known.
        wrong: share of all pairs, within groups if there are any, expected to be in the wrong
            order; if the goal is a top, share of the top items expected not to belong there.
        reached: whether the goal is reached, if the model is right.
        holdout_n: number of hold-out answers, without ties.
        holdout_right: share of these answers that the model predicts; it was fitted without them.
        holdout_expected: share that it should predict if it is well calibrated.
        stop: whether to stop.
        why: what is reached, what is left and what to do, as one short line.
        groups: the distance of each group; empty without groups.
        left_out: whether the model was checked by all answers, each predicted from all other
            answers, for want of hold-out answers.
        fewest, most: range of the number of questions, with a probability of 80 %; None: not
            known.
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
        """A sentence on the share of unseen answers that the model predicts."""
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
        """A range of the questions that are left, at most a factor of 3 wide, around `questions`.

        None if `questions` is not known.

        >>> Remaining(30, 0.2, False, 0, 0, 0, False, "", fewest=5, most=40).likely_range
        (18, 40)
        """
        if self.questions is None:
            return None
        factor = _WIDEST**0.5
        low = int(self.questions / factor + 1)
        high = int(self.questions * factor)
        if self.fewest is not None:
            low = max(low, self.fewest)
        if self.most is not None:
            high = min(high, self.most)
        return min(low, self.questions), max(high, self.questions)

    @property
    def range_left(self) -> str:
        """The range of the questions that are left, rounded outwards; empty if it is not known."""
        return range_in_words(self.fewest, self.most)


def range_in_words(fewest: int | None, most: int | None) -> str:
    """A range of numbers, rounded outwards.

    If the range is wider than a factor of 3, its upper end is left out; if the lower end is below
    3, the lower end is left out instead.

    >>> range_in_words(63, 142), range_in_words(63, 400), range_in_words(63, None)
    ('60 to 150', 'at least 60', 'at least 60')
    >>> range_in_words(1, 12), range_in_words(7, 7), range_in_words(None, None)
    ('at most 12', '7', '')
    """
    if fewest is None:
        return ""
    low = fewest // _step(fewest) * _step(fewest)
    if most is None:
        return f"at least {low:,}"
    high = -(-most // _step(most)) * _step(most)
    if low == high:
        return f"{low:,}"
    if most <= _WIDEST * fewest:
        return f"{low:,} to {high:,}"
    return f"at least {low:,}" if fewest >= _WIDEST else f"at most {high:,}"


def _step(number: int) -> int:
    """The step to multiples of which a number is rounded: about a tenth of the number."""
    if number < 20:
        return 1
    if number < 100:
        return 5
    return int(10 ** (len(str(number)) - 2))


class Check(NamedTuple):
    """Whether the model is calibrated, that is right about unseen answers as often as it expects.

    Attributes:
        n, right, expected: as `holdout_n`, `holdout_right`, `holdout_expected` of `Remaining`.
        passed: whether there are enough answers, and the model is right about the expected share,
            or at most two standard errors less.
        left_out: as in `Remaining`.
    """

    n: int
    right: float
    expected: float
    passed: bool
    left_out: bool


class Left(NamedTuple):
    """The number of questions that are left.

    Attributes:
        fewest, questions, most: as in `Remaining`.
        suffices: whether the questions that can still be asked are enough to reach the goal.
    """

    fewest: int | None
    questions: int | None
    most: int | None
    suffices: bool = True


def questions_left(forecast: Forecast | None, answered: int, n_free: int) -> Left:
    """The number of questions left according to a forecast, and not more than can still be asked.

    Args:
        forecast: the forecast; None: there is no forecast yet.
        answered: the number of answers so far.
        n_free: the number of questions that can still be asked.
    """
    if forecast is None:
        return Left(None, None, None, suffices=n_free > 0)
    fewest, questions, most = forecast.left(answered)
    needed = MANY if questions is None else questions
    return Left(
        fewest=min(fewest, n_free),
        questions=_at_most(questions, n_free),
        most=_at_most(most, n_free),
        suffices=needed <= n_free,
    )


def _at_most(number: int | None, limit: int) -> int | None:
    """The smaller of a number and a limit; an unknown number is above each limit below `MANY`."""
    if number is None:
        return limit if limit < MANY else None
    return min(number, limit)


class Progress(NamedTuple):
    """The distance from the goal by the posterior alone, before the check of the model.

    Attributes:
        wrong, reached: as in `Remaining`.
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

    Cost: 20,000 pairs at most; of top items, a partition of the scores of each draw.
    """
    if goal.top >= max(len(members) for members in groups.members):
        summary = f"all items are of the top {goal.top}"
        return Progress(0.0, True, summary, summary, is_final=True)
    if goal.top:
        return _progress_of_top(posterior, groups, goal)
    if groups.n_pairs <= _MANY_PAIRS:
        pairs = groups.every()
    else:
        pairs = groups.draw(np.random.default_rng(seed), _MANY_PAIRS)
    wrong = wrong_share(*posterior.difference(*pairs), posterior.tie)
    # A share that misses the goal never reads as the goal itself.
    misses_narrowly = goal.wrong < wrong < goal.wrong + 0.01
    share = f"{wrong:.1%}" if misses_narrowly else f"{wrong:.0%}"
    summary = f"{share} of the pairs may be in the wrong order, the goal is {100 * goal.wrong:.3g}%"
    return Progress(wrong, wrong <= goal.wrong, summary, goal.expected(wrong))


def _progress_of_top(posterior: Posterior, groups: Groups, goal: Goal) -> Progress:
    """The distance from a goal of top items, which each group must reach; shares are means."""
    tops = [
        _top_of_group(margins, goal, posterior.tie)
        for margins in _margins_of_best(posterior, groups, goal)
    ]
    wrong = float(np.mean([top.wrong for top in tops]))
    sure = float(np.mean([top.sure for top in tops]))
    summary = f"the top {goal.top} is {sure:.0%} sure, the goal is {SURE:.0%}"
    risk = f"more than {goal.allowed(goal.top)} with a probability of {1 - sure:.0%}"
    reached = all(top.sure >= SURE for top in tops)
    return Progress(wrong, reached, summary, f"{goal.expected(wrong)}, and {risk}")


def _margins_of_best(posterior: Posterior, groups: Groups, goal: Goal) -> list[Draws]:
    """(draws, k) the margins of each group's k best items by expected score."""
    margins = top_margins(posterior, groups, goal.top)
    by_score = (
        members[np.argsort(-posterior.scores[members], kind="stable")] for members in groups.members
    )
    return [margins[:, best_first[: goal.top]] for best_first in by_score]


class _TopOfGroup(NamedTuple):
    """How certain the best items of a group are known, if the goal is about the top.

    Attributes:
        wrong: the share of its items that are expected not to belong to the top.
        sure: the probability that no more items are wrong than the goal allows.
    """

    wrong: float
    sure: float


def _top_of_group(margins: Draws, goal: Goal, tie: float) -> _TopOfGroup:
    """The quality of a group's top, given the (draws, k) margins of its items."""
    n_wrong = wrong_of_top(margins, tie)
    k = margins.shape[1]
    sure = float(np.mean(n_wrong <= goal.allowed(k)))
    return _TopOfGroup(float(n_wrong.mean()) / max(k, 1), sure)


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
        seed: the seed of the pairs from which a group's share is estimated.

    Cost: at most a few thousand pairs of each group, fewer if there are many groups.
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
        n_group_answers = int(n_answers[members].sum()) // 2
        standing = GroupStanding(number, len(members), n_group_answers, wrong, passed and reached)
        standings.append(standing)
    return tuple(standings)


def _wrong_share_of_group(
    posterior: Posterior, members: I64, most_pairs: int, rng: np.random.Generator
) -> float:
    """The share of a group's pairs expected to be in the wrong order, estimated from some pairs."""
    if len(members) < 2:
        return 0.0
    group = Groups(None, len(members))
    i, j = group.every() if group.n_pairs <= most_pairs else group.draw(rng, most_pairs)
    return wrong_share(*posterior.difference(members[i], members[j]), posterior.tie)


def wrong_share(mean: F64, variance: F64, tie: float = 0.0) -> float:
    """Share of pairs expected to be in the wrong order: the mean of Φ(-(|μ| + τ/2) / σ).

    Items that differ by less than the tie threshold τ have no order to be wrong about. Only half of
    the threshold is counted, since it is uncertain itself.
    """
    return float(ndtr(-(np.abs(mean) + tie / 2) / np.sqrt(variance)).mean())


def holdout_check(p: F64, is_right: Bool, *, left_out: bool) -> Check:
    """Check the model by unseen answers.

    Args:
        p: (m,) the probability of the answer that the model expects.
        is_right: (m,) whether the expected answer was given.
        left_out: as in `Remaining`.
    """
    m = len(p)
    if not m:
        return Check(0, float("nan"), float("nan"), False, left_out)
    share = float(is_right.mean())
    expected = float(p.mean())
    error = float(np.sqrt(np.mean(p * (1 - p)) / m))
    passed = m >= ENOUGH_CHECKS and share >= expected - 2 * error
    return Check(m, share, expected, passed, left_out)


def about_models(n_models: int, is_measured: bool) -> str:
    """A sentence on errors that intervals do not include, if only models have answered.

    Empty without models, or if people's answers or gold pairs measure the errors of models.
    """
    if is_measured or not n_models:
        return ""
    if n_models > 1:
        return (
            "only models have answered: they are taken to share errors as large as those by which "
            "they differ, people's answers or gold pairs would measure them"
        )
    return "only a model has answered: what it is wrong about throughout is not in the intervals"


def whether_to_stop(
    state: Progress, goal: Goal, n_free: int, check: Check, left: Left
) -> tuple[bool, str]:
    """Decide whether to stop, and give the reason as a line of text.

    Args:
        state: the distance from the goal.
        goal: the goal of the session.
        n_free: the number of questions that can still be asked.
        check: the check of the model.
        left: the number of questions that are left.
    """
    if state.is_final:
        return True, state.summary
    range_left = range_in_words(left.fewest, left.most)
    if not state.reached and not left.suffices:
        questions = count(n_free, "question")
        why = f"{state.summary}: more annotators are needed, {questions} left for these"
        return False, why
    if not state.reached and range_left:
        return False, f"{state.summary}: {range_left} answers left"
    if not state.reached:
        return False, state.summary
    if check.passed:
        return True, f"the goal is reached, {goal}"
    if check.n < ENOUGH_CHECKS:
        answers_left = f"{range_left or 'a few'} answers left"
        return False, f"the goal seems to be reached: {answers_left} to check the model"
    kind = "left-out" if check.left_out else "hold-out"
    return False, (
        f"the goal seems to be reached, but the {kind} answers contradict the model: keep answering"
    )
