"""Define the options that several commands share."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from sortnet.config import LARGEST_SEED
from sortnet.files import refuse_output
from sortnet.messages import note

if TYPE_CHECKING:
    from sortnet.preference.stopping import Goal

LARGEST_TOP = 10**6  # most top items of a goal
FORMAT_HELP = "Output format; default: by the end of --output, else {}."
# {end of the name of an output file: its format}
_FORMAT_OF_SUFFIX = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".trec": "trec",
    # What no command writes, and a file of another format should not be called.
    **{
        f".{name}": name for name in ("arrow", "feather", "gz", "html", "ods", "xls", "xlsx", "zip")
    },
}

# {format of pairs: the format of its lines}
_LINES = {"chosen": "jsonl", "conversational": "jsonl"}

C = TypeVar("C", bound=Callable[..., Any])


class Whole(click.IntRange):
    """The type of an option whose value is a whole number that fits into arrays and databases.

    Args:
        least: smallest value.
        most: largest value, named in the help; None: the help names none.
        largest: largest value in any case.
    """

    name = "number"  # in the help and in messages

    def __init__(self, least: int, most: int | None = None, *, largest: int = 2**31 - 1) -> None:
        super().__init__(least, most)
        self.largest = largest

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        number: int = super().convert(value, param, ctx)
        if number > self.largest:
            self.fail(f"{value} is larger than {self.largest}", param, ctx)
        return number


class Real(click.FloatRange):
    """The type of an option whose value is a finite number in a range; click would accept NaN."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class GoalType(click.ParamType):  # type: ignore[type-arg]
    """The type of the options `--until` and `--goal`.

    A goal is typed as the share of pairs that may be in the wrong order, such as 0.1; as `top 10`,
    the number of top items that are wanted; or as `top 10, 2 wrong`, with the number of items that
    may be wrong in the top.
    """

    name = "goal"
    _TOP = re.compile(r"top\s*(?P<top>\d{1,9})(?:\s*,?\s*(?P<wrong>\d+)\s*wrong)?", re.IGNORECASE)

    def convert(self, value: Any, param: Any, ctx: Any) -> Goal:
        """Parse a goal; refuse a text that is no goal, and numbers that are not allowed."""
        from sortnet.preference.stopping import WRONG, Goal

        if isinstance(value, Goal):
            return value
        match = self._TOP.fullmatch(value.strip())
        if match is None:
            with suppress(ValueError):
                share = float(value)
                if 0 < share < 0.5:
                    return Goal(share)
        else:
            top = int(match["top"])
            n_wrong = int(match["wrong"] or 0)
            if 0 < top <= LARGEST_TOP and 2 * n_wrong <= top:
                # A share of 0 would mean the default, so no wrong item counts as half an item.
                return Goal(max(n_wrong, 0.5) / top if match["wrong"] else WRONG, top)
        self.fail(
            f"{value!r} is neither a share of pairs above 0 and below 0.5 nor such as 'top 10' "
            "or 'top 10, 2 wrong'",
            param,
            ctx,
        )


SEED = Whole(0, largest=LARGEST_SEED)


def with_options(*options: Callable[[C], C]) -> Callable[[C], C]:
    """Make a decorator that adds options to a command; the help shows them in the given order."""

    def add_options(command: C) -> C:
        # A decorator of click adds its option in front of the earlier options.
        for option in reversed(options):
            command = option(command)
        return command

    return add_options


def is_typed(ctx: click.Context, name: str) -> bool:
    """Tell whether a parameter was typed, and is neither from the environment nor a default."""
    return ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def command_line(ctx: click.Context) -> str:
    """Return the command line as it was typed, without passwords."""
    from store.database.engine import without_passwords

    return shlex.join(["sortnet", *map(without_passwords, ctx.find_root().obj or ())])


def _completion_of(kind: str) -> Callable[..., list[CompletionItem]]:
    """Make a shell completion by the names of files (kind `file`) or folders (kind `dir`)."""
    return lambda ctx, param, incomplete: [CompletionItem(incomplete, type=kind)]


# Shell completions of paths; the paths are not validated.
files = _completion_of("file")
folders = _completion_of("dir")


def output_option(*names: str, inputs: Sequence[str] = (), **options: Any) -> Callable[[C], C]:
    """Make an option for an output file, which is checked before the command begins.

    Args:
        names: the names of the option, such as `--csv`.
        inputs: names of the parameters with files that the command reads. The output file must be
            none of these files.
        options: further arguments of `click.option`.
    """
    parameter = click.Option(names).name or ""  # the name of the parameter, such as `csv`

    def add(command: C) -> C:
        @wraps(command)
        def checked(*args: Any, **values: Any) -> Any:
            if values[parameter] is not None:
                paths = [values[name] for name in inputs if values[name]]
                in_lists = [[path] if isinstance(path, str) else path for path in paths]
                refuse_output(values[parameter], *chain(*in_lists))
            return command(*args, **values)

        # `checked` is below click's own decorators, so that all of them add their options to the
        # same command.
        return click.option(*names, shell_complete=files, metavar="FILE", **options)(checked)  # type: ignore[return-value]

    return add


def format_of(
    form: str | None, output: str, choices: Sequence[str], option: str = "--output"
) -> str | None:
    """Return the format of an output file: the typed format, or else by the end of its name.

    A note tells if the end of the name means another format than the typed format.

    Args:
        form: the format that was typed, or None.
        output: the path of the file, or `-`.
        choices: the formats that the command writes.
        option: the option with the path, for errors.

    Returns:
        The format; None if the name ends in no format.

    Raises:
        click.UsageError: if the name ends in a format that the command does not write.

    >>> format_of(None, "j.CSV", ["jsonl", "csv"]), format_of("jsonl", "j.csv", ["jsonl", "csv"])
    ('csv', 'jsonl')
    """
    form_of_name = _FORMAT_OF_SUFFIX.get(Path(output).suffix.lower())
    if form is not None:
        if form_of_name not in (None, form, _LINES.get(form)):
            note(f"{output}: written as {form}, as --format says")
        return form
    if form_of_name is None or form_of_name in choices:
        return form_of_name
    formats = ", ".join(choices)
    raise click.UsageError(f"{option} {output!r}: the formats are {formats}")


threads_option = click.option(
    "--threads", type=Whole(1), help="Number of threads; default and maximum: all cores."
)
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document, with all notes.",
)
store_option = click.option(
    "--store",
    metavar="URL",
    envvar="SORTNET_STORE",
    show_envvar=True,
    help="Store, a file or postgresql://...; default: the user's sortnet.db.",
)


store_and_json = with_options(store_option, json_option)
