"""Question an annotator in a terminal; each answer is stored before the next question."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from cli.terminal.keys import END
from sortnet.errors import LeaseError
from sortnet.messages import ANSWERED
from sortnet.preference import Answer, Judgement
from sortnet.preference.base import ORDER_ANSWERS

if TYPE_CHECKING:
    from store import Lease
    from store.service.labelling import LabellingService

UNDO, QUIT, LATE, ELSEWHERE = "undo", "quit", "late", "elsewhere"
KEYS = {
    **dict.fromkeys(("1", "left"), "left"),
    **dict.fromkeys(("2", "right"), "right"),
    **dict.fromkeys(("0", "down"), "tie"),
    **{"space": "skip", "?": "cant-say"},
    **dict.fromkeys(("z", "backspace"), UNDO),
    **dict.fromkeys(("q", END), QUIT),
}  # what each key of the screen says; lines may be keys, too
SET_KEYS = {
    **dict.fromkeys(("=", "0", "down"), "same"),
    **dict.fromkeys(("s", "space"), "skip"),
    "?": "cant-say",
    **dict.fromkeys(("u", "z", "backspace"), UNDO),
    **dict.fromkeys(("q", END), QUIT),
}  # of a question about more than two items, beside the numbers of its items
TOO_LATE = "that pair was withdrawn in the meantime: the answer does not count"
NOT_STORED = {LATE: TOO_LATE, ELSEWHERE: ANSWERED}


class Reply(NamedTuple):
    """What an annotator said of a question; only an answer keeps the comment and the flag."""

    said: str  # an answer, UNDO, QUIT or LATE
    milliseconds: int = 0
    comment: str | None = None
    flagged: bool | None = None
    best: int | None = None  # the places of the best and the worst item, if `said` is `best`
    worst: int | None = None

    @property
    def words(self) -> str:
        """The answer, with the numbers of the items that it chooses.

        >>> Reply("best", best=1, worst=3).words
        'best 2, worst 4'
        """
        if self.best is None:
            return self.said
        worst = "" if self.worst is None else f", worst {self.worst + 1}"
        return f"best {self.best + 1}{worst}"

    def after(self, started: float, comment: str, flagged: bool) -> Reply:
        """The reply with the time since `started`, by `time.monotonic`, and what was remarked."""
        milliseconds = round(1000 * (time.monotonic() - started))
        return self._replace(
            milliseconds=milliseconds, comment=comment or None, flagged=flagged or None
        )


class Front(Protocol):
    """The user interface of an annotator: a screen with keys, or lines."""

    def ask(self, lease: Lease, standing: str, still: Callable[[], bool]) -> Reply:
        """Ask one question.

        `still` is called at intervals: it extends the lease, or returns False if the lease is
        lost; then LATE.
        """

    def notify(self, text: str) -> None:
        """Show a message next to the next question."""

    def enough(self, why: str) -> bool:
        """Report that the goal is reached; return whether to continue."""

    def over(self, why: str) -> bool:
        """Report that no question is left; return whether to undo the last answer."""


class Asking:
    """One annotator of a labelling service."""

    def __init__(self, service: LabellingService, annotator: str) -> None:
        self.service, self.annotator = service, annotator
        # Answers that were not undone, skips and can't-says aside: now, and at the start.
        self.answered = self.began = service.session.answered(annotator)
        self.quit = False  # whether they asked for no more questions
        self.interrupted = False  # whether Ctrl-C or a signal ended the asking
        self._since = time.monotonic()

    def go_on(self, front: Front, number: int | None = None) -> str:
        """Ask until they quit, `number` answers are given or none is left; return why."""
        announced = self._is_enough()  # not announced again after the goal
        while number is None or self.answered - self.began < number:
            leases = self.service.next(self.annotator, 1)
            if not leases:
                why = self.service.why_nothing_left(self.annotator)
                if self.answered > self.began and front.over(why) and self._take_back():
                    continue
                return why
            self.quit = self.put(front, leases[0]) == QUIT
            if self.quit:
                return self.service.remaining.why
            self.service.update()
            if self._is_enough() and not announced:
                announced = True
                if not front.enough(self.service.remaining.why):
                    return self.service.remaining.why
        return self.service.remaining.why

    def put(self, front: Front, lease: Lease, may_undo: Callable[[], bool] = lambda: True) -> str:
        """Ask one question and store the result; return the reply."""

        def still() -> bool:
            collection, seconds = self.service.collection, self.service.lease_seconds
            return bool(collection.lease(self.annotator, (), seconds, renew=[lease.id]))

        given = front.ask(lease, self._standing(), still)
        reply = given.said
        if reply == UNDO:
            taken = may_undo() and self._take_back()
            front.notify("undone" if taken else "there is nothing to undo")
        elif reply != QUIT:
            reply = LATE if reply == LATE else self._store(lease, given)
            front.notify(NOT_STORED.get(reply, f"stored: {given.words}"))
        return reply

    def _is_enough(self) -> bool:
        return self.service.is_fitted and self.service.remaining.stop

    def _store(self, lease: Lease, given: Reply) -> str:
        try:
            stored = self.service.answer(lease.id, self._judgement(lease, given))
        except LeaseError:
            return LATE
        if not stored.new:
            return ELSEWHERE
        self.answered += given.said in ORDER_ANSWERS
        return given.said

    def _judgement(self, lease: Lease, given: Reply) -> Judgement:
        question, annotator = lease.question, self.annotator
        facts = {name: getattr(given, name) for name in ("milliseconds", "comment", "flagged")}
        if given.best is None:
            return question.answered(annotator, cast(Answer, given.said), **facts)
        return question.answered_by_place(annotator, given.best, given.worst, **facts)

    def _take_back(self) -> bool:
        last = self.service.session.last(self.annotator)
        taken = self.service.undo(self.annotator) is not None
        self.answered -= taken and last is not None and last.answer in ORDER_ANSWERS
        return taken

    def _standing(self) -> str:
        remaining = self.service.remaining
        parts = [self.service.collection.name, self.annotator, f"{self.answered} answered"]
        if not self.service.is_fitted:
            parts.append("fitting the answers")
        elif remaining.stop:
            parts.append("the goal is reached")
        elif remaining.reached:  # and some answers must confirm it
            parts.append(f"{remaining.range_left or 'a few'} left to check the model")
        elif remaining.range_left:
            parts.append(f"{remaining.range_left} left")
        now, minutes = self.answered - self.began, (time.monotonic() - self._since) / 60
        if now >= 3:
            parts.append(f"{now / minutes:.0f} a minute")
        if self.service.fault:
            parts.append(self.service.fault)
        return "   ".join(parts)


# Asks an annotator, at most that many questions; why it ended, and further facts.
Ask: TypeAlias = Callable[[Asking, int | None], tuple[str, dict[str, Any]]]
