"""Write the report of a run or a collection: a page to a file or stdout, or the facts as JSON."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from cli.console import progress, put, say, write_output
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
        store: URL of the store; None for the user's own store.
        name: name of the collection.
        output: path of the file, or `-` for stdout. If None, the file is `report-NAME.html` in the
            current folder.
        top: number of items of each group that are shown; None for all items.
    """
    from store.report.collection_page import write_collection_page

    if output is None:
        name_in_path = re.sub(r"[^\w.-]+", "-", name)
        output = f"report-{name_in_path}.html"
    page = _page_file(output)
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
        store: URL of the store; None for the user's own store.
        name: id of the run, a prefix of the id, or `last`.
        output: path of the file, or `-` for stdout. If None, the file is `report-ID.html` in the
            current folder.
        model: the model folder, if it was moved.
        data: the files of training and validation data, if they were moved.
        queries: number of hardest queries that are shown for each part of the data.
        cache: folder in which read data is cached.
        threads: number of threads.
        top: not used, because it is an option for collections.
    """
    from store.report.run_page import write_run_page

    with progress() as status, open_run(store, name) as run:
        set_threads(threads)
        if output is None:
            output = f"report-{run.id}.html"
        page = _page_file(output)
        omissions = write_run_page(
            run, page, model=model, data=data, top=queries, cache=cache, progress=status
        )
    for omission in omissions:
        say(f"not in the report: {omission}")
    _put_page(page)


def _page_file(to: str) -> str | StringIO:
    """Choose where a page is written: to the path, or for stdout (`-`) to a text in memory."""
    return StringIO() if to == "-" else to


def _put_page(page: str | StringIO) -> None:
    """Print the path of a written page; write a page in memory to stdout."""
    if isinstance(page, str):
        put(page)
    else:
        write_output("-", lambda file: file.write(page.getvalue()))
