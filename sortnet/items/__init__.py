"""Piles of things to be sorted: reading them, and features for those that have none."""

from sortnet.items.columns import Taken
from sortnet.items.features import describe, given_only
from sortnet.items.items import Items
from sortnet.items.merge import merge
from sortnet.items.read import read_and_tell, read_items

__all__ = ["Items", "Taken", "describe", "given_only", "merge", "read_and_tell", "read_items"]
