"""A session that is asked and fitted by several threads at once."""

from __future__ import annotations

import threading

import numpy as np

from sortnet.preference import Judgement
from sortnet.preference.session import Session

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
