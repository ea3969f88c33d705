"""The arguments MODEL and DATA of commands that rank documents by a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from cli.inputs.column_options import name_options
from cli.options import files, folders, threads_option
from sortnet.data.read import PARTS
from store.service.named_model import DataFile

C = TypeVar("C", bound=Callable[..., Any])


def data_arguments(command: C) -> C:
    """Add the arguments MODEL DATA, the options of `data_options`, and `--threads`."""
    return model_argument(data_argument(data_options(threads_option(command))))


def data_options(command: C) -> C:
    """Add the options of the file of data; the command gets a `DataFile` as `data`.

    The options name columns, and are `--part`.
    """
    return name_options(_part_option(_with_data_file(command)))


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
