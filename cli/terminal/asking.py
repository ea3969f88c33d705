"""Ask an annotator in a terminal; each answer is stored before the next question."""

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

# Outcomes of a question that are no answers.
UNDO = "undo"
QUIT = "quit"
LATE = "late"
ELSEWHERE = "elsewhere"
# {key of the screen: its outcome}; lines may be keys, too.
KEYS = {
    "1": "left",
    "left": "left",
    "2": "right",
    "right": "right",
    "0": "tie",
    "down": "tie",
    "space": "skip",
    "?": "cant-say",
    "z": UNDO,
    "backspace": UNDO,
    "q": QUIT,
    END: QUIT,
}
# Keys of a question about more than two items, besides the numbers of its items.
SET_KEYS = {
    "=": "same",
    "0": "same",
    "down": "same",
    "s": "skip",
    "space": "skip",
    "?": "cant-say",
    "u": UNDO,
    "z": UNDO,
    "backspace": UNDO,
    "q": QUIT,
    END: QUIT,
}
TOO_LATE = "that pair was withdrawn in the meantime: the answer does not count"
NOT_STORED = {LATE: TOO_LATE, ELSEWHERE: ANSWERED}


class Reply(NamedTuple):
    """An annotator's reply to a question; only answers are stored, with comment and flag.

    Attributes:
        outcome: an answer, UNDO, QUIT or LATE.
        best: place of the best item, if the outcome is `best`.
        worst: place of the worst item, if that was asked for.
    """

    outcome: str
    milliseconds: int = 0
    comment: str | None = None
    flagged: bool | None = None
    best: int | None = None
    worst: int | None = None

    @property
    def words(self) -> str:
        """The answer, with the numbers of the items that it chooses.

        >>> Reply("best", best=1, worst=3).words
        'best 2, worst 4'
        """
        if self.best is None:
            return self.outcome
        worst = "" if self.worst is None else f", worst {self.worst + 1}"
        return f"best {self.best + 1}{worst}"

    def after(self, started: float, comment: str, flagged: bool) -> Reply:
        """The reply with comment, flag and the time since `started` of `time.monotonic`."""
        milliseconds = round(1000 * (time.monotonic() - started))
        return self._replace(
            milliseconds=milliseconds, comment=comment or None, flagged=flagged or None
        )


class Front(Protocol):
    """The user interface of an annotator: a screen with keys, or lines."""

    def ask(self, lease: Lease, status_line: str, renew: Callable[[], bool]) -> Reply:
        """Ask one question.

        Args:
            renew: extends the lease, and returns whether it is still held; called at intervals.
                Once the lease is lost, the reply is LATE.
        """

    def notify(self, text: str) -> None:
        """Show a message next to the next question."""

    def wants_more(self, why: str) -> bool:
        """Report that the goal is reached; return whether the annotator wants to continue."""

    def wants_undo(self, why: str) -> bool:
        """Report that no question is left; return whether to undo the last answer."""


class Asking:
    """Questions of a labelling service to one annotator.

    Attributes:
        answered: the annotator's answers that were not undone, without skips and can't-says.
        answered_before: their number when the asking began.
        quit: whether the annotator wants no more questions.
        interrupted: whether Ctrl-C or a signal ended the asking.
    """

    def __init__(self, service: LabellingService, annotator: str) -> None:
        self.service = service
        self.annotator = annotator
        self.answered = self.answered_before = service.session.answered(annotator)
        self.quit = False
        self.interrupted = False
        self._started = time.monotonic()

    @property
    def n_new(self) -> int:
        """The number of answers since the asking began."""
        return self.answered - self.answered_before

    def run(self, front: Front, number: int | None = None) -> str:
        """Ask until the annotator quits, gives `number` answers or none is left; return why."""
        is_announced = self._is_at_goal()  # a goal that was reached before is not announced
        while number is None or self.n_new < number:
            leases = self.service.next(self.annotator, 1)
            if not leases:
                why = self.service.why_nothing_left(self.annotator)
                if self.n_new > 0 and front.wants_undo(why) and self._undo():
                    continue
                return why
            self.quit = self.ask(front, leases[0]) == QUIT
            if self.quit:
                return self.service.remaining.why
            self.service.update()
            if self._is_at_goal() and not is_announced:
                is_announced = True
                if not front.wants_more(self.service.remaining.why):
                    return self.service.remaining.why
        return self.service.remaining.why

    def ask(self, front: Front, lease: Lease, may_undo: Callable[[], bool] = lambda: True) -> str:
        """Ask one question and store the answer; return the outcome."""

        def renew() -> bool:
            collection, seconds = self.service.collection, self.service.lease_seconds
            return bool(collection.lease(self.annotator, (), seconds, renew=[lease.id]))

        reply = front.ask(lease, self._status_line(), renew)
        if reply.outcome == QUIT:
            return QUIT
        if reply.outcome == UNDO:
            is_undone = may_undo() and self._undo()
            front.notify("undone" if is_undone else "there is nothing to undo")
            return UNDO
        outcome = LATE if reply.outcome == LATE else self._store(lease, reply)
        front.notify(NOT_STORED.get(outcome, f"stored: {reply.words}"))
        return outcome

    def _is_at_goal(self) -> bool:
        return self.service.is_fitted and self.service.remaining.stop

    def _store(self, lease: Lease, reply: Reply) -> str:
        """Store an answer; return it, or why it was not stored."""
        try:
            stored = self.service.answer(lease.id, self._judgement(lease, reply))
        except LeaseError:
            return LATE
        if not stored.new:
            return ELSEWHERE
        if reply.outcome in ORDER_ANSWERS:
            self.answered += 1
        return reply.outcome

    def _judgement(self, lease: Lease, reply: Reply) -> Judgement:
        question = lease.question
        facts: dict[str, Any] = {
            "milliseconds": reply.milliseconds,
            "comment": reply.comment,
            "flagged": reply.flagged,
        }
        if reply.best is None:
            return question.answered(self.annotator, cast(Answer, reply.outcome), **facts)
        return question.answered_by_place(self.annotator, reply.best, reply.worst, **facts)

    def _undo(self) -> bool:
        """Undo the annotator's last answer; return whether there was an answer to undo."""
        last = self.service.session.last(self.annotator)
        is_undone = self.service.undo(self.annotator) is not None
        if is_undone and last is not None and last.answer in ORDER_ANSWERS:
            self.answered -= 1
        return is_undone

    def _status_line(self) -> str:
        remaining = self.service.remaining
        parts = [self.service.collection.name, self.annotator, f"{self.answered} answered"]
        if not self.service.is_fitted:
            parts.append("fitting the answers")
        elif remaining.stop:
            parts.append("the goal is reached")
        elif remaining.reached:  # some answers must still confirm it
            parts.append(f"{remaining.range_left or 'a few'} left to check the model")
        elif remaining.range_left:
            parts.append(f"{remaining.range_left} left")
        if self.n_new >= 3:
            minutes = (time.monotonic() - self._started) / 60
            parts.append(f"{self.n_new / minutes:.0f} a minute")
        if self.service.fault:
            parts.append(self.service.fault)
        return "   ".join(parts)


# Asks an annotator at most that many questions; returns why it ended, and further facts.
Asker: TypeAlias = Callable[[Asking, int | None], tuple[str, dict[str, Any]]]
