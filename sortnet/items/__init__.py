"""Piles of things to be sorted: reading them, and features for those that have none."""

from sortnet.items.columns import Taken
from sortnet.items.features import describe
from sortnet.items.items import Items
from sortnet.items.read import read_and_tell, read_items

__all__ = ["Items", "Taken", "describe", "read_and_tell", "read_items"]
