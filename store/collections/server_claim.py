"""Claim a collection for one process at a time; a killed process does not block the collection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import func, select

from sortnet.errors import StoreError
from store.collections.collection_rows import CollectionRows
from store.database.schema import CollectionRow


class ServerRows(CollectionRows):
    """Operations on the process that serves a collection."""

    @property
    def server_name(self) -> str:
        """The name that the process which serves the collection holds."""
        return f"server-{self.number}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Be the only process that serves the collection, within a `with` block.

        Raises:
            StoreError: if another process serves the collection, or the collection was removed.
        """
        with self.locked():
            pass  # raises an error if the collection was removed
        claims = self.database.claims
        if not claims.take(self.server_name):
            raise StoreError(f"collection {self.name!r} is served by another process already")
        try:
            yield
        finally:
            claims.drop(self.server_name)

    def is_still_mine(self) -> bool:
        """Whether the collection still exists, and this process still serves it.

        A claim that ended because a database server was restarted is renewed, unless another
        process serves the collection now.
        """
        is_there = select(func.count()).where(CollectionRow.number == self.number)
        with self.database.transaction() as connection:
            n_collections = connection.execute(is_there).scalar_one()
        return bool(n_collections) and self.database.claims.keep(self.server_name)

    def is_served(self) -> bool:
        """Whether a live process serves the collection."""
        return self.database.claims.is_held(self.server_name)
