"""`sortnet report`: write a run or a collection as one HTML file to send to a colleague."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import click

from cli.console import progress, put, say, write_output
from cli.inputs.named_run import is_model_folder, run_ids, run_of_folder
from cli.options import (
    Whole,
    files,
    folders,
    is_typed,
    output_option,
    store_and_json,
    threads_option,
)
from cli.printing.results import Result, print_result
from sortnet.threads import set_threads


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
@click.option("--queries", type=Whole(0), default=5, help="Number of hardest queries shown.")
@click.option(
    "--top",
    type=Whole(1),
    metavar="N",
    help="Number of items shown, of each group of a collection.  [default: all]",
)
@threads_option
@store_and_json
@click.pass_context
def report(
    ctx: click.Context, /, name: str, store: str | None, as_json: bool, **options: Any
) -> None:
    """Write a run or a collection as one HTML file.

    The file needs no network; its only script sorts the table of a collection. A run is named by
    its id, a prefix of the id, its model folder, or `last`. Its page says what was learned from
    what, how good it is on validation and test data, beside LightGBM if it is installed, which
    columns decide, how it learned, and where it is still wrong. Without the model or the data,
    which may be gone, it has what the store keeps.

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
    from store import Collection
    from store.report.collection_facts import facts_for_programs
    from store.report.subject_page import open_subject, write_report

    if name != "last" and is_model_folder(name):
        options["model"] = options["model"] or name
        # The folder names the run's store, unless another store is typed.
        typed_store = store if is_typed(ctx, "store") else None
        name, store = run_of_folder(name, typed_store)
    with progress() as status, open_subject(store, name) as subject:
        is_collection = isinstance(subject, Collection)
        _check_options(is_collection, as_json, **options)
        if as_json and isinstance(subject, Collection):
            facts = facts_for_programs(subject, top=options["top"], progress=status)
            print_result(Result("report", facts), as_json=True)
            return
        set_threads(options.pop("threads"))
        output = options.pop("output")
        subject_name = subject.name if isinstance(subject, Collection) else subject.id
        name_in_path = re.sub(r"[^\w.-]+", "-", subject_name)
        page = StringIO() if output == "-" else output or f"report-{name_in_path}.html"
        missing = write_report(subject, page, progress=status, **options)
    if missing:
        say(missing)
    if isinstance(page, str):
        put(page)
    else:
        write_output("-", lambda stdout: stdout.write(page.getvalue()))


def _check_options(is_collection: bool, as_json: bool, **options: Any) -> None:
    """Raise UsageError on options for collections if a run is reported, or the other way round."""
    if not is_collection and (as_json or options["top"] is not None):
        option = "--json" if as_json else "--top"
        raise click.UsageError(f"{option} is for a collection; for a run: sortnet show RUN --json")
    if is_collection and (options["model"] or options["data"]):
        raise click.UsageError("--model and --data are for a run")
    if as_json and options["output"] is not None:
        raise click.UsageError("--json prints on stdout: leave out --output")
