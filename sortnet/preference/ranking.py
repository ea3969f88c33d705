"""The ranking of a session: the items in order, how close the goal is, how much is left to ask."""

from __future__ import annotations

import threading

import numpy as np

from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.base import pairs_among
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

_LATER = 1.05  # share of more events after which a forecast that has passed is renewed


class SessionRanking:
    """Ranks the items of a session by its last fit; thread-safe.

    Args:
        history, fitting: of the session.
        groups: of the items.
        pairs: that may be asked.
        study: its gold pairs.
        goal: of the session.
        lock: of the history and the fits.
        holdout: share of questions of the hold-out.
        set_size: number of items of the other questions.
        seed: of all random choices.
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
        self._history, self._fitting, self._groups, self._pairs = history, fitting, groups, pairs
        self._study, self._goal, self._lock = study, goal, lock
        self._holdout, self._set_size, self._seed = holdout, set_size, seed
        self._forecasting = threading.Lock()
        self._forecast: Forecast | None = None
        self._forecast_at = -1  # number of events that were fitted for the forecast

    def items_in_order(self, top: int | None = None) -> Ranking:
        """All items in order, with intervals; see `Session.ranking`."""
        with self._lock:
            posterior, seen = self._fitting.fits.all.posterior, self._history.seen.copy()
        # Outside the lock, so that a question does not wait.
        wanted = self._goal.top if top is None else top
        return rank_items(posterior, seen, self._groups, top=wanted)

    def remaining(self) -> Remaining:
        """How close the session is to its goal, by the last fit and the last forecast."""
        with self._lock:
            posterior = self._fitting.fits.all.posterior
            answered = self._history.n_votes
            check = self._check_holdout()
            n_annotators = max(len(self._history.annotators), 1)
            free = max(self._pairs.count * n_annotators - self._history.n_asked(), 0)
            free = -(-free // len(pairs_among(range(self._set_size))))
            parts, seen = self._history.all_components(), self._history.seen.copy()
            n_models = len(self._fitting.models())
            others = bool(self._study.gold) or n_models < len(self._history.annotators)
            last_forecast = self._forecast
        state = progress(posterior, self._groups, self._goal, seed=self._seed)
        number_left = questions_left(last_forecast, answered, free)
        stop, why = whether_to_stop(state, self._goal, free, check, number_left)
        if stop:
            number_left = Left(0, 0, 0)
        elif state.reached and check.n >= ENOUGH_CHECKS:  # nobody knows what will settle it
            number_left = Left(None, None, None)
        details = [state.details]
        groups: tuple[GroupStanding, ...] = ()
        if len(self._groups) > 1:
            groups = group_standings(
                posterior, self._groups, seen, self._goal, passed=check.passed, seed=self._seed
            )
            details.append(_groups_in_words(groups))
        features = self._fitting.has_features
        apart = parts_apart(parts, seen > 0, self._groups, features=features)
        details.append(about_models(n_models, others))
        return Remaining(
            number_left.questions,
            state.wrong,
            state.reached,
            check.n,
            check.right,
            check.expected,
            stop,
            why,
            groups,
            check.left_out,
            number_left.fewest,
            number_left.most,
            tuple(filter(None, details)),
            apart,
        )

    @property
    def forecast_due(self) -> bool:
        """Whether the forecast of the last fit is to be renewed: see `renew_forecast`."""
        with self._lock:
            fitted, before = self._fitting.fitted_at, self._forecast_at
            if before < 0 or milestone(fitted) != milestone(before):
                return True
            middle = None if self._forecast is None else self._forecast.middle
            passed = middle is not None and self._history.n_votes >= middle
        return passed and fitted > _LATER * before

    def renew_forecast(self) -> None:
        """Forecast how many questions are left, if that is due; see `Session.renew_forecast`."""
        with self._forecasting:
            if not self.forecast_due:
                return
            with self._lock:
                posterior, fitted = self._fitting.fits.all.posterior, self._fitting.fitted_at
                answered, check = self._history.n_votes, self._check_holdout()
                measuring = self._fitting.typical_measuring()
            checks_left = 0 if check.left_out else max(ENOUGH_CHECKS - check.n, 0)
            new = forecast(
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
                self._forecast, self._forecast_at = new, fitted

    def _check_holdout(self) -> Check:
        """Whether the model is right about answers that it was not fitted to, as it expects."""
        fits = self._fitting.fits
        votes, posterior = self._history.decided(holdout=True), fits.choosing.posterior
        left_out = not len(votes) and self._history.n_votes >= NO_HOLDOUT
        if left_out:
            votes, posterior = self._history.decided(holdout=False), fits.all.posterior
        p = posterior.predicted(votes.marked(self._fitting.models()), left_out=left_out)
        right = (p > 0.5) == (votes.target > 0.5)
        return holdout_check(np.maximum(p, 1 - p), right, left_out=left_out)


def _groups_in_words(groups: tuple[GroupStanding, ...]) -> str:
    """How many groups have reached the goal, as a sentence."""
    n_reached = sum(group.stop for group in groups)
    if n_reached == len(groups):
        return "all groups have reached the goal"
    return f"{n_reached} of {len(groups)} groups have reached the goal"
