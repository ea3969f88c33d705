"""Write reports of runs and collections: a page to a file or stdout, or the facts as JSON."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

from cli.console import progress, put, say
from cli.printing.results import Result, print_result
from sortnet.threads import set_threads
from store.service.existing_store import open_collection, open_run


def print_collection_facts(store: str | None, name: str, top: int | None) -> None:
    """Print the facts of a collection's report as JSON."""
    from store.report.collection_facts import facts_for_programs

    with progress() as status, open_collection(store, name) as collection:
        facts = facts_for_programs(collection, top=top, progress=status)
    print_result(Result("report", facts), as_json=True)


def write_collection(store: str | None, name: str, output: str | None, top: int | None) -> None:
    """Write the report of a collection as a page, and print the path of the file.

    Args:
        output: the file, or `-` for stdout; None: a file in this folder with the collection's name.
        top: items of each group that are shown; None: all.
    """
    from store.report.collection_page import write_collection_page

    plain_name = re.sub(r"[^\w.-]+", "-", name)
    page = _page_file(f"report-{plain_name}.html" if output is None else output)
    with progress() as status, open_collection(store, name) as collection:
        write_collection_page(collection, page, top=top, progress=status)
    _put_page(page)


def write_run(
    store: str | None,
    name: str,
    *,
    output: str | None,
    model: str | None,
    data: tuple[str, ...],
    queries: int,
    cache: Path | None,
    threads: int | None,
    top: int | None = None,
) -> None:
    """Write the report of a run as a page, and print the path of the file.

    Args:
        output: the file, or `-` for stdout; None: a file in this folder with the run's name.
        model, data: the places of model and data, if they were moved.
        queries: number of hardest queries that are shown for each part.
        top: not used; it is an option for collections.
    """
    from store.report.run_page import write_run_page

    with progress() as status, open_run(store, name) as run:
        set_threads(threads)
        page = _page_file(f"report-{run.id}.html" if output is None else output)
        omissions = write_run_page(
            run, page, model=model, data=data, top=queries, cache=cache, progress=status
        )
    for omission in omissions:
        say(f"not in the report: {omission}")
    _put_page(page)


def _page_file(to: str) -> str | StringIO:
    """Where to write a page: the path `to`, or a buffer in memory if `to` is `-`, for stdout."""
    return StringIO() if to == "-" else to


def _put_page(page: str | StringIO) -> None:
    """Print the path of a page; if the page is in memory, write it to stdout."""
    if isinstance(page, str):
        put(page)
    else:
        sys.stdout.write(page.getvalue())
