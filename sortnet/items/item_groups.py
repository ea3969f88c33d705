"""Check groups of items, and read files of pairs to ask; items are compared within groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sortnet.core import I64
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.tables.read_rows import read_rows
from sortnet.tables.rows import listed

_SIDES = ("left", "right")


def lone_groups(items: Items) -> list[str]:
    """List the names of groups with a single item, about which nothing can be asked.

    Raises:
        DataError: if all groups have one item.
    """
    sizes = Counter(items.groups or ())
    lone = [name for name, size in sizes.items() if size == 1]
    if sizes and len(lone) == len(sizes):
        raise DataError(
            f"{items.source}: each group has one item, such as {shown(lone[0])}; sorting needs two "
            "in a group at least"
        )
    return lone


def note_on_lone_groups(lone: Sequence[str]) -> str:
    """Make a note of one line about groups that have a single item.

    >>> note_on_lone_groups(["q1"])
    "1 group has one item, which is compared with nothing: 'q1'"
    """
    subject = "1 group has" if len(lone) == 1 else f"{len(lone)} groups have"
    return f"{subject} one item, which is compared with nothing: {listed(map(shown, lone))}"


def read_pairs(path: Path, items: Items) -> I64:
    """Read pairs of items from a table with two columns of ids.

    The columns are named `left` and `right`, or the table has no other columns.

    Args:
        path: file of the table.
        items: all items.

    Returns:
        (m, 2) the numbers of the items in each of m different pairs, the lower number first.

    Raises:
        DataError: naming file and line, on other columns, an unknown id, an item paired with
            itself, a pair across groups, or a file without pairs.
    """
    rows = read_rows(path)
    columns = _SIDES if {*_SIDES} <= rows.columns.keys() else tuple(rows.columns)
    if len(columns) != 2:
        raise DataError(
            f"{rows.path}: needs the columns left and right, or two only; has {listed(columns)}"
        )
    number_of_id = {id: number for number, id in enumerate(items.ids)}
    pairs = []
    for row, ids in enumerate(zip(*map(rows.texts, columns), strict=True)):
        pair = []
        for id in map(str.strip, ids):
            if id not in number_of_id:
                raise DataError(f"{rows.place(row)}: there is no item {shown(id)}")
            pair.append(number_of_id[id])
        a, b = pair
        fault = "is paired with itself" if a == b else fault_across(items, a, b)
        if fault:
            raise DataError(f"{rows.place(row)}: item {shown(items.ids[a])} {fault}")
        pairs.append(sorted(pair))
    if not pairs:
        raise DataError(f"{path}: there is no pair in it")
    different_pairs: I64 = np.unique(np.array(pairs, np.int64), axis=0)
    return different_pairs


def fault_across(items: Items, a: int, b: int) -> str:
    """Explain why items of different groups cannot be compared; empty if the group is the same."""
    groups = items.groups
    if groups is None or groups[a] == groups[b]:
        return ""
    return (
        f"is of group {shown(groups[a])}, but {shown(items.ids[b])} of {shown(groups[b])}: pairs "
        "are within groups"
    )
