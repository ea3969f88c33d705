"""Many items: what a question and a fit touch is counted, never timed."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from sortnet.preference import Judgement, rule
from sortnet.preference.history import History
from sortnet.preference.intervals import shortest
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


def test_each_answer_since_the_last_fit_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service opened with 100,000 answers asks before its first fit ends, which takes seconds."""
    session, n_read = Session(features(N), N, holdout=0, repeats=0), []
    plain = History.questions_after

    def questions_after(self: History, n_events: int) -> list[tuple[int, ...]]:
        questions = plain(self, n_events)
        n_read.append(len(questions))
        return questions

    monkeypatch.setattr(History, "questions_after", questions_after)
    monkeypatch.setattr(Session, "is_due", lambda self, n_fitted: False)
    session.replay([Judgement.of("ben", (k, k + 1), "left") for k in range(60)])
    n_asked = 5
    for _ in range(n_asked):
        (question,) = session.ask("ana", wait=False)
        session.tell(question.answered("ana", "left"))
    assert n_read == [60, *[1] * (n_asked - 1)]


def test_intervals_of_few_draws_hold_about_as_many_further_draws() -> None:
    draws = np.rint(1000 * np.random.default_rng(0).standard_normal((DRAWS + 1, 20_000)))
    low, high = shortest(draws[:-1].astype(np.int32))
    assert np.mean((low <= draws[-1]) & (draws[-1] <= high)) > 0.865


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
