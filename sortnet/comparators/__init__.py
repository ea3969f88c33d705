"""Comparators: CmpNN, DirectRanker, and committees of them."""

from sortnet.comparators.base import Margin, NeuralComparator, margin_of
from sortnet.comparators.cmpnn import CmpNN
from sortnet.comparators.committee import Committee
from sortnet.comparators.directranker import DirectRanker
from sortnet.comparators.forms import DualUnits, Form, Score
from sortnet.comparators.make import Learner, Make, MakeFor, MakeOne, kind_of, make_comparator

__all__ = [
    "CmpNN",
    "Committee",
    "DirectRanker",
    "DualUnits",
    "Form",
    "Learner",
    "Make",
    "MakeFor",
    "MakeOne",
    "Margin",
    "NeuralComparator",
    "Score",
    "kind_of",
    "make_comparator",
    "margin_of",
]
