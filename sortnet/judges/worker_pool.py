"""Workers of a judge that is no person: questions go to idle workers, answers to a store."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from sortnet.judges.asked_question import AskedQuestion
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
        """Run the task; an interrupt is raised here, another exception by the future's result."""
        future: Future[T] = Future()
        try:
            future.set_result(task(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass(kw_only=True)
class WorkerPool(ABC, Generic[Q]):
    """Distribute questions to a judge's workers and store the answers.

    One thread chooses the questions. Each answer is stored at once, by the thread that received it,
    before this thread asks again. Each of several workers has its next question ready. After three
    failures in a row for each worker nothing more is asked, and `fault` has the last failure.

    Attributes:
        judge: the judge that is asked.
        notify: called with each message about a failure.
        on_progress: called with the number of answers, their rate and the number left, in words.
        answered, failed: numbers of questions.
        fault: the failure after which nothing more is asked; empty: there is none.
        cause: the exception behind the last failure, if the judge is a function.
    """

    judge: JudgeConnection
    notify: Callable[[str], None] = note
    on_progress: Callable[[str], None] = lambda text: None
    answered: int = 0
    failed: int = 0
    fault: str = ""
    cause: BaseException | None = None
    _open: set[Hashable] = field(default_factory=set)  # questions that wait for an answer
    _failed_at: set[Hashable] = field(default_factory=set)
    _left_out: set[str] = field(default_factory=set)
    _failures_in_a_row: int = 0
    _last_fault: str = ""
    _same_faults: int = 0  # faults in a row with the same words
    _began: float = 0.0  # time when the workers were asked first
    _answered_before: int = 0  # questions that were answered before
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        # Whether the sides are exchanged, for each time that a question is asked.
        self._orders = (False, True) if self.judge.both_orders else (False,)

    @property
    def last_fault(self) -> str:
        """The message of the last failure; empty if there was none."""
        return self._last_fault

    @abstractmethod
    def _next(self, most: int) -> list[Q]:
        """Questions to ask now, at most `most`, without open questions."""

    @abstractmethod
    def _key(self, question: Q) -> Hashable:
        """The key by which a question is recognised."""

    @abstractmethod
    def _items(self, question: Q) -> set[str]:
        """The ids of a question's items."""

    @abstractmethod
    def _asked_question(self, question: Q, *, turned: bool) -> AskedQuestion:
        """A question as a worker reads it; `turned` reverses the order of the items."""

    def _is_fresh(self, question: Q) -> bool:
        """Whether a question checks the judge, so that no answer of a cache may be taken."""
        return False

    @abstractmethod
    def _keep_answer(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        """Store the answers in both orders or in one; called by one thread at a time."""

    @abstractmethod
    def _progress(self) -> tuple[str, str]:
        """Number of answers, and number of questions left, in words; the second may be empty."""

    def _most_open(self, n_workers: int) -> int:
        """Largest number of questions that are chosen and not answered yet."""
        return 1 if n_workers == 1 else 2 * n_workers

    def _hold(self) -> None:
        """Hook that is called when no answer came for some time."""

    def _stop_waiting(self) -> None:
        """Hook that is called at an interrupt, to end all waiting for a store."""

    def _keep_up(self) -> None:
        """Hook that is called after answers came."""

    @property
    def _some_time(self) -> float:
        """Seconds after which `_hold` is called."""
        return 1.0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is asked."""
        return bool(self.fault or self.judge.why_no_more())

    def ask_all(self, workers: Sequence[Worker]) -> None:
        """Let the workers answer until no question is left, a limit is reached, or they fail.

        Raises:
            SortNetError: if a worker cannot be started, or the store stays away.
        """
        self._began = time.monotonic()
        self._answered_before = self.answered
        idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            idle.put(worker)
        questions_of_call: dict[Future[None], list[Q]] = {}
        most_open = self._most_open(len(workers))
        # More questions are chosen when so few are open: several chosen together cost less.
        few_open = (len(workers) + most_open) // 2
        in_caller_thread = self.judge.in_caller_thread
        pool = CallerThread() if in_caller_thread else ThreadPoolExecutor(len(workers))
        try:
            while True:
                n_open = len(questions_of_call)
                n_wanted = most_open - n_open if n_open <= few_open else 0
                for questions in self._batches(n_wanted):
                    prepared = self._prepared(questions)
                    with self._lock:
                        self._open |= {self._key(question) for question in questions}
                    call = pool.submit(self._ask, idle, questions, prepared)
                    questions_of_call[call] = questions
                if not questions_of_call:
                    break
                completed = wait(
                    questions_of_call, self._some_time, return_when=FIRST_COMPLETED
                ).done
                for call in completed:
                    questions = questions_of_call.pop(call)
                    self._take(questions, call.exception(), PATIENCE * len(workers))
                if not completed:
                    self._hold()
                self.on_progress(self._progress_text())
                self._keep_up()
        except BaseException:
            self.fault = self.fault or "interrupted"  # so that questions in the queue are not asked
            self._stop_waiting()
            for worker in workers:
                worker.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)  # after the calls under way have stored answers

    def _prepared(self, questions: Sequence[Q]) -> list[AskedQuestion]:
        """The questions as a worker is asked them, each in one order or in both."""
        return [
            self.judge.prepare(
                self._asked_question(question, turned=turned), is_fresh=self._is_fresh(question)
            )
            for question in questions
            for turned in self._orders
        ]

    def _ask(
        self, idle: SimpleQueue[Worker], questions: list[Q], prepared: list[AskedQuestion]
    ) -> None:
        """Ask an idle worker and store its answers, in a thread of its own."""
        if self.is_over:
            return
        worker = idle.get()
        try:
            self._store_all(questions, worker.ask(prepared))
        except Fault as fault:
            self._store_all(questions, fault.answered)
            raise
        finally:
            idle.put(worker)

    def _store_all(self, questions: Sequence[Q], verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts on the first questions; a failure may leave questions without any."""
        rest_of_verdicts = iter(verdicts)
        with self._lock:
            for question in questions:
                verdicts_on_question = list(islice(rest_of_verdicts, len(self._orders)))
                if verdicts_on_question:
                    self._store(question, verdicts_on_question)

    def _store(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts on a question, and note the items that the judge cannot take."""
        for verdict in verdicts:
            if verdict.left_out is not None and verdict.left_out not in self._left_out:
                self._left_out.add(verdict.left_out)
                self._notify(f"item {verdict.left_out!r} is left out: {verdict.comment}")
        self._open.discard(self._key(question))
        self._keep_answer(question, verdicts)

    def _batches(self, most: int) -> list[list[Q]]:
        """Questions for idle workers, without those about an item that the judge cannot take."""
        size = self.judge.batch
        while questions := self._next(most * size):
            to_ask = [question for question in questions if not self._leave_out(question)]
            if to_ask:
                return [to_ask[start : start + size] for start in range(0, len(to_ask), size)]
        return []

    def _leave_out(self, question: Q) -> bool:
        """Skip a question about an item that the judge cannot take; returns whether it is one."""
        if self._left_out.isdisjoint(self._items(question)):
            return False
        with self._lock:
            self._store(question, [Verdict("skip", comment=LEFT_OUT)])
        return True

    def _take(self, questions: list[Q], error: BaseException | None, patience: int) -> None:
        """Note the outcome of asking about some questions, whose answers are stored."""
        with self._lock:
            self._open -= {self._key(question) for question in questions}
        if error is None:
            self._failures_in_a_row = 0
        elif isinstance(error, Enough):
            return
        elif isinstance(error, Refused):
            self.cause = error.__cause__  # in place of the cause of an earlier failure
            self.fault = self.fault or str(error)
        elif isinstance(error, Fault):
            self._note_failure(questions, error, patience)
        else:
            raise error

    def _note_failure(self, questions: list[Q], fault: Fault, patience: int) -> None:
        """Count a failure and tell it; after `patience` failures in a row nothing more is asked."""
        n_answered = math.ceil(len(fault.answered) / len(self._orders))
        unanswered = questions[n_answered:]
        self._failed_at |= {self._key(question) for question in unanswered}
        self.failed += len(unanswered)
        self.cause = fault.__cause__
        self._failures_in_a_row += 1
        self._same_faults = self._same_faults + 1 if str(fault) == self._last_fault else 1
        self._last_fault = str(fault)
        if self._same_faults <= PATIENCE:  # so that many workers do not repeat the same message
            self._notify(str(fault))
        if self._failures_in_a_row >= patience and not self.fault:
            self.fault = f"failed {self._failures_in_a_row} times in a row; the last: {fault}"

    def _notify(self, text: str) -> None:
        self.notify(f"{self.judge.name}: {text}")

    def _progress_text(self) -> str:
        seconds = time.monotonic() - self._began
        answered_text, left_text = self._progress()
        rate = (self.answered - self._answered_before) / max(seconds, 1e-3)
        parts = [answered_text, f"{rate:.1f} a second"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if left_text:
            parts.append(left_text)
        return ", ".join(parts)
