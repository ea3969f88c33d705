"""Read the cells of a row of a judgement file; a DataError names the row and the column."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from sortnet.files import shown
from sortnet.preference.base import LONGEST_COMMENT, LONGEST_META
from store.collections.formats.faults import refuse

_LARGEST_INTEGER = 2**31 - 1  # the largest number that a database column of integers can have
_LARGEST_EXACT_FLOAT = 2**53 - 1  # all whole numbers up to this one are exact as floats
_LATEST = 2.0**33  # seconds from 1970 to the year 2242
_LONGEST_TEXT = 64  # characters of an id or a strategy
_HIGHEST_COST = 1e12


def read_id(place: str, value: Any) -> str:
    """Read the id of a judgement, which has at most 64 letters and digits."""
    id = _read_text(place, "id", value)
    if not (id.isalnum() and id.isascii()):
        refuse(place, f"id {shown(value)} must have letters and digits only")
    return id


def _read_text(
    place: str,
    column: str,
    value: Any,
    *,
    longest: int = _LONGEST_TEXT,
    may_have_lines: bool = False,
) -> str:
    """Read a cell that has a text of limited length.

    Args:
        place: the file and row, for messages.
        column: the name of the column, for messages.
        value: the cell.
        longest: the maximum number of characters.
        may_have_lines: whether the text may have line breaks and other unprintable characters.
    """
    is_text = isinstance(value, str) and (may_have_lines or value.isprintable())
    if not is_text or len(value) > longest:
        refuse(place, f"{column} {shown(value)} is not a text of at most {longest} characters")
    return str(value)


def _read_real(place: str, column: str, value: Any, *, most: float) -> float:
    """Read a number from 0 to `most`."""
    number = _number_or_nan(value)
    if not 0 <= number <= most:
        refuse(place, f"{column} {shown(value)} is not a number from 0 to {most:.0f}")
    return number


def _read_whole(
    place: str, column: str, value: Any, *, least: int = 0, most: int = _LARGEST_INTEGER
) -> int:
    """Read a whole number, which spreadsheets and pandas may have written as 900.0."""
    number = _number_or_nan(value)
    if not least <= number <= most or not number.is_integer():
        refuse(place, f"{column} {shown(value)} is not a whole number from {least} on")
    return int(number)


def _number_or_nan(value: Any) -> float:
    """Convert a cell to a number; return NaN if the cell has no number, or is true or false."""
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _read_meta(place: str, column: str, value: Any) -> str:
    """Read a cell that has a text or another JSON value, which is converted to JSON text."""
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > LONGEST_META:
        refuse(place, f"{column} {shown(text)} is longer than {LONGEST_META} characters")
    return text


def _read_flag(place: str, column: str, value: Any) -> bool | None:
    """Read true or false; return None for false, as in a judgement that nobody flagged."""
    text = str(value).lower()
    if text not in ("true", "false", "1", "0"):
        refuse(place, f"{column} {shown(value)} is neither true nor false")
    return True if text in ("true", "1") else None


# Functions that read the cells of optional columns. Their arguments are the file and row for
# messages, the name of the column, and the value of the cell.
CELL_READERS: dict[str, Callable[[str, str, Any], Any]] = {
    "milliseconds": partial(_read_whole, most=_LARGEST_EXACT_FLOAT),
    "strategy": _read_text,
    "probability": partial(_read_real, most=1.0),
    "model": _read_whole,
    "number": partial(_read_whole, least=1),
    "undoes": partial(_read_whole, least=1),
    "at": partial(_read_real, most=_LATEST),
    "comment": partial(_read_text, longest=LONGEST_COMMENT, may_have_lines=True),
    "flagged": _read_flag,
    "p": partial(_read_real, most=1.0),
    "cost": partial(_read_real, most=_HIGHEST_COST),
    "meta": _read_meta,
}
