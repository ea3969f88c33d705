"""Write the page of a run or of a collection from Python."""

from __future__ import annotations

from sortnet.core import Progress
from store.collections.collection import Collection
from store.report.html_page import PageFile
from store.runs.run import Run


def report(
    subject: Run | Collection,
    file: PageFile = "report.html",
    *,
    progress: Progress = lambda text: None,
) -> None:
    """Write a run or a collection as one HTML page, which needs no network.

    Args:
        subject: a run, as `store.run("last")` returns it, or a collection, as
            `store.collection("essays")` does. A run that records the labelling of a collection is
            reported as the collection.
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
    # Both pages draw by matplotlib, which takes a second to import.
    from store.report.collection_page import write_collection_page
    from store.report.run_page import labelled_collection, write_run_page

    if isinstance(subject, Collection):
        write_collection_page(subject, file, progress=progress)
        return
    collection = labelled_collection(subject)
    if collection is None:
        write_run_page(subject, file, progress=progress)
    else:
        write_collection_page(collection, file, progress=progress)
