"""The model of a session: the times of its fits, and the answers that each fit uses."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sortnet.core import F64, I64
from sortnet.preference.fitted_model import (
    ENOUGH,
    Basis,
    Fits,
    choose_basis,
    fit_both,
    kept_scales,
    milestone,
    predicted_better_without,
)
from sortnet.preference.goal import Goal, among_top
from sortnet.preference.groups import Groups
from sortnet.preference.history import History
from sortnet.preference.posterior import Measuring
from sortnet.preference.study import Study
from sortnet.preference.vote_arrays import MODEL, PERSON, Votes
from sortnet.preference.widening import widened_by

_SMALL = 150  # unknowns up to which a fit takes a few milliseconds
_UNFITTED = 4  # events that wait for a new fit, or 5 % of the events if that is more
_AT_A_TIME = 64  # answers observed one by one; more of them wait for the next fit


class CurrentOrder(NamedTuple):
    """The items in order by the fit that chooses questions, which does not use the hold-out.

    Attributes:
        items: (n,) best first; group by group if there are groups.
        among_top: (n,) the probability that each item is in the top of its group; None if the goal
            is no top.
    """

    items: I64
    among_top: F64 | None


class SessionFitting:
    """Fits the scores of a session to its answers from time to time; thread-safe.

    Args:
        features: (n, d) the features of the items.
        history: the events of the session.
        groups: the groups of the items.
        study: which annotators are models, and the gold pairs.
        goal: the goal of the session.
        lock: guards the history and the fits; it is not held during a fit.
        seed: seed of all random choices.
        keep: folder in which fits to many answers are kept; None: nowhere.
        call: calls the functions of a fit that takes more than a few milliseconds.

    Attributes:
        fits: the last fits.
        fitted_at: number of events to which the last fits were made.
        order: the items in order, which also includes the answers after the last fit.
    """

    def __init__(
        self,
        features: F64,
        history: History,
        groups: Groups,
        study: Study,
        goal: Goal,
        lock: threading.RLock,
        *,
        seed: int,
        keep: Path | None,
        call: Callable[..., Any],
    ) -> None:
        self._X = features
        self._history = history
        self._groups = groups
        self._study = study
        self._goal = goal
        self._lock = lock
        self._seed = seed
        self._keep = keep
        self._call = call
        self._fitting = threading.Lock()
        self.fits = self._fit(0, None)
        self.fitted_at = self._observed = 0
        self.order = self._order_by(self.fits)

    @property
    def has_features(self) -> bool:
        """Whether the items have features."""
        return bool(self._X.shape[1])

    @property
    def behind(self) -> int:
        """The number of events since the last fit."""
        return len(self._history.events) - self.fitted_at

    @property
    def stale(self) -> bool:
        """Whether there are events or a basis to be fitted."""
        return self._is_net_old or self.behind > 0

    @property
    def due(self) -> bool:
        """Whether enough events wait for a fit."""
        return self.behind > max(_UNFITTED, self.fitted_at // 20)

    @property
    def quick(self) -> bool:
        """Whether a fit takes only a few milliseconds: few unknowns, no net to train."""
        if not self.small:
            return False
        has_net = self._history.n_votes >= ENOUGH
        return not (has_net and self._is_net_old)

    @property
    def small(self) -> bool:
        """Whether there are few unknowns."""
        return sum(self._X.shape) + len(self._history.annotators) <= _SMALL

    @property
    def _is_net_old(self) -> bool:
        """Whether the net was trained on fewer events than the last milestone."""
        return self.fits.basis.milestone != self._milestone(len(self._history.events))

    def refit(self, *, keep_net: bool = False) -> None:
        """Fit to all events so far, if there is something to fit; see `Session.refit`."""
        with self._fitting:
            n_events = len(self._history.events)
            keep_net = keep_net and n_events < 2 * self.fits.basis.milestone
            if self.stale:
                self._refit(keep_net=keep_net)

    def fit_if_due(self) -> None:
        """Fit if enough events wait, unless a fit is in progress: a question must not wait."""
        if not (self.due and self._fitting.acquire(blocking=False)):
            return
        try:
            self._refit(keep_net=self._history.n_votes >= ENOUGH)  # no net is trained here
        finally:
            self._fitting.release()

    def catch_up(self) -> None:
        """Update the posterior by the events since the last fit; the lock must be held."""
        posterior = self.fits.choosing.posterior
        n_events = len(self._history.events)
        n_late = n_events - self._observed
        if posterior.covariance is None or not 0 < n_late <= _AT_A_TIME:
            return
        n_annotators = len(posterior.reliability)
        models = self.models()
        late = self._history.votes(n_events, after=self._observed, holdout=False)
        of_pairs = late.where(late.of_pairs)
        for row, probit in zip(of_pairs.rows(), of_pairs.probits(), strict=True):
            left, right, target, annotator = row
            if annotator < n_annotators:
                kind = MODEL if annotator in models else PERSON
                posterior.observe(left, right, target, annotator, kind, probit)
        late = late.marked(models)
        for sets in late.sets:
            for rows in sets.rows:
                if late.annotator[rows[0]] < n_annotators:
                    posterior.observe_set(late.where(rows))
        self._observed = n_events
        self.order = self._order_by(self.fits)

    def measuring(self, annotator: str) -> Measuring | None:
        """The reliability and the scale of an annotator, if their answers are measurements."""
        if not self._history.gives_measurements(annotator):
            return None
        annotators = self.fits.choosing.posterior.annotators
        number = self._history.annotators.get(annotator, len(annotators.scale))
        annotators = annotators.padded(max(number + 1, len(annotators.scale)))
        reliability = float(annotators.reliability[number])
        scale = float(annotators.scale[number])
        return (reliability, scale) if scale > 0 else None

    def typical_measuring(self) -> Measuring | None:
        """The reliability and the scale of the annotator with the most answers; see `measuring`.

        Before any answer, of an annotator whose answers will be measurements.
        """
        names = [*self._history.annotators] or [*self._study.probabilities]
        if not names:
            return None
        return self.measuring(max(names, key=self._history.answered))

    def models(self) -> list[int]:
        """The numbers of the annotators that are models."""
        numbers = self._history.annotators
        return [numbers[name] for name in self._study.models if name in numbers]

    def weights(self) -> tuple[Votes, dict[str, float]]:
        """All answers about the order, and each annotator's weight: see `Session.weighted`."""
        with self._lock:
            votes = self._history.soft_votes()
            names = [*self._history.annotators]
            n_events = len(self._history.events)
            votes_and_gold = self._with_known(self._history.votes(n_events))
        if not len(votes):
            return votes, {}
        keep = self._keep if votes.n_answers >= ENOUGH else None
        scales = kept_scales(self._X, votes_and_gold, len(names), seed=self._seed, keep=keep)
        weight: F64 = scales.annotators.reliability * (1 - scales.annotators.blind)
        return votes.comparisons(), dict(zip(names, weight.tolist(), strict=True))

    def better_without(self, annotator: str) -> bool:
        """Whether others' answers are predicted better without an annotator's answers.

        False if the annotator has no answers.
        """
        with self._lock:
            number = self._history.annotators.get(annotator)
            if number is None:
                return False
            votes = self._history.votes(len(self._history.events))
            basis = self.fits.basis
        return predicted_better_without(number, basis, votes, seed=self._seed)

    def widened_by(self) -> str | None:
        """The name of the annotator whose answers made the intervals wider, by the last fit."""
        with self._lock:
            fits = self.fits
            votes = self._with_known(self._history.votes(self.fitted_at))
            names = [*self._history.annotators]
        number = widened_by(
            fits.all.posterior,
            fits.basis.features,
            votes,
            self._groups,
            self._goal,
            seed=self._seed,
        )
        return None if number is None else names[number]

    def _refit(self, *, keep_net: bool = False) -> None:
        n_events = len(self._history.events)
        fits = self._fit(n_events, self.fits, keep_net=keep_net)
        order = self._order_by(fits)  # before the lock, so that a question does not wait
        with self._lock:
            self.fits = fits
            self.order = order
            self.fitted_at = self._observed = n_events

    def _fit(self, n_events: int, before: Fits | None, *, keep_net: bool = False) -> Fits:
        """Fits to the first events, which start from the fits before."""
        with self._lock:
            n_annotators = len(self._history.annotators)
            at = self._milestone(n_events)
            everything = self._with_known(self._history.votes(n_events))
            usable = self._with_known(self._history.votes(n_events, holdout=False))
        call = self._call if n_events and not self.small else operator.call
        # Only what a session that starts with these events would compute, too, is kept.
        keep = self._keep if everything.n_answers >= ENOUGH and not keep_net else None
        basis = None
        start = None
        if before is not None:
            basis = before.basis
            start = before.choosing.theta
        if basis is None or basis.scaled != at or (basis.milestone != at and not keep_net):
            net = basis if keep_net else None
            basis = self._choose_basis(at, call, net=net, keep=keep)
            if not keep_net:  # the features may be others
                start = None
        if start is not None:
            keep = None
        fits: Fits = call(
            fit_both,
            basis,
            usable,
            everything,
            n_annotators,
            start=start,
            seed=self._seed,
            keep=keep,
        )
        return fits

    def _choose_basis(
        self, at: int, call: Callable[..., Any], *, net: Basis | None, keep: Path | None
    ) -> Basis:
        with self._lock:
            early = self._with_known(self._history.votes(at, holdout=False))
        basis: Basis = call(choose_basis, self._X, early, at, net=net, seed=self._seed, keep=keep)
        return basis

    def _order_by(self, fits: Fits) -> CurrentOrder:
        posterior = fits.choosing.posterior
        items = np.lexsort((-posterior.scores, self._groups.of))
        if not self._goal.top:
            return CurrentOrder(items, None)
        return CurrentOrder(items, among_top(posterior, self._groups, self._goal.top))

    def _with_known(self, votes: Votes) -> Votes:
        """Votes with the models of the study marked, and the answers to its gold pairs added."""
        return votes.with_known(self.models(), self._study.gold_pairs())

    def _milestone(self, n_events: int) -> int:
        """The milestone of the first events, see `milestone`.

        Beside models, people's events have milestones of their own, too: a few of them measure many
        answers of models. If only models have answered, the same holds for the events of all models
        but the first.
        """
        at = milestone(n_events)
        if not self._study.models:
            return at
        with self._lock:
            others = self._history.not_by(self._study.models, n_events)
            if not len(others):
                others = self._history.not_by([*self._history.annotators][:1], n_events)
        at_others = milestone(len(others))
        if not at_others:
            return at
        return max(at, int(others[at_others - 1]) + 1)
