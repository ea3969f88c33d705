"""`sortnet report`: write a run or a collection as one HTML file to send to a colleague."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import click

from cli.console import progress, put, say, write_output
from cli.inputs.run_ids import run_ids
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
from store.report.report_subject import subject_of
from store.service.existing_store import open_collection, open_run
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
    if name != "last" and is_model_folder(name):
        options["model"] = options["model"] or name
        # The folder names the run's store, unless another store is typed.
        typed_store = store if is_typed(ctx, "store") else None
        name, store = run_of_folder(name, typed_store)
    subject = subject_of(store, name)
    _check_options(subject.is_collection, as_json, **options)
    if as_json:
        _print_collection_facts(store, subject.name, options["top"])
    elif subject.is_collection:
        _write_collection(store, subject.name, options["output"], options["top"])
    else:
        _write_run(store, subject.name, **options)


def _check_options(is_collection: bool, as_json: bool, **options: Any) -> None:
    """Raise UsageError on options for collections if a run is reported, or the other way round."""
    if not is_collection and (as_json or options["top"] is not None):
        option = "--json" if as_json else "--top"
        raise click.UsageError(f"{option} is for a collection; for a run: sortnet show RUN --json")
    if is_collection and (options["model"] or options["data"]):
        raise click.UsageError("--model and --data are for a run")
    if as_json and options["output"] is not None:
        raise click.UsageError("--json prints on stdout: leave out --output")


def _print_collection_facts(store: str | None, name: str, top: int | None) -> None:
    """Print the facts of a collection's report as JSON."""
    from store.report.collection_facts import facts_for_programs

    with progress() as status, open_collection(store, name) as collection:
        facts = facts_for_programs(collection, top=top, progress=status)
    print_result(Result("report", facts), as_json=True)


def _write_collection(store: str | None, name: str, output: str | None, top: int | None) -> None:
    """Write the report of a collection as a page, and print the path of the file."""
    from store.report.collection_page import write_collection_page

    name_in_path = re.sub(r"[^\w.-]+", "-", name)
    page = _page_file(output, name_in_path)
    with progress() as status, open_collection(store, name) as collection:
        write_collection_page(collection, page, top=top, progress=status)
    _put_page(page)


def _write_run(
    store: str | None,
    name: str,
    *,
    output: str | None,
    model: str | None,
    data: tuple[str, ...],
    queries: int,
    threads: int | None,
    top: int | None,
) -> None:
    """Write the report of a run as a page, and print the path of the file.

    The report of a run that records the labelling of a collection is the report of the collection.
    """
    from store.report.run_page import labelled_collection, write_run_page
    from store.report.subject_page import report

    missing = ""
    with progress() as status, open_run(store, name) as run:
        set_threads(threads)
        page = _page_file(output, run.id)
        if labelled_collection(run) is not None:
            report(run, page, progress=status)
        else:
            missing = write_run_page(
                run, page, model=model, data=data, top=queries, progress=status
            )
    if missing:
        say(missing)
    _put_page(page)


def _page_file(output: str | None, name: str) -> str | StringIO:
    """Choose where a page is written: to a path, or for stdout (`-`) to a text in memory."""
    if output is None:
        return f"report-{name}.html"
    return StringIO() if output == "-" else output


def _put_page(page: str | StringIO) -> None:
    """Print the path of a written page; write a page in memory to stdout."""
    if isinstance(page, str):
        put(page)
    else:
        write_output("-", lambda file: file.write(page.getvalue()))
