"""When to stop asking: the goal, about how many questions are left, and the hold-out check."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sortnet.preference.goal import SURE, Goal, above_edge, top_margins, wrong_of_top
from sortnet.preference.groups import Groups, GroupStanding
from sortnet.preference.posterior import Draws, Posterior
from sortnet.types import F64, I64, Bool

ENOUGH_CHECKS = 8  # hold-out answers needed for a check
NO_HOLDOUT = 30  # answers; without one of the hold-out among them, no session asked them
_MANY = 20_000  # pairs that a share is estimated from
_LEAST = 200  # of them in a group, if it has that many
# By the law of total variance it would be 1 if every answer were as informative as the first; in
# simulated sessions of 20 to 100 items, 0.15 predicts the number of questions needed.
_GAINED = 0.15
_MOST = 1 << 20  # the largest N of "about N questions"
_STEPS = 200  # of the number of questions left for a top, relative to those asked
_VALUES = 1 << 20  # scores in draws that are looked at for one N
_FEW_DRAWS, _FUTURES = 32, 8  # at least, and at most: see `_sure_after`


@dataclass(frozen=True)
class Remaining:
    """How close a session is to its goal.

    Attributes:
        questions: about how many are left, at most those that the annotators can still be asked;
            None if it cannot be estimated.
        wrong: share of all pairs, within groups if there are any, expected to be in the wrong
            order; of a goal of top items, share of these expected not to belong there.
        reached: whether that is the goal, if the model is right.
        holdout_n: hold-out answers, without ties.
        holdout_right: share of them that the model predicts; it was fitted without them.
        holdout_expected: share that it should predict if it is well calibrated.
        stop, why: whether to stop, and the reason, as text.
        groups: how close each group is; empty without groups.
        left_out: whether these are no hold-out answers, but all, each predicted from the others.
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


class Progress(NamedTuple):
    """What the posterior says of the goal, before the hold-out has a say.

    Its first three fields are as in `Remaining`; `said` is the same in words, `certain` whether no
    answer can change that.
    """

    wrong: float
    reached: bool
    questions: int | None
    said: str
    certain: bool = False


def progress(
    posterior: Posterior, groups: Groups, goal: Goal, *, asked: float, seed: int = 0
) -> Progress:
    """How far the goal is; the prior counts as some of the questions `asked`.

    Cost: 20,000 pairs at most; of top items, a partition of the scores of each draw.
    """
    if goal.top >= max(len(m) for m in groups.members):
        return Progress(0.0, True, 0, f"all items are of the top {goal.top}", certain=True)
    if goal.top:
        return _progress_of_top(posterior, groups, goal, asked)
    few = groups.n_pairs <= _MANY
    pairs = groups.every() if few else groups.draw(np.random.default_rng(seed), _MANY)
    difference = posterior.difference(*pairs)
    wrong = wrong_share(*difference, posterior.tie)
    left = questions_left(*difference, asked, goal.wrong, posterior.tie)
    return Progress(wrong, wrong <= goal.wrong, left, goal.expected(wrong))


def _progress_of_top(posterior: Posterior, groups: Groups, goal: Goal, asked: float) -> Progress:
    """The goal is reached if that of each group is; shares are means over the groups."""
    chosen = _margins_of_chosen(posterior, groups, goal)
    shares = [_wrong_and_sure(margins, goal, posterior.tie) for margins in chosen]
    wrong, sure = (float(np.mean(share)) for share in zip(*shares, strict=True))
    reached = all(each >= SURE for _, each in shares)
    of_groups = [posterior.draws[:, m] for m in groups.members]

    def enough(step: int) -> bool:
        kept = 1 / (1 + _ratio(step))
        return all(_sure_after(of_it, goal, kept, posterior.tie) >= SURE for of_it in of_groups)

    step = 0 if reached else bisect_left(range(_STEPS), True, key=enough)
    left = 0 if reached else ceil(asked * _ratio(step))
    more = f"more than {goal.allowed(goal.top)} with a probability of {1 - sure:.0%}"
    known = step < _STEPS and left <= _MOST
    return Progress(wrong, reached, left if known else None, f"{goal.expected(wrong)}, and {more}")


def _margins_of_chosen(posterior: Posterior, groups: Groups, goal: Goal) -> list[Draws]:
    """(draws, k) the margins of each group's best items by expected score."""
    margins = top_margins(posterior, groups, goal.top)
    by_score = (m[np.argsort(-posterior.scores[m], kind="stable")] for m in groups.members)
    return [margins[:, best[: goal.top]] for best in by_score]


def _wrong_and_sure(margins: Draws, goal: Goal, tie: float) -> tuple[float, float]:
    """Share of a group's top expected wrong; and how likely no more are wrong than allowed."""
    wrong, k = wrong_of_top(margins, tie), margins.shape[1]
    return float(wrong.mean()) / max(k, 1), float(np.mean(wrong <= goal.allowed(k)))


def _ratio(step: int) -> float:
    """Questions left relative to those asked, from a thousandth in steps of a tenth."""
    return float(1e-3 * 1.1**step)


def _sure_after(scores: Draws, goal: Goal, kept: float, tie: float) -> float:
    """How likely few enough of a group's top are wrong, with a share of the variance left.

    What is learned until then moves the expected scores towards one of the draws, as the law of
    total variance has it: they gain the variance that is lost. The mean over a few draws.
    """
    n, k = scores.shape[1], goal.top
    scores = scores[: max(_VALUES // n, _FEW_DRAWS)]
    mean = scores.mean(axis=0)
    apart = scores - mean
    sure = []
    for learned in apart[: min(max(_VALUES // scores.size, 1), _FUTURES)]:
        expected = mean + np.sqrt(1 - kept) * learned
        margins = above_edge(expected + np.sqrt(kept) * apart, k)
        best = np.argpartition(-expected, min(k, n) - 1)[:k]
        sure.append(_wrong_and_sure(margins[:, best], goal, tie)[1])
    return float(np.mean(sure))


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


def questions_left(
    mean: F64, variance: F64, asked: float, goal: float, tie: float = 0.0
) -> int | None:
    """About how many questions until the share of wrong pairs falls to the goal.

    Variances are assumed to fall as 1 / (number of answers), where `asked` includes the prior, and
    the squared difference to gain a part of what they lose. None if a million are not enough.
    """

    def enough(m: int) -> bool:
        then = variance * asked / (asked + m)
        gained = _GAINED * np.maximum(variance - then, 0)
        return wrong_share(np.sqrt(mean**2 + gained), then, tie) <= goal

    least = bisect_left(range(_MOST + 1), True, key=enough)
    return least if least <= _MOST else None


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
        return "only models have answered: people's answers or gold pairs would measure them"
    return "only a model has answered: what it is wrong about throughout is not in the intervals"


def whether_to_stop(found: Progress, goal: Goal, free: int, check: Check) -> tuple[bool, str]:
    """Whether to stop, and why, as text; `free`: how many questions can still be asked."""
    what = "left-out answer" if check.left_out else "hold-out answer"
    share, left, n = found.said, found.questions, check.n
    if found.certain:
        return True, share
    if not found.reached and (left is None or left > free):
        free_ = f"{_many(free, 'question')} left for these"
        return False, f"{share}; more annotators are needed: {free_}"
    if not found.reached:
        until = f"{1 - SURE:.0%}" if goal.top else f"{goal.wrong:.0%}"
        return False, f"{share}; about {_many(left or 0, 'question')} until {until}"
    if check.passed:
        return True, f"{share}, and the {what}s agree ({check.right:.0%} of {n} as expected)"
    if n < ENOUGH_CHECKS:
        return False, f"{share}, but only {_many(n, what)} could check that"
    return False, (
        f"{share}, but of {n} {what}s only {check.right:.0%} are as expected, "
        f"where {check.expected:.0%} should be"
    )


def _many(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
