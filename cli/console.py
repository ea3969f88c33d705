"""Print results on stdout and messages on stderr, format tables, and write files in one step."""

from __future__ import annotations

import io
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, cast

import click

from sortnet.core import Progress
from sortnet.files import write_file
from sortnet.messages import WHEN_COMPILING, cut, printable, printable_lines

BAR = 20  # length of a table's longest bar, in characters
LEAST_BAR = 8  # length of the longest bar if the line is too short for a longer bar
DEFAULT_WIDTH = 80  # width of tables if the width of a line is unknown
_SHORTEST_CELL = 12  # fewest characters to which a cell is cut


def put(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print a line on stdout; in a terminal the line is above the spinner line of `progress`.

    Characters that a terminal must not get from data are replaced.

    Args:
        err: whether the line is printed on stderr instead.
        bold: whether the line is bold in a terminal.
    """
    stream = sys.stderr if err else sys.stdout
    text = printable_lines(text)
    if bold and stream.isatty():
        text = click.style(text, bold=True)
    # `click.echo` would bypass rich and write into the spinner line.
    print(text, file=stream)
    stream.flush()


def say(text: str) -> None:
    """Print a message on stderr."""
    put(text, err=True)


class _NotesOnStderr(logging.Handler):
    """Print each note that the library logs once, as a line on stderr."""

    def __init__(self) -> None:
        super().__init__()
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        note = printable(record.getMessage())
        if note not in self._printed:
            self._printed.add(note)
            say(note)


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Print the notes of the library about its data on stderr while a command runs."""
    logger = logging.getLogger("sortnet")
    handler = _NotesOnStderr()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def cut_at_word(text: str, width: int) -> str:
    """Cut a text to a width, after a whole word if this leaves at least half of the width.

    >>> cut_at_word("ship, slow, rare", 14), cut_at_word("unforgettable", 9)
    ('ship, slow...', 'unforg...')
    """
    if len(text) <= width:
        return text
    # With three dots, width - 3 characters are left; one more shows whether a word ends there.
    whole_words = text[: width - 2].rpartition(" ")[0].rstrip(" ,:;(")
    if 2 * len(whole_words) < width:
        return cut(text, width)
    return f"{whole_words}..."


def bars(values: Sequence[float], rows: Sequence[Sequence[str]], line_width: int) -> list[str]:
    """Draw a bar for each value: `+` for positive values, `-` for others.

    A bar is printed after the cells of a row, so the bars are shorter if the cells are long.

    Args:
        values: the values; the largest absolute value has the longest bar.
        rows: the cells of each row of the table.
        line_width: width of a line.

    >>> bars([2, -1], [["a"], ["b"]], 80)
    ['++++++++++++++++++++', '----------          ']
    >>> bars([2, -1], [["a name"], ["b"]], 20)
    ['++++++++++++', '------      ']
    """
    columns = zip(*rows, strict=True)
    width_of_cells = sum(max(map(len, column)) + 2 for column in columns)
    longest_bar = max(LEAST_BAR, min(BAR, line_width - width_of_cells))
    largest_value = max(map(abs, values), default=0) or 1  # 1 avoids a division by zero
    lines = []
    for value in values:
        mark = "+" if value > 0 else "-"
        bar = mark * round(longest_bar * abs(value) / largest_value)
        lines.append(bar.ljust(longest_bar))
    return lines


@contextmanager
def silent(really: bool = True) -> Iterator[None]:
    """Suppress all output, so that only one of the processes that train together reports.

    Args:
        really: whether output is suppressed; if not, nothing changes.
    """
    with Path(os.devnull).open("w") as null, ExitStack() as stack:
        if really:
            stack.enter_context(redirect_stdout(null))
            stack.enter_context(redirect_stderr(null))
        yield


@contextmanager
def progress() -> Iterator[Progress]:
    """Show the current step as a spinner line on a terminal, and nowhere else."""
    # If stdout is a pipe, its reader, such as a pager, may write to the same terminal.
    if not sys.stderr.isatty() or stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    description = TextColumn("{task.description}", markup=False)  # a text may have brackets
    columns = (SpinnerColumn(), description, TimeElapsedColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task("")

        def show(text: str) -> None:
            """Show a text beside the spinner."""
            bar.update(task, description=printable(text))

        WHEN_COMPILING.append(show)
        try:
            yield show
        finally:
            WHEN_COMPILING.remove(show)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Format a table as lines with aligned columns; the first `left` columns are flush left.

    >>> table(["metric", "vali"], [["map", "0.5"]])
    ['metric  vali', 'map      0.5']
    """
    widths = _column_widths(header, rows)
    lines = []
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _column_widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the number of characters in the longest cell of each column."""
    return [max(map(len, column)) for column in zip(header, *rows, strict=True)]


def fit_cells(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    cut_columns: Sequence[int],
    line_width: int,
) -> list[list[str]]:
    """Cut cells, so that a table fits a line; the longest column is cut first.

    No cell is cut to less than 12 characters, so the table may still be too wide.

    Args:
        cut_columns: numbers of the columns that may be cut.
        line_width: width of a line.

    Returns:
        The rows with the cut cells.

    >>> fit_cells(["id", "n"], [["a long name", "1"], ["b", "22"]], [0], 16)
    [['a long name', '1'], ['b', '22']]
    >>> fit_cells(["id", "n"], [["a name that is long", "1"]], [0], 17)
    [['a name that...', '1']]
    """
    widths = _column_widths(header, rows)
    gaps = 2 * (len(widths) - 1)  # two spaces between columns
    while sum(widths) + gaps > line_width:
        longest = max(cut_columns, key=lambda k: widths[k])
        if widths[longest] <= _SHORTEST_CELL:
            break
        widths[longest] -= 1
    return [
        [
            cut_at_word(cell, width) if k in cut_columns else cell
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]


def width() -> int | None:
    """Return the width of a line, from COLUMNS or the terminal; None if neither is known."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print a table with aligned columns on stdout, with a bold header in a terminal."""
    header_line, *lines = table(header, rows, left)
    put(header_line, bold=True)
    for line in lines:
        put(line)


class _PrintableLines(io.TextIOBase):
    """Write texts to stdout, without characters that a terminal must not get from data."""

    def write(self, text: str) -> int:
        sys.stdout.write(printable_lines(text))
        return len(text)


def write_output(to: str, write: Callable[[IO[str]], object]) -> None:
    """Write text to a file in one step, or to stdout; an incomplete file never appears.

    A terminal gets no control characters and no marks of the writing direction. Files and pipes
    get the text as it is, because programs read them.

    Args:
        to: path of the file; `-`: stdout.
        write: writes the text to an open file.

    Raises:
        SortNetError: if the disk is full or the file cannot be written.
    """
    if to == "-":
        write(cast(IO[str], _PrintableLines()) if sys.stdout.isatty() else sys.stdout)
        return

    def write_text(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            write(file)

    write_file(to, write_text)
