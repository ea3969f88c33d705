"""Many items: what a question and a fit touch is counted, never timed."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from sortnet.core import I64
from sortnet.preference import Judgement, history, laplace, problem, strategies
from sortnet.preference.groups import Groups
from sortnet.preference.history import History
from sortnet.preference.intervals import rank_items, shortest
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.laplace import DRAWS, choose_scales, fit
from sortnet.preference.matching import evidence
from sortnet.preference.problem import Problem
from sortnet.preference.scales import Prior
from sortnet.preference.session import Session
from sortnet.preference.vote_arrays import Votes

N = 30_000


def features(n: int) -> Any:
    return np.random.default_rng(0).standard_normal((n, 3))


def votes(n_judged: int, m: int, scores: Any) -> Votes:
    """Answers of two people about some of the items."""
    rng = np.random.default_rng(1)
    judged = rng.choice(len(scores), n_judged, replace=False)
    left = rng.integers(n_judged, size=m)
    right = (left + rng.integers(1, n_judged, size=m)) % n_judged
    left, right = judged[left], judged[right]
    won = scores[left] + rng.standard_normal(m) > scores[right]
    return Votes(left, right, won.astype(float), rng.integers(2, size=m))


def test_a_question_about_many_items_looks_at_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    session, sorted_at_once, tried = Session(features(N), N), [], []
    (first,) = session.ask("ana")

    def counted(name: str) -> Any:
        plain = getattr(np, name)

        def call(values: Any, *args: Any, **named: Any) -> Any:
            sorted_at_once.append(np.shape(values)[-1])
            return plain(values, *args, **named)

        return call

    def difference(self: Any, i: I64, j: I64) -> Any:
        tried.append(len(i))
        return plain_difference(self, i, j)

    plain_difference = strategies.Posterior.difference
    monkeypatch.setattr(strategies.Posterior, "difference", difference)
    for name in ("argpartition", "argsort", "lexsort", "sort"):
        monkeypatch.setattr(np, name, counted(name))
    session.tell(first.answered("ana", "left"))
    for _ in range(3):
        (asked,) = session.ask("ana", wait=False)
        session.tell(asked.answered("ana", "left"))
    assert max(sorted_at_once) <= strategies._MANY_ITEMS < N
    assert 0 < max(tried) <= strategies._CANDIDATES


def test_components_are_joined_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    joins = []
    joined = history._joined
    monkeypatch.setattr(history, "_joined", lambda *given: joins.append(1) or joined(*given))
    log, rng = History(300), np.random.default_rng(0)

    def add(k: int) -> None:
        for _ in range(k):
            i, j = rng.choice(300, 2, replace=False).tolist()
            log.add(Judgements.of([Judgement("ana", i, j, "left")]))

    for k in (1, 40, history._FEW_JOINS + 1, 0, 3, history._FEW_JOINS + 30):
        before = len(joins)
        add(k)
        assert len(joins) == before
        parts, expected = log.components(), log.all_components()
        assert len(joins) - before <= history._FEW_JOINS
        pairs = np.unique(np.stack((parts, expected)), axis=1)
        assert pairs.shape[1] == len(np.unique(parts)) == len(np.unique(expected))


@pytest.mark.slow
@pytest.mark.parametrize("n_judged", [40, 1200])
def test_a_fit_of_the_judged_items_is_that_of_all(
    monkeypatch: pytest.MonkeyPatch, n_judged: int
) -> None:
    X = features(1500)
    given = votes(n_judged, 3 * n_judged, X @ np.ones(3))
    scales = choose_scales(X, given, 2)
    whole = fit(X, given, 2, scales=scales, draws=1000).posterior
    sizes, problem = [], laplace.Problem
    monkeypatch.setattr(laplace, "MANY", 1000)
    monkeypatch.setattr(
        laplace, "Problem", lambda *args: sizes.append(len(args[0])) or problem(*args)
    )
    some = fit(X, given, 2, scales=scales, draws=1000)
    assert sizes == [len({0, 1, *given.left.tolist(), *given.right.tolist()})]
    posterior = some.posterior
    assert posterior.mean == pytest.approx(whole.mean, abs=1e-6)
    spread, expected = posterior.draws.std(axis=0), whole.draws.std(axis=0)
    # At least five standard errors of 1,000 draws.
    assert np.median(spread / expected) == pytest.approx(1, abs=0.12)
    assert spread == pytest.approx(expected, rel=0.25)
    again = fit(X, given, 2, scales=scales, draws=1000, start=some.theta).posterior
    assert again.mean == pytest.approx(posterior.mean, abs=1e-4)


def test_scales_are_chosen_by_judged_items_and_some_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = features(1500)
    given = votes(300, 3000, X @ np.ones(3))
    whole = choose_scales(X, given, 2)
    seen, problem = [], laplace.Problem
    monkeypatch.setattr(laplace, "MANY", 1000)
    monkeypatch.setattr(laplace, "_MOST_VOTES_TO_MATCH", 2000)
    monkeypatch.setattr(
        laplace,
        "Problem",
        lambda *args: seen.append((len(args[0]), len(args[1]))) or problem(*args),
    )
    some = choose_scales(X, given, 2)
    assert seen[0][0] <= 302 and 1800 <= seen[0][1] <= 2200
    assert some.annotators.reliability == pytest.approx(whole.annotators.reliability, abs=0.3)


def test_intervals_of_few_draws_hold_about_as_many_further_draws() -> None:
    draws = np.rint(1000 * np.random.default_rng(0).standard_normal((DRAWS + 1, 20_000)))
    further = draws[-1]
    low, high = shortest(draws[:-1].astype(np.int64))
    assert np.mean((low <= further) & (further <= high)) > 0.865


def test_intervals_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    places = np.random.default_rng(0).integers(0, 9, (50, 40))
    whole = shortest(places)
    monkeypatch.setattr("sortnet.preference.intervals._COLUMNS", 7)
    assert all((a == b).all() for a, b in zip(whole, shortest(places), strict=True))


def test_second_derivatives_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X = features(1500)
    given = votes(300, 1000, X @ np.ones(3))
    whole = fit(X, given, 2)
    monkeypatch.setattr("sortnet.preference.posterior_precision._VOTES", 7)
    blocks = fit(X, given, 2)
    assert blocks.posterior.mean == pytest.approx(whole.posterior.mean, abs=1e-8)
    assert blocks.posterior.draws == pytest.approx(whole.posterior.draws, abs=1e-8)


def test_differences_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X = features(1500)
    posterior = fit(X, votes(300, 1000, X @ np.ones(3)), 2).posterior
    i, j = np.arange(100), np.arange(100, 200)
    whole = posterior.difference(i, j)
    monkeypatch.setattr("sortnet.preference.posterior._BLOCK", 7)
    assert all((a == b).all() for a, b in zip(whole, posterior.difference(i, j), strict=True))


def test_orders_of_draws_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X = features(300)
    posterior = fit(X, votes(300, 1000, X @ np.ones(3)), 2).posterior
    given = posterior, np.zeros(300, np.int64), Groups(["a", "b", "b"] * 100, 300)
    whole = rank_items(*given)
    monkeypatch.setattr("sortnet.preference.intervals._SCORES_AT_ONCE", 7 * 200)
    blocks = rank_items(*given)
    assert (whole.low == blocks.low).all() and (whole.high == blocks.high).all()


def test_of_many_items_a_session_holds_the_draws_of_four_fits_and_little_more() -> None:
    """While it fits: the two fits by which it asks and ranks, and the two that replace them."""
    X = features(N)
    Session(X, N).refit()  # what is made once a process
    tracemalloc.start()
    try:
        session = Session(X, N)
        for given in (range(20), range(20, 40)):
            for k in given:
                session.tell(Judgement("ana", k, k + 50, "left"))
            session.ranking()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    single_precision, other = 4, 300  # bytes of a number, and bytes an item
    assert peak / N < 4 * DRAWS * single_precision + other


@pytest.mark.parametrize("d", [0, 5])
def test_of_many_items_the_scores_vary_as_much_as_the_evidence_says(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few answers to an item: MacKay's update alone finds less than half of the variance."""
    n, rng = 500, np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal(d) / max(np.sqrt(d), 1) + 1.5 * rng.standard_normal(n)
    left = rng.integers(n, size=3 * n)
    right = (left + rng.integers(1, n, size=3 * n)) % n
    won = rng.random(3 * n) < ndtr(scores[left] - scores[right])
    votes = Votes.of_one(left, right, won.astype(float))
    monkeypatch.setattr(problem, "DENSE", 100)
    scales = choose_scales(X, votes, 1)
    (prior,) = scales.priors
    monkeypatch.setattr(problem, "DENSE", 1_000)
    few = Problem(X, votes, 1, scales)
    theta = few.newton(np.zeros(few.n_unknowns), prior, steps=20)
    factors = np.geomspace(0.4, 2.5, 9)
    log_p = [
        evidence(few, theta, Prior(prior.weight, factor * prior.residual)) for factor in factors
    ]
    assert 0.7 < factors[np.argmax(log_p)] < 1.5
