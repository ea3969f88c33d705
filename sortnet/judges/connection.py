"""A judge that is being asked: its workers, and what its calls have cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.budget import Budget
from sortnet.judges.verdicts import Verdict


class Worker(Protocol):
    """Answers several questions at once, with a verdict for each; any thread may stop it.

    A Fault says that these questions failed, a Refused that all further questions would fail, too.
    `end` stops an idle worker.
    """

    def ask(self, questions: Sequence[AskedQuestion]) -> list[Verdict]: ...

    def stop(self) -> None: ...

    def end(self) -> None: ...


class Judge(Protocol):
    """Description of a judge that is no person: whom to ask, and how."""

    @property
    def annotator(self) -> str:
        """Name under which the judge's answers are stored."""
        ...

    def connect(
        self, name: str = "", originals: Mapping[str, Any] | None = None
    ) -> JudgeConnection:
        """Prepare to ask.

        Args:
            name: name of the judge in messages; empty: the judge's own name.
            originals: {id: item} as the caller passed the items, for a judge that is a function.
        """
        ...


def no_preparation(question: AskedQuestion, *, is_fresh: bool) -> AskedQuestion:
    """The question itself."""
    del is_fresh
    return question


def takes_any_number(n_items: int) -> str:
    """An empty reason: the judge can be asked about any number of items."""
    del n_items
    return ""


class Preparation(Protocol):
    """Function that adds to a question what its worker needs."""

    def __call__(self, question: AskedQuestion, *, is_fresh: bool) -> AskedQuestion:
        """Prepare a question; `is_fresh`: no answer of a cache may be taken."""
        ...


@dataclass(frozen=True)
class JudgeConnection:
    """A judge that can be asked, until its budget is spent.

    Attributes:
        name: name of the judge in messages.
        make_workers: makes the workers; the caller ends them.
        batch: number of questions that a worker is asked about at once.
        both_orders: whether each question is asked a second time with its sides exchanged.
        patience: seconds for which an answer is kept while the store's server is away.
        in_caller_thread: whether the only worker is asked in the thread of the caller.
        prepare: adds to a question what its worker needs.
        why_not_about: reason why the judge cannot be asked about a number of items; empty: it can.
        budget: limits and cost of the calls; None: they cost nothing.
        open_connections: keeps the connections to a server open.
    """

    name: str
    make_workers: Callable[[], Sequence[Worker]]
    batch: int = 1
    both_orders: bool = False
    patience: float = 600.0
    in_caller_thread: bool = False
    prepare: Preparation = no_preparation
    why_not_about: Callable[[int], str] = takes_any_number
    budget: Budget | None = None
    open_connections: Callable[[], AbstractContextManager[None]] = nullcontext

    def why_no_more(self) -> str:
        """Reason why the judge may not be asked again; empty: it may."""
        return "" if self.budget is None else self.budget.why()

    def progress(self, text: str) -> str:
        """A line of progress with the calls so far."""
        return text if self.budget is None else f"{text}, {self.budget.progress()}"

    def restart_clock(self) -> None:
        """Measure the rate of calls from now on."""
        if self.budget is not None:
            self.budget.restart_clock()

    def spent_text(self) -> str:
        """Calls, tokens and cost in words; empty where they cost nothing."""
        return "" if self.budget is None else self.budget.text()

    def spent_facts(self) -> dict[str, Any]:
        """Calls, tokens and cost as JSON; empty where they cost nothing."""
        budget = self.budget
        if budget is None:
            return {}
        return {
            "calls": budget.calls,
            "tokens_in": budget.tokens_in,
            "tokens_out": budget.tokens_out,
            "cost": budget.cost,
            "currency": budget.currency,
            "cached": budget.cached,
        }
