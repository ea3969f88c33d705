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
            `store.collection("essays")` does.
        file: a path, replaced if it exists, or an open text file.
        progress: called with the name of each step.

    Raises:
        SortNetError: if the file cannot be written, the run has no iteration, or the collection has
            fewer than two items.

    >>> import tempfile
    >>> import sortnet
    >>> folder = tempfile.TemporaryDirectory()
    >>> sorted_texts = sortnet.sort(
    ...     ["a fig", "a pear", "an apricot"],
    ...     judge=lambda left, right: "left" if len(left) > len(right) else "right",
    ...     store=f"{folder.name}/texts.db",
    ...     name="texts",
    ...     progress=False,
    ... )
    >>> with sortnet.open_store(f"{folder.name}/texts.db") as store:
    ...     sortnet.report(store.collection("texts"), f"{folder.name}/texts.html")
    >>> folder.cleanup()

    Cost: about 3 seconds for a run, and about a second for each criterion of a collection.
    """
    # Both pages draw by matplotlib, which takes a second to import.
    if isinstance(subject, Run):
        from store.report.run_page import write_run_page

        write_run_page(subject, file, progress=progress)
    else:
        from store.report.collection_page import write_collection_page

        write_collection_page(subject, file, progress=progress)
