"""Write CSV (RFC 4180) in which no text is a formula for spreadsheets; read escaped texts back."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

from sortnet.tables.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

ESCAPED_COLUMN = "escaped"
# Matches the start of a text that spreadsheets run as a formula
# (https://owasp.org/www-community/attacks/CSV_Injection). A text that begins with an apostrophe and
# a formula matches too: the writer adds a second apostrophe, so that a reader, which removes one,
# gets the same text.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
# Matches a text such as -0.078, which a spreadsheet reads as a number and does not run.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def write_csv(
    file: IO[str],
    names: Sequence[str] | None,
    rows: Iterable[Sequence[Any]],
    *,
    raw: bool = False,
) -> None:
    """Write rows as CSV; a text that a spreadsheet would run as a formula gets an apostrophe.

    A text that is a plain number, such as -0.078, gets an apostrophe only if there is the column
    `escaped`, by which `without_escapes` removes all apostrophes. Lines end in a line feed.

    Args:
        file: the open file.
        names: the names of the columns; None: no header is written.
        rows: the cells of each row; None and NaN are left blank.
        raw: whether texts are written as they are, even formulas.

    >>> import sys
    >>> write_csv(sys.stdout, ["id", "score"], [["=A1", -0.5], ["a, b", None]])
    id,score
    '=A1,-0.5
    "a, b",
    """
    may_be_number = ESCAPED_COLUMN not in (names or ())

    def escape(value: Any) -> Any:
        if raw or not is_formula(value) or (may_be_number and _NUMBER.fullmatch(value)):
            return value
        return f"'{value}"

    # Without a carriage return in the line end, the csv module would not quote the character.
    lines = SimpleNamespace(write=lambda line: file.write(f"{line[:-2]}\n"))
    writer = csv.writer(lines, lineterminator="\r\n")
    if names is not None:
        writer.writerow(map(escape, names))
    for row in rows:
        # Only NaN differs from itself.
        writer.writerow([escape(cell) if cell == cell else None for cell in row])


def rows_of_frame(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of each row of a frame, None in place of missing values."""
    without_missing = frame.astype(object).where(frame.notna(), None)
    return iter(without_missing.itertuples(index=False, name=None))


def is_formula(value: Any) -> bool:
    """Whether a spreadsheet would run the value as a formula, now or without its apostrophes."""
    return isinstance(value, str) and _FORMULA.match(value) is not None


def without_escapes(rows: Rows) -> Rows:
    """Remove the apostrophes that `write_csv` added, if rows have the column `escaped`."""
    if ESCAPED_COLUMN not in rows.columns:
        return rows
    columns = {
        name: [value[1:] if is_formula(value) and value[0] == "'" else value for value in values]
        for name, values in rows.columns.items()
    }
    return replace(rows, columns=columns)
