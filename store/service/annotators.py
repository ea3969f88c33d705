"""Report on the annotators of a collection, and change the gold pairs that score them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sortnet.preference.study import Decision

if TYPE_CHECKING:
    from sortnet.preference.annotator_reports import AnnotatorReport
    from store import Collection


@dataclass(frozen=True)
class AnnotatorReports:
    """Reports on all annotators of a collection.

    Attributes:
        collection: name of the collection.
        reports: a report for each annotator.
        harmful: names of annotators whose verdict names a fault, and who are not excluded.
    """

    collection: str
    reports: list[AnnotatorReport]
    harmful: list[str]


def report_annotators(collection: Collection) -> AnnotatorReports:
    """Report on all annotators of a collection.

    Cost: a fit to all judgements.
    """
    from sortnet.preference.annotator_reports import FINE
    from store.service.labelling import LabellingService

    with collection.transaction():
        service = LabellingService(collection)
        names = [annotator.name for annotator in collection.annotators()]
    service.settle()
    reports = service.reports(names)
    # FINE has the verdicts that report no fault. An excluded annotator does no harm.
    harmful = [
        report.name
        for report in reports
        if report.verdict not in FINE and report.state != "excluded"
    ]
    return AnnotatorReports(collection.name, reports, harmful)


@dataclass(frozen=True)
class GoldPairs:
    """The gold pairs of a collection after a change; a gold pair has a known answer.

    Attributes:
        collection: name of the collection.
        n_pairs: number of gold pairs in the collection.
        rate: share of the questions that are about gold pairs.
        n_known: number of the requested changes that had been made before.
    """

    collection: str
    n_pairs: int
    rate: float
    n_known: int


def change_gold(
    collection: Collection, file: str | None, rate: float | None, *, remove: bool = False
) -> GoldPairs:
    """Add or remove gold pairs, and set the share of the questions that are about gold pairs.

    Args:
        file: file of pairs to add or remove; None: the pairs stay.
        rate: share of the questions that are about gold pairs; None: the share stays.
        remove: whether the pairs of the file are removed.

    Raises:
        DataError: if the file cannot be used.
    """
    from store.collections.judgement_lines import read_gold

    items = collection.items()
    decisions = [] if file is None else read_gold(file, items, remove=remove)
    if rate is not None:
        decisions.append(Decision("gold-rate", amount=rate))
    stored = collection.decide(*decisions)
    study = collection.study()
    n_known = len(decisions) - len(stored)
    return GoldPairs(collection.name, len(study.gold), study.gold_rate, n_known)


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
