"""The desk: questions out, answers in, the session always what a replay of the store gives."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from collections_made import Clock, made_items, question, sqlite_url
from sqlalchemy import text

from sortnet.errors import JudgementError, LeaseError, SortNetError, StoreError
from sortnet.preference import Answer, Judgement
from sortnet.preference.session import Session
from store import Collection, Store, open_store
from store.service.labelling import LabellingService

N = 12


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(sqlite_url(tmp_path)) as opened:
        opened.add_items("args", made_items(N), seed=3)
        yield opened


@pytest.fixture
def collection(store: Store, clock: Clock) -> Collection:
    return store.collection("args", clock=clock)


@pytest.fixture
def desk(collection: Collection) -> LabellingService:
    return LabellingService(collection, lease_seconds=60)


def better(left: int, right: int) -> Answer:
    return "left" if left > right else "right"


def answer(desk: LabellingService, who: str, times: int = 1) -> list[Judgement]:
    """So many next questions, answered by the higher number."""
    stored = []
    for _ in range(times):
        (lease,) = desk.next(who)
        stored.append(desk.answer(lease.id, who, better(lease.left, lease.right), 500))
    return stored


def test_a_question_is_leased_and_shown_again_until_it_is_answered(desk: LabellingService) -> None:
    first = desk.next("ana", 2)
    assert len(first) == 2 and first[0].pair != first[1].pair
    assert desk.next("ana", 2) == first
    assert desk.next("ana", 1) == first[:1]
    desk.answer(first[0].id, "ana", "tie")
    after = desk.next("ana", 2)
    assert after[0] == first[1] and after[1] not in first


def test_two_people_have_no_question_in_common(desk: LabellingService) -> None:
    ana, bo = desk.next("ana", 5), desk.next("bo", 5)
    assert len({lease.pair for lease in (*ana, *bo)}) == 10


def test_an_answer_is_told_to_the_session_once_however_often_it_comes(
    desk: LabellingService,
) -> None:
    (lease,) = desk.next("ana")
    first = desk.answer(lease.id, "ana", "left", 700)
    assert desk.answer(lease.id, "ana", "right", 900) == first
    assert desk.session.events == 1 and desk.session.last("ana") == first
    assert (first.left, first.right, first.strategy) == (lease.left, lease.right, lease.strategy)


def test_refused_answers_leave_the_session_alone(desk: LabellingService, clock: Clock) -> None:
    (lease,) = desk.next("ana")
    with pytest.raises(LeaseError, match="was not put to 'bo'"):
        desk.answer(lease.id, "bo", "left")
    with pytest.raises(JudgementError, match="unknown answer"):
        desk.answer(lease.id, "ana", "best")  # type: ignore[arg-type]
    clock.now += 60
    with pytest.raises(LeaseError, match="expired"):
        desk.answer(lease.id, "ana", "left")
    assert desk.session.events == 0


def test_whoever_asks_again_gets_time_to_answer(desk: LabellingService, clock: Clock) -> None:
    (lease,) = desk.next("ana")
    clock.now += 20
    assert desk.next("ana")[0].expires == lease.expires, "there is time enough"
    clock.now += 20
    (again,) = desk.next("ana")
    assert (again.id, again.expires) == (lease.id, clock.now + 60)
    clock.now += 60
    assert desk.next("ana")[0].id != lease.id


def test_an_undo_puts_the_same_question_first_again(desk: LabellingService) -> None:
    assert desk.undo("ana") is None
    (stored,) = answer(desk, "ana")
    ahead = desk.next("ana", 2)
    undo = desk.undo("ana")
    assert undo is not None and undo.undoes == stored.number
    assert (undo.left, undo.right, undo.answer) == (stored.left, stored.right, "undo")
    with pytest.raises(LeaseError, match="taken back"):
        desk.answer(ahead[0].id, "ana", "left")
    again = desk.next("ana", 2)
    assert (again[0].left, again[0].right) == (stored.left, stored.right)
    assert desk.undo("ana") is None and desk.session.last("ana") is None


def test_any_number_of_answers_can_be_undone(desk: LabellingService) -> None:
    stored = answer(desk, "ana", 4)
    answer(desk, "bo", 2)
    undone = [desk.undo("ana") for _ in range(4)]
    assert [undo and undo.undoes for undo in undone] == [j.number for j in reversed(stored)]
    assert desk.undo("ana") is None and desk.session.last("bo") is not None
    assert desk.collection.judgements_frame()["undone"].sum() == 4


def test_a_replay_gives_the_state_that_was_left(
    collection: Collection, desk: LabellingService
) -> None:
    for k in range(40):
        answer(desk, ("ana", "bo")[k % 2])
        if k % 7 == 3:
            desk.undo("ana")
    again = LabellingService(collection)
    assert again.session.judgements() == desk.session.judgements() == collection.judgements()
    for each in (again, desk):
        each.session.refit()
    one, other = again.session.ranking(), desk.session.ranking()
    assert one.order.tolist() == other.order.tolist()
    assert one.judgements.tolist() == other.judgements.tolist()
    assert np.allclose(one.score, other.score, atol=1e-3)


def test_the_collection_says_what_kind_of_session_it_wants(store: Store) -> None:
    settings = {"strategy": "random", "holdout": 1.0, "repeats": 0.0, "colour": "red"}
    collection = store.add_items("odd", made_items(5), seed=9, settings=settings)
    desk = LabellingService(collection)
    assert desk.session.seed == 9 and LabellingService(collection, seed=4).session.seed == 4
    assert {lease.strategy for lease in desk.next("ana", 4)} == {"random"}


def test_nothing_is_asked_where_nothing_is_left(store: Store) -> None:
    desk = LabellingService(store.add_items("two", made_items(2), settings={"repeats": 0.0}))
    (lease,) = desk.next("ana", 3)
    assert desk.next("bo", 3) == [], "the only pair is under a lease"
    desk.answer(lease.id, "ana", "left")
    assert desk.next("ana") == []
    assert [lease.pair for lease in desk.next("bo", 3)] == [(0, 1)]


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_items_are_nothing_to_compare(store: Store, n: int) -> None:
    with pytest.raises(StoreError, match=rf"collection 'few' has {n} item\(s\); there must be two"):
        LabellingService(store.add_items("few", made_items(n)))


def test_two_desks_on_one_database_see_each_other(store: Store, collection: Collection) -> None:
    one, other = (
        LabellingService(collection),
        LabellingService(store.collection("args", clock=collection.clock)),
    )
    held = one.next("ana", 3)
    assert not {lease.pair for lease in held} & {lease.pair for lease in other.next("bo", 10)}
    assert other.next("ana", 3) == held, "who reloads from another process goes on"
    stored = one.answer(held[0].id, "ana", "left")
    assert other.sync() == 1 and other.sync() == 0
    assert other.session.last("ana") == stored
    undo = other.undo("ana")
    assert undo is not None and undo.undoes == stored.number
    assert one.sync() == 1
    assert one.session.judgements() == other.session.judgements() == collection.judgements()


def test_judgements_that_came_in_between_are_told_in_their_order(
    store: Store, collection: Collection
) -> None:
    one, other = (
        LabellingService(collection),
        LabellingService(store.collection("args", clock=collection.clock)),
    )
    (mine,), (theirs,) = one.next("ana"), other.next("bo")
    other.answer(theirs.id, "bo", "tie")
    collection.append([Judgement("cy", 0, 1, "left")])
    assert one.answer(mine.id, "ana", "left").number == 3
    assert [j.number for j in one.session.judgements()] == [1, 2, 3]
    assert [j.annotator for j in one.session.judgements()] == ["bo", "cy", "ana"]


def test_a_pair_taken_meanwhile_is_replaced_by_another(
    collection: Collection, desk: LabellingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, lease = collection.live_pairs, collection.lease
    rival: list[object] = []

    def late(who, questions, seconds):  # type: ignore[no-untyped-def]
        if not rival:
            rival.extend(lease("rival", questions, 60))
        return lease(who, questions, seconds)

    monkeypatch.setattr(collection, "lease", late)
    mine = desk.next("ana", 2)
    assert len(mine) == 2 and len(rival) == 2
    assert len(free()) == 4


def test_items_added_meanwhile_are_taken_in_when_somebody_judges_them(
    store: Store, collection: Collection, desk: LabellingService
) -> None:
    answer(desk, "ana")
    store.add_items("args", made_items(2, first=N))
    collection.append([Judgement("bo", N, N + 1, "left")])
    desk.sync()
    assert desk.session.n_items == len(desk.items) == N + 2
    assert desk.session.judgements() == collection.judgements()


def test_items_added_meanwhile_are_known_before_anybody_judges_them(store: Store) -> None:
    small = store.add_items("small", made_items(5))
    desk = LabellingService(small, lease_seconds=60)
    before = answer(desk, "ana", 2)
    store.add_items("small", made_items(2, first=5))
    other = store.collection("small")
    assert other.n_items() == 7 and store.collection("args").n_items() == N
    assert other.lease("bo", [question(5, 6)], 60)
    held = desk.next("ana", 20)
    assert desk.session.n_items == len(desk.items) == 7
    assert desk.session.judgements() == before
    assert {5, 6} <= {n for lease in held for n in lease.pair}
    assert (5, 6) not in {lease.pair for lease in held}
    store.add_items("small", made_items(1, first=7))
    small.append([Judgement("bo", 7, 0, "left")])
    assert desk.sync() == 1 and desk.sync() == 0


def test_leases_on_items_that_are_not_known_yet_are_left_alone(
    store: Store, desk: LabellingService, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_items("args", made_items(2, first=N))
    collection.lease("ana", [question(N, 0)], 60)
    collection.lease("bo", [question(N, N + 1)], 60)
    monkeypatch.setattr(desk, "sync", lambda: 0)  # they came after it
    assert max(n for lease in desk.next("ana", 3) for n in lease.pair) < N


def test_two_desks_put_no_question_twice_to_one_name(store: Store, collection: Collection) -> None:
    one, other = (
        LabellingService(collection),
        LabellingService(store.collection("args", clock=collection.clock)),
    )
    assert one.next("bot") and other.next("bot")
    assert other.next("bot") == one.next("bot"), "what was there when it began is taken over"
    for _ in range(5):
        (mine,) = one.next("bot")
        one.answer(mine.id, "bot", "left")
        (theirs,) = other.next("bot", 1)
        if theirs.id == mine.id:
            continue
        other.answer(theirs.id, "bot", "left")
    (mine,), (theirs,) = one.next("bot"), other.next("bot")
    assert mine.pair != theirs.pair


def test_a_desk_takes_back_only_what_it_handed_out(store: Store, collection: Collection) -> None:
    one, other = (
        LabellingService(collection),
        LabellingService(store.collection("args", clock=collection.clock)),
    )
    assert one.undo("bot") is None
    (stored,) = answer(other, "bot")
    (mine,) = one.next("bot")
    (theirs,) = other.lease("bot", [question(*stored.pair)])
    one.release("bot")
    assert collection.leases("bot") == [theirs]
    (mine,) = one.next("bot")
    assert mine != theirs
    assert other.undo("bot") is not None
    assert mine in collection.leases("bot") and theirs not in collection.leases("bot")


def test_an_answer_that_was_there_is_told_from_one_that_is_new(desk: LabellingService) -> None:
    (lease,) = desk.next("ana")
    stored, new = desk.settle(lease.id, "ana", "left")
    assert new and desk.settle(lease.id, "ana", "left") == (stored, False)


def test_threads_at_two_desks_leave_both_with_the_stored_events(
    store: Store, collection: Collection
) -> None:
    desks = [
        LabellingService(collection),
        LabellingService(store.collection("args", clock=collection.clock)),
    ]
    faults: list[SortNetError] = []

    def work(desk: LabellingService, who: str) -> None:
        try:
            for k in range(8):
                for lease in desk.next(who, 2)[:1]:
                    desk.answer(lease.id, who, better(lease.left, lease.right))
                    desk.answer(lease.id, who, "tie")
                if k == 5:
                    desk.undo(who)
        except SortNetError as error:
            faults.append(error)

    threads = [
        threading.Thread(target=work, args=(desk, f"{name}{k}"))
        for k, desk in enumerate(desks)
        for name in ("ana", "bo")
    ]
    fitting = threading.Thread(target=desks[0].session.refit)
    for thread in (*threads, fitting):
        thread.start()
    for thread in (*threads, fitting):
        thread.join()
    assert faults == []
    stored = collection.judgements()
    assert [j.number for j in stored] == list(range(1, 4 * 8 + 4 + 1))
    for desk in desks:
        desk.sync()
        assert desk.session.judgements() == stored


def test_a_session_told_the_stored_events_is_the_desks(
    collection: Collection, desk: LabellingService
) -> None:
    answer(desk, "ana", 15)
    items = collection.items()
    session = Session(items.features, N, seed=3)
    for judgement in collection.judgements():
        session.tell(judgement)
    desk.session.refit()
    assert session.ranking().order.tolist() == desk.session.ranking().order.tolist()


# Answers until it is killed; says which leases were answered when that is stored.
ANSWERS = """
import sys
from store import open_store
from store.service.labelling import LabellingService
desk = LabellingService(open_store(sys.argv[1]).collection("many"))
while True:
    for lease in desk.next("ana", 2):
        print(lease.id, desk.answer(lease.id, "ana", "left").number, flush=True)
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_loses_no_answer_and_a_new_desk_goes_on(
    store: Store, tmp_path: Path
) -> None:
    collection = store.add_items("many", made_items(60))
    for round_ in range(2):
        command = [sys.executable, "-c", ANSWERS, sqlite_url(tmp_path)]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            told = [server.stdout.readline() for _ in range(9 + round_)]
            server.send_signal(signal.SIGKILL)
            told += server.stdout.readlines()
        said = {tuple(line.split()) for line in told if line.endswith("\n")}
        with store.database.transaction() as connection:
            rows = connection.execute(text("SELECT lease, number FROM judgements")).all()
        stored = {(row.lease, str(row.number)) for row in rows}
        assert said <= stored and len(stored) == len(rows)
        assert sorted(row.number for row in rows) == list(range(1, len(rows) + 1))
        held = collection.leases("ana")
        assert LabellingService(collection).next("ana", len(held)) == held
