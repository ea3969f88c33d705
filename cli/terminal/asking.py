"""Ask an annotator in a terminal; each answer is stored before the next question."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from cli.printing.labelling import short_status
from cli.terminal.keys import END
from sortnet.errors import LeaseError, SortNetError
from sortnet.messages import ANSWERED
from sortnet.preference import Judgement
from sortnet.preference.base import ORDER_ANSWERS, Word

if TYPE_CHECKING:
    from store import Lease
    from store.service.labelling import LabellingService

# Outcomes of a question that are not answers.
UNDO = "undo"
QUIT = "quit"
LATE = "late"  # the lease was lost before the answer
ELSEWHERE = "elsewhere"  # the question was answered in another place
# Keys for a question about two items, {key: outcome}; a typed line may also be such a key.
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
# Keys for a question about more than two items, {key: outcome}; the items' numbers are keys, too.
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
_LEAST_ANSWERS_OF_RATE = 3  # the rate of answers is shown after this number of answers
TOO_LATE = "that pair was withdrawn in the meantime: the answer does not count"
NOT_STORED = {LATE: TOO_LATE, ELSEWHERE: ANSWERED}


class Reply(NamedTuple):
    """Reply of an annotator to a question: an answer, or another outcome, which is not stored.

    Attributes:
        outcome: an answer, UNDO, QUIT or LATE.
        milliseconds: time for the reply.
        comment: comment on the answer, if there is one.
        flagged: True if the annotator flags the question for the administrator, otherwise None.
        best: place of the best item, from 0, if the outcome is `best`.
        worst: place of the worst item, from 0, if the worst item was asked for.
    """

    outcome: str
    milliseconds: int = 0
    comment: str | None = None
    flagged: bool | None = None
    best: int | None = None
    worst: int | None = None

    @property
    def words(self) -> str:
        """Describe the answer; the chosen items are named by their numbers, from 1.

        >>> Reply("best", best=1, worst=3).words
        'best 2, worst 4'
        """
        if self.best is None:
            return self.outcome
        worst = "" if self.worst is None else f", worst {self.worst + 1}"
        return f"best {self.best + 1}{worst}"

    def after(self, started: float, comment: str, flagged: bool) -> Reply:
        """Return the reply with comment, flag and time.

        Args:
            started: value of `time.monotonic()` when the question was shown.
            comment: comment of the annotator; empty without a comment.
            flagged: whether the annotator flags the question.
        """
        milliseconds = round(1000 * (time.monotonic() - started))
        return self._replace(
            milliseconds=milliseconds, comment=comment or None, flagged=flagged or None
        )


class Front(Protocol):
    """The user interface of an annotator: a screen with keys, or lines."""

    def ask(self, lease: Lease, status_line: str, renew: Callable[[], bool]) -> Reply:
        """Ask one question and return the reply.

        Args:
            lease: lease of the question, which reserves it for the annotator.
            status_line: status of the labelling.
            renew: function that extends the lease, and returns whether the lease is still held. It
                is called at intervals. If the lease is lost, the reply is LATE.
        """

    def notify(self, text: str) -> None:
        """Show a message together with the next question."""

    def wants_more(self, why: str) -> bool:
        """Say that no more answers are needed, with the reason; return whether to ask on."""

    def wants_undo(self, why: str) -> bool:
        """Say that no question is left, with the reason; return whether to undo the last answer."""


class Asking:
    """Asks one annotator the questions of a labelling service.

    Attributes:
        service: chooses the questions and stores the answers.
        annotator: name of the annotator.
        answered: number of the annotator's answers, without undone answers, skips and can't-says.
        answered_before: value of `answered` when the asking began.
        quit: whether the annotator wants no more questions.
        interrupted: whether Ctrl-C or a signal ended the asking.
    """

    def __init__(self, service: LabellingService, annotator: str) -> None:
        """Count the answers that the annotator has given before."""
        self.service = service
        self.annotator = annotator
        self.answered_before = service.session.answered(annotator)
        self.answered = self.answered_before
        self.quit = False
        self.interrupted = False
        self._started = time.monotonic()

    @property
    def n_new(self) -> int:
        """Number of answers since the asking began."""
        return self.answered - self.answered_before

    def run(self, front: Front, number: int | None = None) -> str:
        """Ask until the annotator quits, gives `number` answers or no question is left.

        When the goal is reached, the annotator is asked once whether to continue. When no question
        is left, the annotator may undo the last answer, and is then asked again.

        Returns:
            The reason for the end, as a sentence.
        """
        from store.service.sentences import why

        is_goal_announced = self._is_at_goal()  # a goal that was reached before is not announced
        while number is None or self.n_new < number:
            leases = self.service.next(self.annotator, 1)
            if not leases:
                why_none = self.service.why_nothing_left(self.annotator)
                if not self._undo_at_end(front, why_none):
                    return why_none
                continue
            self.quit = self.ask(front, leases[0]) == QUIT
            if self.quit:
                break
            self.service.keep_fitted(wait=True)
            if self._is_at_goal() and not is_goal_announced:
                is_goal_announced = True
                if not front.wants_more(why(self.service.remaining)):
                    break
        return why(self.service.remaining)

    def _undo_at_end(self, front: Front, why: str) -> bool:
        """Offer to undo the last answer when no question is left; return whether it is undone.

        Args:
            front: user interface of the annotator.
            why: the reason why no question is left.
        """
        wants_undo = self.n_new > 0 and front.wants_undo(why)
        return wants_undo and self._undo()

    def ask(self, front: Front, lease: Lease, may_undo: Callable[[], bool] = lambda: True) -> str:
        """Ask one question and store the answer.

        Args:
            front: user interface of the annotator.
            lease: lease of the question.
            may_undo: function that returns whether the last answer may be undone.

        Returns:
            The answer if it was stored, otherwise UNDO, QUIT, LATE or ELSEWHERE.
        """

        def renew() -> bool:
            seconds = self.service.lease_seconds
            renewed = self.service.collection.lease(self.annotator, (), seconds, renew=[lease.id])
            return bool(renewed)

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
        """Whether the goal is reached, according to a fit of all answers."""
        return self.service.is_fitted and self.service.remaining.stop

    def _store(self, lease: Lease, reply: Reply) -> str:
        """Store the answer of a reply; return the outcome: the answer, LATE or ELSEWHERE."""
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
        """Make the judgement that stores the answer of a reply."""
        question = lease.question
        facts: dict[str, Any] = {
            "milliseconds": reply.milliseconds,
            "comment": reply.comment,
            "flagged": reply.flagged,
        }
        if reply.best is None:
            return question.answered(self.annotator, cast(Word, reply.outcome), **facts)
        return question.answered_by_place(self.annotator, reply.best, reply.worst, **facts)

    def _undo(self) -> bool:
        """Undo the annotator's last answer; return whether there was an answer to undo."""
        last = self.service.session.last(self.annotator)
        is_undone = self.service.undo(self.annotator) is not None
        if is_undone and last is not None and last.answer in ORDER_ANSWERS:
            self.answered -= 1
        return is_undone

    def _status_line(self) -> str:
        """Describe the labelling: answers so far, questions left, and answers a minute."""
        from store.service.sentences import answers_left

        remaining = self.service.remaining
        parts = [self.service.collection.name, self.annotator, f"{self.answered} answered"]
        if not self.service.is_fitted:
            parts.append("fitting the answers")
        elif remaining.stop:
            parts.append("the goal is reached")
        elif answers_left(remaining):
            parts.append(answers_left(remaining))
        if self.n_new >= _LEAST_ANSWERS_OF_RATE:
            minutes = (time.monotonic() - self._started) / 60
            parts.append(f"{self.n_new / minutes:.0f} a minute")
        if self.service.fault:
            parts.append(self.service.fault)
        return "   ".join(parts)


class Asker(Protocol):
    """Asks one annotator or several about the criteria of a collection."""

    @property
    def names(self) -> list[str]:
        """The names of the annotators."""

    def ask(self, service: LabellingService, number: int | None) -> list[dict[str, Any]]:
        """Ask about a criterion, and return facts about the labelling by each annotator.

        Args:
            service: the service of the criterion.
            number: number of answers of all annotators together; None: there is no such limit.
        """


def refuse_closed(service: LabellingService, annotator: str) -> None:
    """Raise SortNetError with the reason if the study asks the annotator nothing."""
    why_closed = service.why_closed(annotator)
    if why_closed:
        raise SortNetError(f"{service.collection.name}: {why_closed}")


def labelled_facts(service: LabellingService, annotator: str, n_answered: int) -> dict[str, Any]:
    """Collect facts about the labelling by an annotator: answers, and the distance to the goal."""
    remaining = service.remaining
    return {
        "collection": service.collection.name,
        "annotator": annotator,
        "answered": n_answered,
        "in_all": service.session.answered(annotator),
        "questions_left": remaining.questions,
        "fewest_left": remaining.fewest,
        "most_left": remaining.most,
        "enough": remaining.stop,
        "status": short_status(service),
    }
