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
    """What annotators are asked: by one service, or one for each criterion, in that order.

    Together, each question is asked by all criteria before the next one; else one criterion is
    asked until its goal is reached, then the next one.
    """

    def __init__(self, services: Sequence[LabellingService], *, together: bool = False) -> None:
        self.services, self._together = tuple(services), together and len(services) > 1

    def next(self, annotator: str, k: int = 1) -> list[Asked]:
        """The next k questions, or fewer; together, each once for each criterion.

        Cost: as `LabellingService.next`, for each service that is looked at.
        """
        # Those that have not reached their goal first; the sort is stable.
        order = sorted(self.services, key=lambda each: each.known and each.remaining.stop)
        for lead in order:
            asked = [Asked(lead, lease) for lease in lead.next(annotator, k)]
            if self._together:
                asked = self._by_all(annotator, asked)
            if asked:
                return asked
        return []

    def _by_all(self, annotator: str, asked: Sequence[Asked]) -> list[Asked]:
        """The questions of one service asked by all; those with an answer by some come first."""
        by_all = list(asked)
        others = [service for service in self.services if not asked or service != asked[0].service]
        for service in others:
            leases = service.held(annotator)
            leased = {_items_of(lease.question) for lease in leases}
            questions = [_for_another(one.lease.question) for one in asked]
            questions = [question for question in questions if _items_of(question) not in leased]
            leases += service.lease(annotator, questions)
            by_all += [Asked(service, lease) for lease in leases]
        questions_of: dict[tuple[int, ...], list[Asked]] = {}
        for question_asked in by_all:
            questions_of.setdefault(question_asked.items, []).append(question_asked)
        chosen = list(dict.fromkeys(question_asked.items for question_asked in asked))
        started = [items for items in questions_of if items not in chosen]
        ordered: list[Asked] = []
        for items in started + chosen:
            ordered += sorted(questions_of[items], key=lambda q: self.services.index(q.service))
        return ordered

    def service_of(self, criterion: str | None) -> LabellingService:
        """The service of that criterion; a StudyError if there is none."""
        for each in self.services:
            if each.collection.criterion == criterion:
                return each
        raise StudyError(f"there is no criterion {str(criterion)[:40]!r}")

    def answered(self, annotator: str) -> int:
        """The number of an annotator's answers, by all criteria."""
        return sum(each.answered(annotator) for each in self.services)

    def last(self, annotator: str) -> tuple[LabellingService, Judgement] | None:
        """An annotator's last answer that can be undone, and its service; None if there is none."""
        found = [(each, each.session.last(annotator)) for each in self.services]
        theirs = [(each, judgement) for each, judgement in found if judgement is not None]
        return max(theirs, key=lambda one: one[1].at or 0, default=None)


def _items_of(question: Question) -> tuple[int, ...]:
    """The items of a question, ascending."""
    return tuple(sorted(question.items))


def _for_another(question: Question) -> Question:
    """The same items for another criterion, whose model had no choice; a random one stays that."""
    if question.strategy == HOLDOUT:
        return question
    return replace(question, strategy=OTHER, probability=1.0)
