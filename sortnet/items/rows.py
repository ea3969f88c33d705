"""Rows of CSV, TSV, JSON, JSONL and Parquet files; errors name the line."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from sortnet.data.parquet import from_parquet
from sortnet.errors import DataError
from sortnet.files import open_bytes, reading, shown
from sortnet.types.free import refuse_too_large

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")

_FIELD_LIMIT = threading.Lock()  # csv has one global limit
_PIECE = 1 << 24
_BYTES_A_BYTE = 16  # of memory per byte of a file, once it is split into cells
_LISTED = 20  # names of columns that a message shows


@dataclass(frozen=True)
class Rows:
    """A table as read from its file."""

    path: Path
    columns: dict[str, list[Any]]  # {name: one value per row}; nested values are kept as read
    lines: list[int]  # at which each row starts, from 1
    unit: str = "line"  # what `lines` counts: `line`, `row` or `record`
    unfinished: bool = False  # a text that does not end with a newline

    def place(self, row: int) -> str:
        return f"{self.path}, {self.unit} {self.lines[row]}"


def read_rows(path: Path, kind: str | None = None, *, may_be_empty: bool = False) -> Rows:
    """Read a table without interpreting its columns; its kind, a suffix, is by its name if None.

    The kind `.json` is an array of objects, or JSONL.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if kind != ".json" and (kind := kind or suffix_of(path)) not in TABLES:
        raise DataError(f"{path}: is none of {', '.join(TABLES)} nor a folder")
    with reading(path):
        if kind == ".parquet":
            return _parquet(path)
        text = _text(path)
        if not text.strip() and not may_be_empty:
            raise DataError(f"{path}: the file is empty")
        if kind == ".json" and text.lstrip().startswith("["):
            return _array(path, text)
        return _csv(path, text, kind) if kind in (".csv", ".tsv") else _jsonl(path, text)


def suffix_of(path: Path) -> str:
    """The suffix in lower case, that of what is compressed where it is `.gz`.

    >>> suffix_of(Path("votes.CSV.gz"))
    '.csv'
    """
    suffixes = (suffix.lower() for suffix in reversed(path.suffixes[-2:]))
    return next((suffix for suffix in suffixes if suffix != ".gz"), "")


def listed(names: Iterable[str]) -> str:
    """Names of columns for a message, in one line.

    >>> listed(["id", "two\\nlines"])
    'id, two lines'
    """
    return " ".join(", ".join(islice(names, _LISTED)).split())


def column_texts(rows: Rows, column: str | None) -> list[str]:
    """A column as texts, all empty without one."""
    if column is None:
        return [""] * len(rows.lines)
    return [_word(rows, column, row, value) for row, value in enumerate(rows.columns[column])]


def _word(rows: Rows, column: str, row: int, value: Any) -> str:
    """A cell as text: empty if missing, 3 for 3.0."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    kind = type(value).__name__
    raise DataError(f"{rows.place(row)}: column {shown(column)} holds {kind}: {shown(value)}")


def decoded(path: Path, data: bytes) -> str:
    """Decode UTF-8, or raise an error that names the line."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        wrong = data[error.start : error.start + 1].hex()
        raise DataError(f"{path}, line {line}: byte 0x{wrong} is not UTF-8") from None


def _text(path: Path) -> str:
    data = bytearray()
    with open_bytes(path) as file:
        while piece := file.read(_PIECE):  # a .gz may expand a thousand times
            data += piece
            what = f"{path}: the table of more than {len(data)} bytes"
            refuse_too_large(_BYTES_A_BYTE * len(data), what)
    return decoded(path, bytes(data))


def _csv(path: Path, text: str, kind: str) -> Rows:
    header = text.lstrip("\r\n").partition("\n")[0]
    separator = "\t" if kind == ".tsv" else _separator(header)
    try:
        return _records(path, text, separator, csv.QUOTE_MINIMAL)
    except _Quotes as fault:
        if separator != "\t":
            raise DataError(str(fault)) from None
    return _records(path, text, separator, csv.QUOTE_NONE)  # most TSV files have no quoting


def _separator(header: str) -> str:
    """The separator of a header: in many countries spreadsheets write semicolons."""
    return next((s for s in ",;\t" if s in header), ",")


class _Quotes(Exception):
    """A misplaced quote."""


def _records(path: Path, text: str, separator: str, quoting: Any) -> Rows:
    header: list[str] = []
    lines: list[int] = []
    rows: list[list[str]] = []
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, quoting=quoting, strict=True
    )
    line = 0
    with _fields_of(len(text)):
        while True:
            line = reader.line_num + 1
            try:
                record = next(reader, None)
            except csv.Error as error:
                raise _Quotes(f"{path}, line {line}: {error}") from None
            if record is None:
                break
            if not record:
                continue
            if not header:
                header = record
                _check_header(f"{path}, line {line}", header)
                continue
            if len(record) != len(header):
                what = f"{len(record)} fields where the header has {len(header)}"
                raise DataError(f"{path}, line {line}: {what}: {shown(separator.join(record))}")
            rows.append(record)
            lines.append(line)
    columns = {name: [row[k] for row in rows] for k, name in enumerate(header)}
    return Rows(path, dict(columns), lines, unfinished=not text.endswith("\n"))


@contextmanager
def _fields_of(characters: int) -> Iterator[None]:
    """Raise csv's limit on a field's length: texts that are too long are refused elsewhere."""
    with _FIELD_LIMIT:
        before = csv.field_size_limit(characters + 1)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _check_header(place: str, header: list[str]) -> None:
    header[:] = [name.strip() for name in header]
    if "" in header:
        raise DataError(f"{place}: column {header.index('') + 1} has no name")
    if (twice := _twice(header)) is not None:
        raise DataError(f"{place}: there are two columns {shown(twice)}")


def _twice(names: list[str]) -> str | None:
    """The first name that is repeated."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _jsonl(path: Path, text: str) -> Rows:
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    # Not splitlines: JSON may hold an unescaped U+2028.
    numbered = text.split("\n")
    for number, line in enumerate(numbered, start=1):
        if line.strip():
            records.append(_object(f"{path}, line {number}", line, cut=number == len(numbered)))
            lines.append(number)
    return _table(path, records, lines, "line")


def _array(path: Path, text: str) -> Rows:
    records = _value(str(path), text)
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise DataError(f"{path}, record {number}: is no JSON object: {shown(record)}")
    return _table(path, records, [*range(1, len(records) + 1)], "record")


def _table(path: Path, records: list[dict[str, Any]], lines: list[int], unit: str) -> Rows:
    names = list(dict.fromkeys(name for record in records for name in record))
    what = f"{path}: {len(records)} rows of {len(names)} columns"
    refuse_too_large(8 * len(records) * len(names), what)
    return Rows(path, {name: [r.get(name) for r in records] for name in names}, lines, unit)


def _object(place: str, line: str, *, cut: bool) -> dict[str, Any]:
    value = _value(place, line, cut=cut)
    if not isinstance(value, dict):
        raise DataError(f"{place}: is no JSON object: {shown(line.strip())}")
    return value


def _value(place: str, text: str, *, cut: bool = False) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        at = f" in line {error.lineno}" if error.lineno > 1 else ""
        why = "half a line, the file was cut" if cut else error.msg + at
        raise DataError(f"{place}: is no JSON ({why}): {shown(text.strip())}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: {error}: {shown(text.strip())}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"{shown(_twice([name for name, _ in pairs]))} occurs twice")
    return found


def _parquet(path: Path) -> Rows:
    def rows(table: Any) -> Rows:
        _check_header(str(path), list(table.column_names))
        columns = {
            str(name): [_plain(value) for value in table.column(k).to_pylist()]
            for k, name in enumerate(table.column_names)
        }
        return Rows(path, columns, list(range(1, table.num_rows + 1)), unit="row")

    return from_parquet(path, rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date | datetime) else value
