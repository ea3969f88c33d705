"""Claim a collection for one serving process at a time; a killed one does not block it."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from sortnet.errors import SortNetError, StoreError
from store.collections.collection_rows import locked
from store.database.engine import Database
from store.database.process import is_process
from store.database.schema import ServerRow

SILENT = 30.0  # seconds without a heartbeat, after which a server counts as dead
BEAT = 5.0


class ServerClaim:
    """A process's claim to serve a collection, kept alive by heartbeats until it ends.

    `beat` is in seconds; None: the caller calls `beat()`. `lost` is set if a heartbeat finds that
    the collection was removed or another process has taken over.
    """

    def __init__(
        self,
        database: Database,
        collection: int,
        name: str,
        clock: Callable[[], float],
        beat: float | None = BEAT,
    ) -> None:
        self._database, self._collection, self._clock = database, collection, clock
        self._id = secrets.token_hex(8)
        self._mine = (ServerRow.collection == collection, ServerRow.id == self._id)
        self._claim(name)
        self._ended = threading.Event()
        self.lost = threading.Event()
        if beat is not None:
            threading.Thread(target=self._beat_every, args=(beat,), daemon=True).start()

    def __enter__(self) -> ServerClaim:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def beat(self) -> bool:
        """Send a heartbeat; False if the claim is lost."""
        change = update(ServerRow).where(*self._mine).values(heartbeat=self._clock())
        with self._database.transaction(write=True, durable=False) as connection:
            return bool(connection.execute(change).rowcount)

    def end(self) -> None:
        """Release the collection."""
        self._ended.set()
        with self._database.transaction(write=True) as connection:
            connection.execute(delete(ServerRow).where(*self._mine))

    def _beat_every(self, seconds: float) -> None:
        while not self._ended.wait(seconds):
            try:
                if not self.beat():
                    self.lost.set()
                    return
            except SortNetError:
                continue  # the store is unavailable for now; the next beat may reach it

    def _claim(self, name: str) -> None:
        with locked(self._database, self._collection, name) as connection:
            now = self._clock()
            if (other := live_server(connection, self._collection, now)) is not None:
                raise StoreError(
                    f"collection {name!r} is served by process {other.pid} on {other.host} already"
                )
            connection.execute(delete(ServerRow).where(ServerRow.collection == self._collection))
            mine = {"collection": self._collection, "id": self._id, "heartbeat": now}
            here = {"pid": os.getpid(), "host": socket.gethostname()}
            connection.execute(insert(ServerRow), mine | here)


def live_server(connection: Connection, collection: int, now: float) -> Any:
    """The row of the live process that serves a collection, or None."""
    these = select(ServerRow.__table__).where(ServerRow.collection == collection)
    server = connection.execute(these).first()
    if server is None or now - server.heartbeat > SILENT:
        return None
    return server if server.host != socket.gethostname() or is_process(server.pid) else None
