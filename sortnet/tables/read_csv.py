"""Read CSV and TSV files record by record, and convert columns of numbers chunk by chunk.

A message names the line of a record that is too short or too long, of a misplaced quote, or of a
byte that is no text.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sortnet.errors import DataError
from sortnet.files import encoding_of, note, note_unfinished, open_bytes, shown
from sortnet.tables.rows import Keep, Rows, check_header, join_rows, listed, rows_of_cells
from sortnet.tables.values import Cells, numbers_of

CELLS_AT_ONCE = 1 << 16

_LONGEST_LINE = 64 << 20  # characters
_SAMPLE = 1000  # rows that tell whether the header lacks the name of the first column
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
        raise DataError(
            f"{path}, line {line}: byte 0x{wrong} is not UTF-8: save it as UTF-8"
        ) from None


class _MisplacedQuote(DataError):
    """Raised when a CSV file has a misplaced quote."""


@dataclass(frozen=True)
class _Format:
    """Format of a CSV file.

    Attributes:
        separator: the separator of the fields.
        has_separator_line: whether the first line names the separator.
        has_spaces: whether a space follows each separator of the header, and so is no part of a
            field.
        quoting: a rule of `csv` for quotes.
    """

    separator: str
    has_separator_line: bool
    has_spaces: bool
    quoting: Any = csv.QUOTE_MINIMAL


def read_csv(path: Path, separators: str, keep: Keep) -> Rows:
    """Read a CSV file; log a note if it seems to end within its last row.

    Args:
        path: the file.
        separators: possible separators of the fields. The first one that is in the header separates
            the fields, or the first of all if none is there.
        keep: says whether the cells of a column are kept as read.

    Returns:
        The rows; without columns if the file has no header.

    Raises:
        DataError: on a fault of the file, with its line.

    Cost: about .3 microseconds for a cell.
    """
    lines = TextLines(path)
    header = lines.first()
    separator_line = _SEPARATOR_LINE.fullmatch(header.rstrip("\r\n"))
    if separator_line:
        separator = separator_line[1]
    else:
        separator = next((mark for mark in separators if mark in header), separators[0])
    n_spaces = header.count(f"{separator} ")
    form = _Format(separator, bool(separator_line), 0 < n_spaces == header.count(separator))
    try:
        table = _read_table(lines, form, keep)
    except _MisplacedQuote:
        if separator != "\t":
            raise
        # Most TSV files have no quoting.
        form = replace(form, quoting=csv.QUOTE_NONE)
        table = _read_table(lines, form, keep)
    if table.mixed:  # the first numbers of these columns are no longer texts
        mixed = table.mixed
        table = _read_table(lines, form, lambda name: keep(name) or name in mixed)
    for place, text in table.notes:
        note(place, text)
    # A missing line end alone is no sign of a cut: many programs write CSV files without it.
    if lines.cut and table.last_is_shortest:
        note_unfinished(table.rows.place(-1))
    return replace(table.rows, unfinished=lines.cut)


class _Table(NamedTuple):
    """Table that was read from a CSV file.

    Attributes:
        rows: the rows.
        notes: places, and what was unusual there.
        mixed: names of columns with numbers in some chunks of rows, and with texts in others.
        last_is_shortest: whether there are several rows, and the last row ends in a shorter line
            than each other row, which a cut file shows.
    """

    rows: Rows
    notes: Sequence[tuple[str, str]] = ()
    mixed: Collection[str] = ()
    last_is_shortest: bool = False


def _read_table(lines: TextLines, form: _Format, keep: Keep) -> _Table:
    """Read the records of a CSV file; the table has no columns if the file has no header.

    Columns of numbers become arrays after each 524,288 cells, so that the texts of a large file are
    never in memory as a whole.

    Raises:
        DataError: if the header is wrong, a record has another number of fields, or a value has no
            name.
    """
    notes: list[tuple[str, str]] = []
    records = _records(lines, form, notes)
    with _long_fields():
        first_record = next(records, None)
        if first_record is None:
            return _Table(Rows(lines.path, {}, []))
        line, names, _ = first_record
        sample = [*islice(records, _SAMPLE)]
        header = _Header(f"{lines.path}, line {line}", names, [row for _, row, _ in sample], notes)
        names = [*header.numbers]
        may_be_data = len(names) == 1 or not numbers_of(names)[1].any()
        if may_be_data and not any(map(keep, names)):
            text = f"the first line names the columns: {listed(names)}"
            notes.append((f"{lines.path}, line {line}", text))
        rows_at_once = max(1, CELLS_AT_ONCE // header.n_fields)
        records = chain(sample, records)
        tables: list[Rows] = []
        lengths: list[int] = []
        while chunk := [*islice(records, rows_at_once)]:
            for line, fields, length in chunk:
                header.check(lines.path, line, fields, form.separator)
                lengths.append(length)
            columns = header.columns([fields for _, fields, _ in chunk])
            starts = [line for line, _, _ in chunk]
            tables.append(rows_of_cells(lines.path, columns, starts, "line", keep))
    if not tables:
        return _Table(Rows(lines.path, header.columns([]), []), notes)
    rows = join_rows(tables)
    mixed = {
        name
        for name, cells in rows.columns.items()
        if isinstance(cells, list)
        and any(isinstance(table.columns[name], np.ndarray) for table in tables)
    }
    last_is_shortest = len(lengths) > 1 and lengths[-1] < min(lengths[:-1])
    return _Table(rows, notes, mixed, last_is_shortest)


def _records(
    lines: TextLines, form: _Format, notes: list[tuple[str, str]]
) -> Iterator[tuple[int, list[str], int]]:
    """Yield the line, the fields and the length of the last line of each record with a value.

    The first record without a value is noted.
    """
    reader = csv.reader(
        lines,
        delimiter=form.separator,
        quoting=form.quoting,
        skipinitialspace=form.has_spaces,
        strict=True,
    )
    line = 1
    is_noted = False  # whether a record of separators only was noted
    try:
        if form.has_separator_line:
            next(reader)
            line = reader.line_num + 1
        for fields in reader:
            if any(fields) or len(fields) == 1:  # a quoted blank in a table of one column
                yield line, fields, len(lines.last.rstrip("\r\n"))
            elif fields and not is_noted:  # spreadsheets write such records at the end
                is_noted = True
                fault = "a row without values; such rows were left out"
                notes.append((f"{lines.path}, line {line}", fault))
            line = reader.line_num + 1
    except csv.Error as error:
        advice = "a quote within a quoted field is written twice"
        raise _MisplacedQuote(f"{lines.path}, line {line}: {error}; {advice}") from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Raise the limit of `csv` on the length of a field to the longest line that is allowed."""
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

    def __init__(
        self,
        place: str,
        fields: list[str],
        first_rows: Sequence[Sequence[str]],
        notes: list[tuple[str, str]],
    ) -> None:
        """Read the names of the columns, and note columns that are left out.

        Args:
            place: file and line of the header, for messages.
            fields: the fields of the header.
            first_rows: the fields of the first rows.
            notes: gets the notes.

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
            notes.append((place, "the first column, which has no name, was left out"))
        self._n_needed = max(self.numbers.values(), default=0) + 1
        check_header(place, [name for name in names if name] or names)
        self._blank = [k for k, name in enumerate(names) if not name and k]
        if self._blank:
            numbers = ", ".join(str(k + 1) for k in self._blank)
            notes.append((place, f"columns without a name and values left out: {numbers}"))

    def check(self, path: Path, line: int, fields: Sequence[str], separator: str) -> None:
        """Raise DataError if a record has a wrong number of fields, or a value without a name."""
        n = len(fields)
        if not self._n_needed <= n <= self.n_fields:
            fault = f"{n} fields where the header has {self.n_fields}"
            if self.n_fields == 1:  # such as a title above the table, or texts with commas
                fault += f", {shown(*self.numbers)} (the first line names the columns, and a text "
                fault += f"with {shown(separator)} needs quotes)"
            raise DataError(f"{path}, line {line}: {fault}: {shown(separator.join(fields))}")
        for k in self._blank:
            if k < n and fields[k].strip():
                fault = f"column {k + 1} has no name, and holds {shown(fields[k])}"
                raise DataError(f"{path}, line {line}: {fault}")

    def columns(self, records: Sequence[list[str]]) -> dict[str, Cells]:
        """Make the columns {name: cells} of records; missing fields at the end are blank."""
        for fields in records:
            if len(fields) < self.n_fields:
                fields += [""] * (self.n_fields - len(fields))
        cells_of_fields = [*zip(*records, strict=True)]
        return {name: [*cells_of_fields[k]] if records else [] for name, k in self.numbers.items()}
