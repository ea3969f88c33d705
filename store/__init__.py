"""The store: runs with their pairs, collections with their judgements; SQLite or PostgreSQL."""

from store.collection_rows import Annotator
from store.collections import Collection
from store.leases import Lease
from store.run import Run
from store.store import Store, open_store

__all__ = ["Annotator", "Collection", "Lease", "Run", "Store", "open_store"]
