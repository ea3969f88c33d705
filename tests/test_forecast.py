"""How many answers are left: ranges from simulations of a session, and whose answers widen them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from sortnet.preference.forecast import SIMULATIONS, Forecast, _draw_sample, _Sessions, forecast
from sortnet.preference.goal import Goal
from sortnet.preference.groups import Groups
from sortnet.preference.posterior import Posterior
from sortnet.preference.reliability import Annotators
from sortnet.preference.session import Session
from sortnet.preference.stopping import range_in_words


def posterior_of(mean, covariance, *, n_draws=200, seed=0):
    """A posterior of scores, with one annotator of whom nothing is known."""
    n = len(mean)
    mean, whole = np.append(mean, 0.0), np.zeros((n + 1, n + 1))
    whole[:n, :n], whole[n, n] = covariance, 0.01
    rng = np.random.default_rng(seed)
    draws = rng.multivariate_normal(mean, whole, size=n_draws)
    return Posterior(mean, whole, draws, Annotators.average(1), n, rng)


def answer(session, scores, rng, who="ana"):
    (asked,) = session.ask(who)
    left = rng.random() < ndtr(scores[asked.left] - scores[asked.right])
    session.tell(asked.answered(who, "left" if left else "right"))


def test_a_goal_that_is_reached_needs_only_what_checks_the_model():
    certain = posterior_of(np.arange(6.0) * 10, 1e-4 * np.eye(6))
    about = certain, Groups(None, 6), Goal()
    assert forecast(*about, answered=0) == Forecast(0, 0, 0)
    assert forecast(*about, answered=0, checks_left=8, holdout=1.0) == Forecast(8, 8, 8)
    # On average 80 answers have eight of the hold-out, if that is a tenth of them.
    some = forecast(*about, answered=0, checks_left=8, holdout=0.1)
    assert 40 < some.low < 80 < some.high < 140


def test_a_simulated_answer_teaches_what_the_session_learns_from_it():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((5, 5))
    posterior = posterior_of(rng.standard_normal(5), root @ root.T)
    groups = Groups(None, 5)
    sample = _draw_sample(posterior, groups, Goal(), rng)
    sessions = _Sessions(posterior, sample, Goal(), 0.0, None, rng)
    mean, covariance = sessions._mean.copy(), sessions._covariance.copy()
    left, right = np.full(SIMULATIONS, 1), np.full(SIMULATIONS, 3)
    sessions._observe(left, right)
    for k in range(SIMULATIONS):
        one = posterior_of(mean[k], covariance[k])
        one.mean[5], one.covariance[5, 5] = 0.0, 0.0  # no bias to either side
        moved = sessions._mean[k, 1] - sessions._mean[k, 3] > mean[k, 1] - mean[k, 3]
        one.observe(1, 3, float(moved), 0)
        assert sessions._mean[k] == pytest.approx(one.mean[:5])
        assert sessions._covariance[k] == pytest.approx(one.covariance[:5, :5])


def test_a_stricter_goal_needs_more_answers_and_none_are_left_without_an_end():
    posterior = posterior_of(np.zeros(12), 2 * np.eye(12))
    groups = Groups(None, 12)
    lax, strict = (forecast(posterior, groups, Goal(wrong), answered=0) for wrong in (0.2, 0.05))
    assert lax.low < lax.middle < lax.high < strict.middle < strict.high
    deaf = posterior_of(np.zeros(12), 2 * np.eye(12))
    deaf.annotators.reliability[:] = 0.0
    assert forecast(deaf, groups, Goal(0.02), answered=0).low > 100 * lax.high


def test_of_many_items_a_sample_stands_for_all():
    few, many = (posterior_of(np.zeros(n), 2 * np.eye(n)) for n in (40, 200))
    small = forecast(few, Groups(None, 40), Goal(), answered=0)
    large = forecast(many, Groups(None, 200), Goal(), answered=0)
    assert large.middle == pytest.approx(5 * small.middle, rel=0.3)
    many.covariance = None  # as with more than a thousand unknowns
    drawn = forecast(many, Groups(None, 200), Goal(), answered=0)
    assert drawn.middle == pytest.approx(large.middle, rel=0.5)
    in_groups = forecast(many, Groups(np.arange(200) // 10, 200), Goal(), answered=0)
    assert 200 < in_groups.low < in_groups.high < drawn.high


def test_a_top_takes_fewer_answers_than_the_whole_order():
    posterior = posterior_of(np.linspace(0, 4, 60), 0.5 * np.eye(60))
    groups = Groups(None, 60)
    top = forecast(posterior, groups, Goal(0.25, top=4), answered=100)
    whole = forecast(posterior, groups, Goal(0.05), answered=100)
    assert 100 < top.middle < whole.middle
    in_groups = forecast(posterior, Groups(np.arange(60) % 2, 60), Goal(0.25, top=4), answered=100)
    assert in_groups.middle > 100


def test_between_forecasts_the_range_falls_by_one_an_answer():
    rng = np.random.default_rng(0)
    scores = 1.5 * rng.standard_normal(20)
    session = Session(None, 20, seed=0)
    for _ in range(12):
        answer(session, scores, rng)
    before = session.remaining()
    for _ in range(2):  # the next forecast is that of 15 events
        answer(session, scores, rng)
    after = session.remaining()
    assert (after.fewest, after.questions) == (before.fewest - 2, before.questions - 2)
    answer(session, scores, rng)
    assert not session.forecast_due  # before the fit
    session.refit()
    assert session.forecast_due
    assert session.remaining(fresh=False).fewest == before.fewest - 3
    session.renew_forecast()
    assert not session.forecast_due


@pytest.mark.slow
def test_the_range_holds_the_true_number_in_four_of_five_sessions():
    inside = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        scores = 1.5 * rng.standard_normal(15)
        session, ranges = Session(None, 15, seed=seed), []
        for k in range(15 * 14):  # two annotators are asked about each pair once
            answer(session, scores, rng, "ab"[k % 2])
            if k in (10, 30):
                now = session.remaining()
                ranges.append((k + now.fewest, k + now.most))
            if k > 30 and k % 3 == 0 and session.remaining().stop:
                break
        inside += [low <= k <= high for low, high in ranges]
    assert len(inside) == 8 and np.mean(inside) >= 0.8


@pytest.mark.parametrize("kind", ["random", None])
def test_who_makes_a_ranking_less_sure_is_found_and_nobody_else(kind):
    rng = np.random.default_rng(0)
    scores = 1.2 * rng.standard_normal(20)
    session = Session(None, 20, seed=0)
    for _ in range(40):
        for who in ("ana", "ben", kind or "cleo"):
            (asked,) = session.ask(who)
            honest = rng.random() < ndtr(scores[asked.left] - scores[asked.right])
            left = rng.random() < 0.5 if who == "random" else honest
            session.tell(asked.answered(who, "left" if left else "right"))
    session.refit()
    assert session.widened_by() == kind


def test_a_single_annotator_is_never_who_made_it_wider():
    session = Session(None, 8, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(25):
        (asked,) = session.ask("ana")
        session.tell(asked.answered("ana", ("left", "right")[rng.integers(2)]))
    session.refit()
    assert session.widened_by() is None


@pytest.mark.parametrize(("fewest", "most"), [(18, 21), (99, 101), (1234, 3_601)])
def test_ranges_are_rounded_outwards(fewest, most):
    words = range_in_words(fewest, most)
    low, high = (int(number.replace(",", "")) for number in words.split(" to "))
    assert 0.9 * fewest <= low <= fewest
    assert most <= high <= 1.2 * most


@pytest.mark.parametrize(
    ("fewest", "most", "words"),
    [
        (1234, 56_789, "at least 1,200"),
        (20, 60, "20 to 60"),
        (20, 61, "at least 20"),
        (0, 40, "at most 40"),
        (2, 7, "at most 7"),
        (0, 0, "0"),
    ],
)
def test_a_range_of_more_than_a_factor_of_three_is_said_by_one_end(fewest, most, words):
    assert range_in_words(fewest, most) == words
