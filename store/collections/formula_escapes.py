"""Escape texts in a CSV export which a spreadsheet would run as formulas."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from sortnet.tables.rows import Rows

ESCAPED_COLUMN = "escaped"
# Matches the start of a text that spreadsheets run as a formula
# (https://owasp.org/www-community/attacks/CSV_Injection). A text that begins with an apostrophe and
# a formula matches too: an export adds a second apostrophe, so that an import, which removes one,
# gets the same text.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def is_formula(value: Any) -> bool:
    """Whether a spreadsheet would run the value as a formula, now or without its apostrophes."""
    return isinstance(value, str) and _FORMULA.match(value) is not None


def escape_formulas(line: dict[str, Any]) -> dict[str, Any]:
    """Put an apostrophe before each formula of a line, and set the column `escaped` of the line."""
    escaped = {name: f"'{value}" if is_formula(value) else value for name, value in line.items()}
    return {**escaped, ESCAPED_COLUMN: True}


def without_escapes(rows: Rows) -> Rows:
    """Remove the apostrophes that `escape_formulas` added, if rows have the column `escaped`."""
    if ESCAPED_COLUMN not in rows.columns:
        return rows
    columns = {
        name: [_without_escape(value) for value in values] for name, values in rows.columns.items()
    }
    return replace(rows, columns=columns)


def _without_escape(value: Any) -> Any:
    """Remove the apostrophe before a formula; return all other values as they are."""
    if is_formula(value) and value.startswith("'"):
        return value[1:]
    return value
