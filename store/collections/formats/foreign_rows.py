"""Convert the rows of another tool's file to votes about items of the collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from sortnet.items import Items
from sortnet.tables.rows import Rows, listed
from store.collections.formats import arena, argilla, chosen, label_studio
from store.collections.formats.faults import refuse
from store.collections.formats.item_finder import ItemFinder, Record

# A function that yields the votes of a record. Its first argument names the record in messages.
ReadRecord: TypeAlias = Callable[[str, Record], Iterator[dict[str, Any]]]

# {format: columns by which a file of this format is recognised}.
FOREIGN_COLUMNS: dict[str, tuple[str, ...]] = {
    "arena": arena.COLUMNS,
    "chosen": chosen.COLUMNS,
    "label-studio": label_studio.COLUMNS,
    "argilla": argilla.COLUMNS,
}
_VOTE_COLUMNS = ({"left", "right", "answer"}, {"winner", "loser"})


def votes_of_foreign_rows(
    rows: Rows,
    items: Items,
    form: str | None = None,
    sides: tuple[str, str] | None = None,
) -> Rows:
    """Convert rows of another tool's file to rows with the columns of a judgement file.

    The new rows name items by their ids, answers and annotators. Rows that are already in the
    format of a judgement file are returned as they are.

    Args:
        rows: the rows of the file.
        items: the items of the collection.
        form: name of the format, a key of `FOREIGN_COLUMNS`. If None, it is recognised by the
            columns.
        sides: the fields of Label Studio's tasks that have the left and the right item.

    Raises:
        DataError: if it is not certain which items a row is about.
    """
    if form is None:
        form = _form_of_columns({*rows.columns})
    if form is None:
        return rows
    missing = [name for name in FOREIGN_COLUMNS[form] if name not in rows.columns]
    if missing and not rows.lines:
        return rows  # an empty file has no columns
    if missing:
        columns = f"needs {', '.join(missing)}; has {listed(rows.columns)}"
        refuse(str(rows.path), f"a file of {form} {columns}")
    records = [
        dict(zip(rows.columns, values, strict=True))
        for values in zip(*rows.columns.values(), strict=True)
    ]
    read_record = _record_reader(form, str(rows.path), records, ItemFinder(items), sides)
    votes: list[dict[str, Any]] = []
    lines: list[int] = []
    for row, record in enumerate(records):
        for vote in read_record(rows.place(row), record):
            votes.append(vote)
            lines.append(rows.lines[row])
    return Rows(rows.path, _columns_of_votes(votes), lines, rows.unit)


def _columns_of_votes(votes: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Convert votes {column: cell} to columns {name: cells}; a cell that a vote lacks is None.

    >>> _columns_of_votes([{"winner": "a", "loser": "b"}, {"winner": "c", "at": 1}])
    {'winner': ['a', 'c'], 'loser': ['b', None], 'at': [None, 1]}
    """
    names = dict.fromkeys(name for vote in votes for name in vote)
    return {name: [vote.get(name) for vote in votes] for name in names}


def _form_of_columns(names: set[str]) -> str | None:
    """Recognise the format of another tool by the names of columns; None if it is no such file."""
    if any(columns <= names for columns in _VOTE_COLUMNS):
        return None  # the columns of a judgement file
    for form, columns in FOREIGN_COLUMNS.items():
        if names.issuperset(columns):
            return form
    return None


def _record_reader(
    form: str,
    path: str,
    records: Sequence[Record],
    finder: ItemFinder,
    sides: tuple[str, str] | None,
) -> ReadRecord:
    """Check all records of a file together, and return the function that reads one record."""
    if form == "arena":
        arena.check_models(path, records, finder)
        return arena.read_battle
    if form == "chosen":
        return partial(chosen.read_record, finder)
    if form == "label-studio":
        label_studio.check_controls(path, records)
        return partial(label_studio.read_task, finder, sides)
    return partial(argilla.read_record, finder, argilla.compared_question(path, records))
