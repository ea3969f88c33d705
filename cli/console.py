"""Output of commands: results on stdout, messages on stderr, files written in one step."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO

import click

from sortnet.core import Progress
from sortnet.files import write_file
from sortnet.messages import cut, printable

BAR = 20  # characters of the longest bar of a table
LEAST_BAR = 8  # characters of the longest bar if a table has no room for more
DEFAULT_WIDTH = 80  # of tables, if the width of a line is unknown
_SHORTEST_CELL = 12  # least number of characters that are left of a cut cell


def put(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print a line on stdout or stderr; in a terminal above the spinner line of `progress`."""
    stream = sys.stderr if err else sys.stdout
    # Not click.echo: it would bypass rich and write into the spinner line.
    print(click.style(text, bold=True) if bold and stream.isatty() else text, file=stream)
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
    logger, handler = logging.getLogger("sortnet"), _NotesOnStderr()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def cut_at_word(text: str, width: int) -> str:
    """Cut a text after a whole word, if that leaves at least half of the width.

    >>> cut_at_word("ship, slow, rare", 14), cut_at_word("unforgettable", 9)
    ('ship, slow...', 'unforg...')
    """
    if len(text) <= width:
        return text
    start = text[: width - 2].rpartition(" ")[0].rstrip(" ,:;(")
    return f"{start}..." if 2 * len(start) >= width else cut(text, width)


def bars(values: Sequence[float], rows: Sequence[Sequence[str]], line_width: int) -> list[str]:
    """Bars for the values, to be drawn after the rows' cells; shorter if the line has less room.

    >>> bars([2, -1], [["a"], ["b"]], 80)
    ['++++++++++++++++++++', '----------          ']
    >>> bars([2, -1], [["a name"], ["b"]], 20)
    ['++++++++++++', '------      ']
    """
    width_of_cells = sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True))
    longest = max(LEAST_BAR, min(BAR, line_width - width_of_cells))
    largest = max(map(abs, values), default=0) or 1
    lines = []
    for value in values:
        mark = "+" if value > 0 else "-"
        lines.append((mark * round(longest * abs(value) / largest)).ljust(longest))
    return lines


@contextmanager
def silent(really: bool = True) -> Iterator[None]:
    """Print nothing: of several processes with the same work only one reports.

    Args:
        really: whether output is suppressed at all.
    """
    with Path(os.devnull).open("w") as null, ExitStack() as stack:
        if really:
            stack.enter_context(redirect_stdout(null))
            stack.enter_context(redirect_stderr(null))
        yield


@contextmanager
def progress() -> Iterator[Progress]:
    """Show the current step as a spinner line on a terminal, and nowhere else."""
    # The reader of a pipe may write to the same terminal.
    if not sys.stderr.isatty() or stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of aligned columns; the first `left` columns are flush left.

    >>> table(["metric", "vali"], [["map", "0.5"]])
    ['metric  vali', 'map      0.5']
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]


def fit_cells(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    cut_columns: Sequence[int],
    line_width: int,
) -> list[list[str]]:
    """Rows with cells in `cut_columns` cut, longest column first, until the table fits the line.

    No cell is cut to less than 12 characters.

    >>> fit_cells(["id", "n"], [["a long name", "1"], ["b", "22"]], [0], 16)
    [['a long name', '1'], ['b', '22']]
    >>> fit_cells(["id", "n"], [["a name that is long", "1"]], [0], 17)
    [['a name that...', '1']]
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    gaps = 2 * (len(widths) - 1)
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
    """Width of tables: COLUMNS, else the terminal's width; None if both are unknown."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print a table on stdout, its header bold in a terminal."""
    header_line, *lines = table(header, rows, left)
    put(header_line, bold=True)
    for line in lines:
        put(line)


def write_output(to: str, write: Callable[[IO[str]], object]) -> None:
    """Let `write` write text to a file, which appears whole or not at all, or to stdout (`-`).

    Raises:
        SortNetError: if the disk is full or the file cannot be written.
    """
    if to == "-":
        write(sys.stdout)
        return

    def write_text(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            write(file)

    write_file(to, write_text)
