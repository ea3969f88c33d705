"""Read rows of CSV, TSV, JSON, JSON lines and Parquet files, and of data frames.

An error names file and line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.core.memory import refuse_too_large
from sortnet.errors import DataError
from sortnet.files import (
    TABLES,
    data_files,
    note,
    note_unfinished,
    one_line,
    open_bytes,
    reading,
    refuse_irregular,
    shown,
    suffix_of,
)
from sortnet.tables.read_csv import TextLines, decoded, read_csv
from sortnet.tables.rows import (
    Keep,
    Rows,
    check_header,
    first_repeated,
    join_rows,
    listed,
    numbers_if_all_are,
    rows_of_cells,
)
from sortnet.tables.values import Cells, are_dates, numbers_of, word

if TYPE_CHECKING:
    import pandas as pd

_RECORDS_AT_ONCE = 1 << 14
_PIECE = 1 << 24  # bytes of a JSON file that are read at a time
_BYTES_PER_JSON_BYTE = 16  # estimate of the memory that parsed JSON takes
_BYTES_PER_PARQUET_CELL = 16  # estimate of the memory that a cell takes
_BYTES_PER_REFERENCE = 8  # memory that a list takes for each of its cells, at least
_PARQUET_INDEX = re.compile(r"__index_level_\d+__")  # names that pandas gives to an index
_ROWS_OF_JSON = "rows are objects, one a line or all in an array"
_DATE_KIND = "M"
_NUMBER_KINDS = "biufmM"  # booleans, whole numbers, real numbers, durations and dates


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
            difference = (
                f"its columns are {listed(table.columns)}; "
                f"those of {first.path} {listed(first.columns)}"
            )
            raise DataError(f"{table.path}: {difference}")
    ends = np.cumsum([len(table) for table in tables]).tolist()
    first_rows = [0, *ends[:-1]]  # number of the first row of each file among the joined rows
    files_with_rows = [*zip(first_rows, files, strict=True)]
    return replace(join_rows(tables), path=path, files=files_with_rows)


def rows_of_frame(frame: Any, source: str, keep: Keep = lambda column: True) -> Rows:
    """Read the rows of a data frame of pandas, or of another library such as polars.

    Raises:
        DataError: if two columns have the same name.
    """
    frame = as_pandas(frame)
    check_header(source, [str(name) for name in frame.columns])
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
    if column.isna().all():
        return [None] * len(column), False
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
    return cells if keep else numbers_if_all_are(cells), has_dates


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
    """Whether an object is a data frame of any library, a table of Arrow, or a list of dicts.

    An array of records of numpy is a frame, too.
    A lazy frame warns when it is asked for its columns, so it is recognised by `collect`.
    """
    if hasattr(X, "iloc"):
        return hasattr(X, "columns")
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(row, Mapping) for row in X)
    if isinstance(X, np.ndarray):
        return X.dtype.names is not None
    arrow_or_interchange = ["__arrow_c_stream__", "__arrow_c_array__", "__dataframe__"]
    return any(hasattr(X, name) for name in ["collect", "columns", *arrow_or_interchange])


def as_pandas(frame: Any) -> pd.DataFrame:
    """Convert a data frame of any library, or a list of dicts, to a dense data frame of pandas.

    A lazy frame of polars is collected: its query is run, and its rows are read. A table of Arrow,
    or another object that Arrow can read, becomes the frame that pyarrow makes of it.
    """
    import pandas as pd

    if isinstance(frame, list | tuple | np.ndarray):
        if not is_frame(frame):
            raise DataError(f"{shown(frame)} is no data frame, nor a list of dicts")
        try:
            return pd.DataFrame.from_records(frame)
        except UnicodeEncodeError as error:
            fault = f"{shown(error.object)} is not Unicode: half of a surrogate pair"
            raise DataError(f"the list of dicts: {fault}") from None
        except ValueError as error:  # such as a field with several numbers
            raise DataError(f"the array of records or list of dicts: {error}") from None
    if hasattr(frame, "iloc"):
        if not hasattr(frame, "columns"):
            raise DataError(f"a {type(frame).__name__} is no data frame: make one with to_frame()")
        return _with_dense_columns(frame)
    if hasattr(frame, "collect"):  # a lazy frame
        frame = frame.collect()
    names = getattr(frame, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return _pandas_of_arrow(frame)
    return pd.DataFrame({name: _values_of_series(frame[name]) for name in names})


def _values_of_series(column: Any) -> Any:
    """Convert a column of polars, or of another library, to an array or a series (n,)."""
    import pandas as pd

    values: Any = None
    with suppress(Exception):  # types such as Int128, which polars does not convert
        values = np.asarray(column)
    if values is None or values.ndim != 1:  # such as lists of the same length
        cells = column.to_list() if hasattr(column, "to_list") else [*column]
        values = pd.Series(cells, dtype=object)
    is_categorical = str(getattr(column, "dtype", "")).startswith(("Categorical", "Enum"))
    return pd.Categorical(values) if is_categorical else values


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
        try:
            table = pyarrow.table(table)
        except (TypeError, ValueError):
            raise DataError(
                f"a {type(table).__name__} is no data frame, nor a list of dicts"
            ) from None
    frame = table.to_pandas()
    if not is_frame(frame):
        raise DataError(f"a {type(table).__name__} is no data frame, nor a list of dicts")
    return _with_dense_columns(frame)


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
    refuse_irregular(path)
    if kind not in TABLES:
        raise DataError(f"{path}: is none of {', '.join(TABLES)} nor a folder: save it as CSV")
    with reading(path):
        if kind == ".parquet":
            return _read_parquet(path, keep)
        if kind in (".csv", ".tsv"):
            # In many countries spreadsheets separate by semicolons.
            rows = read_csv(path, "\t,;|" if kind == ".tsv" else ",;\t|", keep)
        elif TextLines(path).first().lstrip().startswith("["):
            rows = _rows_of_records(path, _records_of_array(path), "record", keep)
        else:
            lines = TextLines(path)
            rows = _rows_of_records(path, _records_of_lines(lines), "line", keep)
            rows = replace(rows, unfinished=lines.cut)
            cells = [cells[0] for cells in rows.columns.values()] if len(rows) == 1 else [None]
            if kind == ".json" and all(isinstance(cell, list | dict) for cell in cells):
                raise DataError(f"{path}: is one object of columns or tables; {_ROWS_OF_JSON}")
            if lines.cut and len(rows):
                note_unfinished(rows.place(-1))
        if not rows.columns and not may_be_empty:
            raise DataError(f"{path}: the file is empty: it has no rows")
        return rows


def _records_of_lines(lines: TextLines) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each JSON line and its object."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{lines.path}, line {number}"
            yield number, _checked_object(place, _parse_json(place, line, cut=lines.cut))


def _records_of_array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each object of a JSON array, from 1, and the object."""
    data = bytearray()
    with open_bytes(path) as file:
        # The size is checked piece by piece, because a .gz may expand a thousand times.
        while piece := file.read(_PIECE):
            data += piece
            expected_bytes = _BYTES_PER_JSON_BYTE * len(data)
            refuse_too_large(expected_bytes, f"{path}: the table of more than {len(data)} bytes")
    values = _parse_json(str(path), decoded(path, bytes(data)))
    for number, value in enumerate(values, start=1):
        yield number, _checked_object(f"{path}, record {number}", value)


def _rows_of_records(
    path: Path, records: Iterator[tuple[int, dict[str, Any]]], unit: str, keep: Keep
) -> Rows:
    """Make a table of records; a value that a record lacks is None.

    Columns of numbers become arrays after each 16,384 records, so that the records of a large file
    are never in memory as a whole.

    Args:
        path: the file.
        records: the line or the number of each record, and the record.
        unit: the unit of these numbers.
        keep: says whether the cells of a column are kept as read.
    """
    tables = [Rows(path, {}, [], unit)]
    while chunk := [*islice(records, _RECORDS_AT_ONCE)]:
        names = [*dict.fromkeys(name for _, record in chunk for name in record)]
        size = f"{path}: {len(chunk)} rows of {len(names)} columns"
        refuse_too_large(_BYTES_PER_REFERENCE * len(chunk) * len(names), size)
        header = [*names]
        check_header(str(path), header)  # which strips the names
        columns: dict[str, Cells] = {
            name: [record.get(stored_name) for _, record in chunk]
            for name, stored_name in zip(header, names, strict=True)
        }
        lines = [number for number, _ in chunk]
        tables.append(rows_of_cells(path, columns, lines, unit, keep))
    return join_rows(tables if len(tables) == 1 else tables[1:])


def _checked_object(place: str, value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, else raise DataError."""
    if not isinstance(value, dict):
        raise DataError(f"{place}: is no JSON object: {shown(value)}; {_ROWS_OF_JSON}")
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
        fault = f"is no JSON ({reason}): {shown(text.strip())}; {_ROWS_OF_JSON}"
        raise DataError(f"{place}: {fault}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: {error}: {shown(text.strip())}") from None


def _dict_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of (name, value) pairs; raise ValueError if a name occurs twice."""
    record = dict(pairs)
    if len(record) < len(pairs):
        repeated = first_repeated(name for name, _ in pairs)
        raise ValueError(f"{shown(repeated)} occurs twice")
    return record


def _read_parquet(path: Path, keep: Keep) -> Rows:
    """Read a Parquet file as the data frame that pyarrow makes of it."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet files need pyarrow: pip install 'sortnet[parquet]'"
        ) from None
    refuse_irregular(path)
    with path.open("rb") as file:
        try:
            table = parquet.ParquetFile(file)
            n_rows = table.metadata.num_rows
            stored_names = list(table.schema_arrow.names)
            names = [*stored_names]
            check_header(str(path), names)  # which strips them
            kept_names = {
                stored: name
                for stored, name in zip(stored_names, names, strict=True)
                if not _PARQUET_INDEX.fullmatch(name)
            }
            if len(kept_names) < len(names):
                note(path, "the index of the frame, which has no name, was left out")
            size = f"{path}: {n_rows} rows of {len(names)} columns"
            refuse_too_large(_BYTES_PER_PARQUET_CELL * n_rows * len(names), size)
            # Without what pandas wrote beside the table, which may be damaged.
            cells = table.read(columns=[*kept_names]).replace_schema_metadata(None)
            frame = cells.to_pandas().rename(columns=kept_names)
        except (DataError, MemoryError):
            raise
        except Exception as error:  # pyarrow has a dozen exceptions for damaged files
            reason = one_line(error)
            raise DataError(f"{path}: is damaged or no Parquet file: {reason}") from None
    return replace(rows_of_frame(frame, str(path), keep), path=path, lines=range(1, n_rows + 1))


def _convert_cell(value: Any) -> Any:
    """Convert numbers, dates and durations of any type to floats and texts.

    A date or a time of day becomes a text, a duration its number of days. Other values are returned
    as they are.
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    return value
