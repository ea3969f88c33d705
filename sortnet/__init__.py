"""SortNet: sort anything by a learned comparator that learns from what it gets wrong.

Names are imported when first used, so that `import sortnet` costs nothing and loads no torch.

>>> import sortnet
>>> sortnet.Pairs.empty()  # doctest: +ELLIPSIS
Pairs(...)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sortnet.comparators import CmpNN, Committee, DirectRanker
    from sortnet.core import Pairs, Queries
    from sortnet.data import read_fold, read_queries
    from sortnet.data.read_tables import from_frame
    from sortnet.errors import SortNetError
    from sortnet.estimator import SortNetRanker
    from sortnet.judges import Function, LanguageModel, Program
    from sortnet.rankers.load_ranker import load_ranker
    from sortnet.rankers.model import Model
    from sortnet.tables.letor import read_letor
    from sortnet.tables.letor_writer import write_letor
    from store.asking.sort import estimate, sort

__version__ = "0.4.0"

__all__ = [
    "CmpNN",
    "Committee",
    "DirectRanker",
    "Function",
    "LanguageModel",
    "Model",
    "Pairs",
    "Program",
    "Queries",
    "SortNetError",
    "SortNetRanker",
    "__version__",
    "estimate",
    "from_frame",
    "load_ranker",
    "read_fold",
    "read_letor",
    "read_queries",
    "sort",
    "write_letor",
]

_NAMES_OF_MODULE = {
    "sortnet.comparators": ("CmpNN", "Committee", "DirectRanker"),
    "sortnet.data": ("read_fold", "read_queries"),
    "sortnet.data.read_tables": ("from_frame",),
    "sortnet.errors": ("SortNetError",),
    "sortnet.estimator": ("SortNetRanker",),
    "sortnet.judges": ("Function", "LanguageModel", "Program"),
    "sortnet.rankers.load_ranker": ("load_ranker",),
    "sortnet.rankers.model": ("Model",),
    "sortnet.tables.letor": ("read_letor",),
    "sortnet.tables.letor_writer": ("write_letor",),
    "sortnet.core": ("Pairs", "Queries"),
    "store.asking.sort": ("estimate", "sort"),
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names}

if not TYPE_CHECKING:  # a type checker that saw this would accept every misspelt name

    def __getattr__(name):
        """Import a public name when it is first used, and keep its value in this module."""
        if name not in _MODULE_OF_NAME:
            raise AttributeError(f"module 'sortnet' has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF_NAME[name]), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
