"""Ask an annotator in a terminal; each answer is stored before the next question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.terminal.front import MORE, QUIT, UNDO, Front
from sortnet.errors import LeaseError, SortNetError
from sortnet.messages import ANSWERED
from sortnet.preference import Judgement
from sortnet.preference.base import ORDER_ANSWERS

if TYPE_CHECKING:
    from store import Lease
    from store.service.labelling import LabellingService

# Outcomes of a question whose answer is not stored.
LATE = "late"  # the lease was lost before the answer
ELSEWHERE = "elsewhere"  # the question was answered in another place
TOO_LATE = "that pair was withdrawn in the meantime: the answer does not count"
NOT_STORED = {LATE: TOO_LATE, ELSEWHERE: ANSWERED}


class Asking:
    """Asks one annotator the questions of a labelling service.

    Attributes:
        service: chooses the questions and stores the answers.
        annotator: name of the annotator.
        n_new: number of answers since the asking began, without undone answers, skips and
            can't-says.
        quit: whether the annotator wants no more questions.
    """

    def __init__(self, service: LabellingService, annotator: str) -> None:
        """Begin without new answers."""
        self.service = service
        self.annotator = annotator
        self.n_new = 0
        self.quit = False

    def run(self, front: Front, number: int | None) -> str:
        """Ask until the annotator quits, gives `number` answers or no question is left.

        When the goal is reached, the annotator is asked once whether to continue. When no question
        is left, the annotator may undo the last answer, and is then asked again.

        Returns:
            The reason for the end, as a sentence.
        """
        from store.service.sentences import why

        is_goal_announced = self._is_at_goal()  # a goal that was reached before is not announced
        while number is None or self.n_new < number:
            leases = self.service.next(self.annotator)
            if not leases:
                why_none = self.service.why_nothing_left(self.annotator)
                offer = f"{why_none}; undo (z) withdraws the last answer, quit (q) ends"
                if not self.n_new or front.confirm(offer, UNDO) == QUIT or not self._undo():
                    return why_none
                continue
            self.quit = self.ask(front, leases[0]) == QUIT
            if self.quit:
                break
            self.service.keep_fitted(wait=True)
            if self._is_at_goal() and not is_goal_announced:
                is_goal_announced = True
                choices = "more (m) continues, undo (z) withdraws the last answer, quit (q) ends"
                offer = f"enough: {why(self.service.remaining)}; {choices}"
                word = front.confirm(offer, MORE, UNDO)
                if word == QUIT:
                    break
                if word == UNDO:
                    is_goal_announced = False
                    self._undo()
        return why(self.service.remaining)

    def ask(self, front: Front, lease: Lease) -> str:
        """Ask one question and store the answer.

        Args:
            front: user interface of the annotator.
            lease: lease of the question, which reserves it for the annotator.

        Returns:
            The answer if it was stored, otherwise UNDO, QUIT, LATE or ELSEWHERE.
        """
        judgement = front.ask(lease.question, self.annotator, self._status_line())
        if isinstance(judgement, Judgement):
            outcome = self._store(lease, judgement)
            front.notify(NOT_STORED.get(outcome, f"stored: {_in_words(judgement)}"))
            return outcome
        if judgement == UNDO:
            is_undone = self._undo()
            front.notify("undone" if is_undone else "there is nothing to undo")
        return judgement

    def _is_at_goal(self) -> bool:
        """Whether the goal is reached, according to a fit of all answers."""
        return self.service.is_fitted and self.service.remaining.stop

    def _store(self, lease: Lease, judgement: Judgement) -> str:
        """Store an answer; return the outcome: the answer, LATE or ELSEWHERE."""
        try:
            stored = self.service.answer(lease.id, judgement)
        except LeaseError:
            return LATE
        if not stored.new:
            return ELSEWHERE
        if judgement.answer in ORDER_ANSWERS:
            self.n_new += 1
        return judgement.word

    def _undo(self) -> bool:
        """Undo the annotator's last answer; return whether there was an answer to undo."""
        last = self.service.session.last(self.annotator)
        is_undone = self.service.undo(self.annotator) is not None
        if is_undone and last is not None and last.answer in ORDER_ANSWERS:
            self.n_new -= 1
        return is_undone

    def _status_line(self) -> str:
        """Describe the labelling: answers so far and questions left."""
        from store.service.sentences import answers_left

        remaining = self.service.remaining
        n_answered = self.service.session.answered(self.annotator)
        parts = [self.service.collection.name, self.annotator, f"{n_answered} answered"]
        if not self.service.is_fitted:
            parts.append("fitting the answers")
        elif remaining.stop:
            parts.append("the goal is reached")
        elif answers_left(remaining):
            parts.append(answers_left(remaining))
        if self.service.fault:
            parts.append(self.service.fault)
        return "   ".join(parts)


def _in_words(judgement: Judgement) -> str:
    """Describe an answer; the chosen ones of more than two items are named by their numbers."""
    if judgement.best is None or len(judgement.items) == 2:
        return judgement.word
    best = f"best {judgement.items.index(judgement.best) + 1}"
    if judgement.worst is None:
        return best
    return f"{best}, worst {judgement.items.index(judgement.worst) + 1}"


def refuse_closed(service: LabellingService, annotator: str) -> None:
    """Raise SortNetError with the reason if the study asks the annotator nothing."""
    why_closed = service.why_closed(annotator)
    if why_closed:
        raise SortNetError(f"{service.collection.name}: {why_closed}")


def labelled_facts(service: LabellingService, annotator: str, n_answered: int) -> dict[str, Any]:
    """Collect facts about the labelling by an annotator: answers, and the distance to the goal."""
    from store.service.sentences import why

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
        "status": why(remaining),
    }
