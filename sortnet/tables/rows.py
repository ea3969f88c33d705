"""Read rows of CSV, TSV, JSON, JSON lines and Parquet files, and of data frames.

Columns of numbers become arrays chunk by chunk, so that the text of a large table is never in
memory as a whole. An error names file and line.
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
from datetime import date, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sortnet.core.memory import refuse_too_large
from sortnet.errors import DataError
from sortnet.files import (
    TABLES,
    data_files,
    encoding_of,
    note,
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
_LONGEST_LINE = 64 << 20  # characters
_PIECE = 1 << 24  # bytes of a JSON file that are read at a time
_BYTES_PER_JSON_BYTE = 16  # estimate of the memory that parsed JSON takes
_BYTES_PER_PARQUET_CELL = 16  # estimate of the memory that a cell takes
_BYTES_PER_REFERENCE = 8  # memory that a list takes for each of its cells, at least
_LISTED = 20  # largest number of names of columns that a message shows
_COMPARED = 1000  # largest number of names with which a misspelt name is compared
# For a byte b that is no UTF-8, "surrogateescape" writes the character with the number 0xDC00 + b.
_FIRST_SURROGATE = 0xDC00
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # a first line that Excel writes
_INDEX = re.compile(r"(Unnamed: 0(\.\d+)*)?")  # names that pandas gives to the number of a row
_PARQUET_INDEX = re.compile(r"__index_level_\d+__")  # the same in Parquet files
_FIELD_LIMIT = threading.Lock()  # csv has one limit for the whole process
_DATE_KIND = "M"
_NUMBER_KINDS = "biufmM"  # booleans, whole numbers, real numbers, durations and dates

Chunk: TypeAlias = tuple[dict[str, Cells], Sequence[int]]  # some rows by column, and their lines
Keep: TypeAlias = Callable[[str], bool]  # whether the cells of a column are kept as read


@dataclass(frozen=True)
class Rows:
    """A table that was read from a file, several files or a data frame.

    Attributes:
        path: the file, or a name for messages.
        columns: {name: the cells of the column}. A column of numbers is a float64 array (n_rows,),
            NaN for a missing number. Any other column, and a column whose cells are kept as read,
            is a list of cells; a cell may be a list or dict.
        lines: the line at which each row starts, from 1; in a frame the number of the row, from 0.
        unit: the word for a number in `lines` in messages: `line`, `row` or `record`.
        unfinished: whether the text does not end with a newline.
        files: if there are several files, the first row and the path of each file.
        dates: names of the columns of dates, whose cells are numbers of days.
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
        """Write where a row is, for messages: `FILE, line 7`; row -1 is the last row."""
        path = self.path
        if self.files:
            first_rows = [first for first, _ in self.files]
            row_from_start = row % max(len(self), 1)  # turns -1 into the number of the last row
            # The file of a row is the last file that begins at the row or before it.
            file_number = bisect_right(first_rows, row_from_start) - 1
            _, path = self.files[file_number]
        return f"{path}, {self.unit} {self.lines[row]}"

    def dicts(self) -> list[dict[str, Any]]:
        """Convert the rows to dicts, {column: cell}.

        >>> Rows("t", {"id": ["a", "b"], "size": np.array([1.0, 2.5])}, [2, 3]).dicts()
        [{'id': 'a', 'size': 1.0}, {'id': 'b', 'size': 2.5}]
        """
        columns = {name: np.asarray(cells, object).tolist() for name, cells in self.columns.items()}
        return [{name: cells[k] for name, cells in columns.items()} for k in range(len(self))]

    def texts(self, column: str | None) -> list[str]:
        """Convert the cells of a column to texts; without a column (None) all texts are empty.

        Raises:
            DataError: if a cell is neither text nor number.
        """
        if column is None:
            return [""] * len(self)
        cells = self.columns[column]
        texts = []
        for row, cell in enumerate(cells):
            try:
                texts.append(word(cell))
            except TypeError as error:
                fault = f"column {shown(column)} holds {error}: {shown(cell)}"
                raise DataError(f"{self.place(row)}: {fault}") from None
        return texts


def read_rows(
    path: Path,
    kind: str | None = None,
    *,
    may_be_empty: bool = False,
    keep: Keep = lambda column: True,
) -> Rows:
    """Read a table, or join several tables that have the same columns.

    Args:
        path: the file, or several files, see `data_files`.
        kind: a suffix that names the format. If None, the suffix of the file. `.json` is an array
            of objects, or JSON lines.
        may_be_empty: whether a file without a header is read as a table without columns. If False,
            it is refused.
        keep: says whether the cells of a column are kept as read, even if all are numbers.

    Raises:
        DataError: if a file cannot be read; the message names file and line.

    Cost: about a second for 3 million cells.
    """
    files = data_files(path)
    tables = [_read_file(file, kind or suffix_of(file), may_be_empty, keep) for file in files]
    if len(tables) == 1:
        return tables[0]
    return _join_tables(path, files, tables)


def _join_tables(path: Path, files: Sequence[Path], tables: Sequence[Rows]) -> Rows:
    """Join the rows of several files.

    Args:
        path: the path that names all files, for messages.
        files: the files.
        tables: the rows of each file.

    Raises:
        DataError: if two files have different columns.
    """
    first = tables[0]
    for table in tables[1:]:
        if [*table.columns] != [*first.columns]:
            first_columns = f"those of {first.path} {listed(first.columns)}"
            raise DataError(
                f"{table.path}: its columns are {listed(table.columns)}; {first_columns}"
            )
    columns = {
        name: _join_cells([table.columns[name] for table in tables]) for name in first.columns
    }
    lines = [line for table in tables for line in table.lines]
    dates = frozenset(name for table in tables for name in table.dates)
    ends = np.cumsum([len(table) for table in tables]).tolist()
    first_rows = [0, *ends[:-1]]  # number of the first row of each file among the joined rows
    files_with_rows = [*zip(first_rows, files, strict=True)]
    return Rows(path, columns, lines, first.unit, files=files_with_rows, dates=dates)


def rows_of_frame(frame: Any, source: str, keep: Keep = lambda column: True) -> Rows:
    """Read the rows of a data frame of pandas, or of another library such as polars.

    Raises:
        DataError: if two columns have the same name.
    """
    frame = as_pandas(frame)
    _check_header(source, [str(name) for name in frame.columns])
    columns: dict[str, Cells] = {}
    dates = set[str]()
    for k, name in enumerate(map(str, frame.columns)):
        columns[name], has_dates = _cells_of_series(frame.iloc[:, k], keep=keep(name))
        if has_dates:
            dates.add(name)
    return Rows(source, columns, range(len(frame)), "row", dates=frozenset(dates))


def _cells_of_series(column: pd.Series[Any], *, keep: bool) -> tuple[Cells, bool]:
    """Convert a column of a data frame to the cells of a table.

    Args:
        column: the column.
        keep: whether the cells are kept as read, even if all are numbers.

    Returns:
        The cells: an array for numbers and dates, a categorical array, or a list; and whether they
        are dates.
    """
    import pandas as pd

    kind = column.dtype.kind  # numpy's letter for the kind of dtype
    is_categorical = hasattr(column.array, "categories")
    is_period = hasattr(column.dtype, "freq") and kind == "O"
    if (kind in _NUMBER_KINDS or is_period) and not keep:
        numbers, _ = numbers_of(column)
        return numbers, is_period or kind == _DATE_KIND
    if is_categorical:
        categories = with_words(column.array)
        if not keep:
            return categories, False
        column = pd.Series(categories)
    missing_as_none = column.astype(object).where(column.notna(), None)
    cells = [_convert_cell(value) for value in missing_as_none]
    has_dates = kind == _DATE_KIND or are_dates(cells) is True
    return cells if keep else _as_numbers_if_all_are(cells), has_dates


def with_words(categories: Any) -> Any:
    """Write the levels of a categorical array, which may be of any type, as words."""
    import pandas as pd

    words = []
    for level in categories.categories:
        try:
            words.append(word(level))
        except TypeError:  # such as an interval of numbers, or a tuple
            words.append(str(level))
    levels: Any = [*dict.fromkeys(words)]
    number_of_word = {level: k for k, level in enumerate(levels)}
    codes = np.array([*map(number_of_word.get, words), -1], np.int64)[categories.codes]
    return pd.Categorical.from_codes(codes, levels, ordered=categories.ordered)


def is_frame(X: Any) -> bool:
    """Whether an object is a data frame of any library, a table of Arrow included.

    A lazy frame warns when it is asked for its columns, so it is recognised by `collect`.
    """
    if hasattr(X, "iloc"):
        return hasattr(X, "columns")
    arrow_or_interchange = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
    return any(hasattr(X, name) for name in ("collect", "columns", *arrow_or_interchange))


def as_pandas(frame: Any) -> pd.DataFrame:
    """Convert a data frame of any library, such as polars, to a dense data frame of pandas.

    A lazy frame of polars is collected: its query is run, and its rows are read. A table of Arrow,
    or another object that Arrow can read, becomes the frame that pyarrow makes of it.
    """
    import pandas as pd

    is_lazy = hasattr(frame, "collect") and not hasattr(frame, "iloc")
    if is_lazy:
        frame = frame.collect()
    is_pandas = hasattr(frame, "iloc")
    if is_pandas:
        return _with_dense_columns(frame)
    names = getattr(frame, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return _pandas_of_arrow(frame)
    columns: dict[str, Any] = {}
    for name in frame.columns:
        column = frame[name]
        values = np.asarray(column)
        polars_categories = ("Categorical", "Enum")
        if str(getattr(column, "dtype", "")).startswith(polars_categories):
            columns[str(name)] = pd.Categorical(values)
        else:
            columns[str(name)] = values
    return pd.DataFrame(columns)


def _pandas_of_arrow(table: Any) -> pd.DataFrame:
    """Convert a table, a batch or a stream of Arrow, or an object that has such a stream."""
    if not hasattr(table, "to_pandas"):
        try:
            import pyarrow
        except ImportError:
            raise DataError(
                f"the data frame is a {type(table).__name__}, which needs pyarrow: "
                "pip install 'sortnet[parquet]'"
            ) from None
        table = pyarrow.table(table)
    return _with_dense_columns(table.to_pandas())


def _with_dense_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Make the sparse columns of a frame dense; a frame without sparse columns is returned."""
    import pandas as pd

    sparse_columns = [
        k for k, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.SparseDtype)
    ]
    if sparse_columns:
        frame = frame.copy(deep=False)  # the caller's frame stays as it is
    for k in sparse_columns:
        column: Any = frame.iloc[:, k]
        frame.isetitem(k, column.sparse.to_dense())
    return frame


def listed(names: Iterable[str]) -> str:
    """List names of columns for a message, in one line.

    >>> listed(["id", "two\\nlines"])
    'id, two lines'
    """
    short_names = [name[:60] for name in islice(names, _LISTED + 1)]
    if len(short_names) > _LISTED:
        short_names[_LISTED] = "..."
    return " ".join(", ".join(short_names).split())


def no_column(name: str, columns: Iterable[str]) -> str:
    """Write the message that no column is called `name`, with the names of columns that exist.

    The message proposes the most similar name, if there is one.

    >>> no_column("Stars", ["search", "stars"])
    "there is no column 'Stars' in search, stars: did you mean 'stars'?"
    >>> no_column("x", ["search", "stars"])
    "there is no column 'x' in search, stars"
    """
    columns = [*islice(columns, _COMPARED)]
    fault = f"there is no column {shown(name)} in {listed(columns)}"
    by_lower = {_comparable(column): column for column in reversed(columns)}
    nearest = get_close_matches(_comparable(name), by_lower, n=1)
    if nearest:
        fault += f": did you mean {shown(by_lower[nearest[0]])}?"
    return fault


def _comparable(name: str) -> str:
    return name[:60].lower()


def decoded(path: Path, data: bytes) -> str:
    """Decode the text of a file; raise DataError if a byte is wrong, naming its line."""
    encoding = encoding_of(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            raise DataError(f"{path}: is not {encoding.upper()}: {error.reason}") from None
        line = data.count(b"\n", 0, error.start) + 1
        wrong = data[error.start : error.start + 1].hex()
        raise DataError(f"{path}, line {line}: byte 0x{wrong} is not UTF-8") from None


def _read_file(path: Path, kind: str, may_be_empty: bool, keep: Keep) -> Rows:
    """Read one file.

    Args:
        path: the file.
        kind: the suffix of its format, such as `.csv`.
        may_be_empty: whether a file without columns is allowed.
        keep: says whether the cells of a column are kept as read.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if kind not in (*TABLES, ".json"):
        raise DataError(f"{path}: is none of {', '.join(TABLES)} nor a folder")
    with reading(path):
        if kind == ".parquet":
            return _rows_of_chunks(path, _parquet_chunks(path), keep, "row")
        lines = _Lines(path)
        if kind == ".json" and lines.first().lstrip().startswith("["):
            rows = _rows_of_chunks(path, _json_array_chunks(path), keep, "record")
        else:
            rows = _read_text(lines, kind, keep)
        if not rows.columns and not may_be_empty:
            raise DataError(f"{path}: the file is empty: it has no rows")
        return rows


def _read_text(lines: _Lines, kind: str, keep: Keep) -> Rows:
    """Read CSV or JSON lines; log a note if the file seems to end within its last row.

    Args:
        lines: the lines of the file.
        kind: `.csv`, `.tsv`, or a suffix of JSON lines.
        keep: says whether the cells of a column are kept as read.
    """
    if kind in (".csv", ".tsv"):
        separator = "\t" if kind == ".tsv" else None
        rows = _read_csv(lines, keep, separator)
        # A missing line end alone is no sign of a cut: many programs write CSV files without it.
        may_be_cut = lines.cut and lines.last_record_is_shortest
    else:
        rows = _rows_of_chunks(lines.path, _json_line_chunks(lines), keep, "line", text=lines)
        may_be_cut = lines.cut
    if may_be_cut and len(rows):
        note_unfinished(rows.place(-1))
    return rows


def _rows_of_chunks(
    path: Path, chunks: Iterable[Chunk], keep: Keep, unit: str, text: _Lines | None = None
) -> Rows:
    """Join chunks of rows to a table; if a chunk lacks a column, its rows have None in that column.

    Args:
        path: the file.
        chunks: the chunks.
        keep: says whether the cells of a column are kept as read.
        unit: the unit of the rows' lines.
        text: the lines of the file, if it is a text.
    """
    growing_columns: dict[str, _GrowingColumn] = {}
    lines: list[int] = []
    for columns, chunk_lines in chunks:
        for name in columns:
            if name not in growing_columns:
                growing_columns[name] = _GrowingColumn(keep(name), n_rows=len(lines))
        for name, growing in growing_columns.items():
            growing.add(columns.get(name, [None] * len(chunk_lines)))
        lines += chunk_lines
    columns = {name: _join_cells(growing.chunks) for name, growing in growing_columns.items()}
    is_unfinished = text is not None and text.cut
    dates = frozenset(name for name, growing in growing_columns.items() if growing.has_dates)
    return Rows(path, columns, lines, unit, is_unfinished, dates=dates)


class _GrowingColumn:
    """Cells of a column, chunk by chunk.

    Attributes:
        chunks: the cells of each chunk; an array if all are numbers, unless cells are kept as read.
        has_dates: whether the cells are dates; None until a cell is not missing.
    """

    def __init__(self, keep: bool, n_rows: int) -> None:
        """Start a column at its first chunk.

        Args:
            keep: whether the cells are kept as read.
            n_rows: number of rows in earlier chunks, which lack the column.
        """
        self._keep = keep
        self.chunks: list[Cells] = [[None] * n_rows] if n_rows else []
        self.has_dates: bool | None = None

    def add(self, cells: Cells) -> None:
        """Append the cells of the next chunk."""
        if self.has_dates is None:
            self.has_dates = are_dates(cells)
        self.chunks.append(cells if self._keep else _as_numbers_if_all_are(cells))


def _as_numbers_if_all_are(cells: Cells) -> Cells:
    """Convert cells to an array if all are finite numbers or missing, and not all are missing.

    Other cells are returned as they are. Cells with an infinite number stay as read, so that a
    message can show the number.
    """
    if isinstance(cells, np.ndarray):
        return cells
    numbers, is_wrong = numbers_of(cells)
    is_infinite = np.abs(numbers) > np.finfo(np.float32).max
    if is_wrong.any() or is_infinite.any() or np.isnan(numbers).all():
        return cells
    return numbers


def _join_cells(chunks: Sequence[Cells]) -> Cells:
    """Join the cells of several chunks: to an array if all chunks are arrays, else to a list.

    In a list, numbers of the arrays become texts, and missing numbers None.
    """
    chunks_with_cells = [chunk for chunk in chunks if len(chunk)]
    if not chunks_with_cells:
        return chunks[0]
    chunks = chunks_with_cells
    if len(chunks) == 1:
        return chunks[0]
    if all(isinstance(chunk, np.ndarray) for chunk in chunks):
        return np.concatenate(chunks)
    cells: list[Any] = []
    for chunk in chunks:
        if isinstance(chunk, np.ndarray):
            cells += [word(number) or None for number in chunk.tolist()]
        else:
            cells += chunk
    return cells


class _Lines:
    """Reads the lines of a text file, and notes whether the file seems to be cut.

    Attributes:
        cut: whether the last line that was read lacks its line end.
        n_characters: the number of characters read, without line ends.
        last_record_is_shortest: whether the last record of a CSV file is shorter than all other
            records; set when the file has been read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = False
        self.n_characters = 0
        self.last_record_is_shortest = False

    def first(self) -> str:
        """The first line that is not blank; empty if there is none."""
        return next((line for line in self if line.strip()), "")

    def __iter__(self) -> Iterator[str]:
        """Yield the lines from the first on; update `cut` and `n_characters` before each line.

        `n_characters` goes on counting if the lines are read again.

        Raises:
            DataError: if a line is too long or is not UTF-8.
        """
        with open_bytes(self.path) as start_of_file:
            encoding = encoding_of(start_of_file.read(4))
        with open_bytes(self.path) as file, io.TextIOWrapper(
            file, encoding, errors="surrogateescape", newline=""
        ) as text:  # fmt: skip
            number = 1
            while line := self._next_line(text, number):
                if len(line) == _LONGEST_LINE and not line.endswith("\n"):
                    raise DataError(f"{self.path}: has a line longer than {_LONGEST_LINE >> 20} MB")
                surrogate = None if line.isascii() else _NO_UTF8.search(line)
                if surrogate:
                    wrong_byte = ord(surrogate[0]) - _FIRST_SURROGATE
                    fault = f"byte {wrong_byte:#04x} is not UTF-8"
                    raise DataError(f"{self.path}, line {number}: {fault}")
                self.cut = not line.endswith(("\n", "\r"))
                self.n_characters += len(line.rstrip("\r\n"))
                number += 1
                yield line

    def _next_line(self, text: io.TextIOWrapper, number: int) -> str:
        """Read a line of the text; raise DataError if it cannot be decoded."""
        try:
            return text.readline(_LONGEST_LINE)
        except UnicodeDecodeError as error:  # only in UTF-16 and UTF-32
            fault = f"is not {text.encoding.upper()}: {error.reason}"
            raise DataError(f"{self.path}, line {number} or later: {fault}") from None


class _MisplacedQuote(DataError):
    """Raised when a CSV file has a misplaced quote."""


def _read_csv(lines: _Lines, keep: Keep, separator: str | None) -> Rows:
    """Read a CSV file; if `separator` is None, the separator is found in the header."""
    header = lines.first()
    separator_line = _SEPARATOR_LINE.fullmatch(header.rstrip("\r\n"))
    if separator_line:
        separator = separator_line[1]
    elif separator is None:
        # In many countries spreadsheets separate by semicolons.
        separator = next((character for character in ",;\t" if character in header), ",")

    def read(quoting: Any) -> Rows:
        """Read all records with a rule of `csv` for quotes."""
        with _long_fields():
            reader = csv.reader(lines, delimiter=separator, quoting=quoting, strict=True)
            records = _csv_records(lines, reader)
            if separator_line:
                next(records)
            chunks = _csv_chunks(lines, records, separator)
            return _rows_of_chunks(lines.path, chunks, keep, "line", text=lines)

    try:
        return read(csv.QUOTE_MINIMAL)
    except _MisplacedQuote:
        if separator != "\t":
            raise
    return read(csv.QUOTE_NONE)  # most TSV files have no quoting


def _csv_chunks(lines: _Lines, records: Iterator[_Record], separator: str) -> Iterator[Chunk]:
    """Yield the records of a CSV file chunk by chunk; the first chunk has the header and no rows.

    At the end, note in `lines` whether the last record is the shortest, which a cut file shows.

    Args:
        lines: the lines of the file.
        records: the records of the file, of which the first is the header.
        separator: the separator of the fields, for messages.

    Raises:
        DataError: if the header is wrong, or a record has another number of fields.
    """
    path = lines.path
    first_record = next(records, None)
    if first_record is None:
        return
    fields_of_header = first_record.fields
    records_at_once = max(1, _CELLS_AT_ONCE // len(fields_of_header))
    batch = list(islice(records, records_at_once))
    header = _Header(f"{path}, line {first_record.line}", fields_of_header, batch)
    yield {name: [] for name in header.numbers}, []
    lengths = _Lengths()
    while batch:
        for record in batch:
            header.check(path, record, separator)
        lengths.add([record.length for record in batch])
        columns = {
            name: [record.fields[k] for record in batch] for name, k in header.numbers.items()
        }
        yield columns, [record.line for record in batch]
        batch = list(islice(records, records_at_once))
    lines.last_record_is_shortest = lengths.last_is_shortest


class _Header:
    """Header of a CSV file, in which columns without a name may be left out.

    The first column without a name has the numbers or the names of rows; R leaves its name out of
    the header. Other columns without a name are left out if their cells are blank.

    Attributes:
        numbers: {name of a column: number of its field in a record}.
        n_fields: number of fields of a record; blank fields at its end may be missing.
    """

    def __init__(self, place: str, fields: list[str], records: Sequence[_Record]) -> None:
        """Read the names of the columns, and log a note about columns that are left out.

        Args:
            place: file and line of the header, for messages.
            fields: the fields of the header.
            records: the first records of the file.

        Raises:
            DataError: if a name occurs twice, or there are no names or too many names.
        """
        names = [name.strip() for name in fields]
        if records and all(len(record.fields) == len(names) + 1 for record in records):
            ends_blank = not any(record.fields[-1].strip() for record in records)
            names = [*names, ""] if ends_blank else ["", *names]
        self.n_fields = len(names)
        self.numbers = {name: k for k, name in enumerate(names) if name}
        if len(names) > 1 and _INDEX.fullmatch(names[0]) and set(names[1:]) != {""}:
            self.numbers.pop(names[0], None)
            note(place, "the first column, which has no name, was left out")
        self.n_needed = max(self.numbers.values(), default=0) + 1
        _check_header(place, [name for name in names if name] or names)
        unnamed = [k + 1 for k, name in enumerate(names) if not name and k]
        if unnamed:
            columns = "column " if len(unnamed) == 1 else "columns "
            listed_numbers = ", ".join(map(str, unnamed))
            note(place, f"{columns}{listed_numbers} without a name and values left out")

    def check(self, path: Path, record: _Record, separator: str) -> None:
        """Raise DataError if a record has a wrong number of fields, or a value without a name."""
        n = len(record.fields)
        place = f"{path}, line {record.line}"
        if not self.n_needed <= n <= self.n_fields:
            fault = f"{n} fields where the header has {self.n_fields}"
            raise DataError(f"{place}: {fault}: {shown(separator.join(record.fields))}")
        if len(self.numbers) == n:
            return
        named = {0, *self.numbers.values()}
        for k, cell in enumerate(record.fields):
            if k not in named and cell.strip():
                raise DataError(f"{place}: column {k + 1} has no name, and holds {shown(cell)}")


class _Lengths:
    """Length of the last record so far, and the shortest length before the last record."""

    def __init__(self) -> None:
        # The length of a record that is not read yet is infinite.
        self._last: float = math.inf
        self._shortest_before_last = math.inf

    def add(self, lengths: Sequence[int]) -> None:
        """Note the lengths of the next records; there must be at least one."""
        *before_last, last = lengths
        shortest = min(before_last, default=math.inf)
        self._shortest_before_last = min(self._shortest_before_last, self._last, shortest)
        self._last = last

    @property
    def last_is_shortest(self) -> bool:
        """Whether there are several records, and the last is shorter than all others."""
        has_several_records = self._shortest_before_last < math.inf
        return has_several_records and self._last < self._shortest_before_last


class _Record(NamedTuple):
    """A record of a CSV file: the line at which it starts, its fields, and its characters."""

    line: int
    fields: list[str]
    length: int


def _csv_records(lines: _Lines, reader: Any) -> Iterator[_Record]:
    """Yield the records of a CSV reader that are not blank."""
    line = 1
    start = lines.n_characters
    try:
        for fields in reader:
            if fields:
                yield _Record(line, fields, lines.n_characters - start)
            line = reader.line_num + 1
            start = lines.n_characters
    except csv.Error as error:
        raise _MisplacedQuote(f"{lines.path}, line {line}: {error}") from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let csv read fields as long as the longest line that `_Lines` accepts."""
    with _FIELD_LIMIT:
        previous_limit = csv.field_size_limit(_LONGEST_LINE)
        try:
            yield
        finally:
            csv.field_size_limit(previous_limit)


def _check_header(place: str, header: list[str]) -> None:
    """Strip the names of columns in place; refuse empty or repeated names, and too many names."""
    header[:] = [name.strip() for name in header]
    if len(header) > MAX_COLUMNS:
        raise DataError(f"{place}: has {len(header)} columns; the limit is {MAX_COLUMNS}")
    if "" in header:
        raise DataError(f"{place}: column {header.index('') + 1} has no name")
    repeated = _first_repeated(header)
    if repeated is not None:
        raise DataError(f"{place}: there are two columns {shown(repeated)}")


def _first_repeated(names: Iterable[str]) -> str | None:
    """Find the first name that occurred before; None if there is no such name."""
    earlier_names = set[str]()
    for name in names:
        if name in earlier_names:
            return name
        earlier_names.add(name)
    return None


def _json_line_chunks(lines: _Lines) -> Iterator[Chunk]:
    """Yield the records of JSON lines in chunks of at most 524,288 cells, or of one record."""
    records: list[dict[str, Any]] = []
    line_numbers: list[int] = []
    records_at_once = _CELLS_AT_ONCE
    # `splitlines` would be wrong here: JSON may hold an unescaped U+2028.
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{lines.path}, line {number}"
            value = _parse_json(place, line, cut=lines.cut)
            record = _checked_object(place, value)
            records.append(record)
            line_numbers.append(number)
            # The widest record that was read limits the number of records in a chunk.
            records_of_this_width = _CELLS_AT_ONCE // max(1, len(record))
            records_at_once = max(1, min(records_at_once, records_of_this_width))
        if len(records) >= records_at_once:
            yield _columns_of_records(lines.path, records), line_numbers
            records = []
            line_numbers = []
    yield _columns_of_records(lines.path, records), line_numbers


def _json_array_chunks(path: Path) -> Iterator[Chunk]:
    """Yield a JSON array of objects as one chunk."""
    data = bytearray()
    with open_bytes(path) as file:
        # The size is checked piece by piece, because a .gz may expand a thousand times.
        while piece := file.read(_PIECE):
            data += piece
            expected_bytes = _BYTES_PER_JSON_BYTE * len(data)
            refuse_too_large(expected_bytes, f"{path}: the table of more than {len(data)} bytes")
    values = _parse_json(str(path), decoded(path, bytes(data)))
    record_numbers = range(1, len(values) + 1)
    records = []
    for number, value in zip(record_numbers, values, strict=True):
        records.append(_checked_object(f"{path}, record {number}", value))
    yield _columns_of_records(path, records), record_numbers


def _columns_of_records(path: Path, records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Convert records to columns; a value that a record lacks is None."""
    names = list(dict.fromkeys(name for record in records for name in record))
    size = f"{path}: {len(records)} rows of {len(names)} columns"
    refuse_too_large(_BYTES_PER_REFERENCE * len(records) * len(names), size)
    return {name: [record.get(name) for record in records] for name in names}


def _checked_object(place: str, value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, else raise DataError."""
    if not isinstance(value, dict):
        raise DataError(f"{place}: is no JSON object: {shown(value)}")
    return value


def _parse_json(place: str, text: str, *, cut: bool = False) -> Any:
    """Parse JSON text; raise DataError if it is invalid or has half of a surrogate pair.

    Args:
        place: file and line, for messages.
        text: the text.
        cut: whether the text lacks its line end, so that the file may be cut.
    """
    try:
        value = json.loads(text, object_pairs_hook=_dict_of_pairs)
        if "\\u" in text:  # only an escape can be half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        fault = "is not Unicode: half of a surrogate pair"
        raise DataError(f"{place}: {fault}: {shown(text.strip())}") from None
    except json.JSONDecodeError as error:
        reason = error.msg
        if error.lineno > 1:
            reason += f" in line {error.lineno}"
        if cut:
            reason = "half a line, the file was cut"
        raise DataError(f"{place}: is no JSON ({reason}): {shown(text.strip())}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: {error}: {shown(text.strip())}") from None


def _dict_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of (name, value) pairs; raise ValueError if a name occurs twice."""
    record = dict(pairs)
    if len(record) < len(pairs):
        repeated = _first_repeated(name for name, _ in pairs)
        raise ValueError(f"{shown(repeated)} occurs twice")
    return record


def _parquet_chunks(path: Path) -> Iterator[Chunk]:
    """Yield the rows of a Parquet file chunk by chunk."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet files need pyarrow: pip install 'sortnet[parquet]'"
        ) from None
    first_row = 1  # number of the first row of the next chunk
    refuse_irregular(path)
    with path.open("rb") as file:
        try:
            table = parquet.ParquetFile(file)
            n_rows = table.metadata.num_rows
            names = list(table.schema_arrow.names)
            _check_header(str(path), names)
            kept = {k: name for k, name in enumerate(names) if not _PARQUET_INDEX.fullmatch(name)}
            if len(kept) < len(names):
                note(path, "the index of the frame, which has no name, was left out")
            size = f"{path}: {n_rows} rows of {len(names)} columns"
            refuse_too_large(_BYTES_PER_PARQUET_CELL * n_rows * len(names), size)
            rows_at_once = max(1, _CELLS_AT_ONCE // max(1, len(names)))
            for batch in table.iter_batches(batch_size=rows_at_once):
                columns = {name: _convert_column(batch.column(k)) for k, name in kept.items()}
                yield columns, range(first_row, first_row + batch.num_rows)
                first_row += batch.num_rows
            if first_row == 1:  # there are no rows, but there are columns
                yield {name: [] for name in kept.values()}, []
        except (DataError, MemoryError):
            raise
        except Exception as error:  # pyarrow has a dozen exceptions for damaged files
            reason = one_line(error)
            raise DataError(f"{path}: is damaged or no Parquet file: {reason}") from None


def _convert_column(column: Any) -> Any:
    """Convert a column of pyarrow to an array if all its values are numbers, else to a list."""
    kind = str(column.type)
    if not column.null_count and kind.startswith(("int", "uint", "float", "double")):
        return column.to_numpy(zero_copy_only=False)
    return [_convert_cell(value) for value in column.to_pylist()]


def _convert_cell(value: Any) -> Any:
    """Convert numbers, dates and durations of any type to floats and texts.

    A date becomes a text, a duration its number of days. Other values are returned as they are.
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    return value
