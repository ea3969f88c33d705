"""Questions on loan: expiry, answers that come twice, and many clients at once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from collection_helpers import (
    ON_SQLITE,
    Clock,
    answer_lease,
    live_pairs,
    made_items,
    question,
    sqlite_url,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text

from sortnet.errors import JudgementError, LeaseError, SortNetError
from sortnet.preference import Judgement, Question
from store import Collection, Store, open_store


@pytest.fixture
def collection(store: Store, clock: Clock) -> Collection:
    store.add_items("args", made_items(8))
    return store.collection("args", clock=clock)


def rows(store: Store, statement: str) -> list[Any]:
    """What the tables hold, read without the code under test."""
    with store.database.transaction() as connection:
        return list(connection.execute(text(statement)).all())


def test_a_lease_carries_the_question_and_a_secret(collection: Collection) -> None:
    (lease,) = collection.lease("ana", [question(4, 1)], 60)
    asked = Question((4, 1), strategy="informative", probability=0.25, model=7)
    assert (lease.question, lease.question.pair, lease.expires) == (asked, (1, 4), 1060.0)
    assert len(lease.id) >= 20 and lease.id.isascii()
    assert collection.leases("ana") == [lease]
    assert collection.leases("bo") == []


def test_an_answer_becomes_a_judgement_and_frees_the_pair(
    collection: Collection, clock: Clock
) -> None:
    (lease,) = collection.lease("ana", [question(4, 1)], 60)
    clock.now = 1009.5
    judgement = answer_lease(collection, lease, "ana", "right", 850)
    facts = {"strategy": "informative", "probability": 0.25, "model": 7, "number": 1, "at": 1009.5}
    assert judgement == Judgement.of("ana", (4, 1), "right", milliseconds=850, **facts)
    assert collection.judgements() == [judgement]
    assert live_pairs(collection) == set() and collection.leases("ana") == []
    assert len(collection.lease("bo", [question(4, 1)], 60)) == 1


@ON_SQLITE
def test_what_was_asked_is_as_the_lease_says_whatever_the_answer_names(
    collection: Collection,
) -> None:
    (lease,) = collection.lease("ana", [question(4, 1)], 60)
    stored, new, _ = collection.answer(
        lease.id, Judgement.of("ana", (2, 3), "tie", strategy="random")
    )
    assert new and stored.question == question(4, 1)
    assert collection.question(lease.id) == question(4, 1)
    with pytest.raises(JudgementError, match="an undo is no answer"):
        collection.answer(lease.id, stored.undo())


def test_an_answer_brings_what_came_before_it_elsewhere(collection: Collection) -> None:
    one, other = collection.lease("ana", [question(0, 1), question(2, 3)], 60)
    answer_lease(collection, one, "ana")
    collection.append([Judgement.of("bo", (0, 1), "left")])
    stored = collection.answer(other.id, other.question.answered("ana", "left"), after=1)
    assert [(j.number, j.annotator) for j in stored.since] == [(2, "bo"), (3, "ana")]


def test_an_answer_sent_again_is_the_first_one_also_after_the_lease_would_have_ended(
    collection: Collection, clock: Clock
) -> None:
    (lease,) = collection.lease("ana", [question(0, 1)], 60)
    first = answer_lease(collection, lease, "ana", "left", 10)
    clock.now += 1000
    assert answer_lease(collection, lease, "ana", "right", 99) == first
    assert collection.judgements() == [first]


def test_a_renewed_lease_lives_longer_but_an_expired_one_does_not_rise(
    collection: Collection, clock: Clock
) -> None:
    early, late = collection.lease("ana", [question(0, 1), question(2, 3)], 60)
    clock.now += 59
    renewed = collection.lease("ana", (), 60, renew=[early.id])
    assert renewed == [replace(early, expires=1119.0)]
    for _ in range(2):
        assert collection.lease("bo", (), 60, renew=[late.id]) == [], "not theirs"
    clock.now += 1
    (renewed,) = collection.lease("ana", (), 60, renew=[early.id, late.id])
    assert renewed.id == early.id
    assert [lease.expires for lease in collection.leases("ana")] == [1120.0]
    with pytest.raises(LeaseError, match="expired 0 s ago"):
        answer_lease(collection, late, "ana", "left")
    assert answer_lease(collection, early, "ana", "left").number == 1


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


@ON_SQLITE
def test_an_unknown_answer_is_refused_and_the_question_stays(collection: Collection) -> None:
    (lease,) = collection.lease("ana", [question(0, 1)], 60)
    wrong: tuple[Any, ...] = ("Left", "", "better")
    for answer in wrong:
        with pytest.raises(JudgementError, match=f"unknown answer '{answer}'"):
            answer_lease(collection, lease, "ana", answer)
    assert collection.leases("ana") == [lease]


@ON_SQLITE
@pytest.mark.parametrize("milliseconds", [-1, 2**60])
def test_a_time_that_cannot_be_is_refused(collection: Collection, milliseconds: int) -> None:
    (lease,) = collection.lease("ana", [question(0, 1)], 60)
    with pytest.raises(JudgementError, match=f"after {milliseconds} milliseconds"):
        answer_lease(collection, lease, "ana", "left", milliseconds)


@ON_SQLITE
def test_released_questions_are_free_and_their_answers_refused(collection: Collection) -> None:
    (lease,) = collection.lease("ana", [question(0, 1)], 60)
    (other,) = collection.lease("bo", [question(2, 3)], 60)
    collection.release("ana")
    with pytest.raises(LeaseError, match="to 'ana' was taken back"):
        answer_lease(collection, lease, "ana", "left")
    assert live_pairs(collection) == {(2, 3)} and collection.leases("bo") == [other]
    collection.release("nobody")


def test_live_leases_are_found_by_their_index(tmp_path: Path) -> None:
    with open_store(sqlite_url(tmp_path)) as store:
        store.add_items("args", made_items(4))
        seen: list[tuple[str, Any]] = []

        def look(_c: Any, _k: Any, statement: str, parameters: Any, *_: Any) -> None:
            seen.append((statement, parameters))

        collection = store.collection("args")
        event.listen(store.database.engine, "before_cursor_execute", look)
        (lease,) = collection.lease("ana", [question(0, 1)], 60)
        collection.leases("ana")
        live_pairs(collection)
        answer_lease(collection, lease, "ana", "left")
        collection.judgements(after=1)
        event.remove(store.database.engine, "before_cursor_execute", look)
        with store.database.transaction() as connection:
            for statement, parameters in seen:
                if statement.startswith(("SELECT", "UPDATE")):
                    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                    steps = " / ".join(row.detail for row in plan)
                    assert "SCAN judgements" not in steps and "SCAN leases" not in steps, statement


@pytest.mark.parametrize("round_", [1, 2])
def test_an_answer_waits_for_the_disk_and_a_lease_does_not(
    url: str, store: Store, collection: Collection, round_: int
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
    for low in range(0, 2 * round_, 2):
        (lease,) = collection.lease("ana", [question(low, low + 1)], 60)
        answer_lease(collection, lease, "ana", "left")
    event.remove(store.database.engine, "before_cursor_execute", look)
    levels = ["leases 1", "judgements 2"] if sqlite else ["leases off", "judgements on"]
    assert seen == levels * round_


an_action = st.one_of(
    st.tuples(
        st.just("lease"),
        st.sampled_from(["ana", "bo"]),
        st.lists(st.permutations(range(4)).map(lambda p: (p[0], p[1])), min_size=1, max_size=3),
        st.sampled_from([10, 30]),
    ),
    st.tuples(st.just("wait"), st.sampled_from([1, 5, 10, 29])),
    st.tuples(st.just("answer"), st.integers(0, 9), st.sampled_from(["ana", "bo"])),
    st.tuples(st.just("release"), st.sampled_from(["ana", "bo"])),
    st.tuples(st.just("renew"), st.integers(0, 9), st.sampled_from(["ana", "bo"])),
)


class Model:
    """Leases in plain Python: {id: [annotator, pair, expires, open, answered]}."""

    def __init__(self) -> None:
        self.leases: dict[str, list[Any]] = {}

    def live(self, now: float) -> dict[str, list[Any]]:
        return {id: f for id, f in self.leases.items() if f[3] and f[2] > now}

    def free(self, asked: list[tuple[int, int]], now: float) -> list[tuple[int, int]]:
        """The sides of those asked for whose pair is under no lease; each pair once."""
        taken = {frozenset(f[1]) for f in self.live(now).values()}
        found = []
        for sides in asked:
            if frozenset(sides) not in taken:
                taken.add(frozenset(sides))
                found.append(sides)
        return found


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(actions=st.lists(an_action, max_size=20))
def test_any_actions_leave_what_the_model_says(store: Store, actions: list[tuple]) -> None:
    name, clock, model = f"c{len(store.collections_frame())}", Clock(), Model()
    store.add_items(name, made_items(4))
    collection = store.collection(name, clock=clock)
    for action in actions:
        apply(action, collection, clock, model)
        live = model.live(clock.now)
        assert live_pairs(collection) == {tuple(sorted(f[1])) for f in live.values()}
        for who in ("ana", "bo"):
            ids = [lease.id for lease in collection.leases(who)]
            assert ids == [id for id, f in live.items() if f[0] == who]
    assert len(collection.judgements()) == sum(f[4] for f in model.leases.values())


def apply(action: tuple, collection: Collection, clock: Clock, model: Model) -> None:
    """Do one action on the collection and on the model, and compare what they say."""
    kind, *arguments = action
    if kind == "wait":
        clock.now += arguments[0]
    elif kind == "lease":
        who, asked, seconds = arguments
        free = model.free(asked, clock.now)
        leases = collection.lease(who, [question(*sides) for sides in asked], seconds)
        assert [(lease.question.left, lease.question.right) for lease in leases] == free
        for lease in leases:
            sides = lease.question.left, lease.question.right
            model.leases[lease.id] = [who, sides, lease.expires, True, False]
    elif kind == "release":
        collection.release(arguments[0])
        for f in model.leases.values():
            f[3] = f[3] and f[0] != arguments[0]
    elif model.leases:
        which, who = arguments
        id, f = list(model.leases.items())[which % len(model.leases)]
        if kind == "renew":
            can = id in model.live(clock.now) and f[0] == who
            assert len(collection.lease(who, (), 20, renew=[id])) == can
            f[2] = clock.now + 20 if can else f[2]
        elif f[0] == who and (f[4] or id in model.live(clock.now)):
            assert answer_lease(collection, id, who, "left").pair == tuple(sorted(f[1]))
            f[3], f[4] = False, True
        else:
            with pytest.raises(LeaseError):
                answer_lease(collection, id, who, "left")


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
    open_pairs = Counter(
        pair_of(row) for row in rows(store, "SELECT items AS placed FROM leases WHERE open")
    )
    assert max(open_pairs.values(), default=1) == 1
    # The lives of a pair's leases, by the clock: each ends before the next begins.
    answered = {row.lease: row.at for row in rows(store, "SELECT lease, at FROM judgements")}
    lives: dict[tuple[int, int], list[Any]] = {}
    for row in rows(store, "SELECT leases.*, items AS placed FROM leases ORDER BY number"):
        lives.setdefault(pair_of(row), []).append(row)
    for leases in lives.values():
        for one, other in pairwise(leases):
            assert answered.get(one.id, one.expires) <= other.created


def test_a_reader_that_goes_by_numbers_misses_no_judgement(
    store: Store, collection: Collection
) -> None:
    stop, seen = threading.Event(), []

    def read() -> None:
        own = store.collection("args")
        while not stop.is_set():
            seen.extend(j.number for j in own.judgements(after=seen[-1] if seen else 0))

    def write(who: str) -> None:
        for _ in range(25):
            collection.append([Judgement.of(who, (0, 1), "left")])

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(f"w{k}",)) for k in range(3)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    seen.extend(j.number for j in collection.judgements(after=seen[-1] if seen else 0))
    assert seen == list(range(1, 76))
