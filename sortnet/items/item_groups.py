"""Checks of groups of items, and files of the pairs to ask; pairs are within groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sortnet.core import I64
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.tables.rows import Rows, listed, read_rows

_SIDES = ("left", "right")
_LISTED = 3  # groups named in a message


def lone_groups(items: Items) -> list[str]:
    """The names of the groups with one item, about which nothing can be asked.

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
    """One line about groups of one item.

    >>> note_on_lone_groups(["q1"])
    "1 group has one item, which is compared with nothing: 'q1'"
    """
    subject = "1 group has" if len(lone) == 1 else f"{len(lone)} groups have"
    names = ", ".join(map(shown, lone[:_LISTED]))
    if len(lone) > _LISTED:
        names += ", ..."
    return f"{subject} one item, which is compared with nothing: {names}"


def read_pairs(path: Path, items: Items) -> I64:
    """The pairs of items in a file of two columns of ids, each pair once, the lower number first.

    The columns are `left` and `right`, or the only two.

    Returns:
        (m, 2) item numbers.

    Raises:
        DataError: naming file and line, on other columns, an unknown id, an item paired with
            itself, a pair across groups, or a file without pairs.
    """
    rows = read_rows(path)
    left, right = (_numbers(rows, column, items) for column in _id_columns(rows))
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
    """The fault of a pair whose items are in different groups, in words; empty without a fault."""
    groups = items.groups
    if groups is None or groups[a] == groups[b]:
        return ""
    return (
        f"is of group {shown(groups[a])}, but {shown(items.ids[b])} of {shown(groups[b])}: pairs "
        "are within groups"
    )


def _id_columns(rows: Rows) -> tuple[str, ...]:
    """The names of the two columns of ids: `left` and `right`, or else the only two columns.

    Raises:
        DataError: if `left` or `right` is missing, and there are not two columns.
    """
    names = tuple(rows.columns)
    if all(side in names for side in _SIDES):
        return _SIDES
    if len(names) != 2:
        raise DataError(
            f"{rows.path}: needs the columns left and right, or two only; has {listed(names)}"
        )
    return names


def _numbers(rows: Rows, column: str, items: Items) -> list[int]:
    """The numbers of the items whose ids are in a column.

    Raises:
        DataError: on an unknown id.
    """
    number_of_id = {id: number for number, id in enumerate(items.ids)}
    ids = [id.strip() for id in rows.texts(column)]
    for row, id in enumerate(ids):
        if id not in number_of_id:
            raise DataError(f"{rows.place(row)}: there is no item {shown(id)}")
    return [number_of_id[id] for id in ids]
