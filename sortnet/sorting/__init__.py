"""Sorting with a learned comparator: the sort itself, diagnostics, a live ranking."""

from sortnet.sorting.sort import sort

__all__ = ["sort"]
