"""Let a judge that is no person answer for an annotator of a labelling service."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import numpy as np

from sortnet.errors import LeaseError, SortNetError, StudyError
from sortnet.judges.asked_question import AskedQuestion, asked_question
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.verdicts import Verdict
from sortnet.judges.worker_pool import WorkerPool
from sortnet.messages import ANSWERED
from sortnet.preference import Answer, Judgement, Question
from sortnet.preference.base import HOLDOUT, ORDER_ANSWERS
from sortnet.preference.groups import Groups
from sortnet.preference.study import Decision
from store.collections.collection import Stored
from store.collections.leases import Lease
from store.service.labelling import LabellingService
from store.service.patience import StorePatience

CHECKS = (HOLDOUT, "repeat")  # strategies whose questions check the model or the judge
_LEASED_TOGETHER = 5  # questions for a judge in the caller's thread, if fits are slow


class EndReason(Enum):
    """Why a labelling ended."""

    GOAL = "the goal is reached"
    NUMBER = "as many answers as were wanted are given"
    BUDGET = "the budget of calls, tokens or cost is spent"
    NOTHING_LEFT = "there is no question left for the annotator"
    FAULT = "the judge failed"
    INTERRUPTED = "it was interrupted"


@dataclass(frozen=True)
class LabellingEnd:
    """How a labelling ended.

    Attributes:
        reason: why it ended.
        text: the reason for a reader, with numbers.
        answered, failed: numbers of questions.
        n_preferences: answers that are neither skips nor can't-says.
    """

    reason: EndReason
    text: str
    answered: int
    n_preferences: int
    failed: int

    @property
    def fault(self) -> str:
        """The error or interrupt that ended the labelling; empty if none did."""
        return self.text if self.reason in (EndReason.FAULT, EndReason.INTERRUPTED) else ""


def check_takes_sets(judge: JudgeConnection, set_size: int) -> None:
    """Refuse a judge that cannot be asked about that number of items.

    Raises:
        SortNetError: with the reason.
    """
    if why_not := judge.why_not_about(set_size):
        raise SortNetError(f"{judge.name} {why_not}")


def asked_question_of(
    service: LabellingService, lease: Lease, *, turned: bool = False
) -> AskedQuestion:
    """A leased question as a judge is asked; `turned` reverses the order of the items."""
    study = service.study
    question = lease.question.turned if turned else lease.question
    return asked_question(
        service.items,
        question.left,
        question.right,
        id=lease.id,
        question=study.question,
        instructions=study.instructions,
        criterion=service.collection.criterion,
        further=question.further,
        worst=study.worst,
    )


@dataclass(kw_only=True)
class Judging(WorkerPool[Lease]):
    """Put the questions of a labelling service to a judge's workers, and store their answers.

    Questions at which a worker fails are released. While the store's server is away, the workers
    wait with the answers that they have.

    Attributes:
        service: chooses the questions and stores the answers.
        annotator: name under which the answers are stored.
        number: number of questions to answer; None: until the goal is reached.
        n_preferences: answers that are neither skips nor can't-says.
    """

    service: LabellingService
    annotator: str
    number: int | None = None
    n_preferences: int = 0
    _is_interrupted: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        database = self.service.collection.database
        self._patience = StorePatience(database, self.judge.patience, self.judge.name, self.notify)

    def run(self) -> None:
        """Let the judge answer until the goal is reached, `number` are answered, or it fails.

        Ctrl-C ends the labelling after the answers so far are stored; `end` says why it ended.

        Raises:
            SortNetError: if the judge cannot be started, the store stays away, or the questions
                are about more items than the judge can be asked about.
        """
        if self.service.study.set_size > 2:
            check_takes_sets(self.judge, self.service.study.set_size)
        with self.judge.open_connections():
            workers = self.judge.make_workers()
            try:
                self.ask_all(workers)
                if not self.fault:
                    self.service.settle()
            except KeyboardInterrupt:
                self._is_interrupted = True
                self.fault = "interrupted"
            finally:
                for worker in workers:
                    worker.end()
                self._release()

    def end(self) -> LabellingEnd:
        """How the labelling ended, after `run`."""
        reason, text = self._reason()
        return LabellingEnd(reason, text, self.answered, self.n_preferences, self.failed)

    def _most_open(self, n_workers: int) -> int:
        # A model that is slow to fit does not include the last answers anyway, and questions that
        # are leased together take one transaction.
        if self.judge.in_caller_thread and not self.service.session.quick:
            return _LEASED_TOGETHER
        return super()._most_open(n_workers)

    def _stop_waiting(self) -> None:
        self._patience.stop()

    def _next(self, most: int) -> list[Lease]:
        if self.is_over:
            return []
        with self._lock:
            excluded_ids = self._failed_at | self._open
            if self.number is not None:
                most = min(most, self.number - self.answered - len(self._open))
        if most <= 0:
            return []
        # The service gives an annotator's unanswered questions first, the excluded ones among them.
        leases = self._patience.do(
            partial(self.service.next, self.annotator, most + len(excluded_ids))
        )
        return [lease for lease in leases if lease.id not in excluded_ids][:most]

    @property
    def is_over(self) -> bool:
        """Whether nothing more is asked."""
        return super().is_over or self.service.remaining.stop

    def _key(self, question: Lease) -> Hashable:
        return question.id

    def _items(self, question: Lease) -> set[str]:
        ids = self.service.items.ids
        return {ids[item] for item in question.question.items}

    def _asked_question(self, question: Lease, *, turned: bool) -> AskedQuestion:
        # A repeat or an overlap may be about more items than the study asks about now.
        n_items = len(question.question.items)
        if n_items > 2:
            check_takes_sets(self.judge, n_items)
        return asked_question_of(self.service, question, turned=turned)

    def _is_fresh(self, question: Lease) -> bool:
        return question.question.strategy in CHECKS

    @property
    def _idle_seconds(self) -> float:
        return self.service.lease_seconds / 4

    def _on_idle(self) -> None:
        """Renew the annotator's leases, so that nobody else gets the same questions meanwhile."""
        self._patience.do(partial(self.service.held, self.annotator))

    def _after_answers(self) -> None:
        self.service.keep_up(side_by_side=not self.judge.in_caller_thread)

    def _keep_answer(self, question: Lease, verdicts: Sequence[Verdict]) -> None:
        asked = question.question
        mark_model(self.service, self.annotator, self._patience.do)
        try:
            is_new = self._answer(question, verdicts[0].judgement(asked, self.annotator))
        except LeaseError as error:
            self._failed_at.add(question.id)
            self.failed += 1
            self._notify(str(error))
            return
        if not is_new:
            self.notify(ANSWERED)
            return
        if len(verdicts) > 1:
            self._append(verdicts[1].judgement(asked.turned, self.annotator))
        self.answered += 1
        if verdicts[0].answer in ORDER_ANSWERS:
            self.n_preferences += 1

    def _append(self, judgement: Judgement) -> None:
        """Store an answer that has no lease: the one with the places in reverse order."""
        collection = self.service.collection
        judgement = replace(judgement, at=collection.clock())
        # The id keeps it from being appended twice if the reply to the first commit was lost.
        ids = [secrets.token_hex(8)]
        self._patience.do(partial(collection.append, [judgement], ids=ids))
        self._patience.do(self.service.sync)

    def _answer(self, lease: Lease, judgement: Judgement) -> bool:
        """Store an answer; returns whether it is stored, False if an earlier answer stays."""
        n_attempts = 0

        def attempt() -> Stored:
            nonlocal n_attempts
            n_attempts += 1
            return self.service.answer(lease.id, judgement)

        try:
            stored = self._patience.do(attempt)
        except LeaseError:
            if n_attempts == 1:
                raise
            new_leases = self._lease_again(lease.question)
            if not new_leases:
                raise
            stored = self._patience.do(partial(self.service.answer, new_leases[0].id, judgement))
        # If the reply to a commit was lost, the answer that is stored already is this one.
        is_reply_lost = n_attempts > 1 and _choice(stored.judgement) == _choice(judgement)
        return stored.new or is_reply_lost

    def _lease_again(self, question: Question) -> list[Lease]:
        """Lease a question again: a server that was killed may have lost the lease.

        Returns the new lease; none if the question is not free any more.
        """
        self._patience.do(self.service.sync)
        if not all(map(self.service.session.allows, question.pairs)):
            return []
        return self._patience.do(partial(self.service.lease, self.annotator, [question]))

    def _release(self) -> None:
        self._patience.do(partial(self.service.release, self.annotator))

    def _progress(self) -> tuple[str, str]:
        if self.number is None:
            n_left = self.service.remaining.range_left
        else:
            n_left = str(self.number - self.answered)
        n_left_text = "" if n_left in ("", "0") else f"{n_left} left"
        return f"{self.answered} answered", n_left_text

    def _reason(self) -> tuple[EndReason, str]:
        remaining = self.service.remaining
        if self._is_interrupted:
            return EndReason.INTERRUPTED, self.fault
        if self.fault:
            return EndReason.FAULT, self.fault
        if self.answered == self.number:
            return EndReason.NUMBER, remaining.why
        if why_no_more := self.judge.why_no_more():
            return EndReason.BUDGET, why_no_more
        if remaining.stop:
            return EndReason.GOAL, remaining.why
        self._release()
        why = self._patience.do(partial(self.service.why_nothing_left, self.annotator))
        failed = f", but for {self.failed} that failed" if self.failed else ""
        return EndReason.NOTHING_LEFT, f"{why}{failed}"


def _choice(judgement: Judgement) -> tuple[Answer, int | None, int | None]:
    """The answer of a judgement, and the best and worst item that it names."""
    return judgement.answer, judgement.best, judgement.worst


def mark_model(
    service: LabellingService, annotator: str, do: Callable[..., object] = operator.call
) -> None:
    """Mark a new annotator as a model whose probabilities are measurements.

    Earlier decisions about the annotator stay, and so does an annotator who has answered.

    Args:
        do: calls each function that reads or writes the store, such as `StorePatience.do`.
    """
    if service.session.answered(annotator):
        return
    decisions = []
    if annotator not in service.study.models:
        decisions.append(Decision("model", annotator))
    if annotator not in service.study.probabilities:
        decisions.append(Decision("p-measurement", annotator))
    if decisions:
        with suppress(StudyError):  # another process has decided so, for the same annotator
            do(partial(service.collection.decide, *decisions))
        do(service.sync)


def example_questions(service: LabellingService, n: int) -> list[AskedQuestion]:
    """Examples of questions: about the first items of a group, then about random items.

    They have as many items as the study asks about, or all of a smaller group.

    Args:
        n: number of questions, 1 at least.
    """
    groups = Groups(service.items.groups, len(service.items), without=service.study.retired)
    set_size = service.study.set_size
    rng = np.random.default_rng(0)
    first_items = next(members[:set_size] for members in groups.members if len(members) > 1)
    questions = [_example(service, first_items.tolist())]
    for pair in np.transpose(groups.draw(rng, n - 1)).tolist():
        items = pair
        if set_size > 2:
            members = rng.permutation(groups.members[groups.of[pair[0]]]).tolist()
            further = [item for item in members if item not in pair]
            items = [*pair, *further[: set_size - 2]]
        questions.append(_example(service, items))
    return questions


def _example(service: LabellingService, items: Sequence[int]) -> AskedQuestion:
    left, right, *further = items
    question = Question(left, right, "random", 1.0, further=tuple(further))
    return asked_question_of(service, Lease("example", question, "", 0.0))
