"""Read vote files: two items and an answer per row, under various column names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError
from sortnet.items.rows import Rows, read_rows, shown
from sortnet.preference.vote_arrays import Votes

_LEFT = ("left", "arg1", "item1", "item_1", "first", "a1", "a")
_RIGHT = ("right", "arg2", "item2", "item_2", "second", "a2", "b")
_ANSWER = ("answer", "value", "vote", "label", "winner", "choice")
_SAID = {
    **dict.fromkeys(("left", "a1", "arg1", "item1", "first", "a", "1"), 1.0),
    **dict.fromkeys(("right", "a2", "arg2", "item2", "second", "b", "2"), 0.0),
    **dict.fromkeys(("tie", "equal", "draw", "same", "0"), 0.5),
}
_NOTHING = ("skip", "cant-say", "")


def read_votes(
    path: Path, items: Mapping[str, int], by: str | None = None
) -> tuple[Votes, NDArray[np.int64] | None]:
    """Votes of a CSV, TSV, JSONL or Parquet file.

    Columns are recognized by name: left and right, or arg1 and arg2, ...; answer, value, vote,
    ... An answer is left, a1, 1, ..., right, a2, 2, ..., tie, equal, 0, ..., or an item's id.

    Args:
        items: {id: number}.
        by: a column of group names.

    Returns:
        The votes, and with `by` the number of each one's group.

    Raises:
        DataError: on a column that is missing, an unknown item or answer, with its line.
    """
    rows = read_rows(path)
    left, right = (_items(rows, _column(rows, names), items) for names in (_LEFT, _RIGHT))
    column = _column(rows, _ANSWER)
    answers = rows.columns[column]
    if {str(said).strip() for said in answers} - {*_NOTHING, *items} == {"0", "1"}:
        raise DataError(
            f"{path}: column {column!r} has only 0 and 1, and 0 would be a tie: write left or "
            "right, 1 or 2, a1 or a2, or an item's id; tie for neither"
        )

    def target(k: int, word: str) -> float:
        """1 for left, 0 for right, ½ for a tie, NaN for none of them."""
        if word.lower() in _NOTHING:
            return float("nan")
        if left[k] == right[k]:
            raise DataError(f"{rows.place(k)}: an item is compared with itself")
        # Ids take precedence: items may be named 1 and 2.
        if items.get(word) in (left[k], right[k]):
            return float(items[word] == left[k])
        if word.lower() not in _SAID:
            raise DataError(f"{rows.place(k)}: unknown answer {shown(str(answers[k]))}")
        return _SAID[word.lower()]

    targets = np.array([target(k, str(said).strip()) for k, said in enumerate(answers)])
    said = ~np.isnan(targets)
    if not said.any():
        raise DataError(f"{path}: has no votes")
    known = Votes.of_one(left, right, targets).where(said)
    if by is None:
        return known, None
    names = [str(name) for name in rows.columns[_column(rows, (by,))]]
    return known, np.unique(names, return_inverse=True)[1][said]


def _column(rows: Rows, names: tuple[str, ...]) -> str:
    low = {name.lower(): name for name in rows.columns}
    found = next((low[name.lower()] for name in names if name.lower() in low), None)
    if found is None:
        raise DataError(f"{rows.path}: has none of the columns {', '.join(names)}")
    return found


def _items(rows: Rows, column: str, items: Mapping[str, int]) -> Any:
    numbers = np.empty(len(rows.lines), np.int64)
    for k, name in enumerate(rows.columns[column]):
        number = items.get(str(name).strip())
        if number is None:
            raise DataError(f"{rows.place(k)}: unknown item {shown(name)}")
        numbers[k] = number
    return numbers
