"""`sortnet report`: a run or a collection as one HTML file to send to a colleague."""

from __future__ import annotations

import re
import shlex
import sys
from io import StringIO
from pathlib import Path

import click

from cli.inputs.run_ids import run_ids
from cli.options import (
    Whole,
    data_option,
    files,
    folders,
    output_option,
    store_and_json,
    threads_option,
)
from cli.output import progress, put, say
from cli.printing.results import Result, print_result
from sortnet.errors import StoreError
from sortnet.threads import set_threads
from store.service.existing_store import open_collection, open_existing, open_run
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
    "--top", type=Whole(1), metavar="N",
    help="Items of a collection that are shown, of each group.  [default: all]",
)  # fmt: skip
@data_option
@threads_option
@store_and_json
@click.pass_context
def report(
    ctx: click.Context,
    name: str,
    output: str | None,
    model: str | None,
    data: tuple[str, ...],
    queries: int,
    top: int | None,
    cache: Path | None,
    threads: int | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Write a run or a collection as one HTML file.

    The file needs no network; its only script sorts the table of a collection. Of a run, which is a
    run id, a prefix of one, a model folder, or `last`, it has plots, the hardest queries and how to
    reproduce it; documents of the hardest queries are shown if model and data still exist.

    Of a collection it says how reliable its ranking is: the question, the judges with
    reliability, side bias and agreement, what the answers cost, held-out accuracy, a test whether
    more triples are cyclic than noise explains, pictures, all items with probabilities, and the
    pairs most in doubt with the judges' reasons. --json prints the same for programs, with the top
    items only. Where a run and a
    collection have the name, the message says which was taken: collection:NAME is the collection.

    \b
    Examples:
      sortnet report last
      sortnet report 3f2a --output report.html --queries 5
      sortnet report essays
      sortnet report essays --json
    """
    if name != "last" and is_model_folder(name):
        typed = ctx.get_parameter_source("store") == click.core.ParameterSource.COMMANDLINE
        model = model or name
        name, store = run_of_folder(name, store if typed else None)
    collection = _collection_of(store, name)
    if collection is None and (as_json or top is not None):
        option = "--json" if as_json else "--top"
        raise click.UsageError(f"{option} is for a collection; of a run: sortnet show RUN --json")
    if collection is not None and (model or data):
        raise click.UsageError("--model and --data are for a run")
    if as_json and output is not None:
        raise click.UsageError("--json prints on stdout: leave out --output")
    if collection is not None:
        _of_collection(store, collection, output, top, as_json=as_json)
        return
    from store.report.run_page import write_run_page

    with progress() as status, open_run(store, name) as run:
        set_threads(threads)
        to = f"report-{run.id}.html" if output is None else output
        page = _page_file(to)
        notes = write_run_page(
            run, page, model=model, data=data, top=queries, cache=cache, progress=status
        )
    for note in notes:
        say(f"not in the report: {note}")
    _put_page(page)


def _of_collection(
    store: str | None, name: str, output: str | None, top: int | None, *, as_json: bool
) -> None:
    """Print the facts of a collection, or write its page."""
    from store.report.collection_facts import facts_for_programs
    from store.report.collection_page import write_collection_page

    if as_json:
        with progress() as status, open_collection(store, name) as collection:
            facts = facts_for_programs(collection, top=top, progress=status)
        print_result(Result("report", facts), as_json=True)
        return
    plain_name = re.sub(r"[^\w.-]+", "-", name)
    page = _page_file(f"report-{plain_name}.html" if output is None else output)
    with progress() as status, open_collection(store, name) as collection:
        write_collection_page(collection, page, top=top, progress=status)
    _put_page(page)


def _page_file(to: str) -> str | StringIO:
    """The file to write a page to: a path, or memory if it is to be printed."""
    return StringIO() if to == "-" else to


def _put_page(page: str | StringIO) -> None:
    """Print where a page was written, or the page itself if it is in memory."""
    if isinstance(page, str):
        put(page)
    else:
        sys.stdout.write(page.getvalue())


def _collection_of(store: str | None, name: str) -> str | None:
    """The collection that is meant; None if it is a run.

    A run's whole id and `last` are the run, else a collection's name is before a prefix.
    """
    from store.service.judged_queries import PREFIX

    if name.startswith(PREFIX):
        return name.removeprefix(PREFIX)
    with open_existing(store) as opened:
        collections: list[str] = opened.collections_frame()["name"].tolist()
        if not collections:
            return None
        try:
            run = opened.run(name).id
        except StoreError as error:
            if name in collections:
                return name
            known = ", ".join(collections[:10])
            raise StoreError(f"{error}; collections: {known}") from None
    if name not in collections:
        return None
    if name in ("last", run):
        say(f"run {run} is taken; the collection: sortnet report {shlex.quote(PREFIX + name)}")
        return None
    say(f"collection {name} is taken; the run: sortnet report {run}")
    return name
