"""Define the command group `sortnet`, which reports every error in one line."""

from __future__ import annotations

import atexit
import errno
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import click

from cli.console import notes_on_stderr
from cli.signals import signals_restored
from sortnet import __version__
from sortnet.errors import SortNetError, UnansweredError
from sortnet.messages import printable

# With the default threshold, the garbage collector traverses all objects of torch several times
# while torch is loaded, and once more at exit. This takes one of the four seconds of a short
# training.
gc.set_threshold(50_000)
atexit.register(gc.freeze)
_LONGEST_MESSAGE = 300  # most characters of a reported message
# Errors that are reported in one line. Other errors are bugs, and are shown with a traceback.
_REPORTED = (
    click.ClickException,
    click.Abort,
    SortNetError,
    KeyboardInterrupt,
    MemoryError,
    UnicodeEncodeError,
)
# If an interrupt comes while SQLAlchemy closes a connection, SQLAlchemy logs it, and the command
# reports it. Without this handler, the log would print a traceback. No error is lost, because
# SQLAlchemy also raises all other errors that it logs.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())
FIRST_STEPS = """
First steps:
  sortnet demo                       train on handwritten digits
  sortnet demo --examples examples   lay out files to try each command with
  sortnet train FOLD_DIR             learn from FOLD_DIR/train.txt and vali.txt
  sortnet evaluate model TEST.txt    measure what it learned
  sortnet importance model TEST.txt  show which features decide
  sortnet train --help               other data and options, with examples
  sortnet items add NAME FILE        no labels? let people say which of two is better:
  sortnet label NAME                 ... in a terminal (sortnet serve NAME: on a page)
  sortnet ranking NAME               ... and rank all items by the answers
  sortnet doctor                     check this installation
"""

# {section of the help: its commands}, in the order of the help.
SECTIONS = {
    "Learn": ("demo", "train", "settings", "evaluate", "rank"),
    "Look": ("runs", "show", "pairs", "report", "explain", "importance"),
    "Ask people": ("items", "ask", "label", "serve", "annotators", "ranking", "judgements"),
    "Compare rankers": ("experiment",),
    "Setup": ("doctor",),
}


class _Commands(Mapping[str, click.Command]):
    """All commands by name; a command is imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        """Import the command of the given name from its own module, and return it."""
        if name not in chain(*SECTIONS.values()):
            raise KeyError(name)
        folder = "lab" if name == "experiment" else "commands"
        command: click.Command = getattr(import_module(f"cli.{folder}.{name}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return chain(*SECTIONS.values())

    def __len__(self) -> int:
        return sum(map(len, SECTIONS.values()))


class _MainGroup(click.Group):
    """The group of all commands, which reports an error in one line.

    The exit code is 0 after success and 2 after an error. It is 1 after a bug, if a judge answered
    nothing, or if the reader of the output closed the pipe.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # keeps the order of the help; click would sort the names

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help, section by section."""
        uncut = 999  # a limit of characters that no short help reaches
        for title, names in SECTIONS.items():
            short_helps = [
                (name, self.commands[name].get_short_help_str(limit=uncut)) for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(short_helps)

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command, report its error in one line, and end with its exit code."""
        _fill_closed_streams()
        args = tuple(sys.argv[1:] if args is None else args)
        # In the standalone mode, click itself would report errors and end the process.
        options = {**extra, "standalone_mode": False, "obj": args}
        run_command = partial(super().main, list(args), "sortnet", **options)
        with notes_on_stderr(), signals_restored():
            code = _exit_code_of(run_command)
        sys.exit(code)


@click.group(
    cls=_MainGroup,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "show_default": True,
        "max_content_width": 100,
    },
)
@click.version_option(__version__, prog_name="sortnet")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Sort anything by a learned comparator that learns from the comparisons of its own sorts."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        click.echo(FIRST_STEPS, nl=False)


main.commands = _Commands()  # type: ignore[assignment]


def _exit_code_of(run_command: Callable[[], Any]) -> int:
    """Run a command, report its error if it raises one, and return the exit code."""
    try:
        _check_environment()
        code = run_command()
        sys.stdout.flush()
    except _REPORTED as error:
        code = _report(_message_of(error))
        return 1 if isinstance(error, UnansweredError) else code
    except OSError as error:
        _drop(sys.stdout)
        if error.errno == errno.EPIPE:  # the reader of the output closed the pipe
            return 1
        name = "input or output" if error.filename is None else error.filename
        return _report(f"{name}: {error.strerror or error}")
    return code if isinstance(code, int) else 0  # a command returns None, `--help` returns 0


def _check_environment() -> None:
    """Refuse a removed current folder, and a number of threads of numba that is no number.

    Libraries of torch would end the process in such a folder, and numba would raise an error of its
    own.

    Raises:
        SortNetError: if one of them cannot be used.
    """
    try:
        os.getcwd()  # noqa: PTH109  `Path.cwd` does the same
    except FileNotFoundError:
        folder = os.environ.get("PWD", ".")
        raise SortNetError(
            f"{folder}: the current folder was removed: change to another one"
        ) from None
    threads = os.environ.get("NUMBA_NUM_THREADS", "")
    if threads and not (threads.isascii() and threads.isdecimal() and int(threads)):
        raise SortNetError(f"NUMBA_NUM_THREADS={threads}: set a whole number from 1, or unset it")


def _message_of(error: BaseException) -> str:
    """Make the message for an error that is reported in one line."""
    match error:
        case click.UsageError():
            return _usage_message(error)
        case click.ClickException():
            return error.format_message()
        case click.Abort() | KeyboardInterrupt():
            # An interrupted prompt leaves the cursor in the line of the prompt. Its error has no
            # cause. After Ctrl-C elsewhere, click has begun a new line itself.
            if isinstance(error, click.Abort) and error.__cause__ is None:
                click.echo(err=True)
            return "interrupted"
        case MemoryError():
            return "out of memory"
        case UnicodeEncodeError():  # the text has a lone surrogate, or stdout cannot encode it
            return f"{error.object[error.start]!a} cannot be written in {error.encoding}"
    return str(error)


def _usage_message(error: click.UsageError) -> str:
    """Make the message for a wrong command line, with the command that shows the help."""
    context = error.ctx
    message = error.format_message()
    if context is None:
        return f"{message} (see 'sortnet --help')"
    command = context.command_path
    # This error has the whole help as its message. Old versions of click do not have the class.
    if type(error).__name__ == "NoArgsIsHelpError":
        subcommands = ", ".join(getattr(context.command, "commands", ()))
        message = f"{command} needs a command: {subcommands}"
    if isinstance(error, click.NoSuchOption) and error.option_name == "--json":
        choices = [getattr(option.type, "choices", ()) for option in context.command.params]
        if any("jsonl" in names for names in choices):
            message = "No such option '--json': give --format jsonl"
    return f"{message} (see '{command} --help')"


def _report(message: str) -> int:
    """Print an error on stderr in one line, and return the exit code."""
    line = printable(" ".join(_without_passwords(message).split()))
    if len(line) > _LONGEST_MESSAGE:
        # The beginning of a message tells where the fault is, and the end tells what to do.
        line = f"{line[: _LONGEST_MESSAGE * 2 // 3]} ... {line[5 - _LONGEST_MESSAGE // 3 :]}"
    try:
        click.echo(f"sortnet: {line}", err=True)
    except OSError:  # stderr cannot be written, so the error cannot be reported
        _drop(sys.stderr)
    return 2


def _without_passwords(message: str) -> str:
    """Hide the passwords of stores in a message; any argument may be a store that was typed."""
    if ":/" not in message and "password" not in message.lower():
        return message
    from store.database.engine import without_keyword_passwords, without_passwords

    # Arguments are replaced as a whole, because a password may contain spaces. A message may quote
    # an argument as it was typed, as a path, or the folder of the path.
    for argument in sys.argv[1:]:
        path = Path(argument)
        for text in (argument, str(path), str(path.parent)):
            safe_text = without_passwords(text)
            if safe_text != text:
                escaped_text = repr(text)[1:-1]  # without the quotation marks
                message = message.replace(text, safe_text).replace(escaped_text, safe_text)
    words = without_keyword_passwords(message).split()
    return " ".join(map(without_passwords, words))


def _fill_closed_streams() -> None:
    """Open the null device as each standard stream that is closed.

    Otherwise, a store that is opened would get the number of a closed stream, and output would be
    written into the store.
    """
    # The new stdout cannot be written, so that a command fails if its results would be lost.
    for name, mode, flags in (
        ("stdin", "r", os.O_RDONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


def _drop(stream: TextIO) -> None:
    """Drop the text in the buffer of a stream, because Python would fail to write it at exit."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), stream.fileno())
