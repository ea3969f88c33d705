"""The rule that chooses questions, and the number of questions that are left."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_session import answered

from sortnet.preference import Judgement
from sortnet.preference.groups import Groups
from sortnet.preference.model import SHARPNESS, Annotators, Columns, Posterior, Prior
from sortnet.preference.rule import Beliefs, openness
from sortnet.preference.session import Session
from sortnet.preference.stopping import Check, Goal, Standing, near_ties


def posterior_of(draws, mean=None, covariance=None) -> Posterior:
    """A posterior of scores alone, whose mean is by default the mean of its draws."""
    mean = draws.mean(axis=0) if mean is None else mean
    prior = Prior(Columns(np.empty((len(mean), 0))))
    return Posterior(mean, covariance, draws, Annotators.average(0), prior)


def gaussian(seed: int, n: int = 5, k: int = 300) -> Posterior:
    """A posterior with a random mean and a random covariance."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    C = A @ A.T / n + 0.1 * np.eye(n)
    mean = rng.standard_normal(n)
    return posterior_of(rng.multivariate_normal(mean, C, k), mean, C)


def beliefs_of(posterior, groups=None, *, n_seen=None, scale=0.0, top=0, set_size=2):
    n = posterior.n_items
    groups = groups or Groups(None, n)
    seen = np.ones(n, np.int64) if n_seen is None else np.array(n_seen)
    is_open = openness(posterior, groups, top, set_size)
    beliefs = Beliefs(posterior, groups, is_open, seen, np.random.default_rng(0))
    beliefs.scale = scale
    return beliefs


def after_answer(C, i, j, noise):
    """The covariance after an answer, by the inverse of the precision."""
    x = np.zeros(len(C))
    x[i], x[j] = 1, -1
    return np.linalg.inv(np.linalg.inv(C) + np.outer(x, x) / noise)


def anything(i, j):
    return True


@settings(deadline=None)
@given(st.integers(0, 999), st.sampled_from([0.0, 0.4]), st.sampled_from([0, 2]))
def test_the_worth_of_an_answer_is_the_fall_of_entropy_or_for_a_top_of_variance(seed, scale, top):
    posterior = gaussian(seed)
    beliefs = beliefs_of(posterior, scale=scale, top=top)
    C = posterior.covariance
    i, j = np.array([*combinations(range(5), 2)]).T
    noise = beliefs.noise(i, j, posterior.difference(i, j)[1])
    falls = []
    for pair in zip(i, j, noise, strict=True):
        after = after_answer(C, *pair)
        fall_of_entropy = np.linalg.slogdet(C)[1] - np.linalg.slogdet(after)[1]
        falls.append(beliefs.open @ np.diag(C - after) if top else fall_of_entropy)
    assert beliefs.worth(i, j) == pytest.approx(falls)
    pair = beliefs.best_pair(anything, np.random.default_rng(1))
    best = int(np.argmax(falls))
    assert {*pair} == {int(i[best]), int(j[best])}


@given(st.floats(-2, 2), st.floats(0.05, 2))
def test_the_noise_of_a_word_is_that_of_its_probability_by_numeric_integration(mean, variance):
    C = np.array([[variance, 0.0], [0.0, 0.0]])
    posterior = posterior_of(np.zeros((64, 2)), np.array([mean, 0.0]), C)
    noise = beliefs_of(posterior).noise(np.array([0]), np.array([1]), np.array([variance]))[0]
    s = np.linspace(mean - 8 * variance**0.5, mean + 8 * variance**0.5, 4001)
    density = np.exp(-((s - mean) ** 2) / (2 * variance))
    p = density @ (1 / (1 + np.exp(-SHARPNESS * s))) / density.sum()
    assert noise == pytest.approx(1 / (SHARPNESS**2 * p * (1 - p)), rel=0.08)


def test_openness_is_that_of_the_membership_in_each_group():
    posterior = gaussian(3, n=6)
    assert openness(posterior, Groups(None, 6), 0, 2) is None
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


@pytest.mark.parametrize("set_size", [2, 4])
@pytest.mark.parametrize("goal", [Goal(), Goal(top=3)])
def test_items_without_an_answer_come_first(goal, set_size):
    session = Session(None, 25, seed=2, goal=goal, set_size=set_size, holdout=0, repeats=0)
    seen: set[int] = set()
    while len(seen) < 25:
        (q,) = session.ask("ana")
        assert {*q.items} - seen
        seen.update(q.items)
        session.tell(answered(q, "ana"))
    # Questions that are open count as answers.
    fresh = Session(None, 24, seed=2, goal=goal, set_size=set_size, holdout=0, repeats=0)
    asked = fresh.ask("ana", 24 // set_size * 2)
    assert {item for question in asked for item in question.items} == {*range(24)}


def test_an_item_that_cannot_be_asked_about_leaves_the_rule_to_the_others():
    """A lone item, or a pair that was skipped, stays without an answer for ever."""
    posterior, groups = gaussian(1, n=7), Groups("aabbbbc", 7)
    beliefs = beliefs_of(posterior, groups, n_seen=[0, 0, 1, 1, 1, 1, 0])

    def is_free(i, j):
        return {i, j} != {0, 1}

    pairs = [*combinations(range(2, 6), 2)]
    best = pairs[int(beliefs.worth(*np.array(pairs).T).argmax())]
    pair = beliefs.best_pair(is_free, np.random.default_rng(0))
    assert tuple(sorted(pair)) == best


def test_a_listed_pair_is_chosen_by_its_worth_though_groups_are_mixed():
    names = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    among = [(0, 3), (3, 6), (6, 9), (1, 4), (4, 7), (2, 5), (5, 8)]
    posterior, groups = gaussian(7, n=10), Groups(names, 10, among=among)
    beliefs = beliefs_of(posterior, groups)
    worth = [
        beliefs.worth(np.array([i]), np.array([j]))[0]
        for i, j in (np.searchsorted(beliefs.items, pair) for pair in among)
    ]
    found = beliefs.best_pair(anything, np.random.default_rng(0))
    assert found == among[int(np.argmax(worth))]
    unseen = beliefs_of(posterior, groups, n_seen=[1, 1, 0, 1, 1, 1, 1, 1, 1, 1])
    assert unseen.best_pair(anything, np.random.default_rng(0)) == (2, 5)


def test_a_set_grows_from_its_pair_by_items_of_its_group_that_are_free():
    posterior, groups = gaussian(0, n=12), Groups([0, 1] * 6, 12)
    beliefs = beliefs_of(posterior, groups)

    def is_free(i, j):
        return (min(i, j), max(i, j)) not in {(2, 8), (4, 8)}

    def nothing(i, j):
        return False

    def grown(size, free, askable):
        return beliefs.grown((0, 2), size, free, askable, np.random.default_rng(0))

    items = grown(5, is_free, is_free)
    assert items[:2] == (0, 2) and {*items} == {0, 2, 4, 6, 10}
    assert grown(6, nothing, nothing) == grown(2, anything, anything) == (0, 2)
    # Pairs that were compared before fill up a set, but only after the free ones.
    filled = grown(6, is_free, anything)
    assert {*filled} == {0, 2, 4, 6, 8, 10} and filled[-1] == 8


def test_the_information_of_a_set_is_that_of_a_sum_over_choices():
    draws = np.array([[0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [0.3, 0.2, 0.1]])
    p = np.array([[np.exp(1.7 * s[k]) / np.exp(1.7 * s).sum() for k in range(3)] for s in draws])
    expected = np.mean(np.sum(p * np.log2(p / p.mean(axis=0)), axis=1))
    beliefs = beliefs_of(posterior_of(draws, covariance=np.eye(3)))
    found = beliefs._information(np.array([[0, 1, 2]]))
    assert found[0] == pytest.approx(expected)


def left_after(m):
    """The questions left after m answers of an honest annotator about random pairs."""
    rng = np.random.default_rng(0)
    truth = 1.5 * rng.standard_normal(20)
    session = Session(None, 20, holdout=0)
    for _ in range(m):
        i, j = rng.permutation(20)[:2].tolist()
        p = 1 / (1 + np.exp(-SHARPNESS * (truth[i] - truth[j])))
        session.tell(Judgement.of("ana", (i, j), "left" if rng.random() < p else "right"))
    return session.remaining().questions


def test_the_number_left_falls():
    assert left_after(40) > left_after(160) > 0


def test_a_session_says_no_number_before_the_first_answer():
    remaining = Session(None, 20, seed=0).remaining()
    assert (remaining.questions, remaining.fewest, remaining.most) == (None, None, None)
    assert remaining.standing is Standing.ASKING


@pytest.mark.parametrize("groups", [None, np.arange(360) % 3])
def test_items_without_an_answer_are_among_the_questions_left(groups):
    session = Session(None, 360, goal=Goal(top=2), groups=groups, seed=0)
    session.tell(Judgement.of("ana", (0, 3), "left"))
    remaining = session.remaining()
    assert 358 / 2 <= remaining.questions < 20 * 360
    assert remaining.fewest <= remaining.questions <= remaining.most <= 3 * remaining.fewest


def test_near_ties_that_no_question_left_can_tell_apart_are_found():
    n = 12
    truth = np.where(np.arange(n) < 6, 0.0, np.arange(n) / 2)  # six items are equally good
    groups = Groups(None, n)
    session = Session(None, n, seed=0, goal=Goal(0, top=9), holdout=0)
    rng = np.random.default_rng(1)
    for i, j in combinations(range(n), 2):
        p = 1 / (1 + np.exp(-SHARPNESS * (truth[i] - truth[j])))
        session.tell(Judgement.of("ana", (i, j), "left" if rng.random() < p else "right"))
    session.refit()
    i, j = groups.all_within()
    few = i, j, np.full(len(i), 0.2)
    many = i, j, np.full(len(i), 1e4)
    ties = near_ties(session.posterior, groups, session.goal, few, seed=0)
    assert ties is not None and ties.first <= 9 and 10 <= ties.last <= n
    assert near_ties(session.posterior, groups, session.goal, many, seed=0) is None


@pytest.mark.parametrize(
    ("n", "n_right", "passed"),
    [(0, 0, False), (7, 7, False), (8, 8, True), (40, 28, True), (40, 15, False)],
)
def test_the_check_passes_within_two_standard_errors_of_enough_answers(n, n_right, passed):
    check = Check.of(np.full(n, 0.8), np.arange(n) < n_right, left_out=False)
    assert (check.n, check.passed) == (n, passed)


def test_the_check_of_a_session_counts_what_a_fit_without_the_hold_out_predicts():
    session = Session(None, 8, seed=0, holdout=0)
    for pair in combinations(range(8), 2):
        session.tell(Judgement.of("ana", pair, "left"))
    held_out = [(0, 7, "left"), (1, 6, "left"), (7, 2, "right"), (3, 5, "right"), (0, 1, "tie")]
    for left, right, answer in held_out:
        session.tell(Judgement.of("ben", (left, right), answer, strategy="random"))
    remaining = session.remaining()
    assert (remaining.check.n, remaining.check.right) == (4, 0.75)
    assert 0.75 < remaining.check.expected < 1
    session.undo("ben")
    session.undo("ben")
    assert session.remaining().check.right == 1.0
