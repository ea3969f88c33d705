"""Write pairs to a file as CSV, JSON lines or Parquet, frame by frame."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import click
import pandas as pd

from cli.console import write_output
from sortnet.errors import SortNetError
from sortnet.files import write_file
from store.csv_file import rows_of_frame, write_csv


def write_pairs(frames: Iterator[pd.DataFrame], form: str, output: str) -> None:
    """Write frames of pairs to a file, or to stdout (`-`).

    Args:
        frames: the frames, which are written one after the other.
        form: format of the file: `csv`, `jsonl` or `parquet`.
        output: path of the file, or `-`.

    Raises:
        SortNetError: if pyarrow is missing, which Parquet needs, or the output cannot be written.
    """
    if form == "parquet":
        _write_parquet(output, frames)
    else:
        write_output(output, partial(_write_text, form, frames))


def _write_text(form: str, frames: Iterator[pd.DataFrame], file: IO[str]) -> None:
    """Write all frames as CSV with one header, or as JSON lines."""
    for number, frame in enumerate(frames):
        if form == "csv":
            names = list(frame.columns) if number == 0 else None
            write_csv(file, names, rows_of_frame(frame))
        else:
            frame.to_json(file, orient="records", lines=True)


def _write_parquet(output: str, frames: Iterator[pd.DataFrame]) -> None:
    """Write all frames to a Parquet file with the schema of the first frame."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        raise SortNetError("parquet needs pyarrow: pip install 'sortnet[parquet]'") from None

    def write(to: Path | IO[bytes]) -> None:
        """Write all frames to the path or the open file."""
        first = pyarrow.Table.from_pandas(next(frames), preserve_index=False)
        with ParquetWriter(to, first.schema) as writer:
            writer.write_table(first)
            for frame in frames:
                writer.write_table(pyarrow.Table.from_pandas(frame, schema=first.schema))

    if output != "-":
        write_file(output, write)
    elif sys.stdout.isatty():
        raise click.UsageError("parquet cannot be written to a terminal: give --output FILE")
    else:
        write(sys.stdout.buffer)
