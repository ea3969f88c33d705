"""The labelling services of a collection's criteria, asked in turn or together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sortnet.errors import StudyError
from sortnet.preference import Judgement, Question
from sortnet.preference.base import HOLDOUT
from store.collections.leases import Lease
from store.service.labelling import LabellingService

OTHER = "criterion"  # the strategy of a question that was chosen for another criterion


class Asked(NamedTuple):
    """A question leased to an annotator, and the service of the criterion it is about."""

    service: LabellingService
    lease: Lease

    @property
    def items(self) -> tuple[int, ...]:
        """The items of the question, ascending."""
        return _items_of(self.lease.question)


class Criteria:
    """The services that annotators are asked by: one, or one for each criterion in their order.

    Args:
        together: whether each question is asked for all criteria before the next question. If not,
            one criterion is asked about until its goal is reached, then the next one.
    """

    def __init__(self, services: Sequence[LabellingService], *, together: bool = False) -> None:
        self.services = tuple(services)
        self._together = together and len(services) > 1

    def next(self, annotator: str, k: int = 1) -> list[Asked]:
        """The next k questions, or fewer; together, each question once for each criterion.

        Cost: as `LabellingService.next`, for each service that is asked.
        """
        # The criteria that have not reached their goal come first; the sort is stable.
        services = sorted(
            self.services, key=lambda service: service.is_fitted and service.remaining.stop
        )
        for service in services:
            questions = [Asked(service, lease) for lease in service.next(annotator, k)]
            if self._together:
                questions = self._for_all_criteria(annotator, questions)
            if questions:
                return questions
        return []

    def _for_all_criteria(self, annotator: str, chosen: Sequence[Asked]) -> list[Asked]:
        """Ask for every criterion about the items that one service chose.

        Items that the annotator has judged by some of the criteria already come first. Questions
        about the same items follow each other, in the order of the criteria.
        """
        questions = self._lease_by_all(annotator, chosen)
        questions.sort(key=lambda question: self.services.index(question.service))
        questions_by_items: dict[tuple[int, ...], list[Asked]] = {}
        for question in questions:
            questions_by_items.setdefault(question.items, []).append(question)
        chosen_items = list(dict.fromkeys(question.items for question in chosen))
        started_items = [items for items in questions_by_items if items not in chosen_items]
        return [
            question
            for items in started_items + chosen_items
            for question in questions_by_items[items]
        ]

    def _lease_by_all(self, annotator: str, chosen: Sequence[Asked]) -> list[Asked]:
        """Lease questions about the chosen items from the other services.

        Returns:
            The chosen questions, and all questions that the other services have leased to the
            annotator.
        """
        questions = list(chosen)
        for service in self.services:
            if chosen and service == chosen[0].service:
                continue
            leases = service.held(annotator)
            leased_items = {_items_of(lease.question) for lease in leases}
            missing = [
                _for_other_criterion(question.lease.question)
                for question in chosen
                if question.items not in leased_items
            ]
            leases += service.lease(annotator, missing)
            questions += [Asked(service, lease) for lease in leases]
        return questions

    def service_of(self, criterion: str | None) -> LabellingService:
        """The service of a criterion; a StudyError if no service has the criterion."""
        for service in self.services:
            if service.collection.criterion == criterion:
                return service
        raise StudyError(f"there is no criterion {str(criterion)[:40]!r}")

    def answered(self, annotator: str) -> int:
        """The number of an annotator's answers, by all criteria."""
        return sum(service.answered(annotator) for service in self.services)

    def last(self, annotator: str) -> tuple[LabellingService, Judgement] | None:
        """An annotator's last answer that can be undone, and its service; None without answers."""
        newest: tuple[LabellingService, Judgement] | None = None
        for service in self.services:
            judgement = service.session.last(annotator)
            if judgement is None:
                continue
            if newest is None or (judgement.at or 0) > (newest[1].at or 0):
                newest = service, judgement
        return newest


def _items_of(question: Question) -> tuple[int, ...]:
    """The items of a question, ascending."""
    return tuple(sorted(question.items))


def _for_other_criterion(question: Question) -> Question:
    """A question about the same items for another criterion, whose model did not choose it.

    A question of the hold-out is random for that criterion, too.
    """
    if question.strategy == HOLDOUT:
        return question
    return replace(question, strategy=OTHER, probability=1.0)
