"""Let one `sortnet.sort` at a time work on a collection; other calls wait until it ends."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sortnet.core import Progress
from store.database.engine import Database

_WAIT = 0.2  # seconds between two attempts


@contextmanager
def turn_to_sort(database: Database, collection: str, progress: Progress) -> Iterator[None]:
    """Wait until no other `sort` works on a collection, and keep others out in a `with` block.

    Args:
        database: the database of the store.
        collection: name of the collection, which need not exist yet.
        progress: called with a text if the call has to wait.
    """
    digest = hashlib.sha256(collection.encode()).hexdigest()
    name = f"sort-{digest[:12]}"
    is_waiting = False
    while not database.claims.take(name):
        if not is_waiting:
            progress(f"waiting for another sort of the collection {collection!r}")
        is_waiting = True
        time.sleep(_WAIT)
    try:
        yield
    finally:
        database.claims.drop(name)
