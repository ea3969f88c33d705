"""Groups of items, within which pairs are asked: their checks, and files of the pairs to ask."""

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
    """The groups of one item, about which nothing can be asked.

    Raises:
        DataError: if there are no others.
    """
    sizes = Counter(items.groups or ())
    alone = [name for name, size in sizes.items() if size == 1]
    if sizes and len(alone) == len(sizes):
        what = f"each group has one item, such as {shown(alone[0])}"
        raise DataError(f"{items.source}: {what}; sorting needs two in a group at least")
    return alone


def said_alone(alone: Sequence[str]) -> str:
    """One line about groups of one item.

    >>> said_alone(["q1"])
    "1 group has one item, which is compared with nothing: 'q1'"
    """
    what = "1 group has" if len(alone) == 1 else f"{len(alone)} groups have"
    more = ", ..." if len(alone) > _LISTED else ""
    names = ", ".join(map(shown, alone[:_LISTED]))
    return f"{what} one item, which is compared with nothing: {names}{more}"


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
    left, right = (_numbers(rows, column, items) for column in _columns(rows))
    for row, (a, b) in enumerate(zip(left, right, strict=True)):
        fault = "is paired with itself" if a == b else fault_across(items, a, b)
        if fault:
            raise DataError(f"{rows.place(row)}: item {shown(items.ids[a])} {fault}")
    if not left:
        raise DataError(f"{path}: there is no pair in it")
    found: I64 = np.unique(np.sort(np.array([left, right], np.int64).T, axis=1), axis=0)
    return found


def fault_across(items: Items, a: int, b: int) -> str:
    """What is wrong with comparing an item with one of another group; empty if nothing is."""
    groups = items.groups
    if groups is None or groups[a] == groups[b]:
        return ""
    there, here = shown(items.ids[b]), (shown(groups[a]), shown(groups[b]))
    return f"is of group {here[0]}, but {there} of {here[1]}: pairs are within groups"


def _columns(rows: Rows) -> tuple[str, ...]:
    names = tuple(rows.columns)
    if {*_SIDES} <= {*names}:
        return _SIDES
    if len(names) != 2:
        needed = "needs the columns left and right, or two only"
        raise DataError(f"{rows.path}: {needed}; has {listed(names)}")
    return names


def _numbers(rows: Rows, column: str, items: Items) -> list[int]:
    known = {id: number for number, id in enumerate(items.ids)}
    names = [name.strip() for name in rows.texts(column)]
    for row, name in enumerate(names):
        if name not in known:
            raise DataError(f"{rows.place(row)}: there is no item {shown(name)}")
    return [known[name] for name in names]
