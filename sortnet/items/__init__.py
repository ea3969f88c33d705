"""Items of a collection: reading them, and features for items that have none."""

from sortnet.items.base import Items
from sortnet.items.columns import Columns
from sortnet.items.features import Describer, describe, given_only
from sortnet.items.read_described import read_described
from sortnet.items.read_items import read_items, read_with_roles
from sortnet.items.update import merge

__all__ = [
    "Columns",
    "Describer",
    "Items",
    "describe",
    "given_only",
    "merge",
    "read_described",
    "read_items",
    "read_with_roles",
]
