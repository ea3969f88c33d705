"""Many items: what a question and a fit touch is counted, never timed."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from sortnet.preference import Judgement, rule
from sortnet.preference.groups import Groups
from sortnet.preference.intervals import rank_items, shortest
from sortnet.preference.session import Session

DRAWS = 64  # of many items
N = 30_000


def features(n: int) -> Any:
    return np.random.default_rng(0).standard_normal((n, 3))


def test_a_question_about_many_items_looks_at_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    session, looked = Session(features(N), N), []
    plain = rule.Beliefs.worth

    def worth(self: Any, i: Any, j: Any) -> Any:
        looked.append((len(self.items), len(i)))
        return plain(self, i, j)

    monkeypatch.setattr(rule.Beliefs, "worth", worth)
    for question in session.ask("ana", 3, wait=False):
        session.tell(question.answered("ana", "left"))
    assert len(looked) >= 3
    assert max(items for items, _ in looked) <= rule.MOST_OPEN
    assert max(pairs for _, pairs in looked) <= rule._PAIRS


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


def test_orders_of_draws_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(features(300), 300)
    session.replay(Judgement.of("ana", (k, k + 1), "left") for k in range(0, 298, 2))
    session.refit()
    posterior = session.posterior
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
                session.tell(Judgement.of("ana", (k, k + 50), "left"))
            session.ranking()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    single_precision, other = 4, 300  # bytes of a number, and bytes an item
    assert peak / N < 4 * DRAWS * single_precision + other
