"""The `sortnet` command group; every error is reported as one line."""

from __future__ import annotations

import atexit
import errno
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import click

from cli.console import notes_on_stderr
from cli.options import refuse_gone
from cli.terminal.signals import signals_restored
from sortnet import __version__
from sortnet.errors import SortNetError
from sortnet.messages import printable

# With the default threshold the garbage collector traverses all objects of torch several times
# while torch is loaded, and once more at exit. This is one of the four seconds that a short
# training takes.
gc.set_threshold(50_000)
atexit.register(gc.freeze)
_LONGEST = 300  # characters of a message
# Errors that are reported in one line. Other errors are bugs, and are shown with a traceback.
_REPORTED = (
    click.ClickException,
    click.Abort,
    SortNetError,
    KeyboardInterrupt,
    MemoryError,
    UnicodeEncodeError,
)
# An interrupt while SQLAlchemy closes a connection is logged by SQLAlchemy and reported by the
# command. Without this handler the log would print a traceback. Everything else that SQLAlchemy
# logs is raised, too.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())
FIRST_STEPS = """
First steps:
  sortnet demo                       train on handwritten digits
  sortnet train FOLD_DIR             learn from FOLD_DIR/train.txt and vali.txt
  sortnet evaluate model TEST.txt    measure what it learned
  sortnet importance model TEST.txt  show which features decide
  sortnet train --help               every setting, with examples
  sortnet items add NAME FILE        no labels? let people say which of two is better:
  sortnet label NAME                 ... in a terminal (sortnet serve NAME: on a page)
  sortnet ranking NAME               ... and rank all items by the answers
  sortnet doctor                     check this installation
"""

# The commands, in the order of the help.
SECTIONS = {
    "Learn": ("demo", "train", "evaluate", "rank"),
    "Look": ("runs", "show", "pairs", "report", "explain", "importance"),
    "Ask people": ("items", "ask", "label", "serve", "annotators", "ranking", "judgements"),
    "Compare rankers": ("experiment",),
    "Setup": ("doctor",),
}


class _Commands(Mapping[str, click.Command]):
    """Mapping of command names to commands; a command is imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
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

    The exit code is 0 after success, 2 after an error, and 1 after a bug or if the reader of the
    output closed the pipe.
    """

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        refuse_gone(ctx, args[0])
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # keeps the order of the help; click would sort the names

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(limit=999)) for name in names]
                )

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        _fill_closed_streams()
        args = tuple(sys.argv[1:] if args is None else args)
        options = {**extra, "standalone_mode": False, "obj": args}
        with notes_on_stderr(), signals_restored():
            code = _exit_code_of(
                lambda: super(_MainGroup, self).main(list(args), "sortnet", **options)
            )
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
    """Sort anything by a learned comparator that learns from the comparisons it gets wrong."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        click.echo(FIRST_STEPS, nl=False)


main.commands = _Commands()  # type: ignore[assignment]


def _exit_code_of(run: Callable[[], Any]) -> int:
    """Run a command, report its error if it has one, and return its exit code."""
    try:
        code = run()
        sys.stdout.flush()
    except _REPORTED as error:
        return _report(_message_of(error))
    except OSError as error:
        _drop(sys.stdout)
        if error.errno == errno.EPIPE:  # the reader of our output closed the pipe
            return 1
        name = "input or output" if error.filename is None else error.filename
        return _report(f"{name}: {error.strerror or error}")
    return code if isinstance(code, int) else 0


def _message_of(error: BaseException) -> str:
    """Make the message that reports an error of one of the kinds in `_REPORTED`."""
    match error:
        case click.UsageError():
            return _usage_message(error)
        case click.ClickException():
            return error.format_message()
        case click.Abort() | KeyboardInterrupt():
            # An interrupted prompt leaves the cursor in its line; its error has no cause. After any
            # other Ctrl-C click has begun a new line itself.
            if isinstance(error, click.Abort) and error.__cause__ is None:
                click.echo(err=True)
            return "interrupted"
        case MemoryError():
            return "out of memory"
        case UnicodeEncodeError():  # the text has a lone surrogate, or stdout cannot encode it
            return f"{error.object[error.start]!a} cannot be written in {error.encoding}"
    return str(error)


def _usage_message(error: click.UsageError) -> str:
    """Make the message for a wrong command line; it names the command that shows the help."""
    context = error.ctx
    message = error.format_message()
    if context is None:
        return f"{message} (see 'sortnet --help')"
    command = context.command_path
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the whole help
        subcommands = ", ".join(getattr(context.command, "commands", ()))
        message = f"{command} needs a command: {subcommands}"
    return f"{message} (see '{command} --help')"


def _report(message: str) -> int:
    """Print an error on stderr in one line, and return the exit code."""
    message = _without_passwords(message)
    try:
        click.echo(f"sortnet: {_cut(printable(' '.join(message.split())))}", err=True)
    except OSError:  # the error cannot be reported if stderr cannot be written
        _drop(sys.stderr)
    return 2


def _without_passwords(message: str) -> str:
    """Hide the passwords of stores; a store may have been typed in place of any argument."""
    if ":/" not in message and "password" not in message.lower():
        return message
    from store.database.engine import without_keyword_passwords, without_passwords

    # Arguments are replaced as a whole, because a password may contain spaces.
    for typed in sys.argv[1:]:
        for form in (typed, str(Path(typed)), str(Path(typed).parent)):
            safe_form = without_passwords(form)
            if safe_form != form:
                message = message.replace(form, safe_form)
                message = message.replace(repr(form)[1:-1], safe_form)
    return " ".join(map(without_passwords, without_keyword_passwords(message).split()))


def _cut(message: str) -> str:
    """Cut the middle of a long message: the start says where the fault is, the end what to do."""
    if len(message) <= _LONGEST:
        return message
    gap = " ... "
    start = message[: _LONGEST * 2 // 3]
    end = message[-(_LONGEST // 3 - len(gap)) :]
    return f"{start}{gap}{end}"


def _fill_closed_streams() -> None:
    """Replace closed standard streams, whose descriptors an opened store would get otherwise.

    The replacement of stdout is not writable, because it is an error if results cannot be written.
    """
    replacements = {
        "stdin": ("r", os.O_RDONLY),
        "stdout": ("w", os.O_RDONLY),
        "stderr": ("w", os.O_WRONLY),
    }
    for name, (mode, flags) in replacements.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


def _drop(stream: TextIO) -> None:
    """Drop the text in the buffer of a stream, because Python would fail to write it at exit."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), stream.fileno())
