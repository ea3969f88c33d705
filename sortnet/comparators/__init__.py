"""Comparators: soft trees, CmpNN, DirectRanker, and committees of nets.

A class is imported when it is first used, so that a model of soft trees ranks without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sortnet.comparators.base import NeuralComparator
    from sortnet.comparators.cmpnn import CmpNN
    from sortnet.comparators.committee import Committee
    from sortnet.comparators.directranker import DirectRanker
    from sortnet.comparators.forms import DualUnits, Form, Score
    from sortnet.comparators.make import (
        Make,
        MakeFor,
        MakeOne,
        Trainable,
        TrainableComparator,
        kind_of,
        make_comparator,
    )
    from sortnet.comparators.soft_trees import SoftTrees

__all__ = [
    "CmpNN",
    "Committee",
    "DirectRanker",
    "DualUnits",
    "Form",
    "Make",
    "MakeFor",
    "MakeOne",
    "NeuralComparator",
    "Score",
    "SoftTrees",
    "Trainable",
    "TrainableComparator",
    "kind_of",
    "make_comparator",
]

_MODULE_OF_NAME = {
    "CmpNN": "cmpnn",
    "Committee": "committee",
    "DirectRanker": "directranker",
    "DualUnits": "forms",
    "Form": "forms",
    "Make": "make",
    "MakeFor": "make",
    "MakeOne": "make",
    "NeuralComparator": "base",
    "Score": "forms",
    "SoftTrees": "soft_trees",
    "Trainable": "make",
    "TrainableComparator": "make",
    "kind_of": "make",
    "make_comparator": "make",
}

if not TYPE_CHECKING:  # with a module's `__getattr__` a type checker would accept any name

    def __getattr__(name):
        """Import a public name of this package when it is first used, from its module."""
        if name not in _MODULE_OF_NAME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
