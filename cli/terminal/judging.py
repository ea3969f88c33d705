"""Let a judge that is no person answer for an annotator of a labelling service."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cli.judges.pairs import Pair, pair_of_items
from cli.judges.verdicts import Verdict
from cli.judges.worker_pool import Worker, WorkerPool
from cli.output import say
from cli.terminal.asking import ANSWERED, Asking, nothing_left
from cli.terminal.signals import ended_by_signals
from sortnet.errors import LeaseError, StudyError
from sortnet.preference import Judgement, Question
from sortnet.preference.base import TARGETS
from sortnet.preference.study import Decision
from store import Lease
from store.collections.collection import Stored
from store.database.engine import Database
from store.service.labelling import LabellingService


def pair_of(service: LabellingService, lease: Lease, *, turned: bool = False) -> Pair:
    """What is asked about a leased pair; `turned`: with its sides exchanged."""
    study, question = service.study, lease.question
    left, right = question.left, question.right
    if turned:
        left, right = right, left
    return pair_of_items(
        service.items,
        left,
        right,
        id=lease.id,
        question=study.question,
        instructions=study.instructions,
        criterion=service.collection.criterion,
    )


@dataclass
class Judging(WorkerPool[Lease]):
    """Ask workers about the pairs that a labelling service chooses, and store their answers.

    Pairs at which a worker fails are released. While the store's server is away, all wait with the
    answers that they have.
    """

    asking: Asking  # the annotator that the judge answers as
    number: int | None = None  # of pairs to answer; None: until the goal is reached

    def __post_init__(self) -> None:
        self.service, self.who = self.asking.service, self.asking.annotator
        super().__post_init__()

    @property
    def _database(self) -> Database:
        return self.service.collection.database

    def run(self, workers: Sequence[Worker]) -> tuple[str, dict[str, Any]]:
        """Let workers answer until the goal is reached, `number` are answered, or they fail.

        Returns why it ended, and the number of failures and the fault.

        Raises:
            SortNetError: if it cannot be started, or the store stays away.
        """
        with ended_by_signals():
            try:
                self.ask_all(workers)
                if not self.fault:
                    self.service.settle()
            except KeyboardInterrupt:
                self.fault = "interrupted"
            finally:
                for worker in workers:
                    worker.end()
                self._release()
        why = self.fault or self._why()
        return why, {"failed": self.failed, "fault": self.fault}

    def _next(self, most: int) -> list[Lease]:
        if self.is_over:
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
    def is_over(self) -> bool:
        """Whether nothing more is asked."""
        return super().is_over or self.service.remaining.stop

    def _key(self, question: Lease) -> Hashable:
        return question.id

    def _items(self, question: Lease) -> set[str]:
        ids, pair = self.service.items.ids, question.question
        return {ids[pair.left], ids[pair.right]}

    def _pair(self, question: Lease, *, turned: bool) -> Pair:
        return pair_of(self.service, question, turned=turned)

    @property
    def _some_time(self) -> float:
        return self.service.lease_seconds / 4

    def _hold(self) -> None:
        """Keep the pairs, so that nobody else gets them meanwhile."""
        self._patience.do(partial(self.service.held, self.who))

    def _keep_up(self) -> None:
        self.service.keep_up()

    def _keep_answer(self, question: Lease, verdicts: Sequence[Verdict]) -> None:
        asked = question.question
        self._mark()
        try:
            new = self._answer(question, self._judgement(asked, verdicts[0]))
        except LeaseError as error:
            self._failed_at.add(question.id)
            self.failed += 1
            say(f"{self.name}: {error}")
            return
        if new and len(verdicts) > 1:
            turned = replace(asked, left=asked.right, right=asked.left)
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

    def _progress(self) -> tuple[str, str]:
        if self.number is None:
            left = self.service.remaining.range_left
        else:
            left = str(self.number - self.answered)
        return f"{self.answered} answered", "" if left in ("", "0") else f"{left} left"

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
