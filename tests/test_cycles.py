"""Cyclic triples beside noise alone; the pairs that are most in doubt."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import agreement, disputed, first_better
from sortnet.preference.cycles import CycleTest, cycle_test
from sortnet.preference.pairs_in_doubt import in_doubt
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, study_of

N = 16


def session_of(answer, seed: int, *, n: int = N, m: int = 240) -> Session:
    """Random pairs of items with random scores, answered by `answer(difference, i, j, rng)`."""
    rng, session = np.random.default_rng(seed), Session(None, n, seed=seed)
    q = 2 * rng.normal(size=n)
    pairs = (rng.choice(n, 2, replace=False).tolist() for _ in range(m))
    session.replay(
        Judgement("ana", i, j, answer(q[i] - q[j], i, j, rng), number=k + 1)
        for k, (i, j) in enumerate(pairs)
    )
    session.refit()
    return session


def outcome(answer, seed: int, **size: int) -> CycleTest:
    session = session_of(answer, seed, **size)
    return cycle_test(session.posterior, session.judgements(), seed=seed)


def noisy(z, i, j, rng):
    return "left" if z + rng.normal() > 0 else "right"


def by_what_it_is_compared_with(z, i, j, rng):
    """Each of three kinds of items has an advantage over the next."""
    z += {0: 0, 1: 3, 2: -3}[(i - j) % 3]
    return "left" if z + 0.3 * rng.normal() > 0 else "right"


def test_noise_alone_is_seldom_called_more_than_noise():
    found = [outcome(noisy, seed).p for seed in range(20)]
    assert sum(p < 0.1 for p in found) <= 4  # of 20 at 0.1, and the test is cautious
    assert 0.3 < np.mean(found) < 0.9


def test_errors_that_models_share_are_no_cycles():
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        q, e = 2 * rng.normal(size=(2, N))
        study = study_of([Decision("model", who) for who in ("big", "small")])
        session = Session(None, N, seed=seed, study=study)
        session.replay(
            Judgement(who, i, j, noisy(z[i] - z[j], i, j, rng), number=3 * k + n + 1)
            for k in range(120)
            for i, j in [rng.choice(N, 2, replace=False).tolist()]
            for n, (who, z) in enumerate((("ana", q), ("big", q + e), ("small", q + e)))
        )
        session.refit()
        assert session.posterior.errors is not None
        of = session.posterior, session.judgements()
        found.append(cycle_test(*of, models=study.models, seed=seed).p)
    assert sum(p < 0.1 for p in found) <= 3  # of 10 at 0.1, and the test is cautious


def test_answers_that_no_order_fits_are_called_so():
    found = [outcome(by_what_it_is_compared_with, seed) for seed in range(3)]
    for each in found:
        assert each.p < 0.05 and each.share > each.high > each.low


@pytest.mark.parametrize("seed", [0, 1])
def test_the_triples_are_those_of_agreement_and_of_brute_force(seed):
    session = session_of(noisy, seed, n=9, m=60)
    judgements = session.judgements()
    balance = np.zeros((9, 9))
    for one in judgements:
        low, high = one.pair
        balance[low, high] += first_better(one) - 0.5
    triples = [
        (balance[a, b], balance[b, c], balance[a, c]) for a, b, c in combinations(range(9), 3)
    ]
    triples = [t for t in triples if all(t)]
    circles = sum((ab > 0) == (bc > 0) != (ac > 0) for ab, bc, ac in triples)
    found = cycle_test(session.posterior, judgements)
    assert (found.triples, found.cyclic) == (len(triples), circles)
    of_agreement = agreement(judgements)
    assert (of_agreement.triples, of_agreement.cycles) == (found.triples, found.share)


def test_the_simulations_follow_the_annotators():
    """Someone who is always right leaves fewer cycles to be expected than a tosser of coins."""
    careful = outcome(lambda z, i, j, rng: "left" if z > 0 else "right", 0)
    coin = outcome(lambda z, i, j, rng: "left" if rng.random() < 0.5 else "right", 0)
    assert careful.cyclic == 0 and careful.p == 1
    assert careful.expected < 0.03 and coin.expected == pytest.approx(0.25, abs=0.07)


def test_without_a_triple_nothing_is_said():
    session = Session(None, 4)
    session.tell(Judgement("ana", 0, 1, "left"))
    session.tell(Judgement("ana", 1, 2, "tie"))
    session.tell(Judgement("ana", 0, 2, "left"))
    session.refit()
    assert cycle_test(session.posterior, session.judgements()) == CycleTest(0, 0)
    empty = Session(None, 4)
    assert cycle_test(empty.posterior, empty.judgements()) == CycleTest(0, 0)
    assert in_doubt(empty.posterior, empty.judgements(), 5) == []


def test_pairs_in_doubt_are_the_disputed_ones_then_those_of_close_items():
    session = session_of(noisy, 3)
    judgements = session.judgements()
    found = in_doubt(session.posterior, judgements, 1000)
    n, most = disputed(judgements, 1000)
    assert len({each.pair for each in found}) == len(found) == len({one.pair for one in judgements})
    assert [each.disputed for each in found] == [k < n for k in range(len(found))]
    assert {each.answers[0].pair for each in found[:n]} == {pair[0].pair for pair in most}
    sure = [each.p for each in found[n:]]
    assert sure == sorted(sure) and min(sure) >= 0.5
    scores = session.posterior.scores
    for each in found:
        assert scores[each.pair[0]] >= scores[each.pair[1]]
        assert each.answers == [one for one in judgements if one.pair == tuple(sorted(each.pair))]


def test_the_probability_of_the_top_is_that_of_the_draws():
    session = session_of(noisy, 4)
    ranked = session.ranking(top=5)
    draws = session.posterior.draws[:, :N]
    places = np.argsort(np.argsort(-draws, axis=1), axis=1)
    np.testing.assert_allclose(ranked.among_top, (places < 5).mean(axis=0))
    assert ranked.among_top.sum() == pytest.approx(5)
    assert session.ranking().among_top is None
