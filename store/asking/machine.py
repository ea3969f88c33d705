"""Let a machine answer questions: a language model, a program or a function.

    questions -> leases -> the judge's workers -> each answer is stored -> the next questions

`label`, `sort` and a training ask by the same machine. They differ in where the questions come
from, which `Questions` describes.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from sortnet.core import Progress
from sortnet.errors import LeaseError, SortNetError, UnansweredError
from sortnet.files import Record
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.budget import amount
from sortnet.judges.connection import JudgeConnection, Worker
from sortnet.judges.faults import Reason
from sortnet.judges.unanswered import Unanswered, skipped_text
from sortnet.judges.verdicts import Enough, Fault, Refused, Verdict
from sortnet.messages import ANSWERED, cut, note, printable
from sortnet.preference import Judgement
from sortnet.preference.base import ORDER_ANSWERS
from store.collections.leases import Lease

PATIENCE = 3  # failures in a row for each worker, after which nothing more is asked
BY_THE_JUDGE = "by the judge"  # stands for the reason of a skip that the judge gives as its answer
_INTERRUPTED = "interrupted"
_SECONDS = 1.0  # longest wait for an answer before leases may be renewed
_LONGEST_COMMENT = 200  # characters of a judge's words in a message

T = TypeVar("T")  # type of the result of a task


class EndReason(StrEnum):
    """The reason why a judge is not asked any more."""

    GOAL = "the goal is reached"
    NUMBER = "as many answers as were wanted are given"
    BUDGET = "the budget of calls or cost is spent"
    NOTHING_LEFT = "there is no question left for the annotator"
    FAULT = "the judge failed"
    UNANSWERED = "the judge answered nearly nothing"
    INTERRUPTED = "it was interrupted"


class Questions(Protocol):
    """Source of the questions to a judge, which also takes the answers.

    Attributes:
        ids: ids of the items, whose numbers the questions have.
        is_enough: whether no more answers are wanted.
    """

    @property
    def ids(self) -> Sequence[str]: ...

    @property
    def is_enough(self) -> bool: ...

    def opened(self, annotator: str) -> AbstractContextManager[None]:
        """Return a context in which the annotator exists, after which no question is leased."""
        ...

    def begin_turn(self, n_workers: int) -> int:
        """Begin a turn of a judge, and return how many of its questions may be open at once."""
        ...

    def answered_items(self, annotator: str) -> set[str]:
        """Return the ids of the items whose order with others the annotator has told."""
        ...

    def next(self, annotator: str, most: int, taken_ids: Collection[str]) -> list[Lease]:
        """Lease at most `most` questions whose leases are not among `taken_ids`."""
        ...

    def asked(self, lease: Lease, *, turned: bool) -> AskedQuestion:
        """Write a question as a worker reads it; `turned` reverses the order of the items."""
        ...

    def answer(self, lease: Lease, verdicts: Sequence[Verdict]) -> bool:
        """Store the verdicts on a question, one for each order, and return whether they are new.

        Raises:
            LeaseError: if the lease is lost.
        """
        ...

    def attend(self, annotator: str) -> None:
        """Do what is due while the answers come; called once a second at least."""
        ...

    def left(self) -> str:
        """Describe how many questions are left; empty if none is."""
        ...


def judgements_of(lease: Lease, verdicts: Sequence[Verdict]) -> list[Judgement]:
    """Make the judgements of verdicts; the second is about the items in the reverse order."""
    in_orders = (lease.question, lease.question.turned)
    return [
        verdict.judgement(question, lease.annotator)
        for verdict, question in zip(verdicts, in_orders, strict=False)
    ]


def check_takes_sets(judge: JudgeConnection, n_items: int) -> None:
    """Raise SortNetError if a judge cannot be asked questions about `n_items` items."""
    why_not = judge.why_not_about(n_items) if n_items > 2 else ""
    if why_not:
        raise SortNetError(f"{judge.name} {why_not}")


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


@dataclass(eq=False)
class Machine:
    """Asks a judge's workers the questions of a source, and stores each answer at once.

    One thread chooses the questions. The thread that receives an answer stores the answer before it
    asks the next question. If there are several workers, the next question of each worker is chosen
    in advance.

    After three failures in a row for each worker nothing more is asked. If a question gets no
    answer through its own fault, its skip is kept back until the judge answers another question,
    which shows that the judge can be asked. After nine of ten questions without an answer nothing
    more is asked, and the skips that are kept back are dropped.

    Attributes:
        questions: where the questions come from, and where the answers go.
        annotator: name under which the answers are stored.
        judge: the judge that is asked.
        notify: called with each message about a failure.
        on_progress: called with a text that tells the number of answers, the rate of answers and
            the number of questions left.
        leaves_errors: whether questions at which the judge has an error are left to other judges.
        answered: number of questions that were answered, with skips.
        skipped: {reason: number of skips that are stored}.
        failed: number of questions that got no answer, and may be asked again.
        fault: message of the failure after which nothing more is asked; empty without such a
            failure.
        last_fault: message of the last failure; empty if there was none.
        is_unanswered: whether the fault is that the judge leaves the questions unanswered.
        cause: the exception behind the last failure, if the judge is a function.
    """

    questions: Questions
    annotator: str
    judge: JudgeConnection
    notify: Callable[[str], None] = note
    on_progress: Progress = lambda text: None
    leaves_errors: bool = False
    answered: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    fault: str = ""
    last_fault: str = ""
    is_unanswered: bool = False
    cause: BaseException | None = None
    _workers: Sequence[Worker] = ()  # empty before the first question
    _opened: ExitStack = field(default_factory=ExitStack)
    _most_answers: int | None = None  # `answered` at which `ask` ends; None: at no number
    _set_aside: set[str] = field(default_factory=set)  # leases not to ask about again now
    # Questions that got no answer, whose skips are stored when the judge answers another question.
    _kept_back: list[tuple[Lease, Sequence[Verdict]]] = field(default_factory=list)
    _failures_in_a_row: int = 0
    _n_reported: Counter[str] = field(default_factory=Counter)  # {kind of failure: number}
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def opened(self) -> Iterator[Machine]:
        """End the workers and release the open questions at the end of the `with` block."""
        with self._opened:
            yield self

    @property
    def _orders(self) -> tuple[bool, ...]:
        """The orders in which each question is asked; True reverses the order of its items."""
        return (False, True) if self.judge.both_orders else (False,)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is asked, because the judge has ended or all wanted is answered."""
        return bool(self.fault or self.judge.budget.why() or self.questions.is_enough)

    @property
    def reason(self) -> EndReason:
        """The reason why `ask` has ended; if several reasons hold, the first of them counts."""
        if self.fault == _INTERRUPTED:
            return EndReason.INTERRUPTED
        if self.fault:
            return EndReason.UNANSWERED if self.is_unanswered else EndReason.FAULT
        if self.answered == self._most_answers:
            return EndReason.NUMBER
        if self.judge.budget.why():
            return EndReason.BUDGET
        if self.questions.is_enough:
            return EndReason.GOAL
        if not self._workers:  # the other judges have given all answers that were wanted
            return EndReason.NUMBER
        return EndReason.NOTHING_LEFT

    def summary(self, in_all: int) -> AnswerSummary:
        """Sum up what the judge has answered; `in_all` is the number of its stored answers."""
        return AnswerSummary(
            answered=self.answered - self.skipped.total(),
            in_all=in_all,
            skipped=dict(self.skipped),
            failed=self.failed,
            spent=self.judge.spent_facts(),
            spent_text=self.judge.spent_text(),
        )

    def failure(self, fault: str, next_step: str) -> BaseException:
        """Make the error that reports a fault of the judge, and tells how to go on.

        If the judge is a function that raised an exception, this exception gets the report as a
        note.
        """
        if self.cause is not None:
            self.cause.add_note(f"{self.judge.name}: {next_step}")
            return self.cause
        error = UnansweredError if self.is_unanswered else SortNetError
        return error(f"{self.judge.name}: {fault}; {next_step}")

    def ask(self, number: int | None = None) -> None:
        """Let the workers answer until no question is left, a limit is reached, or they fail.

        Args:
            number: number of questions to answer now; None: as many as are wanted.

        Raises:
            SortNetError: if a worker cannot be started, or the store cannot be used.
            KeyboardInterrupt: at Ctrl-C, after the present answers are stored.
        """
        self._begin()
        self._most_answers = None if number is None else self.answered + number
        executor: Executor = CallerThread()
        if not self.judge.in_caller_thread:
            executor = ThreadPoolExecutor(len(self._workers))
        try:
            self._ask_in(executor)
        except BaseException:
            self.fault = self.fault or _INTERRUPTED  # so that questions in the queue are not asked
            for worker in self._workers:
                worker.stop()
            raise
        finally:
            # This waits for the present calls, which still store their answers.
            executor.shutdown(cancel_futures=True)
        with self._lock:
            self._end_kept_back()

    def _begin(self) -> None:
        """Start the workers before the first question."""
        if self._workers:
            return
        self._opened.enter_context(self.questions.opened(self.annotator))
        self._opened.enter_context(self.judge.open_connections())
        self._workers = self.judge.make_workers()
        for worker in self._workers:
            self._opened.callback(worker.end)
        self.judge.record.answered_items |= self.questions.answered_items(self.annotator)

    def _ask_in(self, executor: Executor) -> None:
        """Submit calls with questions to an executor until nothing is left to ask."""
        idle_workers: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            idle_workers.put(worker)
        n_workers = len(self._workers)
        most_calls = self.questions.begin_turn(n_workers)
        began = time.monotonic()
        n_answered_before = self.answered
        leases_of_call: dict[Future[None], list[Lease]] = {}
        while True:
            # Choosing several questions at once takes less time than choosing them one by one.
            if len(leases_of_call) <= n_workers:
                open_leases = [lease for leases in leases_of_call.values() for lease in leases]
                for leases in self._choose(most_calls - len(leases_of_call), open_leases):
                    prepared = self._prepared(leases)
                    call = executor.submit(self._ask_worker, idle_workers, leases, prepared)
                    leases_of_call[call] = leases
            if not leases_of_call:
                return
            completed, _ = wait(leases_of_call, _SECONDS, return_when=FIRST_COMPLETED)
            for call in completed:
                del leases_of_call[call]
                call.result()  # raises the error of the call
            self.questions.attend(self.annotator)
            if completed:
                rate = (self.answered - n_answered_before) / max(time.monotonic() - began, 1e-3)
                self.on_progress(self._progress_text(rate))

    def _choose(self, most_calls: int, open_leases: Sequence[Lease]) -> list[list[Lease]]:
        """Lease questions for up to `most_calls` calls, without items that the judge cannot take.

        Args:
            open_leases: leases of the questions that the workers are asked now.
        """
        size = self.judge.batch
        while leases := self._lease(most_calls * size, open_leases):
            left_out = self.judge.record.left_out
            refused = [lease for lease in leases if not left_out.isdisjoint(self._items(lease))]
            self._set_aside.update(lease.id for lease in refused)
            to_ask = [lease for lease in leases if lease.id not in self._set_aside]
            if to_ask:
                return [to_ask[start : start + size] for start in range(0, len(to_ask), size)]
            # If all leased questions are set aside, the loop leases other questions.
        return []

    def _lease(self, most: int, open_leases: Sequence[Lease]) -> list[Lease]:
        """Lease up to `most` questions that are neither set aside nor open."""
        with self._lock:
            taken_ids = self._set_aside.union(lease.id for lease in open_leases)
            if self._most_answers is not None:  # the answers to open questions will count, too
                n_to_come = len(open_leases) + len(self._kept_back)
                most = min(most, self._most_answers - self.answered - n_to_come)
        if self.is_over or most <= 0:
            return []
        return self.questions.next(self.annotator, most, taken_ids)

    def _items(self, lease: Lease) -> frozenset[str]:
        """Return the ids of a question's items."""
        return frozenset(self.questions.ids[item] for item in lease.question.items)

    def _prepared(self, leases: Sequence[Lease]) -> list[AskedQuestion]:
        """Convert questions to the form that a worker reads, each in one order or in both.

        Raises:
            SortNetError: if a question is about more items than the judge can be asked about.
        """
        for lease in leases:
            check_takes_sets(self.judge, len(lease.question.items))
        return [
            self.judge.prepare(self.questions.asked(lease, turned=turned))
            for lease in leases
            for turned in self._orders
        ]

    def _ask_worker(
        self,
        idle_workers: SimpleQueue[Worker],
        leases: Sequence[Lease],
        prepared: Sequence[AskedQuestion],
    ) -> None:
        """Take an idle worker, ask it, and store its answers; runs in a thread of the executor."""
        if self.is_over:
            return
        worker = idle_workers.get()
        verdicts: list[Verdict] = []
        try:
            if not self.judge.counts_calls:
                for _ in prepared:
                    self.judge.budget.call()
            for verdict in worker.ask(prepared):
                verdicts.append(verdict)
            self._failures_in_a_row = 0
        except Enough:
            pass  # the limit is the reason why the asking ends
        except Fault as fault:
            # If the judge failed between the two orders of a question, the question is answered.
            n_answered = math.ceil(len(verdicts) / len(self._orders))
            with self._lock:
                if not self.fault:  # an interrupt is no failure of the judge
                    self._note_failure(leases[n_answered:], fault)
        finally:
            idle_workers.put(worker)
            self._take_all(leases, verdicts)

    def _take_all(self, leases: Sequence[Lease], verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts of a call, or keep them back where the judge gave no answer.

        After a failure the last questions may have no verdict. Each question has as many
        consecutive verdicts as there are orders.
        """
        n_orders = len(self._orders)
        with self._lock:
            for number, lease in enumerate(leases):
                verdicts_on_question = verdicts[number * n_orders :][:n_orders]
                if not verdicts_on_question:
                    return
                if all(verdict.why is not None for verdict in verdicts_on_question):
                    self._leave_out(lease, verdicts_on_question)
                    continue
                self._store_kept_back()
                self.judge.record.note_answer(self._items(lease))
                self._store(lease, verdicts_on_question)

    def _store(self, lease: Lease, verdicts: Sequence[Verdict]) -> None:
        """Store the verdicts on a question and count them; report an answer that is not stored."""
        try:
            is_new = self.questions.answer(lease, verdicts)
        except LeaseError as error:
            self._set_aside.add(lease.id)
            self.failed += 1
            self._notify(str(error))
            return
        if not is_new:
            self.notify(ANSWERED)
            return
        self.answered += 1
        verdict = verdicts[0]
        if verdict.answer not in ORDER_ANSWERS:
            reason = BY_THE_JUDGE if verdict.why is None else verdict.why.value
            self.skipped[reason] += 1

    def _store_kept_back(self) -> None:
        """Store the skips that are kept back."""
        for lease, verdicts in self._kept_back:
            self._store(lease, verdicts)
        self._kept_back.clear()

    def _leave_out(self, lease: Lease, verdicts: Sequence[Verdict]) -> None:
        """Withhold the skip of a question, and report its reason and the item that is the cause."""
        verdict = verdicts[0]
        assert verdict.why is not None
        self._set_aside.add(lease.id)
        if self.leaves_errors and verdict.why is Reason.ERROR:
            self.failed += 1
        else:
            self._kept_back.append((lease, verdicts))
        self.cause = verdict.error
        items = self._items(lease)
        words = " ".join((verdict.comment or "").split()) or "no reason was given"
        comment = cut(printable(words), _LONGEST_COMMENT)
        if verdict.why is Reason.ERROR:
            self._report_failure(comment, comment)
        else:
            names = " and ".join(map(repr, sorted(items)))
            message = f"the question about {names} is left out: {comment}"
            self._report_failure(message, verdict.why.value)
        record = self.judge.record
        unanswered = Unanswered(items, verdict.why, comment)
        for item in sorted(record.note_unanswered(unanswered)):
            self._notify(f"item {item!r} is left out: {comment}")
        self._end_unanswered(record.why_no_more())

    def _end_unanswered(self, why: str) -> None:
        """End the asking because the judge leaves questions unanswered, unless `why` is empty."""
        if why and not self.fault:
            self.fault = why
            self.is_unanswered = True

    def _end_kept_back(self) -> None:
        """Store the skips that are kept back, unless the judge answers nearly no question.

        In that case the questions count as failed, and are asked again in the next run.
        """
        if not self.questions.is_enough:
            items = [self._items(lease) for lease, _ in self._kept_back]
            self._end_unanswered(self.judge.record.why_useless(items))
        if self.fault:
            self.failed += len(self._kept_back)
            self._kept_back.clear()
        else:
            self._store_kept_back()

    def _note_failure(self, leases: Sequence[Lease], fault: Fault) -> None:
        """Count and report a failure at questions; after too many in a row, end the asking."""
        self.cause = fault.__cause__
        if isinstance(fault, Refused):
            self.fault = str(fault)
            return
        self._set_aside.update(lease.id for lease in leases)
        self.failed += len(leases)
        self._report_failure(str(fault), str(fault))
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= PATIENCE * len(self._workers):
            self.fault = f"failed {self._failures_in_a_row} times in a row; the last: {fault}"

    def _report_failure(self, message: str, kind: str) -> None:
        """Report a failure, unless three failures of its kind were reported."""
        self.last_fault = message
        self._n_reported[kind] += 1
        if self._n_reported[kind] <= PATIENCE:  # the end tells the number of the others
            self._notify(message)

    def _notify(self, text: str) -> None:
        """Report a message with the name of the judge before it."""
        self.notify(f"{self.judge.name}: {text}")

    def _progress_text(self, rate: float) -> str:
        """Describe the progress: answers, rate, questions left, and what was spent."""
        texts = [
            f"{self.answered} answered",
            f"{rate:.1f} a second",
            f"{self.failed} failed" if self.failed else "",
            self.questions.left(),
            self.judge.spent_text(),
        ]
        return ", ".join(filter(None, texts))


@dataclass(frozen=True)
class AnswerSummary:
    """The answers of an annotator, in one call or process and in all.

    Attributes:
        answered: number of answers now, without skips.
        in_all: number of the annotator's answers that are stored.
        skipped: {reason: number of skips now}.
        failed: number of questions that got no answer now, and may be asked again.
        spent: calls, tokens and cost of a language model now; empty for others.
        spent_text: what was spent now, in words.

    >>> AnswerSummary(3, 5, {"filtered": 1}).text
    '3 answered, 5 in all, 1 skipped (1 filtered)'
    """

    answered: int
    in_all: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    spent: Mapping[str, Any] = field(default_factory=dict)
    spent_text: str = field(default="", repr=False)

    @property
    def facts(self) -> Record:
        """The summary for JSON."""
        return {
            "answered": self.answered,
            "in_all": self.in_all,
            "skipped": dict(self.skipped),
            "failed": self.failed,
            **self.spent,
        }

    @property
    def text(self) -> str:
        """The summary in words; numbers of skips and failures only if there are any."""
        texts = [f"{self.answered:,} answered", f"{self.in_all:,} in all"]
        if self.skipped:
            texts.append(skipped_text(self.skipped))
        if self.failed:
            texts.append(f"{self.failed:,} failed")
        if self.spent_text:
            texts.append(self.spent_text)
        return ", ".join(texts)


def cost_text(cost_in_all: float | None) -> str:
    """Tell what all stored answers cost; empty if no cost is known.

    >>> cost_text(0.02), cost_text(None)
    ('all answers cost 0.02', '')
    """
    return "" if cost_in_all is None else f"all answers cost {amount(cost_in_all)}"
