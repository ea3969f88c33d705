"""Which process serves a collection: one at a time, and a dead one is not in the way."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from collection_helpers import Clock, made_items
from forked_processes import ForkedScript
from sqlalchemy import text

from sortnet.errors import StoreError
from store import Collection, Store, open_store
from store.database.process import process_start

# Claims a collection, says so, and waits to be killed.
SERVES = """
import sys
from store import open_store
store = open_store(sys.argv[1])
serving = store.collection("args").serving()
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


def make_other(store: Store, **values: object) -> None:
    """Let the row of the server say that it is another."""
    changes = ", ".join(f"{name} = '{value}'" for name, value in values.items())
    with store.database.transaction(write=True) as connection:
        connection.execute(text(f"UPDATE servers SET {changes}"))


def test_a_second_server_is_refused_in_one_line_until_the_first_ends(
    store: Store, collection: Collection
) -> None:
    with collection.serving(beat=None):
        message = f"collection 'args' is served by process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(StoreError, match=message):
            collection.serving(beat=None)
        with store.collection("other").serving(beat=None):
            pass
    collection.serving(beat=None).end()


def test_a_server_killed_dead_does_not_block_its_restart(url: str, store: Store) -> None:
    with ForkedScript(SERVES, url) as server:
        assert server.stdout.readline() == "serving\n"
        with pytest.raises(StoreError, match=f"served by process {server.pid} on"):
            store.collection("args").serving()
        server.send_signal(signal.SIGKILL)
        server.wait()
    with store.collection("args").serving():
        pass


@pytest.mark.parametrize("host", ["elsewhere", socket.gethostname()])
def test_a_server_that_was_silent_for_half_a_minute_counts_as_dead(
    store: Store, collection: Collection, clock: Clock, host: str
) -> None:
    collection.serving(beat=None)
    make_other(store, host=host)
    clock.now += 30
    with pytest.raises(StoreError, match=f"on {host} already"):
        collection.serving(beat=None)
    clock.now += 0.001
    with collection.serving(beat=None):
        pass


def test_of_a_process_on_another_machine_only_the_heartbeat_is_believed(
    store: Store, collection: Collection, clock: Clock
) -> None:
    first = collection.serving(beat=None)
    make_other(store, host="elsewhere", pid=2**22 + 1)
    clock.now += 29
    assert first.beat()
    clock.now += 29
    with pytest.raises(StoreError, match="on elsewhere"):
        collection.serving(beat=None)


@pytest.mark.skipif(process_start(os.getpid()) is None, reason="the system tells no start")
def test_a_process_that_has_the_number_of_a_killed_server_does_not_block_its_restart(
    store: Store, collection: Collection
) -> None:
    killed = collection.serving(beat=None)
    with store.database.transaction() as connection:
        pid, start = connection.execute(text("SELECT pid, process_start FROM servers")).one()
    assert (pid, start) == (os.getpid(), process_start(os.getpid()))
    make_other(store, process_start="of another process of the same number")
    assert not collection.is_served()
    with collection.serving(beat=None):
        assert collection.is_served() and not killed.beat()


def test_a_server_of_a_version_that_stored_no_start_is_known_by_its_number(
    store: Store, collection: Collection
) -> None:
    collection.serving(beat=None)
    with store.database.transaction(write=True) as connection:
        connection.execute(text("UPDATE servers SET process_start = NULL"))
    assert collection.is_served()
    make_other(store, pid=2**22 + 1)
    assert not collection.is_served()


def test_a_server_taken_for_dead_notices_and_leaves_the_other_alone(
    collection: Collection, clock: Clock
) -> None:
    first = collection.serving(beat=None)
    clock.now += 31
    second = collection.serving(beat=None)
    assert not first.beat() and second.beat()
    first.end()
    with pytest.raises(StoreError, match="served by process"):
        collection.serving(beat=None)


def test_the_heart_beats_by_itself_until_the_end(
    store: Store, collection: Collection, clock: Clock
) -> None:
    def beat() -> float:
        with store.database.transaction() as connection:
            return float(connection.execute(text("SELECT heartbeat FROM servers")).scalar_one())

    before = threading.active_count()
    with collection.serving(beat=0.01):
        clock.now += 7
        until = time.monotonic() + 600
        while beat() != clock.now and time.monotonic() < until:
            time.sleep(0.01)
        assert beat() == clock.now
    until = time.monotonic() + 600
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_a_removed_collection_cannot_be_served(store: Store, collection: Collection) -> None:
    stale = store.collection("args")
    collection.remove()
    with pytest.raises(StoreError, match="collection 'args' was removed"):
        stale.serving(beat=None)
