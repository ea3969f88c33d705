"""`sortnet doctor`: check the installation and say how to repair it."""

from __future__ import annotations

from typing import Any

import click

from cli.console import progress
from cli.judges.judge_options import address_options, judge_from_options, refuse_without_server
from cli.options import is_typed, store_and_json
from cli.printing.installation import conversion_result, installation_result
from cli.printing.results import print_result
from store.service.installation import check_installation


@click.command(short_help="Check this installation; say what to do if it is broken.")
@click.option(
    "--convert",
    nargs=2,
    metavar="OLD NEW",
    help="Bring the collections of OLD, a store of version 0.4, to the new store NEW.",
)
@address_options
@store_and_json
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    convert: tuple[str, str] | None,
    store: str | None,
    as_json: bool,
    **judge_values: Any,
) -> None:
    """Check the devices, the threads, the optional extras and the store.

    The checks change nothing and create no store. The exit code is 1 if something that SortNet
    needs is broken; each fault is one line with the next step. `pip check` tells whether packages
    fit together.

    --convert brings the items, judgements, annotators and questions of a store of version 0.4 to a
    new store: a file that does not exist yet, or an empty database. Links, gold pairs, exclusions,
    quotas and open batches are brought over, runs are not. The old store is only read.

    --judge, or --model with --server, asks a judge one easy question, and says how the answer was
    read, and what it took: whether log-probabilities came, or an answer by JSON schema, and the
    time, tokens and cost.

    \b
    Examples:
      sortnet doctor
      sortnet doctor --judge qwen.toml
      sortnet doctor --store postgresql://me@db/sortnet --json
      sortnet doctor --convert old.db new.db
    """
    if convert is not None:
        if is_typed(ctx, "store"):
            raise click.UsageError("--convert names both stores: leave out --store")
        from store.database.conversion import convert as convert_store

        print_result(conversion_result(convert_store(*convert)), as_json=as_json)
        return
    judge = judge_from_options(judge_values)
    if judge is not None:
        refuse_without_server(judge)
        from cli.judges.judge_results import judge_check_result
        from sortnet.judges.trial import check_judge

        check = check_judge(judge)
        print_result(judge_check_result(check), as_json=as_json)
        if check.fault is not None:
            ctx.exit(1)
        return
    with progress() as status:
        installation = check_installation(store, status)
    print_result(installation_result(installation), as_json=as_json)
    if installation.faults:
        ctx.exit(1)
