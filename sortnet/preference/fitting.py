"""The fits of a session: when the model is fitted, and which answers each fit uses."""

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
    cached_scales,
    choose_basis,
    fit_both,
    milestone,
    predicted_better_without,
)
from sortnet.preference.goal import Goal, among_top
from sortnet.preference.groups import Groups
from sortnet.preference.history import History
from sortnet.preference.posterior import Measuring, Posterior
from sortnet.preference.study import Study
from sortnet.preference.vote_arrays import MODEL, PERSON, Votes
from sortnet.preference.widening import widened_by

_FEW_UNKNOWNS = 150  # number of unknowns up to which a fit takes a few milliseconds
# A fit is due if more than 4 events have happened since the last fit, and also more than one event
# per 20 events of the last fit.
_MOST_UNFITTED = 4
_FITTED_PER_UNFITTED = 20
_MOST_OBSERVED = 64  # if more events wait, they do not update the posterior before the next fit


class CurrentOrder(NamedTuple):
    """The present order of the items, by a fit that does not use the hold-out.

    Attributes:
        items: (n,) the items, the best first; group by group if there are groups.
        among_top: (n,) the probability that each item is in the top of its group; None if the goal
            of the session is not a top.
    """

    items: I64
    among_top: F64 | None


class SessionFitting:
    """Fits the scores of a session to its answers from time to time; thread-safe.

    Args:
        features: (n, d) the features of the items.
        history: the events of the session.
        groups: the groups of the items.
        study: the settings of the study, which name the models and the gold pairs.
        goal: the goal of the session.
        lock: the lock that guards the history and the fits; it is not held during a fit.
        seed: the seed of all random choices.
        keep: the folder in which fits to many answers are cached. If None, nothing is cached.
        call: a function that calls the slow functions of a fit, perhaps in another process. It is
            not used for fits of a few milliseconds.

    Attributes:
        fits: the last fits.
        fitted_at: the number of events to which the last fits were made.
        order: the order of the items, which also takes account of the answers after the last fit.
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
        self._features = features
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
        self.fitted_at = 0
        self._n_observed = 0  # events by which the posterior is fitted or updated
        self.order = self._order_by(self.fits)

    @property
    def has_features(self) -> bool:
        """Whether the items have features."""
        return bool(self._features.shape[1])

    @property
    def behind(self) -> int:
        """Number of events since the last fit."""
        return len(self._history.events) - self.fitted_at

    @property
    def stale(self) -> bool:
        """Whether a new fit would use new events or a newly trained net."""
        return self._is_net_old or self.behind > 0

    @property
    def due(self) -> bool:
        """Whether enough events wait for a fit."""
        return self.behind > max(_MOST_UNFITTED, self.fitted_at // _FITTED_PER_UNFITTED)

    @property
    def quick(self) -> bool:
        """Whether a fit takes only a few milliseconds: few unknowns, and no net to train."""
        if not self.small:
            return False
        return not (self._uses_net and self._is_net_old)

    @property
    def small(self) -> bool:
        """Whether there are so few unknowns that a fit takes a few milliseconds."""
        n_residuals_and_weights = sum(self._features.shape)
        n_biases = len(self._history.annotators)
        return n_residuals_and_weights + n_biases <= _FEW_UNKNOWNS

    @property
    def _uses_net(self) -> bool:
        """Whether there are enough votes to train a net."""
        return self._history.n_votes >= ENOUGH

    @property
    def _is_net_old(self) -> bool:
        """Whether the net was trained on fewer events than a net would be trained on now."""
        return self.fits.basis.milestone != self._milestone(len(self._history.events))

    def refit(self, *, keep_net: bool = False) -> None:
        """Fit to all events so far, unless the last fit is up to date.

        Args:
            keep_net: whether to keep the features of the last net, so that no net is trained. A net
                that was trained on half of the events or less is not kept.
        """
        with self._fitting:
            n_events = len(self._history.events)
            is_net_recent = n_events < 2 * self.fits.basis.milestone
            if self.stale:
                self._refit(keep_net=keep_net and is_net_recent)

    def fit_if_due(self) -> None:
        """Fit before a question is chosen, if enough events wait for a fit.

        The question waits for the fit, so no net is trained. If another fit is in progress, the
        question does not wait for it: return at once.
        """
        if not self.due:
            return
        is_only_fit = self._fitting.acquire(blocking=False)
        if not is_only_fit:
            return
        try:
            # Training a net takes long, so the last net is kept. With too few votes for a net there
            # is no net to keep, and no net is trained either.
            self._refit(keep_net=self._uses_net)
        finally:
            self._fitting.release()

    def catch_up(self) -> None:
        """Update the posterior of the last fit by the events since then; the lock must be held.

        Answers of annotators whom the posterior does not know wait for the next fit.
        """
        posterior = self.fits.choosing.posterior
        n_events = len(self._history.events)
        n_new = n_events - self._n_observed
        if posterior.covariance is None:
            return  # with many items, only a fit changes the posterior
        if n_new == 0 or n_new > _MOST_OBSERVED:
            return  # there is nothing to learn, or so much that the next fit does it
        votes = self._history.votes(n_events, after=self._n_observed, holdout=False)
        is_annotator_known = votes.annotator < len(posterior.reliability)
        self._observe(posterior, votes.where(is_annotator_known).marked(self.models()))
        self._n_observed = n_events
        self.order = self._order_by(self.fits)

    def _observe(self, posterior: Posterior, votes: Votes) -> None:
        """Update a posterior by answers, one at a time: first about pairs, then about sets."""
        pair_votes = votes.where(votes.of_pairs)
        kinds = np.where(pair_votes.of_kind(MODEL), MODEL, PERSON).tolist()
        for row, kind, probit in zip(pair_votes.rows(), kinds, pair_votes.probits(), strict=True):
            left, right, target, annotator = row
            posterior.observe(left, right, target, annotator, kind, probit)
        for sets in votes.sets:
            for rows in sets.rows:
                posterior.observe_set(votes.where(rows))

    def measuring(self, annotator: str) -> Measuring | None:
        """Return the reliability and the scale of an annotator whose answers are measurements.

        Return None if the annotator's answers count as words.
        """
        if not self._history.gives_measurements(annotator):
            return None
        fitted_annotators = self.fits.choosing.posterior.annotators
        n_fitted = len(fitted_annotators.scale)
        number = self._history.annotators.get(annotator, n_fitted)
        # An annotator whose answers are not fitted yet counts as average.
        annotators = fitted_annotators.padded(max(number + 1, n_fitted))
        reliability = float(annotators.reliability[number])
        scale = float(annotators.scale[number])
        return (reliability, scale) if scale > 0 else None

    def typical_measuring(self) -> Measuring | None:
        """Return the reliability and the scale of the annotator with the most answers.

        Before the first answer, the first annotator in the study's `probabilities` is used. Return
        None if there is no such annotator, or if the annotator's answers count as words.
        """
        names = [*self._history.annotators]
        if not names:  # nobody has answered
            names = [*self._study.probabilities]
        if not names:
            return None
        return self.measuring(max(names, key=self._history.answered))

    def models(self) -> list[int]:
        """List the numbers of the annotators that are models."""
        numbers = self._history.annotators
        return [numbers[name] for name in self._study.models if name in numbers]

    def weights(self) -> tuple[Votes, dict[str, float]]:
        """Return all answers as comparisons of two items, and the weight of each annotator.

        The weight is reliability (1 - share of blind answers).
        """
        with self._lock:
            votes = self._history.soft_votes()
            names = [*self._history.annotators]
            n_events = len(self._history.events)
            votes_to_match = self._with_models_and_gold(self._history.votes(n_events))
        if not len(votes):
            return votes, {}
        keep = self._keep if votes.n_answers >= ENOUGH else None
        scales = cached_scales(
            self._features, votes_to_match, len(names), seed=self._seed, keep=keep
        )
        annotators = scales.annotators
        weight: F64 = annotators.reliability * (1 - annotators.blind)
        return votes.comparisons(), dict(zip(names, weight.tolist(), strict=True))

    def better_without(self, annotator: str) -> bool:
        """Tell whether other annotators' answers are predicted better if an annotator is left out.

        Return False if the annotator has no answers.
        """
        with self._lock:
            number = self._history.annotators.get(annotator)
            if number is None:
                return False
            votes = self._history.votes(len(self._history.events))
            basis = self.fits.basis
        return predicted_better_without(number, basis, votes, seed=self._seed)

    def widened_by(self) -> str | None:
        """Return the name of the annotator whose answers made the intervals of ranks wider.

        Return None if there is no such annotator.
        """
        with self._lock:
            fits = self.fits
            votes = self._with_models_and_gold(self._history.votes(self.fitted_at))
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
        """Fit to all events so far, and replace the last fits."""
        n_events = len(self._history.events)
        fits = self._fit(n_events, self.fits, keep_net=keep_net)
        order = self._order_by(fits)  # before the lock, so that a question does not wait
        with self._lock:
            self.fits = fits
            self.order = order
            self.fitted_at = n_events
            self._n_observed = n_events

    def _fit(self, n_events: int, before: Fits | None, *, keep_net: bool = False) -> Fits:
        """Fit the scores to the answers among the first events of the session.

        Args:
            n_events: the number of events.
            before: the last fits, from which the search for the modes starts. If None, it starts
                at 0.
            keep_net: whether to keep the features of the last net.
        """
        with self._lock:
            n_annotators = len(self._history.annotators)
            last_milestone = self._milestone(n_events)
            everything = self._with_models_and_gold(self._history.votes(n_events))
            usable = self._with_models_and_gold(self._history.votes(n_events, holdout=False))
        takes_long = n_events > 0 and not self.small
        call = self._call if takes_long else operator.call
        # A basis or a fit to many answers is cached if it depends on the events only, so that a new
        # session with the same events reads it from the cache. A basis with an earlier net depends
        # on earlier fits, and so does a fit that starts from them.
        has_many_answers = everything.n_answers >= ENOUGH
        keep_basis = self._keep if has_many_answers and not keep_net else None
        basis, start = self._next_basis(
            before, last_milestone, call, keep_net=keep_net, keep=keep_basis
        )
        keep_fits = keep_basis if start is None else None
        fits: Fits = call(
            fit_both,
            basis,
            usable,
            everything,
            n_annotators,
            start=start,
            seed=self._seed,
            keep=keep_fits,
        )
        return fits

    def _next_basis(
        self,
        before: Fits | None,
        last_milestone: int,
        call: Callable[..., Any],
        *,
        keep_net: bool,
        keep: Path | None,
    ) -> tuple[Basis, F64 | None]:
        """Choose features and hyperparameters, if those of the last fits are out of date.

        Args:
            before: the last fits. If None, these are the first fits.
            last_milestone: the number of events from which net and scales should be chosen.
            call: a function that calls `choose_basis`, perhaps in another process.
            keep_net: whether to keep the features of the last net.
            keep: the folder of the cache. If None, nothing is cached.

        Returns:
            The basis; and the unknowns from which the search for the modes starts. They are None if
            a new net was trained, because the weights of the last fits belong to other features.
        """
        if before is None:
            return self._choose_basis(last_milestone, call, net=None, keep=keep), None
        basis = before.basis
        start = before.choosing.theta
        are_scales_old = basis.scaled != last_milestone
        is_net_old = basis.milestone != last_milestone
        if keep_net:
            if are_scales_old:
                basis = self._choose_basis(last_milestone, call, net=basis, keep=keep)
            return basis, start
        if are_scales_old or is_net_old:
            return self._choose_basis(last_milestone, call, net=None, keep=keep), None
        return basis, start

    def _choose_basis(
        self, at: int, call: Callable[..., Any], *, net: Basis | None, keep: Path | None
    ) -> Basis:
        """Choose features and hyperparameters from the first `at` events.

        Args:
            at: the milestone, a number of events.
            call: a function that calls `choose_basis`, perhaps in another process.
            net: an earlier basis, from which the features are taken. If None, a net is trained.
            keep: the folder of the cache. If None, nothing is cached.
        """
        with self._lock:
            votes = self._with_models_and_gold(self._history.votes(at, holdout=False))
        basis: Basis = call(
            choose_basis, self._features, votes, at, net=net, seed=self._seed, keep=keep
        )
        return basis

    def _order_by(self, fits: Fits) -> CurrentOrder:
        """Order the items of each group by expected score."""
        posterior = fits.choosing.posterior
        items = np.lexsort((-posterior.scores, self._groups.of))
        if not self._goal.top:
            return CurrentOrder(items, None)
        return CurrentOrder(items, among_top(posterior, self._groups, self._goal.top))

    def _with_models_and_gold(self, votes: Votes) -> Votes:
        """Mark which votes are of models, and add a vote for the known answer to each gold pair."""
        return votes.with_known(self.models(), self._study.gold_pairs())

    def _milestone(self, n_events: int) -> int:
        """Return from how many of the first events features and hyperparameters are to be chosen.

        In a session without models, the function `milestone` tells the number. If models answer,
        the answers that tell how wrong the models are have milestones of their own, too, because
        few answers of people tell the errors of many answers of models.
        """
        last_milestone = milestone(n_events)
        if not self._study.models:
            return last_milestone
        measuring_events = self._events_that_measure_models(n_events)
        n_to_milestone = milestone(len(measuring_events))
        if not n_to_milestone:
            return last_milestone
        event_of_milestone = int(measuring_events[n_to_milestone - 1])
        n_events_to_milestone = event_of_milestone + 1  # events are numbered from 0
        return max(last_milestone, n_events_to_milestone)

    def _events_that_measure_models(self, n_events: int) -> I64:
        """Select the events that tell how wrong models are, among the first `n_events`.

        These are the events of people. If only models have answered, these are the events of all
        models but the first: differences between models show a part of the errors.

        Returns:
            The row numbers of the events.
        """
        with self._lock:
            rows_of_people = self._history.not_by(self._study.models, n_events)
            if len(rows_of_people):
                return rows_of_people
            first_model = [*self._history.annotators][:1]
            return self._history.not_by(first_model, n_events)
