"""Reports of a collection's annotators, and the gold pairs that annotators are scored by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sortnet.preference.study import Decision

if TYPE_CHECKING:
    from sortnet.preference.annotator_reports import AnnotatorReport
    from store import Collection


@dataclass(frozen=True)
class AnnotatorReports:
    """Reports of all annotators of a collection.

    Attributes:
        collection: name of the collection.
        reports: a report for each annotator.
        harmful: annotators with a fault; without their answers the other annotators' held-out
            answers are predicted better.
    """

    collection: str
    reports: list[AnnotatorReport]
    harmful: list[str]


def report_annotators(collection: Collection) -> AnnotatorReports:
    """Reports of all annotators.

    Cost: a fit to all judgements, and one without the answers of each annotator with a fault.
    """
    from sortnet.preference.annotator_reports import FINE
    from store.service.labelling import LabellingService

    service = LabellingService(collection)
    service.settle()
    reports = service.reports([annotator.name for annotator in collection.annotators()])
    harmful = [
        report.name
        for report in reports
        if report.verdict not in FINE
        and report.state != "excluded"
        and service.session.better_without(report.name)
    ]
    return AnnotatorReports(collection.name, reports, harmful)


@dataclass(frozen=True)
class GoldPairs:
    """The gold pairs of a collection after a change.

    Attributes:
        collection: name of the collection.
        n_pairs: gold pairs of the collection.
        rate: share of the questions that are about gold pairs.
        n_known: changes that were already in place.
    """

    collection: str
    n_pairs: int
    rate: float
    n_known: int


def change_gold(
    collection: Collection, file: str | None, rate: float | None, *, remove: bool = False
) -> GoldPairs:
    """Add the pairs of a file to the gold pairs, or remove them, and set the share of questions.

    Args:
        file: the pairs; None: they stay as they are.
        rate: share of the questions that are about gold pairs; None: it stays as it is.

    Raises:
        DataError: if the file cannot be used.
    """
    from store.collections.gold_file import read_gold

    items = collection.items()
    decisions = [] if file is None else read_gold(file, items, remove=remove)
    if rate is not None:
        decisions.append(Decision("gold-rate", amount=rate))
    stored = collection.decide(*decisions)
    study = collection.study()
    n_known = len(decisions) - len(stored)
    return GoldPairs(collection.name, len(study.gold), study.gold_rate, n_known)
