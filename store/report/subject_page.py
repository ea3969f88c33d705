"""Write the page of a run or of a collection, which one name may mean."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sortnet.core import Progress
from sortnet.errors import StoreError
from sortnet.files import refuse_output, write_file
from sortnet.messages import known_names, note
from sortnet.preference.stopping import Goal
from store.collections.collection import Collection
from store.report.html_page import PageFile
from store.runs.resuming import find_data
from store.runs.run import Run
from store.service.existing_store import ITEMS_MAKER, open_existing
from store.service.judged_queries import PREFIX
from store.store import Store


def report(
    subject: Run | Collection,
    file: PageFile = "report.html",
    *,
    progress: Progress = lambda text: None,
) -> None:
    """Write a run or a collection as one HTML page, which needs no network.

    Args:
        subject: a run, as `store.run("last")` returns it, or a collection, as
            `store.collection("essays")` does.
        file: a path, replaced if it exists, or an open text file.
        progress: called with the name of each step.

    Raises:
        SortNetError: if the file cannot be written, the run has no iteration, or the collection has
            fewer than two items.

    >>> import tempfile
    >>> from sortnet.items.given_items import items_from
    >>> from store import open_store
    >>> fruit = items_from(["fig", "pear"]).items
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/s.db") as store:
    ...     report(store.add_items("fruit", fruit), f"{folder}/fruit.html")

    Cost: some seconds for a run, and about a second for each criterion of a collection.
    """
    if not isinstance(subject, Run | Collection):
        raise StoreError(
            "a report is about a run or a collection, as store.run(NAME) and "
            f"store.collection(NAME) return them, not about {type(subject).__name__}"
        )
    write_report(subject, file, progress=progress)


def write_report(
    subject: Run | Collection,
    file: PageFile,
    *,
    goal: Goal | None = None,
    top: int | None = None,
    model: str | None = None,
    data: Sequence[str] = (),
    queries: int = 5,
    progress: Progress,
) -> str:
    """Write a run or a collection as one HTML page; for the other arguments see `report`.

    Args:
        goal: the goal at which asking stops. If None, the collection's own goal.
        top: the number of items of each group that are shown. If None, all items of a collection.
        model: the folder of the run's model, if the folder was moved.
        data: the files of the run's training or validation queries, if the files were moved.
        queries: the number of hardest queries of a run.

    Returns:
        A line about the model or the data of a run if they were not found; else an empty text.
    """
    # The pages draw by matplotlib, which takes a second to import.
    from store.report import collection_page, run_page
    from store.report.collection_facts import facts_of_criteria

    if isinstance(file, str | Path):
        facts = subject.data.values() if isinstance(subject, Run) else ()
        refuse_output(str(file), *(find_data(part) for part in facts if "path" in part))
    missing = ""
    if isinstance(subject, Collection):
        all_facts = facts_of_criteria(subject, goal=goal, top=top, progress=progress)
        page = collection_page.render(all_facts, subject.name)
    else:
        page, missing = run_page.page_of(
            subject, model=model, data=data, top=queries, progress=progress
        )
    if isinstance(file, str | Path):
        write_file(str(file), lambda path: path.write_text(page, encoding="utf-8", newline=""))
    else:
        file.write(page)
    return missing


@contextmanager
def open_subject(store: str | None, name: str) -> Iterator[Run | Collection]:
    """Open the run or the collection with a name.

    If there is a run and a collection, a note tells which is taken. The name `last` and the whole
    id of a run mean the run; any other name, such as the beginning of a run's id, means the
    collection.

    Args:
        store: the address of the store. If None, the default store.
        name: the name of a run or a collection; `collection:` before the name means a collection.

    Raises:
        StoreError: if no run and no collection has the name.
    """
    with open_existing(store) as opened:
        yield _find_subject(opened, name)


def _find_subject(store: Store, name: str) -> Run | Collection:
    """Find the run or the collection with a name in an open store; see `open_subject`."""
    if name.startswith(PREFIX):
        return store.collection(name.removeprefix(PREFIX))
    collections: list[str] = store.collections_frame()["name"].tolist()
    try:
        run = store.run(name)
    except StoreError as error:
        if name in collections:
            return store.collection(name)
        makers = f"none yet; sortnet train makes a run, {ITEMS_MAKER} a collection"
        known = known_names(collections, name) if collections else makers
        raise StoreError(f"{error}; collections: {known}") from None
    if name not in collections:
        return run
    if name in ("last", run.id):
        argument = shlex.quote(PREFIX + name)
        note(f"run {run.id} is taken; the collection: sortnet report {argument}")
        return run
    note(f"collection {name} is taken; the run: sortnet report {run.id}")
    return store.collection(name)
