"""Reports: a run or a collection as one HTML page, and the words and tables on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from store import Collection, Run
    from store.report.html_page import PageFile


def report(subject: Run | Collection, path: PageFile, **options: Any) -> str:
    """Write a run or a collection as one HTML page, which needs no network.

    Args:
        subject: the run or the collection. A run that records the labelling of a collection is
            reported as the collection.
        path: a path, replaced if it exists, or an open text file.
        options: arguments of `store.report.run_page.write_run_page` or of
            `store.report.collection_page.write_collection_page`.

    Returns:
        A line about what is left out, because the model or the data of a run were not found; an
        empty text if nothing is left out.

    Raises:
        SortNetError: if there is nothing to report, or the file cannot be written.

    >>> import tempfile
    >>> from sortnet.items.given_items import items_from
    >>> from store import open_store
    >>> fruit = items_from(["fig", "pear"]).items
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/s.db") as store:
    ...     report(store.add_items("fruit", fruit), f"{folder}/fruit.html")
    ''
    """
    from store import Run
    from store.report.collection_page import write_collection_page
    from store.report.run_page import labelled_collection, write_run_page

    if isinstance(subject, Run):
        labelled = labelled_collection(subject)
        if labelled is None:
            return write_run_page(subject, path, **options)
        subject = labelled
    write_collection_page(subject, path, **options)
    return ""
