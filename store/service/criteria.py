"""Ask annotators about the criteria of a collection, in turn or together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sortnet.errors import StudyError
from sortnet.preference import Judgement, Question
from sortnet.preference.base import HOLDOUT
from store.collections.leases import Lease
from store.service.labelling import LabellingService

OTHER = "criterion"  # strategy of a question that was chosen for another criterion


class Asked(NamedTuple):
    """A question leased to an annotator, and the labelling service of the question's criterion."""

    service: LabellingService
    lease: Lease

    @property
    def items(self) -> tuple[int, ...]:
        """The numbers of the question's items, ascending."""
        return _items_of(self.lease.question)


class Criteria:
    """The labelling services of a collection: one for each criterion, or one without criteria.

    Args:
        services: the services in the order of the criteria.
        together: whether the same items are asked about for all criteria before the next question.
            If not, one criterion is asked about until its goal is reached, then the next criterion.
    """

    def __init__(self, services: Sequence[LabellingService], *, together: bool = False) -> None:
        self.services = tuple(services)
        self._together = together and len(services) > 1

    def next(self, annotator: str, k: int = 1) -> list[Asked]:
        """Lease the next k questions to an annotator, fewer if there are no more.

        If the criteria are asked together, each of the k questions is leased for every criterion.

        Cost: as `LabellingService.next`, for each service that is asked.
        """

        def has_reached_goal(service: LabellingService) -> bool:
            return service.is_fitted and service.remaining.stop

        # The criteria that have not reached their goal come first; otherwise their order stays.
        for service in sorted(self.services, key=has_reached_goal):
            questions = [Asked(service, lease) for lease in service.next(annotator, k)]
            if self._together:
                questions = self._for_all_criteria(annotator, questions)
            if questions:
                return questions
        return []

    def _for_all_criteria(self, annotator: str, chosen: Sequence[Asked]) -> list[Asked]:
        """Lease questions for every criterion about the items that one service chose.

        Items that the annotator has judged by only some of the criteria come first. Questions about
        the same items follow each other, in the order of the criteria.

        Args:
            chosen: the questions that one service chose and leased.
        """
        questions_by_items: dict[tuple[int, ...], list[Asked]] = {}
        for service in self.services:
            for question in _lease_same_items(service, annotator, chosen):
                questions_by_items.setdefault(question.items, []).append(question)
        chosen_items = list(dict.fromkeys(question.items for question in chosen))
        # Questions about other items are left from an earlier call.
        started_items = [items for items in questions_by_items if items not in chosen_items]
        questions: list[Asked] = []
        for items in started_items + chosen_items:
            questions += questions_by_items[items]
        return questions

    def service_of(self, criterion: str | None) -> LabellingService:
        """Return the service of a criterion; None stands for a collection without criteria.

        Raises:
            StudyError: if no service has the criterion.
        """
        for service in self.services:
            if service.collection.criterion == criterion:
                return service
        raise StudyError(f"there is no criterion {str(criterion)[:40]!r}")

    def answered(self, annotator: str) -> int:
        """Count an annotator's answers for all criteria."""
        return sum(service.answered(annotator) for service in self.services)

    def last(self, annotator: str) -> tuple[LabellingService, Judgement] | None:
        """Return an annotator's last answer for any criterion, with its service.

        None if the annotator has no answer that can be undone.
        """
        newest: tuple[LabellingService, Judgement] | None = None
        for service in self.services:
            judgement = service.session.last(annotator)
            if judgement is None:
                continue
            if newest is None or _time_of(judgement) > _time_of(newest[1]):
                newest = service, judgement
        return newest


def _time_of(judgement: Judgement) -> float:
    """Return the time of a judgement; a judgement without a time counts as the oldest."""
    return judgement.at or 0


def _items_of(question: Question) -> tuple[int, ...]:
    """Return the numbers of a question's items, ascending."""
    return tuple(sorted(question.items))


def _lease_same_items(
    service: LabellingService, annotator: str, chosen: Sequence[Asked]
) -> Sequence[Asked]:
    """Lease questions about the chosen items from a service, unless it has leased them already.

    Args:
        chosen: the questions that one service chose and leased; perhaps this service.

    Returns:
        All questions that the service has leased to the annotator. For the service that chose, only
        the chosen questions.
    """
    if chosen and service == chosen[0].service:
        return chosen
    leases = service.held(annotator)
    leased_items = {_items_of(lease.question) for lease in leases}
    missing_questions = [
        _for_other_criterion(question.lease.question)
        for question in chosen
        if question.items not in leased_items
    ]
    leases += service.lease(annotator, missing_questions)
    return [Asked(service, lease) for lease in leases]


def _for_other_criterion(question: Question) -> Question:
    """Copy a question, and record that another criterion chose its items (strategy `OTHER`).

    A hold-out question stays a hold-out question, because a random choice suits every criterion.
    """
    if question.strategy == HOLDOUT:
        return question
    return replace(question, strategy=OTHER, probability=1.0)
