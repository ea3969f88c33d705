"""`sortnet pairs`: write the pairs that a run got wrong to a file."""

from __future__ import annotations

from typing import Any

import click

from cli.console import progress, say
from cli.inputs.named_run import run_ids
from cli.options import FORMAT_HELP, format_of, output_option, store_option
from sortnet.files import refuse_output
from store.service.existing_store import open_run

_FORMATS = ("csv", "jsonl", "parquet")


@click.command()
@click.argument("run", shell_complete=run_ids)
@click.option("--format", "form", type=click.Choice(_FORMATS), help=FORMAT_HELP.format("csv"))
@output_option("--output", "-o", default="-", help="Output file; -: stdout.")
@click.option("--split", type=click.Choice(["train", "vali", "all"]), default="all")
@click.option(
    "--ids/--no-ids", default=True, help="Add the documents' ids, if the run's data still exists."
)
@store_option
def pairs(
    run: str, form: str | None, output: str, split: Any, ids: bool, store: str | None
) -> None:
    """Write every pair that the comparator of a RUN put in the wrong order.

    A pair is a winner and a loser of one query: document numbers and their places in the query,
    from 0. first_iteration is the iteration that first compared the pair to learn from it;
    first_wrong and last_wrong are the first and the last iteration in which the pair was wrong,
    times is the number of such iterations. They are empty if there is no such iteration, or if the
    run is of an older version, which did not count them. If the run's data has document ids,
    winner_id and loser_id contain them.

    \b
    Examples:
      sortnet pairs last | head
      sortnet pairs 3f2a --format parquet --output pairs.parquet --split train
    """
    from cli.printing.runs import write_pairs
    from store.report.sources import wrong_pairs
    from store.runs.resuming import find_data

    form = format_of(form, output, _FORMATS) or "csv"
    part = None if split == "all" else split
    with open_run(store, run) as stored:
        with progress() as status:
            frames = wrong_pairs(stored, part, ids=ids, progress=status)
        paths = (find_data(facts) for facts in stored.data.values() if "path" in facts)
        refuse_output(output, *paths)
        write_pairs(frames, form, output)
    if output != "-":
        say(f"{output}: the wrong pairs of run {stored.id}, as {form}")
