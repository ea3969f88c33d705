"""Which process serves a collection: one at a time, and a dead one is not in the way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from collection_helpers import Clock, made_items
from forked_processes import ForkedScript

from sortnet.errors import StoreError
from store import Collection, Store, open_store

if TYPE_CHECKING:
    from conftest import Server

# Claims a collection, says so, and waits to be killed.
SERVES = """
import sys
from store import open_store
store = open_store(sys.argv[1])
with store.collection("args").serving():
    print("serving", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        opened.add_items("args", made_items(3))
        opened.add_items("other", made_items(3))
        yield opened


@pytest.fixture
def collection(store: Store, clock: Clock) -> Collection:
    return store.collection("args", clock=clock)


def test_a_server_killed_dead_does_not_block_its_restart(url: str, store: Store) -> None:
    with ForkedScript(SERVES, url) as server:
        assert server.stdout.readline() == "serving\n"
        refused = pytest.raises(StoreError, match="served by another process")
        with refused, store.collection("args").serving():
            pass
        with store.collection("other").serving():
            pass
        server.send_signal(signal.SIGKILL)
        server.wait()
    with store.collection("args").serving():
        pass


def test_a_server_notices_that_its_collection_was_removed(collection: Collection) -> None:
    with collection.serving():
        assert collection.is_served() and collection.is_still_mine()
        with pytest.raises(StoreError, match="by another process"), collection.serving():
            pass
        collection.remove()
        assert not collection.is_still_mine()


@pytest.mark.postgresql
def test_a_claim_that_a_restart_of_the_database_ended_is_renewed(own_server: Server) -> None:
    with open_store(own_server.url) as store, open_store(own_server.url) as other:
        claims = store.database.claims
        assert claims.take("first")
        own_server.restart()
        assert claims.keep("first") and other.database.claims.is_held("first")
        assert not other.database.claims.keep("first")


def test_a_removed_collection_cannot_be_served(store: Store, collection: Collection) -> None:
    stale = store.collection("args")
    collection.remove()
    with pytest.raises(StoreError, match="collection 'args' was removed"), stale.serving():
        pass
