"""`sortnet doctor`: check the installation and say how to repair it."""

from __future__ import annotations

import click

from cli.console import progress
from cli.options import store_and_json
from cli.printing.installation import installation_result
from cli.printing.results import print_result
from store.service.installation import check_installation


@click.command(short_help="Check this installation; say what to do if it is broken.")
@store_and_json
@click.pass_context
def doctor(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Check the devices, the threads, the optional extras and the store.

    The checks change nothing and create no store. The exit code is 1 if something that SortNet
    needs is broken; each fault is one line with the next step. `pip check` tells whether packages
    fit together.

    \b
    Examples:
      sortnet doctor
      sortnet doctor --store postgresql://me@db/sortnet --json
    """
    with progress() as status:
        installation = check_installation(store, status)
    print_result(installation_result(installation), as_json=as_json)
    if installation.faults:
        ctx.exit(1)
