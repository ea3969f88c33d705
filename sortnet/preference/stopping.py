"""When to stop asking: the goal, about how many questions are left, and the hold-out check."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sortnet.preference.groups import Groups, GroupStanding
from sortnet.preference.posterior import Posterior
from sortnet.types import F64, I64, Bool

GOAL = 0.1  # share of pairs that may still be expected in the wrong order
ENOUGH_CHECKS = 8  # hold-out answers needed for a check
NO_HOLDOUT = 30  # answers; without one of the hold-out among them, no session asked them
_MANY = 20_000  # pairs that a share is estimated from
_LEAST = 200  # of them in a group, if it has that many
# By the law of total variance it would be 1 if every answer were as informative as the first; in
# simulated sessions of 28 to 100 items, 0.15 predicts the number of questions needed.
_GAINED = 0.15
_MOST = 1 << 20  # the largest N of "about N questions"


@dataclass(frozen=True)
class Remaining:
    """How close a session is to its goal.

    Attributes:
        questions: about how many are left, at most those that the annotators can still be asked;
            None if it cannot be estimated.
        wrong_pairs: share of all pairs, within groups if there are any, expected to be in the wrong
            order.
        holdout_n: hold-out answers, without ties.
        holdout_right: share of them that the model predicts; it was fitted without them.
        holdout_expected: share that it should predict if it is well calibrated.
        stop: whether to stop.
        why: the reason, as text.
        groups: how close each group is; empty without groups.
        left_out: whether these are no hold-out answers, but all, each predicted from the others.
    """

    questions: int | None
    wrong_pairs: float
    holdout_n: int
    holdout_right: float
    holdout_expected: float
    stop: bool
    why: str
    groups: tuple[GroupStanding, ...] = ()
    left_out: bool = False


def sample_pairs(groups: Groups, seed: int = 0) -> tuple[I64, I64]:
    """All pairs within groups if they are few, else a random sample."""
    if groups.n_pairs <= _MANY:
        return groups.every()
    return groups.draw(np.random.default_rng(seed), _MANY)


def group_standings(
    posterior: Posterior, groups: Groups, judgements: I64, goal: float, *, passed: bool, seed: int
) -> tuple[GroupStanding, ...]:
    """How close each group is to the goal; the hold-out check is that of the whole.

    Args:
        judgements: (n,) number of answers about an item.
        passed: whether the hold-out check passed.

    Cost: at most a few thousand pairs of each group, fewer if there are many groups.
    """
    rng = np.random.default_rng(seed)
    most = max(_MANY // len(groups), _LEAST)
    found = []
    for number, members in enumerate(groups.members):
        n, wrong = len(members), 0.0
        if n > 1:
            one = Groups(None, n)
            i, j = one.every() if one.n_pairs <= most else one.draw(rng, most)
            wrong = wrong_share(*posterior.difference(members[i], members[j]), posterior.tie)
        answers = int(judgements[members].sum()) // 2
        found.append(GroupStanding(number, n, answers, wrong, passed and wrong <= goal))
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
    the squared difference to gain a part of what the variance loses. None if a million questions
    are not enough.
    """

    def enough(m: int) -> bool:
        then = variance * asked / (asked + m)
        gained = _GAINED * np.maximum(variance - then, 0)
        return wrong_share(np.sqrt(mean**2 + gained), then, tie) <= goal

    least = bisect_left(range(_MOST + 1), True, key=enough)
    return least if least <= _MOST else None


def holdout_check(p: F64, right: Bool) -> tuple[int, float, float, bool]:
    """Is the model calibrated: is it right about unseen answers as often as it expects?

    Args:
        p: (m,) its probabilities of the answers it expects, at least ½.
        right: (m,) whether those answers were given.

    Returns:
        m, share right, expected share, and whether it passes: enough answers, and at most two
        standard errors below the expected share.
    """
    m = len(p)
    if not m:
        return 0, float("nan"), float("nan"), False
    share, expected = float(right.mean()), float(p.mean())
    error = float(np.sqrt(np.mean(p * (1 - p)) / m))
    return m, share, expected, m >= ENOUGH_CHECKS and share >= expected - 2 * error


def about_models(n_models: int, others: bool) -> str:
    """A sentence on what intervals do not include where only models have answered; or nothing.

    Args:
        n_models: how many of them.
        others: whether people have answered, or pairs are gold.
    """
    if others or not n_models:
        return ""
    if n_models == 1:
        return (
            "only a model has answered: what it is wrong about throughout is not in the intervals"
        )
    return "only models have answered: people's answers or gold pairs would measure them"


def whether_to_stop(
    wrong: float,
    goal: float,
    left: int | None,
    free: int,
    n: int,
    right: float,
    expected: float,
    passed: bool,
    *,
    left_out: bool = False,
) -> tuple[bool, str]:
    """Whether to stop, and why, as text.

    Args:
        wrong: share of pairs expected to be in the wrong order.
        goal: share of them that is acceptable.
        left: about how many questions are needed.
        free: how many questions the annotators can still be asked.
        n, right, expected, passed: as returned by `holdout_check`.
        left_out: as in `Remaining`.
    """
    what = "left-out answer" if left_out else "hold-out answer"
    share = f"{wrong:.0%} of the pairs are expected to be in the wrong order"
    if wrong > goal:
        if left is None or left > free:
            return (
                False,
                f"{share}; more annotators are needed: {_many(free, 'question')} left for these",
            )
        return False, f"{share}; about {_many(left, 'question')} until {goal:.0%}"
    if passed:
        return True, f"{share}, and the {what}s agree ({right:.0%} of {n} as expected)"
    if n < ENOUGH_CHECKS:
        return False, f"{share}, but only {_many(n, what)} could check that"
    return False, (
        f"{share}, but of {n} {what}s only {right:.0%} are as expected, "
        f"where {expected:.0%} should be"
    )


def _many(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
