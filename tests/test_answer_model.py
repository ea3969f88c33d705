"""The model of answers against brute force, finite differences and Bradley-Terry by scipy."""

from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_expit, ndtr, ndtri
from scipy.stats import kendalltau, rankdata, spearmanr

from sortnet.preference.answers import Answers
from sortnet.preference.base import Judgement
from sortnet.preference.fit import find_mode, fit, fit_many
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.model import (
    SHARPNESS,
    Annotators,
    Columns,
    Prior,
    laplacian,
    likelihood,
)
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal
from sortnet.preference.study import Decision, study_of


def answers_of(*judgements, **probabilities):
    table = Judgements.of(judgements)
    return Answers.of_table(table, np.arange(len(table)), probabilities=probabilities)


def without_columns(n, **facts):
    return Prior(Columns(np.empty((n, 0))), **facts)


def random_answers(rng, n, m):
    """Pairs, ties, sets with and without a worst item, measurements; two annotators."""
    judgements = []
    for k in range(m):
        items = tuple(rng.permutation(n)[: rng.integers(2, min(n, 5) + 1)].tolist())
        who = "ann" if k % 3 else "model"
        if len(items) == 2:
            word = ["left", "right", "tie"][rng.integers(3)]
            p = None
            if who == "model" and word != "tie":
                p = float(rng.uniform(0.5, 0.9) if word == "left" else rng.uniform(0.1, 0.5))
            judgements.append(Judgement.of(who, items, word, p=p))
            continue
        best, worst = rng.permutation(items)[:2].tolist()
        if rng.random() < 0.2:
            judgements.append(Judgement(who, items, "same"))
        else:
            worst = worst if rng.random() < 0.7 else None
            judgements.append(Judgement(who, items, "best", best, worst))
    return answers_of(*judgements, model="measurement")


def two_annotators():
    average = Annotators.average(2)
    return replace(
        average,
        reliability=np.array([1.3, 0.6]),
        bias=np.array([0.4, -0.2]),
        biased=np.array([True, True]),
        scale=np.array([0.5, 1.0]),
    )


def difference_quotients(function, x, h=1e-5):
    """The derivative of a function in each coordinate, by finite differences."""
    steps = h * np.eye(len(x))
    return np.array([(function(x + step) - function(x - step)) / (2 * h) for step in steps])


@given(st.integers(0, 10_000))
def test_derivatives_are_those_of_finite_differences(seed):
    rng = np.random.default_rng(seed)
    n = 5
    log_nus = np.log([0.7])
    answers = random_answers(rng, n, 12)
    annotators = two_annotators()
    s = rng.standard_normal(n)

    def at(scores=s, bias=annotators.bias, log_nu=log_nus):
        return likelihood(answers, scores, replace(annotators, bias=bias), np.exp(log_nu[0]))

    _, _, _, i, j = answers.edges
    curvature = laplacian(i, j, at().weight, n).toarray()
    for found, expected in (
        (at().slope, difference_quotients(lambda x: at(x).value, s)),
        (-curvature, difference_quotients(lambda x: at(x).slope, s)),
        (at().bias_slope, difference_quotients(lambda x: at(bias=x).value, annotators.bias)),
        (
            -np.diag(at().bias_stiffness),
            difference_quotients(lambda x: at(bias=x).bias_slope, annotators.bias),
        ),
        (at().tie_slope, difference_quotients(lambda x: at(log_nu=x).value, log_nus)),
    ):
        assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_probabilities_of_all_answers_about_a_set_add_up_to_one(n):
    scores = np.array([0.3, -1.2, 0.8, 0.1])[:n]
    total = 0.0
    if n == 2:
        answers = [Judgement.of("a", (0, 1), word) for word in ("left", "right", "tie")]
        nu = 0.6
    else:
        nu = 0.0
        answers = [
            Judgement.of("a", (0, 1, *tuple(range(2, n))), "best", best=best, worst=worst)
            for best, worst in permutations(range(n), 2)
        ]
    for judgement in answers:
        at = likelihood(answers_of(judgement), scores, Annotators.average(1), nu)
        total += np.exp(at.value)
    assert total == pytest.approx(1.0)


def test_only_the_choice_of_the_better_of_two_may_be_a_tie():
    """Ties of pairs do not make the worst of three, chosen from the two that are left, a tie."""
    ties = [Judgement.of("a", (0, 1), "tie")] * 3
    of_three = Judgement("a", (0, 1, 2), "best", best=0, worst=2)
    answers = answers_of(*ties, of_three)
    s = np.array([0.3, -0.2, 0.5])
    nu = 2.0
    at = likelihood(answers, s, Annotators.average(1), nu)
    z = np.exp(SHARPNESS * s)
    p_tie = nu * np.sqrt(z[0] * z[1]) / (z[0] + z[1] + nu * np.sqrt(z[0] * z[1]))
    p_best = z[0] / z.sum()
    p_worst = (1 / z[2]) / (1 / z[1] + 1 / z[2])
    assert at.value == pytest.approx(3 * np.log(p_tie) + np.log(p_best) + np.log(p_worst))
    assert at.tie_slope == pytest.approx(3 * (1 - p_tie))


def test_words_alone_are_bradley_terry_as_scipy_fits_it():
    rng = np.random.default_rng(3)
    n, m = 8, 60
    truth = rng.standard_normal(n)
    i = rng.integers(n, size=m)
    j = (i + rng.integers(1, n, size=m)) % n
    first_wins = rng.random(m) < 1 / (1 + np.exp(-SHARPNESS * (truth[i] - truth[j])))
    judgements = [
        Judgement.of("a", (int(a), int(b)), "left" if wins else "right")
        for a, b, wins in zip(i, j, first_wins, strict=True)
    ]
    winner, loser = np.where(first_wins, i, j), np.where(first_wins, j, i)

    def minus_log_posterior(s):
        log_p = log_expit(SHARPNESS * (s[winner] - s[loser]))
        return -log_p.sum() + 0.5 * (s @ s) / 2.5

    peer = minimize(minus_log_posterior, np.zeros(n), tol=1e-12).x
    mode = find_mode(
        answers_of(*judgements), without_columns(n, variance=2.5), Annotators.average(1)
    )
    assert np.allclose(mode.unknowns, peer, atol=1e-4)


def test_the_posterior_of_three_items_is_near_the_exact_one():
    """The exact posterior is by a grid over the scores of three items."""
    judgements = [Judgement.of("a", (0, 1), "left")] * 3 + [Judgement.of("a", (1, 2), "left")] * 2
    judgements += [Judgement.of("a", (0, 2), "right"), Judgement.of("a", (2, 1), "tie")]
    answers = answers_of(*judgements)
    prior = without_columns(3, variance=1.0)
    posterior = fit(answers, prior, Annotators.average(1), seed=0)
    axis = np.linspace(-4, 4, 61)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    log_p = -0.5 * (grid**2).sum(axis=1)
    nu = posterior.prior.tie_odds
    for row in range(len(answers)):
        z = SHARPNESS * grid[:, answers.items[row]]
        total = np.exp(z).sum(axis=1) + nu * np.exp(z.mean(axis=1))
        chosen = np.log(nu) + z.mean(axis=1) if answers.tied[row] else z @ answers.share[row]
        log_p += chosen - np.log(total)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ grid
    sd = np.sqrt(p @ (grid - mean) ** 2)
    assert np.allclose(posterior.scores, mean, atol=0.1)
    assert np.allclose(np.sqrt(np.diag(posterior.covariance)), sd, rtol=0.1)


def test_a_measurement_is_a_linear_regression():
    """With measurements alone the posterior is exact: that of a linear model."""
    p = [0.7, 0.6, 0.4]
    pairs = [(0, 1), (1, 2), (0, 2)]
    judgements = [
        Judgement.of("m", pair, "left" if x > 0.5 else "right", p=x)
        for pair, x in zip(pairs, p, strict=True)
    ]
    scale = 0.5
    annotators = replace(Annotators.average(1), scale=np.array([scale]))
    posterior = fit(
        answers_of(*judgements, m="measurement"), without_columns(3), annotators, seed=0
    )
    D = np.array([[1, -1, 0], [0, 1, -1], [1, 0, -1]])
    precision = np.eye(3) + D.T @ D
    expected = np.linalg.solve(precision, D.T @ (ndtri(p) / scale))
    assert np.allclose(posterior.scores, expected)
    assert np.allclose(posterior.covariance, np.linalg.inv(precision))


def test_a_share_of_votes_counts_as_so_many_votes():
    shared = fit(answers_of(Judgement.of("a", (0, 1), "left", p=0.75)), without_columns(2),
                 Annotators.average(1), seed=0)  # fmt: skip
    quarter = replace(
        answers_of(*[Judgement.of("a", (0, 1), "left")] * 3, Judgement.of("a", (0, 1), "right")),
        weight=np.full(4, 0.25),
    )
    counted = fit(quarter, without_columns(2), Annotators.average(1), seed=0)
    assert np.allclose(shared.scores, counted.scores)


def test_many_items_get_the_same_posterior_as_few():
    rng = np.random.default_rng(0)
    n = 60
    columns = Columns(rng.standard_normal((n, 3)))
    answers = random_answers(rng, n, 400)
    prior = Prior(columns, variance=1.5, share=0.6)
    annotators = two_annotators()
    dense = fit(answers, prior, annotators, seed=0)
    many = fit_many(answers, prior, annotators, seed=0)
    assert np.allclose(dense.scores, many.scores, atol=0.02)
    sd = np.sqrt(np.diag(dense.covariance))
    assert many.draws.std(axis=0).mean() == pytest.approx(sd.mean(), rel=0.05)


def told_a_chain(session, rng, best_first, times, names, p_right=1.0):
    """Tell answers of random annotators that prefer each item to the next, in random order."""
    links = np.column_stack((best_first[:-1], best_first[1:])).repeat(times, axis=0)
    for better, worse in rng.permutation(links).tolist():
        places = rng.permutation([better, worse]).tolist()
        best = better if rng.random() < p_right else worse
        session.tell(Judgement(str(rng.choice(names)), tuple(places), "best", best=best))


@pytest.mark.parametrize("n, most", [(5, 1), (15, 1), (15, 5), (35, 5), (50, 1)])
@pytest.mark.parametrize("n_noise", [0, 2])
@pytest.mark.parametrize("goal", [Goal(0.1), Goal(top=4)])
@pytest.mark.parametrize("is_even", [True, False])
@pytest.mark.parametrize("names", [["ann"], ["ann", "ben", "cy"]])
def test_a_chain_of_unanimous_answers_is_never_contradicted(n, most, n_noise, goal, is_even, names):
    rng = np.random.default_rng(n + most)
    features = rng.standard_normal((n, n_noise)) if n_noise else None
    session = Session(features, n, holdout=0.0, goal=goal)
    best_first = rng.permutation(n)
    times = most if is_even else rng.integers(1, most + 1, n - 1)
    told_a_chain(session, rng, best_first, times, names)
    assert session.ranking().order.tolist() == best_first.tolist()


@pytest.mark.parametrize("n_noise", [0, 2])
@pytest.mark.parametrize(
    ("n", "goal"), [(11, Goal(0.1)), (15, Goal(0.1)), (23, Goal(0.1)), (23, Goal(top=3))]
)
def test_a_chain_of_overlapping_sets_of_three_is_never_contradicted(n, n_noise, goal):
    rng = np.random.default_rng(n)
    features = rng.standard_normal((n, n_noise)) if n_noise else None
    session = Session(features, n, holdout=0.0, goal=goal)
    for best in rng.permutation(np.arange(0, n - 1, 2)).tolist():
        places = tuple(rng.permutation([best, best + 1, best + 2]).tolist())
        session.tell(Judgement("ann", places, "best", best=best, worst=best + 2))
    assert session.ranking().order.tolist() == [*range(n)]


def test_a_chain_by_three_annotators_holds_beside_a_tie():
    """Slightly different reliabilities must not decide the order of nearly equal scores."""
    rng = np.random.default_rng(0)
    session = Session(None, 35, holdout=0.0)
    best_first = np.arange(35)
    session.tell(Judgement("ann", (3, 4), "same"))
    told_a_chain(session, rng, best_first, 1, ["ann", "ben", "cy"])
    assert session.ranking().order.tolist() == best_first.tolist()


@pytest.mark.parametrize("n", [15, 35])
@pytest.mark.parametrize("names", [["ann"], ["ann", "ben", "cy"]])
def test_a_chain_holds_though_a_tenth_of_its_answers_is_wrong(n, names):
    """Mean over three draws of five answers a link."""

    def tau(seed):
        rng = np.random.default_rng(seed)
        best_first = rng.permutation(n)
        session = Session(None, n, holdout=0.0)
        told_a_chain(session, rng, best_first, 5, names, p_right=0.9)
        return kendalltau(np.argsort(session.ranking().order), np.argsort(best_first))[0]

    assert np.mean([tau(seed) for seed in range(3)]) > 0.9


def told(session, rng, m, is_first_better, annotator="ann", n=None):
    """Tell m answers about random pairs of the first n items."""
    for _ in range(m):
        i, j = rng.permutation(n or session.n_items)[:2].tolist()
        word = "left" if is_first_better(i, j) else "right"
        session.tell(Judgement.of(annotator, (i, j), word))


def test_a_place_bias_is_zero_until_the_answers_earn_it():
    def bias_after(p_first):
        rng = np.random.default_rng(5)
        session = Session(None, 30)
        told(session, rng, 150, lambda i, j: rng.random() < (p_first if i % 2 else i < j))
        session.refit()
        return session.posterior.annotators.bias[0]

    assert bias_after(0.5) == 0.0
    assert bias_after(1.0) > 0.3


@pytest.mark.parametrize(
    ("truth", "least"), [(lambda X: X @ [2.0, -1.0, 0.5], 0.95), (lambda X: -np.abs(X[:, 0]), 0.8)]
)
def test_items_nobody_compared_are_ranked_by_what_was_learned_of_their_features(truth, least):
    """By a line in the features, or by a preference for the middle of one of them."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (80, 3))
    score = truth(X)
    session = Session(X)
    told(session, rng, 300, lambda i, j: score[i] > score[j], n=40)
    ranking = session.ranking()
    assert (ranking.judgements[40:] == 0).all()
    assert spearmanr(ranking.score[40:], score[40:])[0] > least


def test_who_prefers_the_first_place_is_as_reliable_as_the_choices_against_it_tell():
    """Mean over six draws: the fourth annotator adds 1.5 to the difference of two scores."""

    def reliability(seed):
        rng = np.random.default_rng(seed)
        score = 0.75 * rng.standard_normal(30)
        session = Session(None, 30, seed=seed)

        def prefers_first(i, j, bias):
            return score[i] - score[j] + bias > rng.standard_normal()

        for k, bias in enumerate([0.0, 0.0, 0.0, 1.5]):
            told(session, rng, 100, partial(prefers_first, bias=bias), f"person {k}")
        session.refit()
        (biased,) = session.reports(["person 3"])
        return biased.reliability.value

    assert np.mean([reliability(seed) for seed in range(6)]) > 0.8


def asked(session, rng, names, each, p_first_better):
    """Ask each of the annotators in turn; they prefer the first item with a probability."""
    for _ in range(each):
        for name in names:
            (question,) = session.ask(name)
            p = p_first_better(question.left, question.right)
            if name == "inverted":
                p = 1 - p
            session.tell(question.answered(name, "left" if rng.random() < p else "right"))
    session.refit()


def test_who_prefers_the_worse_item_is_told_from_those_whose_questions_follow_the_answers():
    """Median of five draws: the questions are about close items, so each answer tells little."""

    def reliabilities(seed):
        rng = np.random.default_rng(seed)
        score = 0.75 * rng.standard_normal(40)
        session = Session(None, 40, seed=seed)
        people = ["a", "b", "c", "inverted"]
        asked(session, rng, people, 80, lambda i, j: ndtr(score[i] - score[j]))
        return session.posterior.annotators.reliability

    *honest, inverted = np.median([reliabilities(seed) for seed in range(5)], axis=0)
    assert min(honest) > 0.5
    assert inverted < -0.3


@pytest.mark.parametrize("seed", [100, 102, 107])
def test_two_people_who_hardly_err_stay_as_reliable_as_each_other(seed):
    """Their answers nearly form a chain, and features predict them."""
    rng = np.random.default_rng([seed, 40])
    X = rng.standard_normal((40, 5))
    score = X @ rng.standard_normal(5)
    score *= 1.5 / score.std()
    rng.standard_normal(40)
    session = Session(X, 40, seed=seed)
    asked(session, rng, ["a", "b"], 50, lambda i, j: ndtr(score[i] - score[j]))
    assert session.posterior.annotators.reliability.min() > 0.5
    assert spearmanr(session.posterior.scores, score)[0] > 0.9


def test_the_interval_of_a_reliability_covers_it_though_the_scale_is_learned_too():
    """A model measures with c = 1.5 and g = 0.57; the prior of c pulls it towards 1."""

    def covers(seed):
        rng = np.random.default_rng([seed, 3])
        score = 0.9 * rng.standard_normal(30)
        study = study_of([Decision("model", "m"), Decision("p-measurement", "m")])
        session = Session(None, 30, seed=seed, study=study)
        for k in range(3):
            told(
                session,
                rng,
                80,
                lambda i, j: score[i] - score[j] + rng.standard_normal() > 0,
                f"person {k}",
            )
        for _ in range(100):
            i, j = rng.choice(30, 2, replace=False).tolist()
            probit = 0.57 * (1.5 * (score[i] - score[j]) + rng.standard_normal())
            p = float(np.clip(ndtr(probit), 0.01, 0.99))
            session.tell(Judgement.of("m", (i, j), "left" if p > 0.5 else "right", p=p))
        session.refit()
        (model,) = session.reports(["m"])
        return model.reliability.low <= 1.5 <= model.reliability.high

    assert sum(covers(seed) for seed in range(12)) >= 7


@pytest.mark.parametrize("set_size", [2, 4, 6])
def test_intervals_cover_the_true_ranks(set_size):
    """Mean over five draws: 150 intervals, of which nine in ten are to hold."""
    covered = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = rng.standard_normal(30)
        session = Session(None, 30, seed=seed, set_size=set_size)
        for _ in range(90):
            (question,) = session.ask("ann")
            n_shown = len(question.items)  # near the end fewer items are left to compare
            noisy = truth[[*question.items]] + rng.normal(0, 0.6, n_shown)
            worst = int(noisy.argmin()) if n_shown > 2 else None
            session.tell(question.answered_by_place("ann", int(noisy.argmax()), worst))
        ranking = session.ranking()
        rank = rankdata(-truth)
        covered.append(np.mean((ranking.low <= rank) & (rank <= ranking.high)))
    assert np.mean(covered) >= 0.82


@pytest.mark.parametrize("goal", [Goal(), Goal(top=30)])
def test_a_useless_feature_does_not_make_intervals_narrow(goal):
    rng = np.random.default_rng(0)
    session = Session(rng.standard_normal((303, 1)), 303, goal=goal)
    truth = rng.standard_normal(303)
    told(session, rng, 8, lambda i, j: truth[i] > truth[j])
    ranking = session.ranking()
    assert np.mean(ranking.high - ranking.low) > 200


@pytest.mark.parametrize("size", [2, 4])
def test_gold_pairs_measure_models_that_are_wrong_together(size):
    """Three models give the same wrong answers, a fourth is right: gold pairs tell which."""
    n_groups, n_gold = 60, 12
    wrong, right = ("a", "b", "c"), "d"
    rng = np.random.default_rng(0)
    judgements = []
    for k in range(n_groups):
        best_first = [*range(size * k, size * (k + 1))]
        for name in (*wrong, right):
            order = best_first if name == right or k % 3 == 0 else best_first[::-1]
            shown = tuple(rng.permutation(best_first).tolist())
            worst = order[-1] if size > 2 else None
            judgements.append(Judgement(name, shown, "best", best=order[0], worst=worst))
    models = [Decision("model", name) for name in (*wrong, right)]
    gold = [Decision("gold", item=size * k, other=size * k + size - 1) for k in range(n_gold)]
    groups = np.arange(size * n_groups) // size

    def share_right(study):
        session = Session(None, size * n_groups, groups=groups, study=study)
        session.replay(judgements)
        score = session.ranking().score
        return np.mean((score[0::size] > score[size - 1 :: size])[n_gold:])

    assert share_right(study_of([*models, *gold])) > 0.9
    assert share_right(study_of(models)) < 0.5
