"""Rank the items of a session, and measure how far its goal is and how many questions are left."""

from __future__ import annotations

import threading
from math import ceil, comb
from typing import NamedTuple

import numpy as np

from sortnet.core import F64, I64
from sortnet.preference.answers import Answers
from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.fitting import SessionFitting
from sortnet.preference.goal import Goal
from sortnet.preference.groups import Groups, GroupStanding, parts_apart
from sortnet.preference.history import History
from sortnet.preference.intervals import Ranking, rank_items
from sortnet.preference.model import SHARPNESS, Posterior, choice_odds
from sortnet.preference.stopping import (
    ENOUGH_CHECKS,
    NO_HOLDOUT,
    Check,
    Left,
    Progress,
    Remaining,
    about_models,
    group_standings,
    holdout_check,
    progress,
    questions_left,
    whether_to_stop,
)
from sortnet.preference.study import Study

_QUESTIONS_PER_CHECK = 10  # one question in ten is of the hold-out
_DRAWS = 64
_LEFT_OUT = 0.2  # share of the answers that check the model if there is no hold-out


class _SessionState(NamedTuple):
    """The state of a session at one moment, copied while the session's lock is held.

    Attributes:
        posterior: the posterior of the scores, from the last fit.
        check: the check of the model by unseen answers.
        n_votes: the number of votes so far.
        n_free: the number of questions that can still be asked.
        n_answers: (n,) the number of answers about each item.
        component: (n,) the number of each item's connected component in the graph of answers.
        n_models: the number of models that have answered.
        has_people: whether people have answered, too.
    """

    posterior: Posterior
    check: Check
    n_votes: int
    n_free: int
    n_answers: I64
    component: I64
    n_models: int
    has_people: bool


class SessionRanking:
    """Ranks the items of a session by its last fit; thread-safe.

    Args:
        history: the events of the session.
        fitting: the model fitted to the events.
        groups: the groups of the items.
        pairs: the pairs that may be asked.
        study: has the gold pairs.
        goal: the goal of the session.
        lock: guards the history and the fits.
        set_size: number of items of a question outside the hold-out.
        seed: seed of all random choices.
    """

    def __init__(
        self,
        history: History,
        fitting: SessionFitting,
        groups: Groups,
        pairs: AskablePairs,
        study: Study,
        goal: Goal,
        lock: threading.RLock,
        *,
        set_size: int,
        seed: int,
    ) -> None:
        """Start without a check of the model."""
        self._history = history
        self._fitting = fitting
        self._groups = groups
        self._pairs = pairs
        self._study = study
        self._goal = goal
        self._lock = lock
        self._set_size = set_size
        self._seed = seed

    def items_in_order(self, top: int | None = None) -> Ranking:
        """Rank all items, with an interval for each rank.

        Args:
            top: k, to add each item's probability to be in the top k of its group. If 0, no
                probabilities are added. If None, k is the number of top items in the goal.
        """
        with self._lock:
            posterior = self._fitting.fits.all
            n_answers = self._history.seen()
        # The lock is not held from here on, so that no question waits for the ranking.
        k = self._goal.top if top is None else top
        return rank_items(posterior, n_answers, self._groups, top=k)

    def remaining(self) -> Remaining:
        """Measure the distance from the goal, by the last fit."""
        state = self._state()
        # The lock is not held from here on, so that no question waits for the computations.
        distance = progress(state.posterior, self._groups, self._goal, seed=self._seed)
        if distance.reached:
            wanted = max(ENOUGH_CHECKS - state.check.n, 0) * _QUESTIONS_PER_CHECK
            to_check = min(wanted, state.n_free)
            expected = Left(to_check, to_check, to_check, suffices=wanted <= state.n_free)
        else:
            expected = questions_left(
                state.posterior,
                self._groups,
                self._goal,
                state.n_votes,
                state.n_free,
                seed=self._seed,
            )
        stop, why = whether_to_stop(distance, self._goal, state.n_free, state.check, expected)
        if stop:
            n_left = Left(0, 0, 0)
        elif _is_contradicted(distance, state.check):
            # More answers are needed until the check is passed, but their number is not known.
            n_left = Left(None, None, None)
        else:
            n_left = expected
        standings = self._standings_of_groups(state)
        return Remaining(
            questions=n_left.questions,
            fewest=n_left.fewest,
            most=n_left.most,
            wrong=distance.wrong,
            reached=distance.reached,
            holdout_n=state.check.n,
            holdout_right=state.check.right,
            holdout_expected=state.check.expected,
            left_out=state.check.left_out,
            stop=stop,
            why=why,
            groups=standings,
            details=self._details(state, distance, standings),
            apart=parts_apart(
                state.component,
                state.n_answers > 0,
                self._groups,
                features=self._fitting.has_features,
            ),
        )

    def _state(self) -> _SessionState:
        """Hold the lock, and copy the parts of the session's state that `remaining` needs."""
        check = self._check_holdout()  # before the lock: it may need a fit
        with self._lock:
            n_models = len(self._fitting.models())
            return _SessionState(
                posterior=self._fitting.fits.all,
                check=check,
                n_votes=self._history.n_votes,
                n_free=self._n_free_questions(),
                n_answers=self._history.seen(),
                component=self._history.all_components(),
                n_models=n_models,
                has_people=n_models < len(self._history.annotators),
            )

    def _details(
        self, state: _SessionState, distance: Progress, standings: tuple[GroupStanding, ...]
    ) -> tuple[str, ...]:
        """Write further sentences on the distance from the goal, the groups and the models."""
        models_are_measured = state.has_people or bool(self._study.gold)
        sentences = (
            distance.details,
            _groups_in_words(standings),
            about_models(state.n_models, models_are_measured),
        )
        # A sentence is empty if it has nothing to tell.
        return tuple(sentence for sentence in sentences if sentence)

    def _standings_of_groups(self, state: _SessionState) -> tuple[GroupStanding, ...]:
        """Measure the distance of each group from the goal; nothing if there is only one group."""
        if len(self._groups) == 1:
            return ()
        return group_standings(
            state.posterior,
            self._groups,
            state.n_answers,
            self._goal,
            passed=state.check.passed,
            seed=self._seed,
        )

    def _n_free_questions(self) -> int:
        """Count the questions that the annotators can still be asked; the lock must be held.

        Each annotator can be asked each pair once. A question about a set of items uses up all
        pairs of the set.
        """
        n_annotators = max(len(self._history.annotators), 1)
        n_free_pairs = max(self._pairs.count * n_annotators - self._history.n_asked(), 0)
        n_pairs_per_question = comb(self._set_size, 2)
        return ceil(n_free_pairs / n_pairs_per_question)

    def _check_holdout(self) -> Check:
        """Check the model by answers that it was not fitted to.

        The answers are the hold-out. If a session has at least 30 answers but no hold-out, a fifth
        of the answers is left out of a fit instead.
        """
        fits = self._fitting.fits
        with self._lock:
            answers = self._history.checking_answers(holdout=True)
            n_votes = self._history.n_votes
        posterior = fits.choosing
        left_out = not len(answers) and n_votes >= NO_HOLDOUT
        if left_out:
            posterior, answers = self._fitting.without_a_part(_LEFT_OUT)
        p = _p_of_best(posterior, answers)
        is_right = p.argmax(axis=1) == answers.share.argmax(axis=1)
        return holdout_check(p.max(axis=1), is_right, left_out=left_out)


def _p_of_best(posterior: Posterior, answers: Answers) -> F64:
    """Predict the probability that each place is named best, (m, k), 0 in an empty place."""
    annotators = posterior.annotators.padded(int(answers.annotator.max(initial=-1)) + 1)
    c = annotators.reliability[answers.annotator]
    bias = annotators.bias[answers.annotator]
    is_empty = answers.items < 0
    p = np.zeros(answers.items.shape)
    draws = posterior.draws[:_DRAWS]
    for scores in draws:
        z = SHARPNESS * c[:, None] * scores[answers.items] + bias[:, None] * answers.place
        p += choice_odds(z, is_empty, 0.0).expected
    return p / len(draws)


def _is_contradicted(distance: Progress, check: Check) -> bool:
    """Tell whether the goal seems to be reached, but the check of the model has failed.

    With fewer than 8 answers, the check has not failed: it only lacks answers.
    """
    return distance.reached and check.n >= ENOUGH_CHECKS and not check.passed


def _groups_in_words(standings: tuple[GroupStanding, ...]) -> str:
    """Say in words how many groups have reached the goal; an empty text without groups."""
    if not standings:
        return ""
    n_reached = sum(standing.stop for standing in standings)
    if n_reached == len(standings):
        return "all groups have reached the goal"
    return f"{n_reached} of {len(standings)} groups have reached the goal"
