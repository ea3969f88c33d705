"""The store: runs with their pairs, collections with their judgements; SQLite or PostgreSQL."""

from store.collections import Annotator, Collection
from store.leases import Lease
from store.run import Run
from store.store import Store, open_store

__all__ = ["Annotator", "Collection", "Lease", "Run", "Store", "open_store"]
