"""Result of `sortnet items list`: the collections of a store."""

from __future__ import annotations

from typing import Any

from cli.printing.results import Column, Result, Step, Table
from store.service.existing_store import ITEMS_MAKER


def collections_result(rows: list[dict[str, Any]]) -> Result:
    """Make the result with a row for each collection.

    In an empty store, the next step is the command that makes a collection.
    """
    if not rows:
        step = Step(ITEMS_MAKER, f"no collections yet: {ITEMS_MAKER} makes one")
        return Result("collections", rows, next=step)
    return Result("collections", rows, text=[Table(_COLUMNS, rows)])


_COLUMNS = [
    Column("collection", lambda row: str(row["name"])),
    Column("items", lambda row: str(row["items"])),
    Column("features", lambda row: str(row["features"])),
    Column("annotators", lambda row: str(row["annotators"])),
    Column("judgements", lambda row: str(row["judgements"])),
    Column("started UTC", lambda row: str(row["created"])[:16].replace("T", " ")),
]
