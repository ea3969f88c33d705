"""Asking somebody in a terminal: question after question, each answer stored before the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from sortnet.errors import LeaseError
from sortnet.preference import ANSWERS, Answer

if TYPE_CHECKING:
    from store import Lease
    from store.service.labelling import LabellingService

UNDO, QUIT, LATE, ELSEWHERE = "undo", "quit", "late", "elsewhere"
REPLIES = tuple(answer for answer in ANSWERS if answer != UNDO)
TOO_LATE = "that pair had been taken back meanwhile: the answer does not count"
ANSWERED = "that was answered elsewhere already: this answer does not count"
NOT_STORED = {LATE: TOO_LATE, ELSEWHERE: ANSWERED}


class Front(Protocol):
    """What a person sees and answers with: a screen and keys, or lines."""

    def ask(self, lease: Lease, standing: str, still: Callable[[], bool]) -> tuple[str, int]:
        """An answer, UNDO, QUIT or LATE, and after how many milliseconds.

        `still` is called now and then: it keeps the question theirs, or says that it no longer
        is; then LATE.
        """

    def tell(self, text: str) -> None:
        """A message beside the next question."""

    def enough(self, why: str) -> bool:
        """Say that the goal is reached; whether to go on all the same."""

    def over(self, why: str) -> bool:
        """Say that nothing is left to ask; whether to take the last answer back."""


class Asking:
    """One annotator of a labelling service.

    Attributes:
        answered: how many of their answers stand, skips too.
        began: how many of them stood before.
    """

    def __init__(self, service: LabellingService, annotator: str) -> None:
        self.service, self.annotator = service, annotator
        self.answered = self.began = service.session.answered(annotator)
        self._since = time.monotonic()

    def go_on(self, front: Front, number: int | None = None) -> str:
        """Ask until they quit, `number` answers are in, or nothing is left; why it ended."""
        told = self._is_enough()  # who comes back behind the goal knows
        while number is None or self.answered - self.began < number:
            leases = self.service.next(self.annotator, 1)
            if not leases:
                why = nothing_left(self.service)
                if self.answered > self.began and front.over(why) and self._take_back():
                    continue
                return why
            if self.put(front, leases[0]) == QUIT:
                return self.service.remaining.why
            self.service.update()
            if self._is_enough() and not told:
                told = True
                if not front.enough(self.service.remaining.why):
                    return self.service.remaining.why
        return self.service.remaining.why

    def put(self, front: Front, lease: Lease, may_undo: Callable[[], bool] = lambda: True) -> str:
        """Put one question, and store what comes of it; what was replied."""

        def still() -> bool:
            collection, seconds = self.service.collection, self.service.lease_seconds
            return collection.renew(self.annotator, [lease.id], seconds) == 1

        reply, milliseconds = front.ask(lease, self._standing(), still)
        if reply == UNDO:
            taken = may_undo() and self._take_back()
            front.tell("taken back" if taken else "there is nothing to take back")
        elif reply == LATE:
            front.tell(TOO_LATE)
        elif reply != QUIT:
            reply = self._store(lease, reply, milliseconds)
            front.tell(NOT_STORED.get(reply, f"stored: {reply}"))
        return reply

    def _is_enough(self) -> bool:
        return self.service.known and self.service.remaining.stop

    def _store(self, lease: Lease, reply: str, milliseconds: int) -> str:
        try:
            stored = self.service.answer(
                lease.id,
                lease.question.answered(
                    self.annotator, cast(Answer, reply), milliseconds=milliseconds
                ),
            )
        except LeaseError:
            return LATE
        if not stored.new:
            return ELSEWHERE
        self.answered += 1
        return reply

    def _take_back(self) -> bool:
        taken = self.service.undo(self.annotator) is not None
        self.answered -= taken
        return taken

    def _standing(self) -> str:
        remaining = self.service.remaining
        parts = [self.service.collection.name, self.annotator, f"{self.answered} answered"]
        if not self.service.known:
            parts.append("learning from what was answered")
        elif remaining.questions is not None:
            parts.append(f"about {remaining.questions} left")
        now, minutes = self.answered - self.began, (time.monotonic() - self._since) / 60
        if now >= 3:
            parts.append(f"{now / minutes:.0f} a minute")
        if self.service.fault:
            parts.append(self.service.fault)
        return "   ".join(parts)


def nothing_left(service: LabellingService) -> str:
    """Why there is no question."""
    if service.collection.live_pairs():
        return "nothing to ask just now: the pairs that are left are with somebody else"
    return "every pair was asked"
