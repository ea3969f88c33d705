"""A judge that is being asked: its workers, and what its calls have cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from sortnet.judges.asked_pairs import Pair
from sortnet.judges.budget import Budget
from sortnet.judges.verdicts import Verdict


class Worker(Protocol):
    """Answers several pairs at once, a verdict for each; any thread may stop it.

    A Fault is of these pairs, a Refused of all that come. `end` stops an idle one.
    """

    def ask(self, pairs: Sequence[Pair]) -> list[Verdict]: ...

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
            name: of the judge in messages; empty: the judge's own.
            originals: {id: item} as the caller has them, for a judge that takes these.
        """
        ...


def no_preparation(pair: Pair, *, is_fresh: bool) -> Pair:
    """A pair as it is."""
    del is_fresh
    return pair


def takes_any_number(n_items: int) -> str:
    """No reason why a judge cannot be asked about a number of items."""
    del n_items
    return ""


class Preparation(Protocol):
    """Makes of a pair what a worker is asked."""

    def __call__(self, pair: Pair, *, is_fresh: bool) -> Pair:
        """Prepare a pair; `is_fresh`: it is to be asked whatever was answered elsewhere."""
        ...


@dataclass(frozen=True)
class JudgeConnection:
    """A judge that can be asked, until its budget is spent.

    Attributes:
        name: of the judge, for messages.
        make_workers: makes its workers; whoever asks them ends them.
        batch: pairs that a worker is asked about at once.
        both_orders: whether each pair is asked a second time with its sides exchanged.
        patience: seconds for which an answer is kept while the store's server is away.
        in_caller_thread: whether the only worker is asked in the thread of whoever asks.
        prepare: makes of a pair what a worker is asked.
        why_not_about: says why it cannot be asked about a number of items; empty: it can.
        budget: of the calls; None: they cost nothing.
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
        """Why no more may be asked; empty: it may."""
        return "" if self.budget is None else self.budget.why()

    def progress(self, text: str) -> str:
        """A line of progress with the calls so far."""
        return text if self.budget is None else f"{text}, {self.budget.progress()}"

    def restart_clock(self) -> None:
        """Take the rate of calls from now on."""
        if self.budget is not None:
            self.budget.restart_clock()

    def spent_text(self) -> str:
        """Calls, tokens and cost in words; empty where they cost nothing."""
        return "" if self.budget is None else self.budget.text()

    def spent_facts(self) -> dict[str, Any]:
        """Calls, tokens and cost as JSON; empty where they cost nothing."""
        if self.budget is None:
            return {}
        names = ("calls", "tokens_in", "tokens_out", "cost", "currency", "cached")
        return {name: getattr(self.budget, name) for name in names}
