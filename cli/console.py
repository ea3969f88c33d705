"""Print results on stdout and messages on stderr, format tables, and write files in one step."""

from __future__ import annotations

import io
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, cast

import click

from sortnet.core import Progress
from sortnet.files import write_file
from sortnet.messages import WHEN_COMPILING, printable, printable_lines


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
    """Print each note that the library logs once, as a line on stderr.

    Attributes:
        printed: the notes, in their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.printed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        note = printable(record.getMessage())
        if note not in self.printed:
            self.printed.append(note)
            say(note)


def logged_notes() -> list[str]:
    """Return the notes that the library has logged while this command runs, in their order."""
    handlers = logging.getLogger("sortnet").handlers
    printers = [handler for handler in handlers if isinstance(handler, _NotesOnStderr)]
    return [note for printer in printers for note in printer.printed]


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
    columns = [SpinnerColumn(), description, TimeElapsedColumn()]
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


def width() -> int | None:
    """Return the width of a line, from COLUMNS or the terminal; None if neither is known."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


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
