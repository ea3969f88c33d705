"""Let a judge that is no person answer: questions to its workers, answers to the store."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from cli.output import say
from cli.terminal.asking import ANSWERED, Asking, nothing_left
from cli.terminal.signals import ended_by_signals
from cli.terminal.store_patience import StorePatience
from cli.terminal.verdicts import Enough, Fault, Refused, Verdict
from sortnet.errors import LeaseError, StudyError
from sortnet.items import Items
from sortnet.preference import Judgement, Question
from sortnet.preference.base import TARGETS
from sortnet.preference.study import Decision
from store import Lease
from store.collections.collection import Stored
from store.database.engine import plain
from store.service.labelling import LabellingService

PATIENCE = 3  # maximum failures in a row per worker
Pair: TypeAlias = dict[str, Any]  # what is asked, as a program reads it
LEFT_OUT = "not asked: the judge could not take an item of this pair"


class Worker(Protocol):
    """Answers several pairs at once, a verdict for each; any thread may stop it.

    A Fault is of these pairs, a Refused of all that come. `end` stops an idle one.
    """

    def ask(self, pairs: Sequence[Pair]) -> list[Verdict]: ...

    def stop(self) -> None: ...

    def end(self) -> None: ...


def pair_of(service: LabellingService, lease: Lease, *, turned: bool = False) -> Pair:
    """What is asked about a leased pair; `turned`: with its sides exchanged."""
    items, study, question = service.items, service.study, lease.question
    left, right = (question.left, question.right)[:: -1 if turned else 1]
    asked: Pair = {"id": lease.id, "question": study.question, "instructions": study.instructions}
    if service.collection.criterion is not None:
        asked["criterion"] = service.collection.criterion
    if items.groups is not None:
        context = items.contexts and items.contexts[left]
        asked |= {"group": items.groups[left], "context": context}
    return asked | {"left": _side(items, left), "right": _side(items, right)}


def _side(items: Items, k: int) -> Pair:
    def path(file: str | None) -> str | None:
        return None if file is None else str(items.root / file if items.root else file)

    return {
        "id": items.ids[k],
        "text": items.texts[k],
        "image": path(items.images[k]),
        "audio": path(items.audio[k]),
        "shown": dict((items.shown and items.shown[k]) or {}),
        "features": plain(dict(zip(items.feature_names, items.features[k], strict=True))),
    }


@dataclass
class Judging:
    """Distribute pairs to workers and store answers; one thread calls the service."""

    asking: Asking  # the annotator that the judge answers as
    number: int | None = None  # of pairs to answer; None: until the goal is reached
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
    _open: set[str] = field(default_factory=set)  # leases that are to be answered
    _failed_at: set[str] = field(default_factory=set)
    _left_out: set[str] = field(default_factory=set)
    _in_a_row: int = 0
    _said: str = ""
    _alike: int = 0  # faults in a row with the same words
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.service, self.who = self.asking.service, self.asking.annotator
        self._orders = (False, True) if self.both_orders else (False,)  # whether it is turned
        database = self.service.collection.database
        self._patience = StorePatience(database, self.patience, self.name)

    def run(self, workers: Sequence[Worker]) -> tuple[str, dict[str, Any]]:
        """Let workers answer until the goal is reached, `number` are answered, or they fail.

        Each answer is stored at once, by the thread that has it, before that asks again. Of several
        workers each has its next question ready. Pairs at which a worker fails are released; after
        three failures in a row for each worker the judge is given up. While the store's server is
        away, all wait with the answers that they have. Returns why it ended, and the number of
        failures and the fault.

        Raises:
            SortNetError: if it cannot be started, or the store stays away.
        """
        with ended_by_signals():
            try:
                self._run(workers)
            except KeyboardInterrupt:
                self.fault = "interrupted"
            finally:
                for worker in workers:
                    worker.end()
                self._release()
        why = self.fault or self._why()
        return why, {"failed": self.failed, "fault": self.fault}

    def _run(self, workers: Sequence[Worker]) -> None:
        idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            idle.put(worker)
        asked: dict[Future[None], list[Lease]] = {}
        most = len(workers) * (1 if len(workers) == 1 else 2)
        pool = ThreadPoolExecutor(len(workers))
        try:
            while True:
                for leases in self._batches(most - len(asked)):
                    pairs = [
                        self.prepared(pair_of(self.service, lease, turned=turned))
                        for lease in leases
                        for turned in self._orders
                    ]
                    with self._lock:
                        self._open |= {lease.id for lease in leases}
                    asked[pool.submit(self._ask, idle, leases, pairs)] = leases
                if not asked:
                    break
                some_time = self.service.lease_seconds / 4
                completed = wait(asked, some_time, return_when=FIRST_COMPLETED).done
                for done in completed:
                    self._take(asked.pop(done), done.exception(), PATIENCE * len(workers))
                if not completed:  # nobody else gets these pairs meanwhile
                    self._patience.do(partial(self.service.held, self.who))
                self.on_progress(self._progress())
                self.service.keep_up()
        except BaseException:
            self.fault = self.fault or "interrupted"  # what waits is not asked
            self._patience.stop()
            for worker in workers:
                worker.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)  # what was answered meanwhile is stored
        if not self.fault:
            self.service.settle()

    def _ask(self, idle: SimpleQueue[Worker], leases: list[Lease], pairs: list[Pair]) -> None:
        """Ask an idle worker and store what it answers, in a thread of its own."""
        if self._over:
            return
        worker = idle.get()
        try:
            self._keep(leases, worker.ask(pairs))
        except Fault as fault:
            self._keep(leases, fault.answered)
            raise
        finally:
            idle.put(worker)

    def _keep(self, leases: Sequence[Lease], verdicts: Sequence[Verdict]) -> None:
        given = iter(verdicts)
        with self._lock:
            for lease in leases:
                if some := list(islice(given, len(self._orders))):
                    self._store(lease, some)

    def _batches(self, most: int) -> list[list[Lease]]:
        """Pairs for idle workers, except reserved pairs that were given up."""
        kept: list[Lease] = []
        while not kept and (leases := self._leases(most * self.batch)):
            kept = [lease for lease in leases if not self._leave_out(lease)]
        return [kept[k : k + self.batch] for k in range(0, len(kept), self.batch)]

    def _leases(self, most: int) -> list[Lease]:
        if self._over:
            return []
        with self._lock:
            not_these = self._failed_at | self._open
            if self.number is not None:
                most = min(most, self.number - self.answered - len(self._open))
        if most <= 0:
            return []
        leases = self._patience.do(partial(self.service.next, self.who, most + len(not_these)))
        return [lease for lease in leases if lease.id not in not_these][:most]

    @property
    def _over(self) -> bool:
        return bool(self.fault or self.spent()) or self.service.remaining.stop

    def _leave_out(self, lease: Lease) -> bool:
        items, question = self.service.items, lease.question
        out = self._left_out & {items.ids[question.left], items.ids[question.right]}
        if out:
            with self._lock:
                self._store(lease, [Verdict("skip", comment=LEFT_OUT)])
        return bool(out)

    def _take(self, leases: list[Lease], error: BaseException | None, patience: int) -> None:
        """Note what came of asking about these; the answers are stored."""
        with self._lock:
            self._open -= {lease.id for lease in leases}
        if error is None:
            self._in_a_row = 0
        elif isinstance(error, Enough):
            return
        elif isinstance(error, Refused):
            self.fault = self.fault or str(error)
        elif isinstance(error, Fault):
            unanswered = leases[-(-len(error.answered) // len(self._orders)) :]
            self._failed_at |= {lease.id for lease in unanswered}
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

    def _store(self, lease: Lease, verdicts: Sequence[Verdict]) -> None:
        """Store the answer to a pair, and the one with its sides exchanged."""
        for verdict in verdicts:
            if verdict.left_out is not None and verdict.left_out not in self._left_out:
                self._left_out.add(verdict.left_out)
                say(f"{self.name}: item {verdict.left_out!r} is left out: {verdict.comment}")
        question = lease.question
        self._open.discard(lease.id)
        self._mark()
        try:
            new = self._answer(lease, self._judgement(question, verdicts[0]))
        except LeaseError as error:
            self._failed_at.add(lease.id)
            self.failed += 1
            say(f"{self.name}: {error}")
            return
        if new and len(verdicts) > 1:
            turned = replace(question, left=question.right, right=question.left)
            collection = self.service.collection
            second = replace(self._judgement(turned, verdicts[1]), at=collection.clock())
            # By its id it is not appended twice if the reply of the first commit was lost.
            ids = [secrets.token_hex(8)]
            self._patience.do(partial(collection.append, [second], ids=ids))
            self._patience.do(self.service.sync)
        self.answered += new
        self.asking.answered += new and verdicts[0].answer in TARGETS
        if not new:
            say(ANSWERED)

    def _answer(self, lease: Lease, judgement: Judgement) -> bool:
        """Store an answer; whether this did, and not another process before."""
        attempts = 0

        def attempt() -> Stored:
            nonlocal attempts
            attempts += 1
            return self.service.answer(lease.id, judgement)

        try:
            stored = self._patience.do(attempt)
        except LeaseError:
            again = self._leased_again(lease.question) if attempts > 1 else []
            if not again:
                raise
            stored = self._patience.do(partial(self.service.answer, again[0].id, judgement))
        # The reply of a commit that was lost: the answer is there, and it is this one.
        is_stored_before = attempts > 1 and stored.judgement.answer == judgement.answer
        return stored.new or is_stored_before

    def _leased_again(self, question: Question) -> list[Lease]:
        """A new lease of a question: a server that was killed may have lost the old one."""
        self._patience.do(self.service.sync)
        if not self.service.session.allows(question.pair):
            return []
        return self._patience.do(partial(self.service.lease, self.who, [question]))

    def _release(self) -> None:
        self._patience.do(partial(self.service.release, self.who))

    def _mark(self) -> None:
        """Mark a new annotator as a model, unless somebody did; one who has answered stays."""
        service = self.service
        if not service.session.answered(self.who) and self.who not in service.study.models:
            mark = Decision("model", self.who)
            with suppress(StudyError):  # a run beside this one, under the same name, was faster
                self._patience.do(partial(service.collection.decide, mark))
            self._patience.do(service.sync)

    def _judgement(self, question: Question, verdict: Verdict) -> Judgement:
        return question.answered(self.who, verdict.answer, **verdict.facts())

    def _progress(self) -> str:
        seconds = time.monotonic() - self._began
        parts = [f"{self.answered} answered", f"{self.answered / max(seconds, 1e-3):.1f} a second"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.number is None:
            left = self.service.remaining.range_left
        else:
            left = str(self.number - self.answered)
        if left not in ("", "0"):
            parts.append(f"{left} left")
        return ", ".join(parts)

    def _why(self) -> str:
        remaining = self.service.remaining
        if self.answered == self.number:
            return remaining.why
        if spent := self.spent():
            return spent
        if remaining.stop:
            why = f"{remaining.why} (--until sets another)"
            if self.number is not None:
                return f"ended after {self.answered} of {self.number} answers (--number): {why}"
            return why
        self._release()
        left = self._patience.do(partial(nothing_left, self.service, self.who))
        return f"{left}, but for {self.failed} that failed" if self.failed else left
