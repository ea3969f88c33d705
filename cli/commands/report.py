"""`sortnet report`: write a run or a collection as one HTML file to send to a colleague."""

from __future__ import annotations

from typing import Any

import click

from cli.inputs.run_ids import run_ids
from cli.options import (
    Whole,
    data_option,
    files,
    folders,
    is_typed,
    output_option,
    store_and_json,
    threads_option,
)
from cli.printing.report_pages import print_collection_facts, write_collection, write_run
from store.report.report_subject import subject_of
from store.training.run_named_by_folder import is_model_folder, run_of_folder


@click.command()
@click.argument("name", metavar="RUN|FOLDER|COLLECTION", shell_complete=run_ids)
@output_option(
    "--output",
    "-o",
    inputs=["model", "data"],
    help="HTML file, replaced if it exists; -: stdout; default: report-NAME.html in this folder.",
)
@click.option(
    "--model", metavar="DIR", shell_complete=folders, help="Model folder of the run, if moved."
)
@click.option(
    "--data",
    metavar="FILE",
    multiple=True,
    shell_complete=files,
    help="Training or validation data of the run, if it was moved; repeatable.",
)
@click.option(
    "--queries", type=Whole(0), default=3, help="Number of hardest queries shown per part."
)
@click.option(
    "--top",
    type=Whole(1),
    metavar="N",
    help="Number of items shown, of each group of a collection.  [default: all]",
)
@data_option
@threads_option
@store_and_json
@click.pass_context
def report(
    ctx: click.Context, /, name: str, store: str | None, as_json: bool, **options: Any
) -> None:
    """Write a run or a collection as one HTML file.

    The file needs no network; its only script sorts the table of a collection. A run is named by
    its id, a prefix of the id, its model folder, or `last`. Its page has plots, the hardest queries
    and how to reproduce the run; documents of the hardest queries are shown if model and data still
    exist.

    The page of a collection tells how reliable its ranking is: the question, the judges with
    reliability, side bias and agreement, what the answers cost, held-out accuracy, pictures, all
    items with probabilities, and the pairs most in doubt with the judges' reasons. --json prints
    the same for programs, with the top items only. If a run and a collection have the same name, a
    message says which of them is reported; collection:NAME is always the collection.

    \b
    Examples:
      sortnet report last
      sortnet report 3f2a --output report.html --queries 5
      sortnet report essays
      sortnet report essays --json
    """
    if name != "last" and is_model_folder(name):
        options["model"] = options["model"] or name
        # The folder names the run's store, unless another store is typed.
        typed_store = store if is_typed(ctx, "store") else None
        name, store = run_of_folder(name, typed_store)
    subject = subject_of(store, name)
    _check_options(subject.is_collection, as_json, **options)
    if as_json:
        print_collection_facts(store, subject.name, options["top"])
    elif subject.is_collection:
        write_collection(store, subject.name, options["output"], options["top"])
    else:
        write_run(store, subject.name, **options)


def _check_options(is_collection: bool, as_json: bool, **options: Any) -> None:
    """Raise UsageError on options for collections if a run is reported, or the other way round."""
    if not is_collection and (as_json or options["top"] is not None):
        option = "--json" if as_json else "--top"
        raise click.UsageError(f"{option} is for a collection; for a run: sortnet show RUN --json")
    if is_collection and (options["model"] or options["data"]):
        raise click.UsageError("--model and --data are for a run")
    if as_json and options["output"] is not None:
        raise click.UsageError("--json prints on stdout: leave out --output")
