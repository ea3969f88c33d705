"""Rows of CSV, TSV, JSON, JSON lines and Parquet files, and of data frames.

Columns of numbers become arrays chunk by chunk, so that a table of many numbers is never held as
text. An error names file and line.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sortnet.core.memory import refuse_too_large
from sortnet.errors import DataError
from sortnet.files import (
    TABLES,
    data_files,
    note_unfinished,
    one_line,
    open_bytes,
    reading,
    refuse_irregular,
    shown,
    suffix_of,
)
from sortnet.tables.values import Cells, are_dates, numbers_of, word

if TYPE_CHECKING:
    import pandas as pd

MAX_COLUMNS = 100_000

_CELLS_AT_ONCE = 1 << 19
_LONGEST_LINE = 64 << 20
_LISTED = 20  # names of columns that a message shows
_COMPARED = 1000  # names of columns that a misspelt one is compared with
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_FIELD_LIMIT = threading.Lock()  # csv has one global limit

Chunk: TypeAlias = tuple[dict[str, Cells], Sequence[int]]  # columns, and where each row is
Keep: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True)
class Rows:
    """A table as read.

    Attributes:
        path: its file, or what messages call it.
        columns: {name: a cell per row}: (n,) float64 for numbers, NaN where one is missing, unless
            the cells were to be kept; else the cells as read, nested ones too.
        lines: at which each row starts, from 1; of a frame the rows, from 0.
        unit: what `lines` counts: `line`, `row` or `record`.
        unfinished: a text that does not end with a newline.
        files: the first row of each file, and its path, where there are several.
        dates: the columns of dates, which are numbers of days here.
    """

    path: Path | str
    columns: dict[str, Cells]
    lines: Sequence[int]
    unit: str = "line"
    unfinished: bool = False
    files: Sequence[tuple[int, Path]] = ()
    dates: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """Where a row is, for messages."""
        at = bisect_right([first for first, _ in self.files], row % max(len(self), 1))
        path = self.files[at - 1][1] if self.files else self.path
        return f"{path}, {self.unit} {self.lines[row]}"

    def dicts(self) -> list[dict[str, Any]]:
        """Each row as {column: cell}.

        >>> Rows("t", {"id": ["a", "b"], "size": np.array([1.0, 2.5])}, [2, 3]).dicts()
        [{'id': 'a', 'size': 1.0}, {'id': 'b', 'size': 2.5}]
        """
        columns = {name: np.asarray(cells, object).tolist() for name, cells in self.columns.items()}
        return [{name: cells[k] for name, cells in columns.items()} for k in range(len(self))]

    def texts(self, column: str | None) -> list[str]:
        """A column as texts, all empty without one.

        Raises:
            DataError: on a cell that is neither text nor number.
        """
        if column is None:
            return [""] * len(self)
        cells = self.columns[column]
        found = []
        for row, cell in enumerate(cells):
            try:
                found.append(word(cell))
            except TypeError as kind:
                fault = f"column {shown(column)} holds {kind}: {shown(cell)}"
                raise DataError(f"{self.place(row)}: {fault}") from None
        return found


def read_rows(
    path: Path,
    kind: str | None = None,
    *,
    may_be_empty: bool = False,
    keep: Keep = lambda column: True,
) -> Rows:
    """Read a table, or several of the same columns as one, see `data_files`.

    Args:
        kind: of the table, a suffix; by its name if None. `.json` is an array of objects, or JSONL.
        may_be_empty: whether a file without even a header is a table without columns.
        keep: whether the cells of a column are kept as read, also where all are numbers.

    Raises:
        DataError: naming file and line.

    Cost: about a second for 3 million cells.
    """
    paths = data_files(path)
    parts = [_read_file(each, kind or suffix_of(each), may_be_empty, keep) for each in paths]
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    for part in parts[1:]:
        if [*part.columns] != [*first.columns]:
            theirs = f"those of {first.path} {listed(first.columns)}"
            raise DataError(f"{part.path}: its columns are {listed(part.columns)}; {theirs}")
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    columns = {name: _joined([part.columns[name] for part in parts]) for name in first.columns}
    lines = [line for part in parts for line in part.lines]
    dates = frozenset(name for part in parts for name in part.dates)
    files = [*zip(starts, paths, strict=False)]
    return Rows(path, columns, lines, first.unit, files=files, dates=dates)


def rows_of_frame(frame: Any, source: str, keep: Keep = lambda column: True) -> Rows:
    """The rows of a data frame of pandas, or of another library such as polars.

    Raises:
        DataError: if two columns have one name.
    """
    frame = as_pandas(frame)
    _check_header(source, [str(name) for name in frame.columns])
    columns: dict[str, Cells] = {}
    dates = set[str]()
    for k, name in enumerate(map(str, frame.columns)):
        column = frame.iloc[:, k]
        if column.dtype.kind == "M":
            dates.add(name)
        if not keep(name) and column.dtype.kind in "biufmM":
            columns[name] = numbers_of(column)[0]
        elif hasattr(column.array, "categories") and not keep(name):
            columns[name] = column.array
        else:
            objects = column.astype(object).where(column.notna(), None)
            cells = [*map(_simple, objects)]
            columns[name] = _numbers_or(cells, keep(name))
            if are_dates(cells):
                dates.add(name)
    return Rows(source, columns, range(len(frame)), "row", dates=frozenset(dates))


def as_pandas(frame: Any) -> pd.DataFrame:
    """A data frame of another library, such as polars, as one of pandas; sparse columns dense.

    A lazy frame of polars is collected: its query is run, and its rows are read.
    """
    import pandas as pd

    if hasattr(frame, "collect") and not hasattr(frame, "iloc"):
        frame = frame.collect()
    if hasattr(frame, "iloc"):
        sparse = [k for k, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.SparseDtype)]
        frame = frame.copy(deep=False) if sparse else frame
        for k in sparse:
            frame.isetitem(k, frame.iloc[:, k].sparse.to_dense())
        return frame  # type: ignore[no-any-return]

    def column(values: Any) -> Any:
        levels = str(getattr(values, "dtype", "")).startswith(("Categorical", "Enum"))  # of polars
        return pd.Categorical(np.asarray(values)) if levels else np.asarray(values)

    return pd.DataFrame({str(name): column(frame[name]) for name in frame.columns})


def listed(names: Iterable[str]) -> str:
    """Names of columns for a message, in one line.

    >>> listed(["id", "two\\nlines"])
    'id, two lines'
    """
    names = [name[:60] for name in islice(names, _LISTED + 1)]
    return " ".join(", ".join([*names[:_LISTED], "..."][: len(names)]).split())


def no_column(name: str, columns: Iterable[str]) -> str:
    """The fault that no column is called `name`, with the columns there are and the nearest one.

    >>> no_column("Stars", ["search", "stars"])
    "there is no column 'Stars' in search, stars: did you mean 'stars'?"
    >>> no_column("x", ["search", "stars"])
    "there is no column 'x' in search, stars"
    """
    columns = [*islice(columns, _COMPARED)]
    fault = f"there is no column {shown(name)} in {listed(columns)}"
    by_lower = {_comparable(column): column for column in reversed(columns)}
    nearest = get_close_matches(_comparable(name), by_lower, n=1)
    return f"{fault}: did you mean {shown(by_lower[nearest[0]])}?" if nearest else fault


def _comparable(name: str) -> str:
    return name[:60].lower()


def decoded(path: Path, data: bytes) -> str:
    """Decode UTF-8, or raise an error that names the line."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        wrong = data[error.start : error.start + 1].hex()
        raise DataError(f"{path}, line {line}: byte 0x{wrong} is not UTF-8") from None


def _read_file(path: Path, kind: str, may_be_empty: bool, keep: Keep) -> Rows:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if kind not in (*TABLES, ".json"):
        raise DataError(f"{path}: is none of {', '.join(TABLES)} nor a folder")
    with reading(path):
        if kind == ".parquet":
            return _grown(path, _parquet(path), keep, "row")
        lines = _Lines(path)
        is_array = kind == ".json" and lines.first().lstrip().startswith("[")
        rows = _grown(path, _array(path), keep, "record") if is_array else _text(lines, kind, keep)
        if not rows.columns and not may_be_empty:
            raise DataError(f"{path}: the file is empty: it has no rows")
        return rows


def _text(lines: _Lines, kind: str, keep: Keep) -> Rows:
    """The rows of CSV or JSON lines; a note is logged if the last row may have been cut."""
    if kind in (".csv", ".tsv"):
        rows = _csv(lines, keep, "\t" if kind == ".tsv" else None)
        # Many programs write CSV files without the last line end.
        may_be_cut = lines.cut and lines.last_record_is_shortest
    else:
        rows = _grown(lines.path, _jsonl(lines), keep, "line", unfinished=lines)
        may_be_cut = lines.cut
    if may_be_cut and len(rows):
        note_unfinished(rows.place(-1))
    return rows


def _grown(
    path: Path, chunks: Iterable[Chunk], keep: Keep, unit: str, unfinished: _Lines | None = None
) -> Rows:
    """The rows of all chunks; a column that one of them lacks is missing there."""
    parts: dict[str, list[Cells]] = {}
    dates: dict[str, bool | None] = {}
    lines: list[int] = []
    for columns, at in chunks:
        for name in columns:
            parts.setdefault(name, [[None] * len(lines)] if lines else [])
        for name, chunks_of_column in parts.items():
            cells = columns.get(name, [None] * len(at))
            if dates.get(name) is None:
                dates[name] = are_dates(cells)
            chunks_of_column.append(_numbers_or(cells, keep(name)))
        lines += at
    columns = {name: _joined(cells) for name, cells in parts.items()}
    was_cut = unfinished is not None and unfinished.cut
    of_dates = frozenset(name for name, answer in dates.items() if answer)
    return Rows(path, columns, lines, unit, was_cut, dates=of_dates)


def _numbers_or(cells: Cells, keep: bool) -> Cells:
    """The numbers of cells that are nothing else; else the cells."""
    if keep or isinstance(cells, np.ndarray):
        return cells
    numbers, wrong = numbers_of(cells)
    infinite = np.abs(numbers) > np.finfo(np.float32).max  # kept, for the message
    return cells if wrong.any() or infinite.any() or np.isnan(numbers).all() else numbers


def _joined(parts: Sequence[Cells]) -> Cells:
    """The cells of several chunks: numbers if they are in all of them."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    cells: list[Any] = []
    for part in parts:
        numbers = isinstance(part, np.ndarray)
        cells += [word(number) or None for number in part.tolist()] if numbers else part
    return cells


class _Lines:
    """The lines of a text file.

    Attributes:
        cut: after the last line, whether it lacks its line end.
        n_characters: the number of characters read, without line ends.
        last_record_is_shortest: of a CSV file that was read, whether every record between the
            header and the last one is longer than the last one.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.cut = path, False
        self.n_characters = 0
        self.last_record_is_shortest = False

    def first(self) -> str:
        """The first line that is not blank; empty if there is none."""
        return next((line for line in self if line.strip()), "")

    def __iter__(self) -> Iterator[str]:
        with open_bytes(self.path) as file, io.TextIOWrapper(
            file, "utf-8-sig", errors="surrogateescape", newline=""
        ) as text:  # fmt: skip
            number = 1
            while line := text.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE and not line.endswith("\n"):
                    raise DataError(f"{self.path}: has a line longer than {_LONGEST_LINE >> 20} MB")
                wrong = None if line.isascii() else _NO_UTF8.search(line)
                if wrong:  # the decoder left it as a surrogate
                    what = f"byte {ord(wrong[0]) - 0xDC00:#04x} is not UTF-8"
                    raise DataError(f"{self.path}, line {number}: {what}")
                self.cut = not line.endswith(("\n", "\r"))
                self.n_characters += len(line.rstrip("\r\n"))
                number += 1
                yield line


class _Quotes(DataError):
    """A misplaced quote."""


def _csv(lines: _Lines, keep: Keep, separator: str | None) -> Rows:
    """The rows of a CSV file; in many countries spreadsheets separate by semicolons."""
    if separator is None:
        header = lines.first()
        separator = next((s for s in ",;\t" if s in header), ",")

    def read(quoting: Any) -> Rows:
        with _long_fields():
            reader = csv.reader(lines, delimiter=separator, quoting=quoting, strict=True)
            chunks = _csv_chunks(lines, reader, separator)
            return _grown(lines.path, chunks, keep, "line", unfinished=lines)

    try:
        return read(csv.QUOTE_MINIMAL)
    except _Quotes:
        if separator != "\t":
            raise
    return read(csv.QUOTE_NONE)  # most TSV files have no quoting


def _csv_chunks(lines: _Lines, reader: Any, separator: str) -> Iterator[Chunk]:
    path, records = lines.path, _records(lines, reader)
    line, header, _ = next(records, (0, [], 0))
    if not header:
        return
    _check_header(f"{path}, line {line}", header)
    yield {name: [] for name in header}, []
    n = max(1, _CELLS_AT_ONCE // len(header))
    shortest = last = math.inf
    while some := list(islice(records, n)):
        for line, record, length in some:
            if len(record) != len(header):
                fault = f"{len(record)} fields where the header has {len(header)}"
                raise DataError(f"{path}, line {line}: {fault}: {shown(separator.join(record))}")
            shortest, last = min(shortest, last), length
        columns = map(list, zip(*(record for _, record, _ in some), strict=True))
        yield dict(zip(header, columns, strict=True)), [line for line, _, _ in some]
    lines.last_record_is_shortest = last < shortest < math.inf


def _records(lines: _Lines, reader: Any) -> Iterator[tuple[int, list[str], int]]:
    """The records that are not blank: the line at which each starts, its fields, its length."""
    line, start = 1, lines.n_characters
    try:
        for record in reader:
            if record:
                yield line, record, lines.n_characters - start
            line, start = reader.line_num + 1, lines.n_characters
    except csv.Error as error:
        raise _Quotes(f"{lines.path}, line {line}: {error}") from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Raise csv's limit on a field's length: texts that are too long are refused elsewhere."""
    with _FIELD_LIMIT:
        before = csv.field_size_limit(_LONGEST_LINE)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _check_header(place: str, header: list[str]) -> None:
    header[:] = [name.strip() for name in header]
    if len(header) > MAX_COLUMNS:
        raise DataError(f"{place}: has {len(header)} columns; the limit is {MAX_COLUMNS}")
    if "" in header:
        raise DataError(f"{place}: column {header.index('') + 1} has no name")
    if (twice := _twice(header)) is not None:
        raise DataError(f"{place}: there are two columns {shown(twice)}")


def _twice(names: list[str]) -> str | None:
    """The first name that is repeated."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _jsonl(lines: _Lines) -> Iterator[Chunk]:
    records: list[dict[str, Any]] = []
    at: list[int] = []
    n = _CELLS_AT_ONCE
    # Not splitlines: JSON may hold an unescaped U+2028.
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{lines.path}, line {number}"
            records.append(_object(place, _value(place, line, cut=lines.cut)))
            at.append(number)
            n = max(1, min(n, _CELLS_AT_ONCE // max(1, len(records[-1]))))
        if len(records) >= n:
            yield _table(lines.path, records), at
            records, at = [], []
    yield _table(lines.path, records), at


def _array(path: Path) -> Iterator[Chunk]:
    data = bytearray()
    with open_bytes(path) as file:
        while piece := file.read(1 << 24):  # a .gz may expand a thousand times
            data += piece
            refuse_too_large(16 * len(data), f"{path}: the table of more than {len(data)} bytes")
    records = _value(str(path), decoded(path, bytes(data)))
    numbers = range(1, len(records) + 1)
    rows = [_object(f"{path}, record {k}", each) for k, each in zip(numbers, records, strict=True)]
    yield _table(path, rows), numbers


def _table(path: Path, records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = list(dict.fromkeys(name for record in records for name in record))
    what = f"{path}: {len(records)} rows of {len(names)} columns"
    refuse_too_large(8 * len(records) * len(names), what)
    return {name: [record.get(name) for record in records] for name in names}


def _object(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{place}: is no JSON object: {shown(value)}")
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


def _parquet(path: Path) -> Iterator[Chunk]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet files need pyarrow: pip install 'sortnet[parquet]'"
        ) from None
    start = 1
    refuse_irregular(path)
    with path.open("rb") as file:
        try:
            stored = parquet.ParquetFile(file)
            about, names = stored.metadata, list(stored.schema_arrow.names)
            _check_header(str(path), names)
            what = f"{path}: {about.num_rows} rows of {len(names)} columns"
            refuse_too_large(16 * about.num_rows * len(names), what)
            n = max(1, _CELLS_AT_ONCE // max(1, len(names)))
            for batch in stored.iter_batches(batch_size=n):
                columns = {name: _plain(batch.column(k)) for k, name in enumerate(names)}
                yield columns, range(start, start + batch.num_rows)
                start += batch.num_rows
            if start == 1:
                yield {name: [] for name in names}, []
        except (DataError, MemoryError):
            raise
        except Exception as error:  # pyarrow raises a dozen types on damage
            fault = f"is damaged or no Parquet file: {one_line(error)}"
            raise DataError(f"{path}: {fault}") from None


def _plain(column: Any) -> Any:
    """A column of pyarrow as an array where all are numbers, else as a list."""
    kind = str(column.type)
    if not column.null_count and kind.startswith(("int", "uint", "float", "double")):
        return column.to_numpy(zero_copy_only=False)
    return [_simple(value) for value in column.to_pylist()]


def _simple(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date | datetime) else value
