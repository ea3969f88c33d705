"""The rule that chooses questions, and the number of questions that are left."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.groups import Groups
from sortnet.preference.model import SHARPNESS, Annotators, Columns, Posterior, Prior
from sortnet.preference.rule import Beliefs, openness


def gaussian(seed: int, n: int = 5, k: int = 300) -> Posterior:
    """A posterior with a random mean and a random covariance."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    C = A @ A.T / n + 0.1 * np.eye(n)
    mean = rng.standard_normal(n)
    draws = rng.multivariate_normal(mean, C, k)
    return Posterior(mean, C, draws, Annotators.average(0), Prior(Columns(np.empty((n, 0)))))


def beliefs_of(posterior, groups=None, *, n_seen=None, scale=0.0, top=0, set_size=2):
    n = posterior.n_items
    groups = groups or Groups(None, n)
    seen = np.ones(n, np.int64) if n_seen is None else np.array(n_seen)
    is_open = openness(posterior, groups, top, set_size)
    return Beliefs.of(posterior, groups, is_open, seen, scale, np.random.default_rng(0))


def after_answer(C, i, j, noise):
    """The covariance after an answer, by the inverse of the precision."""
    x = np.zeros(len(C))
    x[i], x[j] = 1, -1
    return np.linalg.inv(np.linalg.inv(C) + np.outer(x, x) / noise)


def anything(i, j):
    return True


def nothing(i, j):
    return False


@settings(deadline=None)
@given(st.integers(0, 999), st.sampled_from([0.0, 0.4]), st.sampled_from([0, 2]))
def test_the_worth_of_an_answer_is_the_fall_of_the_weighted_variance(seed, scale, top):
    posterior = gaussian(seed)
    beliefs = beliefs_of(posterior, scale=scale, top=top)
    C = posterior.covariance
    i, j = np.array([*combinations(range(5), 2)]).T
    _, variance = posterior.difference(i, j)
    noise = beliefs.noise(i, j, variance)
    falls = [
        beliefs.open @ np.diag(C - after_answer(C, *pair)) for pair in zip(i, j, noise, strict=True)
    ]
    assert beliefs.worth(i, j) == pytest.approx(falls)
    pair = beliefs.best_pair(AskablePairs(Groups(None, 5)), anything, np.random.default_rng(1))
    assert {*pair} == {int(i[np.argmax(falls)]), int(j[np.argmax(falls)])}


@given(st.floats(-2, 2), st.floats(0.05, 2))
def test_the_noise_of_a_word_is_that_of_its_probability_by_numeric_integration(mean, variance):
    C = np.array([[variance, 0.0], [0.0, 0.0]])
    posterior = Posterior(
        np.array([mean, 0.0]), C, np.zeros((64, 2)), Annotators.average(0),
        Prior(Columns(np.empty((2, 0)))),
    )  # fmt: skip
    noise = beliefs_of(posterior).noise(np.array([0]), np.array([1]), np.array([variance]))[0]
    s = np.linspace(mean - 8 * variance**0.5, mean + 8 * variance**0.5, 4001)
    density = np.exp(-((s - mean) ** 2) / (2 * variance))
    p = density @ (1 / (1 + np.exp(-SHARPNESS * s))) / density.sum()
    assert noise == pytest.approx(1 / (SHARPNESS**2 * p * (1 - p)), rel=0.08)


def test_openness_is_that_of_the_membership_in_each_group():
    posterior = gaussian(3, n=6)
    assert openness(posterior, Groups(None, 6), 0, 2).tolist() == [1.0] * 6
    groups = Groups([0, 1, 0, 1, 0, 1], 6)
    found = openness(posterior, groups, 1, 2)
    of_sets = openness(posterior, groups, 1, 4)
    for members in groups.members:
        for item in members:
            q = np.mean(posterior.draws[:, members].argmax(axis=1) == [*members].index(item))
            assert found[item] == pytest.approx(q * (1 - q), abs=2e-4)
            assert of_sets[item] == pytest.approx(q * (1 - q) + 0.1 * q, abs=2e-4)


def test_an_open_question_counts_as_an_answer():
    posterior = gaussian(5)
    beliefs = beliefs_of(posterior)
    before = beliefs.covariance.copy()
    _, variance = posterior.difference(np.array([0]), np.array([3]))
    noise = beliefs.noise(np.array([0]), np.array([3]), variance)[0]
    beliefs.expect_answer([0, 3])
    assert beliefs.covariance == pytest.approx(after_answer(before, 0, 3, noise))
    assert beliefs.n_seen.tolist() == [2, 1, 1, 2, 1]
    # A set lowers every variance, and by less than all of its pairs would.
    fours, sixes = beliefs_of(posterior), beliefs_of(posterior)
    fours.expect_answer([0, 1, 2, 3])
    for pair in combinations(range(4), 2):
        sixes.expect_answer(pair)
    falls = np.diag(before) - np.diag(fours.covariance)
    assert (falls > 0).all()
    assert (falls < np.diag(before) - np.diag(sixes.covariance)).all()


def test_a_listed_pair_is_chosen_by_its_worth_though_groups_are_mixed():
    names = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    posterior, groups = gaussian(7, n=10), Groups(names, 10)
    among = [(0, 3), (3, 6), (6, 9), (1, 4), (4, 7), (2, 5), (5, 8)]
    beliefs = beliefs_of(posterior, groups)
    worth = [
        beliefs.worth(np.array([i]), np.array([j]))[0]
        for i, j in (np.searchsorted(beliefs.items, pair) for pair in among)
    ]
    found = beliefs.best_pair(AskablePairs(groups, among=among), anything, np.random.default_rng(0))
    assert found == among[int(np.argmax(worth))]
    unseen = beliefs_of(posterior, groups, n_seen=[1, 1, 0, 1, 1, 1, 1, 1, 1, 1])
    pairs = AskablePairs(groups, among=among)
    assert unseen.best_pair(pairs, anything, np.random.default_rng(0)) == (2, 5)


@pytest.mark.parametrize("seed", range(5))
def test_a_set_grows_from_its_pair_by_items_of_its_group_that_are_free(seed):
    posterior, groups = gaussian(seed, n=12), Groups([0, 1] * 6, 12)
    beliefs = beliefs_of(posterior, groups)
    free = {(2, 8), (4, 8)}

    def is_free(i, j):
        return (min(i, j), max(i, j)) not in free

    items = beliefs.grown((0, 2), 5, is_free, is_free, np.random.default_rng(0))
    assert items[:2] == (0, 2)
    assert len({*items}) == 5
    assert all(item % 2 == 0 for item in items)
    assert 8 not in items
    rng = np.random.default_rng(0)
    assert beliefs.grown((0, 2), 6, nothing, nothing, rng) == (0, 2)
    assert beliefs.grown((0, 2), 2, anything, anything, rng) == (0, 2)


def test_the_information_of_a_set_is_that_of_a_sum_over_choices():
    draws = np.array([[0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [0.3, 0.2, 0.1]])
    posterior = Posterior(
        draws.mean(axis=0), np.eye(3), draws, Annotators.average(0),
        Prior(Columns(np.empty((3, 0)))),
    )  # fmt: skip
    p = np.array([[np.exp(1.7 * s[k]) / np.exp(1.7 * s).sum() for k in range(3)] for s in draws])
    expected = np.mean(np.sum(p * np.log2(p / p.mean(axis=0)), axis=1))
    found = beliefs_of(posterior)._information(np.array([[0, 1, 2]]))
    assert found[0] == pytest.approx(expected)
