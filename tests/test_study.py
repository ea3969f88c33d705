"""What decisions change: whom a session counts, what it asks and ranks, who is asked nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from collection_helpers import Clock, answer_lease, made_items, sqlite_url
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.preference import Judgement
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, Study, study_of
from store import Collection, open_store
from store.service.labelling import LabellingService

N = 8


def session_of(events: list[Judgement], study: Study | None = None, **changes: object) -> Session:
    session = Session(None, N, seed=2, study=study, **changes)  # type: ignore[arg-type]
    for event in events:
        session.tell(event)
    return session


def state_of(session: Session) -> list[object]:
    """All that can be seen of a session."""
    ranking = session.ranking()
    arrays = [getattr(ranking, name).tolist() for name in ("order", "score", "low", "high")]
    return [*arrays, repr(session.remaining()), session.ask("ana"), session.ask("dan")]


PAIRS = st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)).filter(
    lambda pair: len({*pair}) > 1
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ana", "ben", "eve"]),
        PAIRS,
        st.sampled_from(["left", "right", "tie", "skip"]),
    ),
    max_size=25,
)


def as_events(drawn: list[tuple[str, tuple[int, int], str]]) -> list[Judgement]:
    return [
        Judgement.of(who, pair, answer, number=k)  # type: ignore[arg-type]
        for k, (who, pair, answer) in enumerate(drawn, start=1)
    ]


@given(EVENTS)
@settings(deadline=None, max_examples=15)
def test_excluded_judgements_count_as_if_they_had_never_been_and_come_back(drawn) -> None:
    events = as_events(drawn)
    out = Decision("exclude", "eve")
    without = [event for event in events if event.annotator != "eve"]
    assert state_of(session_of(events, study_of([out]))) == state_of(session_of(without))
    back = study_of([out, Decision("include", "eve")])
    assert state_of(session_of(events, back)) == state_of(session_of(events))


@given(st.sets(st.integers(0, N - 1), max_size=N - 2), st.integers(0, 1000))
@settings(deadline=None, max_examples=15)
def test_a_retired_item_is_asked_no_more_and_not_ranked(retired, seed) -> None:
    rng = np.random.default_rng(seed)
    events = as_events(
        [("ana", tuple(rng.choice(N, 2, replace=False).tolist()), "left") for _ in range(12)]
    )
    study = study_of(Decision("retire", item=k) for k in retired)
    session = session_of(events, study, repeats=0.4)
    ranking = session.ranking()
    kept = set(range(N)) - retired
    assert set(ranking.order.tolist()) == kept
    assert ranking.rank[ranking.order].tolist() == list(range(1, len(kept) + 1))
    assert all(ranking.rank[k] == ranking.low[k] == ranking.high[k] == 0 for k in retired)
    asked = [q for _ in range(40) for q in session.ask("ana")]
    assert not {k for q in asked for k in q.pair} & retired


def test_gold_pairs_are_asked_once_of_everybody_at_their_rate() -> None:
    study = study_of([Decision("gold", item=k, other=k + 1) for k in range(4)])
    session = session_of([], replace(study, gold_rate=0.5), repeats=0.0)
    asked: Counter[tuple[str, tuple[int, int]]] = Counter()
    for k in range(50):
        for question in session.ask(who := ("ana", "ben")[k % 2]):
            session.tell(question.answered(who, "left"))
            if question.strategy == "gold":
                assert question.pair in study.gold
                asked[who, question.pair] += 1
    assert max(asked.values()) == 1
    assert Counter(who for who, _ in asked) >= Counter(ana=2, ben=2)
    never = session_of([], replace(study, gold_rate=0.0))
    assert "gold" not in {q.strategy for q in never.ask("ana", 28)}


def test_a_pair_goes_to_the_overlap_of_people_before_new_ones() -> None:
    session = session_of([], Study(overlap=3), holdout=0.0, repeats=0.0)
    for who in ("ana", "ben", "cat", "dan"):
        for _ in range(6):
            (question,) = session.ask(who)
            session.tell(question.answered(who, "left"))
    people = Counter(event.pair for event in session.judgements())
    # Three people see ana's six pairs, oldest first; the fourth gets new ones.
    assert sorted(people.values()) == [1] * 6 + [3] * 6
    assert [event.pair for event in session.judgements()][:6] * 2 == [
        event.pair for event in session.judgements()
    ][6:18]


@pytest.fixture
def collection(tmp_path) -> Iterator[Collection]:
    with open_store(sqlite_url(tmp_path)) as store:
        store.add_items("args", made_items(N))
        made = store.collection("args", clock=Clock())
        for name in ("ana", "eve"):
            made.annotator(name)
        yield made


@pytest.fixture
def service(collection: Collection) -> LabellingService:
    return LabellingService(collection)


def answer(service: LabellingService, who: str, times: int) -> None:
    for _ in range(times):
        answer_lease(service, service.next(who)[0], who)


def test_a_running_service_learns_of_a_decision_and_counts_as_a_new_one(
    service: LabellingService, collection: Collection
) -> None:
    answer(service, "ana", 5)
    answer(service, "eve", 5)
    before = service.session.ranking().score.tolist()
    collection.decide(Decision("exclude", "eve"))
    service.sync()
    assert service._n_unfitted and {e.annotator for e in service.session.judgements()} == {"ana"}
    fresh = LabellingService(collection)
    service.settle()
    fresh.settle()
    assert service.ranking.score.tolist() == fresh.ranking.score.tolist() != before
    assert len(service.judgements()) == 10 == len(collection.judgements())


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (Decision("exclude", "eve"), "no more questions: eve is excluded"),
        (Decision("pause", "eve"), "no questions for now: eve is paused"),
        (Decision("pause"), "no questions for now: the collection is paused"),
        (Decision("quota", "eve", amount=2), "no more questions: eve has given all 2 answers"),
    ],
)
def test_somebody_who_is_out_is_asked_nothing_and_told_why(
    service: LabellingService, collection: Collection, decision: Decision, why: str
) -> None:
    answer(service, "eve", 2)
    assert service.next("eve", 2) and service.why_closed("eve") == ""
    collection.decide(decision)
    assert service.next("eve", 2) == []
    assert service.why_closed("eve").startswith(why)
    # Their last answer can be undone if only the quota is full.
    assert (service.undo("eve") is not None) == (decision.kind == "quota")


def test_a_quota_leases_no_more_than_it_leaves(
    service: LabellingService, collection: Collection, tmp_path
) -> None:
    collection.decide(Decision("quota", "ana", amount=4))
    answer(service, "ana", 1)
    assert len(service.next("ana", 2)) == 2
    with open_store(sqlite_url(tmp_path)) as other:  # as another process has it
        elsewhere = other.collection("args", clock=collection.clock)
        assert len(LabellingService(elsewhere).next("ana", 9)) == 1
        assert len(service.next("ana", 9)) == 2
        answer(service, "ana", 2)
        assert service.next("ana", 9) == []
    answer(service, "ana", 1)  # the question of the process that has ended
    assert service.next("ana", 9) == []
    collection.decide(Decision("quota", "ana", amount=0))
    assert len(service.next("ana", 9)) == 9
