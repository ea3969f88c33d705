"""Workers of a judge that is no person: questions go to idle ones, answers to the store."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from cli.judges.pairs import Pair
from cli.judges.store_patience import StorePatience
from cli.judges.verdicts import Enough, Fault, Refused, Verdict
from cli.output import say
from store.database.engine import Database

PATIENCE = 3  # maximum failures in a row per worker
LEFT_OUT = "not asked: the judge could not take an item of this pair"

Q = TypeVar("Q")  # a question


class Worker(Protocol):
    """Answers several pairs at once, a verdict for each; any thread may stop it.

    A Fault is of these pairs, a Refused of all that come. `end` stops an idle one.
    """

    def ask(self, pairs: Sequence[Pair]) -> list[Verdict]: ...

    def stop(self) -> None: ...

    def end(self) -> None: ...


@dataclass(kw_only=True)
class WorkerPool(ABC, Generic[Q]):
    """Distribute questions to workers and store the answers; one thread chooses the questions.

    Each answer is stored at once, by the thread that has it, before that asks again. Of several
    workers each has its next question ready. After three failures in a row for each worker the
    judge is given up: that is the `fault`.
    """

    name: str = "--judge"  # in messages
    batch: int = 1  # pairs that a worker is asked about at once
    both_orders: bool = False  # ask each pair a second time with its sides exchanged
    patience: float = 0.0  # seconds for which an answer is kept while the store's server is away
    spent: Callable[[], str] = lambda: ""  # why no more may be asked; empty: it may
    on_progress: Callable[[str], None] = lambda text: None
    prepared: Callable[[Pair], Pair] = lambda pair: pair  # what a worker is asked of a pair
    answered: int = 0  # pairs
    failed: int = 0  # pairs
    fault: str = ""  # the last error, if the judge was given up
    _open: set[Hashable] = field(default_factory=set)  # questions that are to be answered
    _failed_at: set[Hashable] = field(default_factory=set)
    _left_out: set[str] = field(default_factory=set)
    _in_a_row: int = 0
    _said: str = ""
    _alike: int = 0  # faults in a row with the same words
    _began: float = 0.0  # when the workers were asked first, by the clock
    _answered_before: int = 0  # pairs
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._orders = (False, True) if self.both_orders else (False,)  # whether it is turned
        self._patience = StorePatience(self._database, self.patience, self.name)

    @property
    def last_fault(self) -> str:
        """The message of the last failure; empty if there was none."""
        return self._said

    @property
    @abstractmethod
    def _database(self) -> Database: ...

    @abstractmethod
    def _next(self, most: int) -> list[Q]:
        """Questions to ask now, except open ones."""

    @abstractmethod
    def _key(self, question: Q) -> Hashable: ...

    @abstractmethod
    def _items(self, question: Q) -> set[str]:
        """The ids of both items."""

    @abstractmethod
    def _pair(self, question: Q, *, turned: bool) -> Pair:
        """A question as a worker is asked it; `turned`: with its sides exchanged."""

    @abstractmethod
    def _keep_answer(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        """Store an answer and the one with the sides exchanged; called by one thread at a time."""

    @abstractmethod
    def _progress(self) -> tuple[str, str]:
        """State in words how many were answered, and how many are left, which may be empty."""

    def _hold(self) -> None:
        """Called when no answer came for some time."""

    def _keep_up(self) -> None:
        """Called after answers came."""

    @property
    def _some_time(self) -> float:
        """Seconds after which `_hold` is called."""
        return 1.0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is asked."""
        return bool(self.fault or self.spent())

    def ask_all(self, workers: Sequence[Worker]) -> None:
        """Let workers answer until there is no question, no more may be asked, or they fail.

        Raises:
            SortNetError: if a worker cannot be started, or the store stays away.
        """
        self._began, self._answered_before = time.monotonic(), self.answered
        idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            idle.put(worker)
        asked: dict[Future[None], list[Q]] = {}
        most = len(workers) * (1 if len(workers) == 1 else 2)
        pool = ThreadPoolExecutor(len(workers))
        try:
            while True:
                for questions in self._batches(most - len(asked)):
                    pairs = [
                        self.prepared(self._pair(question, turned=turned))
                        for question in questions
                        for turned in self._orders
                    ]
                    with self._lock:
                        self._open |= {self._key(question) for question in questions}
                    asked[pool.submit(self._ask, idle, questions, pairs)] = questions
                if not asked:
                    break
                completed = wait(asked, self._some_time, return_when=FIRST_COMPLETED).done
                for done in completed:
                    self._take(asked.pop(done), done.exception(), PATIENCE * len(workers))
                if not completed:
                    self._hold()
                self.on_progress(self._progress_text())
                self._keep_up()
        except BaseException:
            self.fault = self.fault or "interrupted"  # what waits is not asked
            self._patience.stop()
            for worker in workers:
                worker.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)  # what was answered meanwhile is stored

    def _ask(self, idle: SimpleQueue[Worker], questions: list[Q], pairs: list[Pair]) -> None:
        """Ask an idle worker and store what it answers, in a thread of its own."""
        if self.is_over:
            return
        worker = idle.get()
        try:
            self._keep(questions, worker.ask(pairs))
        except Fault as fault:
            self._keep(questions, fault.answered)
            raise
        finally:
            idle.put(worker)

    def _keep(self, questions: Sequence[Q], verdicts: Sequence[Verdict]) -> None:
        rest_of_verdicts = iter(verdicts)
        with self._lock:
            for question in questions:
                if verdicts_on_pair := list(islice(rest_of_verdicts, len(self._orders))):
                    self._store(question, verdicts_on_pair)

    def _store(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.left_out is not None and verdict.left_out not in self._left_out:
                self._left_out.add(verdict.left_out)
                say(f"{self.name}: item {verdict.left_out!r} is left out: {verdict.comment}")
        self._open.discard(self._key(question))
        self._keep_answer(question, verdicts)

    def _batches(self, most: int) -> list[list[Q]]:
        """Questions for idle workers, except those about an item that the judge cannot take."""
        to_ask: list[Q] = []
        while not to_ask and (questions := self._next(most * self.batch)):
            to_ask = [question for question in questions if not self._leave_out(question)]
        return [to_ask[k : k + self.batch] for k in range(0, len(to_ask), self.batch)]

    def _leave_out(self, question: Q) -> bool:
        out = self._left_out & self._items(question)
        if out:
            with self._lock:
                self._store(question, [Verdict("skip", comment=LEFT_OUT)])
        return bool(out)

    def _take(self, questions: list[Q], error: BaseException | None, patience: int) -> None:
        """Note what came of asking about these; the answers are stored."""
        with self._lock:
            self._open -= {self._key(question) for question in questions}
        if error is None:
            self._in_a_row = 0
        elif isinstance(error, Enough):
            return
        elif isinstance(error, Refused):
            self.fault = self.fault or str(error)
        elif isinstance(error, Fault):
            unanswered = questions[-(-len(error.answered) // len(self._orders)) :]
            self._failed_at |= {self._key(question) for question in unanswered}
            self.failed += len(unanswered)
            self._in_a_row += 1
            self._alike = self._alike + 1 if str(error) == self._said else 1
            self._said = str(error)
            if self._alike <= PATIENCE:  # of many workers not each tells it
                say(f"{self.name}: {error}")
            if self._in_a_row >= patience and not self.fault:
                self.fault = f"failed {self._in_a_row} times in a row; the last: {error}"
        else:
            raise error

    def _progress_text(self) -> str:
        seconds = time.monotonic() - self._began
        answered, left = self._progress()
        rate = (self.answered - self._answered_before) / max(seconds, 1e-3)
        parts = [answered, f"{rate:.1f} a second"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if left:
            parts.append(left)
        return ", ".join(parts)
