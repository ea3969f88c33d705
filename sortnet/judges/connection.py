"""The connection to a judge: the workers that ask it, and the budget of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from sortnet.files import Record
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.budget import Budget
from sortnet.judges.unanswered import AnswerRecord
from sortnet.judges.verdicts import Verdict


class Worker(Protocol):
    """Part of a judge that answers questions; a judge may have several workers."""

    def ask(self, questions: Sequence[AskedQuestion]) -> Iterator[Verdict]:
        """Answer questions, and yield a verdict on each.

        Raises:
            Fault: if a question fails.
            Refused: if all further questions would fail, too.
        """
        ...

    def stop(self) -> None:
        """Interrupt `ask`; any thread may call this."""
        ...

    def end(self) -> None:
        """End the worker when it is idle."""
        ...


@dataclass(frozen=True)
class JudgeConnection:
    """Connection to a judge, which can be asked until its budget is spent.

    Attributes:
        name: name of the judge in messages.
        make_workers: function that makes the workers; the caller ends the workers.
        batch: number of questions that a worker is asked at once.
        both_orders: whether each question is asked a second time, with its items in the reverse
            order of places.
        in_caller_thread: whether the only worker is asked in the thread of the caller.
        prepare: function that adds the facts to a question that a worker needs.
        why_not_about: function that returns the reason why the judge cannot be asked about a number
            of items, or an empty text if it can.
        budget: limits, number and cost of the calls.
        counts_calls: whether the workers count their calls in the budget themselves, because a
            question may take several; otherwise each question is a call.
        open_connections: function that returns a context in which the connections to a server stay
            open.
        record: which questions the judge has answered, and which got no answer.
    """

    name: str
    make_workers: Callable[[], Sequence[Worker]]
    batch: int = 1
    both_orders: bool = False
    in_caller_thread: bool = False
    prepare: Callable[[AskedQuestion], AskedQuestion] = lambda question: question
    why_not_about: Callable[[int], str] = lambda n_items: ""
    budget: Budget = field(default_factory=Budget)
    counts_calls: bool = False
    open_connections: Callable[[], AbstractContextManager[None]] = nullcontext
    record: AnswerRecord = field(default_factory=AnswerRecord)

    def spent_text(self) -> str:
        """Describe the calls, tokens and cost so far; empty if each question is a call."""
        return self.budget.text() if self.counts_calls else ""

    def spent_facts(self) -> Record:
        """Return the calls, tokens and cost so far for JSON; empty if each question is a call."""
        if not self.counts_calls:
            return {}
        budget = self.budget
        return {
            "calls": budget.calls,
            "tokens_in": budget.tokens_in,
            "tokens_out": budget.tokens_out,
            "cost": budget.cost,
        }
