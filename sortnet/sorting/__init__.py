"""Sorting with a learned comparator: the sort, its diagnostics, and a live ranking."""

from sortnet.sorting.diagnostics import cyclic_triples, rank_changes
from sortnet.sorting.live import LiveRanking, pairwise
from sortnet.sorting.sort import sort

__all__ = ["LiveRanking", "cyclic_triples", "pairwise", "rank_changes", "sort"]
