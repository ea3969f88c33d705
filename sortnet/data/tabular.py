"""Tables -> Queries: pandas data frames, CSV (and TSV) and Parquet."""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sortnet.data.letor_faults import MAX_FEATURES
from sortnet.data.parquet import open_parquet
from sortnet.errors import DataError
from sortnet.files import data_files, one_line, open_bytes, reading
from sortnet.types import F32, I64, Queries, grade_fault
from sortnet.types.free import refuse_too_large, texts
from sortnet.types.precision import Differences, neighbours
from sortnet.types.room import GrowingTable

if TYPE_CHECKING:
    import pandas as pd

_ROWS_AT_ONCE, _VALUES_AT_ONCE = 1 << 16, 1 << 24
_LONGEST_LINE = 64 << 20
_LONGEST_NAME = 1024
_ROLES = ("qid", "label", "docid")  # columns of files
_BYTES_A_ROW = 128  # of the names and the grade, about, while a table is read
_MISSING = ["", "NULL", "null", "NaN", "nan", "NA", "N/A", "None", "<NA>"]

Place = Callable[[int], str]


def from_frame(
    frame: pd.DataFrame,
    *,
    qid: str = "qid",
    label: str = "label",
    docid: str = "docid",
    labelled: bool = True,
    source: str = "frame",
) -> Queries:
    """Make Queries from a pandas (or polars) data frame with one row per document.

    Every column except the three named ones is a feature and must be numeric; missing values become
    NaN. `docid` may be absent.

    Args:
        frame: the table.
        qid: the column that says which query a row belongs to; rows in any order.
        label: the column of whole grades from 0.
        docid: the column of the documents' names.
        labelled: whether `label` must be there, with a grade in each row; else what has none is 0.
        source: what error messages call the table.

    Raises:
        DataError: for missing columns, a column that is not numeric, infinite values, bad grades;
            with grades, for a feature whose differences within queries are lost in float32.

    >>> import pandas as pd
    >>> q = from_frame(pd.DataFrame({"qid": [1, 1], "label": [0, 2], "age": [3, None]}))
    >>> q.feature_names, q.features.tolist(), q.grades.tolist()
    (('age',), [[3.0], [nan]], [0, 2])
    """
    frame = as_pandas(frame)
    table = _Table([str(c) for c in frame.columns], (qid, label, docid), labelled, source)
    frame = frame.set_axis(table.columns, axis=1)
    return table.queries([_Chunk(frame, lambda row: f"{source}, row {row}")])


def read_csv(path: Path, *, labelled: bool) -> Queries:
    """Read a CSV file with a header, or TSV by name, or several; see `from_frame`."""
    first, *others = files = data_files(path)
    columns = _header(first)
    for other in others:
        _refuse_other_columns(other, _header(other), first, columns)
    table = _Table(columns, _ROLES, labelled, str(path))
    with closing(_chunks(files, table)) as chunks:
        return table.queries(chunks)


def read_parquet(path: Path, *, labelled: bool) -> Queries:
    """Read a Parquet file, or several; see `from_frame`."""
    first, *others = files = data_files(path)
    columns, n_rows = _shape_of_parquet(first)
    for other in others:
        columns_there, rows_there = _shape_of_parquet(other)
        _refuse_other_columns(other, columns_there, first, columns)
        n_rows += rows_there
    refuse_too_large(_BYTES_A_ROW * n_rows, f"{path}: the names and grades of {n_rows} rows")
    table = _Table(columns, _ROLES, labelled, str(path))
    with closing(_batches(files, table)) as chunks:
        return table.queries(chunks, n_rows)


def _shape_of_parquet(path: Path) -> tuple[list[str], int]:
    """The columns, as pandas has them, and the number of rows."""
    with open_parquet(path) as stored:
        empty = stored.schema_arrow.empty_table().to_pandas()
        return [str(c) for c in empty.columns], stored.metadata.num_rows


def _batches(files: list[Path], table: _Table) -> Generator[_Chunk]:
    """The rows of Parquet files in chunks."""
    n = _rows_at_once(table)
    for path in files:
        start = 0
        with open_parquet(path) as stored:
            for batch in stored.iter_batches(batch_size=n):
                frame = batch.to_pandas().set_axis(table.columns, axis=1)
                yield _Chunk(frame, partial(_row_place, path, start))
                start += len(frame)


def _row_place(path: Path, start: int, row: int) -> str:
    return f"{path}, row {start + row}"


def _refuse_other_columns(path: Path, ours: list[str], other: Path, theirs: list[str]) -> None:
    """Refuse a file with other columns than the first one."""
    if ours != theirs:
        raise DataError(f"{path}: its columns are {_some(ours)}; those of {other} {_some(theirs)}")


class _Chunk(NamedTuple):
    """Some rows of a table.

    Attributes:
        place: says where a row of the chunk is, for messages.
        share: of the table that has been read with it.
    """

    frame: pd.DataFrame
    place: Place
    share: float = 1.0


class _Table:
    """The roles of a table's columns, and their values."""

    def __init__(
        self, columns: list[str], named: tuple[str, str, str], labelled: bool, source: str
    ) -> None:
        self.columns, self.source, self.labelled = columns, source, labelled
        self.qid, self.label, self.docid = named
        self.features = [c for c in columns if c not in named]
        if len(set(columns)) < len(columns):
            twice = next(c for k, c in enumerate(columns) if c in columns[:k])
            raise DataError(f"{source}: there are two columns {twice!r}")
        for needed in (self.qid, self.label) if labelled else (self.qid,):
            if needed not in columns:
                raise DataError(f"{source}: there is no column {needed!r} in {_some(columns)}")
        if len(columns) > MAX_FEATURES:
            raise DataError(f"{source}: has {len(columns)} columns; the limit is {MAX_FEATURES}")
        if not self.features:
            raise DataError(f"{source}: there is no feature column in {_some(columns)}")

    def queries(self, chunks: Iterable[_Chunk], n_rows: int = 0) -> Queries:
        """Join the chunks of a table, of that many rows where it is known."""
        import pandas as pd

        y, qids = [], []
        docids: list[str] = []
        seen = Differences(len(self.features))
        X = GrowingTable(self.source, len(self.features), n_rows)
        for chunk, place, share in chunks:
            try:
                qids.append(self._qids(chunk))
                near = neighbours(pd.factorize(qids[-1])[0])
                rows = X.next_rows(len(chunk), len(self.features), share)
                self._fill(rows, chunk, seen, *near)
                y.append(self._grades(chunk))
                if self.docid in self.columns:
                    docids += _names(chunk[self.docid], self.docid)
            except _Fault as fault:
                raise DataError(f"{place(fault.row)}: {fault.what}") from None
            X.n += len(chunk)
        if X.n == 0:
            raise DataError(f"{self.source}: there are no documents")
        if self.labelled:
            seen.refuse(self.features, self.source)
        return Queries.from_arrays(
            X.finished(),
            np.concatenate(y),
            qid=self._joined(qids),
            docids=docids or None,
            feature_names=self.features,
            source=self.source,
        )

    def _joined(self, qids: list[NDArray[Any]]) -> NDArray[Any]:
        """The queries' names of all chunks: numbers, or texts where a chunk has any."""
        if len({each.dtype for each in qids}) > 1:
            return texts([str(qid) for each in qids for qid in each], f"{self.source}: query ids")
        qid = np.concatenate(qids)
        return qid if qid.dtype != object else texts(qid.tolist(), f"{self.source}: query ids")

    def _fill(self, rows: F32, chunk: pd.DataFrame, seen: Differences, i: I64, j: I64) -> None:
        for k, name in enumerate(self.features):
            values = _floats(chunk[name], f"column {name!r}")
            with np.errstate(over="ignore"):
                rows[:, k] = values
            infinite = np.isinf(rows[:, k])
            if infinite.any():
                row = int(infinite.argmax())
                raise _Fault(row, f"column {name!r}: {values[row]} is infinite in float32")
            if self.labelled:
                seen.add(values[:, None], i, j, first=k)

    def _grades(self, chunk: pd.DataFrame) -> NDArray[np.float64]:
        if self.label not in self.columns:
            return np.zeros(len(chunk))
        grades = _floats(chunk[self.label], f"the grade in column {self.label!r}")
        missing = np.isnan(grades)
        if self.labelled and missing.any():
            raise _Fault(int(missing.argmax()), f"there is no grade in column {self.label!r}")
        grades = np.where(missing, 0, grades)
        most = np.iinfo(np.int32).max
        bad = ~((grades >= 0) & (grades <= most) & (grades == np.floor(grades)))
        if bad.any():
            row = int(bad.argmax())
            raise _Fault(row, grade_fault(f"{grades[row]:g}"))
        return grades

    def _qids(self, chunk: pd.DataFrame) -> NDArray[Any]:
        qids = chunk[self.qid]
        names = _names(qids, self.qid)
        if "" in names:
            raise _Fault(names.index(""), f"there is no {self.qid!r}")
        if qids.dtype.kind in "iuf":
            return qids.to_numpy()
        return np.array(names, object)


def as_pandas(frame: Any) -> pd.DataFrame:
    """A data frame of another library, such as polars, as one of pandas; sparse columns dense."""
    import pandas as pd

    if hasattr(frame, "iloc"):
        sparse = [k for k, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.SparseDtype)]
        refuse_too_large(8 * len(frame) * len(sparse), "the sparse columns of a frame")
        frame = frame.copy(deep=False) if sparse else frame
        for k in sparse:
            frame.isetitem(k, frame.iloc[:, k].sparse.to_dense())
        return frame  # type: ignore[no-any-return]

    def column(values: Any) -> Any:
        levels = str(getattr(values, "dtype", "")).startswith(("Categorical", "Enum"))  # of polars
        return pd.Categorical(np.asarray(values)) if levels else np.asarray(values)

    return pd.DataFrame({str(name): column(frame[name]) for name in frame.columns})


def with_numbers(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """The frame with numbers for its columns of objects.

    Raises:
        DataError: naming a column of texts, dates or other objects, and its first such value.
    """
    frame = frame.copy(deep=False)
    for k, dtype in enumerate(frame.dtypes):
        if getattr(dtype, "kind", "O") not in "biuf":
            try:
                frame.isetitem(k, _floats(frame.iloc[:, k], f"column {str(frame.columns[k])!r}"))
            except _Fault as fault:
                raise DataError(f"{source}, row {fault.row}: {fault.what}") from None
    return frame


class _Fault(Exception):
    """What is wrong with a row of a chunk."""

    def __init__(self, row: int, what: str) -> None:
        self.row, self.what = row, what


def _names(column: pd.Series[Any], name: str) -> list[str]:
    """A column of names, '' where one is missing."""
    if column.dtype.kind == "O":
        for row, value in enumerate(column):
            if isinstance(value, bytes | list | tuple | dict | set | np.ndarray):
                raise _Fault(row, f"column {name!r}: {str(value)[:60]!r} is no name")
    names: list[str] = column.astype("string").fillna("").tolist()
    for row, text in enumerate(names):
        if len(text) > _LONGEST_NAME:
            raise _Fault(row, f"column {name!r}: a name of {len(text)} characters is too long")
    return names


def _floats(column: pd.Series[Any], name: str) -> NDArray[np.float64]:
    """A column as float64, NaN where a value is missing."""
    import pandas as pd

    kind = column.dtype.kind
    if kind != "c" and pd.api.types.is_numeric_dtype(column):
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan), np.float64)
    # To pandas a date is a number of nanoseconds.
    words = column.astype(str if kind in "cmM" else object)
    if pd.api.types.infer_dtype(words) in ("bytes", "complex", "mixed"):
        words = words.map(str)
    try:
        numbers = pd.to_numeric(words, errors="coerce").astype(np.float64)
    except OverflowError:  # a whole number beyond float64
        numbers = pd.to_numeric(words.map(str), errors="coerce").astype(np.float64)
    bad = (numbers.isna() & column.notna()).to_numpy(bool)
    if bad.any():
        row = int(bad.argmax())
        shown = repr(str(column.iloc[row])[:60])
        what, remedy = "not a number", "leave text columns out"
        if kind in "mM":
            what, remedy = f"a {column.dtype}, not a number", "give days or seconds as numbers"
        raise _Fault(row, f"{name}: {shown} is {what} ({remedy})")
    return np.asarray(numbers, np.float64)


def _chunks(files: list[Path], table: _Table) -> Generator[_Chunk]:
    """The rows of CSV files in chunks."""
    done, total = 0, sum(path.stat().st_size for path in files)
    for path in files:
        with closing(_chunks_of(path, table)) as chunks:
            start = 0
            for chunk, at in chunks:
                yield _Chunk(chunk, partial(_place, path, start), (done + at) / total)
                start += len(chunk)
        done += path.stat().st_size


def _rows_at_once(table: _Table) -> int:
    return max(1, min(_ROWS_AT_ONCE, _VALUES_AT_ONCE // len(table.columns)))


def _chunks_of(path: Path, table: _Table) -> Generator[tuple[pd.DataFrame, int]]:
    """The rows of a CSV file in chunks, and how far it has been read.

    Refuses rows longer or shorter than the header.
    """
    import pandas as pd

    names = [c for c in (table.qid, table.docid) if c in table.columns]
    numbers = [c for c in table.columns if c not in names]
    if int(pd.__version__.partition(".")[0]) < 3:
        # Older versions silently cut rows that are too long, except in the first chunk.
        _refuse_ragged(path)
    whole = False
    with reading(path), open_bytes(path) as file, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            with pd.read_csv(
                file,
                sep=_separator(path),
                names=table.columns,
                header=0,
                index_col=False,
                dtype=dict.fromkeys(names, "str"),
                keep_default_na=False,
                na_values=dict.fromkeys(numbers, _MISSING),
                encoding="utf-8-sig",
                chunksize=_rows_at_once(table),
                low_memory=False,
            ) as chunks:
                for chunk in chunks:
                    last = chunk.iloc[:, -1]
                    if not whole and (last.isna() | (last == "")).any():
                        _refuse_ragged(path)  # pandas pads short rows silently
                        whole = True
                    yield chunk, os.lseek(file.fileno(), 0, os.SEEK_CUR)
        except (pd.errors.ParserError, pd.errors.ParserWarning, UnicodeError) as error:
            _refuse_ragged(path)
            raise DataError(f"{path}: {one_line(error)}") from None


def _separator(path: Path) -> str:
    return "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","


def _records(path: Path) -> Generator[tuple[int, list[str]]]:
    """Each record of a CSV file that is not blank, and its line number."""
    line = 0
    with (
        open_bytes(path) as file,
        io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text,
    ):
        try:
            reader = csv.reader(_lines(path, text), delimiter=_separator(path))
            for record in reader:
                line = reader.line_num
                if record:
                    yield line, record
        except (csv.Error, UnicodeError) as error:
            raise DataError(f"{path}, after line {line}: {one_line(error)}") from None


def _lines(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith("\n"):
            raise DataError(f"{path}: has a line longer than {_LONGEST_LINE >> 20} MB")
        yield line


def _header(path: Path) -> list[str]:
    with reading(path), closing(_records(path)) as records:
        for _, record in records:
            return record
    raise DataError(f"{path}: the file is empty: it has no documents")


def _refuse_ragged(path: Path) -> None:
    """Name the first row that is longer or shorter than the header."""
    columns = 0
    with closing(_records(path)) as records:
        for line, record in records:
            columns = columns or len(record)
            if len(record) != columns:
                shown = repr(_separator(path).join(record)[:60])
                fault = f"{len(record)} fields where the header has {columns}: {shown}"
                raise DataError(f"{path}, line {line}: {fault}")


def _place(path: Path, start: int, row: int) -> str:
    """Where a row of a CSV file's chunk is: records may span lines and lines may be blank."""
    with closing(_records(path)) as records:
        for number, (line, _) in enumerate(records, start=-1):
            if number == start + row:
                return f"{path}, line {line}"
    return f"{path}, row {start + row}"


def _some(columns: list[str]) -> str:
    names = " ".join(", ".join(name[:60] for name in columns[:20]).split())
    return names + (", ..." if len(columns) > 20 else "")
