"""Match hyperparameters to the answers: one function updates each kind, given the present mode.

In shapes, m is the number of answers, and a of annotators.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from sortnet.core import F64, I64, Bool
from sortnet.preference.likelihood import genuine, squared_error
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
# `likely_priors` tries priors with these shares of the features in the scores' variance, and these
# factors of the matched variance. It returns at most `_MOST_PRIORS` priors, and none with less than
# the share `_LIKELY` of the likeliest prior's odds.
_SHARES = {0.01: 2.0, 0.3: 1.0, 0.6: 1.5, 0.85: 1.5, 0.998: 0.5}  # with their odds a priori
_FACTORS = (0.3, 1.0, 3.0)
_MOST_PRIORS = 8
_LIKELY = 0.02
# A priori the logarithm of the scores' variance is normal around the first guess, with this
# standard deviation.
_HYPER = 1.0
_STEPS_TO_MODE = 10  # Newton steps of a fit without the models, at most
_STEPS_UNDER_PRIOR = 2  # Newton steps from the matched prior's mode to the mode of a prior near it


def matched_prior(
    problem: Problem, prior: Prior, theta: F64, solver: Precision, root: F64, variance: F64
) -> Prior:
    """Update the variances of the prior by MacKay's rule.

    A new variance is the sum of the squared unknowns / the number of determined unknowns. This
    number is the sum of 1 - (posterior variance / present prior variance). The first guess of the
    variance counts as `_BELIEF` more determined unknowns.

    The rule leaves out a part of the evidence's slope. With many unknowns `lost_weights` adds this
    part; with few unknowns `likely_priors` corrects the prior.

    Args:
        problem: the problem, with the answers.
        prior: the present prior.
        theta: the unknowns at the mode.
        solver: the precision of the posterior at the mode.
        root: a matrix R; the covariance of the unknowns is RᵀR.
        variance: the posterior variance of each unknown.
    """
    n, d = problem.features.shape
    guess = first_guess(d)
    lost_by_weights = 0.0
    lost_by_residuals = 0.0
    largest_ratio = 1.0  # of posterior variance / prior variance
    if problem.large:
        scores_root = problem.to_scores(root)
        lost_by_weights, lost_by_residuals = lost_weights(
            problem, theta, scores_root, prior, solver
        )
        # Variances estimated from draws are too large as often as too small. If only the large
        # variances were cut, items with few answers would count as determined, and their residuals
        # would vanish.
        largest_ratio = np.inf

    def match_variance(
        unknowns: slice, prior_variance: float, guessed_variance: float, lost: float
    ) -> float:
        """Update the prior variance of some unknowns; `lost` is from `lost_weights`."""
        ratio = np.minimum(variance[unknowns] / prior_variance, largest_ratio)
        n_determined = max(np.sum(1 - ratio), 0.0)
        sum_of_squares = theta[unknowns] @ theta[unknowns] + prior_variance * lost
        sum_with_guess = sum_of_squares + _BELIEF * guessed_variance
        return float(sum_with_guess / (n_determined + _BELIEF))

    weight = prior.weight
    if d:
        weight = match_variance(slice(d), prior.weight, guess.weight, lost_by_weights)
    residual = match_variance(slice(d, d + n), prior.residual, guess.residual, lost_by_residuals)
    return Prior(weight, residual)


def lost_weights(
    problem: Problem, theta: F64, root: F64, prior: Prior, solver: Precision
) -> tuple[float, float]:
    """Compute how fast the answers lose weight when a prior variance grows.

    The weight w of an answer is minus the second derivative of its log-likelihood in z. If the
    logarithm of a prior variance grows by 1, the mode θ moves by H⁻¹ Λ θ, with the posterior's
    precision H and the prior's precision Λ. There the weights are smaller. The loss is the sum over
    the answers of -dw / d log(prior variance) times the variance of z.

    Half of the loss belongs to the slope of the evidence, and MacKay's rule leaves it out: with
    three answers to an item, the rule alone finds a third of the variance.

    Args:
        problem: the problem, with the answers.
        theta: the unknowns at the mode.
        root: a matrix R; the covariance of scores and biases is RᵀR.
        prior: the present prior.
        solver: the precision of the posterior at the mode.

    Returns:
        The loss for the variance of the feature weights, and for the variance of the residuals.
    """
    n, d = problem.features.shape
    weight = problem.likelihood(theta).weight
    variance = problem.variance(root, np.arange(len(problem.votes)))
    weights = slice(d)
    residuals = slice(d, d + n)
    slope_changes = np.zeros((2, len(theta)))  # Λ θ, for each of the two prior variances
    slope_changes[0, weights] = theta[weights] / prior.weight
    slope_changes[1, residuals] = theta[residuals] / prior.residual
    step_of_weights, step_of_residuals = _STEP * solver.solve(slope_changes.T).T

    def loss_by(step: F64) -> float:
        """Compute the loss as a difference quotient, if the mode moves by a step."""
        new_weight = problem.likelihood(theta + step).weight
        return float((weight - new_weight) @ variance / _STEP)

    return loss_by(step_of_weights), loss_by(step_of_residuals)


def matched_scales(problem: Problem, theta: F64, variance: F64) -> Scales:
    """Match the tie threshold and the prior spreads of the side biases; return the new scales.

    Args:
        problem: the problem, with the answers and the present scales.
        theta: the unknowns at the mode.
        variance: the posterior variance of each unknown.
    """
    scales = problem.scales
    if scales.tie:  # without ties the threshold is 0
        scales = replace(scales, tie=_likeliest_tie(problem, theta))
    n, d = problem.features.shape
    first_bias = d + n  # the unknowns before the biases are d weights and n residuals
    biases = slice(first_bias, first_bias + problem.n_annotators)
    expected_squares = (theta**2 + variance)[biases]
    side_sd = side_spread(expected_squares)
    return replace(scales, annotators=replace(scales.annotators, side_sd=side_sd))


def _likeliest_tie(problem: Problem, theta: F64) -> float:
    """Find the tie threshold with the highest likelihood, given the unknowns at the mode."""
    # Only annotators' words about pairs can be ties.
    is_word = (problem.by_annotator > 0) & problem.votes.of_pairs
    is_word[problem.measured] = False
    z = problem.z(theta)[is_word]
    target = problem.votes.target[is_word]
    likeliest = minimize_scalar(
        lambda log_tie: -genuine(z, target, np.exp(log_tie)).log_p.sum(),
        bounds=_LOG_TIE,
        method="bounded",
        options={"xatol": _LOG_TIE_TOLERANCE},
    )
    return float(np.exp(likeliest.x))


def matched_shared(
    problem: Problem, theta: F64, variance: F64, prior: Prior, expected: float
) -> float:
    """Update the variance of the errors that models share, relative to the scores' variance.

    The update is MacKay's rule, see `matched_prior`. Without answers that measure the errors, the
    variance stays near `expected`. If annotators never contradict each other, the scores get larger
    than their prior expects. The errors get larger by the same factor, which says nothing about the
    models, so the squared errors are divided by the factor.

    Args:
        problem: the problem, with the answers and the present scales.
        theta: the unknowns at the mode.
        variance: the posterior variance of each unknown.
        prior: the prior under which the mode was found.
        expected: the variance expected before any answer, relative to the scores' variance.
    """
    if not problem.has_shared_errors or problem.votes.only_of_models:
        return problem.scales.shared
    # The first d + n unknowns, weights and residuals, make the scores. The last d + n unknowns make
    # the shared errors in the same way.
    n, d = problem.features.shape
    of_scores = slice(d + n)
    of_errors = slice(-(d + n), None)
    precision = problem.precision(prior)[of_scores]
    score_squares = float(precision @ theta[of_scores] ** 2)
    score_ratio = precision * variance[of_scores]
    factor = _matched_variance(score_squares, score_ratio, expected=1.0)
    error_squares = float(precision @ theta[of_errors] ** 2) / factor
    error_ratio = precision * variance[of_errors] / problem.scales.shared
    return _matched_variance(error_squares, error_ratio, expected)


def _matched_variance(sum_of_squares: float, ratio: F64, expected: float) -> float:
    """Estimate the variance of unknowns by MacKay's rule, see `matched_prior`.

    The variance is in units of the prior variance of the scores.

    Args:
        sum_of_squares: the sum of the squared unknowns.
        ratio: the posterior variance of each unknown / its present prior variance.
        expected: the variance expected before any answer, which counts as a few unknowns.
    """
    n_determined = float(np.sum(1 - np.minimum(ratio, 1.0)))
    return (sum_of_squares + _SHARED_BELIEF * expected) / (n_determined + _SHARED_BELIEF)


def matched_annotators(
    problem: Problem, theta: F64, root: F64, prior: Prior, rng: np.random.Generator
) -> Annotators:
    """Estimate each annotator's reliability from scores fitted without the annotator's answers.

    A person's answers are compared with scores fitted without this person's answers; a model's
    answers with scores fitted without the answers of all models.

    Args:
        problem: the problem, with the answers and the present annotators.
        theta: the unknowns at the mode.
        root: a matrix R; the covariance of scores and biases is RᵀR.
        prior: the present prior.
        rng: the generator of draws, needed with many unknowns.
    """
    votes = problem.votes
    scores = problem.to_scores(theta)
    by_model = votes.of_kind(MODEL)
    by_person = votes.of_kind(PERSON)
    # The mean and the variance of the score difference, the variance of the noise, and the number
    # of independent answers, for each answer; see `AnswerGaps`.
    gap = np.zeros(len(votes))
    variance = np.zeros(len(votes))
    noise = np.ones(len(votes))
    n_answers = np.ones(len(votes))
    gap[by_person], variance[by_person] = _gaps_without_annotator(problem, theta, root, by_person)
    if problem.has_shared_errors:
        gap[by_model], variance[by_model] = _gaps_without_models(problem, prior, rng)
        noise[by_model] += _variance_of_shared_errors(problem, by_model, prior)
        shares = _independent_shares(problem, gap, noise, prior)
        n_answers[by_model] = shares[votes.annotator[by_model]]
    # One tie threshold holds for all annotators, but some annotators answer with ties more often
    # than others. A model's ties are left out, because only the order of its answers is measured.
    is_used = by_person | (by_model & (votes.target != 0.5))
    first_bias = len(problem.features)  # in `scores` the biases follow the scores of the items
    bias_of_annotator = scores[first_bias : first_bias + problem.n_annotators]
    bias = problem.side * bias_of_annotator[votes.annotator]
    gaps = AnswerGaps(gap, variance, bias, noise, n_answers)
    scales = problem.scales
    tie = np.where(by_model, 0.0, scales.tie)
    return reliabilities(
        scales.annotators, gaps.where(is_used), votes.where(is_used), tie[is_used], scales.ties
    )


def _variance_of_shared_errors(problem: Problem, rows: Bool, prior: Prior) -> F64:
    """Compute the prior variance of the difference of two items' shared errors.

    The items are the left and the right item of each selected answer.
    """
    votes = problem.votes
    difference = problem.features[votes.left[rows]] - problem.features[votes.right[rows]]
    score_variance = prior.weight * np.sum(difference**2, axis=1) + 2 * prior.residual
    variance: F64 = problem.scales.shared * score_variance
    return variance


def measures_alone(problem: Problem) -> bool:
    """Tell whether the error of a single annotator's measurements is the unit of the scores."""
    return not problem.compares_annotators and bool(len(problem.measured))


def matched_measurements(problem: Problem, theta: F64, root: F64) -> Annotators:
    """Match the scales of the annotators' measurements to all answers; return the annotators.

    A scale is the standard deviation of the errors. By MacKay's rule, the variance of the errors is
    the sum of squared errors / the number of measurements less the number of unknowns that the
    measurements determine. A person's scale is skipped if annotators are compared, because
    `reliabilities` estimates it from the other annotators' answers.

    Args:
        problem: the problem, with the answers and the present annotators.
        theta: the unknowns at the mode.
        root: a matrix R; the covariance of scores and biases is RᵀR.
    """
    votes = problem.votes
    annotators = problem.scales.annotators
    rows = problem.measured
    if problem.compares_annotators:
        rows = rows[votes.of_kind(MODEL)[rows]]
    if votes.probit is None or not len(rows):
        return annotators
    annotator = votes.annotator[rows]
    scale = annotators.scale.copy()
    z = problem.z(theta)[rows]
    weight = problem.likelihood(theta).weight[rows]
    n_determined = np.minimum(weight * problem.variance(root, rows), 1.0)  # by each measurement
    squares = squared_error(z, votes.probit[rows], scale[annotator])
    for number in np.unique(annotator).tolist():
        is_own = annotator == number
        sum_of_squares = float(np.sum(squares[is_own]))
        degrees_of_freedom = float(np.sum(1 - n_determined[is_own]))
        scale[number] = matched_scale(scale[number], sum_of_squares, degrees_of_freedom)
    return replace(annotators, scale=scale)


def leave_one_out(problem: Problem, theta: F64, root: F64, rows: I64) -> tuple[F64, F64]:
    """Predict each answer from the other answers: return the mean and the variance of its z.

    Args:
        problem: the problem, with all answers.
        theta: the unknowns at the mode.
        root: a matrix R; the covariance of scores and biases is RᵀR.
        rows: the rows of the answers that are left out, one at a time.
    """
    _, slope, weight = problem.likelihood(theta)
    variance = problem.variance(root, rows)
    return unseen(problem.z(theta)[rows], variance, slope[rows], weight[rows])


def _gaps_without_annotator(problem: Problem, theta: F64, root: F64, rows: Bool) -> tuple[F64, F64]:
    """Predict each selected answer's score difference without the answers of its annotator.

    The score difference is s_left - s_right, with the scores s of the answer's two items. The
    scores are approximated as if the answer's annotator had not answered at all; with many
    unknowns, as if the annotator had not given this answer.

    Args:
        problem: the problem, with all answers.
        theta: the unknowns at the mode.
        root: a matrix R; the covariance of scores and biases is RᵀR.
        rows: a mask that selects the answers.

    Returns:
        The mean and the variance of each score difference.
    """
    votes = problem.votes.where(rows)
    scores = problem.to_scores(theta)
    reliability = problem.reliability[rows]
    likelihood = problem.likelihood(theta)
    slope = likelihood.slope[rows]
    weight = likelihood.weight[rows]
    gap = scores[votes.left] - scores[votes.right]
    if not len(votes):
        return gap, gap
    if problem.large:
        # Convert derivatives in z to derivatives in the score difference. z contains the score
        # difference times the reliability.
        slope = reliability * slope
        weight = reliability**2 * weight
        for sets in votes.sets:
            slope[sets.rows], weight[sets.rows] = summed_over_answers(
                sets.layout, slope[sets.rows], weight[sets.rows]
            )
        return unseen(gap, _variance_of_gaps(root, votes), slope, weight)
    n_items = len(problem.features)
    covariance = root.T @ root
    side = problem.side[rows]
    return unseen_in_blocks(gap, covariance, votes, (slope, weight), reliability, side, n_items)


def _gaps_without_models(
    problem: Problem, prior: Prior, rng: np.random.Generator
) -> tuple[F64, F64]:
    """Predict the score difference of each answer of a model without the answers of all models.

    The score difference is s_left - s_right. The scores s are fitted to people's answers and gold
    pairs only.

    Returns:
        The mean and the variance of each score difference.
    """
    by_model = problem.votes.of_kind(MODEL)
    votes = problem.votes.where(by_model)
    without_models = replace(problem, votes=problem.votes.where(~by_model))
    start = np.zeros(without_models.n_unknowns)
    theta = without_models.newton(start, prior, steps=_STEPS_TO_MODE)
    solver = without_models.solver(without_models.likelihood(theta).weight, prior)
    scores = without_models.to_scores(theta)
    gap = scores[votes.left] - scores[votes.right]
    covariance = solver.covariance()
    if covariance is None:
        root = without_models.to_scores(solver.root(rng))
        return gap, _variance_of_gaps(root, votes)
    variance = covariance[votes.left, votes.left] + covariance[votes.right, votes.right]
    return gap, variance - 2 * covariance[votes.left, votes.right]


def _independent_shares(problem: Problem, gap: F64, noise: F64, prior: Prior) -> F64:
    """Compute, for each annotator, the number of independent answers that one answer is worth.

    The number is 1 for a person. It is smaller for a model, because all answers of a model have
    errors in common, such as the model's taste for long texts.

    It is the ratio of two amounts of information on the model's reliability. The first is
    gᵀ (W⁻¹ + E)⁻¹ g, with the gaps g = s_left - s_right of the model's answers, the diagonal matrix
    W of the answers' weights at z = 0, which are 2 / π for a pair, and the covariance E of the
    errors. The second is the sum of W g² / noise, for independent errors, which `reliabilities`
    assumes.

    Args:
        problem: the problem, with all answers.
        gap: (m,) the mean of s_left - s_right for each answer.
        noise: (m,) the variance of z given the gap, which includes the variance of the errors.
        prior: the prior of the scores.
    """
    by_model = problem.votes.of_kind(MODEL)
    shares = np.ones(problem.n_annotators)
    ratio = problem.scales.shared
    prior_of_errors = Prior(ratio * prior.weight, ratio * prior.residual)
    average = replace(problem.scales, annotators=Annotators.average(problem.n_annotators))
    for number in np.unique(problem.votes.annotator[by_model]).tolist():
        is_own = by_model & (problem.votes.annotator == number)
        own_votes = replace(problem.votes.where(is_own), kind=None)
        own_gap = gap[is_own]
        # In this problem the errors take the place of the scores.
        problem_of_errors = replace(problem, votes=own_votes, scales=average)
        weight = _weights_at_zero(own_votes)
        # By Woodbury's identity the first amount is gᵀ W g, less what the errors may explain.
        slope = problem_of_errors.pull_back(problem_of_errors.summed(weight * own_gap))
        explained = slope @ problem_of_errors.solver(weight, prior_of_errors).solve(slope)
        information = weight @ own_gap**2 - explained
        information_if_independent = weight @ (own_gap**2 / noise[is_own])
        if information_if_independent > 0:
            shares[number] = np.clip(information / information_if_independent, 0, 1)
    return shares


def _weights_at_zero(votes: Votes) -> F64:
    """Compute the weight of each vote if both items had the same score, so that z = 0.

    The weight is minus the second derivative of the log-likelihood in z.
    """
    weight = np.full(len(votes), 2 / np.pi)
    for sets in votes.sets:
        z = np.zeros(sets.rows.shape)
        blind = np.zeros(len(z))
        weight[sets.rows] = set_likelihood(sets.layout, z, blind, ties=0.0).weight
    return weight


def likely_priors(problem: Problem, theta: F64, matched: Prior) -> tuple[tuple[Prior, ...], F64]:
    """Compute the evidence of priors near the matched prior, and choose the likeliest.

    With many unknowns the matched prior is the only one.

    Args:
        problem: the problem, with the answers.
        theta: the unknowns at the mode under the matched prior.
        matched: the matched prior.

    Returns:
        The priors, the likeliest first; and their probabilities.
    """
    if problem.large:
        return (matched,), np.ones(1)
    d = problem.features.shape[1]
    candidates = _priors_near(matched, d)
    log_p = np.array([evidence(problem, theta, prior) for prior in candidates])
    if d:
        # The candidates are ordered by share, and each share comes with all factors.
        odds_of_shares = list(_SHARES.values())
        log_p += np.log(np.repeat(odds_of_shares, len(_FACTORS)))
    odds = np.exp(log_p - log_p.max())
    odds /= odds.sum()
    likeliest = np.argsort(-odds)[:_MOST_PRIORS]
    likely = [k for k in likeliest if odds[k] >= _LIKELY * odds.max()]
    return tuple(candidates[k] for k in likely), odds[likely] / odds[likely].sum()


def _priors_near(matched: Prior, d: int) -> list[Prior]:
    """List priors for d features whose total variance is about the matched prior's.

    For each share of the features in the variance, there is a prior for each of `_FACTORS`.
    """
    shares = [*_SHARES] if d else [0.0]
    priors = []
    for share in shares:
        for factor in _FACTORS:
            total = matched.total(d) * factor
            # Without features the variance of weights does not matter, but it must not be 0.
            weight = total * share / d if d else 1.0
            priors.append(Prior(weight, total * (1 - share)))
    return priors


def evidence(problem: Problem, theta: F64, prior: Prior) -> float:
    """Compute the log-evidence of a prior by Laplace's approximation, up to a constant.

    It is log p(answers | θ) + log p(θ | prior) - log det(H) / 2 at the mode θ, with the precision H
    of the posterior, plus the log-density of the prior's total variance.

    Args:
        problem: the problem, with the answers.
        theta: unknowns near the mode.
        prior: the prior.
    """
    theta = problem.newton(theta, prior, steps=_STEPS_UNDER_PRIOR)
    precision = problem.precision(prior)
    likelihood = problem.likelihood(theta)
    log_p = likelihood.log_p.sum() - 0.5 * precision @ theta**2 + 0.5 * np.log(precision).sum()
    log_p -= 0.5 * Dense(problem, likelihood.weight, precision).log_determinant()
    d = problem.features.shape[1]
    log_scale = np.log(prior.total(d) / first_guess(d).total(d))
    return float(log_p - 0.5 * (log_scale / _HYPER) ** 2)


def _variance_of_gaps(root: F64, votes: Votes) -> F64:
    """Estimate the variance of each vote's score difference, from a few draws of the scores.

    `root` has the draws in its rows, scaled so that RᵀR estimates the covariance.
    """
    variance: F64 = np.sum((root[:, votes.left] - root[:, votes.right]) ** 2, axis=0)
    return variance
