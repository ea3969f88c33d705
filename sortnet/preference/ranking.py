"""Measure how far a session is from its goal, by its last fit."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from sortnet.core import F64, I64
from sortnet.core.pairs import unordered
from sortnet.preference.answers import Answers
from sortnet.preference.fitting import SessionFitting
from sortnet.preference.goal import SURE
from sortnet.preference.groups import count_apart
from sortnet.preference.model import Posterior, predict
from sortnet.preference.plan import Plan
from sortnet.preference.stopping import (
    ENOUGH_CHECKS,
    NO_HOLDOUT,
    Check,
    GroupStanding,
    Remaining,
    Standing,
    distance,
    group_standings,
    holdout_check,
    near_ties,
    questions_left,
    range_of,
)

_QUESTIONS_PER_CHECK = 10  # one question in ten is of the hold-out
_DRAWS = 64
_LEFT_OUT = 0.2  # share of the answers that check the model if there is no hold-out
_ITEMS_PER_ANSWER = 4  # near-ties are told from an answer for so many items on


def remaining(plan: Plan, fitting: SessionFitting) -> Remaining:
    """Measure the distance of a session from its goal, by its last fit; for any thread.

    Cost: see `distance`, and of few pairs an inverse of the covariance.
    """
    check = _check(fitting)  # before the lock: it may need a fit
    history = fitting.history
    with fitting.lock:
        posterior = fitting.fits.all
        n_votes = history.n_votes
        n_answers = history.seen()
        component = history.all_components()
        n_models = len(fitting.models())
        n_annotators = len(history.annotators)
        # Each annotator can be asked each pair once. A question has one free pair at least.
        n_free = max(plan.pairs.count * max(n_annotators, 1) - history.n_asked(), 0)
        pairs_left = _pairs_left(plan, fitting)
    # The lock is not held from here on, so that no question waits for the computations.
    groups, goal, seed = plan.groups, plan.goal, plan.seed
    state = distance(posterior, groups, goal, seed=seed)
    standings: tuple[GroupStanding, ...] = ()
    if len(groups) > 1:
        standings = group_standings(
            posterior, groups, n_answers, goal, passed=check.passed, seed=seed
        )
    measured = Remaining(
        goal=goal,
        standing=Standing.ASKING,
        wrong=state.wrong,
        sure=state.sure,
        check=check,
        n_free=n_free,
        n_annotators=n_annotators,
        only_models=bool(n_models) and n_models == n_annotators and not plan.study.gold,
        features=fitting.has_features,
        groups=standings,
        apart=count_apart(component, n_answers > 0, groups),
    )
    if goal.top >= max(map(len, groups.members)):
        return replace(measured, standing=Standing.ALL_TOP, questions=0, fewest=0, most=0)
    if state.reached:
        return _checked(measured)
    if not n_votes:
        return measured
    # If nearly all questions are used up, more annotators help, whether or not there are near-ties.
    # A few answers do not show how much the items differ.
    some_answers = _ITEMS_PER_ANSWER * n_votes >= len(n_answers)
    if 2 * n_free > n_votes and pairs_left is not None and some_answers:
        open_ranks = near_ties(posterior, groups, goal, pairs_left, seed=seed)
        if open_ranks is not None:
            return replace(measured, standing=Standing.NEAR_TIES, near_ties=open_ranks)
    n_unseen = sum(int(np.count_nonzero(n_answers[members] == 0)) for members in groups.members)
    # Features may predict an item without an answer; otherwise each item takes part once at least.
    n_for_unseen = 0 if fitting.has_features else n_unseen // plan.set_size
    questions = n_for_unseen + _questions_left(measured, n_votes + n_for_unseen)
    fewest, most = range_of(questions, n_free)
    return replace(
        measured,
        standing=Standing.ASKING if questions <= n_free else Standing.SHORT,
        questions=min(ceil(questions), n_free),
        fewest=fewest,
        most=most,
    )


def _questions_left(measured: Remaining, n_votes: int) -> float:
    """Estimate the number of questions left; each group must reach a top by itself.

    Args:
        measured: the distance from the goal.
        n_votes: the number of answers so far.
    """
    if not (measured.groups and measured.goal.top):
        return questions_left(measured.wrong, measured.goal, n_votes)
    # The share of each group in the answers, as if each item had taken part in one at least.
    n_answers = np.array([max(group.answers, group.items // 2) for group in measured.groups])
    n_votes_of_group = n_votes * n_answers / n_answers.sum()
    return sum(
        questions_left(group.wrong, measured.goal, n)
        for group, n in zip(measured.groups, n_votes_of_group.tolist(), strict=True)
        if group.sure < SURE
    )


def _checked(measured: Remaining) -> Remaining:
    """Tell whether unseen answers confirm that the goal is reached, and how many are missing."""
    check = measured.check
    if check.passed:
        return replace(measured, standing=Standing.REACHED, questions=0, fewest=0, most=0)
    if check.n >= ENOUGH_CHECKS:
        # More answers are needed until the check is passed, but their number is not known.
        return replace(measured, standing=Standing.CONTRADICTED)
    n_wanted = (ENOUGH_CHECKS - check.n) * _QUESTIONS_PER_CHECK
    n_left = min(n_wanted, measured.n_free)
    return replace(
        measured, standing=Standing.UNCHECKED, questions=n_left, fewest=n_left, most=n_left
    )


def _pairs_left(plan: Plan, fitting: SessionFitting) -> tuple[I64, I64, F64] | None:
    """Count how often each pair can still be asked; None if there are too many pairs to list."""
    if plan.pairs.every is None or fitting.fits.all.covariance is None:
        return None
    i, j = plan.pairs.every
    keys = unordered(i, j)
    history = fitting.history
    times = len(history.annotators) - history.n_annotators_of(keys)
    return i, j, times.astype(np.float64)


def _check(fitting: SessionFitting) -> Check:
    """Check the model by answers that it was not fitted to.

    The answers are the hold-out. If a session has at least 30 answers but no hold-out, a fifth of
    the answers is left out of a fit instead.
    """
    with fitting.lock:
        answers = fitting.history.checking_answers(holdout=True)
        n_votes = fitting.history.n_votes
    posterior = fitting.fits.choosing
    left_out = not len(answers) and n_votes >= NO_HOLDOUT
    if left_out:
        posterior, answers = fitting.without_a_part(_LEFT_OUT)
    p = _p_of_best(posterior, answers)
    is_right = p.argmax(axis=1) == answers.share.argmax(axis=1)
    return holdout_check(p.max(axis=1), is_right, left_out=left_out)


def _p_of_best(posterior: Posterior, answers: Answers) -> F64:
    """Predict the probability that each place is named best, (m, k), 0 in an empty place."""
    annotators = posterior.annotators.padded(int(answers.annotator.max(initial=-1)) + 1)
    draws = posterior.draws[:_DRAWS]
    return np.mean([predict(answers, scores, annotators, 0.0).expected for scores in draws], axis=0)
