"""A session that is asked and fitted by several threads at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sortnet.lab.simulated_annotators import in_parallel
from sortnet.preference import Judgement, laplace, scales
from sortnet.preference.session import Session
from sortnet.preference.vote_arrays import Votes

ANSWERS = 200


def test_a_small_session_that_is_always_being_fitted_still_answers():
    session, over = Session(np.random.default_rng(0).normal(size=(30, 2))), threading.Event()
    pairs = []

    def fit() -> None:
        while not over.is_set():
            session.refit()

    def answer() -> None:
        while len(pairs) < ANSWERS and (questions := session.ask("ana")):
            q = questions[0]
            pairs.append(q.pair)
            session.tell(Judgement("ana", q.left, q.right, "left" if q.left > q.right else "right"))

    # Daemons: if they wait for each other, the test fails and does not hang.
    threads = [threading.Thread(target=work, daemon=True) for work in (answer, fit)]
    for thread in threads:
        thread.start()
    threads[0].join(600)
    over.set()
    threads[1].join(600)
    assert not any(thread.is_alive() for thread in threads)
    assert len(pairs) == session.events == ANSWERS


def blas_threads() -> set[int]:
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


@pytest.mark.parametrize("what", ["fit", "simulation"])
def test_small_linear_algebra_has_one_thread_and_leaves_the_others_theirs(monkeypatch, what):
    seen = []
    monkeypatch.setattr(laplace, "matched_prior", lambda *_: seen.append(blas_threads()) or PRIOR)
    one = np.zeros(1, np.int64)
    votes = Votes(one, one + 1, np.ones(1), one)
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        if what == "fit":
            laplace.fit(np.eye(2), votes, 1)
        else:
            in_parallel([lambda: seen.append(blas_threads())], 1, lambda text: None)
        assert blas_threads() == before
    assert seen and all(threads == {1} for threads in seen)


PRIOR = scales.first_guess(2)
