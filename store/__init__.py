"""The store: runs with their pairs, collections with their judgements; SQLite or PostgreSQL."""

from store.collections.collection import Collection
from store.collections.collection_rows import Annotator
from store.collections.leases import Lease
from store.runs.run import Run
from store.store import Store, open_store

__all__ = ["Annotator", "Collection", "Lease", "Run", "Store", "open_store"]
