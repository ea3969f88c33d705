"""The result of a command as a value, and its text, JSON document and CSV."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Any, Literal

from cli.console import DEFAULT_WIDTH, bars, fit_cells, put, say, table, width, write_output
from sortnet import __version__
from sortnet.messages import printable_lines
from store.csv_file import rows_of_frame, write_csv

if TYPE_CHECKING:
    import pandas as pd

RESERVED = ("version", "notes", "next")  # keys that every JSON document has beside the value
_SHORTEST_PATH = 8  # the fewest characters that a path is cut to


class Bold(str):
    """A line of text that is bold in a terminal."""


@dataclass(frozen=True)
class Column:
    """A column of a printed table.

    Args:
        title: title of the column.
        cell: converts a row to the text of its cell.
        cut: where a cell is cut if a line is too long: at its `end` or its `start`. If None, cells
            are not cut.
    """

    title: str
    cell: Callable[[Any], str]
    cut: Literal["end", "start"] | None = None


@dataclass(frozen=True)
class Table:
    """A table to print, with a line for each row.

    Args:
        columns: the columns, which convert a row to the texts of its cells.
        rows: values of any type.
        left: number of first columns that are flush left; the other columns are flush right.
        bars: a value for each of the first rows, drawn as a bar behind the row.
        bar_titles: titles of the column of bars, the longest first. The first title that fits is
            used.
    """

    columns: Sequence[Column]
    rows: Sequence[Any]
    left: int = 1
    bars: Sequence[float] = ()
    bar_titles: Sequence[str] = ("",)

    def lines(self) -> list[str]:
        """Write the header and the rows as lines.

        Cells that may be cut are cut, so that lines are no longer than the terminal is wide.

        >>> numbers = Column("n", lambda row: str(row["n"]))
        >>> Table([Column("id", lambda row: row["id"]), numbers], [{"id": "a", "n": 10}]).lines()
        ['id   n', 'a   10']
        """
        header = [column.title for column in self.columns]
        rows = [[column.cell(row) for column in self.columns] for row in self.rows]
        line_width = width() or DEFAULT_WIDTH
        if self.bars:
            header, rows = self._with_bars(header, rows, line_width)
        cut_at_end = [k for k, column in enumerate(self.columns) if column.cut == "end"]
        if cut_at_end:
            rows = fit_cells(header, rows, cut_at_end, line_width)
        for k, column in enumerate(self.columns):
            if column.cut == "start":
                rows = _cut_starts(header, rows, k)
        return table(header, rows, self.left)

    def _with_bars(
        self, header: list[str], rows: list[list[str]], line_width: int
    ) -> tuple[list[str], list[list[str]]]:
        """Add a column of bars to a header and its rows."""
        bar_cells = bars(self.bars, [header, *rows], line_width)
        bar_width = len(bar_cells[0])
        n_without_bar = len(rows) - len(bar_cells)  # last rows, such as a sum
        bar_cells += [" " * bar_width] * n_without_bar
        fitting_titles = [title for title in self.bar_titles if len(title) <= bar_width]
        title = fitting_titles[0] if fitting_titles else self.bar_titles[-1]
        rows_with_bars = [[*row, bar] for row, bar in zip(rows, bar_cells, strict=True)]
        return [*header, title.ljust(bar_width)], rows_with_bars


def table_of_cells(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """Make a table of rows whose cells are texts already.

    Args:
        header: titles of the columns.
        rows: the texts of the cells.
        left: number of first columns that are flush left.

    >>> table_of_cells(["metric", "vali"], [["map", "0.5"]]).lines()
    ['metric  vali', 'map      0.5']
    """
    columns = [Column(title, itemgetter(k)) for k, title in enumerate(header)]
    return Table(columns, rows, left)


def _cut_starts(header: list[str], rows: list[list[str]], k: int) -> list[list[str]]:
    """Cut the start of long paths in column k, so that each row fits the terminal.

    Without a terminal nothing is cut.
    """
    line_width = width()
    if line_width is None:
        return rows
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    width_of_gaps = 2 * (len(widths) - 1)
    width_of_rest = sum(widths) - widths[k] + width_of_gaps
    space = max(line_width - width_of_rest, _SHORTEST_PATH)
    return [[*row[:k], _cut_start(row[k], space), *row[k + 1 :]] for row in rows]


def _cut_start(path: str, space: int) -> str:
    """Cut a path to a number of characters, of which the first three are dots."""
    if len(path) <= space:
        return path
    n_kept = space - len("...")
    return f"...{path[-n_kept:]}"


@dataclass(frozen=True)
class Step:
    """The command to run next.

    Args:
        command: the command.
        sentence: the line on stderr that proposes the command; by default `next: COMMAND`.
        is_in_text: whether the text on stdout proposes the command, so that no line is printed on
            stderr.
    """

    command: str
    sentence: str = ""
    is_in_text: bool = False


@dataclass(frozen=True)
class Result:
    """The result of a command.

    The text is printed on stdout, the notes and the next step on stderr. The JSON document has the
    version of SortNet, the value under its name, the notes, and the command to run next or null.

    Args:
        name: key of the value in the JSON document.
        value: rows, or one record.
        text: the lines and tables that are printed if JSON is not requested.
        notes: sentences about the value, each of which is a line.
        next: the command to run next, if there is one.
        is_noted_in_text: whether the text contains the notes, so that no notes are printed on
            stderr.
        csv: rows, or {column: values}, of the CSV file. If None, they are the value.

    >>> Result("runs", [], next=Step("sortnet train")).document()["next"]
    'sortnet train'
    """

    name: str
    value: Any
    text: Sequence[str | Table] = ()
    notes: Sequence[str] = ()
    next: Step | None = None
    is_noted_in_text: bool = False
    csv: Any = None

    def document(self) -> dict[str, Any]:
        """Return the JSON document of the result."""
        command = None if self.next is None else self.next.command
        return {
            "version": __version__,
            self.name: self.value,
            "notes": list(self.notes),
            "next": command,
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text; the headers of tables are `Bold`."""
        for block in self.text:
            if isinstance(block, Table):
                header, *rows = block.lines()
                yield Bold(header)
                yield from rows
            else:
                yield block


def print_result(result: Result, *, as_json: bool) -> None:
    """Print a result on stdout as JSON, or as text with its notes and the next step on stderr."""
    if as_json:
        put(_json_text(result))
        return
    _put_lines(result)
    say_notes(result)


def _put_lines(result: Result) -> None:
    """Print the text of a result on stdout."""
    for line in result.lines():
        put(line, bold=isinstance(line, Bold))


def say_notes(result: Result) -> None:
    """Print on stderr the notes that are no part of the text, and the next step."""
    if not result.is_noted_in_text:
        for note in result.notes:
            say(note)
    if result.next is not None and not result.next.is_in_text:
        say(result.next.sentence or f"next: {result.next.command}")


def write_result(result: Result, form: str, to: str) -> None:
    """Write a result to a file, or to stdout (`-`).

    JSON contains the notes and the next step. With other formats they are printed on stderr.

    Args:
        result: the result.
        form: format of the file: `table`, `json` or `csv`.
        to: path of the file, or `-`.
    """
    if form == "table" and to == "-":
        _put_lines(result)
    else:
        write_output(to, partial(_WRITERS[form], result))
    if form != "json":
        say_notes(result)


def text_of(result: Result, form: str) -> str:
    """Return a result as a text in the format `table`, `json` or `csv`."""
    file = io.StringIO(newline="")
    _WRITERS[form](result, file)
    return file.getvalue()


def write_csv_file(columns: Mapping[str, Any] | Sequence[Any] | pd.DataFrame, to: str) -> None:
    """Write columns, rows or a frame to a CSV file, or to stdout (`-`).

    A missing number is left blank.
    """
    write_output(to, partial(_write_csv, Result("csv", None, csv=columns)))


def _json_text(result: Result) -> str:
    """Return the JSON document of a result as text."""
    return json.dumps(result.document(), indent=2, allow_nan=False)


def _write_json(result: Result, file: IO[str]) -> None:
    """Write the JSON document of a result to a file."""
    file.write(_json_text(result) + "\n")


def _write_text(result: Result, file: IO[str]) -> None:
    """Write the text of a result to a file."""
    for line in result.lines():
        print(printable_lines(line), file=file)


def _write_csv(result: Result, file: IO[str]) -> None:
    """Write the rows or columns of a result to a file as CSV."""
    import pandas as pd

    columns = result.value if result.csv is None else result.csv
    frame = pd.DataFrame(columns)
    write_csv(file, list(frame.columns), rows_of_frame(frame))


_WRITERS = {"table": _write_text, "json": _write_json, "csv": _write_csv}
