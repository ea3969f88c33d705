"""Probabilities as measurements: their likelihood, what is learned of them, honest intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import norm

from sortnet.lab.simulated_probabilities import MILD, PROBABILITIES, answered
from sortnet.preference import Judgement, problem
from sortnet.preference.laplace import choose_scales, fit
from sortnet.preference.likelihood import (
    MOST_PROBIT,
    measurement_likelihood,
    pair_likelihood,
    squared_error,
)
from sortnet.preference.posterior import information_of_measurement
from sortnet.preference.problem import Problem
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, study_of
from sortnet.preference.vote_arrays import Votes

MODEL = "model"
MEASURES = Decision("p-measurement", MODEL)
FINITE = st.floats(-4, 4)
SCALES = st.floats(0.05, 5)
PROBITS = st.one_of(
    st.floats(-MOST_PROBIT, MOST_PROBIT), st.sampled_from([-MOST_PROBIT, MOST_PROBIT])
)


def at(z: float, probit: float, scale: float) -> tuple[float, float, float]:
    log_p, slope, weight = measurement_likelihood(
        np.array([z]), np.array([probit]), np.array([scale])
    )
    return float(log_p[0]), float(slope[0]), float(weight[0])


@given(FINITE, PROBITS, SCALES)
def test_slope_and_curvature_are_derivatives_of_the_log_likelihood(z, probit, scale):
    step = 1e-4
    (low, slope_low, _), (_, slope, weight), (high, slope_high, _) = (
        at(z + off, probit, scale) for off in (-step, 0, step)
    )
    assert slope == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-4)
    assert -weight == pytest.approx((slope_high - slope_low) / (2 * step), rel=1e-3, abs=1e-4)
    assert weight >= 0


@given(FINITE, SCALES)
def test_the_probabilities_of_all_measurements_sum_to_one(z, scale):
    inside = np.linspace(-MOST_PROBIT, MOST_PROBIT, 20_001)[1:-1]
    some = np.full(len(inside), z)
    density = np.exp(measurement_likelihood(some, inside, np.full(len(inside), scale)).log_p)
    beyond = sum(np.exp(at(z, end, scale)[0]) for end in (-MOST_PROBIT, MOST_PROBIT))
    assert beyond + density.sum() * (inside[1] - inside[0]) == pytest.approx(1, abs=5e-3)


@given(FINITE, SCALES, PROBITS)
def test_left_and_right_are_alike(z, scale, probit):
    there, back = at(z, probit, scale), at(-z, -probit, scale)
    assert there == pytest.approx((back[0], -back[1], back[2]))


@given(FINITE, SCALES)
def test_the_expected_square_of_an_error_is_of_a_truncated_normal(z, scale):
    threshold = MOST_PROBIT / scale
    error = np.linspace(threshold - z, threshold - z + 12, 200_001)
    density = norm.pdf(error)
    if density.sum() < 1e-3:
        return  # too unlikely for sums
    expected = (error**2 @ density) / density.sum()
    square = squared_error(np.array([z]), np.array([MOST_PROBIT]), np.array([scale]))[0]
    assert square == pytest.approx(expected, rel=2e-2, abs=2e-3)


def votes_of(m: int, seed: int, *, scale: float = 0.5, n_items: int = 12) -> Votes:
    rng = np.random.default_rng(seed)
    left = rng.integers(n_items, size=m)
    right = (left + rng.integers(1, n_items, size=m)) % n_items
    score = rng.standard_normal(n_items) * 1.5
    u = score[left] - score[right] + rng.standard_normal(m)
    probit = np.clip(scale * u, -MOST_PROBIT, MOST_PROBIT)
    probit[::3] = np.nan  # words
    return Votes(left, right, (u > 0).astype(float), np.arange(m) % 2, probit=probit)


def test_the_gradient_of_words_and_measurements_together():
    votes = votes_of(60, 0)
    problem = Problem(np.empty((12, 0)), votes, 2, choose_scales(np.empty((12, 0)), votes, 2))
    assert 0 < len(problem.measurement_rows) < 60
    theta = np.random.default_rng(1).standard_normal(problem.n_unknowns)
    seen = problem.likelihood(theta)
    numeric = approx_fprime(theta, lambda t: float(problem.likelihood(t).log_p.sum()), 1e-6)
    assert problem.pull_back(problem.summed(seen.slope)) == pytest.approx(numeric, abs=1e-3)


def test_words_have_the_log_likelihood_of_before():
    votes = votes_of(60, 0).in_words()
    problem = Problem(np.empty((12, 0)), votes, 2, choose_scales(np.empty((12, 0)), votes, 2))
    theta = np.random.default_rng(1).standard_normal(problem.n_unknowns)
    z, annotators = problem.z(theta), problem.scales.annotators
    sign, blind = np.where(votes.target > 0.5, 1, -1), annotators.blind[votes.annotator]
    expected = np.log((1 - blind) * ndtr(sign * z) + blind / 2)
    assert problem.likelihood(theta).log_p == pytest.approx(expected, abs=1e-9)


def test_measurements_that_count_as_words_have_the_fit_of_words():
    votes = votes_of(60, 0)
    scales = choose_scales(np.empty((12, 0)), votes.in_words(), 2)
    silent = replace(scales, annotators=replace(scales.annotators, scale=np.zeros(2)))
    by_measurements, by_words = (
        fit(np.empty((12, 0)), each, 2, scales=silent).posterior
        for each in (votes, votes.in_words())
    )
    assert by_measurements.mean == pytest.approx(by_words.mean, abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(st.floats(-2, 2), st.sampled_from([-MOST_PROBIT, -0.7, 0.4, MOST_PROBIT]))
def test_observing_a_measurement_is_exact_or_matches_moments(gap, probit):
    votes = votes_of(40, 3).in_words()
    posterior = fit(np.empty((12, 0)), votes, 2).posterior
    scale = posterior.annotators.scale[0]
    x = np.zeros(len(posterior.mean))
    x[[0, 1, 12]] = posterior.reliability[0], -posterior.reliability[0], 1
    mean, variance = x @ posterior.mean, x @ posterior.covariance @ x
    z = np.linspace(mean - 9 * variance**0.5, mean + 9 * variance**0.5, 4001)
    density = norm.pdf(z, mean, variance**0.5)
    if abs(probit) < MOST_PROBIT:
        density *= norm.pdf(probit / scale - z)
    else:
        density *= ndtr(np.sign(probit) * z - MOST_PROBIT / scale)
    density /= density.sum()
    posterior.observe(0, 1, float(probit > 0), 0, probit=probit)
    assert x @ posterior.mean == pytest.approx(z @ density, abs=1e-3)
    spread = (z - z @ density) ** 2 @ density
    assert x @ posterior.covariance @ x == pytest.approx(spread, rel=1e-2)


@given(FINITE, st.floats(0.01, 4), SCALES)
def test_the_information_is_less_than_without_a_limit_and_never_negative(mean, variance, scale):
    bits = information_of_measurement(np.array([mean]), np.array([variance]), scale)[0]
    assert 0 <= bits <= 0.5 * np.log2(1 + variance) + 1e-12


def session_of(kind: str, seed: int = 0) -> Session:
    said = answered(kind, 30, 200, seed)
    session = Session(None, 30, study=study_of([MEASURES, Decision("model", MODEL)]))
    session.replay(said.judgements)
    session.refit()
    return session


def test_the_scale_of_an_honest_annotator_is_learned():
    scales = [session_of("honest", k).posterior.annotators.scale[0] for k in range(3)]
    assert scales == [pytest.approx(MILD, rel=0.2)] * 3
    triple = session_of("of a scale three times wrong").posterior.annotators.scale[0]
    assert triple == pytest.approx(3 * MILD, rel=0.3)


@pytest.mark.parametrize("kind", ["always .99", "always .5", "0 or 1", "unrelated to the truth"])
def test_who_says_nothing_of_the_errors_counts_as_words(kind):
    session = session_of(kind)
    assert session.posterior.annotators.scale[0] == 0
    said = answered(kind, 30, 200, 0).judgements
    words = Session(None, 30)
    words.replay(replace(judgement, p=None) for judgement in said)
    assert session.ranking().order.tolist() == words.ranking().order.tolist()


@pytest.mark.parametrize("kind", PROBABILITIES)
@pytest.mark.parametrize("beside", ["nobody", "people, as a model", "people, as a person"])
def test_intervals_cover_the_ranks_whatever_the_probabilities_are(kind, beside):
    n_of_people = 0 if beside == "nobody" else 150
    is_model = beside == "people, as a model"
    coverage = []
    for seed in range(3):
        said = answered(kind, 30, 200, seed, n_of_people=n_of_people)
        decisions = [MEASURES, Decision("model", MODEL)] if is_model else [MEASURES]
        session = Session(None, 30, study=study_of(decisions))
        session.replay(said.judgements)
        ranking = session.ranking()
        coverage.append(said.coverage(ranking.low, ranking.high))
    assert np.mean(coverage) > 0.82


@pytest.mark.parametrize("n_of_people", [0, 100])
def test_many_items_and_few_learn_about_the_same(monkeypatch, n_of_people):
    said = answered("honest", 30, 300, 1, n_of_people=n_of_people)
    session = Session(None, 30, study=study_of([MEASURES, Decision("model", MODEL)]))
    session.replay(said.judgements)
    session.refit()
    dense = session.posterior
    monkeypatch.setattr(problem, "DENSE", 1)
    again = Session(None, 30, study=session.study)
    again.replay(said.judgements)
    again.refit()
    large = again.posterior
    assert (dense.covariance is None, large.covariance is None) == (False, True)
    assert large.annotators.scale[0] == pytest.approx(dense.annotators.scale[0], rel=0.25)
    assert np.corrcoef(large.scores, dense.scores)[0, 1] > 0.98


def test_measurements_are_worth_more_than_words_and_shares():
    rho = {}
    for kind in ("p-measurement", "p-share", "p-ignored"):
        of_seeds = []
        for seed in range(4):
            said = answered("honest", 30, 120, seed)
            decisions = [] if kind == "p-share" else [Decision(kind, MODEL)]
            session = Session(None, 30, study=study_of(decisions))
            session.replay(said.judgements)
            of_seeds.append(np.corrcoef(session.ranking().score, said.scores)[0, 1])
        rho[kind] = np.mean(of_seeds)
    assert rho["p-measurement"] > max(rho["p-share"], rho["p-ignored"]) + 0.01


def test_a_tie_stays_a_word_and_training_gets_soft_targets():
    said = [Judgement(MODEL, 0, 1, "tie", p=0.5), Judgement(MODEL, 1, 2, "left", p=0.8)]
    session = Session(None, 3, study=study_of([MEASURES]))
    session.replay(said)
    votes = session._history.votes(2)
    assert votes.target.tolist() == [0.5, 1.0]
    assert votes.is_measured.tolist() == [False, True]
    assert votes.probit[1] == pytest.approx(ndtri(0.8))
    assert session.weighted()[0].target.tolist() == [0.5, 0.8]


def test_a_session_of_words_does_not_depend_on_what_probabilities_are():
    said = [replace(judgement, p=None) for judgement in answered("honest", 20, 80, 0).judgements]
    orders = []
    for decisions in ([], [MEASURES], [Decision("p-ignored", MODEL)]):
        session = Session(None, 20, study=study_of(decisions))
        session.replay(said)
        orders.append(session.ranking().score)
    assert orders[0] == pytest.approx(orders[1], abs=0)
    assert orders[0] == pytest.approx(orders[2], abs=0)


def test_a_word_is_the_sign_of_what_a_measurement_says():
    """The probability of a word is that of all measurements on its side."""
    z, scale = np.array([0.7]), np.array([0.3])
    side = np.linspace(0, MOST_PROBIT, 20_001)[:-1] + MOST_PROBIT / 40_000
    log_p = measurement_likelihood(np.repeat(z, len(side)), side, np.repeat(scale, len(side))).log_p
    inside = np.exp(log_p).sum() * MOST_PROBIT / 20_000
    beyond = np.exp(log_ndtr(z[0] - MOST_PROBIT / scale[0]))
    word = np.exp(pair_likelihood(z, np.ones(1), 0.0, np.zeros(1), 0.0).log_p[0])
    assert inside + beyond == pytest.approx(word, abs=1e-6)
