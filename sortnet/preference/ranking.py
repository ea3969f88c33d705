"""The ranking of a session: the items in order, the distance from the goal, questions left."""

from __future__ import annotations

import threading
from math import ceil, comb

import numpy as np

from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.fitted_model import milestone
from sortnet.preference.fitting import SessionFitting
from sortnet.preference.forecast import Forecast, forecast
from sortnet.preference.goal import Goal
from sortnet.preference.groups import Groups, GroupStanding, parts_apart
from sortnet.preference.history import History
from sortnet.preference.intervals import Ranking, rank_items
from sortnet.preference.set_choice import worth_in_pairs
from sortnet.preference.stopping import (
    ENOUGH_CHECKS,
    NO_HOLDOUT,
    Check,
    Left,
    Remaining,
    about_models,
    group_standings,
    holdout_check,
    progress,
    questions_left,
    whether_to_stop,
)
from sortnet.preference.study import Study

_LATER = 1.05  # a forecast whose number of answers is reached is renewed after 5 % more events


class SessionRanking:
    """Ranks the items of a session by its last fit; thread-safe.

    Args:
        history, fitting: the events of the session, and the model fitted to them.
        groups: the groups of the items.
        pairs: the pairs that may be asked.
        study: the gold pairs.
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
        self._forecasting = threading.Lock()
        self._forecast: Forecast | None = None
        self._forecast_at = -1  # number of events that were fitted for the forecast

    def items_in_order(self, top: int | None = None) -> Ranking:
        """All items in order, with intervals; see `Session.ranking`."""
        with self._lock:
            posterior = self._fitting.fits.all.posterior
            n_answers = self._history.seen.copy()
        # Outside the lock, so that a question does not wait.
        goal_top = self._goal.top if top is None else top
        return rank_items(posterior, n_answers, self._groups, top=goal_top)

    def remaining(self) -> Remaining:
        """The distance of the session from its goal, by the last fit and the last forecast."""
        with self._lock:
            posterior = self._fitting.fits.all.posterior
            answered = self._history.n_votes
            check = self._check_holdout()
            n_free = self._n_free_questions()
            components = self._history.all_components()
            n_answers = self._history.seen.copy()
            n_models = len(self._fitting.models())
            has_people = n_models < len(self._history.annotators)
            last_forecast = self._forecast
        state = progress(posterior, self._groups, self._goal, seed=self._seed)
        n_left = questions_left(last_forecast, answered, n_free)
        stop, why = whether_to_stop(state, self._goal, n_free, check, n_left)
        if stop:
            n_left = Left(0, 0, 0)
        elif state.reached and check.n >= ENOUGH_CHECKS:
            # The check contradicts the model, and nobody knows how many answers change that.
            n_left = Left(None, None, None)
        standings: tuple[GroupStanding, ...] = ()
        if len(self._groups) > 1:
            standings = group_standings(
                posterior, self._groups, n_answers, self._goal, passed=check.passed, seed=self._seed
            )
        sentences = [
            state.details,
            _groups_in_words(standings),
            about_models(n_models, has_people or bool(self._study.gold)),
        ]
        return Remaining(
            questions=n_left.questions,
            fewest=n_left.fewest,
            most=n_left.most,
            wrong=state.wrong,
            reached=state.reached,
            holdout_n=check.n,
            holdout_right=check.right,
            holdout_expected=check.expected,
            left_out=check.left_out,
            stop=stop,
            why=why,
            groups=standings,
            details=tuple(sentence for sentence in sentences if sentence),
            apart=parts_apart(
                components, n_answers > 0, self._groups, features=self._fitting.has_features
            ),
        )

    def _n_free_questions(self) -> int:
        """The number of questions that the annotators can still be asked; the lock must be held.

        An annotator can be asked each pair once; a question about a set takes all its pairs.
        """
        n_annotators = max(len(self._history.annotators), 1)
        n_free_pairs = max(self._pairs.count * n_annotators - self._history.n_asked(), 0)
        return ceil(n_free_pairs / comb(self._set_size, 2))

    @property
    def forecast_due(self) -> bool:
        """Whether the forecast of the last fit is to be renewed: see `renew_forecast`."""
        with self._lock:
            n_fitted = self._fitting.fitted_at
            if self._forecast is None or milestone(n_fitted) != milestone(self._forecast_at):
                return True
            middle = self._forecast.middle
            is_reached = middle is not None and self._history.n_votes >= middle
            return is_reached and n_fitted > _LATER * self._forecast_at

    def renew_forecast(self) -> None:
        """Forecast how many questions are left, if that is due; see `Session.renew_forecast`."""
        with self._forecasting:
            if not self.forecast_due:
                return
            with self._lock:
                posterior = self._fitting.fits.all.posterior
                n_fitted = self._fitting.fitted_at
                answered = self._history.n_votes
                check = self._check_holdout()
                measuring = self._fitting.typical_measuring()
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
                self._forecast_at = n_fitted

    def _check_holdout(self) -> Check:
        """The check of the model by answers that it was not fitted to; the lock must be held."""
        votes = self._history.decided(holdout=True)
        posterior = self._fitting.fits.choosing.posterior
        left_out = not len(votes) and self._history.n_votes >= NO_HOLDOUT
        if left_out:
            votes = self._history.decided(holdout=False)
            posterior = self._fitting.fits.all.posterior
        p = posterior.predicted(votes.marked(self._fitting.models()), left_out=left_out)
        is_right = (p > 0.5) == (votes.target > 0.5)
        return holdout_check(np.maximum(p, 1 - p), is_right, left_out=left_out)


def _groups_in_words(standings: tuple[GroupStanding, ...]) -> str:
    """A sentence that counts the groups that have reached the goal; empty without groups."""
    if not standings:
        return ""
    n_reached = sum(standing.stop for standing in standings)
    if n_reached == len(standings):
        return "all groups have reached the goal"
    return f"{n_reached} of {len(standings)} groups have reached the goal"
