"""Read the cells of a judgement's row; a DataError names the place and the column."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from sortnet.files import shown
from sortnet.preference.base import LONGEST_COMMENT, LONGEST_META
from store.collections.formats.faults import refuse

_LARGEST_INTEGER = 2**31 - 1  # in the columns of whole numbers
_LARGEST_EXACT_FLOAT = 2**53 - 1
_LATEST = 2.0**33  # seconds since 1970: the year 2242
_LONGEST_TEXT = 64  # characters of an id or a strategy


def read_id(place: str, value: Any) -> str:
    """Read a judgement's id, which has up to 64 letters and digits."""
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
    """Read a text of at most `longest` characters; line breaks only if it `may_have_lines`."""
    if (
        not isinstance(value, str)
        or len(value) > longest
        or not (may_have_lines or value.isprintable())
    ):
        refuse(place, f"{column} {shown(value)} is not a text of at most {longest} characters")
    return value


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
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _read_meta(place: str, column: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > LONGEST_META:
        refuse(place, f"{column} {shown(text)} is longer than {LONGEST_META} characters")
    return text


def _read_flag(place: str, column: str, value: Any) -> bool | None:
    """Read true or false; false becomes None, as in a judgement that nobody flagged."""
    text = str(value).lower()
    if text not in ("true", "false", "1", "0"):
        refuse(place, f"{column} {shown(value)} is neither true nor false")
    return True if text in ("true", "1") else None


# {optional column: function that reads a cell, given its place, the column's name and the value}
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
    "cost": partial(_read_real, most=1e12),
    "meta": _read_meta,
}
