"""Items of a collection: reading them from files, and making features from texts and images."""

from sortnet.items.base import Items
from sortnet.items.features import Describer, describe, given_only, readable_names
from sortnet.items.read_items import read_items, read_with_roles
from sortnet.items.update import merge
from sortnet.tables.roles import Columns

__all__ = [
    "Columns",
    "Describer",
    "Items",
    "describe",
    "given_only",
    "merge",
    "read_items",
    "read_with_roles",
    "readable_names",
]
