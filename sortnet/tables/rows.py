"""Rows of a table by column, and what all readers of tables share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sortnet.core import I64
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.tables.values import (
    Cells,
    are_dates,
    is_missing,
    may_have_numbers,
    numbers_of,
    word,
)

MAX_COLUMNS = 100_000

_LISTED = 20  # largest number of names of columns that a message shows
_COMPARED = 1000  # largest number of names with which a misspelt name is compared

Keep: TypeAlias = Callable[[str], bool]  # whether the cells of a column are kept as read


@dataclass(frozen=True)
class Rows:
    """A table that was read from a file, several files or a data frame.

    Attributes:
        path: the file, or a name for messages.
        columns: {name: the cells of the column}. A column of numbers is a float64 array (n_rows,),
            NaN for a missing number. Any other column, and a column whose cells are kept as read,
            is a list of cells; a cell may be a list or dict.
        lines: the line at which each row starts, from 1; in a frame the number of the row, from 0.
        unit: the word for a number in `lines` in messages: `line`, `row` or `record`.
        unfinished: whether the text does not end with a newline.
        files: if there are several files, the first row and the path of each file.
        dates: names of the columns of dates, whose cells are numbers of days.
    """

    path: Path | str
    columns: dict[str, Cells]
    lines: Sequence[int]
    unit: str = "line"
    unfinished: bool = False
    files: Sequence[tuple[int, Path]] = ()
    dates: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """Write where a row is, for messages: `FILE, line 7`; row -1 is the last row."""
        path = self.path
        if self.files:
            first_rows = [first for first, _ in self.files]
            row_from_start = row % max(len(self), 1)  # turns -1 into the number of the last row
            # The file of a row is the last file that begins at the row or before it.
            file_number = bisect_right(first_rows, row_from_start) - 1
            _, path = self.files[file_number]
        return f"{path}, {self.unit} {self.lines[row]}"

    def take(self, numbers: I64) -> Rows:
        """Select the rows with the given numbers, which must be ascending."""
        columns: dict[str, Cells] = {}
        for name, cells in self.columns.items():
            if isinstance(cells, list):
                columns[name] = [cells[k] for k in numbers]
            else:
                columns[name] = cells[numbers]
        # Each file now starts at the row after the last selected row of the files before it.
        starts = np.searchsorted(numbers, [first for first, _ in self.files]).tolist()
        files = [(start, path) for start, (_, path) in zip(starts, self.files, strict=True)]
        lines = [self.lines[k] for k in numbers]
        return replace(self, columns=columns, lines=lines, files=files)

    def dicts(self) -> list[dict[str, Any]]:
        """Convert the rows to dicts, {column: cell}.

        >>> Rows("t", {"id": ["a", "b"], "size": np.array([1.0, 2.5])}, [2, 3]).dicts()
        [{'id': 'a', 'size': 1.0}, {'id': 'b', 'size': 2.5}]
        """
        columns = {name: np.asarray(cells, object).tolist() for name, cells in self.columns.items()}
        return [{name: cells[k] for name, cells in columns.items()} for k in range(len(self))]

    def texts(self, column: str | None) -> list[str]:
        """Convert the cells of a column to texts; without a column (None) all texts are empty.

        Raises:
            DataError: if a cell is neither text nor number.
        """
        if column is None:
            return [""] * len(self)
        texts = list[str]()
        for cell in self.columns[column]:
            try:
                texts.append(cell if type(cell) is str else word(cell))
            except TypeError as error:
                fault = f"column {shown(column)} holds {error}: {shown(cell)}"
                raise DataError(f"{self.place(len(texts))}: {fault}") from None
        return texts


def listed(names: Iterable[str]) -> str:
    """List names of columns for a message, in one line.

    >>> listed(["id", "two\\nlines"])
    'id, two lines'
    """
    short_names = [name[:60] for name in islice(names, _LISTED + 1)]
    if len(short_names) > _LISTED:
        short_names[_LISTED] = "..."
    return " ".join(", ".join(short_names).split())


def no_column(name: str, columns: Iterable[str]) -> str:
    """Write the message that no column is called `name`, with the names of columns that exist.

    The message proposes the most similar name, if there is one.

    >>> no_column("Stars", ["search", "stars"])
    "there is no column 'Stars' in search, stars: did you mean 'stars'?"
    >>> no_column("x", ["search", "stars"])
    "there is no column 'x' in search, stars"
    """
    columns = [*islice(columns, _COMPARED)]
    fault = f"there is no column {shown(name)} in {listed(columns)}"
    by_lower = {_comparable(column): column for column in reversed(columns)}
    nearest = get_close_matches(_comparable(name), by_lower, n=1)
    if nearest:
        fault += f": did you mean {shown(by_lower[nearest[0]])}?"
    return fault


def _comparable(name: str) -> str:
    return name[:60].lower()


def numbers_if_all_are(cells: Cells) -> Cells:
    """Convert cells to an array if all are finite numbers or missing, and not all are missing.

    Other cells are returned as they are. Cells with an infinite number stay as read, so that a
    message can show the number.
    """
    if isinstance(cells, np.ndarray) or not may_have_numbers(cells):
        return cells
    numbers, is_wrong = numbers_of(cells)
    is_infinite = np.abs(numbers) > np.finfo(np.float32).max
    if is_wrong.any() or is_infinite.any() or np.isnan(numbers).all():
        return cells
    return numbers


def rows_of_cells(
    path: Path, columns: dict[str, Cells], lines: Sequence[int], unit: str, keep: Keep
) -> Rows:
    """Make a table of cells as they were read, and convert columns of numbers to arrays.

    Args:
        path: the file.
        columns: {name: cells}.
        lines: the line or the number of each row.
        unit: the unit of `lines`.
        keep: says whether the cells of a column are kept as read.
    """
    dates = frozenset(name for name, cells in columns.items() if are_dates(cells))
    converted = {
        name: cells if keep(name) else numbers_if_all_are(cells) for name, cells in columns.items()
    }
    return Rows(path, converted, lines, unit, dates=dates)


def join_rows(tables: Sequence[Rows]) -> Rows:
    """Join the rows of tables; if a table lacks a column, its rows have None in that column."""
    names = dict.fromkeys(name for table in tables for name in table.columns)
    columns = {
        name: _join_cells([table.columns.get(name, [None] * len(table)) for table in tables])
        for name in names
    }
    lines = [line for table in tables for line in table.lines]
    dates = frozenset(name for table in tables for name in table.dates)
    return replace(tables[0], columns=columns, lines=lines, dates=dates)


def _join_cells(chunks: Sequence[Cells]) -> Cells:
    """Join the cells of several chunks: to an array if they are arrays or missing, else to a list.

    In a list, numbers of the arrays become texts, and missing numbers None.
    """
    if len(chunks) == 1:
        return chunks[0]
    has_numbers = [isinstance(chunk, np.ndarray) for chunk in chunks]
    if any(has_numbers):
        are_numbers_or_missing = all(
            is_array or all(map(is_missing, chunk))
            for is_array, chunk in zip(has_numbers, chunks, strict=True)
        )
        if are_numbers_or_missing:
            return np.concatenate([numbers_of(chunk)[0] for chunk in chunks])
    cells: list[Any] = []
    for chunk in chunks:
        if isinstance(chunk, np.ndarray):
            cells += [word(number) or None for number in chunk.tolist()]
        else:
            cells += chunk
    return cells


def check_header(place: str, header: list[str]) -> None:
    """Strip the names of columns in place; refuse empty or repeated names, and too many names."""
    header[:] = [name.strip() for name in header]
    if len(header) > MAX_COLUMNS:
        raise DataError(f"{place}: has {len(header)} columns; the limit is {MAX_COLUMNS}")
    if "" in header:
        raise DataError(f"{place}: column {header.index('') + 1} has no name")
    repeated = first_repeated(header)
    if repeated is not None:
        raise DataError(f"{place}: there are two columns {shown(repeated)}")


def first_repeated(names: Iterable[str]) -> str | None:
    """Find the first name that occurred before; None if there is no such name."""
    earlier_names = set[str]()
    for name in names:
        if name in earlier_names:
            return name
        earlier_names.add(name)
    return None
