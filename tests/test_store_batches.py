"""Batches of questions in the store: their leases have no end, and no process takes them over."""

from __future__ import annotations

import math

import pytest
from collection_helpers import Clock, answer_lease, question

from sortnet.errors import LeaseError
from store import Collection, Store


def test_a_batch_reserves_its_pairs_for_ever_and_for_itself(
    collection: Collection, clock: Clock
) -> None:
    name = collection.add_batch("m", {"model": "m"})
    leases = collection.lease("m", [question(4, 1), question(2, 3)], math.inf, batch=name)
    assert [lease.batch for lease in leases] == [name, name]
    clock.now += 1e9
    assert collection.leases() == leases and leases[0].expires == math.inf
    assert collection.lease("ana", [question(1, 4)], 60) == []
    # Neither this process nor another one asks them.
    assert not collection.may_take_over(leases[0])
    renewed = collection.lease("m", [], 60, renew=[lease.id for lease in leases])
    assert renewed == []
    (batch,) = collection.batches()
    assert (batch.name, batch.annotator, batch.n_open, batch.cancelled) == (name, "m", 2, None)
    assert batch.about == {"model": "m"}
    answer_lease(collection, leases[0], "m", "left", 850)
    assert collection.batches()[0].n_open == 1


def test_a_lease_is_of_its_batch_alone(collection: Collection) -> None:
    first, second = (collection.add_batch("m", {}) for _ in range(2))
    (lease,) = collection.lease("m", [question(4, 1)], math.inf, batch=first)
    (online,) = collection.lease("m", [question(2, 3)], 60)
    assert collection.question(lease.id, first) == lease.question
    for batch, id in ((second, lease.id), (first, online.id), (first, "nothing")):
        with pytest.raises(LeaseError):
            collection.question(id, batch)


def test_a_cancelled_batch_frees_its_pairs_and_says_when(
    collection: Collection, clock: Clock
) -> None:
    name = collection.add_batch("m", {})
    leases = collection.lease("m", [question(4, 1), question(2, 3)], math.inf, batch=name)
    answer_lease(collection, leases[0], "m", "left", 850)
    clock.now = 2000.0
    assert collection.cancel_batch(name) == 1 and collection.leases() == []
    assert collection.batches()[0].cancelled == 2000.0
    assert len(collection.lease("ana", [question(3, 2)], 60)) == 1
    with pytest.raises(LeaseError, match="was taken back"):
        answer_lease(collection, leases[1], "m", "left", 850)


def test_an_annotator_of_a_batch_stays_until_it_is_removed(
    store: Store, collection: Collection
) -> None:
    name = collection.add_batch("m", {})
    collection.cancel_batch(name)
    collection.forget("m")
    assert [one.name for one in collection.annotators()] == ["m"]
    collection.remove_batch(name)
    collection.forget("m")
    assert collection.annotators() == [] and collection.batches() == []
