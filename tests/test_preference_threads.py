"""A session that is asked and fitted by several threads at once."""

from __future__ import annotations

import threading

from sortnet.preference.session import Session


def test_a_ranking_never_waits_for_a_question_nor_a_question_for_a_ranking():
    """Four annotators answer while others rank; nothing is lost, and no pair is asked twice."""
    session, faults = Session(None, 40, seed=1, repeats=0.0), []
    answered = threading.Event()

    def answer(who: str) -> None:
        for _ in range(30):
            (q,) = session.ask(who)
            session.tell(q.answered(who, "left" if q.left > q.right else "right"))

    def rank() -> None:
        while not answered.is_set():
            ranking, left = session.ranking(fresh=False), session.remaining(fresh=False)
            if sorted(ranking.order.tolist()) != [*range(40)] or not 0 <= left.wrong <= 1:
                faults.append((ranking, left))

    people = [threading.Thread(target=answer, args=(f"p{k}",), daemon=True) for k in range(4)]
    ranker = threading.Thread(target=rank, daemon=True)
    for thread in (*people, ranker):
        thread.start()
    for thread in people:
        thread.join(600)
    answered.set()
    ranker.join(600)
    assert not any(thread.is_alive() for thread in (*people, ranker))
    assert faults == []
    assert session.events == 120
    said = {(event.annotator, event.pair) for event in session.judgements()}
    assert len(said) == 120
    again = Session(None, 40, seed=1, repeats=0.0)
    again.replay(session.judgements())
    assert again.ranking().order.tolist() == session.ranking().order.tolist()
