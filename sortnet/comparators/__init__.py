"""Comparators: soft trees, CmpNN, DirectRanker, and committees of nets."""

from sortnet.comparators.base import Margin, NeuralComparator, margin_of
from sortnet.comparators.cmpnn import CmpNN
from sortnet.comparators.committee import Committee
from sortnet.comparators.directranker import DirectRanker
from sortnet.comparators.forms import DualUnits, Form, Score
from sortnet.comparators.make import (
    Make,
    MakeFor,
    MakeOne,
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
    "Margin",
    "NeuralComparator",
    "Score",
    "SoftTrees",
    "TrainableComparator",
    "kind_of",
    "make_comparator",
    "margin_of",
]
