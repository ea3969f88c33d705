"""Cells of a table: what is missing, which columns are numbers, dates, categories or texts.

A missing number is NaN from here on; what a comparator sees of it says
`sortnet.data.scaling.fit_scaler`.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np

from sortnet.core import F64, Bool

MISSING = frozenset(("", "null", "nan", "na", "n/a", "none", "<na>"))
MOST_LEVELS = 50  # of a categorical column that become features
_ROWS_A_LEVEL = 3  # on average
_LONGEST_LEVEL = 40  # characters; longer ones are texts
# 0,5 and 1.234,5, as programs write numbers in many countries.
_DECIMAL_COMMA = re.compile(r"[+-]?(\d*|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
_MINUTES = 5  # to which a time is rounded: float32 has the days of today to 3 minutes

_SAID = {"true": 1.0, "false": 0.0}
_PLAIN = (str, int, float, np.number, np.bool_)

Cells: TypeAlias = Any  # a list, a numpy array, or a categorical array of pandas


def numbers_of(cells: Cells) -> tuple[F64, Bool]:
    """The cells as numbers, NaN where one is missing or is no number; and which are no numbers.

    A date or a duration is a number of days, a date that since 1970-01-01 (UTC); true is 1.

    >>> values, wrong = numbers_of(["1.5", "n/a", True, "1970-01-03", "12 kg"])
    >>> values.tolist(), wrong.tolist()
    ([1.5, nan, 1.0, 2.0, nan], [False, False, False, False, True])
    """
    import pandas as pd

    dtype = getattr(cells, "dtype", None)
    if dtype is not None and dtype.kind in "mM":
        return _days(pd.Series(cells)), np.zeros(len(cells), bool)
    if dtype is not None and dtype.kind in "biuf":
        numbers = pd.Series(cells).to_numpy(np.float64, na_value=np.nan)
        return np.asarray(numbers, np.float64), np.zeros(len(cells), bool)
    plain = np.empty(len(cells), object)
    plain[:] = [cell if isinstance(cell, _PLAIN) else None for cell in cells]
    try:
        numbers = np.asarray(pd.to_numeric(plain, errors="coerce"), np.float64)
    except OverflowError:  # a whole number beyond float64: as text it is read as infinite
        plain[:] = [str(cell) if type(cell) is int else cell for cell in plain]
        numbers = np.asarray(pd.to_numeric(plain, errors="coerce"), np.float64)
    rest = np.flatnonzero(np.isnan(numbers))
    dates = [k for k in rest if is_date(cells[k])]
    if dates:
        stamps = pd.Series([cells[k].strip() for k in dates])
        numbers[dates] = _days(pd.to_datetime(stamps, format="ISO8601", errors="coerce", utc=True))
    for k in rest:
        if isinstance(cells[k], str) and (said := _SAID.get(cells[k].strip().lower())) is not None:
            numbers[k] = said
    wrong = np.zeros(len(cells), bool)
    wrong[rest] = [not is_missing(cells[k]) for k in rest]
    return numbers, wrong & np.isnan(numbers)


def _days(times: Any) -> F64:
    """A series of dates, or of durations, as days."""
    import pandas as pd

    if times.dtype.kind == "M":
        times = pd.to_datetime(times, utc=True) - pd.Timestamp(0, tz="UTC")
    return np.asarray(times / pd.Timedelta(days=1), np.float64)


def is_missing(cell: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, or a word for it.

    >>> [is_missing(cell) for cell in (None, float("nan"), " N/A", "", 0, "no")]
    [True, True, True, True, False, False]
    """
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return cell is None or type(cell).__name__ in ("NaTType", "NAType") or bool(cell != cell)


def is_date(cell: Any) -> bool:
    """Whether a cell is text that has the form of a date, or of a date with a time.

    >>> [is_date(cell) for cell in ("2026-11-23", "2026-11-23T14:30", "23.11.2026", 20_780)]
    [True, True, False, False]
    """
    return isinstance(cell, str) and _DATE.fullmatch(cell.strip()) is not None


def are_dates(cells: Cells) -> bool | None:
    """Whether cells as read are dates, by the first that is not missing; None if all are missing.

    >>> are_dates(["", "2026-11-23"]), are_dates([None, 7]), are_dates([""])
    (True, False, None)
    """
    dtype = getattr(cells, "dtype", None)
    if dtype is not None:
        return bool(dtype.kind == "M")
    for cell in cells:
        if not is_missing(cell):
            return is_date(cell)
    return None


def date_text(days: float) -> str:
    """Write a number of days since 1970 as a date, with the time (UTC) where it is not midnight.

    Times are rounded to five minutes. A number that is no date of the years 1 to 9999 stays one.

    >>> date_text(2.0), date_text(2.75), date_text(1e9)
    ('1970-01-03', '1970-01-03 18:00', '1e+09')
    """
    minutes = _MINUTES * round(days * 24 * 60 / _MINUTES)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    except OverflowError:
        return f"{days:.4g}"
    return moment.replace(tzinfo=None).isoformat(" ", "minutes").removesuffix(" 00:00")


def is_numeric(cells: Cells) -> bool:
    """Whether at least half of the cells that are not missing are numbers, and there are some.

    >>> is_numeric(["1", "2", "x"]), is_numeric(["1", "x", "y"]), is_numeric(["", None])
    (True, False, False)
    """
    if isinstance(cells, np.ndarray):
        return True
    if is_categorical(cells):
        return False
    numbers, wrong = numbers_of(cells)
    there = int((~np.isnan(numbers)).sum())
    return there > 0 and there >= int(wrong.sum())


def decimal_comma(cells: Cells) -> int | None:
    """The first cell that is a number with a decimal comma, if the column is one of such numbers.

    At least half of its cells that are not missing are numbers, with a comma or without one.

    >>> decimal_comma(["n/a", "1", "0,5"]), decimal_comma(["0,5", "x", "y"]), decimal_comma(["1"])
    (2, None, None)
    """
    if isinstance(cells, np.ndarray) or is_categorical(cells):
        return None
    with_comma = [
        k
        for k, cell in enumerate(cells)
        if isinstance(cell, str) and "," in cell and _DECIMAL_COMMA.fullmatch(cell.strip())
    ]
    if not with_comma:
        return None
    numbers, wrong = numbers_of(cells)
    n_numbers = int((~np.isnan(numbers)).sum()) + len(with_comma)
    n_others = int(wrong.sum()) - len(with_comma)
    return with_comma[0] if n_numbers >= n_others else None


def is_categorical(cells: Cells) -> bool:
    """Whether the cells are of pandas' type of categories."""
    return hasattr(cells, "categories")


def word(cell: Any) -> str:
    """A cell as text: empty where it is missing, 3 for 3.0.

    Raises:
        TypeError: if it is neither text nor number.
    """
    if isinstance(cell, str):
        return cell
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    if isinstance(cell, _PLAIN):
        return str(cell)
    if hasattr(cell, "isoformat"):
        return str(cell.isoformat())
    raise TypeError(type(cell).__name__)


def levels(cells: Cells) -> tuple[str, ...]:
    """The values of a categorical column that are features, sorted; none if it is not categorical.

    It is if its cells are texts of 40 characters at most, at least 2 of them different, each of
    them that of 3 rows on average; or if its type says so. Of more than 50 values these are the
    most frequent.

    >>> levels(["red", "blue", "", "red"] * 2), levels(["1", "2"] * 9), levels(["red", "blue"])
    (('blue', 'red'), (), ())
    """
    of_type = is_categorical(cells)
    there = [cell for cell in cells if not is_missing(cell)]
    if not of_type and not all(isinstance(cell, str) for cell in there):
        return ()
    times = Counter(word(cell).strip() for cell in there)
    if not of_type:
        short = all(len(value) <= _LONGEST_LEVEL and value.isprintable() for value in times)
        many = len(there) >= _ROWS_A_LEVEL * len(times)
        if not short or not many or len(times) < 2 or is_numeric(cells):
            return ()
    frequent = sorted(times, key=lambda value: (-times[value], value))
    return tuple(sorted(frequent[:MOST_LEVELS]))
