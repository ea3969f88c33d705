"""`sortnet runs`: list the training runs of a store."""

from __future__ import annotations

import click

from cli.options import store_and_json
from cli.printing.results import print_result
from cli.printing.runs import runs_result
from sortnet.files import rows_of
from store.service.existing_store import open_existing


@click.command()
@store_and_json
def runs(store: str | None, as_json: bool) -> None:
    """List the training runs, newest first.

    \b
    Examples:
      sortnet runs
      sortnet runs --store postgresql://me@db/sortnet --json
    """
    with open_existing(store) as opened:
        result = runs_result(rows_of(opened.runs_frame()))
    print_result(result, as_json=as_json)
