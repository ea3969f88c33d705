"""Data: LETOR text, CSV, Parquet and data frames -> Queries; folds; the writer of LETOR.

Names are imported when first used, so that the compiled reader is loaded only to read LETOR text.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sortnet.data.cache import default_cache_dir
    from sortnet.data.read import Fold, read_fold, read_queries
    from sortnet.data.read_tables import from_frame
    from sortnet.files import fingerprint
    from sortnet.tables.letor import read_letor
    from sortnet.tables.letor_writer import write_letor

__all__ = [
    "Fold",
    "default_cache_dir",
    "fingerprint",
    "from_frame",
    "read_fold",
    "read_letor",
    "read_queries",
    "write_letor",
]

_MODULE_OF_NAME = {
    "Fold": "sortnet.data.read",
    "default_cache_dir": "sortnet.data.cache",
    "fingerprint": "sortnet.files",
    "from_frame": "sortnet.data.read_tables",
    "read_fold": "sortnet.data.read",
    "read_letor": "sortnet.tables.letor",
    "read_queries": "sortnet.data.read",
    "write_letor": "sortnet.tables.letor_writer",
}

if not TYPE_CHECKING:  # a type checker that saw this would accept every misspelt name

    def __getattr__(name):
        if name not in _MODULE_OF_NAME:
            raise AttributeError(f"module 'sortnet.data' has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF_NAME[name]), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
