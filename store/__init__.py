"""The store: runs with their pairs, collections with their judgements; SQLite or PostgreSQL.

Names are imported when first used: a module of this package can be used without the database.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.collections.collection import Collection
    from store.collections.leases import Annotator, Lease
    from store.runs.run import Run
    from store.store import Store, open_store

__all__ = ["Annotator", "Collection", "Lease", "Run", "Store", "open_store"]

_MODULE_OF_NAME = {
    "Annotator": "store.collections.leases",
    "Collection": "store.collections.collection",
    "Lease": "store.collections.leases",
    "Run": "store.runs.run",
    "Store": "store.store",
    "open_store": "store.store",
}

if not TYPE_CHECKING:  # a type checker that saw this would accept every misspelt name

    def __getattr__(name):
        if name not in _MODULE_OF_NAME:
            raise AttributeError(f"module 'store' has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF_NAME[name]), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
