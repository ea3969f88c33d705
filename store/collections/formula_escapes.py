"""Escape texts in a CSV export that a spreadsheet would run as formulas."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from sortnet.tables.rows import Rows

ESCAPED_COLUMN = "escaped"
# The start of a text that spreadsheets run (https://owasp.org/www-community/attacks/CSV_Injection).
# Apostrophes may precede it: a formula that has an apostrophe gets another one, so that an import
# can remove exactly what an export added.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def is_formula(value: Any) -> bool:
    """Whether a spreadsheet would run the value, or would run it without its apostrophes."""
    return isinstance(value, str) and _FORMULA.match(value) is not None


def escape_formulas(line: dict[str, Any]) -> dict[str, Any]:
    """Put an apostrophe before each formula of a line, and mark the line in `escaped`."""
    escaped = {name: f"'{value}" if is_formula(value) else value for name, value in line.items()}
    return {**escaped, ESCAPED_COLUMN: True}


def without_escapes(rows: Rows) -> Rows:
    """Remove the apostrophes of `escape_formulas` from rows with the column `escaped`."""
    if ESCAPED_COLUMN not in rows.columns:
        return rows
    columns = {
        name: [_without_escape(value) for value in values] for name, values in rows.columns.items()
    }
    return replace(rows, columns=columns)


def _without_escape(value: Any) -> Any:
    if is_formula(value) and value.startswith("'"):
        return value[1:]
    return value
