"""Options of all commands that compute results of an experiment."""

from __future__ import annotations

from pathlib import Path

import click

from cli.options import SEED, Whole, folders, json_option, store_option
from sortnet.files import refuse_folder


def _fit_for_results(ctx: click.Context, param: click.Parameter, out: Path | None) -> Path | None:
    """Check, as a callback of click, that results can be written to the folder `out`."""
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
    json_option,
)
