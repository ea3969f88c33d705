"""Options of every command that works out cells of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.options import SEED, Whole, data_option, folders, json_option, store_option
from sortnet.files import refuse_folder

C = TypeVar("C", bound=Callable[..., Any])


def _fit_for_results(ctx: click.Context, param: click.Parameter, out: Path | None) -> Path | None:
    if out is not None:
        refuse_folder(str(out))
    return out


SHARED = (
    click.option(
        "--jobs",
        type=Whole(1),
        default=1,
        help="Number of cells computed at once, in a process each.",
    ),
    click.option(
        "--cluster",
        metavar="URL",
        help="Dask scheduler, dask://HOST:PORT, in place of --jobs; its workers read the "
        "data at the same paths.",
    ),
    click.option("--seed", type=SEED, default=0, help="Random seed of every ranker."),
    click.option("--again", is_flag=True, help="Compute cells again that the store has already."),
    click.option(
        "--out",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        shell_complete=folders,
        callback=_fit_for_results,
        help="Folder for the tables, figures and report; default: none is written.",
    ),
    store_option,
    data_option,
    json_option,
)


def with_options(*options: Callable[[C], C]) -> Callable[[C], C]:
    """A decorator that adds options in the order of the help."""

    def add(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return add
