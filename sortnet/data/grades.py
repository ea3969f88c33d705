"""Read grades from a table's column: whole numbers, or any numbers divided into bins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64, I32, Bool, NamedColumns, grade_fault
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.tables.rows import Rows
from sortnet.tables.values import numbers_of


def read_grades(
    rows: Rows, column: str | None, columns: NamedColumns, *, labelled: bool
) -> tuple[I32, NamedColumns]:
    """Read the grade (n,) of each row; also return `columns` completed with the edges of the bins.

    Bins whose edges are left open get the quantiles of these rows as edges.

    Args:
        column: the column of the grades; None: all grades are 0.
        columns: the names of the columns, and the bins of the grade.
        labelled: whether every row must have a grade; otherwise a missing grade is 0.

    Raises:
        DataError: naming the row of a grade that is missing, no number, or no whole number where
            no bins are asked for.
    """
    if column is None:
        return np.zeros(len(rows), np.int32), columns
    in_bins = columns.bins is not None
    numbers, missing = grade_numbers(rows, column, labelled=labelled, are_grades=not in_bins)
    if not in_bins:
        return np.where(missing, 0, numbers).astype(np.int32), columns
    edges = columns.edges
    if not edges and labelled:
        edges = quantile_edges(numbers, columns.bins or 0, f"{rows.path}: column {shown(column)}")
    return np.where(missing, 0, in_which_bin(numbers, edges)), replace(columns, edges=edges)


def quantile_edges(numbers: ArrayLike, bins: int, source: str = "data") -> tuple[float, ...]:
    """Edges between bins of about the same size: the lowest number of every bin but the first.

    If there are at most as many different numbers as bins, each number has its own bin. Numbers
    that repeat can make fewer bins than `bins`.

    Raises:
        DataError: if all numbers are alike.

    >>> quantile_edges([1.5, 2.5, 3.5, 4.5], 2), quantile_edges([0, 0, 0, 7], 3)
    ((3.0,), (7.0,))
    """
    values = np.asarray(numbers, np.float64)
    different = np.unique(values)
    if 1 < len(different) <= bins:
        return tuple(different[1:].tolist())
    quantiles = np.unique(np.quantile(values, np.arange(1, bins) / bins))
    edges = quantiles[quantiles > values.min()]
    if not len(edges) and values.max() > values.min():
        edges = values.max(keepdims=True)
    if not len(edges):
        raise DataError(f"{source} has one number in every row: there is nothing to divide in bins")
    return tuple(edges.tolist())


def in_which_bin(numbers: ArrayLike, edges: ArrayLike) -> I32:
    """Bin (n,) of each number, from 0: how many edges are at or below the number.

    >>> in_which_bin([2.9, 3.0, 9.0], [3.0]).tolist()
    [0, 1, 1]
    """
    return np.searchsorted(np.asarray(edges, np.float64), numbers, side="right").astype(np.int32)


def grade_numbers(rows: Rows, column: str, *, labelled: bool, are_grades: bool) -> tuple[F64, Bool]:
    """Read the numbers (n,) in a column, and whether (n,) the number of each row is missing.

    Args:
        rows: the table.
        column: the name of the column.
        labelled: whether every row must have a number.
        are_grades: whether the numbers must be whole numbers from 0.

    Raises:
        DataError: naming the first row with a fault.
    """
    cells = rows.columns[column]
    numbers, wrong = numbers_of(cells)
    missing = np.isnan(numbers) & ~wrong
    infinite = np.isinf(numbers)
    is_grade = (numbers >= 0) & (numbers <= np.iinfo(np.int32).max) & (numbers == np.floor(numbers))
    name = shown(column)
    if wrong.any():
        row = int(wrong.argmax())
        fault = f"the grade in column {name}: {shown(cells[row])} is not a number"
        raise DataError(f"{rows.place(row)}: {fault}")
    if labelled and missing.any():
        row = int(missing.argmax())
        raise DataError(f"{rows.place(row)}: there is no grade in column {name}")
    is_no_grade = ~missing & ~is_grade
    if are_grades and is_no_grade.any():
        row = int(is_no_grade.argmax())
        advice = f"sortnet train --bins N makes N grades of the numbers of column {name}"
        raise DataError(f"{rows.place(row)}: {grade_fault(f'{numbers[row]:g}')}; {advice}")
    if infinite.any():
        row = int(infinite.argmax())
        raise DataError(f"{rows.place(row)}: the grade in column {name} is infinite")
    return numbers, missing
