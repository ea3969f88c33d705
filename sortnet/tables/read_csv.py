"""Read CSV and TSV files: one pass finds every fault, then pandas reads the cells.

The pass goes through the records by `csv` and names the line of a record that is too short or too
long, of a misplaced quote, or of a byte that is no text. pandas then reads columns of numbers ten
times as fast as cells could be converted one by one.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.core import Bool
from sortnet.errors import DataError
from sortnet.files import encoding_of, note, note_unfinished, one_line, open_bytes, shown
from sortnet.tables.rows import Keep, Rows, check_header, numbers_if_all_are
from sortnet.tables.values import (
    MISSING_SPELLINGS,
    Cells,
    are_dates,
    is_missing,
    plain_numbers,
)

if TYPE_CHECKING:
    import pandas as pd

CELLS_AT_ONCE = 1 << 19

_LONGEST_LINE = 64 << 20  # characters
_SAMPLE = 1000  # rows that tell which columns look like numbers
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # a first line that Excel writes
_INDEX = re.compile(r"(Unnamed: 0(\.\d+)*)?")  # names that pandas gives to the number of a row
_FIELD_LIMIT = threading.Lock()  # csv has one limit for the whole process


class TextLines:
    """Lines of a text file.

    Attributes:
        path: the file.
        last: the last line that was read; empty before the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = ""

    @property
    def cut(self) -> bool:
        """Whether the last line that was read lacks its line end."""
        return bool(self.last) and not self.last.endswith(("\n", "\r"))

    def first(self) -> str:
        """The first line that is not blank; empty if there is none."""
        return next((line for line in self if line.strip()), "")

    def encoding(self) -> str:
        """The encoding of the file, by its byte order mark."""
        with open_bytes(self.path) as file:
            return encoding_of(file.read(4))

    def __iter__(self) -> Iterator[str]:
        """Yield the lines from the first on.

        Raises:
            DataError: if a line is too long or cannot be decoded.
        """
        try:
            with open_bytes(self.path) as file, io.TextIOWrapper(
                file, self.encoding(), newline=""
            ) as text:  # fmt: skip
                for line in text:
                    if len(line) > _LONGEST_LINE:
                        limit = f"{_LONGEST_LINE >> 20} MB"
                        raise DataError(f"{self.path}: has a line longer than {limit}")
                    self.last = line
                    yield line
        except UnicodeDecodeError:
            with open_bytes(self.path) as file:
                decoded(self.path, file.read())  # raises DataError with the line of the byte
            raise


def decoded(path: Path, data: bytes) -> str:
    """Decode the text of a file; raise DataError if a byte is wrong, naming its line."""
    encoding = encoding_of(data)
    data = data.removeprefix(codecs.BOM_UTF8)  # the place of an error does not count the mark
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            raise DataError(f"{path}: is not {encoding.upper()}: {error.reason}") from None
        line = len(data[: error.start + 1].splitlines())
        wrong = data[error.start : error.start + 1].hex()
        raise DataError(f"{path}, line {line}: byte 0x{wrong} is not UTF-8") from None


class _MisplacedQuote(DataError):
    """Raised when a CSV file has a misplaced quote."""


@dataclass(frozen=True)
class _Format:
    """Format of a CSV file.

    Attributes:
        separator: the separator of the fields.
        has_separator_line: whether the first line names the separator.
        quoting: a rule of `csv` for quotes.
    """

    separator: str
    has_separator_line: bool
    quoting: Any = csv.QUOTE_MINIMAL


def read_csv(path: Path, separator: str | None, keep: Keep) -> Rows:
    """Read a CSV file; log a note if it seems to end within its last row.

    Args:
        path: the file.
        separator: the separator of the fields; None: it is found in the header.
        keep: says whether the cells of a column are kept as read.

    Returns:
        The rows; without columns if the file has no header.

    Raises:
        DataError: on a fault of the file, with its line.

    Cost: about .3 microseconds for a cell that is a number, and 1 for a text.
    """
    lines = TextLines(path)
    header = lines.first()
    separator_line = _SEPARATOR_LINE.fullmatch(header.rstrip("\r\n"))
    if separator_line:
        separator = separator_line[1]
    elif separator is None:
        # In many countries spreadsheets separate by semicolons.
        separator = next((character for character in ",;\t|" if character in header), ",")
    form = _Format(separator, bool(separator_line))
    try:
        layout = _layout(lines, form)
    except _MisplacedQuote:
        if separator != "\t":
            raise
        # Most TSV files have no quoting.
        form = _Format(separator, bool(separator_line), csv.QUOTE_NONE)
        layout = _layout(lines, form)
    if layout is None:
        return Rows(path, {}, [])
    columns = _read_columns(lines, form, layout, keep)
    dates = frozenset(name for name, cells in columns.items() if are_dates(cells))
    for name, cells in columns.items():
        if not keep(name):
            columns[name] = numbers_if_all_are(cells)
    rows = Rows(path, columns, layout.lines, unfinished=lines.cut, dates=dates)
    # A missing line end alone is no sign of a cut: many programs write CSV files without it.
    if lines.cut and layout.last_is_shortest:
        note_unfinished(rows.place(-1))
    return rows


@dataclass(frozen=True, eq=False)
class _Layout:
    """Places of the rows of a CSV file.

    Attributes:
        header: the header.
        header_record: number of the header's record, from 0; blank records count.
        is_row: (n_records,) whether each record after the header is a row, not blank.
        lines: (n_rows,) line at which each row starts.
        sample: fields of the first rows.
        last_is_shortest: whether there are several rows, and the last has fewer characters than
            each other, which a cut file shows.
    """

    header: _Header
    header_record: int
    is_row: Bool
    lines: list[int]
    sample: Sequence[Sequence[str]]
    last_is_shortest: bool


def _layout(lines: TextLines, form: _Format) -> _Layout | None:
    """Go through the records of a CSV file and check their fields; None without a header.

    Raises:
        DataError: if the header is wrong, a record has another number of fields, or a value has no
            name.
    """
    is_blank: list[bool] = []
    starts: list[int] = []
    lengths: list[int] = []
    with _long_fields():
        records = _records(lines, form, is_blank)
        if form.has_separator_line:
            next(records)
        first_record = next(records, None)
        if first_record is None:
            return None
        line, names = first_record
        header_record = len(is_blank) - 1
        first_records = list(islice(records, _SAMPLE))
        sample = [fields for _, fields in first_records]
        header = _Header(f"{lines.path}, line {line}", names, sample)
        for line, fields in chain(first_records, records):
            header.check(lines.path, line, fields, form.separator)
            starts.append(line)
            lengths.append(len(fields) + sum(map(len, fields)))
    is_row = ~np.array(is_blank[header_record + 1 :], np.bool_)
    last_is_shortest = len(lengths) > 1 and lengths[-1] < min(lengths[:-1])
    return _Layout(header, header_record, is_row, starts, sample, last_is_shortest)


def _records(
    lines: TextLines, form: _Format, is_blank: list[bool]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of each record that has a value; note which have none."""
    reader = csv.reader(lines, delimiter=form.separator, quoting=form.quoting, strict=True)
    line = 1
    is_noted = False  # whether a record of separators only was noted
    try:
        for fields in reader:
            is_row = any(fields) or len(fields) == 1  # a quoted blank in a table of one column
            is_blank.append(not is_row)
            if is_row:
                yield line, fields
            elif fields and not is_noted:  # spreadsheets write such records at the end
                is_noted = True
                note(f"{lines.path}, line {line}", "a row without values; such rows were left out")
            line = reader.line_num + 1
    except csv.Error as error:
        raise _MisplacedQuote(f"{lines.path}, line {line}: {error}") from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let csv read fields as long as the longest line that is allowed."""
    with _FIELD_LIMIT:
        previous_limit = csv.field_size_limit(_LONGEST_LINE)
        try:
            yield
        finally:
            csv.field_size_limit(previous_limit)


class _Header:
    """Header of a CSV file, in which columns without a name may be left out.

    The first column without a name has the numbers or the names of rows; R leaves its name out of
    the header. Other columns without a name are left out if their cells are blank.

    Attributes:
        numbers: {name of a column: number of its field in a record}.
        n_fields: number of fields of a record; blank fields at its end may be missing.
    """

    def __init__(self, place: str, fields: list[str], first_rows: Sequence[Sequence[str]]) -> None:
        """Read the names of the columns, and log a note about columns that are left out.

        Args:
            place: file and line of the header, for messages.
            fields: the fields of the header.
            first_rows: the fields of the first rows.

        Raises:
            DataError: if a name occurs twice, or there are no names or too many names.
        """
        names = [name.strip() for name in fields]
        if first_rows and all(len(row) == len(names) + 1 for row in first_rows):
            ends_blank = not any(row[-1].strip() for row in first_rows)
            names = [*names, ""] if ends_blank else ["", *names]
        self.n_fields = len(names)
        self.numbers = {name: k for k, name in enumerate(names) if name}
        if len(names) > 1 and _INDEX.fullmatch(names[0]) and set(names[1:]) != {""}:
            self.numbers.pop(names[0], None)
            note(place, "the first column, which has no name, was left out")
        self._n_needed = max(self.numbers.values(), default=0) + 1
        check_header(place, [name for name in names if name] or names)
        self._blank = [k for k, name in enumerate(names) if not name and k]
        if self._blank:
            columns = "column " if len(self._blank) == 1 else "columns "
            listed_numbers = ", ".join(str(k + 1) for k in self._blank)
            note(place, f"{columns}{listed_numbers} without a name and values left out")

    def check(self, path: Path, line: int, fields: Sequence[str], separator: str) -> None:
        """Raise DataError if a record has a wrong number of fields, or a value without a name."""
        n = len(fields)
        if not self._n_needed <= n <= self.n_fields:
            fault = f"{n} fields where the header has {self.n_fields}"
            raise DataError(f"{path}, line {line}: {fault}: {shown(separator.join(fields))}")
        for k in self._blank:
            if k < n and fields[k].strip():
                fault = f"column {k + 1} has no name, and holds {shown(fields[k])}"
                raise DataError(f"{path}, line {line}: {fault}")


def _read_columns(lines: TextLines, form: _Format, layout: _Layout, keep: Keep) -> dict[str, Cells]:
    """Read the cells of the columns: numbers as an array, everything else as texts.

    A column whose first cells are numbers is read as numbers. If a later cell is none, or is
    infinite, or there is no number at all, the column is read again as texts.
    """
    numbers = layout.header.numbers
    as_texts = {
        name for name, k in numbers.items() if keep(name) or not _look_like_numbers(layout, k)
    }
    columns = _read_cells(lines, form, layout, numbers, as_texts)
    again = {name: numbers[name] for name, cells in columns.items() if cells is None}
    if again:
        columns |= _read_cells(lines, form, layout, again, again)
    return columns


def _look_like_numbers(layout: _Layout, k: int) -> bool:
    """Whether the first cells of a field are numbers or missing."""
    cells = [row[k] for row in layout.sample if k < len(row)]
    present = [cell for cell in cells if not is_missing(cell)]
    return not np.isnan(plain_numbers(present)).any()


def _read_cells(
    lines: TextLines,
    form: _Format,
    layout: _Layout,
    numbers: Mapping[str, int],
    as_texts: Collection[str],
) -> dict[str, Cells]:
    """Read some columns; a column that is not as expected becomes None.

    Args:
        lines: the lines of the file.
        form: the format of the file.
        layout: the places of the rows.
        numbers: {name of a column: number of its field}.
        as_texts: names of the columns that are read as texts.
    """
    chunks: dict[str, list[Any]] = {name: [] for name in numbers}
    first = 0
    for frame in _frames(lines, form, layout, numbers, as_texts):
        is_row = layout.is_row[first : first + len(frame)]
        first += len(frame)
        if not is_row.all():
            frame = frame[is_row]
        for name, k in numbers.items():
            cells = frame[str(k)]
            chunks[name].append(cells.tolist() if name in as_texts else cells)
    columns: dict[str, Cells] = {}
    for name, parts in chunks.items():
        if name in as_texts:
            columns[name] = [*chain.from_iterable(parts)]
        else:
            columns[name] = _joined_numbers(parts)
    return columns


def _joined_numbers(chunks: Sequence[pd.Series[Any]]) -> Cells:
    """Join chunks of a column of numbers; None if there is anything but finite numbers."""
    if not all(chunk.dtype.kind in "biuf" for chunk in chunks):
        return None
    values = [chunk.to_numpy(np.float64) for chunk in chunks]
    joined = np.concatenate(values) if values else np.empty(0)
    is_infinite = np.abs(joined) > np.finfo(np.float32).max
    return None if is_infinite.any() or np.isnan(joined).all() else joined


def _frames(
    lines: TextLines,
    form: _Format,
    layout: _Layout,
    numbers: Mapping[str, int],
    as_texts: Collection[str],
) -> Iterable[pd.DataFrame]:
    """Read the records after the header by pandas, chunk by chunk, blank records included."""
    import pandas as pd

    n_fields = layout.header.n_fields
    missing = {str(k): MISSING_SPELLINGS for name, k in numbers.items() if name not in as_texts}
    with open_bytes(lines.path) as file:
        try:
            yield from pd.read_csv(
                file,
                sep=form.separator,
                quoting=form.quoting,
                encoding=lines.encoding(),
                header=layout.header_record,
                names=[str(k) for k in range(n_fields)],  # pandas takes whole numbers for places
                usecols=[str(k) for k in numbers.values()],
                index_col=False,
                dtype={str(numbers[name]): object for name in as_texts},
                keep_default_na=False,
                na_values=missing,
                skip_blank_lines=False,
                low_memory=False,
                chunksize=max(1, CELLS_AT_ONCE // n_fields),
            )
        except (pd.errors.ParserError, OverflowError) as error:
            raise DataError(f"{lines.path}: {one_line(error)}") from None
