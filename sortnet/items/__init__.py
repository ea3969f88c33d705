"""Piles of things to be sorted: reading them, and features for those that have none."""

from sortnet.items.base import Items
from sortnet.items.columns import Taken
from sortnet.items.features import describe, given_only
from sortnet.items.read_items import read_and_tell, read_items
from sortnet.items.update import merge

__all__ = ["Items", "Taken", "describe", "given_only", "merge", "read_and_tell", "read_items"]
