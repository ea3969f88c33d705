"""`sortnet doctor`: check the installation and say how to repair it."""

from __future__ import annotations

from typing import Any

import click

from cli.console import progress
from cli.judges.judge_options import address_options, judge_from_options, refuse_without_server
from cli.options import is_typed, store_and_json
from cli.printing.results import Bold, Facts, Result, print_result
from sortnet import __version__
from sortnet.files import Record
from sortnet.messages import count
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

        print_result(_conversion_result(convert_store(*convert)), as_json=as_json)
        return
    judge = judge_from_options(judge_values)
    if judge is not None:
        refuse_without_server(judge)
        from cli.printing.labelling import judge_check_result
        from sortnet.judges.trial import check_judge

        check = check_judge(judge)
        print_result(judge_check_result(check), as_json=as_json)
        if check["fault"] is not None:
            ctx.exit(1)
        return
    with progress() as status:
        installation = check_installation(store, status)
    print_result(_installation_result(installation), as_json=as_json)
    if installation["faults"]:
        ctx.exit(1)


def _installation_result(installation: Record) -> Result:
    """Make the result with a few lines for each check, and a line for each fault."""
    n_libraries = dict(installation["threads"])
    n_cores = n_libraries.pop("cores")
    threads = ", ".join(f"{name} {n}" for name, n in n_libraries.items())
    store = installation["store"]
    facts = {
        "sortnet": [f"{__version__}, {installation['system']}", installation["executable"]],
        "devices": [
            "; ".join(installation["devices"]),
            f"device=auto takes {installation['auto_device']}",
        ],
        "threads": f"{threads} of {n_cores} cores",
        "extras": [
            f"{extra['name']}: {'installed' if extra['present'] else extra['install']}"
            for extra in installation["extras"]
        ],
        "store": [(store["url"] or "unknown").removeprefix("sqlite:///"), *_store_lines(store)],
    }
    verdict = ["everything that SortNet needs works"]
    faults = installation["faults"]
    if faults:
        subject = "one thing is" if len(faults) == 1 else f"{len(faults)} things are"
        verdict = [Bold(f"{subject} broken:"), *(f"- {fault}" for fault in faults)]
    return Result("installation", installation, text=[Facts(facts), "", *verdict])


def _store_lines(facts: Record) -> list[str]:
    """Tell what is in the store, or why it cannot be used."""
    if facts["problem"] is not None:
        return ["cannot be used"]
    if not facts["exists"]:
        return ["does not exist yet: sortnet train creates it"]
    if facts["schema"] is None:
        return ["has no tables yet: sortnet train creates them"]
    contents = f"{count(facts['runs'], 'run')}, {count(facts['collections'], 'collection')}"
    lines = [f"{contents}, {facts['bytes'] / 1e6:.1f} MB, schema {facts['schema']}"]
    if facts["writable"] is False:  # None: the store is on a server
        lines.append("read-only: only commands that read work")
    return lines


def _conversion_result(converted: dict[str, Any]) -> Result:
    """Make the result with what was brought to the new store, and a note about the runs."""
    old = converted["old"]
    lines = [f"{converted['new']}: brought from {old}"]
    lines += [f"  {n} {name}" for name, n in converted["brought"].items()]
    n_runs = count(converted["runs_not_converted"], "run")
    runs = f"runs are not converted: {old} keeps {n_runs}"
    return Result("converted", converted, text=lines, notes=[runs])
