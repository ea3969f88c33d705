"""Claim a collection for one process at a time; a killed process does not block the collection."""

from __future__ import annotations

import secrets
import threading
from typing import Any

from sqlalchemy import delete, insert, select, update

from sortnet.errors import SortNetError, StoreError
from store.collections.collection_rows import CollectionRows
from store.database.process import Process, this_process
from store.database.schema import ServerRow

SILENT = 30.0  # seconds without a heartbeat after which a process counts as dead
BEAT = 5.0  # seconds between two heartbeats


class ServerRows(CollectionRows):
    """Operations on the process that serves a collection."""

    def serving(self, *, beat: float | None = BEAT) -> ServerClaim:
        """Claim to be the only process that serves the collection.

        Args:
            beat: seconds between two heartbeats. If None, the caller sends heartbeats.

        Raises:
            StoreError: if another process serves the collection.
        """
        return ServerClaim(self, beat)

    def is_served(self) -> bool:
        """Whether a live process serves the collection."""
        return self._live_server(self.clock()) is not None

    def _live_server(self, now: float) -> Any:
        """Read the row of the live process that serves the collection; None if there is none.

        A process counts as dead if it has ended, or has sent no heartbeat for 30 seconds.
        """
        query = select(ServerRow.__table__).where(ServerRow.collection == self.number)
        with self.transaction() as connection:
            server = connection.execute(query).first()
        if server is None:
            return None
        is_silent = now - server.heartbeat > SILENT
        if is_silent or Process.of(server).has_ended():
            return None
        return server

    def _claim_server(self, id: str) -> None:
        """Store that this process serves the collection, under the id of its claim.

        Raises:
            StoreError: if another live process serves the collection.
        """
        with self.locked() as connection:
            now = self.clock()
            server = self._live_server(now)
            if server is not None:
                process = f"process {server.pid} on {server.host}"
                raise StoreError(f"collection {self.name!r} is served by {process} already")
            connection.execute(delete(ServerRow).where(ServerRow.collection == self.number))
            row = {"collection": self.number, "id": id, "heartbeat": now, **this_process()}
            connection.execute(insert(ServerRow), row)


class ServerClaim:
    """A process's claim to serve a collection, kept alive by heartbeats until the claim ends.

    Args:
        rows: the collection.
        beat: seconds between two heartbeats. If None, the caller calls the method `beat`.

    Attributes:
        lost: an event that is set if a heartbeat finds that the collection was removed, or that
            another process serves it now.
    """

    def __init__(self, rows: ServerRows, beat: float | None = BEAT) -> None:
        """Claim to serve a collection, and start to send heartbeats.

        Raises:
            StoreError: if another process serves the collection.
        """
        self._database = rows.database
        self._clock = rows.clock
        id = secrets.token_hex(8)
        self._is_own_row = (ServerRow.collection == rows.number, ServerRow.id == id)
        rows._claim_server(id)
        self._ended = threading.Event()
        self.lost = threading.Event()
        if beat is not None:
            threading.Thread(target=self._beat_every, args=(beat,), daemon=True).start()

    def __enter__(self) -> ServerClaim:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def beat(self) -> bool:
        """Send a heartbeat, and return whether this process still has the claim."""
        change = update(ServerRow).where(*self._is_own_row).values(heartbeat=self._clock())
        with self._database.transaction(write=True, durable=False) as connection:
            return bool(connection.execute(change).rowcount)

    def end(self) -> None:
        """End the claim, so that another process can serve the collection."""
        self._ended.set()
        with self._database.transaction(write=True) as connection:
            connection.execute(delete(ServerRow).where(*self._is_own_row))

    def _beat_every(self, seconds: float) -> None:
        """Send heartbeats until the claim is ended or lost; runs in a thread of its own."""
        while not self._ended.wait(seconds):
            try:
                if not self.beat():
                    self.lost.set()
                    return
            except SortNetError:
                continue  # the store is unavailable for now; the next heartbeat may reach it
