"""The pair store: runs, iterations and pairs in SQLite or PostgreSQL."""

from store.run import Run
from store.store import Store, open_store

__all__ = ["Run", "Store", "open_store"]
