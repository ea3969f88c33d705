"""Match hyperparameters to the answers: one function updates each kind, given the present mode.

In shapes, m is the number of answers, n of items, d of features, and a of annotators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from sortnet.core import F64, I64, Bool
from sortnet.preference.likelihood import Likelihood, genuine, squared_error
from sortnet.preference.posterior_precision import Dense, Precision
from sortnet.preference.problem import Problem
from sortnet.preference.reliability import (
    Annotators,
    AnswerGaps,
    matched_scale,
    reliabilities,
    side_spread,
)
from sortnet.preference.scales import Prior, Scales, first_guess
from sortnet.preference.set_answers import set_likelihood, summed_over_answers
from sortnet.preference.vote_arrays import MODEL, PERSON, Votes, unseen, unseen_in_blocks

_LOG_TIE = np.log(0.05), np.log(20.0)  # range of the logarithm of the tie threshold
_LOG_TIE_TOLERANCE = 0.02
_BELIEF = 10.0  # number of unknowns that the first guess of a prior variance counts as
_SHARED_BELIEF = 3.0  # number of unknowns that the expected variance of shared errors counts as
_STEP = 0.01  # step of the logarithm of a variance, in a difference quotient
# `likely_priors` tries several priors of the scores. They differ in the share of the scores'
# variance that features explain, and in the factor by which the variance is multiplied.
_SHARES = {0.01: 2.0, 0.3: 1.0, 0.6: 1.5, 0.85: 1.5, 0.998: 0.5}  # share: its odds a priori
_FACTORS = (0.3, 1.0, 3.0)
_MOST_PRIORS = 8  # the number of priors that are kept, at most
_LEAST_RELATIVE_ODDS = 0.02  # the least odds of a prior that is kept / the likeliest prior's odds
# A priori the logarithm of the scores' variance is normal around the first guess, with this
# standard deviation.
_SD_OF_LOG_VARIANCE = 1.0
_STEPS_TO_MODE = 10  # Newton steps of a fit without the models, at most
_STEPS_UNDER_PRIOR = 2  # Newton steps from the matched prior's mode to the mode of a prior near it


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of the posterior, to which the hyperparameters are matched.

    Attributes:
        problem: the likelihood of the answers, with the present scales.
        prior: the present prior.
        theta: the unknowns at the mode.
        root: a matrix R; the covariance of the unknowns is RᵀR, or with many unknowns about RᵀR.
    """

    problem: Problem
    prior: Prior
    theta: F64
    root: F64

    @property
    def values(self) -> F64:
        """The scores, side biases and shared errors at the mode, one after the other."""
        return self.problem.to_scores(self.theta)

    @property
    def root_of_values(self) -> F64:
        """A matrix R; the covariance of scores, side biases and shared errors is RᵀR."""
        return self.problem.to_scores(self.root)

    @cached_property
    def variance(self) -> F64:
        """Posterior variance of each unknown.

        With many unknowns the variances are estimates. But an item without answers has the prior
        variance.
        """
        problem = self.problem
        variance: F64 = np.einsum("ij,ij->j", self.root, self.root)
        if problem.large:
            is_unjudged = np.ones(len(problem.features), np.bool_)
            is_unjudged[problem.votes.left] = False
            is_unjudged[problem.votes.right] = False
            residual_variance = variance[problem.unknown_slices.residuals]  # a view
            residual_variance[is_unjudged] = self.prior.residual
        return variance


def matched_prior(mode: Mode, solver: Precision) -> Prior:
    """Update the prior variances of weights and residuals by MacKay's rule.

    The rule leaves out a part of the evidence's slope. With many unknowns `lost_information` adds
    this part; with few unknowns `likely_priors` corrects the prior.

    Args:
        mode: the mode under the present prior.
        solver: the precision of the posterior at the mode.
    """
    problem = mode.problem
    prior = mode.prior
    n_features = problem.features.shape[1]
    guess = first_guess(n_features)
    lost = LostInformation(0.0, 0.0)
    if problem.large:
        lost = lost_information(mode, solver)
    unknowns = problem.unknown_slices
    weight = prior.weight
    if n_features:  # else there are no weights
        weight = _matched_variance(
            mode, unknowns.weights, prior.weight, guess=guess.weight, lost=lost.by_weights
        )
    residual = _matched_variance(
        mode, unknowns.residuals, prior.residual, guess=guess.residual, lost=lost.by_residuals
    )
    return Prior(weight, residual)


def _matched_variance(
    mode: Mode, unknowns: slice, prior_variance: float, *, guess: float, lost: float
) -> float:
    """Update the prior variance of some unknowns by MacKay's rule.

    Args:
        mode: the mode under the present prior.
        unknowns: the slice of the unknowns in `theta`.
        prior_variance: their present prior variance.
        guess: the first guess of the prior variance.
        lost: how fast the answers lose information when this prior variance grows.
    """
    theta = mode.theta[unknowns]
    ratios = mode.variance[unknowns] / prior_variance
    has_exact_variances = not mode.problem.large
    if has_exact_variances:
        ratios = np.minimum(ratios, 1.0)  # only rounding errors make a ratio larger than 1
    # With many unknowns the variances are estimated from draws, too large as often as too small, so
    # the errors cancel. If the ratios above 1 were cut, items with few answers would count as
    # determined, and their residuals would vanish.
    sum_of_squares = float(theta @ theta + prior_variance * lost)
    return _mackay_variance(sum_of_squares, ratios, expected=guess, belief=_BELIEF)


def _mackay_variance(
    sum_of_squares: float, ratios: F64, *, expected: float, belief: float
) -> float:
    """Estimate the prior variance of some unknowns, whose mean is 0, by MacKay's rule.

        variance = (sum_of_squares + belief * expected) / (n_determined + belief)
        n_determined = sum of (1 - ratio) over the unknowns

    An unknown counts as determined as far as the answers have reduced its variance.

    Args:
        sum_of_squares: the sum of the squared unknowns at the mode.
        ratios: the posterior variance of each unknown / its present prior variance.
        expected: the variance expected before any answer.
        belief: the number of determined unknowns that `expected` counts as.
    """
    n_determined = max(float(np.sum(1 - ratios)), 0.0)
    return float((sum_of_squares + belief * expected) / (n_determined + belief))


class LostInformation(NamedTuple):
    """How fast the answers lose information when a prior variance grows.

    Attributes:
        by_weights: the loss if the variance of the feature weights grows.
        by_residuals: the loss if the variance of the residuals grows.
    """

    by_weights: float
    by_residuals: float


def lost_information(mode: Mode, solver: Precision) -> LostInformation:
    """Compute how fast the answers lose information when a prior variance grows.

    The information w of an answer is minus the second derivative of its log-likelihood in z:

        loss = - Σ_answers dw / d log(prior variance) * variance of z

    If the logarithm of a prior variance grows by 1, the mode θ moves by H⁻¹ Λ θ, with the
    posterior's precision H and the prior's precision Λ. There the answers have less information.

    Half of the loss belongs to the slope of the evidence, and MacKay's rule leaves it out: with
    three answers to an item, the rule alone finds a third of the variance.

    Args:
        mode: the mode under the present prior.
        solver: the precision H of the posterior at the mode.
    """
    problem = mode.problem
    theta = mode.theta
    information = problem.likelihood(theta).weight
    variance = problem.variance(mode.root_of_values, np.arange(len(problem.votes)))
    weights = problem.unknown_slices.weights
    residuals = problem.unknown_slices.residuals
    slope_changes = np.zeros((2, len(theta)))  # Λ θ, for each of the two prior variances
    slope_changes[0, weights] = theta[weights] / mode.prior.weight
    slope_changes[1, residuals] = theta[residuals] / mode.prior.residual
    step_of_weights, step_of_residuals = _STEP * solver.solve(slope_changes.T).T

    def loss_by(step: F64) -> float:
        """Approximate the loss by a difference quotient, given a step of the mode."""
        information_after = problem.likelihood(theta + step).weight
        return float((information - information_after) @ variance / _STEP)

    return LostInformation(loss_by(step_of_weights), loss_by(step_of_residuals))


def matched_scales(mode: Mode) -> Scales:
    """Match the tie threshold and the prior spreads of the side biases; return the new scales."""
    problem = mode.problem
    scales = problem.scales
    if scales.tie_threshold:  # without ties the threshold is 0
        scales = replace(scales, tie_threshold=_likeliest_tie(problem, mode.theta))
    biases = problem.unknown_slices.biases
    expected_squares = mode.theta[biases] ** 2 + mode.variance[biases]
    annotators = replace(scales.annotators, side_sd=side_spread(expected_squares))
    return replace(scales, annotators=annotators)


def _likeliest_tie(problem: Problem, theta: F64) -> float:
    """Find the tie threshold with the highest likelihood, for fixed unknowns `theta`."""
    # Only annotators' words (left, right, tie) about pairs tell the threshold. Probabilities,
    # answers about sets and known answers are left out.
    is_word = (problem.by_annotator > 0) & problem.votes.of_pairs
    is_word[problem.measurement_rows] = False
    z = problem.z(theta)[is_word]
    target = problem.votes.target[is_word]
    likeliest = minimize_scalar(
        lambda log_tie: -genuine(z, target, np.exp(log_tie)).log_p.sum(),
        bounds=_LOG_TIE,
        method="bounded",
        options={"xatol": _LOG_TIE_TOLERANCE},
    )
    return float(np.exp(likeliest.x))


def matched_shared(mode: Mode, expected: float) -> float:
    """Update the variance of the errors that models share, relative to the scores' variance.

    The update is MacKay's rule. Without answers that measure the errors, the variance stays near
    `expected`.

    If annotators never contradict each other, the scores grow beyond what their prior expects. The
    errors grow by the same factor, which says nothing about the models. So the squared errors are
    divided by the factor.

    Args:
        mode: the mode under the present prior.
        expected: the variance expected before any answer, relative to the scores' variance.
    """
    problem = mode.problem
    if not problem.has_shared_errors:
        return problem.scales.shared
    if problem.votes.only_of_models:  # no answers of people or known answers show the errors
        return problem.scales.shared
    # Weights and residuals make the scores. The errors have weights and residuals of their own,
    # with the same prior variances times the factor `shared`.
    shared = problem.scales.shared
    scores = problem.unknown_slices.scores
    errors = problem.unknown_slices.errors
    precision = problem.precision(mode.prior)[scores]  # inverse prior variances
    growth_of_scores = _mackay_variance(
        sum_of_squares=float(precision @ mode.theta[scores] ** 2),
        ratios=np.minimum(precision * mode.variance[scores], 1.0),
        expected=1.0,  # the scores are as large as their prior expects
        belief=_SHARED_BELIEF,
    )
    sum_of_squared_errors = float(precision @ mode.theta[errors] ** 2)
    return _mackay_variance(
        sum_of_squares=sum_of_squared_errors / growth_of_scores,
        ratios=np.minimum(precision * mode.variance[errors] / shared, 1.0),
        expected=expected,
        belief=_SHARED_BELIEF,
    )


def matched_annotators(mode: Mode, rng: np.random.Generator) -> Annotators:
    """Estimate each annotator's reliability from scores fitted without the annotator's answers.

    A person's answers are compared with scores fitted without this person's answers; a model's
    answers with scores fitted without the answers of all models.

    Args:
        mode: the mode under the present prior and with the present annotators.
        rng: the generator of draws, needed with many unknowns.
    """
    problem = mode.problem
    votes = problem.votes
    by_model = votes.of_kind(MODEL)
    by_person = votes.of_kind(PERSON)
    gaps = AnswerGaps.unknown(len(votes))  # the rows of known answers stay unknown
    gaps.replace_rows(by_person, _gaps_of_people(mode, by_person))
    if problem.has_shared_errors:
        gaps.replace_rows(by_model, _gaps_of_models(mode, by_model, rng))
    bias_of_annotator = mode.values[problem.value_slices.biases]
    gaps = gaps._replace(bias=problem.side * bias_of_annotator[votes.annotator])
    # One tie threshold holds for all annotators, but some annotators answer with ties more often
    # than others. A model's ties are left out, because only the order of its answers is measured.
    # Known answers to gold pairs are left out, because they have no annotator.
    is_used = by_person | (by_model & (votes.target != 0.5))
    scales = problem.scales
    tie = np.where(by_model, 0.0, scales.tie_threshold)
    return reliabilities(
        scales.annotators,
        gaps.where(is_used),
        votes.where(is_used),
        tie[is_used],
        scales.share_of_ties,
    )


def measures_alone(problem: Problem) -> bool:
    """Tell whether the measurement errors of a single annotator define the unit of the scores."""
    return not problem.compares_annotators and bool(len(problem.measurement_rows))


def matched_measurements(mode: Mode) -> Annotators:
    """Update each annotator's `scale`, the standard deviation of the errors of measurements.

    By MacKay's rule, the variance of the errors is the sum of squared errors / the number of
    measurements less the number of unknowns that the measurements determine. A person's scale is
    skipped if annotators are compared, because `reliabilities` estimates it from the other
    annotators' answers.
    """
    problem = mode.problem
    votes = problem.votes
    annotators = problem.scales.annotators
    rows = problem.measurement_rows
    if problem.compares_annotators:  # then the rows of people are left out
        rows = rows[votes.of_kind(MODEL)[rows]]
    if votes.probit is None or not len(rows):
        return annotators
    annotator = votes.annotator[rows]
    z = problem.z(mode.theta)[rows]
    squared_errors = squared_error(z, votes.probit[rows], annotators.scale[annotator])
    # A measurement counts as determining the share weight * variance of one unknown. The prior
    # determines the rest of this unknown.
    weight = problem.likelihood(mode.theta).weight[rows]
    n_determined = np.minimum(weight * problem.variance(mode.root_of_values, rows), 1.0)
    scale = annotators.scale.copy()
    for number in np.unique(annotator).tolist():
        is_own = annotator == number
        sum_of_squares = float(np.sum(squared_errors[is_own]))
        degrees_of_freedom = float(np.sum(1 - n_determined[is_own]))
        scale[number] = matched_scale(scale[number], sum_of_squares, degrees_of_freedom)
    return replace(annotators, scale=scale)


def leave_one_out(mode: Mode, rows: I64) -> tuple[F64, F64]:
    """Predict z of each answer from all other answers: return the means and the variances.

    Args:
        mode: the mode, given all answers.
        rows: the rows of the answers that are left out, one at a time.
    """
    problem = mode.problem
    likelihood = problem.likelihood(mode.theta)
    variance = problem.variance(mode.root_of_values, rows)
    z = problem.z(mode.theta)[rows]
    return unseen(z, variance, likelihood.slope[rows], likelihood.weight[rows])


def _gaps_of_people(mode: Mode, rows: Bool) -> AnswerGaps:
    """Predict the score differences of people's answers, without the answers of the same person.

    The score difference is s_left - s_right, with the scores s of the answer's two items. The
    scores are approximated as if the answer's annotator had not answered at all; with many
    unknowns, as if the annotator had not given this answer.

    Args:
        mode: the mode, given all answers.
        rows: a mask that selects people's answers.
    """
    problem = mode.problem
    votes = problem.votes.where(rows)
    values = mode.values
    gap = values[votes.left] - values[votes.right]
    if not len(votes):
        return AnswerGaps.unknown(0)
    reliability = problem.reliability[rows]
    likelihood = problem.likelihood(mode.theta).where(rows)
    root = mode.root_of_values
    if problem.large:  # there is no covariance, so each answer is left out alone
        variance = _variance_of_gaps(root, votes)
        slope, weight = _derivatives_in_gaps(votes, likelihood, reliability)
        return AnswerGaps.of_person(*unseen(gap, variance, slope, weight))
    mean, variance = unseen_in_blocks(
        gap,
        root.T @ root,
        votes,
        (likelihood.slope, likelihood.weight),
        reliability,
        problem.side[rows],
        n_items=len(problem.features),
    )
    return AnswerGaps.of_person(mean, variance)


def _derivatives_in_gaps(votes: Votes, likelihood: Likelihood, reliability: F64) -> tuple[F64, F64]:
    """Compute the derivatives of each answer's log-likelihood in the answer's score difference.

    The slope is the first derivative, and the weight is minus the second derivative.

    z contains the score difference times the reliability c, so the slope in z is multiplied by c,
    and the weight by c². In an answer about a set, each score difference also changes the other
    rows of the answer, so the derivatives are taken of the whole answer.

    Args:
        votes: the m answers.
        likelihood: the log-likelihood of the answers, with the derivatives in z.
        reliability: (m,) the reliability of the annotator of each answer.
    """
    slope = reliability * likelihood.slope
    weight = reliability**2 * likelihood.weight
    for sets in votes.sets:
        slope[sets.rows], weight[sets.rows] = summed_over_answers(
            sets.layout, slope[sets.rows], weight[sets.rows]
        )
    return slope, weight


def _gaps_of_models(mode: Mode, by_model: Bool, rng: np.random.Generator) -> AnswerGaps:
    """Predict the score differences of models' answers, without the answers of any model.

    Args:
        mode: the mode, given all answers.
        by_model: a mask of the answers of models.
        rng: the generator of draws, needed with many unknowns.
    """
    problem = mode.problem
    votes = problem.votes.where(by_model)
    without_models = replace(problem, votes=problem.votes.where(~by_model))
    mean, variance = _score_differences(without_models, mode.prior, votes, rng)
    noise = 1 + _variance_of_shared_errors(problem, votes, mode.prior)
    shares = _independent_shares(problem, votes, mean, noise, mode.prior)
    return AnswerGaps(
        mean,
        variance,
        bias=np.zeros(len(votes)),
        noise=noise,
        n_answers=shares[votes.annotator],
    )


def _score_differences(
    problem: Problem, prior: Prior, votes: Votes, rng: np.random.Generator
) -> tuple[F64, F64]:
    """Fit scores to a problem's answers, and predict s_left - s_right for each of other votes.

    Args:
        problem: the problem with the answers to which the scores s are fitted.
        prior: the prior of the scores.
        votes: the other votes, of which only the two items matter.
        rng: the generator of draws, needed with many unknowns.

    Returns:
        The mean and the variance of each score difference.
    """
    start = np.zeros(problem.n_unknowns)
    theta = problem.newton(start, prior, steps=_STEPS_TO_MODE)
    solver = problem.solver(problem.likelihood(theta).weight, prior)
    values = problem.to_scores(theta)
    left = votes.left
    right = votes.right
    mean = values[left] - values[right]
    covariance = solver.covariance()
    if covariance is None:  # it would be too large, so variances are estimated from draws
        root = problem.to_scores(solver.root(rng))
        return mean, _variance_of_gaps(root, votes)
    variances = np.diag(covariance)
    return mean, variances[left] + variances[right] - 2 * covariance[left, right]


def _variance_of_shared_errors(problem: Problem, votes: Votes, prior: Prior) -> F64:
    """Compute the prior variance of e_left - e_right for each vote, with the shared errors e.

    An error is a product of features and weights, plus a residual, as a score is. Its prior
    variance is the variance of a score times the factor `problem.scales.shared`.
    """
    difference = problem.features[votes.left] - problem.features[votes.right]
    score_variance = prior.weight * np.sum(difference**2, axis=1) + 2 * prior.residual
    variance: F64 = problem.scales.shared * score_variance
    return variance


def _independent_shares(problem: Problem, votes: Votes, gap: F64, noise: F64, prior: Prior) -> F64:
    """Compute, for each annotator, the number of independent answers that one answer is worth.

    The number is 1 for a person. It is smaller for a model, because all answers of a model have
    errors in common, such as the model's taste for long texts.

    Args:
        problem: the problem, with the features and the present scales.
        votes: the m answers of all models.
        gap: (m,) the mean of s_left - s_right for each answer.
        noise: (m,) the variance of z given the gap, which includes the variance of the errors.
        prior: the prior of the scores.

    Returns:
        (a,) the number for each annotator.
    """
    shares = np.ones(problem.n_annotators)
    for number in np.unique(votes.annotator).tolist():
        is_own = votes.annotator == number
        shares[number] = _independent_share(
            problem, votes.where(is_own), gap[is_own], noise[is_own], prior
        )
    return shares


def _independent_share(problem: Problem, votes: Votes, gap: F64, noise: F64, prior: Prior) -> float:
    """Compute the number of independent answers that one answer of a model is worth, 0 to 1.

    It is the ratio of two amounts of information on the model's reliability:

        share = gᵀ (W⁻¹ + E)⁻¹ g / Σ_i w_i g_i² / noise_i,

    with the gaps g, the diagonal matrix W of the answers' weights w at z = 0, and the covariance E
    of the errors of the answers. The denominator, for independent errors, is what `reliabilities`
    assumes.

    Args:
        problem: the problem, with the features and the present scales.
        votes: the m answers of one model.
        gap: (m,) the mean of s_left - s_right for each answer.
        noise: (m,) the variance of z given the gap, which includes the variance of the errors.
        prior: the prior of the scores.
    """
    weight = _weights_at_zero(votes)
    # The problem below has the errors e = Φ w + u in place of the scores, with the features Φ, and
    # with weights w and residuals u of their own. The model counts in it as an average person, so
    # that z = e_left - e_right.
    shared = problem.scales.shared
    prior_of_errors = Prior(shared * prior.weight, shared * prior.residual)
    average = replace(problem.scales, annotators=Annotators.average(problem.n_annotators))
    problem_of_errors = replace(problem, votes=replace(votes, kind=None), scales=average)
    # By Woodbury's identity the numerator is gᵀ W g - bᵀ H⁻¹ b. Here b is the slope in the unknowns
    # of the errors, and H the precision of these unknowns, given the answers.
    slope = problem_of_errors.pull_back(problem_of_errors.summed(weight * gap))
    precision = problem_of_errors.solver(weight, prior_of_errors)
    information = weight @ gap**2 - slope @ precision.solve(slope)
    information_if_independent = weight @ (gap**2 / noise)
    if information_if_independent > 0:
        return float(np.clip(information / information_if_independent, 0, 1))
    return 1.0  # no answer has any information


def _weights_at_zero(votes: Votes) -> F64:
    """Compute minus the second derivative of each vote's log-likelihood in z, at z = 0.

    There all items of the vote have the same score.
    """
    weight = np.full(len(votes), 2 / np.pi)
    for sets in votes.sets:
        z = np.zeros(sets.rows.shape)
        blind = np.zeros(len(z))
        weight[sets.rows] = set_likelihood(sets.layout, z, blind, ties=0.0).weight
    return weight


def likely_priors(mode: Mode) -> tuple[tuple[Prior, ...], F64]:
    """Compute the evidence of priors near the matched prior, and choose the likeliest.

    The probability of a prior is in proportion to its evidence times its odds before any answer.
    With many unknowns the matched prior is the only one.

    Args:
        mode: the mode under the matched prior.

    Returns:
        The priors, the likeliest first; and their probabilities.
    """
    problem = mode.problem
    if problem.large:
        return (mode.prior,), np.ones(1)
    candidates = _priors_near(mode.prior, problem.features.shape[1])
    priors = [candidate.prior for candidate in candidates]
    log_p = np.array([evidence(problem, mode.theta, prior) for prior in priors])
    log_p += np.log([candidate.odds for candidate in candidates])
    odds = np.exp(log_p - log_p.max())
    odds /= odds.sum()
    least_odds = _LEAST_RELATIVE_ODDS * odds.max()
    likeliest_first = np.argsort(-odds)
    likely = [k for k in likeliest_first[:_MOST_PRIORS] if odds[k] >= least_odds]
    likely_odds = odds[likely]
    return tuple(priors[k] for k in likely), likely_odds / likely_odds.sum()


class _Candidate(NamedTuple):
    """A prior of the scores, and its odds before any answer."""

    prior: Prior
    odds: float


def _priors_near(matched: Prior, d: int) -> list[_Candidate]:
    """List priors whose total variance is near the matched prior's, given d features.

    There is a prior for each share of the variance that features explain (`_SHARES`) and each
    factor of the matched prior's total variance (`_FACTORS`).
    """
    if not d:
        # All variance is of residuals. The variance of weights does not matter, but is not 0.
        return [
            _Candidate(Prior(weight=1.0, residual=matched.residual * factor), odds=1.0)
            for factor in _FACTORS
        ]
    candidates = []
    for share, odds in _SHARES.items():
        for factor in _FACTORS:
            total = matched.total(d) * factor
            prior = Prior(weight=total * share / d, residual=total * (1 - share))
            candidates.append(_Candidate(prior, odds))
    return candidates


def evidence(problem: Problem, theta: F64, prior: Prior) -> float:
    """Compute the log-evidence of a prior by Laplace's approximation, up to a constant.

    At the mode θ, with the precision H of the posterior, the log-evidence is

        log p(answers | θ) + log p(θ | prior) - log det(H) / 2.

    The log-density of the prior's total variance, which is lognormal, is added.

    Args:
        problem: the problem, with the answers.
        theta: unknowns near the mode.
        prior: the prior.
    """
    theta = problem.newton(theta, prior, steps=_STEPS_UNDER_PRIOR)
    likelihood = problem.likelihood(theta)
    log_evidence = likelihood.log_p.sum()
    # The log-density of the unknowns, which are independent and normal under the prior.
    precision = problem.precision(prior)
    log_evidence -= 0.5 * precision @ theta**2
    log_evidence += 0.5 * np.log(precision).sum()
    log_evidence -= 0.5 * Dense(problem, likelihood.weight, precision).log_determinant()
    d = problem.features.shape[1]
    log_scale = np.log(prior.total(d) / first_guess(d).total(d))
    return float(log_evidence - 0.5 * (log_scale / _SD_OF_LOG_VARIANCE) ** 2)


def _variance_of_gaps(root: F64, votes: Votes) -> F64:
    """Estimate the variance of each vote's score difference, from a few draws of the scores.

    `root` has the draws in its rows, scaled so that RᵀR estimates the covariance.
    """
    variance: F64 = np.sum((root[:, votes.left] - root[:, votes.right]) ** 2, axis=0)
    return variance
