"""Workers of a judge that is no person: questions go to idle workers, answers to a store."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from sortnet.judges.asked_pairs import Pair
from sortnet.judges.connection import JudgeConnection, Worker
from sortnet.judges.verdicts import Enough, Fault, Refused, Verdict
from sortnet.messages import note

PATIENCE = 3  # maximum failures in a row per worker
LEFT_OUT = "not asked: the judge could not take an item of this question"

Q = TypeVar("Q")  # a question
T = TypeVar("T")


class CallerThread(Executor):
    """An executor that runs each task at once, in the thread that submits it."""

    def submit(self, task: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Run the task; an interrupt is raised here, any other exception when it is asked for."""
        future: Future[T] = Future()
        try:
            future.set_result(task(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass(kw_only=True)
class WorkerPool(ABC, Generic[Q]):
    """Distribute questions to a judge's workers and store the answers.

    One thread chooses the questions. Each answer is stored at once, by the thread that has it,
    before that thread asks again. Of several workers each has its next question ready. After three
    failures in a row for each worker the judge is given up: that is the `fault`.

    Attributes:
        judge: whom to ask.
        notify: called with each message about a failure.
        on_progress: called with the number of answers, the rate and what is left, in words.
        answered, failed: numbers of pairs.
        fault: the last error, if the judge was given up.
        cause: the exception behind the last failure, of a judge that is a function.
    """

    judge: JudgeConnection
    notify: Callable[[str], None] = note
    on_progress: Callable[[str], None] = lambda text: None
    answered: int = 0
    failed: int = 0
    fault: str = ""
    cause: BaseException | None = None
    _open: set[Hashable] = field(default_factory=set)  # questions that are to be answered
    _failed_at: set[Hashable] = field(default_factory=set)
    _left_out: set[str] = field(default_factory=set)
    _failures_in_a_row: int = 0
    _last_fault: str = ""
    _same_faults: int = 0  # faults in a row with the same words
    _began: float = 0.0  # when the workers were asked first, by the clock
    _answered_before: int = 0  # pairs
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._orders = (False, True) if self.judge.both_orders else (False,)  # sides exchanged?

    @property
    def last_fault(self) -> str:
        """The message of the last failure; empty if there was none."""
        return self._last_fault

    @abstractmethod
    def _next(self, most: int) -> list[Q]:
        """Questions to ask now, except open ones."""

    @abstractmethod
    def _key(self, question: Q) -> Hashable: ...

    @abstractmethod
    def _items(self, question: Q) -> set[str]:
        """The ids of its items."""

    @abstractmethod
    def _pair(self, question: Q, *, turned: bool) -> Pair:
        """A question as a worker is asked it; `turned`: in the reverse order of places."""

    def _is_fresh(self, question: Q) -> bool:
        """Whether a question checks a judge, so that no answer of a cache will do."""
        return False

    @abstractmethod
    def _keep_answer(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        """Store an answer and that in the reverse order; called by one thread at a time."""

    @abstractmethod
    def _progress(self) -> tuple[str, str]:
        """State in words how many were answered, and how many are left, which may be empty."""

    def _most_open(self, n_workers: int) -> int:
        """Largest number of questions that are chosen and not answered yet."""
        return n_workers * (1 if n_workers == 1 else 2)

    def _hold(self) -> None:
        """Called when no answer came for some time."""

    def _stop_waiting(self) -> None:
        """Called at an interrupt: whatever waits for a store waits no longer."""

    def _keep_up(self) -> None:
        """Called after answers came."""

    @property
    def _some_time(self) -> float:
        """Seconds after which `_hold` is called."""
        return 1.0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is asked."""
        return bool(self.fault or self.judge.why_no_more())

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
        most = self._most_open(len(workers))
        few = (len(workers) + most) // 2  # open questions at which more are chosen, some together
        in_caller_thread = self.judge.in_caller_thread
        pool = CallerThread() if in_caller_thread else ThreadPoolExecutor(len(workers))
        try:
            while True:
                n_wanted = most - len(asked) if len(asked) <= few else 0
                for questions in self._batches(n_wanted):
                    pairs = [
                        self.judge.prepare(
                            self._pair(question, turned=turned), is_fresh=self._is_fresh(question)
                        )
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
            self._stop_waiting()
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
                self._notify(f"item {verdict.left_out!r} is left out: {verdict.comment}")
        self._open.discard(self._key(question))
        self._keep_answer(question, verdicts)

    def _batches(self, most: int) -> list[list[Q]]:
        """Questions for idle workers, except those about an item that the judge cannot take."""
        to_ask: list[Q] = []
        batch = self.judge.batch
        while not to_ask and (questions := self._next(most * batch)):
            to_ask = [question for question in questions if not self._leave_out(question)]
        return [to_ask[k : k + batch] for k in range(0, len(to_ask), batch)]

    def _leave_out(self, question: Q) -> bool:
        out = self._left_out & self._items(question)
        if out:
            with self._lock:
                self._store(question, [Verdict("skip", comment=LEFT_OUT)])
        return bool(out)

    def _take(self, questions: list[Q], error: BaseException | None, patience: int) -> None:
        """Note the outcome of asking about some questions; the answers are stored."""
        with self._lock:
            self._open -= {self._key(question) for question in questions}
        if error is None:
            self._failures_in_a_row = 0
        elif isinstance(error, Enough):
            return
        elif isinstance(error, Refused):
            self.cause = error.__cause__  # not that of an earlier failure
            self.fault = self.fault or str(error)
        elif isinstance(error, Fault):
            self._note_failure(questions, error, patience)
        else:
            raise error

    def _note_failure(self, questions: list[Q], fault: Fault, patience: int) -> None:
        unanswered = questions[-(-len(fault.answered) // len(self._orders)) :]
        self._failed_at |= {self._key(question) for question in unanswered}
        self.failed += len(unanswered)
        self.cause = fault.__cause__
        self._failures_in_a_row += 1
        self._same_faults = self._same_faults + 1 if str(fault) == self._last_fault else 1
        self._last_fault = str(fault)
        if self._same_faults <= PATIENCE:  # of many workers not each tells it
            self._notify(str(fault))
        if self._failures_in_a_row >= patience and not self.fault:
            self.fault = f"failed {self._failures_in_a_row} times in a row; the last: {fault}"

    def _notify(self, text: str) -> None:
        self.notify(f"{self.judge.name}: {text}")

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
