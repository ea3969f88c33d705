"""SortNet: sort anything by a learned comparator that learns from the comparisons of its own sorts.

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
    from sortnet.explanation.attribution import explain_pair as explain
    from sortnet.explanation.columns import permutation_importance as importance
    from sortnet.judges import Function, LanguageModel, Program
    from sortnet.rankers.load_ranker import load_ranker
    from sortnet.rankers.model import Model
    from sortnet.tables.letor import read_letor
    from sortnet.tables.letor_writer import write_letor
    from store.asking.sort import estimate, sort
    from store.report.subject_page import report
    from store.store import open_store
    from store.training.train_or_resume import resume, train

__version__ = "0.5.0.dev0"

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
    "explain",
    "from_frame",
    "importance",
    "load_ranker",
    "open_store",
    "read_fold",
    "read_letor",
    "read_queries",
    "report",
    "resume",
    "sort",
    "train",
    "write_letor",
]

# {public name: the name of its module and its name there}
_SOURCES = {
    "CmpNN": ("sortnet.comparators", "CmpNN"),
    "Committee": ("sortnet.comparators", "Committee"),
    "DirectRanker": ("sortnet.comparators", "DirectRanker"),
    "Function": ("sortnet.judges", "Function"),
    "LanguageModel": ("sortnet.judges", "LanguageModel"),
    "Model": ("sortnet.rankers.model", "Model"),
    "Pairs": ("sortnet.core", "Pairs"),
    "Program": ("sortnet.judges", "Program"),
    "Queries": ("sortnet.core", "Queries"),
    "SortNetError": ("sortnet.errors", "SortNetError"),
    "SortNetRanker": ("sortnet.estimator", "SortNetRanker"),
    "estimate": ("store.asking.sort", "estimate"),
    "explain": ("sortnet.explanation.attribution", "explain_pair"),
    "from_frame": ("sortnet.data.read_tables", "from_frame"),
    "importance": ("sortnet.explanation.columns", "permutation_importance"),
    "load_ranker": ("sortnet.rankers.load_ranker", "load_ranker"),
    "open_store": ("store.store", "open_store"),
    "read_fold": ("sortnet.data", "read_fold"),
    "read_letor": ("sortnet.tables.letor", "read_letor"),
    "read_queries": ("sortnet.data", "read_queries"),
    "report": ("store.report.subject_page", "report"),
    "resume": ("store.training.train_or_resume", "resume"),
    "sort": ("store.asking.sort", "sort"),
    "train": ("store.training.train_or_resume", "train"),
    "write_letor": ("sortnet.tables.letor_writer", "write_letor"),
}

if not TYPE_CHECKING:  # a type checker that saw this would accept every misspelt name

    def __getattr__(name):
        """Import a public name when it is first used, and keep its value in this module."""
        if name not in _SOURCES:
            raise AttributeError(f"module 'sortnet' has no attribute {name!r}")
        module, name_there = _SOURCES[name]
        value = getattr(import_module(module), name_there)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
