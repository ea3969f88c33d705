"""List the collections of a store, and list or write the judgements of a collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from sortnet.files import rows_of
from sortnet.preference.base import ORDER_ANSWERS

if TYPE_CHECKING:
    from store import Collection, Store
    from store.collections.judgement_files import ExportForm

FORMS_OF_PAIRS = ("chosen", "conversational")  # formats with a line for each pair
_COUNTS = ("items", "features", "annotators", "judgements")


def collection_rows(store: Store) -> list[dict[str, Any]]:
    """Return a row for each collection of a store, oldest first, with its numbers of items etc.

    `run_id` is the id of the run that owns a collection; None for a user's collection.
    """
    rows = rows_of(store.collections_frame()[["name", "created", *_COUNTS, "run_id"]])
    return [row | {"created": _iso_time(row["created"])} for row in rows]


@dataclass(frozen=True)
class NewestJudgements:
    """The newest judgements of a collection.

    Attributes:
        rows: a row for each judgement, oldest first.
        n_older: number of judgements older than the rows.
        n_answers: number of judgements about the order of items, without undone judgements and
            judgements of excluded annotators.
        n_annotators: number of annotators who gave these answers.
    """

    rows: list[dict[str, Any]]
    n_older: int
    n_answers: int
    n_annotators: int


def newest_judgements(collection: Collection, limit: int) -> NewestJudgements:
    """Return the newest judgements of a collection, at most `limit`, and counts of all of them.

    Only answers about the order of items count. Undone answers and answers of excluded annotators
    do not count.
    """
    frame = collection.judgements_frame()
    rows = [row | {"at": _iso_time(row["at"])} for row in rows_of(frame.tail(limit))]
    counted = frame[frame["answer"].isin(ORDER_ANSWERS) & ~frame["undone"] & ~frame["excluded"]]
    return NewestJudgements(
        rows=rows,
        n_older=len(frame) - len(rows),
        n_answers=len(counted),
        n_annotators=int(counted["annotator"].nunique()),
    )


def _iso_time(text: str | None) -> str | None:
    """Convert a stored time to ISO 8601; None if the time is missing in a damaged store."""
    return None if text is None else text.replace(" ", "T")


def write_judgements(
    collection: Collection,
    file: IO[str],
    form: ExportForm,
    *,
    prompt: str = "",
    for_spreadsheets: bool = True,
) -> int:
    """Write the judgements of a collection to a file.

    Args:
        form: name of the format; formats in `FORMS_OF_PAIRS` weigh each pair by the annotators'
            reliability, which takes a fit.
        prompt: the prompt of every record in formats for preference tuning. If empty, the context
            or the name of the items' group.
        for_spreadsheets: whether texts of `csv` that a spreadsheet would run as formulas get an
            apostrophe.

    Returns:
        The number of judgements, or of pairs, that were written.
    """
    from store.collections.judgement_files import export_judgements
    from store.service.judged_queries import annotator_weights

    with collection.transaction():  # the weights are of the judgements that are written
        weights = annotator_weights(collection) if form in FORMS_OF_PAIRS else None
        return export_judgements(
            collection,
            file,
            form,
            prompt=prompt,
            weights=weights,
            for_spreadsheets=for_spreadsheets,
        )
