"""The service: questions out, answers in, the session always what a replay of the store gives."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from collection_helpers import Clock, answer_lease, made_items, question, sqlite_url

from sortnet.errors import LeaseError, SortNetError, StoreError
from sortnet.preference import Answer, Judgement
from sortnet.preference.base import Pair
from store import Collection, Lease, Store, open_store
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
def two(tmp_path: Path, collection: Collection) -> Iterator[list[LabellingService]]:
    """Services of two stores, which have leases as two processes have."""
    with open_store(sqlite_url(tmp_path)) as other:
        beside = other.collection("args", clock=collection.clock)
        yield [LabellingService(each) for each in (collection, beside)]


@pytest.fixture
def service(collection: Collection) -> LabellingService:
    return LabellingService(collection, lease_seconds=60)


def better(lease: Lease) -> Answer:
    """The higher number is."""
    return "left" if lease.question.left > lease.question.right else "right"


def pairs(leases: Iterable[Lease]) -> set[Pair]:
    return {lease.question.pair for lease in leases}


def answer(service: LabellingService, who: str, times: int = 1) -> list[Judgement]:
    """So many next questions, answered by the higher number."""
    stored = []
    for _ in range(times):
        (lease,) = service.next(who)
        stored.append(answer_lease(service, lease, who, better(lease), 500))
    return stored


def test_a_question_is_leased_and_shown_again_until_it_is_answered(
    service: LabellingService,
) -> None:
    first = service.next("ana", 2)
    assert len(first) == 2 and first[0].question.pair != first[1].question.pair
    assert service.next("ana", 2) == first
    assert service.next("ana", 1) == first[:1]
    answer_lease(service, first[0], "ana", "tie")
    after = service.next("ana", 2)
    assert after[0] == first[1] and after[1] not in first


def test_an_annotator_who_asks_again_gets_time_to_answer(
    service: LabellingService, clock: Clock
) -> None:
    (lease,) = service.next("ana")
    clock.now += 20
    assert service.next("ana")[0].expires == lease.expires, "there is time enough"
    clock.now += 20
    (again,) = service.next("ana")
    assert (again.id, again.expires) == (lease.id, clock.now + 60)
    clock.now += 60
    assert service.next("ana")[0].id != lease.id


def test_an_undo_takes_back_the_questions_that_were_leased_ahead(
    service: LabellingService,
) -> None:
    assert service.undo("ana") is None
    (stored,) = answer(service, "ana")
    ahead = service.next("ana", 2)
    undo = service.undo("ana")
    assert undo is not None and undo.undoes == stored.number
    assert (undo.left, undo.right, undo.word) == (stored.left, stored.right, "undo")
    with pytest.raises(LeaseError, match="taken back"):
        answer_lease(service, ahead[0], "ana", "left")
    assert service.undo("ana") is None and service.session.last("ana") is None


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_items_are_nothing_to_compare(store: Store, n: int) -> None:
    with pytest.raises(StoreError, match=rf"collection 'few' has {n} item\(s\); there must be two"):
        LabellingService(store.add_items("few", made_items(n)))


def test_two_services_on_one_database_see_each_other(
    two: list[LabellingService], collection: Collection
) -> None:
    one, other = two
    held = one.next("ana", 3)
    assert not pairs(held) & {lease.question.pair for lease in other.next("bo", 10)}
    stored = answer_lease(one, held[0], "ana", "left")
    assert other.sync() == 1 and other.sync() == 0
    assert other.session.last("ana") == stored
    undo = other.undo("ana")
    assert undo is not None and undo.undoes == stored.number
    assert one.sync() == 1
    assert one.session.judgements() == other.session.judgements() == collection.judgements()


def test_a_pair_taken_meanwhile_is_replaced_by_another(
    collection: Collection, service: LabellingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = collection.lease
    rival: list[object] = []

    def late(who, questions, seconds, **options):  # type: ignore[no-untyped-def]
        if not rival:
            rival.extend(lease("rival", questions, 60))
        return lease(who, questions, seconds, **options)

    monkeypatch.setattr(collection, "lease", late)
    mine = service.next("ana", 2)
    assert len(mine) == 2 and len(rival) == 2
    assert len(pairs(collection.leases())) == 4


def test_items_added_meanwhile_are_known_before_anybody_judges_them(store: Store) -> None:
    small = store.add_items("small", made_items(5))
    service = LabellingService(small, lease_seconds=60)
    before = answer(service, "ana", 2)
    store.add_items("small", made_items(2, first=5))
    assert store.collection("small").lease("bo", [question(5, 6)], 60)
    held = service.next("ana", 20)
    assert service.session.n_items == len(service.items) == 7
    assert service.session.judgements() == before
    assert {5, 6} <= {n for lease in held for n in lease.question.pair}
    assert (5, 6) not in pairs(held)
    store.add_items("small", made_items(1, first=7))
    small.append([Judgement.of("bo", (7, 0), "left")])
    answer(service, "ana")
    assert service.session.judgements() == small.judgements()


def test_a_service_takes_back_only_what_it_handed_out(
    two: list[LabellingService], collection: Collection
) -> None:
    one, other = two
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


def test_threads_at_two_services_leave_both_with_the_stored_events(
    two: list[LabellingService], collection: Collection
) -> None:
    faults: list[SortNetError] = []

    def work(service: LabellingService, who: str) -> None:
        try:
            for k in range(8):
                for lease in service.next(who, 2)[:1]:
                    answer_lease(service, lease, who, better(lease))
                    answer_lease(service, lease, who, "tie")
                if k == 5:
                    service.undo(who)
        except SortNetError as error:
            faults.append(error)

    threads = [
        threading.Thread(target=work, args=(service, f"{name}{k}"))
        for k, service in enumerate(two)
        for name in ("ana", "bo")
    ]
    fitting = threading.Thread(target=two[0].session.refit)
    for thread in (*threads, fitting):
        thread.start()
    for thread in (*threads, fitting):
        thread.join()
    assert faults == []
    stored = collection.judgements()
    assert [j.number for j in stored] == list(range(1, 4 * 8 + 4 + 1))
    for service in two:
        service.sync()
        assert service.session.judgements() == stored
