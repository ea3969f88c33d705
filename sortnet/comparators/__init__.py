"""Comparators: CmpNN, DirectRanker, and committees of them."""

from sortnet.comparators.base import NeuralComparator
from sortnet.comparators.cmpnn import CmpNN
from sortnet.comparators.committee import Committee, as_one_cmpnn
from sortnet.comparators.directranker import DirectRanker

__all__ = ["CmpNN", "Committee", "DirectRanker", "NeuralComparator", "as_one_cmpnn"]
