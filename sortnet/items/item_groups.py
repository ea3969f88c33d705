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
from sortnet.tables.rows import Rows, listed

_SIDES = ("left", "right")
_LISTED = 3  # number of groups that a message names


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
    names = ", ".join(map(shown, lone[:_LISTED]))
    if len(lone) > _LISTED:
        names += ", ..."
    return f"{subject} one item, which is compared with nothing: {names}"


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
    left_column, right_column = _id_columns(rows)
    left = _numbers_of_items(rows, left_column, items)
    right = _numbers_of_items(rows, right_column, items)
    for row, (a, b) in enumerate(zip(left, right, strict=True)):
        fault = "is paired with itself" if a == b else fault_across(items, a, b)
        if fault:
            raise DataError(f"{rows.place(row)}: item {shown(items.ids[a])} {fault}")
    if not left:
        raise DataError(f"{path}: there is no pair in it")
    pairs = np.sort(np.array([left, right], np.int64).T, axis=1)
    different_pairs: I64 = np.unique(pairs, axis=0)
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


def _id_columns(rows: Rows) -> tuple[str, ...]:
    """Return the names of the two columns of ids: `left` and `right`, or the only two columns.

    Raises:
        DataError: if `left` or `right` is missing, and the table does not have two columns.
    """
    names = tuple(rows.columns)
    if all(side in names for side in _SIDES):
        return _SIDES
    if len(names) != 2:
        raise DataError(
            f"{rows.path}: needs the columns left and right, or two only; has {listed(names)}"
        )
    return names


def _numbers_of_items(rows: Rows, column: str, items: Items) -> list[int]:
    """Convert the ids in a column to numbers of items.

    Raises:
        DataError: on an id that no item has.
    """
    number_of_id = {id: number for number, id in enumerate(items.ids)}
    ids = [id.strip() for id in rows.texts(column)]
    for row, id in enumerate(ids):
        if id not in number_of_id:
            raise DataError(f"{rows.place(row)}: there is no item {shown(id)}")
    return [number_of_id[id] for id in ids]
