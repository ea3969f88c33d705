"""Rank the items of a session, and measure how far its goal is and how many questions are left."""

from __future__ import annotations

import threading
from math import ceil, comb
from typing import NamedTuple

import numpy as np

from sortnet.core import I64
from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.fitted_model import milestone
from sortnet.preference.fitting import SessionFitting
from sortnet.preference.forecast import Forecast, forecast
from sortnet.preference.goal import Goal
from sortnet.preference.groups import Groups, GroupStanding, parts_apart
from sortnet.preference.history import History
from sortnet.preference.intervals import Ranking, rank_items
from sortnet.preference.posterior import Posterior
from sortnet.preference.set_choice import predict_best, worth_in_pairs
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

# A session may need more answers than forecast. Then it makes a new forecast each time the number
# of events has grown by this factor.
_GROWTH_TO_RENEW = 1.05


class _SessionState(NamedTuple):
    """The state of a session at one moment, copied while the session's lock is held.

    Attributes:
        posterior: the posterior of the scores, from the last fit.
        check: the check of the model by unseen answers.
        last_forecast: the last forecast; None before the first.
        n_votes: the number of votes so far.
        n_free: the number of questions that can still be asked.
        n_answers: (n,) the number of answers about each item.
        component: (n,) the number of each item's connected component in the graph of answers.
        n_models: the number of models that have answered.
        has_people: whether people have answered, too.
    """

    posterior: Posterior
    check: Check
    last_forecast: Forecast | None
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
        holdout: share of hold-out questions.
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
        holdout: float,
        set_size: int,
        seed: int,
    ) -> None:
        """Start without a forecast."""
        self._history = history
        self._fitting = fitting
        self._groups = groups
        self._pairs = pairs
        self._study = study
        self._goal = goal
        self._lock = lock
        self._holdout = holdout
        self._set_size = set_size
        self._seed = seed
        self._forecasting = threading.Lock()  # held while a thread makes a forecast
        self._forecast: Forecast | None = None
        self._n_fitted_at_forecast = -1  # number of events that were fitted before the forecast

    def items_in_order(self, top: int | None = None) -> Ranking:
        """Rank all items, with an interval for each rank.

        Args:
            top: k, to add each item's probability to be in the top k of its group. If 0, no
                probabilities are added. If None, k is the number of top items in the goal.
        """
        with self._lock:
            posterior = self._fitting.fits.all.posterior
            n_answers = self._history.seen.copy()
        # The lock is not held from here on, so that no question waits for the ranking.
        k = self._goal.top if top is None else top
        return rank_items(posterior, n_answers, self._groups, top=k)

    def remaining(self) -> Remaining:
        """Measure the distance from the goal, by the last fit and the last forecast."""
        state = self._state()
        # The lock is not held from here on, so that no question waits for the computations.
        distance = progress(state.posterior, self._groups, self._goal, seed=self._seed)
        n_left_by_forecast = questions_left(state.last_forecast, state.n_votes, state.n_free)
        stop, why = whether_to_stop(
            distance, self._goal, state.n_free, state.check, n_left_by_forecast
        )
        if stop:
            n_left = Left(0, 0, 0)
        elif _is_contradicted(distance, state.check):
            # More answers are needed until the check is passed, but their number is not known.
            n_left = Left(None, None, None)
        else:
            n_left = n_left_by_forecast
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
        with self._lock:
            n_models = len(self._fitting.models())
            return _SessionState(
                posterior=self._fitting.fits.all.posterior,
                check=self._check_holdout(),
                last_forecast=self._forecast,
                n_votes=self._history.n_votes,
                n_free=self._n_free_questions(),
                n_answers=self._history.seen.copy(),
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

    @property
    def forecast_due(self) -> bool:
        """Whether a new forecast should be made from the last fit.

        The first forecast is due at once. Then a forecast is due each time there are about a
        quarter more events; `milestone` rounds a number of events down to such a step. If there are
        already as many answers as forecast, a forecast is due each time there are 5 % more events.
        """
        with self._lock:
            if self._forecast is None:
                return True
            n_fitted = self._fitting.fitted_at
            n_fitted_before = self._n_fitted_at_forecast
            if milestone(n_fitted) != milestone(n_fitted_before):
                return True
            n_expected = self._forecast.middle  # answers with which the session should have stopped
            is_overdue = n_expected is not None and self._history.n_votes >= n_expected
            return is_overdue and n_fitted > _GROWTH_TO_RENEW * n_fitted_before

    def renew_forecast(self) -> None:
        """Forecast how many questions are left, if a forecast is due.

        See `Session.renew_forecast`.
        """
        with self._forecasting:
            if not self.forecast_due:
                return
            with self._lock:
                posterior = self._fitting.fits.all.posterior
                n_fitted = self._fitting.fitted_at
                answered = self._history.n_votes
                check = self._check_holdout()
                measuring = self._fitting.typical_measuring()
            # The check of the model needs 8 hold-out answers. The check of a session without
            # hold-out uses all answers, so it needs no more answers.
            checks_left = 0 if check.left_out else max(ENOUGH_CHECKS - check.n, 0)
            new_forecast = forecast(
                posterior,
                self._groups,
                self._goal,
                answered=answered,
                checks_left=checks_left,
                holdout=self._holdout,
                worth=worth_in_pairs(self._set_size),
                measuring=measuring,
                seed=self._seed,
            )
            with self._lock:
                self._forecast = new_forecast
                self._n_fitted_at_forecast = n_fitted

    def _check_holdout(self) -> Check:
        """Check the model by answers that it was not fitted to; the lock must be held.

        The answers are the hold-out. If a session has at least 30 answers but no hold-out, each
        answer is predicted from all other answers instead.
        """
        votes = self._history.decided(holdout=True)
        answers_about_sets = self._history.holdout_sets()
        posterior = self._fitting.fits.choosing.posterior  # the fit without the hold-out
        p_of_best, is_best = predict_best(posterior, answers_about_sets)
        has_holdout = len(votes) > 0 or len(answers_about_sets) > 0
        left_out = not has_holdout and self._history.n_votes >= NO_HOLDOUT
        if left_out:
            votes = self._history.decided(holdout=False)
            posterior = self._fitting.fits.all.posterior
        marked_votes = votes.marked(self._fitting.models())
        p_left = posterior.predicted(marked_votes, left_out=left_out)
        is_right = (p_left > 0.5) == (votes.target > 0.5)
        p_of_expected_answer = np.concatenate((np.maximum(p_left, 1 - p_left), p_of_best))
        is_expected = np.concatenate((is_right, is_best))
        return holdout_check(p_of_expected_answer, is_expected, left_out=left_out)


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
