"""Claim a collection for one process at a time; a killed process does not block the collection."""

from __future__ import annotations

import threading

from sqlalchemy import func, select

from sortnet.errors import SortNetError, StoreError
from store.collections.collection_rows import CollectionRows
from store.database.schema import CollectionRow

BEAT = 5.0  # seconds between two looks at the claim


class ServerRows(CollectionRows):
    """Operations on the process that serves a collection."""

    @property
    def server_name(self) -> str:
        """The name that the process which serves the collection holds."""
        return f"server-{self.number}"

    def serving(self, *, beat: float = BEAT) -> ServerClaim:
        """Claim to be the only process that serves the collection.

        Args:
            beat: seconds between two looks at the claim.

        Raises:
            StoreError: if another process serves the collection.
        """
        return ServerClaim(self, beat)

    def is_served(self) -> bool:
        """Whether a live process serves the collection."""
        return self.database.claims.is_held(self.server_name)


class ServerClaim:
    """A process's claim to serve a collection, which ends with the `with` block or the process.

    Args:
        rows: the collection.
        beat: seconds between two looks at the claim.

    Attributes:
        lost: an event that is set if the collection was removed, or if a database server was
            restarted and another process serves the collection now.
    """

    def __init__(self, rows: ServerRows, beat: float = BEAT) -> None:
        """Claim to serve a collection, and start to look at the claim.

        Raises:
            StoreError: if another process serves the collection.
        """
        self._rows = rows
        self._ended = threading.Event()
        self.lost = threading.Event()
        with rows.locked():
            pass  # raises an error if the collection was removed
        if not rows.database.claims.take(rows.server_name):
            raise StoreError(f"collection {rows.name!r} is served by another process already")
        self._thread = threading.Thread(target=self._look_every, args=(beat,), daemon=True)
        self._thread.start()

    def __enter__(self) -> ServerClaim:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """End the claim, so that another process can serve the collection."""
        self._ended.set()
        self._thread.join()
        self._rows.database.claims.drop(self._rows.server_name)

    def _is_kept(self) -> bool:
        """Whether there still is the collection, and this process has or renews its claim."""
        is_there = select(func.count()).where(CollectionRow.number == self._rows.number)
        with self._rows.database.transaction() as connection:
            n_collections = connection.execute(is_there).scalar_one()
        return bool(n_collections) and self._rows.database.claims.keep(self._rows.server_name)

    def _look_every(self, seconds: float) -> None:
        """Look at the claim until it is ended or lost; runs in a thread of its own."""
        while not self._ended.wait(seconds):
            try:
                if not self._is_kept():
                    self.lost.set()
                    return
            except SortNetError:
                continue  # the store is unavailable for now; the next look may reach it
