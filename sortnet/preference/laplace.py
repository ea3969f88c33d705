"""Fit the items' scores to answers, by Laplace's approximation, and choose the hyperparameters.

In shapes, n is the number of items, d of features, a of annotators, m of answers, and k of draws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from sortnet.core import F32, F64, I64, Bool
from sortnet.metrics import is_gain
from sortnet.preference.likelihood import MOST_PROBIT
from sortnet.preference.matching import (
    Mode,
    leave_one_out,
    likely_priors,
    matched_annotators,
    matched_measurements,
    matched_prior,
    matched_scales,
    matched_shared,
    measures_alone,
)
from sortnet.preference.posterior import Draws, Posterior
from sortnet.preference.posterior_precision import Precision
from sortnet.preference.problem import PriorFit, Problem, ValueSlices, slice_values
from sortnet.preference.reliability import Annotators
from sortnet.preference.scales import SHARED, UNKNOWN, Prior, Scales, first_guess
from sortnet.preference.vote_arrays import MODEL, Votes
from sortnet.threads import one_blas_thread

DRAWS = 48  # number of draws if draws are costly
_MANY_DRAWS = 256  # number of draws if draws are cheap
MANY = 20_000  # with more items, items without answers are left out of the equations
_ROUNDS = 12  # rounds of matching the scales to the answers, at most
_CHECK_EVERY = 3  # rounds after which reliabilities are matched and convergence is checked
_SETTLED = 0.02  # relative change of the scores' variance below which rounds end
_STEPS_TO_MODE = 30  # Newton steps of a fit, at most
_STEPS_OF_ROUND = 2  # Newton steps in a round of matching, at most
_MOST_VOTES_TO_MATCH = 200_000  # answers from which the scales are chosen, at most
_MOST_ANSWERS_OF_MODELS = 20_000  # answers by which models are compared with each other, at most
_FEWEST_MEASUREMENTS = 20  # of an annotator, to test whether words predict better
_STANDARD_ERRORS = 1.0  # standard errors by which words must predict better than measurements
_FIRST_TIE = 0.3  # tie threshold in the first round, if an answer is a tie
# Variance of the errors that models share, relative to the variance of the scores, as long as no
# answers measure it. It grows from `_LEAST_SHARED` towards `SHARED` with the number of outside
# answers, which people gave or which are known. After `_OUTSIDE_ANSWERS_TO_HALF` outside answers it
# is half of `SHARED`. So the first outside answers hardly widen the intervals.
_LEAST_SHARED = 0.003
_OUTSIDE_ANSWERS_TO_HALF = 10.0
# Variance of the differences between models in the first round of matching, relative to the
# variance of the scores.
_FIRST_DIFFERENCE = 0.05


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of features, which predict the scores of items without answers.

    Such a score is s = Φw + u, with the features Φ, the weights w and a residual u ~ N(0, υ²).

    Attributes:
        mean: (d,) the expected weights w.
        draws: (k, d) k draws of the weights w.
        residual: the variance of the residual, υ².
    """

    mean: F64
    draws: F64
    residual: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit of the scores to answers.

    Attributes:
        posterior: the posterior of the scores.
        theta: (d + n + a,) the mode, from which a next fit starts: weights of features, residuals
            of items, and side biases of annotators.
        weights: the weights of features, with their draws.
    """

    posterior: Posterior
    theta: F64
    weights: Weights

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fit as named arrays, without the scales; `from_arrays` rebuilds the fit."""
        posterior = self.posterior
        rng_state = json.dumps(posterior.rng.bit_generator.state)
        arrays = {
            "mean": posterior.mean,
            "draws": posterior.draws,
            "rng": np.frombuffer(rng_state.encode(), np.uint8),
            "theta": self.theta,
            "weights": self.weights.mean,
            "weight_draws": self.weights.draws,
        }
        if posterior.covariance is not None:
            arrays["covariance"] = posterior.covariance
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n: int, scales: Scales) -> Fitted:
        """Rebuild a fit of n items from the hyperparameters and the result of `arrays`."""
        rng = np.random.default_rng()
        rng.bit_generator.state = json.loads(arrays["rng"].tobytes())
        # `theta` has the weights, n residuals, and a side bias for each annotator.
        n_annotators = len(arrays["theta"]) - len(arrays["weights"]) - n
        scales = scales.padded(n_annotators)
        posterior = _posterior(
            mean=arrays["mean"],
            covariance=arrays.get("covariance"),
            draws=arrays["draws"],
            n_items=n,
            scales=scales,
            rng=rng,
        )
        weights = Weights(arrays["weights"], arrays["weight_draws"], scales.residual)
        return cls(posterior, arrays["theta"], weights)


@one_blas_thread()
def fit(
    features: F64,
    votes: Votes,
    n_annotators: int,
    *,
    scales: Scales | None = None,
    start: F64 | None = None,
    seed: int = 0,
    draws: int | None = None,
) -> Fitted:
    """Compute the posterior of the items' scores given all answers.

    The scores are s = Φw + u, with the features Φ, weights w ~ N(0, α²) and residuals
    u ~ N(0, υ²). The likelihood of an answer is `pair_likelihood` at z = c (s_left - s_right) + b,
    with the reliability c and the side bias b of its annotator. For an answer of a model,
    e_left - e_right is added to z; the errors e, which models share, have the same prior as the
    scores, times a factor. Newton's method finds the mode. The posterior is Laplace's approximation
    around the mode, averaged over the likely priors and widened by the uncertainty of the
    reliabilities. Without features (d = 0) a score is its residual.

    Args:
        features: (n, d) features of the items, roughly standardised.
        votes: the answers.
        n_annotators: the number of annotators a.
        scales: the hyperparameters, such as α² and υ². If None, `choose_scales` chooses them.
        start: the unknowns from which Newton's method starts, the `theta` of an earlier fit,
            perhaps with fewer annotators. If None, they are 0.
        seed: the seed of the draws.
        draws: the number of draws. If None, 256, or 48 above a thousand unknowns.

    Cost: up to a thousand unknowns, a few factorisations of (d + n + 2 a)², and about fifty if
    the scales are chosen; above, conjugate gradients, linear in answers and in n d. If there are
    more than 20,000 items, only the residuals of items with answers are unknowns; the other items
    are added by `_extend_to_all_items`.
    """
    rng = np.random.default_rng(seed)
    if scales is None:
        scales = choose_scales(features, votes, n_annotators, seed=seed)
    scales = scales.padded(n_annotators)
    if scales.shared == UNKNOWN:
        scales = replace(scales, shared=_assumed_shared_variance(votes))
    n, d = features.shape
    judged = _items_to_estimate(n, votes)
    if len(judged) == n:
        fitted, _ = _fit(Problem(features, votes, n_annotators, scales), start, draws, rng)
        return fitted
    problem = Problem(features[judged], votes.renumbered(judged), n_annotators, scales)
    start_of_judged = None if start is None else _unknowns_of_judged(start, judged, n, d)
    if draws is None:
        draws = DRAWS  # even if few items are judged, because the draws are extended to all items
    fit_of_judged, drawn_weights = _fit(problem, start_of_judged, draws, rng)
    return _extend_to_all_items(fit_of_judged, drawn_weights, features, judged, scales, rng)


def _fit(
    problem: Problem, start: F64 | None, n_draws: int | None, rng: np.random.Generator
) -> tuple[Fitted, F64]:
    """Fit the unknowns under each likely prior, and combine the fits.

    Args:
        problem: the likelihood of the answers, with the scales.
        start: the first unknowns with which Newton's method starts; further unknowns start at 0.
            If None, all start at 0.
        n_draws: the number of draws. If None, it depends on the number of unknowns.
        rng: the generator of the draws.

    Returns:
        The fit; and (k, d) k draws of the weights that include the uncertainty of the
        reliabilities, unlike the draws in the fit.
    """
    scales = problem.scales
    theta = np.zeros(problem.n_unknowns)
    if start is not None:
        theta[: len(start)] = start
    if n_draws is None:
        n_draws = DRAWS if problem.large else _MANY_DRAWS
    n_draws_by_prior = _divide_draws(n_draws, scales.odds)
    fits = []
    for prior, n_draws_of_prior in zip(scales.priors, n_draws_by_prior, strict=True):
        # The search for a mode starts from the mode under the previous prior, which is near.
        theta = problem.newton(theta, prior, steps=_STEPS_TO_MODE)
        fits.append(problem.fit_under(prior, theta, n_draws_of_prior, rng))
    unknowns = problem.unknown_slices
    weights = Weights(
        mean=scales.odds @ np.stack([fit.theta[unknowns.weights] for fit in fits]),
        draws=np.concatenate([fit.weight_draws for fit in fits]),
        residual=scales.residual,
    )
    # The next fit may start from this mode: under the likeliest prior, without shared errors.
    likeliest_mode = fits[0].theta[: unknowns.biases.stop]
    fitted = Fitted(_mix(problem, fits, rng), likeliest_mode, weights)
    weight_shifts = np.concatenate([fit.weight_shifts for fit in fits])
    return fitted, weights.draws + weight_shifts


def _divide_draws(n_draws: int, odds: F64) -> list[int]:
    """Divide the draws among the likely priors, in proportion to the priors' probabilities.

    Args:
        n_draws: the number of draws.
        odds: the probability of each prior.

    Returns:
        The number of draws of each prior.

    >>> _divide_draws(48, np.array([0.5, 0.49, 0.01]))
    [24, 24, 0]
    """
    quantiles = (np.arange(n_draws) + 0.5) / n_draws
    prior_of_draw = np.searchsorted(np.cumsum(odds), quantiles)
    counts: list[int] = np.bincount(prior_of_draw, minlength=len(odds)).tolist()
    return counts


def _items_to_estimate(n: int, votes: Votes) -> I64:
    """Choose the items, out of n, whose residuals are estimated; return them in ascending order.

    Up to 20,000 items (`MANY`), all items are chosen. With more items, the items with answers are
    chosen, and the first two items, since a fit needs two items.
    """
    if n <= MANY:
        return np.arange(n)
    is_chosen = np.zeros(n, np.bool_)
    is_chosen[[0, 1]] = True
    is_chosen[votes.left] = True
    is_chosen[votes.right] = True
    return np.flatnonzero(is_chosen)


def _extend_to_all_items(
    fit_of_judged: Fitted,
    drawn_weights: F64,
    features: F64,
    judged: I64,
    scales: Scales,
    rng: np.random.Generator,
) -> Fitted:
    """Extend a fit of the judged items, which have answers, to all items.

    An unjudged item gets the score that its features predict, plus a residual that is drawn from
    the prior. No answer depends on this residual, so a fit of all items would have the same
    posterior.

    Args:
        fit_of_judged: the fit of the judged items.
        drawn_weights: (k, d) k draws of the weights of the features.
        features: (n, d) features of all items.
        judged: the numbers of the judged items, in ascending order.
        scales: the hyperparameters of the fit.
        rng: the generator of the residuals.
    """
    n, d = features.shape
    posterior_of_judged = fit_of_judged.posterior
    weights = fit_of_judged.weights
    # The values of a posterior are scores of items, side biases of annotators, and errors of items
    # that models share, if models have answered.
    slices = slice_values(
        n,
        n_annotators=len(scales.annotators.side),
        has_shared_errors=posterior_of_judged.errors is not None,
    )
    is_fitted = _mask_of_fitted_values(judged, slices)

    # All items get predicted values. Then the fitted values overwrite the values of judged items.
    mean = np.zeros(slices.n_values)
    mean[slices.scores] = features @ weights.mean
    mean[is_fitted] = posterior_of_judged.mean
    draws = _draw_predictions(features, drawn_weights, scales, slices, rng)
    draws[:, is_fitted] = posterior_of_judged.draws

    posterior = _posterior(
        mean=mean,
        covariance=None,  # too large for this many items
        draws=draws,
        n_items=n,
        scales=scales,
        rng=rng,
    )
    start_of_next_fit = _unknowns_of_all(fit_of_judged.theta, judged, n, d)
    return Fitted(posterior, start_of_next_fit, weights)


def _mask_of_fitted_values(judged: I64, slices: ValueSlices) -> Bool:
    """Mark the values of a posterior of all items that a fit of the judged items estimates.

    They are the scores and the shared errors of the judged items, and all side biases.

    Args:
        judged: the numbers of the judged items.
        slices: the slices of scores, side biases and shared errors in the values.
    """
    is_fitted = np.zeros(slices.n_values, np.bool_)
    is_fitted[slices.scores.start + judged] = True
    is_fitted[slices.biases] = True
    if slices.n_errors:
        is_fitted[slices.errors.start + judged] = True
    return is_fitted


def _draw_predictions(
    features: F64, drawn_weights: F64, scales: Scales, slices: ValueSlices, rng: np.random.Generator
) -> F32:
    """Draw scores and shared errors as if no item had answers, once for each draw of weights.

    Variances are computed from 48 draws, as in all fits above a thousand unknowns, with a standard
    error of 20 %. So single precision is enough for the draws, which take most of the memory of a
    session.

    Args:
        features: (n, d) the features of the items.
        drawn_weights: (k, d) k draws of the weights of the features.
        scales: the hyperparameters.
        slices: the slices of scores, side biases and shared errors in a draw.
        rng: the generator of residuals and shared errors.

    Returns:
        (k, values) the draws. The side biases are not set.
    """
    n, d = features.shape
    draws = np.empty((len(drawn_weights), slices.n_values), np.float32)
    n_draws_by_prior = _divide_draws(len(draws), scales.odds)
    prior_of_draw: list[Prior] = []
    for prior, n_draws_of_prior in zip(scales.priors, n_draws_by_prior, strict=True):
        prior_of_draw += [prior] * n_draws_of_prior
    for draw, weights, prior in zip(draws, drawn_weights, prior_of_draw, strict=True):
        residuals = np.sqrt(prior.residual) * rng.standard_normal(n)
        draw[slices.scores] = features @ weights + residuals
        sd_of_errors = np.sqrt(scales.shared * prior.total(d))
        draw[slices.errors] = sd_of_errors * rng.standard_normal(slices.n_errors)
    return draws


def _unknowns_of_judged(theta: F64, judged: I64, n: int, d: int) -> F64:
    """Select the unknowns of a fit of the judged items from the unknowns of a fit of all items.

    Args:
        theta: (d + n + a,) d weights, the residuals of all n items, and a side biases.
        judged: the judged items.
        n: the number of items.
        d: the number of features.

    Returns:
        (d + j + a,) the weights, the residuals of the j judged items, and the side biases.
    """
    weights, residuals, biases = np.split(theta, [d, d + n])
    return np.concatenate((weights, residuals[judged], biases))


def _unknowns_of_all(theta: F64, judged: I64, n: int, d: int) -> F64:
    """Extend the unknowns of a fit of the judged items, with 0 as residuals of the other items.

    Args:
        theta: (d + j + a,) d weights, the residuals of the j judged items, and a side biases.
        judged: the judged items.
        n: the number of items.
        d: the number of features.

    Returns:
        (d + n + a,) the weights, the residuals of all n items, and the side biases.
    """
    weights, residuals_of_judged, biases = np.split(theta, [d, d + len(judged)])
    residuals = np.zeros(n)
    residuals[judged] = residuals_of_judged
    return np.concatenate((weights, residuals, biases))


def _mix(problem: Problem, fits: Sequence[PriorFit], rng: np.random.Generator) -> Posterior:
    """Mix the posteriors under the likely priors, weighted by the priors' probabilities.

    The result is a Gaussian with the mean and the covariance of the mixture.
    """
    scales = problem.scales
    mean = scales.odds @ np.stack([fit.mean for fit in fits])
    return _posterior(
        mean=mean,
        covariance=_mixture_covariance(fits, scales.odds, mean),
        draws=np.concatenate([fit.draws for fit in fits]),
        n_items=len(problem.features),
        scales=scales,
        rng=rng,
    )


def _mixture_covariance(fits: Sequence[PriorFit], odds: F64, mean: F64) -> F64 | None:
    """Compute the covariance of a mixture of Gaussians.

    It is the sum over the fits of p (C + (μ - μ_mixture)(μ - μ_mixture)ᵀ), with the probability p,
    the mean μ and the covariance C of each fit.

    Args:
        fits: the fits, one under each prior.
        odds: the probability of each prior.
        mean: the mean of the mixture.

    Returns:
        The covariance; None if the fits have none, because there are too many unknowns.
    """
    covariance: F64 | None = None
    for p, fit in zip(odds, fits, strict=True):
        if fit.covariance is None:
            return None
        deviation = fit.mean - mean
        component = p * (fit.covariance + np.outer(deviation, deviation))
        covariance = component if covariance is None else covariance + component
    return covariance


def _posterior(
    *,
    mean: F64,
    covariance: F64 | None,
    draws: Draws,
    n_items: int,
    scales: Scales,
    rng: np.random.Generator,
) -> Posterior:
    """Make a posterior from its mean, its draws, and its covariance, if that is not too large.

    The mean and the standard deviation of each side bias become parameters of the annotators.
    """
    biases = slice(n_items, n_items + len(scales.annotators.side))
    if covariance is None:
        variance = draws[:, biases].var(axis=0, dtype=np.float64)
    else:
        variance = np.diag(covariance)[biases]
    annotators = replace(scales.annotators, side=mean[biases], side_sd=np.sqrt(variance))
    return Posterior(
        mean,
        covariance,
        draws,
        annotators,
        n_items=n_items,
        rng=rng,
        tie=scales.tie_threshold,
        ties=scales.share_of_ties,
    )


@one_blas_thread()
def choose_scales(features: F64, votes: Votes, n_annotators: int, *, seed: int = 0) -> Scales:
    """Choose the hyperparameters from the answers; with few answers they stay near a first guess.

    Probabilities that an annotator gives as answers are measurements of the score differences. They
    count as mere words, left or right, if words predict left-out answers better.

    Cost: at most twelve rounds of two Newton steps and the posterior's variances; then two Newton
    steps for each prior around the matched prior; twice or three times as much with measurements.
    If there are more than 200,000 answers, about 200,000 of them are drawn. If there are more than
    20,000 items, items without answers are left out, because they are unrelated to the scales.
    """
    if len(votes) > _MOST_VOTES_TO_MATCH:
        votes = _sample_votes(votes, seed)
    judged = _items_to_estimate(len(features), votes)
    if len(judged) < len(features):
        features = features[judged]
        votes = votes.renumbered(judged)
    shared = _expected_shared_variance(features, votes, n_annotators, seed)

    def match(votes_to_match: Votes) -> Mode:
        """Choose the hyperparameters from votes, and find the mode under them."""
        return _match(features, votes_to_match, n_annotators, seed, shared)

    mode = match(votes)
    in_words: list[int] = []  # the numbers of annotators whose answers count as words
    if len(mode.problem.measurement_rows):
        in_words = _annotators_in_words(mode, match(votes.in_words()))
    if in_words:
        mode = match(votes.in_words(in_words))
    scales = mode.problem.scales
    if len(votes):
        priors, odds = likely_priors(mode)
        scales = replace(scales, priors=priors, odds=odds)
    # A fit takes measurements of an annotator with the scale 0 as words.
    scale_of_measurements = scales.annotators.scale.copy()
    scale_of_measurements[in_words] = 0.0
    return replace(scales, annotators=replace(scales.annotators, scale=scale_of_measurements))


def _sample_votes(votes: Votes, seed: int) -> Votes:
    """Draw about 200,000 votes at random, and add the outside votes, which measure the models.

    Outside votes are votes of people and known answers. If there are more than 200,000 outside
    votes, they are not added.
    """
    is_kept = votes.drawn(_MOST_VOTES_TO_MATCH / len(votes), np.random.default_rng(seed))
    is_outside = ~votes.of_kind(MODEL)
    if is_outside.sum() <= _MOST_VOTES_TO_MATCH:
        is_kept |= is_outside
    return votes.where(is_kept)


def _match(
    features: F64,
    votes: Votes,
    n_annotators: int,
    seed: int,
    shared: float,
    first_shared: float | None = None,
) -> Mode:
    """Match the hyperparameters and the mode to the answers, in rounds, until they settle.

    A round moves to the mode under the present hyperparameters (the prior and the scales), and then
    matches these to the mode. In every third round the reliabilities of the annotators are matched,
    too. After this, the rounds end if the variance of the scores hardly changed; there are twelve
    rounds at most.

    Args:
        features: (n, d) the features of the items.
        votes: the answers.
        n_annotators: the number of annotators.
        seed: the seed of random estimates of variances.
        shared: the expected variance of shared errors, relative to the variance of the scores.
        first_shared: the variance of shared errors in the first round. If None, it is `shared`.

    Returns:
        The mode, with the matched prior and a problem with the matched scales.
    """
    rng = np.random.default_rng(seed)
    d = features.shape[1]
    if first_shared is None:
        first_shared = shared
    mode = _first_mode(features, votes, n_annotators, first_shared)
    if not len(votes):
        return mode
    for n_rounds in range(1, _ROUNDS + 1):
        score_variance_before = mode.prior.total(d)
        mode = _match_prior_and_scales(mode, shared, rng)
        if len(mode.problem.measurement_rows):
            mode = _match_measurements(mode)
        is_check_due = n_rounds % _CHECK_EVERY == 0
        if not is_check_due:
            continue
        compares_annotators = mode.problem.compares_annotators
        if compares_annotators:
            mode = _match_reliabilities(mode, rng)
        change = abs(np.log(mode.prior.total(d) / score_variance_before))
        # Rounds never end right after the first match of reliabilities, because scores depend on
        # reliabilities.
        may_end = n_rounds > _CHECK_EVERY or not compares_annotators
        if may_end and change < _SETTLED:
            break
    return mode


def _first_mode(features: F64, votes: Votes, n_annotators: int, shared: float) -> Mode:
    """Make the mode from which matching starts: average annotators, and all unknowns 0.

    Args:
        features: (n, d) the features of the items.
        votes: the answers.
        n_annotators: the number of annotators.
        shared: the variance of shared errors, relative to the variance of the scores.
    """
    prior = first_guess(features.shape[1])
    is_tie = votes.target == 0.5
    share_of_ties = float(np.mean(is_tie[votes.first])) if len(votes) else 0.0
    tie_threshold = _FIRST_TIE if is_tie[votes.of_pairs].any() else 0.0
    scales = Scales(
        priors=(prior,),
        odds=np.ones(1),
        annotators=Annotators.average(n_annotators),
        tie_threshold=tie_threshold,
        share_of_ties=share_of_ties,
        shared=shared,
    )
    problem = Problem(features, votes, n_annotators, scales)
    theta = np.zeros(problem.n_unknowns)
    no_root = np.zeros((1, problem.n_unknowns))  # the first move to the mode computes the root
    return Mode(problem, prior, theta, no_root)


def _match_prior_and_scales(mode: Mode, shared: float, rng: np.random.Generator) -> Mode:
    """Move to the mode; then match the prior, the tie threshold, side biases and shared errors.

    Args:
        mode: the mode of the round before.
        shared: the expected variance of shared errors, relative to the variance of the scores.
        rng: the generator of random estimates of variances.
    """
    mode, solver = _move_to_mode(mode, rng)
    scales = replace(matched_scales(mode), shared=matched_shared(mode, shared))
    prior = matched_prior(mode, solver)
    return replace(mode, problem=replace(mode.problem, scales=scales), prior=prior)


def _move_to_mode(mode: Mode, rng: np.random.Generator) -> tuple[Mode, Precision]:
    """Move to the mode under the present hyperparameters, in a few Newton steps.

    Returns:
        The mode; and the precision of the posterior at the mode.
    """
    problem = mode.problem
    theta = problem.newton(mode.theta, mode.prior, steps=_STEPS_OF_ROUND)
    solver = problem.solver(problem.likelihood(theta).weight, mode.prior)
    return Mode(problem, mode.prior, theta, solver.root(rng)), solver


def _match_measurements(mode: Mode) -> Mode:
    """Match the scales of the annotators' measurements to the answers.

    If a single annotator measures, the unit of the scores is the error of a measurement. Then the
    mode and the prior are converted from the present error to the new error.
    """
    problem = mode.problem
    annotators = matched_measurements(mode)
    if measures_alone(problem):
        number = problem.votes.annotator[problem.measurement_rows[0]]  # the only annotator
        present_error = problem.scales.annotators.scale[number]
        new_error = annotators.scale[number]
        mode = _convert_unit(mode, float(present_error / new_error))
    return _replace_annotators(mode, annotators)


def _convert_unit(mode: Mode, factor: float) -> Mode:
    """Multiply the unknowns at the mode, and their prior standard deviations, by a factor.

    The root of the covariance keeps the old unit: the next move to the mode computes a new root.
    """
    prior = Prior(mode.prior.weight * factor**2, mode.prior.residual * factor**2)
    return replace(mode, theta=mode.theta * factor, prior=prior)


def _match_reliabilities(mode: Mode, rng: np.random.Generator) -> Mode:
    """Match the reliabilities of the annotators to the answers.

    Args:
        mode: the mode with the present reliabilities.
        rng: the generator of random estimates of variances.
    """
    if len(mode.problem.measurement_rows):
        # The scales of measurements have just changed, and with them the slopes and weights of the
        # answers. The next step leaves answers out of the mode and the covariance, so both are
        # computed again with the new slopes and weights.
        mode, _ = _move_to_mode(mode, rng)
    return _replace_annotators(mode, matched_annotators(mode, rng))


def _replace_annotators(mode: Mode, annotators: Annotators) -> Mode:
    """Return the mode with other parameters of the annotators in its problem."""
    scales = replace(mode.problem.scales, annotators=annotators)
    return replace(mode, problem=replace(mode.problem, scales=scales))


def _expected_shared_variance(features: F64, votes: Votes, n_annotators: int, seed: int) -> float:
    """Compute the variance of the errors that models share, as expected before the fit.

    The variance is relative to the variance of the scores. It is at least the variance of the
    differences between the models. Models that agree may still share large errors, so it is also
    at least `_assumed_shared_variance`.

    Returns:
        The variance; `UNKNOWN` if no model has answered.
    """
    model_votes = votes.where(votes.of_kind(MODEL))
    if not len(model_votes):
        return UNKNOWN
    assumed = _assumed_shared_variance(votes)
    has_one_model = len(np.unique(model_votes.annotator)) == 1
    if has_one_model:
        return assumed
    return max(assumed, _variance_between_models(features, model_votes, n_annotators, seed))


def _variance_between_models(
    features: F64, model_votes: Votes, n_annotators: int, seed: int
) -> float:
    """Compute the variance of the differences between models, relative to the scores' variance.

    The model with the most answers counts as a person, whose answers have no shared errors. So
    shared errors explain the differences between this model and the other models, and matching
    finds the variance of the differences.
    """
    if len(model_votes) > _MOST_ANSWERS_OF_MODELS:
        share = _MOST_ANSWERS_OF_MODELS / len(model_votes)
        is_drawn = model_votes.drawn(share, np.random.default_rng(seed))
        model_votes = model_votes.where(is_drawn)
    mode = _match(
        features,
        model_votes.busiest_as_person(),
        n_annotators,
        seed,
        shared=_LEAST_SHARED,
        first_shared=_FIRST_DIFFERENCE,
    )
    return mode.problem.scales.shared


def _assumed_shared_variance(votes: Votes) -> float:
    """Compute the variance of shared errors that is assumed before answers measure the variance.

    Relative to the variance of the scores, it is 0.5 N / (N + 10), but at least 0.003, with the
    number N of outside answers, which people gave or which are known.
    """
    n_outside = np.count_nonzero(votes.first & ~votes.of_kind(MODEL))
    return max(SHARED * n_outside / (n_outside + _OUTSIDE_ANSWERS_TO_HALF), _LEAST_SHARED)


def _annotators_in_words(mode: Mode, mode_in_words: Mode) -> list[int]:
    """Find the annotators whose measurements are to count as words, left or right.

    These are annotators whose left-out answers are predicted better from words, and annotators who
    are always as sure as possible.

    Args:
        mode: the mode that is matched to the measurements.
        mode_in_words: the mode that is matched to the same answers as words.
    """
    votes = mode.problem.votes
    rows = mode.problem.measurement_rows
    gain = _left_out_log_p(mode_in_words, rows) - _left_out_log_p(mode, rows)
    annotator = votes.annotator[rows]
    assert votes.probit is not None
    is_unsure = np.abs(votes.probit[rows]) < MOST_PROBIT  # the probability is between .01 and .99
    in_words = []
    for number in np.unique(annotator).tolist():
        is_own = annotator == number
        is_always_sure = not is_unsure[is_own].any()
        has_enough = is_own.sum() >= _FEWEST_MEASUREMENTS
        are_words_better = has_enough and is_gain(gain[is_own], _STANDARD_ERRORS, ddof=0)
        if is_always_sure or are_words_better:
            in_words.append(number)
    return in_words


def _left_out_log_p(mode: Mode, rows: I64) -> F64:
    """Predict each answer from all other answers; return the log-probability of the chosen side.

    The side of an answer is left or right; `rows` are the rows of the answers.
    """
    mean, variance = leave_one_out(mode, rows)
    sign = np.sign(mode.problem.votes.target[rows] - 0.5)  # 1 for left, -1 for right
    log_p: F64 = log_ndtr(sign * mean / np.sqrt(1 + variance))
    return log_p
