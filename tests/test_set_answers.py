"""Answers about sets: their likelihood, and a posterior, against brute force and known truths."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import softmax

from sortnet.preference.base import Judgement
from sortnet.preference.history import History
from sortnet.preference.laplace import choose_scales, fit
from sortnet.preference.likelihood import pair_likelihood
from sortnet.preference.posterior_precision import Dense
from sortnet.preference.problem import Problem
from sortnet.preference.reliability import Annotators
from sortnet.preference.scales import Prior, Scales
from sortnet.preference.set_answers import (
    ALIKE,
    BEST_FACTOR,
    CHOICES,
    WORST_FACTOR,
    Layout,
    observed_set,
    set_likelihood,
)
from sortnet.preference.vote_arrays import MODEL, Votes

SIZES = (3, 4, 5, 6)


def votes_of(judgements: list[Judgement], n_items: int) -> Votes:
    history = History(n_items)
    history.add(history.events.of(judgements))
    return history.votes(len(judgements))


def best_of(items: tuple[int, ...], best: int, worst: int | None, who: str = "ana") -> Judgement:
    left, right, *further = items
    return Judgement(who, left, right, "best", further=tuple(further), best=best, worst=worst)


def drawn_answers(n_items: int, n_answers: int, size: int, *, worst: bool, seed: int, spread=1.0):
    """True scores, and answers about random sets by utilities with normal noise."""
    rng = np.random.default_rng(seed)
    scores = spread * rng.standard_normal(n_items)
    judgements = []
    for k in range(n_answers):
        items = tuple(rng.permutation(n_items)[:size].tolist())
        seen = scores[list(items)] + rng.standard_normal(size) / np.sqrt(2)
        last = items[int(seen.argmin())] if worst else None
        judgements.append(best_of(items, items[int(seen.argmax())], last, f"person-{k % 2}"))
    return scores, judgements


def scales_of(people: int) -> Scales:
    """Scales of annotators of different reliability, some of whose answers are blind."""
    usual, none = Annotators.average(people), np.zeros(people)
    annotators = replace(
        usual,
        reliability=np.linspace(0.6, 1.4, people),
        reliability_sd=none,
        side_sd=none + 0.4,
        blind=np.linspace(0, 0.2, people),
    )
    return Scales((Prior(0.7, 0.4),), np.ones(1), annotators, 0.4, 0.1)


def probability(utilities: np.ndarray, best: int, worst: int | None) -> float:
    """The probability of an answer about a set, written out."""
    size = len(utilities)
    p = softmax(BEST_FACTOR[size] * utilities)[best]
    if worst is None:
        return float(p)
    others = [k for k in range(size) if k != best]
    from_others = softmax(-WORST_FACTOR[size] * utilities[others])
    return float(p * from_others[others.index(worst)])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("has_worst", [False, True])
def test_the_likelihood_is_the_probability_of_the_answer_and_all_sum_to_one(size, has_worst):
    scores = np.random.default_rng(size).standard_normal(size)
    items = tuple(range(size))
    chosen = permutations(items, 2) if has_worst else ((item, None) for item in items)
    judgements = [best_of(items, best, worst) for best, worst in chosen]
    votes = votes_of(judgements, size)
    scales = replace(scales_of(1), annotators=Annotators.average(1))
    problem = Problem(np.empty((size, 0)), votes, 1, scales)
    bias = 0.3
    log_p = problem.likelihood(np.append(scores, bias)).log_p[votes.first]
    utilities = 0.0 + scores - bias * np.arange(size) / (size - 1)
    expected = [probability(utilities, j.best, j.worst) for j in judgements]
    by_event = np.argsort(votes.answer[votes.first])
    np.testing.assert_allclose(np.exp(log_p)[by_event], expected, rtol=1e-12)
    assert np.exp(log_p).sum() == pytest.approx(1)


@pytest.mark.parametrize("kind", ["people", "models"])
def test_the_slope_and_the_curvature_are_those_of_the_log_likelihood(kind):
    _, judgements = drawn_answers(7, 6, 4, worst=True, seed=3)
    more = [best_of((0, 3, 5), 3, None), best_of((6, 1, 2, 4, 0), 4, 2, "person-1")]
    more += [Judgement("ana", 1, 6, "same", further=(0, 2))]
    pairs = [Judgement("ana", 1, 2, "left"), Judgement("person-0", 2, 5, "right")]
    votes = votes_of([*judgements, *more, *pairs], 7)
    if kind == "models":
        votes = votes.marked([0])
    X = np.random.default_rng(4).standard_normal((7, 2))
    scales = scales_of(3)
    blind = np.zeros(3)
    scales = replace(scales, annotators=replace(scales.annotators, blind=blind))
    problem = Problem(X, votes, 3, scales)
    precision = problem.precision(scales.priors[0])
    theta = 0.5 * np.random.default_rng(1).standard_normal(problem.n_unknowns)

    def loss(at):
        return 0.5 * precision @ at**2 - problem.likelihood(at).log_p.sum()

    def slope(at):
        return precision * at - problem.pull_back(problem.summed(problem.likelihood(at).slope))

    np.testing.assert_allclose(slope(theta), approx_fprime(theta, loss, 1e-6), atol=1e-4)
    H = np.stack(
        [approx_fprime(theta, lambda at, k=k: slope(at)[k], 1e-6) for k in range(len(theta))]
    )
    direct = Dense(problem, problem.likelihood(theta).weight, precision)
    np.testing.assert_allclose(direct.solve(np.eye(len(theta))), np.linalg.inv(H), atol=1e-4)


@pytest.mark.parametrize("layout", [*CHOICES, *ALIKE], ids=str)
def test_with_blind_answers_weights_never_exceed_the_curvature(layout):
    rng = np.random.default_rng(layout.n_rows)
    for _ in range(8):
        utilities = 1.5 * rng.standard_normal(layout.n_items)

        def log_p(at):
            z = at[layout.left] - at[layout.right]
            return set_likelihood(layout, z[None], np.array([0.3]), 0.0).log_p[0]

        z = utilities[layout.left] - utilities[layout.right]
        seen = set_likelihood(layout, z[None], np.array([0.3]), 0.0)
        x = np.zeros((layout.n_rows, layout.n_items))
        x[np.arange(layout.n_rows), layout.left] = 1
        x[np.arange(layout.n_rows), layout.right] = -1
        np.testing.assert_allclose(
            seen.slope[0] @ x, approx_fprime(utilities, log_p, 1e-6), atol=1e-4
        )
        step = 1e-3
        steps = step * np.eye(layout.n_items)
        H = np.array(
            [
                [
                    log_p(utilities + a + b)
                    - log_p(utilities + a - b)
                    - log_p(utilities - a + b)
                    + log_p(utilities - a - b)
                    for b in steps
                ]
                for a in steps
            ]
        ) / (-4 * step**2)
        told = (x.T * seen.weight[0]) @ x
        excess = np.linalg.eigvalsh(H - told)
        assert told.min() < 0 or np.allclose(told, 0)
        assert excess.min() > -1e-4 or np.allclose(told, 0, atol=1e-6)


def test_an_answer_given_blindly_is_one_of_all_alike():
    layout = Layout(4, True)
    z = np.random.default_rng(0).standard_normal((1, layout.n_rows))
    log_p = set_likelihood(layout, z, np.ones(1), 0.0).log_p
    assert np.exp(log_p) == pytest.approx(1 / 12)


def test_two_items_have_the_likelihood_of_a_pair():
    pairs = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 2, "right")]
    sets = [best_of((0, 2, 3), 2, 0, "ben")]
    scales = scales_of(2)
    X, theta = np.empty((4, 0)), np.random.default_rng(0).standard_normal(6)
    alone = Problem(X, votes_of(pairs, 4), 2, scales)
    together = Problem(X, votes_of([*pairs, *sets], 4), 2, scales)
    z = alone.z(theta)
    blind = scales.annotators.blind[alone.votes.annotator]
    expected = pair_likelihood(
        z, alone.votes.target, scales.tie_threshold, blind, scales.share_of_ties
    )
    for problem in (alone, together):
        seen = problem.likelihood(theta)
        for column, values in zip(expected, seen, strict=True):
            np.testing.assert_allclose(values[:2], column, rtol=1e-9)


def test_one_answer_observed_is_the_posterior_on_a_grid():
    """The mean and the covariance of three utilities, against a sum over a grid."""
    layout = Layout(3, True)
    mean, variance = np.array([0.3, -0.2]), np.array([[1.2, 0.5], [0.5, 0.9]])
    at = np.linspace(-5, 5, 201)
    z = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2)
    by_item = np.concatenate((np.zeros((1, 2)), -np.eye(2)))
    rows = z @ (by_item[layout.left] - by_item[layout.right]).T
    log_p = set_likelihood(layout, rows, np.zeros(len(rows)), 0.0).log_p
    off = z - mean
    log_p -= 0.5 * np.einsum("ij,jk,ik->i", off, np.linalg.inv(variance), off)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    expected = p @ z
    spread = ((z - expected).T * p) @ (z - expected)
    shift, precision = observed_set(layout, mean, variance, 0.0, 0.0)
    np.testing.assert_allclose(mean + variance @ shift, expected, atol=0.12)
    approximated = variance @ np.linalg.inv(np.eye(2) + precision @ variance)
    np.testing.assert_allclose(approximated, spread, atol=0.1)


@pytest.mark.parametrize("kind", ["people", "models"])
def test_an_observed_answer_is_about_a_new_fit(kind):
    scores, judgements = drawn_answers(12, 40, 4, worst=True, seed=5)
    votes = votes_of(judgements, 12)
    votes = votes.marked([1]) if kind == "models" else votes
    X = np.empty((12, 0))
    scales = replace(choose_scales(X, votes, 2), priors=(Prior(1.0, 1.0),), odds=np.ones(1))
    annotators = replace(scales.annotators, reliability_sd=np.zeros(2), blind=np.zeros(2))
    scales = replace(scales, annotators=annotators)
    last = votes.answer == 39
    observed = fit(X, votes.where(~last), 2, scales=scales).posterior
    before = observed.scores.copy(), observed.covariance.copy()
    observed.observe_set(votes.where(np.flatnonzero(last)))
    refitted = fit(X, votes, 2, scales=scales).posterior
    moved = np.abs(refitted.scores - before[0]).max()
    assert np.abs(observed.scores - refitted.scores).max() < 0.3 * moved
    narrower = np.abs(refitted.covariance - before[1]).max()
    assert np.abs(observed.covariance - refitted.covariance).max() < 0.5 * narrower
    assert np.abs(observed.draws.mean(axis=0) - observed.mean)[:12].max() < 0.2
    del scores


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("worst", [False, True])
def test_intervals_hold_the_true_differences(size, worst):
    """Coverage of 90 % intervals of all differences, the scales learned from the answers."""
    inside = []
    for seed in range(4):
        scores, judgements = drawn_answers(20, 80, size, worst=worst, seed=seed)
        posterior = fit(np.empty((20, 0)), votes_of(judgements, 20), 2, seed=seed).posterior
        i, j = np.triu_indices(20, 1)
        mean, variance = posterior.difference(i, j)
        off = scores[i] - scores[j] - mean
        inside.append(np.mean(np.abs(off) < 1.645 * np.sqrt(variance)))
    assert np.mean(inside) > 0.85


def test_a_set_called_all_alike_brings_its_scores_together():
    _, judgements = drawn_answers(8, 60, 2 + 1, worst=True, seed=2)
    before = fit(np.empty((8, 0)), votes_of(judgements, 8), 2).posterior
    items = tuple(np.argsort(before.scores)[[1, 3, 5, 6]].tolist())
    left, right, *further = items
    same = Judgement("person-0", left, right, "same", further=tuple(further))
    after = fit(np.empty((8, 0)), votes_of([*judgements, *[same] * 8], 8), 2).posterior
    ratio = np.ptp(after.scores[list(items)]) / np.ptp(after.scores)
    assert ratio < 0.8 * np.ptp(before.scores[list(items)]) / np.ptp(before.scores)


def test_a_place_that_an_annotator_prefers_is_a_side_bias():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(15)
    judgements = []
    for _ in range(300):
        items = tuple(rng.permutation(15)[:4].tolist())
        seen = scores[list(items)] + rng.standard_normal(4) / np.sqrt(2)
        seen -= np.arange(4) / 3
        judgements.append(best_of(items, items[int(seen.argmax())], items[int(seen.argmin())]))
    posterior = fit(np.empty((15, 0)), votes_of(judgements, 15), 1).posterior
    assert posterior.annotators.side[0] == pytest.approx(1, abs=0.3)


def test_the_reliability_of_who_answers_about_sets_by_chance_is_small():
    rng = np.random.default_rng(1)
    scores, judgements = drawn_answers(15, 160, 4, worst=True, seed=1, spread=1.5)
    for k in range(80):
        items = tuple(rng.permutation(15)[:4].tolist())
        best, worst = rng.permutation(items)[:2].tolist()
        judgements.insert(2 * k, best_of(items, best, worst, "eve"))
    votes = votes_of(judgements, 15)
    annotators = choose_scales(np.empty((15, 0)), votes, 3).annotators
    eve, *others = annotators.reliability * (1 - annotators.blind)
    assert eve < 0.3
    assert min(others) > 0.6
    del scores


def test_a_mask_keeps_whole_answers_only():
    _, judgements = drawn_answers(9, 12, 4, worst=True, seed=0)
    votes = votes_of([*judgements, Judgement("ana", 0, 1, "left")], 9)
    mask = np.ones(len(votes), np.bool_)
    mask[5] = False
    kept = votes.where(mask)
    assert kept.n_answers == votes.n_answers - 1
    drawn = votes.where(votes.drawn(0.5, np.random.default_rng(0)))
    assert 0 < drawn.n_answers < votes.n_answers
    assert len(drawn.comparisons()) == np.sum(drawn.of_pairs) + 5 * np.sum(
        [len(sets.rows) for sets in drawn.sets]
    )


def test_comparisons_are_those_that_follow_from_the_judgements():
    _, judgements = drawn_answers(9, 10, 5, worst=True, seed=0)
    judgements += [best_of((0, 3, 5), 3, None), Judgement("ana", 4, 1, "left")]
    pairs = votes_of(judgements, 9).comparisons()
    better = np.where(pairs.target == 1, pairs.left, pairs.right).tolist()
    worse = np.where(pairs.target == 1, pairs.right, pairs.left).tolist()
    expected = sorted(pair for j in judgements for pair in j.comparisons())
    assert sorted(zip(better, worse, strict=True)) == expected
    assert (pairs.left[1:] < pairs.right[1:]).all()  # the first one was asked as a pair


def test_models_answers_about_sets_are_measured_by_people():
    rng = np.random.default_rng(2)
    scores, judgements = drawn_answers(20, 150, 4, worst=True, seed=7)
    for _ in range(150):
        items = tuple(rng.permutation(20)[:4].tolist())
        seen = -scores[list(items)] + rng.standard_normal(4) / np.sqrt(2)
        judgements.append(
            best_of(items, items[int(seen.argmax())], items[int(seen.argmin())], "model")
        )
    votes = votes_of(judgements, 20).marked([2])
    assert votes.of_kind(MODEL).any()
    assert choose_scales(np.empty((20, 0)), votes, 3).annotators.reliability[2] < 0
