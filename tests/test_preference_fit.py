"""The posterior of the scores: against numerical integration, brute force and known truths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import ndtr
from scipy.stats import norm, spearmanr

from sortnet.preference import laplace as fitting
from sortnet.preference.design import design
from sortnet.preference.fits import learned_features
from sortnet.preference.laplace import Prior, Scales, choose_scales, fit
from sortnet.preference.posterior import information
from sortnet.preference.votes import Votes


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
    return Scales(Prior(0.7, 0.4, 0.05), np.linspace(0.6, 1.4, people))


def test_the_slope_and_the_curvature_are_those_of_the_loss():
    X, _, votes = made_votes(6, 2, 25)
    scales = scales_of(2)
    problem = fitting._Problem(X, votes, 2, scales.reliability)
    precision = scales.prior.precision(2, 6, 2)
    theta = np.random.default_rng(1).standard_normal(10)

    def loss(at):
        return problem.loss(at, precision)

    def slope(at):
        return precision * at - problem.slope(at)

    assert np.allclose(slope(theta), approx_fprime(theta, loss, 1e-7), atol=1e-4)
    inverse = fitting._Dense(problem, theta, scales.prior).solve(np.eye(10))
    numeric = np.array([(slope(theta + h) - slope(theta - h)) / 2e-5 for h in 1e-5 * np.eye(10)])
    assert np.allclose(inverse @ numeric, np.eye(10), atol=1e-5)


def test_the_mode_has_no_slope_wherever_newton_starts():
    X, _, votes = made_votes(12, 3, 60)
    scales = scales_of(2)
    fits = [
        fit(X, votes, 2, scales=scales, start=start)
        for start in (None, np.random.default_rng(2).standard_normal(17) * 3)
    ]
    problem = fitting._Problem(X, votes, 2, scales.reliability)
    for fitted in fits:
        gradient = problem.slope(fitted.theta) - scales.prior.precision(3, 12, 2) * fitted.theta
        assert np.abs(gradient).max() < 1e-3
    assert np.allclose(fits[0].posterior.mean, fits[1].posterior.mean, atol=1e-4)


def test_two_items_and_one_answer_are_as_integration_says():
    prior = Scales(Prior(1.0, 0.5, 1e-9), np.ones(1))
    one = Votes(np.array([0]), np.array([1]), np.array([1.0]), np.array([0]))
    posterior = fit(np.empty((2, 0)), one, 1, scales=prior).posterior
    # s_0 - s_1 ~ N(0, 1) before; the density after is that times Φ.
    weight = quad(lambda z: norm.pdf(z) * ndtr(z), -9, 9)[0]
    mean = quad(lambda z: z * norm.pdf(z) * ndtr(z), -9, 9)[0] / weight
    square = quad(lambda z: z * z * norm.pdf(z) * ndtr(z), -9, 9)[0] / weight
    got, variance = posterior.difference(np.array([0]), np.array([1]))
    assert got[0] == pytest.approx(mean, abs=0.06)  # the mode stands for the mean
    assert variance[0] == pytest.approx(square - mean**2, abs=0.06)


def test_an_answer_taken_in_moves_the_moments_as_integration_says():
    prior = Scales(Prior(1.0, 0.5, 1e-9), np.ones(1))
    none = Votes(*(np.empty(0, np.int64),) * 2, np.empty(0), np.empty(0, np.int64))
    posterior = fit(np.empty((3, 0)), none, 1, scales=prior).posterior
    posterior.observe(0, 1, 1.0, 0)
    weight = quad(lambda z: norm.pdf(z) * ndtr(z), -9, 9)[0]
    mean = quad(lambda z: z * norm.pdf(z) * ndtr(z), -9, 9)[0] / weight
    square = quad(lambda z: z * z * norm.pdf(z) * ndtr(z), -9, 9)[0] / weight
    got, variance = posterior.difference(np.array([0, 2]), np.array([1, 0]))
    assert got[0] == pytest.approx(mean, abs=1e-6)
    assert variance[0] == pytest.approx(square - mean**2, abs=1e-6)
    assert posterior.mean[2] == 0  # nothing was said of it


def test_a_tie_draws_two_items_together():
    prior = Scales(Prior(1.0, 0.5, 0.01), np.ones(1))
    votes = Votes(np.array([0]), np.array([1]), np.array([1.0]), np.array([0]))
    posterior = fit(np.empty((2, 0)), votes, 1, scales=prior).posterior
    before = posterior.difference(np.array([0]), np.array([1]))
    posterior.observe(1, 0, 0.5, 0)
    after = posterior.difference(np.array([0]), np.array([1]))
    assert 0 < after[0][0] < before[0][0]
    assert after[1][0] < before[1][0]


def test_many_unknowns_are_fitted_as_few_are(monkeypatch):
    X, _, votes = made_votes(40, 3, 300)
    scales = scales_of(2)
    dense = fit(X, votes, 2, scales=scales, draws=4000).posterior
    monkeypatch.setattr(fitting, "DENSE", 0)
    large = fit(X, votes, 2, scales=scales, draws=4000).posterior
    assert large.covariance is None
    assert np.allclose(dense.mean, large.mean, atol=1e-3)
    i, j = np.triu_indices(40, 1)
    ratio = large.difference(i, j)[1] / dense.difference(i, j)[1]
    assert np.all(np.abs(ratio - 1) < 0.2)  # the variance of 4,000 draws is off by 2 % (1 sd)
    assert dense.draws.var(axis=0) == pytest.approx(np.diag(dense.covariance), rel=0.15)


def test_draws_follow_the_answers_taken_in():
    X, _, votes = made_votes(8, 0, 30)
    posterior = fit(X, votes, 2, scales=scales_of(2), draws=20_000).posterior
    for k in range(5):
        posterior.observe(k, k + 1, 1.0, k % 2)
    assert np.allclose(posterior.draws.mean(axis=0), posterior.mean, atol=0.03)
    assert np.allclose(np.cov(posterior.draws.T), posterior.covariance, atol=0.03)


def test_an_annotator_who_answers_at_random_is_less_reliable():
    X, _, votes = made_votes(30, 2, 900, people=3)
    target = votes.target.copy()
    careless = votes.annotator == 2
    target[careless] = np.random.default_rng(5).integers(2, size=careless.sum())
    reliability = choose_scales(
        X, Votes(votes.left, votes.right, target, votes.annotator), 3
    ).reliability
    assert reliability[2] < 0.5 * reliability[:2].min()


def test_equal_annotators_are_equally_reliable():
    X, _, votes = made_votes(30, 2, 300, people=3)
    assert choose_scales(X, votes, 3).reliability == pytest.approx(np.ones(3))


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
        return choose_scales(X, Votes(left, right, target, zero), 1).prior.residual

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
