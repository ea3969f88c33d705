"""Keep the model of a session, with the features of its items, fitted to its events."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sortnet.core import F64
from sortnet.errors import DataError
from sortnet.preference.answers import Answers
from sortnet.preference.comparisons import Comparisons
from sortnet.preference.fit import DENSE, fit, fit_many
from sortnet.preference.history import History
from sortnet.preference.hyperparameters import choose
from sortnet.preference.model import Annotators, Columns, Posterior, Prior, predict
from sortnet.preference.stopping import Check
from sortnet.preference.study import Study

_NO_HOLDOUT = 30  # 30 answers or more, none of them of the hold-out, are imported votes
_LEFT_OUT = 0.2  # share of the answers that check the model if there is no hold-out
_DRAWS_OF_CHECK = 64
_FEW_ITEMS = 300  # up to this number of items a fit takes a few milliseconds
_UNFITTED_SHARE = 20  # a fit is due after 1/20 more events
_UNFITTED_OF_ITEMS = 50  # and of more than a few items, after 1/50 of their number at least, ...
_MOST_UNFITTED = 100  # ... but after this number
_TAIL = 4.0  # largest distance from the mean, in standard deviations, without a transformation
_FIRST_MILESTONE = 5
_FIRST_MILESTONE_OF_TOP = 8  # few answers tell too little to leave the features' first share
_FIRST_SHARE = 0.3  # of the variance, for features before the first answers
_DEFAULT_SCALE = 0.4  # of measurements, before an answer tells the scale


def milestone(n_events: int) -> int:
    """Return the number of events after which hyperparameters were last chosen.

    They are chosen after 5 events, and then each time there are a quarter more. The result depends
    on the number of events only, so that a replay chooses the same hyperparameters.

    >>> [milestone(n_events) for n_events in (4, 5, 6, 9, 10, 100)]
    [0, 5, 6, 8, 10, 97]
    """
    last = 0
    next_milestone = _FIRST_MILESTONE
    while next_milestone <= n_events:
        last = next_milestone
        next_milestone += next_milestone // 4
    return last


class Fits(NamedTuple):
    """Posteriors of the same events.

    Attributes:
        choosing: the posterior without the hold-out, which chooses questions.
        all: the posterior of all answers, which ranks.
        at: the number of events of `choosing`.
        all_at: the number of events of `all`, which is fitted only when a ranking is wanted.
        milestone: the number of first events from which the hyperparameters were chosen.
    """

    choosing: Posterior
    all: Posterior
    at: int
    all_at: int
    milestone: int


class FittedEvents:
    """Events, and the model kept fitted to them; several threads may use it.

    Args:
        X: (n, d) the standardised features.
        study: has the gold pairs, and tells what the annotators' probabilities are.
        wants_top: whether a top is wanted. Then features have a share of the variance from the
            start, as few answers must find the best items; otherwise they have to earn it.
        seed: seed of all draws.

    Attributes:
        history: the events of the session.
        lock: guards the history and the fits.
        fits: the last fits.
    """

    def __init__(self, X: F64, study: Study, *, wants_top: bool, seed: int) -> None:
        """Fit without answers: the posterior is the prior."""
        self.history = History(len(X), study.probabilities)
        self.lock = threading.RLock()
        self.study = study
        self.seed = seed
        self._fitting = threading.Lock()  # held while a thread fits
        self.has_features = bool(X.shape[1])
        self._wants_top = wants_top
        self._linear = Columns(X)
        self._squares = _with_squares(X) if self.has_features else None
        self.fits = self._fit(None, ranking=True)

    def refit(self) -> None:
        """Fit the model to all events so far; other threads may ask and tell meanwhile.

        Cost: see `fit` and `fit_many`; each time there are a quarter more events, the
        hyperparameters are chosen again, which takes about fifty fits to 300 items.
        """
        with self._fitting:
            if not self.fits.at == self.fits.all_at == len(self.history.events):
                self.fits = self._fit(self.fits, ranking=True)

    def fit_if_due(self) -> None:
        """Fit before a question is chosen, if a fit is due and no other thread fits."""
        if self.is_due(self.fits.at) and self._fitting.acquire(blocking=False):
            try:
                self.fits = self._fit(self.fits, ranking=False)
            finally:
                self._fitting.release()

    def is_due(self, n_fitted: int) -> bool:
        """Whether a fit is due after 5 % more events than were fitted.

        For up to 300 items it is due after each event at first. Of more items, whose fits take
        longer, there are 2 % of their number of new events at least, but never more than 100.
        """
        share_of_items = min(self.history.n_items // _UNFITTED_OF_ITEMS, _MOST_UNFITTED)
        least = 1 if self.quick else share_of_items
        n_unfitted = len(self.history.events) - n_fitted
        return n_unfitted >= max(least, n_fitted // _UNFITTED_SHARE)

    @property
    def quick(self) -> bool:
        """Whether `refit` takes only a few milliseconds."""
        return self.history.n_items <= _FEW_ITEMS

    @property
    def posterior(self) -> Posterior:
        """The posterior of the scores from the last fit to all answers."""
        return self.fits.all

    def scale_of(self, annotator: str) -> float:
        """Return the scale of an annotator whose next answer is a measurement; 0 for words."""
        if not self.history.gives_measurements(annotator):
            return 0.0
        annotators = self.fits.choosing.annotators
        number = self.history.annotators.get(annotator, len(annotators))
        if number >= len(annotators):
            return _DEFAULT_SCALE
        return 0.0 if annotators.in_words[number] else float(annotators.scale[number])

    def models(self) -> list[int]:
        """List the numbers of the annotators that are models."""
        numbers = self.history.annotators
        return [numbers[name] for name in self.study.models if name in numbers]

    def weighted(self) -> tuple[Comparisons, dict[str, float]]:
        """Return the comparisons to train a comparator on, and each annotator's reliability.

        Reliability is 1 for the average annotator, and below 0 for an annotator who prefers the
        worse item. Without answers there are no reliabilities.

        Cost: that of `refit`.
        """
        self.refit()
        with self.lock:
            names = [*self.history.annotators]
            comparisons = self.history.comparisons()
        if not len(comparisons):
            return comparisons, {}
        reliability = self.fits.all.annotators.padded(len(names)).reliability
        return comparisons, dict(zip(names, reliability.tolist(), strict=True))

    def check(self) -> Check:
        """Check the model by answers that it was not fitted to.

        The answers are the hold-out. If a session has at least 30 answers but no hold-out, a fifth
        of the answers is left out of a fit instead.
        """
        posterior = self.fits.choosing
        with self.lock:
            n_votes = self.history.n_votes
            answers = self.history.answers(len(self.history.events), holdout=True)
        answers = answers.where(answers.is_choice)
        left_out = not len(answers) and n_votes >= _NO_HOLDOUT
        if left_out:
            posterior, answers = self._without_a_part()
        annotators = posterior.annotators.padded(int(answers.annotator.max(initial=-1)) + 1)
        p_of_draws = [
            predict(answers, scores, annotators, 0.0).expected
            for scores in posterior.draws[:_DRAWS_OF_CHECK]
        ]
        p = np.mean(p_of_draws, axis=0)
        is_right = p.argmax(axis=1) == answers.share.argmax(axis=1)
        return Check.of(p.max(axis=1), is_right, left_out=left_out)

    def _without_a_part(self) -> tuple[Posterior, Answers]:
        """Fit without a random fifth of the answers; return the fit and the choices left out."""
        fits = self.fits
        with self.lock:
            answers = self.history.answers(fits.all_at)
        rng = np.random.default_rng(self.seed + fits.all_at)
        is_drawn = rng.random(fits.all_at) < _LEFT_OUT
        is_out = is_drawn[answers.event]
        posterior = self._posterior(
            answers.where(~is_out),
            fits.all.prior,
            fits.all.annotators,
            fits.all.scores,
            fits.all_at,
        )
        return posterior, answers.where(is_out & answers.is_choice)

    def _fit(self, before: Fits | None, *, ranking: bool) -> Fits:
        """Fit two posteriors to the events so far: one that chooses questions, and one that ranks.

        The posterior that chooses does not see the held-out answers. Without held-out answers both
        are one. Hyperparameters are chosen at a milestone only.

        Args:
            before: the last fits; None for the first.
            ranking: whether to fit the posterior that ranks, too; else the last one is kept.
        """
        with self.lock:
            n_events = len(self.history.events)
            without_holdout = self.history.answers(n_events, holdout=False)
            all_answers = self.history.answers(n_events)
            n_annotators = len(self.history.annotators)
        last_milestone = milestone(n_events)
        if self._wants_top and last_milestone < _FIRST_MILESTONE_OF_TOP:
            last_milestone = 0
        if before is not None and before.milestone == last_milestone:
            prior = before.choosing.prior
            annotators = before.choosing.annotators.padded(n_annotators)
        else:
            prior, annotators = self._chosen(last_milestone, n_annotators)
        start = None if before is None else before.choosing.scores
        choosing = self._posterior(without_holdout, prior, annotators, start, n_events)
        ranks, n_events_ranked = choosing, n_events
        if len(all_answers) > len(without_holdout):
            if ranking or before is None:
                scores = choosing.scores
                ranks = self._posterior(all_answers, prior, annotators, scores, n_events)
            else:
                ranks, n_events_ranked = before.all, before.all_at
        return Fits(choosing, ranks, n_events, n_events_ranked, last_milestone)

    def _posterior(
        self, answers: Answers, prior: Prior, annotators: Annotators, start: F64 | None, at: int
    ) -> Posterior:
        """Fit to answers and gold pairs, in words where words predict better."""
        counted = answers.in_words(np.flatnonzero(annotators.in_words).tolist())
        counted = counted.with_gold(self.study.gold_pairs())
        seed = self.seed + at
        if self.history.n_items > DENSE:
            return fit_many(counted, prior, annotators, seed=seed)
        return fit(counted, prior, annotators, start, seed=seed)

    def _chosen(self, n_events: int, n_annotators: int) -> tuple[Prior, Annotators]:
        """Choose the hyperparameters from the first events."""
        has_share = self._wants_top and self.has_features
        prior = Prior(self._linear, share=_FIRST_SHARE if has_share else 0.0)
        average = Annotators.average(n_annotators)
        with self.lock:
            answers = self.history.answers(n_events, holdout=False)
        answers = answers.with_gold(self.study.gold_pairs())
        if not len(answers):
            return prior, average
        return choose(
            answers,
            prior,
            self._squares,
            average,
            models=self.models(),
            must_earn=not self._wants_top,
            seed=self.seed + n_events,
        )


def _with_squares(X: F64) -> Columns:
    """Add the square of each feature, standardised, so that a preference can be for the middle."""
    squares = X**2
    squares -= squares.mean(axis=0)
    deviation = squares.std(axis=0)
    is_varied = deviation > 1e-9  # the square of a feature of two values may be constant
    return Columns(np.column_stack((X, squares[:, is_varied] / deviation[is_varied])))


def design(features: ArrayLike | None, n_items: int | None = None) -> F64:
    """Standardise features: return columns of mean 0 and variance 1, one row for each item.

    A missing value becomes the mean. If a column has a value further than four standard deviations
    from the mean, the values are replaced by normal scores of their ranks. Constant columns are
    dropped.

    Args:
        features: (n, d) the features, NaN where a value is missing. If None, there are no features.
        n_items: the number of items n, which must be given if there are no features.

    Raises:
        DataError: if there are fewer than two items, if the number of rows is not `n_items`, or if
            a value is infinite.

    >>> design([[1.0, 5.0], [3.0, 5.0]])
    array([[-1.],
           [ 1.]])

    Cost: one sort per column.
    """
    if features is None:
        n_rows = 0 if n_items is None else n_items
        X = np.empty((n_rows, 0))
    else:
        X = np.array(features, np.float64)
    if len(X) < 2:
        raise DataError(f"there must be two items to compare, got {len(X)}")
    if n_items is not None and n_items != len(X):
        raise DataError(f"{n_items} items but {len(X)} rows of features")
    if np.isinf(X).any():
        item, column = np.argwhere(np.isinf(X))[0]
        raise DataError(f"item {item}, feature {column + 1}: {X[item, column]} is not finite")
    columns = [column for column in map(_standardise_column, X.T) if column is not None]
    if not columns:
        return np.empty((len(X), 0))
    return np.ascontiguousarray(np.stack(columns, axis=1))


def _standardise_column(x: F64) -> F64 | None:
    """Make a column of the design matrix from a feature; return None if the feature is constant."""
    is_present = ~np.isnan(x)
    values = x[is_present]
    if not len(values) or values.min() == values.max():
        return None
    values = _standardise(values)
    if np.abs(values).max() > _TAIL:
        from scipy.stats import rankdata  # imported here: it takes half a second, and is rare

        normal_scores = ndtri((rankdata(values) - 0.5) / len(values))
        values = _standardise(normal_scores)
    column = np.zeros(len(x))
    column[is_present] = values
    return column


def _standardise(x: F64) -> F64:
    """Shift and scale values to mean 0 and variance 1."""
    standardised: F64 = (x - x.mean()) / x.std()
    return standardised
