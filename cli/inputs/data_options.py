"""Arguments and options of commands that read labelled tables: MODEL, DATA, and their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import click

from cli.options import Whole, files, folders, threads_option, with_options
from sortnet.core.named_columns import LEAST_BINS, MOST_BINS, NamedColumns
from sortnet.data.read import PARTS
from store.service.named_model import DataFile

C = TypeVar("C", bound=Callable[..., Any])

# Options that name the columns of queries, grades and ids.
_NAMES = (
    click.option(
        "--query",
        metavar="COLUMN",
        help="Column of the query, whose rows are compared (items add calls it "
        "--group); none: all rows; default: qid.",
    ),
    click.option(
        "--grade",
        metavar="COLUMN",
        help="Column of the grade, higher is better; default: label, grade or relevance.",
    ),
    click.option(
        "--id", metavar="COLUMN", help="Column of the document's id; default: docid, if any."
    ),
)
# Options of columns for a command that trains.
_FEATURES = (
    click.option(
        "--ignore",
        metavar="COLUMN",
        multiple=True,
        help="Column that is no feature; repeatable.",
    ),
    click.option(
        "--bins",
        type=Whole(LEAST_BINS, MOST_BINS),
        metavar="N",
        help="Divide numeric grades into N grades of equally many rows.",
    ),
)
# Names of the parameters of the options above. A command that trains has all of them, and any
# other command has only the first three.
OPTIONS = ("query", "grade", "id", "ignore", "bins")


def training_name_options(command: C) -> C:
    """Add all options that name columns; the command gets their values as `columns`."""
    return with_options(*_NAMES, *_FEATURES)(_with_columns(command))


def named_columns(parameters: Mapping[str, Any]) -> NamedColumns:
    """Collect the names of columns from the parameters of a command."""
    return NamedColumns(
        query=parameters["query"],
        grade=parameters["grade"],
        id=parameters["id"],
        ignore=tuple(parameters.get("ignore", ())),
        bins=parameters.get("bins"),
    )


def _with_columns(command: C) -> C:
    """Wrap a command so that it gets the values of the options together as `columns`."""

    @wraps(command)
    def with_columns(*args: Any, **parameters: Any) -> Any:
        columns = named_columns(parameters)
        other_parameters = {
            name: value for name, value in parameters.items() if name not in OPTIONS
        }
        return command(*args, columns=columns, **other_parameters)

    return with_columns  # type: ignore[return-value]


def data_arguments(command: C) -> C:
    """Add the arguments MODEL DATA, the options of `data_options`, and `--threads`."""
    return model_argument(data_argument(data_options(threads_option(command))))


def data_options(command: C) -> C:
    """Add the options of the file of data; the command gets a `DataFile` as `data`.

    The options are `--query`, `--grade` and `--id`, which name columns, and `--part`.
    """
    return with_options(*_NAMES)(_with_columns(_part_option(_with_data_file(command))))


model_argument = click.argument("model", shell_complete=folders)
data_argument = click.argument("data", shell_complete=files)
_part_option = click.option(
    "--part",
    type=click.Choice(PARTS),
    help="Only this part of DATA, the one file that train divided.",
)


def _with_data_file(command: C) -> C:
    """Wrap a command so that it gets a `DataFile` in place of the options of the file."""

    @wraps(command)
    def with_data_file(*, data: str, columns: Any, part: Any, **parameters: Any) -> Any:
        return command(data=DataFile(data, columns, part), **parameters)

    return with_data_file  # type: ignore[return-value]
