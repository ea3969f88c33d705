"""The posterior of the scores: against numerical integration, brute force and known truths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import ndtr
from scipy.stats import norm, spearmanr

from sortnet.preference.design import design
from sortnet.preference.fitted_model import _compared_pairs, learned_features
from sortnet.preference.laplace import choose_scales, fit
from sortnet.preference.likelihood import pair_likelihood
from sortnet.preference.posterior import information
from sortnet.preference.problem import Problem
from sortnet.preference.reliability import Annotators
from sortnet.preference.scales import Prior, Scales
from sortnet.preference.stopping import wrong_share
from sortnet.preference.vote_arrays import Votes, unseen_in_blocks


def made_votes(n: int, d: int, m: int, people: int = 2, seed: int = 0):
    """Features, true scores and m votes of so many equal people."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    target = rng.choice([0.0, 0.5, 1.0], m, p=[0.1, 0.1, 0.8])
    says = rng.random(m) < ndtr(scores[left] - scores[right])
    target = np.where(target == 0.5, 0.5, says.astype(float))
    return X, scores, Votes(left, right, target, rng.integers(people, size=m))


def scales_of(people: int) -> Scales:
    """Some scales: annotators of different reliability, exactly known."""
    usual, none = Annotators.average(people), np.zeros(people)
    known = replace(usual, reliability=np.linspace(0.6, 1.4, people), reliability_sd=none)
    return Scales((Prior(0.7, 0.4),), np.ones(1), replace(known, side_sd=none + 0.2), 0.4, 0.1)


ONE = Scales(
    (Prior(1.0, 0.5),), np.ones(1), replace(Annotators.average(1), side_sd=np.full(1, 1e-4))
)


def test_the_slope_and_the_curvature_are_those_of_the_loss():
    X, _, votes = made_votes(6, 2, 25)
    scales = scales_of(2)
    problem = Problem(X, votes, 2, scales)
    precision = problem.precision(scales.priors[0])
    theta = np.random.default_rng(1).standard_normal(10)

    def loss(at):
        return 0.5 * precision @ at**2 - problem.likelihood(at).log_p.sum()

    def slope(at):
        return precision * at - problem.pull_back(problem.summed(problem.likelihood(at).slope))

    assert np.allclose(slope(theta), approx_fprime(theta, loss, 1e-7), atol=1e-4)
    weight = problem.likelihood(theta).weight
    inverse = problem.solver(weight, scales.priors[0]).solve(np.eye(10))
    numeric = np.array([(slope(theta + h) - slope(theta - h)) / 2e-5 for h in 1e-5 * np.eye(10)])
    assert np.allclose(inverse @ numeric, np.eye(10), atol=1e-5)


@pytest.mark.parametrize("tie", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("blind", [0.0, 0.2])
def test_the_likelihoods_slope_and_weight_are_its_derivatives(tie, blind):
    rng = np.random.default_rng(0)
    z, target = 4 * rng.standard_normal(300), rng.choice([0, 0.5, 1], 300)
    shares = np.full(300, blind)

    def at(z):
        return pair_likelihood(z, target, tie, shares, 0.2)

    h = 1e-5
    slope = (at(z + h).log_p - at(z - h).log_p) / (2 * h)
    weight = (at(z - h).slope - at(z + h).slope) / (2 * h)
    assert np.allclose(slope, at(z).slope, atol=1e-6)
    assert np.allclose(np.maximum(weight, 0), at(z).weight, atol=1e-5)


@pytest.mark.parametrize("z", [-8.0, -0.3, 0.0, 2.0, 30.0])
@pytest.mark.parametrize("tie", [0.05, 1.0, 12.0])
def test_the_three_answers_have_probability_one_together(z, tie):
    p = np.exp(
        pair_likelihood(np.full(3, z), np.array([0, 0.5, 1]), tie, np.full(3, 0.1), 0.3).log_p
    )
    assert p.sum() == pytest.approx(1)


def test_the_mode_has_no_slope_wherever_newton_starts():
    X, _, votes = made_votes(12, 3, 60)
    scales = scales_of(2)
    fits = [
        fit(X, votes, 2, scales=scales, start=start)
        for start in (None, np.random.default_rng(2).standard_normal(17) * 3)
    ]
    problem = Problem(X, votes, 2, scales)
    for fitted in fits:
        slope = problem.pull_back(problem.summed(problem.likelihood(fitted.theta).slope))
        gradient = slope - problem.precision(scales.priors[0]) * fitted.theta
        assert np.abs(gradient).max() < 1e-3
    assert np.allclose(fits[0].posterior.mean, fits[1].posterior.mean, atol=1e-4)


def test_two_items_and_one_answer_are_as_integration_says():
    one = Votes(np.array([0]), np.array([1]), np.array([1.0]), np.array([0]))
    posterior = fit(np.empty((2, 0)), one, 1, scales=ONE).posterior
    # s_0 - s_1 ~ N(0, 1) before; the density after is that times Φ.
    weight = quad(lambda z: norm.pdf(z) * ndtr(z), -9, 9)[0]
    mean = quad(lambda z: z * norm.pdf(z) * ndtr(z), -9, 9)[0] / weight
    square = quad(lambda z: z * z * norm.pdf(z) * ndtr(z), -9, 9)[0] / weight
    got, variance = posterior.difference(np.array([0]), np.array([1]))
    assert got[0] == pytest.approx(mean, abs=0.06)  # the mode stands for the mean
    assert variance[0] == pytest.approx(square - mean**2, abs=0.06)


def test_an_answer_taken_in_moves_the_moments_as_integration_says():
    none = Votes(*(np.empty(0, np.int64),) * 2, np.empty(0), np.empty(0, np.int64))
    posterior = fit(np.empty((3, 0)), none, 1, scales=ONE).posterior
    posterior.observe(0, 1, 1.0, 0)
    weight = quad(lambda z: norm.pdf(z) * ndtr(z), -9, 9)[0]
    mean = quad(lambda z: z * norm.pdf(z) * ndtr(z), -9, 9)[0] / weight
    square = quad(lambda z: z * z * norm.pdf(z) * ndtr(z), -9, 9)[0] / weight
    got, variance = posterior.difference(np.array([0, 2]), np.array([1, 0]))
    assert got[0] == pytest.approx(mean, abs=1e-6)
    assert variance[0] == pytest.approx(square - mean**2, abs=1e-6)
    assert posterior.mean[2] == 0  # nothing was said of it


def test_a_tie_draws_two_items_together():
    votes = Votes(np.array([0]), np.array([1]), np.array([1.0]), np.array([0]))
    posterior = fit(np.empty((2, 0)), votes, 1, scales=ONE).posterior
    before = posterior.difference(np.array([0]), np.array([1]))
    posterior.observe(1, 0, 0.5, 0)
    after = posterior.difference(np.array([0]), np.array([1]))
    assert 0 < after[0][0] < before[0][0]
    assert after[1][0] < before[1][0]


def test_many_unknowns_are_fitted_as_few_are(monkeypatch):
    X, _, votes = made_votes(40, 3, 300)
    scales = scales_of(2)
    dense = fit(X, votes, 2, scales=scales, draws=4000).posterior
    monkeypatch.setattr("sortnet.preference.problem.DENSE", 0)
    large = fit(X, votes, 2, scales=scales, draws=4000).posterior
    assert large.covariance is None
    assert np.allclose(dense.mean, large.mean, atol=1e-3)
    i, j = np.triu_indices(40, 1)
    ratio = large.difference(i, j)[1] / dense.difference(i, j)[1]
    assert np.all(np.abs(ratio - 1) < 0.2)  # the variance of 4,000 draws is off by 2 % (1 sd)
    assert dense.draws.var(axis=0) == pytest.approx(np.diag(dense.covariance), rel=0.15)


@pytest.mark.parametrize("m", [500, 4_000])
def test_few_answers_to_each_of_many_items_leave_room_for_residuals(m):
    """Of variance ¼, which nothing but the answers tells; so that intervals are not too narrow."""
    X, scores, votes = made_votes(5_000, 3, m)
    scales = choose_scales(X, votes, 2)
    assert 0.04 < scales.residual < 0.5
    posterior = fit(X, votes, 2, scales=scales).posterior
    i, j = np.random.default_rng(2).permutation(5_000).reshape(2, -1)
    wrong = ((posterior.scores[i] > posterior.scores[j]) != (scores[i] > scores[j])).mean()
    assert 0.6 * wrong < wrong_share(*posterior.difference(i, j)) < 1.5 * wrong


def test_draws_follow_the_answers_taken_in():
    X, _, votes = made_votes(8, 0, 30)
    posterior = fit(X, votes, 2, scales=scales_of(2), draws=20_000).posterior
    for k in range(5):
        posterior.observe(k, k + 1, 1.0, k % 2)
    assert np.allclose(posterior.draws.mean(axis=0), posterior.mean, atol=0.03)
    assert np.allclose(np.cov(posterior.draws.T), posterior.covariance, atol=0.03)


def answered_by(kinds, n=30, each=120, seed=0):
    """True scores, and votes of one annotator of each kind."""
    rng = np.random.default_rng(seed)
    scores, m = 1.2 * rng.standard_normal(n), each * len(kinds)
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    honest = rng.random(m) < ndtr(scores[left] - scores[right])
    says = {"good": honest, "inverted": ~honest, "random": rng.random(m) < 0.5, "left": True}
    annotator = np.arange(m) % len(kinds)
    said = np.select([annotator == k for k in range(len(kinds))], [says[k] for k in kinds])
    return scores, Votes(left, right, said.astype(float), annotator)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("random", -0.5, 0.5), ("inverted", -1.6, -0.6), ("good", 0.6, 1.4)]
)
def test_a_bad_annotator_beside_three_good_ones_is_found_and_does_no_harm(kind, low, high):
    scores, votes = answered_by(("good", "good", "good", kind))
    posterior = fit(np.empty((30, 0)), votes, 4).posterior
    people = posterior.annotators
    assert low < people.reliability[3] < high
    assert abs(people.reliability[3] - {"random": 0, "inverted": -1, "good": 1}[kind]) < (
        2.5 * people.reliability_sd[3]
    )
    assert (people.reliability[:3] > 0.6).all()
    without = fit(np.empty((30, 0)), votes.where(votes.annotator < 3), 3).posterior
    assert spearmanr(posterior.scores, scores)[0] > spearmanr(without.scores, scores)[0] - 0.02


def test_an_uncertain_reliability_widens_the_scores():
    X, _, votes = made_votes(12, 0, 60)
    known = scales_of(2)
    unsure = replace(known.annotators, reliability_sd=np.full(2, 0.5))
    narrow = fit(X, votes, 2, scales=known, draws=4000).posterior
    wide = fit(X, votes, 2, scales=replace(known, annotators=unsure), draws=4000).posterior
    assert np.allclose(narrow.mean, wide.mean)
    assert (np.diag(wide.covariance) > np.diag(narrow.covariance)).all()
    assert np.allclose(np.cov(wide.draws.T), wide.covariance, atol=0.1)


def test_a_reliabilitys_effect_on_the_mode_is_that_of_a_fit_with_another():
    X, _, votes = made_votes(12, 2, 80)
    scales = scales_of(2)
    h = 1e-3

    def mode(by):
        more = replace(scales.annotators, reliability=scales.annotators.reliability + by)
        return fit(X, votes, 2, scales=replace(scales, annotators=more)).posterior.mean

    numeric = (mode([h, 0]) - mode([-h, 0])) / (2 * h)
    unit = replace(scales.annotators, reliability_sd=np.ones(2))
    problem = Problem(X, votes, 2, replace(scales, annotators=unit))
    theta = fit(X, votes, 2, scales=scales).theta
    solver = problem.solver(problem.likelihood(theta).weight, scales.priors[0])
    slope_changes = problem.slope_changes_by_annotator(theta).toarray()
    shifts = problem.to_scores(problem.shifts_of_mode(slope_changes, solver))
    assert np.allclose(shifts[0], numeric, atol=2e-3)


def test_a_share_of_blind_answers_is_found():
    rng = np.random.default_rng(1)
    n, m = 20, 1500
    scores = np.linspace(-6, 6, n)  # so that every honest answer is clear
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    annotator, honest = np.arange(m) % 3, scores[left] > scores[right]
    blindly = (annotator == 2) & (rng.random(m) < 0.4)
    said = np.where(blindly, rng.random(m) < 0.5, honest)
    people = choose_scales(np.empty((n, 0)), Votes(left, right, said.astype(float), annotator), 3)
    blind = people.annotators.blind
    assert abs(blind[2] - 0.4) < 0.15
    assert blind[:2].max() < 0.05


def test_leaving_an_answer_out_is_about_what_a_fit_without_it_predicts():
    X, _, votes = made_votes(15, 2, 90)
    scales = scales_of(2)
    left_out = fit(X, votes, 2, scales=scales).posterior.predicted(votes, left_out=True)
    for k in range(0, 90, 9):
        others = votes.where(np.arange(90) != k)
        exact = fit(X, others, 2, scales=scales).posterior.predicted(
            votes.where(np.arange(90) == k)
        )
        assert left_out[k] == pytest.approx(exact[0], abs=0.03)


def test_leaving_out_an_annotator_is_what_a_fit_without_them_says():
    X, _, votes = made_votes(15, 0, 90)
    scales = scales_of(2)
    others = votes.where(votes.annotator == 0)
    problem = Problem(X, votes, 2, scales)
    fitted = fit(X, votes, 2, scales=scales)
    C, (_, slope, weight) = fitted.posterior.covariance, problem.likelihood(fitted.theta)
    gap, _ = fitted.posterior.difference(votes.left, votes.right)
    mean, variance = unseen_in_blocks(
        gap, C, votes, (slope, weight), problem.reliability, problem.side, 15
    )
    left, right = (side[votes.annotator == 1] for side in (votes.left, votes.right))
    exact = fit(X, others, 2, scales=scales).posterior.difference(left, right)
    assert np.corrcoef(mean[votes.annotator == 1], exact[0])[0, 1] > 0.95
    assert np.allclose(variance[votes.annotator == 1], exact[1], rtol=0.35)


@pytest.mark.parametrize("seed", range(5))
def test_answers_are_left_out_as_rows_of_a_gaussian_model_are(seed):
    """Of exact measurements most of all, which a wrong covariance would take out too often."""
    rng = np.random.default_rng(seed)
    n, m, people = 6, 40, 2
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    annotator = rng.integers(people, size=m)
    votes = Votes(left, right, rng.random(m), annotator)
    c, side = rng.uniform(0.5, 1.5, m), rng.uniform(-1, 1, m)
    weight, seen = 10.0 ** rng.uniform(-1, 3, m), 3 * rng.standard_normal(m)
    x = np.zeros((m, n + people))
    x[np.arange(m), left] += c
    x[np.arange(m), right] -= c
    x[np.arange(m), n + annotator] = side
    prior = np.diag(np.repeat([1 / 4.0, 1 / 0.01], [n, people]))

    def posterior(rows):
        precision = prior + (x[rows].T * weight[rows]) @ x[rows]
        C = np.linalg.inv(precision)
        return C @ (x[rows].T @ (weight[rows] * seen[rows])), C

    mean, C = posterior(np.arange(m))
    likelihood = weight * (seen - x @ mean), weight
    gaps, variances = unseen_in_blocks(mean[left] - mean[right], C, votes, likelihood, c, side, n)
    for who in range(people):
        own = np.flatnonzero(annotator == who)
        mean, C = posterior(np.flatnonzero(annotator != who))
        i, j = left[own], right[own]
        assert gaps[own] == pytest.approx(mean[i] - mean[j], rel=1e-6, abs=1e-6)
        assert variances[own] == pytest.approx(C[i, i] + C[j, j] - 2 * C[i, j], rel=1e-6)


def test_the_tie_threshold_is_found():
    rng = np.random.default_rng(0)
    n, m, tie = 30, 1500, 0.6
    scores = 1.5 * rng.standard_normal(n)
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    felt = scores[left] - scores[right] + rng.standard_normal(m)
    target = np.where(np.abs(felt) < tie, 0.5, (felt > 0).astype(float))
    posterior = fit(np.empty((n, 0)), Votes.of_one(left, right, target), 1).posterior
    assert posterior.tie == pytest.approx(tie, rel=0.2)
    assert fit(np.empty((n, 0)), Votes.of_one(left, right, (felt > 0) * 1.0), 1).posterior.tie == 0


def test_priors_are_weighed_by_how_much_the_features_explain():
    rng = np.random.default_rng(3)
    n, m = 60, 400
    X = design(rng.standard_normal((n, 4)))
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n

    def share(scores):
        says = rng.random(m) < ndtr(scores[left] - scores[right])
        scales = choose_scales(X, Votes.of_one(left, right, says.astype(float)), 1)
        assert scales.odds.sum() == pytest.approx(1)
        return scales.odds @ [4 * p.weight / p.total(4) for p in scales.priors]

    assert share(X @ [1.0, -1.0, 0.5, 0.2]) > 0.85
    assert share(1.5 * rng.standard_normal(n)) < 0.25


def test_who_always_answers_left_has_a_bias_and_moves_no_item():
    n, m = 10, 400
    rng = np.random.default_rng(0)
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    votes = Votes(left, right, np.ones(m), np.zeros(m, np.int64))
    posterior = fit(np.empty((n, 0)), votes, 1).posterior
    assert posterior.mean[n] > 1
    assert np.abs(posterior.scores).max() < 0.5


def test_features_that_explain_everything_leave_little_to_residuals():
    rng = np.random.default_rng(3)
    n, m = 60, 1500
    X = rng.standard_normal((n, 2))
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    zero = np.zeros(m, np.int64)
    says = rng.random(m)

    def residual(scores):
        target = (says < ndtr(scores[left] - scores[right])).astype(float)
        scales = choose_scales(X, Votes(left, right, target, zero), 1)
        return scales.odds @ [prior.residual for prior in scales.priors]

    by_features = X @ [1.5, -1.0]
    assert residual(by_features) < 0.1
    assert residual(by_features + rng.standard_normal(n)) > 0.3


def test_a_curved_truth_is_learned_by_the_net_and_a_straight_one_needs_none():
    rng = np.random.default_rng(1)
    n, m = 150, 600
    X = design(rng.standard_normal((n, 3)))
    left = rng.integers(n, size=m)
    right = (left + rng.integers(1, n, size=m)) % n
    who = np.zeros(m, np.int64)

    def votes(scores):
        return Votes(left, right, (scores[left] > scores[right]).astype(float), who)

    bowl = -(X[:, 0] ** 2) - X[:, 1] ** 2
    units = learned_features(X, votes(bowl), 1)
    assert units.shape[1] > 0
    straight = fit(X, votes(bowl), 1).posterior.scores
    curved = fit(np.hstack((X, units)), votes(bowl), 1).posterior.scores
    # Of pairs nobody was asked about: the residuals of all items are known in both.
    assert spearmanr(curved, bowl)[0] > spearmanr(straight, bowl)[0] + 0.02
    few = votes(bowl).where(np.arange(m) < 100)
    assert learned_features(X, few, 1).shape == (n, 0)


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (0.7, 0.3), (-1.5, 4.0)])
def test_information_is_that_of_integration(mean, variance):
    def coin(p):
        p = np.clip(p, 1e-15, 1 - 1e-15)
        return -(p * np.log2(p) + (1 - p) * np.log2(1 - p))

    sd = np.sqrt(variance)
    inner = quad(lambda z: norm.pdf(z, mean, sd) * coin(ndtr(z)), mean - 6 * sd, mean + 6 * sd)[0]
    exact = coin(ndtr(mean / np.sqrt(1 + variance))) - inner
    got = information(np.array([mean]), np.array([variance]))[0]
    assert got == pytest.approx(exact, abs=0.01)  # the paper's approximation of the entropy


def test_a_design_is_standard_whatever_is_missing_or_heavy():
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.lognormal(0, 3, 200), rng.standard_normal(200), np.full(200, 7.0)))
    X[3, 1] = np.nan
    got = design(X)
    assert got.shape == (200, 2)  # what is the same for all says nothing
    assert np.isfinite(got).all()
    assert np.abs(got).max() <= 4
    assert got[3, 1] == 0
    assert spearmanr(got[:, 0], X[:, 0])[0] == pytest.approx(1)


def test_a_net_learns_the_likelier_winner_of_each_vote_and_both_sides_of_a_tie():
    left, right = np.arange(5), np.arange(5) + 5
    pairs = _compared_pairs(Votes.of_one(left, right, np.array([1.0, 0.7, 0.5, 0.3, 0.0])))
    found = sorted(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))
    assert found == [(0, 5), (1, 6), (2, 7), (7, 2), (8, 3), (9, 4)]
