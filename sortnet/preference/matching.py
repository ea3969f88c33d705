"""Scales matched to the answers: updates of each hyperparameter, given the mode of a problem."""

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
    matched_scale,
    reliabilities,
    side_spread,
)
from sortnet.preference.scales import Prior, Scales, first_guess
from sortnet.preference.set_answers import set_likelihood, summed_over_answers
from sortnet.preference.vote_arrays import MODEL, PERSON, Votes, unseen, unseen_in_blocks

_LOG_TIE = np.log(0.05), np.log(20.0)  # range of the logarithm of the tie threshold
_BELIEF = 10.0  # unknowns that the first guess of a prior scale counts as
_SHARED_BELIEF = 3.0  # and that the expected variance of shared errors counts as
_STEP = 0.01  # of the logarithm of a variance, in a difference quotient
# Priors are tried of these shares of the features in the scores' variance, and of these factors of
# the matched variance; the most likely ones are kept, with at least so much of the best's odds.
_SHARES = {0.01: 2.0, 0.3: 1.0, 0.6: 1.5, 0.85: 1.5, 0.998: 0.5}  # with odds before any answer
_FACTORS = (0.3, 1.0, 3.0)
_MOST_PRIORS = 8
_LIKELY = 0.02
_HYPER = 1.0  # standard deviation of the logarithm of that variance around the first guess


def matched_prior(
    problem: Problem, prior: Prior, theta: F64, solver: Precision, root: F64, variance: F64
) -> Prior:
    """Update the prior by MacKay's rule: squared unknowns / number of determined unknowns.

    The rule leaves out a part of the evidence's slope. With many unknowns `lost_weights` adds this
    part; with few unknowns `likely_priors` corrects the prior.

    Args:
        problem: the problem, with the answers.
        prior: the present prior.
        theta: the mode of the unknowns.
        solver: solves by the posterior's precision at the mode.
        root: root of the covariance of the unknowns.
        variance: variances of the unknowns.
    """
    n, d = problem.features.shape
    guess = first_guess(d)
    lost_by_weights = 0.0
    lost_by_residuals = 0.0
    most = 1.0
    if problem.large:
        scores_root = problem.to_scores(root)
        lost_by_weights, lost_by_residuals = lost_weights(
            problem, theta, scores_root, prior, solver
        )
        # Variances estimated from draws are too large as often as too small. If only the large
        # variances were cut, items with few answers would count as determined, and their residuals
        # would vanish.
        most = np.inf

    def matched(part: slice, present: float, guessed: float, lost: float) -> float:
        n_determined = max(np.sum(1 - np.minimum(variance[part] / present, most)), 0.0)
        square = theta[part] @ theta[part] + present * lost
        return float((square + _BELIEF * guessed) / (n_determined + _BELIEF))

    weight = prior.weight
    if d:
        weight = matched(slice(d), prior.weight, guess.weight, lost_by_weights)
    residuals = slice(d, d + n)
    return Prior(weight, matched(residuals, prior.residual, guess.residual, lost_by_residuals))


def lost_weights(
    problem: Problem, theta: F64, root: F64, prior: Prior, solver: Precision
) -> tuple[float, float]:
    """Loss of the answers' weights as the variance of feature weights, or of residuals, grows.

    The loss is Σ -dw / d log(variance) times the variance of z, summed over the answers. If the
    variance grows, the mode grows by H⁻¹ Λ θ, where the answers' weights w are smaller. MacKay's
    rule leaves out half of this loss from the evidence's slope: with three answers to an item, the
    rule alone finds a third of the variance.

    Args:
        problem: the problem, with the answers.
        theta: the mode of the unknowns.
        root: root of the covariance of scores and biases.
        prior: the present prior.
        solver: solves by the posterior's precision at the mode.
    """
    n, d = problem.features.shape
    weight = problem.likelihood(theta).weight
    variance = problem.variance(root, np.arange(len(problem.votes)))
    pull = np.zeros((2, len(theta)))
    pull[0, :d] = theta[:d] / prior.weight
    pull[1, d : d + n] = theta[d : d + n] / prior.residual
    steps = _STEP * solver.solve(pull.T).T
    by_weights, by_residuals = (
        float((weight - problem.likelihood(theta + step).weight) @ variance / _STEP)
        for step in steps
    )
    return by_weights, by_residuals


def matched_scales(problem: Problem, theta: F64, variance: F64) -> Scales:
    """The scales, after the scales of side biases and of ties are matched to the scores.

    `theta` is the mode of the unknowns, and `variance` their variances.
    """
    scales = problem.scales
    if scales.tie:
        is_word = (problem.by_annotator > 0) & problem.votes.of_pairs
        is_word[problem.measured] = False
        z = problem.z(theta)[is_word]
        target = problem.votes.target[is_word]
        likeliest = minimize_scalar(
            lambda log: -genuine(z, target, np.exp(log)).log_p.sum(),
            bounds=_LOG_TIE,
            method="bounded",
            options={"xatol": 0.02},
        )
        scales = replace(scales, tie=float(np.exp(likeliest.x)))
    first_bias = sum(problem.features.shape)
    biases = slice(first_bias, first_bias + problem.n_annotators)
    side_sd = side_spread((theta**2 + variance)[biases])
    return replace(scales, annotators=replace(scales.annotators, side_sd=side_sd))


def matched_shared(
    problem: Problem, theta: F64, variance: F64, prior: Prior, expected: float
) -> float:
    """Variance of the errors that models share, relative to the variance of the scores.

    The rule is MacKay's, as in `matched_prior`. Without answers that show how the errors differ,
    their variance stays near `expected`. If judges never contradict each other, the scores are
    larger than their prior expects. This excess says nothing about the errors, so the squared
    errors are divided by it.

    `theta` is the mode of the unknowns, and `variance` their variances.
    """
    if not problem.has_shared_errors or problem.votes.only_of_models:
        return problem.scales.shared
    n_errors = sum(problem.features.shape)
    precision = problem.precision(prior)[:n_errors]
    scores, errors = slice(n_errors), slice(-n_errors, None)
    excess = _matched_variance(
        float(precision @ theta[scores] ** 2), precision * variance[scores], 1.0
    )
    square = float(precision @ theta[errors] ** 2) / excess
    unsure = precision * variance[errors] / problem.scales.shared
    return _matched_variance(square, unsure, expected)


def _matched_variance(square: float, unsure: F64, expected: float) -> float:
    """Update a prior variance by MacKay's rule: squared unknowns / number of determined unknowns.

    Args:
        square: sum of the squared unknowns, divided by the present prior variance.
        unsure: for each unknown, its posterior variance as a share of the present prior variance.
        expected: the variance expected before any answer, which counts as a few unknowns.

    Returns:
        The new variance as a multiple of the present prior variance.
    """
    n_determined = float(np.sum(1 - np.minimum(unsure, 1.0)))
    return (square + _SHARED_BELIEF * expected) / (n_determined + _SHARED_BELIEF)


def matched_annotators(
    problem: Problem, theta: F64, root: F64, prior: Prior, rng: np.random.Generator
) -> Annotators:
    """Reliabilities of the annotators, by comparing their answers with scores fitted without them.

    A person's answers are compared with scores fitted without this person's answers; a model's
    answers with scores fitted without the answers of all models.

    `root` is the root of the covariance of scores and biases.
    """
    votes = problem.votes
    scores = problem.to_scores(theta)
    by_model = votes.of_kind(MODEL)
    by_person = votes.of_kind(PERSON)
    gap = np.zeros(len(votes))
    variance = np.zeros(len(votes))
    noise = np.ones(len(votes))
    counts = np.ones(len(votes))
    gap[by_person], variance[by_person] = _without_own(problem, theta, root, by_person)
    if problem.has_shared_errors:
        gap[by_model], variance[by_model] = _without_models(problem, prior, rng)
        left, right = votes.left[by_model], votes.right[by_model]
        apart = problem.features[left] - problem.features[right]
        errors = prior.weight * np.sum(apart**2, axis=1) + 2 * prior.residual
        noise[by_model] += problem.scales.shared * errors
        shares = _independent_shares(problem, gap, noise, prior)
        counts[by_model] = shares[votes.annotator[by_model]]
    # Some annotators answer with ties more often than others. A model's ties are left out, because
    # only the order of its answers is measured.
    rows = by_person | (by_model & (votes.target != 0.5))
    bias = problem.side * scores[len(problem.features) + votes.annotator]
    tie = np.where(by_model, 0.0, problem.scales.tie)
    return reliabilities(
        problem.scales.annotators,
        gap[rows],
        variance[rows],
        bias[rows],
        votes.where(rows),
        tie[rows],
        problem.scales.ties,
        noise[rows],
        counts[rows],
    )


def measures_alone(problem: Problem) -> bool:
    """Whether one annotator's measurements are the unit of the scores."""
    return not problem.compares_annotators and bool(len(problem.measured))


def matched_measurements(problem: Problem, theta: F64, root: F64) -> Annotators:
    """The annotators, after their scales of measurements are matched to all answers.

    MacKay's rule is: squared errors / number of measurements that no unknown takes up. The scale of
    a person among other annotators is learned from the others' answers, see `reliabilities`.

    `root` is the root of the covariance of scores and biases.
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
    taken_up = np.minimum(weight * problem.variance(root, rows), 1.0)
    square = squared_error(z, votes.probit[rows], scale[annotator])
    for number in np.unique(annotator).tolist():
        is_own = annotator == number
        n_free = float(np.sum(1 - taken_up[is_own]))
        scale[number] = matched_scale(scale[number], float(np.sum(square[is_own])), n_free)
    return replace(annotators, scale=scale)


def left_out(problem: Problem, theta: F64, root: F64, rows: I64) -> tuple[F64, F64]:
    """Means and variances of z of some answers, each as if the answer had not been given."""
    _, slope, weight = problem.likelihood(theta)
    variance = problem.variance(root, rows)
    return unseen(problem.z(theta)[rows], variance, slope[rows], weight[rows])


def _without_own(problem: Problem, theta: F64, root: F64, rows: Bool) -> tuple[F64, F64]:
    """Means and variances of s_left - s_right for each answer in these rows.

    The scores s are fitted without the answers of the same annotator.
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
        slope = reliability * slope
        weight = reliability**2 * weight
        for sets in votes.sets:
            slope[sets.rows], weight[sets.rows] = summed_over_answers(
                sets.layout, slope[sets.rows], weight[sets.rows]
            )
        return unseen(gap, _squared_gaps(root, votes), slope, weight)
    n_items = len(problem.features)
    covariance = root.T @ root
    side = problem.side[rows]
    return unseen_in_blocks(gap, covariance, votes, (slope, weight), reliability, side, n_items)


def _without_models(problem: Problem, prior: Prior, rng: np.random.Generator) -> tuple[F64, F64]:
    """Means and variances of s_left - s_right for each answer of a model.

    The scores s are fitted to people's answers and gold pairs alone.
    """
    by_model = problem.votes.of_kind(MODEL)
    votes = problem.votes.where(by_model)
    of_others = replace(problem, votes=problem.votes.where(~by_model))
    theta = np.zeros(sum(problem.features.shape) + problem.n_annotators)
    theta = of_others.newton(theta, prior, steps=10)
    solver = of_others.solver(of_others.likelihood(theta).weight, prior)
    scores = of_others.to_scores(theta)
    gap = scores[votes.left] - scores[votes.right]
    covariance = solver.covariance()
    if covariance is None:
        root = of_others.to_scores(solver.root(rng))
        return gap, _squared_gaps(root, votes)
    variance = covariance[votes.left, votes.left] + covariance[votes.right, votes.right]
    return gap, variance - 2 * covariance[votes.left, votes.right]


def _independent_shares(problem: Problem, gap: F64, noise: F64, prior: Prior) -> F64:
    """(a,) number of independent answers that an answer of each annotator counts for, at most 1.

    An answer of a model counts for less than 1, because all answers of a model have errors in
    common, such as its taste for long texts.

    The number is the information gᵀ (W⁻¹ + E)⁻¹ g on c, with the covariance E of the errors and the
    weights W = 2 / π of answers at z = 0, as a share of what `reliabilities` takes it for.
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
        alone = replace(problem, votes=own_votes, scales=average)
        weight = np.full(len(own_gap), 2 / np.pi)
        for sets in own_votes.sets:
            z = np.zeros(sets.rows.shape)
            blind = np.zeros(len(z))
            weight[sets.rows] = set_likelihood(sets.layout, z, blind, 0.0).weight
        pull = alone.pull_back(alone.summed(weight * own_gap))
        explained = pull @ alone.solver(weight, prior_of_errors).solve(pull)
        information = weight @ own_gap**2 - explained
        if_independent = weight @ (own_gap**2 / noise[is_own])
        if if_independent > 0:
            shares[number] = np.clip(information / if_independent, 0, 1)
    return shares


def likely_priors(problem: Problem, theta: F64, matched: Prior) -> tuple[tuple[Prior, ...], F64]:
    """Priors of about the matched total variance, by their evidence; the likeliest first."""
    if problem.large:
        return (matched,), np.ones(1)
    d = problem.features.shape[1]
    total = matched.total(d)
    tried = []
    for share in _SHARES if d else [0.0]:
        for factor in _FACTORS:
            # Without features their weight does not matter, but must not be 0.
            weight = total * factor * share / d if d else 1.0
            tried.append(Prior(weight, total * factor * (1 - share)))
    log_p = np.array([evidence(problem, theta, prior) for prior in tried])
    if d:
        log_p += np.log(np.repeat(list(_SHARES.values()), len(_FACTORS)))
    odds = np.exp(log_p - log_p.max())
    odds /= odds.sum()
    likeliest = np.argsort(-odds)[:_MOST_PRIORS]
    likely = [k for k in likeliest if odds[k] >= _LIKELY * odds.max()]
    return tuple(tried[k] for k in likely), odds[likely] / odds[likely].sum()


def evidence(problem: Problem, theta: F64, prior: Prior) -> float:
    """Log-probability of the answers under a prior, and of the prior's scale, by Laplace."""
    theta = problem.newton(theta, prior, steps=2)
    precision, likelihood = problem.precision(prior), problem.likelihood(theta)
    log_p = likelihood.log_p.sum() - 0.5 * precision @ theta**2 + 0.5 * np.log(precision).sum()
    log_p -= 0.5 * Dense(problem, likelihood.weight, precision).log_determinant()
    d = problem.features.shape[1]
    log_scale = np.log(prior.total(d) / first_guess(d).total(d))
    return float(log_p - 0.5 * (log_scale / _HYPER) ** 2)


def _squared_gaps(root: F64, votes: Votes) -> F64:
    """(m,) about the variances of s_left - s_right."""
    squares: F64 = np.sum((root[:, votes.left] - root[:, votes.right]) ** 2, axis=0)
    return squares
