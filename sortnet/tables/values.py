"""Recognise the values in the cells of a table: missing values, numbers, dates and categories.

A missing number becomes NaN; `sortnet.data.scaling.fit_scaler` tells how NaN is scaled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64, Bool

# Words for a missing value in lower case: those of pandas and other programs, and the errors that
# spreadsheets write.
MISSING = {
    *("", "null", "nan", "-nan", "na", "n/a", "#n/a", "#n/a n/a", "#na", "none", "<na>"),
    *("1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
    *("-", "--", ".", "?", "\\n", "(null)", "n.a."),  # written by people, R, SAS, Weka, databases
    *("0000-00-00", "0000-00-00 00:00:00"),  # written by MySQL
    *("#value!", "#div/0!", "#ref!", "#name?", "#num!", "#null!", "#spill!", "#calc!"),
}
MOST_LEVELS = 50  # largest number of values of a categorical column that become features
_ROWS_A_LEVEL = 3  # least mean number of rows with the same value in a categorical column
_LONGEST_LEVEL = 40  # largest number of characters of a category; longer values are texts
# Numbers such as 0,5 and 1.234,5, as programs write them in many countries.
_DECIMAL_COMMA = re.compile(r"[+-]?(\d*|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
# Matches the start of a text that is no number, no date and no truth value.
_NO_NUMBER = re.compile(r"(?!\s*([+-]?(\.?\d|inf)|true|false))", re.IGNORECASE)
# A day, or a week of ISO 8601 such as 2026-W47.
_DATE = re.compile(r"\d{4}([-/]\d\d[-/]\d\d|-W\d\d(-\d)?)([T ]\d\d:\d\d.*)?")
# A duration as pandas and Python write it, such as `1 days 02:30:00`, or a time of day.
_DURATION = re.compile(
    r"(?:([+-]?\d+) days?,? ?)?(?:\+?(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?)?", re.ASCII
)
_MICROSECONDS = 86_400e6  # microseconds of a day

_TRUTH_VALUES = {"true": 1.0, "false": 0.0}
_PLAIN = (str, int, float, np.number, np.bool_)
# numpy's letters for kinds of dtypes.
_TIME_KINDS = "mM"  # durations and dates
_NUMBER_KINDS = "biuf"  # booleans, whole numbers and real numbers

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIVE_MINUTES = timedelta(minutes=5)

Cells: TypeAlias = Any  # a list, a numpy array, or a categorical array of pandas


def numbers_of(cells: Cells) -> tuple[F64, Bool]:
    """Convert cells to numbers, and find the cells that have a value but no number.

    A duration or a time of day becomes its number of days, a date the number of days since
    1970-01-01 (UTC); true becomes 1 and false 0.

    Returns:
        The numbers (n_cells,), NaN where there is none; and whether (n_cells,) a cell has a value
        that is no number.

    >>> values, wrong = numbers_of(["1.5", "n/a", True, "1970-01-03", "12 kg"])
    >>> values.tolist(), wrong.tolist()
    ([1.5, nan, 1.0, 2.0, nan], [False, False, False, False, True])
    """
    dtype = getattr(cells, "dtype", None)
    if dtype is None:
        return _numbers_of_objects(cells)
    no_faults = np.zeros(len(cells), bool)
    if isinstance(cells, np.ndarray) and dtype.kind in _NUMBER_KINDS:
        return cells.astype(np.float64, copy=False), no_faults
    import pandas as pd

    if dtype.kind in _TIME_KINDS or isinstance(dtype, pd.PeriodDtype):
        return _days(pd.Series(cells)), no_faults
    if dtype.kind in _NUMBER_KINDS:
        numbers = pd.Series(cells).to_numpy(np.float64, na_value=np.nan)
        return np.asarray(numbers, np.float64), no_faults
    return _numbers_of_objects(cells)


def _numbers_of_objects(cells: Cells) -> tuple[F64, Bool]:
    """Convert texts, numbers and other objects to numbers, as `numbers_of` does."""
    numbers = _floats(cells)
    if numbers is None:
        numbers = np.array([_plain_number(cell) for cell in cells])
    is_wrong = np.zeros(len(cells), bool)
    for k in np.flatnonzero(np.isnan(numbers)).tolist():
        cell = cells[k]
        if is_missing(cell):
            continue
        text = cell.strip().lower() if isinstance(cell, str) else ""
        if text in _TRUTH_VALUES:
            numbers[k] = _TRUTH_VALUES[text]
        elif is_date(cell):
            numbers[k] = _days_of_text(cell.strip())
        elif text and (match := _DURATION.fullmatch(text)):
            days, hours, minutes, seconds = (float(number or 0) for number in match.groups())
            numbers[k] = days + hours / 24 + minutes / 1440 + seconds / 86_400
        is_wrong[k] = np.isnan(numbers[k])
    return numbers, is_wrong


def _plain_number(cell: Any) -> float:
    """Convert a number, or a text that is a number, to a float; the result is NaN if it is none."""
    if isinstance(cell, str) and ("_" in cell or not cell.isascii()):
        return np.nan
    try:
        return float(cell) if isinstance(cell, _PLAIN) else np.nan
    except (TypeError, ValueError):  # such as a complex number, or a word
        return np.nan
    except OverflowError:  # a whole number beyond float64
        return np.inf


def _floats(cells: Cells) -> F64 | None:
    """Convert texts to float64 at once if all are plain numbers or empty; else return None.

    Digits joined by `_`, and digits that are not ASCII, are no plain numbers, although numpy reads
    them.
    """
    try:
        joined = "".join(cells)
        if "_" in joined or not joined.isascii():
            return None
        if "" in cells:
            cells = [cell or "nan" for cell in cells]
        return np.array(cells, np.float64)
    except (TypeError, ValueError):
        return None


def _days(times: Any) -> F64:
    """Convert a series of dates, durations or periods to numbers of days, NaN for a missing one.

    A period counts from its start. Dates of any year are numbers, not only those that nanoseconds
    since 1970 can express.
    """
    import pandas as pd

    if isinstance(times.dtype, pd.PeriodDtype):
        microseconds = times.array.asfreq("us", how="start").asi8
    else:
        if isinstance(times.dtype, pd.DatetimeTZDtype):
            times = times.dt.tz_convert("UTC").dt.tz_localize(None)
        values = times.to_numpy()
        if values.dtype == object:  # Arrow's dates, and times with a zone
            return _days_of_objects(values)
        microseconds = values.astype(f"{values.dtype.kind}8[us]").view(np.int64)
    days = microseconds / _MICROSECONDS
    days[times.isna()] = np.nan
    return np.asarray(days, np.float64)


def _days_of_objects(times: NDArray[np.object_]) -> F64:
    """Convert dates and durations of Python to numbers of days, NaN for any other object."""
    days = [
        time / timedelta(days=1)
        if isinstance(time, timedelta)
        else _days_of_text(str(getattr(time, "isoformat", str)()))
        for time in times
    ]
    return np.array(days, np.float64)


def _days_of_text(text: str) -> float:
    """Convert a date of the years 1 to 9999 to a number of days; NaN for any other text."""
    text = text.replace(" +", "+").replace(" -", "-").replace("/", "-").removesuffix(" UTC")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) / timedelta(days=1)


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty, None, NaN, or a word for a missing value.

    >>> [is_missing(cell) for cell in (None, float("nan"), " N/A", "", 0, "no")]
    [True, True, True, True, False, False]
    """
    if isinstance(cell, str):
        text = cell.strip()
        return text.lower() in MISSING or text == "NaT"
    if isinstance(cell, float | np.floating):
        return bool(cell != cell)
    return cell is None or type(cell).__name__ in ("NaTType", "NAType")


def is_date(cell: Any) -> bool:
    """Whether a cell is a text in the form of a date, with or without a time.

    >>> [is_date(cell) for cell in ("2026-11-23", "2026-11-23T14:30", "23.11.2026", 20_780)]
    [True, True, False, False]
    """
    return isinstance(cell, str) and _DATE.fullmatch(cell.strip()) is not None


def are_dates(cells: Cells) -> bool | None:
    """Whether the first cell that is not missing is a date; None if all cells are missing.

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
    """Write a number of days since 1970-01-01 as a date, and as a time (UTC) unless it is midnight.

    Times are rounded to seconds, or to five minutes if the number is a float32, which has days
    since 1970 to 3 minutes. A number beyond the years 1 to 9999 is written as a number.

    >>> date_text(2.0), date_text(2.75), date_text(1e9)
    ('1970-01-03', '1970-01-03 18:00', '1e+09')
    """
    try:
        unit = _FIVE_MINUTES if np.float32(days) == days else timedelta(seconds=1)
        moment = _EPOCH + round(timedelta(days=days) / unit) * unit
    except OverflowError:
        return f"{days:.4g}"
    text = moment.replace(tzinfo=None).isoformat(" ", "seconds")
    return text.removesuffix(" 00:00:00").removesuffix(":00")


def may_have_numbers(cells: Cells) -> bool:
    """Whether some cell may be a number, by its first characters; much faster than `numbers_of`.

    >>> may_have_numbers(["red", ""]), may_have_numbers(["red", "7 kg"])
    (False, True)
    """
    return not all(isinstance(cell, str) and _NO_NUMBER.match(cell) for cell in cells)


def is_numeric(cells: Cells) -> bool:
    """Whether at least one cell, and at least half of the cells with a value, is a number.

    >>> is_numeric(["1", "2", "x"]), is_numeric(["1", "x", "y"]), is_numeric(["", None])
    (True, False, False)
    """
    if isinstance(cells, np.ndarray):
        return True
    if is_categorical(cells) or not may_have_numbers(cells):
        return False
    numbers, is_wrong = numbers_of(cells)
    n_numbers = int((~np.isnan(numbers)).sum())
    return n_numbers > 0 and n_numbers >= int(is_wrong.sum())


def decimal_comma(cells: Cells) -> int | None:
    """Find the first cell with a decimal comma; None if there is none or the cells are no numbers.

    The cells count as numbers if at least half of the cells that are not missing are numbers, with
    a decimal comma or without.

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
    numbers, is_wrong = numbers_of(cells)
    n_numbers = int((~np.isnan(numbers)).sum()) + len(with_comma)
    n_texts = int(is_wrong.sum()) - len(with_comma)
    return with_comma[0] if n_numbers >= n_texts else None


def is_categorical(cells: Cells) -> bool:
    """Whether the cells are a categorical array of pandas."""
    return hasattr(cells, "categories")


def word(cell: Any) -> str:
    """Convert a cell to text: empty for a missing cell, 3 for 3.0.

    Raises:
        TypeError: if the cell is neither text nor number.
    """
    if isinstance(cell, str):
        return cell
    if is_missing(cell):
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    if isinstance(cell, _PLAIN):
        return str(cell)
    if hasattr(cell, "isoformat"):
        return str(cell.isoformat())
    raise TypeError(type(cell).__name__)


def levels(cells: Cells) -> tuple[str, ...]:
    """List the values of a categorical column that become features, sorted by name.

    A column is categorical by its type. It is also categorical if its cells are texts of at most 40
    characters, with at least 2 different values, of which a missing value is one, and on average at
    least 3 rows for each value. If there are more than 50 values, the 50 most frequent values
    become features. The list is empty for any other column.

    >>> levels(["red", "blue", "", "red"] * 2), levels(["1", "2"] * 9), levels(["red", "blue"])
    (('blue', 'red'), (), ())
    """
    has_categorical_type = is_categorical(cells)
    values = [cell for cell in cells if not is_missing(cell)]
    are_texts = all(isinstance(value, str) for value in values)
    if not (has_categorical_type or are_texts):
        return ()
    n_rows_of_level = Counter(word(value).strip() for value in values)
    if not has_categorical_type:
        has_missing = len(values) < len(cells)
        is_category = _are_short_and_repeated(n_rows_of_level, has_missing=has_missing)
        is_category = is_category and not is_numeric(cells)
        if not is_category:
            return ()
    by_frequency = sorted(n_rows_of_level, key=lambda level: (-n_rows_of_level[level], level))
    return tuple(sorted(by_frequency[:MOST_LEVELS]))


def _are_short_and_repeated(n_rows_of_level: Mapping[str, int], *, has_missing: bool) -> bool:
    """Whether texts can be categories: they are short, and there are few different texts.

    Args:
        n_rows_of_level: {text: number of rows with the text}.
        has_missing: whether some rows have no text.
    """
    n_levels = len(n_rows_of_level)
    n_rows = sum(n_rows_of_level.values())
    if n_levels + has_missing < 2 or n_rows < _ROWS_A_LEVEL * n_levels:
        return False
    return all(len(level) <= _LONGEST_LEVEL and level.isprintable() for level in n_rows_of_level)
