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

from sortnet.core import I64
from sortnet.errors import LeaseError, SortNetError, StudyError
from sortnet.judges.asked_pairs import Pair, pair_of_items
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
        reason: why.
        text: the same for a reader, with numbers.
        answered, failed: numbers of pairs.
        n_preferences: answers that are neither skips nor can't-says.
    """

    reason: EndReason
    text: str
    answered: int
    n_preferences: int
    failed: int

    @property
    def fault(self) -> str:
        """The error or interrupt that ended it; empty if none did."""
        return self.text if self.reason in (EndReason.FAULT, EndReason.INTERRUPTED) else ""


def check_takes_sets(judge: JudgeConnection, set_size: int) -> None:
    """Refuse a judge that cannot be asked about a number of items.

    Raises:
        SortNetError: if it cannot.
    """
    if why_not := judge.why_not_about(set_size):
        raise SortNetError(f"{judge.name} {why_not}")


def pair_of(service: LabellingService, lease: Lease, *, turned: bool = False) -> Pair:
    """What is asked in a leased question; `turned`: in the reverse order of places."""
    study = service.study
    question = lease.question.turned if turned else lease.question
    return pair_of_items(
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
    """Ask workers what a labelling service chooses, and store their answers.

    Questions at which a worker fails are released. While the store's server is away, all wait with
    the answers that they have.

    Attributes:
        service: chooses the questions and stores the answers.
        annotator: as whom the judge answers.
        number: of pairs to answer; None: until the goal is reached.
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

        Ctrl-C ends it, too, after what is answered is stored; `end` says why it ended.

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
        """How it ended, after `run`."""
        reason, text = self._reason()
        return LabellingEnd(reason, text, self.answered, self.n_preferences, self.failed)

    def _most_open(self, n_workers: int) -> int:
        # A model that is slow to fit does not know of the last answers anyway. Questions that are
        # leased together take one transaction.
        if self.judge.in_caller_thread and not self.service.session.quick:
            return _LEASED_TOGETHER
        return super()._most_open(n_workers)

    def _stop_waiting(self) -> None:
        self._patience.stop()

    def _next(self, most: int) -> list[Lease]:
        if self.is_over:
            return []
        with self._lock:
            not_these = self._failed_at | self._open
            if self.number is not None:
                most = min(most, self.number - self.answered - len(self._open))
        if most <= 0:
            return []
        leases = self._patience.do(
            partial(self.service.next, self.annotator, most + len(not_these))
        )
        return [lease for lease in leases if lease.id not in not_these][:most]

    @property
    def is_over(self) -> bool:
        """Whether nothing more is asked."""
        return super().is_over or self.service.remaining.stop

    def _key(self, question: Lease) -> Hashable:
        return question.id

    def _items(self, question: Lease) -> set[str]:
        ids = self.service.items.ids
        return {ids[item] for item in question.question.items}

    def _pair(self, question: Lease, *, turned: bool) -> Pair:
        asked = question.question
        if asked.further:  # what others answered of another size may be asked again
            check_takes_sets(self.judge, len(asked.items))
        return pair_of(self.service, question, turned=turned)

    def _is_fresh(self, question: Lease) -> bool:
        return question.question.strategy in CHECKS

    @property
    def _some_time(self) -> float:
        return self.service.lease_seconds / 4

    def _hold(self) -> None:
        """Keep the pairs, so that nobody else gets them meanwhile."""
        self._patience.do(partial(self.service.held, self.annotator))

    def _keep_up(self) -> None:
        self.service.keep_up(side_by_side=not self.judge.in_caller_thread)

    def _keep_answer(self, question: Lease, verdicts: Sequence[Verdict]) -> None:
        asked = question.question
        self._mark()
        try:
            new = self._answer(question, self._judgement(asked, verdicts[0]))
        except LeaseError as error:
            self._failed_at.add(question.id)
            self.failed += 1
            self._notify(str(error))
            return
        if new and len(verdicts) > 1:
            collection = self.service.collection
            second = replace(self._judgement(asked.turned, verdicts[1]), at=collection.clock())
            # By its id it is not appended twice if the reply of the first commit was lost.
            ids = [secrets.token_hex(8)]
            self._patience.do(partial(collection.append, [second], ids=ids))
            self._patience.do(self.service.sync)
        self.answered += new
        self.n_preferences += new and verdicts[0].answer in ORDER_ANSWERS
        if not new:
            self.notify(ANSWERED)

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
        is_stored_before = attempts > 1 and _choice(stored.judgement) == _choice(judgement)
        return stored.new or is_stored_before

    def _leased_again(self, question: Question) -> list[Lease]:
        """A new lease of a question: a server that was killed may have lost the old one."""
        self._patience.do(self.service.sync)
        if not all(map(self.service.session.allows, question.pairs)):
            return []
        return self._patience.do(partial(self.service.lease, self.annotator, [question]))

    def _release(self) -> None:
        self._patience.do(partial(self.service.release, self.annotator))

    def _mark(self) -> None:
        mark_model(self.service, self.annotator, self._patience.do)

    def _judgement(self, question: Question, verdict: Verdict) -> Judgement:
        return verdict.judgement(question, self.annotator)

    def _progress(self) -> tuple[str, str]:
        if self.number is None:
            left = self.service.remaining.range_left
        else:
            left = str(self.number - self.answered)
        return f"{self.answered} answered", "" if left in ("", "0") else f"{left} left"

    def _reason(self) -> tuple[EndReason, str]:
        remaining = self.service.remaining
        if self.fault:
            return EndReason.INTERRUPTED if self._is_interrupted else EndReason.FAULT, self.fault
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
    """What a judgement says."""
    return judgement.answer, judgement.best, judgement.worst


def mark_model(
    service: LabellingService, annotator: str, do: Callable[..., object] = operator.call
) -> None:
    """Mark a new annotator as a model whose probabilities are measurements.

    What somebody has decided about the annotator stays, and so does an annotator who has answered.

    Args:
        service: the service of the collection.
        annotator: the name of the annotator.
        do: calls each step, which goes to the store.
    """
    if service.session.answered(annotator):
        return
    marks = []
    if annotator not in service.study.models:
        marks.append(Decision("model", annotator))
    if annotator not in service.study.probabilities:
        marks.append(Decision("p-measurement", annotator))
    if marks:
        with suppress(StudyError):  # a run beside this one, under the same name, was faster
            do(partial(service.collection.decide, *marks))
        do(service.sync)


def example_pairs(service: LabellingService, n: int) -> list[Pair]:
    """Questions as a judge would be asked them: of the first items of a group, then random.

    They have as many items as the study asks about, or as the group has.

    Args:
        n: number of questions, 1 at least.
    """
    groups = Groups(service.items.groups, len(service.items), without=service.study.retired)
    size, rng = service.study.set_size, np.random.default_rng(0)
    first = next(members[:size].tolist() for members in groups.members if len(members) > 1)
    drawn = np.transpose(groups.draw(rng, n - 1)).tolist()
    if size > 2:
        drawn = [_grown(pair, groups.members[groups.of[pair[0]]], size, rng) for pair in drawn]
    return [
        pair_of(service, Lease("example", Question(i, j, "random", 1.0, further=(*rest,)), "", 0.0))
        for i, j, *rest in [first, *drawn]
    ]


def _grown(pair: Sequence[int], members: I64, size: int, rng: np.random.Generator) -> list[int]:
    """A pair and random other members of its group, as far as there are so many."""
    others = [item for item in rng.permutation(members).tolist() if item not in pair]
    return [*pair, *others[: size - len(pair)]]
