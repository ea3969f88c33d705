"""Open Parquet files, with a one-line error whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sortnet.errors import DataError
from sortnet.files import one_line, reading
from sortnet.types.free import refuse_too_large

T = TypeVar("T")
_BYTES_A_VALUE = 16  # of a column and of its conversion


def from_parquet(path: Path, make: Callable[[Any], T]) -> T:
    """Read a file and return `make(table)` of its pyarrow table."""
    with open_parquet(path) as stored:
        _refuse_too_large(path, stored.metadata)
        return make(stored.read())


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a file as pyarrow's ParquetFile; what goes wrong within is a DataError."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet files need pyarrow: pip install 'sortnet[parquet]'"
        ) from None
    with reading(path), path.open("rb") as file:
        try:
            yield parquet.ParquetFile(file)
        except (DataError, MemoryError):
            raise
        except Exception as error:  # pyarrow and pandas raise a dozen types on damage
            fault = f"is damaged or no Parquet file: {one_line(error)}"
            raise DataError(f"{path}: {fault}") from None


def _refuse_too_large(path: Path, about: Any) -> None:
    """Refuse a table by the sizes in its metadata: repeated values take no space in the file."""
    groups = [about.row_group(k) for k in range(about.num_row_groups)]
    n_bytes = _BYTES_A_VALUE * about.num_rows * about.num_columns
    n_bytes += sum(group.total_byte_size for group in groups)
    refuse_too_large(n_bytes, f"{path}: {about.num_rows} rows of {about.num_columns} columns")
