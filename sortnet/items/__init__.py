"""Piles of things to be sorted: reading them, and features for those that have none."""

from sortnet.items.items import Items

__all__ = ["Items"]
