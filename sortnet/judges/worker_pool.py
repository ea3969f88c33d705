"""Distribute questions among the workers of a judge that is not a person, and store the answers."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.connection import JudgeConnection, Worker
from sortnet.judges.faults import Reason
from sortnet.judges.unanswered import Unanswered
from sortnet.judges.verdicts import Enough, Fault, Refused, Verdict
from sortnet.messages import cut, note, printable
from sortnet.preference.base import ORDER_ANSWERS

PATIENCE = 3  # failures in a row for each worker, after which nothing more is asked
BY_THE_JUDGE = "by the judge"  # stands for the reason of a skip that the judge gives as its answer
_LONGEST_COMMENT = 200  # characters of a judge's words in a message

Q = TypeVar("Q")  # type of a question
T = TypeVar("T")  # type of the result of a task


class CallerThread(Executor):
    """An executor that runs each task at once, in the thread that submits it."""

    def submit(self, task: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Run the task and return a future that is done.

        An exception of the task is raised by the result of the future, but an interrupt such as
        Ctrl-C is raised here.
        """
        future: Future[T] = Future()
        try:
            future.set_result(task(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass(kw_only=True)
class WorkerPool(ABC, Generic[Q]):
    """Distribute questions to a judge's workers and store the answers.

    One thread chooses the questions. The thread that receives an answer stores the answer at once,
    before it asks the next question. If there are several workers, the next question of each worker
    is chosen in advance. After three failures in a row for each worker nothing more is asked, and
    `fault` has the last failure.

    If a question gets no answer through its own fault, its skip is kept back until the judge
    answers another question, which shows that the judge can be asked. After nine of ten questions
    without an answer nothing more is asked, and the skips that are kept back are dropped.

    Attributes:
        judge: the judge that is asked.
        notify: called with each message about a failure.
        on_progress: called with a text that tells the number of answers, the rate of answers and
            the number of questions left.
        answered: number of questions that were answered, with skips.
        skipped: {reason: number of skips that are stored}.
        failed: number of questions that got no answer, and may be asked again.
        fault: message of the failure after which nothing more is asked; empty without such a
            failure.
        is_unanswered: whether the fault is that the judge leaves the questions unanswered.
        cause: the exception behind the last failure, if the judge is a function.
    """

    judge: JudgeConnection
    notify: Callable[[str], None] = note
    on_progress: Callable[[str], None] = lambda text: None
    answered: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    fault: str = ""
    is_unanswered: bool = False
    cause: BaseException | None = None
    _open: set[Hashable] = field(default_factory=set)  # keys of questions without an answer yet
    _set_aside: set[Hashable] = field(default_factory=set)  # keys of questions not to ask again now
    # Questions that got no answer, whose skips are stored when the judge answers another question.
    _kept_back: list[tuple[Q, Sequence[Verdict]]] = field(default_factory=list)
    _n_unanswered: Counter[Reason] = field(default_factory=Counter)
    _failures_in_a_row: int = 0
    _last_fault: str = ""
    _same_faults: int = 0  # failures in a row with the same message
    _began: float = 0.0  # time of the monotonic clock when `ask_all` began
    _answered_before: int = 0  # questions that were answered before `ask_all` began
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        # Each question is asked once for each order; True means the reverse order of its items.
        self._orders = (False, True) if self.judge.both_orders else (False,)

    @property
    def last_fault(self) -> str:
        """The message of the last failure; empty if there was none."""
        return self._last_fault

    @abstractmethod
    def _next(self, most: int) -> list[Q]:
        """Choose at most `most` questions to ask now; open questions are not chosen again."""

    @abstractmethod
    def _key(self, question: Q) -> Hashable:
        """Return the key that identifies a question."""

    @abstractmethod
    def _items(self, question: Q) -> set[str]:
        """Return the ids of a question's items."""

    @abstractmethod
    def _asked_question(self, question: Q, *, turned: bool) -> AskedQuestion:
        """Convert a question to the form that a worker reads; `turned` reverses the items."""

    @abstractmethod
    def _keep_answer(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts on a question, one for each order; called by one thread at a time."""

    @abstractmethod
    def _progress(self) -> tuple[str, str]:
        """Describe in two texts how many answers there are and how many questions are left.

        The second text may be empty.
        """

    def _most_open(self, n_workers: int) -> int:
        """Return the largest number of questions that may be chosen and not answered yet."""
        return 1 if n_workers == 1 else 2 * n_workers

    def _on_idle(self) -> None:
        """Hook that is called when no answer came for `_idle_seconds`."""

    def _stop_waiting(self) -> None:
        """Hook that is called at an interrupt, so that no thread waits for the store any longer."""

    def _after_answers(self) -> None:
        """Hook that is called each time after the pool has waited for answers."""

    @property
    def _idle_seconds(self) -> float:
        """Seconds without an answer after which `_on_idle` is called."""
        return 1.0

    def _items_answered_before(self) -> set[str]:
        """Return the ids of the items about which the judge has answered in earlier runs."""
        return set()

    def _is_asked_again(self, verdict: Verdict) -> bool:
        """Whether a question that got no answer is asked again in a later call of `ask_all`."""
        return False

    @property
    def _has_all(self) -> bool:
        """Whether all the answers are given that were wanted, skips included."""
        return False

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
        self.judge.record.answered_items |= self._items_answered_before()
        in_caller_thread = self.judge.in_caller_thread
        executor = CallerThread() if in_caller_thread else ThreadPoolExecutor(len(workers))
        try:
            self._ask_in(executor, workers)
        except BaseException:
            self.fault = self.fault or "interrupted"  # so that questions in the queue are not asked
            self._stop_waiting()
            for worker in workers:
                worker.stop()
            raise
        finally:
            # This waits for the present calls, which still store their answers.
            executor.shutdown(cancel_futures=True)
        with self._lock:
            self._end_kept_back()

    def _end_kept_back(self) -> None:
        """Store the skips that are kept back, unless the judge seems to answer no question at all.

        In that case the questions count as failed, and are asked again in the next run.
        """
        record = self.judge.record
        items = [self._items(question) for question, _ in self._kept_back]
        if items and not (record.n_answered or self._has_all or record.explains(items)):
            self.fault = self.fault or record.summary()
            self.is_unanswered = True
        if not self.fault and not self._has_all and record.is_mostly_unanswered:
            # The questions that are left out are no reason to call the asking a success.
            self._store_kept_back()
            self.fault = record.summary()
            self.is_unanswered = True
        if self.fault:
            self.failed += len(self._kept_back)
            self._kept_back.clear()
        else:
            self._store_kept_back()

    def _ask_in(self, executor: Executor, workers: Sequence[Worker]) -> None:
        """Submit calls with questions to an executor until nothing is left to ask.

        The outcome of each call is noted when the call has ended.

        Raises:
            BaseException: the error of a call, if it is neither a Fault nor Enough.
        """
        idle_workers: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            idle_workers.put(worker)
        questions_of_call: dict[Future[None], list[Q]] = {}
        most_failures = PATIENCE * len(workers)
        most_calls = self._most_open(len(workers))
        while True:
            n_new_calls = _number_of_new_calls(len(questions_of_call), most_calls, len(workers))
            for questions in self._batches(n_new_calls):
                call = self._submit(executor, idle_workers, questions)
                questions_of_call[call] = questions
            if not questions_of_call:
                return
            completed, _ = wait(questions_of_call, self._idle_seconds, return_when=FIRST_COMPLETED)
            for call in completed:
                questions = questions_of_call.pop(call)
                self._note_outcome(questions, call.exception(), most_failures)
            if not completed:
                self._on_idle()
            self.on_progress(self._progress_text())
            self._after_answers()

    def _submit(
        self, executor: Executor, idle_workers: SimpleQueue[Worker], questions: list[Q]
    ) -> Future[None]:
        """Give questions to the executor, which lets an idle worker answer them."""
        prepared = self._prepared(questions)
        with self._lock:
            self._open |= {self._key(question) for question in questions}
        return executor.submit(self._ask, idle_workers, questions, prepared)

    def _prepared(self, questions: Sequence[Q]) -> list[AskedQuestion]:
        """Convert questions to the form that a worker reads, each in one order or in both."""
        return [
            self.judge.prepare(self._asked_question(question, turned=turned))
            for question in questions
            for turned in self._orders
        ]

    def _ask(
        self, idle_workers: SimpleQueue[Worker], questions: list[Q], prepared: list[AskedQuestion]
    ) -> None:
        """Take an idle worker, ask it, and store its answers; runs in a thread of the executor."""
        if self.is_over:
            return
        if not self.judge.counts_calls:
            for _ in prepared:
                self.judge.budget.call()
        worker = idle_workers.get()
        try:
            self._store_all(questions, worker.ask(prepared))
        except Fault as fault:
            self._store_all(questions, fault.answered)
            raise
        finally:
            idle_workers.put(worker)

    def _store_all(self, questions: Sequence[Q], verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts of a call; after a failure the last questions may have no verdict.

        Each question has as many consecutive verdicts as there are orders.
        """
        remaining_verdicts = iter(verdicts)
        with self._lock:
            for question in questions:
                verdicts_on_question = list(islice(remaining_verdicts, len(self._orders)))
                if verdicts_on_question:
                    self._store(question, verdicts_on_question)

    def _store(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts on a question, or keep them back if the judge gave no answer."""
        if all(verdict.why is not None for verdict in verdicts):
            self._keep_back(question, verdicts)
            return
        self._store_kept_back()
        self.judge.record.note_answer(self._items(question))
        self._count_and_store(question, verdicts)

    def _count_and_store(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts on a question, and count a skip by its reason."""
        n_before = self.answered
        self._open.discard(self._key(question))
        self._keep_answer(question, verdicts)
        verdict = verdicts[0]
        is_skip = verdict.answer not in ORDER_ANSWERS
        if is_skip and self.answered > n_before:
            reason = BY_THE_JUDGE if verdict.why is None else verdict.why.value
            self.skipped[reason] += 1
            self.judge.record.skipped[reason] += 1

    def _store_kept_back(self) -> None:
        """Store the skips that are kept back."""
        for question, verdicts in self._kept_back:
            self._count_and_store(question, verdicts)
        self._kept_back.clear()

    def _keep_back(self, question: Q, verdicts: Sequence[Verdict]) -> None:
        """Keep the skip of a question back, and report the reason and the item to blame."""
        verdict = verdicts[0]
        assert verdict.why is not None
        self._set_aside.add(self._key(question))
        is_final = not self._is_asked_again(verdict)
        if is_final:
            self._kept_back.append((question, verdicts))
        else:
            self.failed += 1
        self.cause = verdict.error
        ids = {str(id) for id in self._items(question)}
        comment = cut(printable(verdict.comment or "no reason was given"), _LONGEST_COMMENT)
        self._n_unanswered[verdict.why] += 1
        if verdict.why is Reason.ERROR:
            self._report_failure(comment)
        elif self._n_unanswered[verdict.why] <= PATIENCE:  # the end tells the number of the others
            names = " and ".join(map(repr, sorted(ids)))
            self._report_failure(f"the question about {names} is left out: {comment}")
        record = self.judge.record
        unanswered = Unanswered(frozenset(ids), verdict.why, comment)
        for item in sorted(record.note_unanswered(unanswered, is_final=is_final)):
            self._notify(f"item {item!r} is left out: {comment}")
        why_no_more = record.why_no_more()
        if why_no_more and not self.fault:
            self.fault = why_no_more
            self.is_unanswered = True

    def _batches(self, most: int) -> list[list[Q]]:
        """Choose up to `most` batches of questions, without items that the judge cannot take."""
        size = self.judge.batch
        while questions := self._next(most * size):
            left_out = self.judge.record.left_out
            to_ask = []
            for question in questions:
                if left_out.isdisjoint(self._items(question)):
                    to_ask.append(question)
                else:
                    self._set_aside.add(self._key(question))
            if to_ask:
                return [to_ask[start : start + size] for start in range(0, len(to_ask), size)]
            # If all chosen questions are set aside, the loop chooses other questions.
        return []

    def _note_outcome(self, questions: list[Q], error: BaseException | None, patience: int) -> None:
        """Note how the call about some questions ended, after its answers are stored.

        Args:
            questions: questions of the call.
            error: exception of the call; None if the call succeeded.
            patience: failures in a row after which nothing more is asked.

        Raises:
            BaseException: the error itself, if it is not a Fault.
        """
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
        """Count and report a failure; after `patience` failures in a row nothing more is asked."""
        # A question has a verdict for each order of its items. If the judge failed between the two
        # orders of a question, the question counts as answered.
        n_answered = math.ceil(len(fault.answered) / len(self._orders))
        unanswered = questions[n_answered:]
        self._set_aside |= {self._key(question) for question in unanswered}
        self.failed += len(unanswered)
        self.cause = fault.__cause__
        self._failures_in_a_row += 1
        self._report_failure(str(fault))
        if self._failures_in_a_row >= patience and not self.fault:
            self.fault = f"failed {self._failures_in_a_row} times in a row; the last: {fault}"

    def _report_failure(self, message: str) -> None:
        """Report a failure, unless the last three failures had the same message."""
        if message == self._last_fault:
            self._same_faults += 1
        else:
            self._same_faults = 1
        self._last_fault = message
        if self._same_faults <= PATIENCE:  # so that many workers do not repeat the same message
            self._notify(message)

    def _notify(self, text: str) -> None:
        """Report a message with the name of the judge before it."""
        self.notify(f"{self.judge.name}: {text}")

    def _progress_text(self) -> str:
        """Describe the progress: answers, rate, failures, questions left, and what was spent."""
        seconds = time.monotonic() - self._began
        answered_text, left_text = self._progress()
        rate = (self.answered - self._answered_before) / max(seconds, 1e-3)
        parts = [answered_text, f"{rate:.1f} a second"]
        n_skipped = self.skipped.total()
        if n_skipped:
            parts.append(f"{n_skipped} skipped")
        if self.failed:
            parts.append(f"{self.failed} failed")
        parts += [text for text in (left_text, self.judge.spent_text()) if text]
        return ", ".join(parts)


def _number_of_new_calls(n_calls: int, most_calls: int, n_workers: int) -> int:
    """Return the number of batches of questions to choose now.

    Choosing several batches at once takes less time than choosing them one by one. So batches are
    only chosen when the number of open calls is at most half-way from the number of workers to the
    largest number.

    Args:
        n_calls: number of calls that are open now.
        most_calls: largest number of calls that may be open.
        n_workers: number of workers.
    """
    few_calls = (n_workers + most_calls) // 2
    return most_calls - n_calls if n_calls <= few_calls else 0
