"""When to stop asking: the goal, how many questions are left, and the hold-out check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sortnet.core import F64, I64, Bool
from sortnet.preference.forecast import MANY, Forecast
from sortnet.preference.goal import SURE, Goal, top_margins, wrong_of_top
from sortnet.preference.groups import Groups, GroupStanding
from sortnet.preference.posterior import Draws, Posterior

ENOUGH_CHECKS = 8  # hold-out answers needed for a check
NO_HOLDOUT = 30  # answers; without one of the hold-out among them, no session asked them
_WIDEST = 3.0  # of a likely range of questions, its end relative to its start
_MANY = 20_000  # pairs that a share is estimated from
_LEAST = 200  # of them in a group, if it has that many


@dataclass(frozen=True)
class Remaining:
    """How close a session is to its goal.

    Attributes:
        questions: how many are left until it may stop: as probably more as less. At most those that
            the annotators can still be asked; None if it is not known.
        wrong: share of all pairs, within groups if there are any, expected to be in the wrong
            order; of a goal of top items, share of these expected not to belong there.
        reached: whether that is the goal, if the model is right.
        holdout_n: hold-out answers, without ties.
        holdout_right: share of them that the model predicts; it was fitted without them.
        holdout_expected: share that it should predict if it is well calibrated.
        stop: whether to stop.
        why: what is reached, what is left and what to do, as one short line.
        groups: how close each group is; empty without groups.
        left_out: whether these are no hold-out answers, but all, each predicted from the others.
        fewest, most: with a probability of 80 % the number of questions is between them; None if
            that is not known.
        details: what else is known, a sentence each, without a full stop.
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
        """How the model is right about unseen answers, as a sentence."""
        what = "left-out" if self.left_out else "hold-out"
        if not self.holdout_n:
            return f"no {what} answers yet to check the model"
        answers = _many(self.holdout_n, f"{what} answer")
        return (
            f"the model predicts {self.holdout_right:.0%} of {answers} correctly, "
            f"{self.holdout_expected:.0%} were to be expected"
        )

    @property
    def likely_range(self) -> tuple[int, int] | None:
        """A range of the questions that are left, at most a factor of 3 wide, around `questions`;
        None if that is not known.

        >>> Remaining(30, 0.2, False, 0, 0, 0, False, "", fewest=5, most=40).likely_range
        (18, 40)
        """
        if self.questions is None:
            return None
        factor = _WIDEST**0.5
        low, high = int(self.questions / factor + 1), int(self.questions * factor)
        most = high if self.most is None else min(high, self.most)
        return min(max(low, self.fewest or 0), self.questions), max(most, self.questions)

    @property
    def range_left(self) -> str:
        """The range of the questions that are left, rounded outwards; empty if it is not known."""
        return range_in_words(self.fewest, self.most)


def range_in_words(fewest: int | None, most: int | None) -> str:
    """A range of numbers, rounded outwards.

    Of a range that is wider than a factor of 3, one end is left out: its upper end, or the lower
    end if that says almost nothing.

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
    """The distance of the numbers that a number is rounded to: about a tenth of it."""
    if number < 20:
        return 1
    if number < 100:
        return 5
    return int(10 ** (len(str(number)) - 2))


class Check(NamedTuple):
    """Is the model calibrated: is it right about unseen answers as often as it expects?

    It passes with enough answers and at most two standard errors below the expected share. The
    other fields are as in `Remaining`.
    """

    n: int
    right: float
    expected: float
    passed: bool
    left_out: bool


class Left(NamedTuple):
    """How many questions are left; the first three fields are as in `Remaining`.

    `suffices`: whether the goal can be reached by the questions that can still be asked.
    """

    fewest: int | None
    questions: int | None
    most: int | None
    suffices: bool = True


def questions_left(forecast: Forecast | None, answered: int, free: int) -> Left:
    """The questions that are left by a forecast, at most those that can still be asked."""
    if forecast is None:
        return Left(None, None, None, suffices=free > 0)
    fewest, questions, most = forecast.left(answered)
    suffices = (MANY if questions is None else questions) <= free
    if questions is None and free < MANY:
        questions = free
    if most is None and free < MANY:
        most = free
    return Left(
        min(fewest, free),
        None if questions is None else min(questions, free),
        None if most is None else min(most, free),
        suffices,
    )


class Progress(NamedTuple):
    """What the posterior says of the goal, before the hold-out has a say.

    Its first two fields are as in `Remaining`; `said` is the same in words, `details` in more of
    them, `certain` whether no answer can change that.
    """

    wrong: float
    reached: bool
    said: str
    details: str
    certain: bool = False


def progress(posterior: Posterior, groups: Groups, goal: Goal, *, seed: int = 0) -> Progress:
    """How far the goal is.

    Cost: 20,000 pairs at most; of top items, a partition of the scores of each draw.
    """
    if goal.top >= max(len(m) for m in groups.members):
        said = f"all items are of the top {goal.top}"
        return Progress(0.0, True, said, said, certain=True)
    if goal.top:
        return _progress_of_top(posterior, groups, goal)
    few = groups.n_pairs <= _MANY
    pairs = groups.every() if few else groups.draw(np.random.default_rng(seed), _MANY)
    difference = posterior.difference(*pairs)
    wrong = wrong_share(*difference, posterior.tie)
    # A share that misses the goal never reads as the goal itself.
    digits = 0 if wrong <= goal.wrong or wrong >= goal.wrong + 0.01 else 1
    wanted = f"the goal is {100 * goal.wrong:.3g}%"
    said = f"{wrong:.{digits}%} of the pairs may be in the wrong order, {wanted}"
    return Progress(wrong, wrong <= goal.wrong, said, goal.expected(wrong))


def _progress_of_top(posterior: Posterior, groups: Groups, goal: Goal) -> Progress:
    """The goal is reached if that of each group is; shares are means over the groups."""
    chosen = _margins_of_chosen(posterior, groups, goal)
    shares = [_wrong_and_sure(margins, goal, posterior.tie) for margins in chosen]
    wrong, sure = (float(np.mean(share)) for share in zip(*shares, strict=True))
    reached = all(each >= SURE for _, each in shares)
    said = f"the top {goal.top} is {sure:.0%} sure, the goal is {SURE:.0%}"
    more = f"more than {goal.allowed(goal.top)} with a probability of {1 - sure:.0%}"
    return Progress(wrong, reached, said, f"{goal.expected(wrong)}, and {more}")


def _margins_of_chosen(posterior: Posterior, groups: Groups, goal: Goal) -> list[Draws]:
    """(draws, k) the margins of each group's best items by expected score."""
    margins = top_margins(posterior, groups, goal.top)
    by_score = (m[np.argsort(-posterior.scores[m], kind="stable")] for m in groups.members)
    return [margins[:, best[: goal.top]] for best in by_score]


def _wrong_and_sure(margins: Draws, goal: Goal, tie: float) -> tuple[float, float]:
    """Share of a group's top expected wrong; and how likely no more are wrong than allowed."""
    wrong, k = wrong_of_top(margins, tie), margins.shape[1]
    return float(wrong.mean()) / max(k, 1), float(np.mean(wrong <= goal.allowed(k)))


def group_standings(
    posterior: Posterior, groups: Groups, judgements: I64, goal: Goal, *, passed: bool, seed: int
) -> tuple[GroupStanding, ...]:
    """How close each group is to the goal; whether the hold-out check passed is that of the whole.

    `judgements` are the (n,) numbers of answers about an item.

    Cost: at most a few thousand pairs of each group, fewer if there are many groups.
    """
    rng = np.random.default_rng(seed)
    most = max(_MANY // len(groups), _LEAST)
    chosen = _margins_of_chosen(posterior, groups, goal) if goal.top else None
    found = []
    for number, members in enumerate(groups.members):
        n, wrong, reached = len(members), 0.0, True
        if chosen is not None:
            wrong, sure = _wrong_and_sure(chosen[number], goal, posterior.tie)
            reached = sure >= SURE
        elif n > 1:
            one = Groups(None, n)
            i, j = one.every() if one.n_pairs <= most else one.draw(rng, most)
            wrong = wrong_share(*posterior.difference(members[i], members[j]), posterior.tie)
            reached = wrong <= goal.wrong
        answers = int(judgements[members].sum()) // 2
        found.append(GroupStanding(number, n, answers, wrong, passed and reached))
    return tuple(found)


def wrong_share(mean: F64, variance: F64, tie: float = 0.0) -> float:
    """Share of pairs expected to be in the wrong order: the mean of Φ(-(|μ| + τ/2) / σ).

    Items that differ by less than the tie threshold τ have no order to be wrong about. Only half of
    it is counted, as it is uncertain itself.
    """
    return float(ndtr(-(np.abs(mean) + tie / 2) / np.sqrt(variance)).mean())


def holdout_check(p: F64, right: Bool, *, left_out: bool) -> Check:
    """The check, given probabilities of the answers it expects, (m,), and whether these were given.

    `left_out` is as in `Remaining`.
    """
    m = len(p)
    if not m:
        return Check(0, float("nan"), float("nan"), False, left_out)
    share, expected = float(right.mean()), float(p.mean())
    error = float(np.sqrt(np.mean(p * (1 - p)) / m))
    passed = m >= ENOUGH_CHECKS and share >= expected - 2 * error
    return Check(m, share, expected, passed, left_out)


def about_models(n_models: int, others: bool) -> str:
    """What intervals do not include where only this many models have answered; else nothing.

    `others`: whether people have answered, or pairs are gold.
    """
    if others or not n_models:
        return ""
    if n_models > 1:
        return (
            "only models have answered: they are taken to share errors as large as those by which "
            "they differ, people's answers or gold pairs would measure them"
        )
    return "only a model has answered: what it is wrong about throughout is not in the intervals"


def whether_to_stop(
    found: Progress, goal: Goal, free: int, check: Check, left: Left
) -> tuple[bool, str]:
    """Whether to stop, and one short line: what is reached, what is left, what to do.

    `free` is how many questions can still be asked.
    """
    what = "left-out answers" if check.left_out else "hold-out answers"
    if found.certain:
        return True, found.said
    range_left = range_in_words(left.fewest, left.most)
    if not found.reached and not left.suffices:
        for_these = f"{_many(free, 'question')} left for these"
        return False, f"{found.said}: more annotators are needed, {for_these}"
    if not found.reached:
        return False, f"{found.said}: {range_left} answers left" if range_left else found.said
    if check.passed:
        return True, f"the goal is reached, {goal}"
    if check.n < ENOUGH_CHECKS:
        many = f"{range_left} answers" if range_left else "a few answers"
        return False, f"the goal seems to be reached: {many} left to check the model"
    return False, (
        f"the goal seems to be reached, but the {what} contradict the model: keep answering"
    )


def _many(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
