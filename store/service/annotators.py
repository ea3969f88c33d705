"""Report on the annotators of a collection, and change the gold pairs that score them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sortnet.preference.study import Decision, Study

if TYPE_CHECKING:
    from sortnet.preference.annotator_reports import AnnotatorReport
    from store import Collection


def report_annotators(collection: Collection) -> list[AnnotatorReport]:
    """Report on all annotators of a collection.

    Cost: a fit to all judgements.
    """
    from store.service.labelling import LabellingService

    with collection.transaction():
        service = LabellingService(collection)
        names = [annotator.name for annotator in collection.annotators()]
    service.settle()
    return service.reports(names)


def change_gold(
    collection: Collection, file: str | None, rate: float | None, *, remove: bool = False
) -> tuple[Study, int]:
    """Add or remove gold pairs, and set the share of the questions that are about gold pairs.

    Args:
        file: file of pairs to add or remove; None: the pairs stay.
        rate: share of the questions that are about gold pairs; None: the share stays.
        remove: whether the pairs of the file are removed.

    Returns:
        The study after the change, and the number of requested changes that had been made before.

    Raises:
        DataError: if the file cannot be used.
    """
    from store.collections.judgement_lines import read_gold

    items = collection.items()
    decisions = [] if file is None else read_gold(file, items, remove=remove)
    if rate is not None:
        decisions.append(Decision("gold-rate", amount=rate))
    stored = collection.decide(*decisions)
    return collection.study(), len(decisions) - len(stored)


@contextmanager
def created_annotator(collection: Collection, name: str) -> Iterator[None]:
    """Create an annotator for a `with` block, unless the annotator exists.

    When the block ends, a created annotator who has given no answer is removed.
    """
    is_new = name not in {annotator.name for annotator in collection.annotators()}
    collection.annotator(name)
    try:
        yield
    finally:
        if is_new:
            collection.forget(name)  # `forget` keeps an annotator with answers
