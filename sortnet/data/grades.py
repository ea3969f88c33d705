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
    """Read the grade of each row, or divide the numbers of a column into bins, which are grades.

    If `columns` asks for bins without giving their edges, the edges are quantiles of these rows.

    Args:
        rows: the table.
        column: name of the column of the grades. If None, all grades are 0.
        columns: names of the columns, and the number of bins into which the grades are divided.
        labelled: whether every row must have a grade. If False, a missing grade is 0.

    Returns:
        The grades (n_rows,), and `columns` with the edges of the bins.

    Raises:
        DataError: if a grade is missing, is not a number, or is not a whole number although there
            are no bins. The message names the row.
    """
    if column is None:
        return np.zeros(len(rows), np.int32), columns
    if columns.bins is None:
        grades, missing = grade_numbers(rows, column, labelled=labelled, are_grades=True)
        return np.where(missing, 0, grades).astype(np.int32), columns
    numbers, missing = grade_numbers(rows, column, labelled=labelled, are_grades=False)
    edges = columns.edges
    if not edges and labelled:
        edges = quantile_edges(numbers, columns.bins, f"{rows.path}: column {shown(column)}")
    return np.where(missing, 0, in_which_bin(numbers, edges)), replace(columns, edges=edges)


def quantile_edges(numbers: ArrayLike, bins: int, source: str = "data") -> tuple[float, ...]:
    """Compute edges between bins of about equal size: the lowest number of each bin but the first.

    If there are at most as many different numbers as bins, each number has its own bin. Because of
    repeated numbers there can be fewer bins than `bins`.

    Raises:
        DataError: if all numbers are equal.

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
        # Nearly all numbers are the lowest number. The highest number gets a bin of its own.
        edges = values.max(keepdims=True)
    if not len(edges):
        raise DataError(f"{source} has one number in every row: there is nothing to divide in bins")
    return tuple(edges.tolist())


def deviations_in_queries(grades: ArrayLike, qid: ArrayLike | None) -> F64:
    """Subtract from each grade the mean grade of its query, (n,).

    Args:
        grades: (n,) the grades.
        qid: (n,) the query of each document, in any order; None: all are one query.

    >>> deviations_in_queries([1, 3, 0], ["a", "a", "b"]).tolist()
    [-1.0, 1.0, 0.0]
    """
    values = np.asarray(grades, np.float64)
    queries = np.zeros(len(values), np.int64)
    if qid is not None:
        _, queries = np.unique(np.asarray(qid).astype(str), return_inverse=True)
    means = np.bincount(queries, values) / np.bincount(queries)
    deviations: F64 = values - means[queries]
    return deviations


def in_which_bin(numbers: ArrayLike, edges: ArrayLike) -> I32:
    """Find the bin (n,) of each number, from 0: how many edges are at or below the number.

    >>> in_which_bin([2.9, 3.0, 9.0], [3.0]).tolist()
    [0, 1, 1]
    """
    return np.searchsorted(np.asarray(edges, np.float64), numbers, side="right").astype(np.int32)


def grade_numbers(rows: Rows, column: str, *, labelled: bool, are_grades: bool) -> tuple[F64, Bool]:
    """Read the numbers in the column of the grades.

    Args:
        rows: the table.
        column: the name of the column.
        labelled: whether every row must have a number.
        are_grades: whether the numbers must be whole numbers from 0.

    Returns:
        The numbers (n_rows,), NaN if missing, and whether (n_rows,) each number is missing.

    Raises:
        DataError: naming the first row with a wrong, a missing or an infinite number.
    """
    cells = rows.columns[column]
    numbers, is_wrong = numbers_of(cells)
    is_missing = np.isnan(numbers)
    name = shown(column)
    faults = {
        "is not a number": is_wrong,
        "is missing": is_missing & labelled,
        "is infinite": np.isinf(numbers) & (not are_grades),
    }
    for fault, has_fault in faults.items():
        if has_fault.any():
            row = int(has_fault.argmax())  # the first wrong row
            grade = f"the grade in column {name}"
            if is_wrong[row]:
                grade += f": {shown(cells[row])}"
            raise DataError(f"{rows.place(row)}: {grade} {fault}")
    is_no_grade = ~is_missing & ~_are_grades(numbers)
    if are_grades and is_no_grade.any():
        row = int(is_no_grade.argmax())
        advice = f"sortnet train --bins N makes N grades of the numbers of column {name}"
        number = float(numbers[row])
        raise DataError(f"{rows.place(row)}: {grade_fault(f'{number:g}', number)}; {advice}")
    return numbers, is_missing


def _are_grades(numbers: F64) -> Bool:
    """Tell for each of n numbers whether it is a whole number from 0 that int32 can hold."""
    are_grades: Bool = (
        (numbers >= 0) & (numbers <= np.iinfo(np.int32).max) & (numbers == np.floor(numbers))
    )
    return are_grades
