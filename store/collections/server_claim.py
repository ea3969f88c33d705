"""Claim a collection for one serving process at a time; a killed one does not block it."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from sqlalchemy import delete, insert, select, update

from sortnet.errors import SortNetError, StoreError
from store.database.engine import Database
from store.database.process import is_process
from store.database.tables import CollectionRow, ServerRow

SILENT = 30.0  # seconds without a heartbeat, after which a server counts as dead
BEAT = 5.0


class ServerClaim:
    """A process's claim to serve a collection, kept alive by heartbeats until it ends.

    Args:
        clock: returns the seconds since 1970.
        beat: seconds between heartbeats; None: the caller calls `beat()`.

    Raises:
        StoreError: if another live process serves the collection.

    Attributes:
        lost: set if a heartbeat finds that the claim is lost: the collection was removed, or
            another process has taken over.
    """

    def __init__(
        self,
        database: Database,
        collection: int,
        name: str,
        *,
        clock: Callable[[], float],
        beat: float | None = BEAT,
    ) -> None:
        self._database, self._collection, self._clock = database, collection, clock
        self._id = secrets.token_hex(8)
        self._claim(name)
        self._ended = threading.Event()
        self.lost = threading.Event()
        if beat is not None:
            threading.Thread(target=self._beat_every, args=(beat,), daemon=True).start()

    def __enter__(self) -> ServerClaim:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def beat(self) -> bool:
        """Send a heartbeat; False if the claim is lost."""
        change = update(ServerRow).where(*self._own()).values(heartbeat=self._clock())
        with self._database.transaction(write=True, durable=False) as connection:
            return bool(connection.execute(change).rowcount)

    def end(self) -> None:
        """Release the collection."""
        self._ended.set()
        with self._database.transaction(write=True) as connection:
            connection.execute(delete(ServerRow).where(*self._own()))

    def _beat_every(self, seconds: float) -> None:
        while not self._ended.wait(seconds):
            try:
                if not self.beat():
                    self.lost.set()
                    return
            except SortNetError:
                continue  # the store is unavailable for now; the next beat may reach it

    def _own(self) -> tuple[Any, ...]:
        return ServerRow.collection == self._collection, ServerRow.id == self._id

    def _claim(self, name: str) -> None:
        now, place = self._clock(), ServerRow.collection == self._collection
        with self._database.transaction(write=True) as connection:
            locked = select(CollectionRow.number).where(CollectionRow.number == self._collection)
            if connection.execute(locked.with_for_update()).first() is None:
                raise StoreError(f"{self._database.name}: collection {name!r} was removed")
            other = connection.execute(select(ServerRow.__table__).where(place)).first()
            if other is not None and _lives(other, now):
                raise StoreError(
                    f"collection {name!r} is served by process {other.pid} on {other.host} already"
                )
            connection.execute(delete(ServerRow).where(place))
            connection.execute(
                insert(ServerRow).values(
                    collection=self._collection,
                    id=self._id,
                    pid=os.getpid(),
                    host=socket.gethostname(),
                    heartbeat=now,
                )
            )


def is_served(database: Database, collection: int, now: float) -> bool:
    """Whether a live process serves a collection."""
    row = select(ServerRow.__table__).where(ServerRow.collection == collection)
    with database.transaction() as connection:
        server = connection.execute(row).first()
    return server is not None and _lives(server, now)


def _lives(server: Any, now: float) -> bool:
    if now - server.heartbeat > SILENT:
        return False
    return bool(server.host != socket.gethostname() or is_process(server.pid))
