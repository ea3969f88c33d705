"""Questions on loan: expiry, answers that come twice, and many clients at once."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from collection_helpers import (
    ON_SQLITE,
    Clock,
    answer_lease,
    made_items,
    question,
    set_question,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text

from sortnet.errors import JudgementError, LeaseError, SortNetError
from sortnet.preference import Judgement, Question
from store import Collection, Lease, Store, open_store


def rows(store: Store, statement: str) -> list[Any]:
    """What the tables hold, read without the code under test."""
    with store.database.transaction() as connection:
        return list(connection.execute(text(statement)).all())


@ON_SQLITE
def test_what_was_asked_is_as_the_lease_says_whatever_the_answer_names(
    collection: Collection,
) -> None:
    (lease,) = collection.lease("ana", [question(4, 1)], 60)
    stored, new = collection.answer(lease.id, Judgement.of("ana", (2, 3), "tie", strategy="random"))
    assert new and stored.question == question(4, 1)
    assert collection.question(lease.id) == question(4, 1)
    with pytest.raises(JudgementError, match="an undo is no answer"):
        collection.answer(lease.id, stored.undo())


@ON_SQLITE
def test_a_lease_of_another_collection_is_unknown(store: Store, collection: Collection) -> None:
    other = store.add_items("other", made_items(4))
    (lease,) = other.lease("ana", [question(0, 1)], 60)
    with pytest.raises(LeaseError, match="no question was put under lease"):
        answer_lease(collection, lease, "ana", "left")


def test_an_unknown_lease_is_refused_in_one_short_line(collection: Collection) -> None:
    for lease in ("", "nothing", "x" * 10_000, "a\x00b", "\ud800", "é", "\n"):
        with pytest.raises(LeaseError, match="no question was put under lease") as caught:
            answer_lease(collection, lease, "ana", "left")
        assert len(str(caught.value)) < 200 and "\n" not in str(caught.value)


def test_an_answer_waits_for_the_disk_and_a_lease_does_not(
    url: str, store: Store, collection: Collection
) -> None:
    sqlite = url.startswith("sqlite")
    setting = "PRAGMA synchronous" if sqlite else "SHOW synchronous_commit"
    seen: list[str] = []

    def look(connection: Any, _k: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT INTO"):
            cursor = connection.connection.cursor()
            cursor.execute(setting)
            seen.append(f"{statement.split()[2]} {cursor.fetchone()[0]}")

    collection.annotator("ana")
    event.listen(store.database.engine, "before_cursor_execute", look)
    for low in (0, 2):
        (lease,) = collection.lease("ana", [question(low, low + 1)], 60)
        answer_lease(collection, lease, "ana", "left")
    event.remove(store.database.engine, "before_cursor_execute", look)
    levels = ["leases 1", "judgements 2"] if sqlite else ["leases off", "judgements on"]
    assert seen == levels * 2


def test_clients_with_retries_and_expired_leases_lose_and_double_nothing(
    url: str, store: Store, collection: Collection
) -> None:
    acknowledged: set[tuple[str, int]] = set()
    faults: list[Exception] = []

    def work(who: str, shift: int) -> None:
        own = open_store(url)  # as another process has it
        try:
            mine = own.collection(collection.name)
            for k in range(20):
                asked = [question(k % 7, 7), question((k + shift) % 7, 7)]
                for lease in mine.lease(who, asked, (60, 60, 0)[k % 3]):
                    for _ in range(2):
                        with suppress(LeaseError) if k % 3 == 2 else nullcontext():
                            number = answer_lease(mine, lease, who, "tie").number
                            acknowledged.add((lease.id, number))
        except SortNetError as error:
            faults.append(error)
        finally:
            own.close()

    threads = [threading.Thread(target=work, args=(f"t{k}", k)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(acknowledged) > 20
    check_tables(store, acknowledged)


def pair_of(row: Any) -> tuple[int, ...]:
    """The items of a lease's row, the lower number first."""
    items = json.loads(row.placed) if isinstance(row.placed, str) else row.placed
    return tuple(sorted(items))


def check_tables(store: Store, acknowledged: set[tuple[str, int]]) -> None:
    """Every answer that a client was told is stored is there once, and no other."""
    stored = [(row.lease, row.number) for row in rows(store, "SELECT * FROM judgements")]
    assert sorted(stored) == sorted(acknowledged)
    assert sorted(number for _, number in stored) == list(range(1, len(stored) + 1))
    # The lives of a pair's leases, by the clock: each ends before the next begins.
    answered = {row.lease: row.at for row in rows(store, "SELECT lease, at FROM judgements")}
    last: dict[tuple[int, ...], Any] = {}
    for row in rows(store, "SELECT leases.*, items AS placed FROM leases ORDER BY number"):
        before = last.get(pair_of(row))
        assert before is None or answered.get(before.id, before.expires) <= row.created
        last[pair_of(row)] = row


who = st.sampled_from(["ana", "bo"])


some_questions = st.lists(
    st.tuples(st.permutations(range(6)), st.integers(2, 3)).map(
        lambda drawn: set_question(*drawn[0][: drawn[1]])
    ),
    min_size=1,
    max_size=3,
)


an_action = st.one_of(
    st.tuples(st.just("lease"), who, some_questions),
    st.tuples(st.just("wait"), st.sampled_from([1, 10, 29])),
    st.tuples(st.just("answer"), who, st.integers(0, 9)),
    st.tuples(st.just("renew"), who, st.integers(0, 9)),
    st.tuples(st.just("release"), who),
)


class Leases:
    """Leases in plain Python, whose operations check those of a collection."""

    def __init__(self, collection: Collection, clock: Clock) -> None:
        self.collection, self.clock = collection, clock
        self.open: dict[str, Lease] = {}
        self.all: list[Lease] = []
        self.answered: set[str] = set()

    def live(self) -> list[Lease]:
        return [lease for lease in self.open.values() if lease.expires > self.clock.now]

    def lease(self, who: str, questions: list[Question]) -> None:
        taken = {pair for lease in self.live() for pair in lease.question.pairs}
        free = []
        for asked in questions:
            if taken.isdisjoint(asked.pairs):
                taken.update(asked.pairs)
                free.append(asked)
        leases = self.collection.lease(who, questions, 30)
        assert [lease.question for lease in leases] == free
        self.all += leases
        self.open.update({lease.id: lease for lease in leases})

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    def answer(self, who: str, number: int) -> None:
        if not self.all:
            return
        lease = self.all[number % len(self.all)]
        judgement = lease.question.answered(who, "skip")
        is_live = self.open.get(lease.id, lease) in self.live()  # it may have been renewed
        if lease.annotator == who and (lease.id in self.answered or is_live):
            stored = self.collection.answer(lease.id, judgement)
            assert stored.judgement.question == lease.question
            assert stored.new == (lease.id not in self.answered)
            self.answered.add(lease.id)
            self.open.pop(lease.id, None)
        else:
            with pytest.raises(LeaseError):
                self.collection.answer(lease.id, judgement)

    def renew(self, who: str, number: int) -> None:
        if self.all:
            lease = self.all[number % len(self.all)]
            current = self.open.get(lease.id, lease)
            renewed = self.collection.lease(who, (), 20, renew=[lease.id])
            assert len(renewed) == (current in self.live() and lease.annotator == who)
            self.open.update({lease.id: lease for lease in renewed})

    def release(self, who: str) -> None:
        self.collection.release(who)
        self.open = {id: lease for id, lease in self.open.items() if lease.annotator != who}


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(actions=st.lists(an_action, max_size=20))
def test_any_actions_leave_what_the_model_says(store: Store, actions: list[tuple]) -> None:
    name, clock = f"c{len(store.collections_frame())}", Clock()
    store.add_items(name, made_items(6))
    collection = store.collection(name, clock=clock)
    model = Leases(collection, clock)
    for kind, *arguments in actions:
        getattr(model, kind)(*arguments)
        assert collection.leases() == model.live()
    assert len(collection.judgements()) == len(model.answered)


@ON_SQLITE
def test_an_annotator_who_has_answered_a_pair_since_is_not_asked_a_set_with_it(
    collection: Collection,
) -> None:
    collection.append([Judgement.of("ana", (1, 2, 3), "best", best=1)])
    assert collection.lease("ana", [set_question(3, 4, 2)], 60, after=0) == []
    assert len(collection.lease("ana", [set_question(3, 4, 5)], 60, after=0)) == 1
