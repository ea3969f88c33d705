"""Write judgements to a file; formats for preference tuning weigh the annotators."""

from __future__ import annotations

from typing import IO

from store.collections.collection import Collection
from store.collections.judgement_files import ExportForm, export_judgements
from store.service.judged_queries import annotator_weights

FORMS_OF_PAIRS = ("chosen", "conversational")  # formats with a line for each pair


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
