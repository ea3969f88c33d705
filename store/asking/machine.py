"""Let machine judges answer questions of a labelling service, each under an annotator's name.

a session chooses a question -> a lease -> the judge's worker -> the answer is stored
                             -> the next question
"""

from __future__ import annotations

import json
import math
import operator
import secrets
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

import numpy as np

from sortnet.errors import LeaseError, SortNetError, StudyError, UnansweredError
from sortnet.judges.asked_question import AskedQuestion, asked_question
from sortnet.judges.connection import JudgeConnection, Worker
from sortnet.judges.verdicts import Verdict
from sortnet.judges.worker_pool import WorkerPool
from sortnet.messages import ANSWERED, count
from sortnet.preference import Answer, Judgement, Question
from sortnet.preference.base import ORDER_ANSWERS
from sortnet.preference.groups import Groups
from sortnet.preference.study import Decision
from store.asking.patience import StorePatience
from store.collections.collection import Stored
from store.collections.leases import Lease
from store.service.annotators import created_annotator
from store.service.labelling import LabellingService
from store.service.sentences import answers_left, why

_MOST_NAMED = 3  # items that a text names
_ANSWERS_A_TURN = 20  # answers of one judge before the next judge is asked
_LEASED_TOGETHER = 5  # questions leased together for a judge in the caller's thread


class EndReason(Enum):
    """The reason why a labelling ended."""

    GOAL = "the goal is reached"
    NUMBER = "as many answers as were wanted are given"
    BUDGET = "the budget of calls or cost is spent"
    NOTHING_LEFT = "there is no question left for the annotator"
    FAULT = "the judge failed"
    UNANSWERED = "the judge answered nearly nothing"
    INTERRUPTED = "it was interrupted"


_FAULTS = (EndReason.FAULT, EndReason.UNANSWERED, EndReason.INTERRUPTED)


@dataclass(frozen=True)
class LabellingEnd:
    """The end of a labelling: its reason, and the numbers of answers and failures.

    Attributes:
        reason: why the labelling ended.
        text: the reason in words, with numbers.
        answered: number of answered questions.
        n_preferences: number of answers that are neither `skip` nor `cant-say`.
        failed: number of questions that got no answer, and may be asked again.
        skipped: {reason: number of skips}.
    """

    reason: EndReason
    text: str
    answered: int
    n_preferences: int
    failed: int
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def fault(self) -> str:
        """The error or interrupt that ended the labelling; empty if there was none."""
        return self.text if self.reason in _FAULTS else ""

    @property
    def error(self) -> type[SortNetError]:
        """The class of the error that reports the fault."""
        return UnansweredError if self.reason is EndReason.UNANSWERED else SortNetError


def check_takes_sets(judge: JudgeConnection, set_size: int) -> None:
    """Raise SortNetError if a judge cannot be asked questions about `set_size` items."""
    why_not = judge.why_not_about(set_size)
    if why_not:
        raise SortNetError(f"{judge.name} {why_not}")


def asked_question_of(
    service: LabellingService, lease: Lease, *, turned: bool = False
) -> AskedQuestion:
    """Write a leased question as a judge reads it; `turned` reverses the order of the items."""
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
        further=question.items[2:],
        worst=study.worst,
    )


@dataclass(kw_only=True)
class Judging(WorkerPool[Lease]):
    """Asks a judge's workers the questions of a labelling service, and stores their answers.

    Questions at which a worker fails are released. While the store's server is away, the workers
    keep their answers and wait.

    Attributes:
        service: chooses the questions and stores the answers.
        annotator: name under which the answers are stored.
        n_preferences: number of answers that are neither `skip` nor `cant-say`.
    """

    service: LabellingService
    annotator: str
    n_preferences: int = 0
    _most_answers: int | None = None  # `answered` at which `ask` ends; None: at the goal
    _workers: Sequence[Worker] = ()
    _was_asked: bool = False
    _is_interrupted: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        database = self.service.collection.database
        self._patience = StorePatience(database, self.judge.patience, self.judge.name, self.notify)

    @contextmanager
    def opened(self) -> Iterator[Judging]:
        """Keep the workers and their connections open until the end of the `with` block.

        The annotator is added if the collection has none of this name, and removed at the end
        without an answer. Open questions are released at the end.

        Raises:
            SortNetError: if the judge cannot be started, or the questions are about more items than
                the judge can be asked about.
        """
        if self.service.study.set_size > 2:
            check_takes_sets(self.judge, self.service.study.set_size)
        with (
            created_annotator(self.service.collection, self.annotator),
            self.judge.open_connections(),
        ):
            self._workers = self.judge.make_workers()
            try:
                yield self
            finally:
                for worker in self._workers:
                    worker.end()
                self._release()

    def ask(self, number: int | None = None) -> LabellingEnd:
        """Ask the judge until the goal is reached, `number` questions are answered, or it fails.

        Ctrl-C ends the asking after the answers so far are stored.

        Args:
            number: number of questions to answer now; None: until the goal is reached.

        Raises:
            SortNetError: if the store stays away.
        """
        self._most_answers = None if number is None else self.answered + number
        self._was_asked = True
        self.service.fits_beside = len(self._workers) > 1
        try:
            is_settled = False
            while not is_settled:
                self.ask_all(self._workers)
                is_settled = bool(self.fault) or not self.service.remaining.stop
                if not is_settled:
                    # Answers that came in after the goal was reached may take it back.
                    self.service.settle()
                    is_settled = self.service.remaining.stop
        except KeyboardInterrupt:
            self._is_interrupted = True
            self.fault = "interrupted"
        return self.end()

    def end(self) -> LabellingEnd:
        """Return how the asking ended, with the numbers of all answers so far."""
        reason, text = self._reason()
        return LabellingEnd(
            reason, text, self.answered, self.n_preferences, self.failed, dict(self.skipped)
        )

    def _most_open(self, n_workers: int) -> int:
        """Return the largest number of questions that are leased and not answered yet.

        The number is 5 for a judge that answers in the caller's thread, if fits are slow.
        """
        # A slow fit lacks the latest answers anyway. So several questions may be chosen and leased
        # together before any of them is answered, which saves transactions.
        if self.judge.in_caller_thread and not self.service.session.quick:
            return _LEASED_TOGETHER
        return super()._most_open(n_workers)

    def _stop_waiting(self) -> None:
        """At an interrupt, wait for the store's server no longer."""
        self._patience.stop()

    def _next(self, most: int) -> list[Lease]:
        """Lease up to `most` questions that no worker is answering, and that are not set aside."""
        if self.is_over:
            return []
        with self._lock:
            excluded_ids = self._set_aside | self._open
            if self._most_answers is not None:  # the answers to open questions will count, too
                n_to_come = len(self._open) + len(self._kept_back)
                most = min(most, self._most_answers - self.answered - n_to_come)
        if most <= 0:
            return []
        # The service returns all unanswered questions of the annotator first. Open and failed
        # questions are among these, so more leases than `most` are needed.
        next_leases = partial(self.service.next, self.annotator, most + len(excluded_ids))
        leases = self._patience.retry_while_away(next_leases)
        return [lease for lease in leases if lease.id not in excluded_ids][:most]

    @property
    def is_over(self) -> bool:
        """Whether nothing more is asked, because the judge has ended or the goal is reached."""
        return super().is_over or self.service.remaining.stop

    @property
    def _has_all(self) -> bool:
        """Whether the goal is reached, or all wanted questions are answered, skips included."""
        n_answered = self.answered + len(self._kept_back)
        return self.service.remaining.stop or n_answered == self._most_answers

    def _items_answered_before(self) -> set[str]:
        """Return the ids of the items that the annotator has put in an order with others."""
        judgements = self.service.judgements()
        is_order = judgements.is_answer & judgements.by(self.annotator)
        items = judgements.items[is_order]
        ids = self.service.items.ids
        return {ids[item] for item in np.unique(items).tolist() if item >= 0}

    def _key(self, question: Lease) -> Hashable:
        """Identify a leased question by the id of its lease."""
        return question.id

    def _items(self, question: Lease) -> set[str]:
        """Return the ids of a question's items."""
        ids = self.service.items.ids
        return {ids[item] for item in question.question.items}

    def _asked_question(self, question: Lease, *, turned: bool) -> AskedQuestion:
        """Write a leased question as a worker reads it; `turned` reverses the order of items."""
        # A repeated question may be about more items than new questions of the study are.
        n_items = len(question.question.items)
        if n_items > 2:
            check_takes_sets(self.judge, n_items)
        return asked_question_of(self.service, question, turned=turned)

    @property
    def _idle_seconds(self) -> float:
        """Seconds without an answer after which the leases are renewed."""
        return self.service.lease_seconds / 4

    def _on_idle(self) -> None:
        """Renew the annotator's leases, so that nobody else gets the same questions meanwhile."""
        self._patience.retry_while_away(partial(self.service.held, self.annotator))

    def _after_answers(self) -> None:
        """Fit the model to the new answers, if there are many."""
        self.service.fit_if_due()

    def _keep_answer(self, question: Lease, verdicts: Sequence[Verdict]) -> None:
        """Store the verdict on a question; a second verdict is about the items in reverse order."""
        judgement = verdicts[0].judgement(question.question, self.annotator)
        mark_model(self.service, self.annotator, self._patience.retry_while_away)
        try:
            is_new = self._answer(question, judgement)
        except LeaseError as error:
            self._set_aside.add(question.id)
            self.failed += 1
            self._notify(str(error))
            return
        if not is_new:
            self.notify(ANSWERED)
            return
        if len(verdicts) > 1:  # the second verdict is about the items in reverse order
            turned = question.question.turned
            self._append(verdicts[1].judgement(turned, self.annotator))
        self.answered += 1
        if verdicts[0].answer in ORDER_ANSWERS:
            self.n_preferences += 1

    def _append(self, judgement: Judgement) -> None:
        """Store the answer about the items in reverse order, which has no lease."""
        collection = self.service.collection
        judgement = replace(judgement, at=collection.clock())
        # If the reply to the first commit is lost, the answer is appended again. The id keeps it
        # from being stored twice.
        ids = [secrets.token_hex(8)]
        self._patience.retry_while_away(partial(collection.append, [judgement], ids=ids))
        self._patience.retry_while_away(self.service.sync)

    def _answer(self, lease: Lease, judgement: Judgement) -> bool:
        """Store an answer, and return True; return False if another answer was stored before.

        Raises:
            LeaseError: if the lease is lost, and the question cannot be leased again.
        """
        n_attempts = 0

        def attempt() -> Stored:
            nonlocal n_attempts
            n_attempts += 1
            return self.service.answer(lease.id, judgement)

        try:
            stored = self._patience.retry_while_away(attempt)
        except LeaseError:
            if not self._patience.was_away:  # the lease was not lost while the server was away
                raise
            new_lease = self._lease_again(lease.question)
            if new_lease is None:
                raise
            answer_new_lease = partial(self.service.answer, new_lease.id, judgement)
            stored = self._patience.retry_while_away(answer_new_lease)
        if not stored.new and n_attempts > 1:
            # An earlier attempt may have stored this answer, and the server's reply was lost.
            return _choice(stored.judgement) == _choice(judgement)
        return stored.new

    def _lease_again(self, question: Question) -> Lease | None:
        """Lease a question again, because its lease was lost while the store's server was away.

        Returns:
            The new lease; None if the question may not be asked any more, or another annotator
            has a lease on its items.
        """
        # Another process may have retired an item since the question was chosen.
        self._patience.retry_while_away(self.service.sync)
        may_be_asked = all(self.service.session.allows(pair) for pair in question.pairs)
        if not may_be_asked:
            return None
        new_leases = self._patience.retry_while_away(
            partial(self.service.lease, self.annotator, [question])
        )
        return new_leases[0] if new_leases else None

    def _release(self) -> None:
        """Release the annotator's open questions, so that others can be asked."""
        self._patience.retry_while_away(partial(self.service.release, self.annotator))

    def _progress(self) -> tuple[str, str]:
        """Return the number of answers and the number of questions left, in words."""
        answered_text = f"{self.answered} answered"
        if self._most_answers is None:
            return answered_text, answers_left(self.service.remaining)
        n_left = self._most_answers - self.answered
        return answered_text, f"{n_left} left" if n_left else ""

    def _reason(self) -> tuple[EndReason, str]:
        """Return the reason why the labelling ended, and a text about it with numbers.

        If several reasons hold, the first of them counts.
        """
        remaining = self.service.remaining
        if self._is_interrupted:
            return EndReason.INTERRUPTED, self.fault
        if self.fault:
            return EndReason.UNANSWERED if self.is_unanswered else EndReason.FAULT, self.fault
        if self.answered == self._most_answers:
            return EndReason.NUMBER, why(remaining)
        why_no_more = self.judge.why_no_more()
        if why_no_more:
            return EndReason.BUDGET, why_no_more
        if remaining.stop:
            return EndReason.GOAL, why(remaining)
        if not self._was_asked:  # the other judges have given all answers that were wanted
            return EndReason.NUMBER, why(remaining)
        self._release()  # so that only the leases of other annotators are reported
        why_none = self._patience.retry_while_away(
            partial(self.service.why_nothing_left, self.annotator)
        )
        if self.failed:
            why_none = f"{why_none}, but for {self.failed} that failed"
        left_out = self.judge.record.left_out
        if left_out:
            why_none = f"{why_none}, but for those about {_names(left_out)}"
        return EndReason.NOTHING_LEFT, why_none


def ask_judges(judges: Sequence[Judging], number: int | None = None) -> list[LabellingEnd]:
    """Let judges answer in turn, until the goal is reached or none of them can be asked.

    With several judges a turn has 20 answers, or an equal share of the answers that are left. A
    judge that fails, has spent its budget or has no question left is not asked again, and the
    others go on. Ctrl-C ends the asking for all judges.

    Args:
        judges: the judges, with the same service.
        number: number of answers of all judges together; None: until the goal is reached.

    Returns:
        How the asking ended for each judge.

    Raises:
        SortNetError: if a judge cannot be started, or the store stays away.
    """
    service = judges[0].service
    with ExitStack() as stack:
        for judge in judges:
            stack.enter_context(judge.opened())
        _take_turns(judges, number)
        service.settle()
    return [judge.end() for judge in judges]


def _take_turns(judges: Sequence[Judging], number: int | None) -> None:
    """Ask judges in rounds, in each of which every judge that can be asked has a turn."""
    in_round = [*judges]
    while in_round:
        turn = None
        if len(judges) > 1:
            turn = _turn_size(_answers_left(judges, number), len(in_round))
        for judge in tuple(in_round):
            limits = [n for n in (turn, _answers_left(judges, number)) if n is not None]
            n_answers = min(limits, default=None)
            if n_answers == 0 or judge.service.remaining.stop:
                return
            end = judge.ask(n_answers)
            if end.reason is EndReason.INTERRUPTED:
                return
            if end.reason is not EndReason.NUMBER:
                in_round.remove(judge)


def _answers_left(judges: Sequence[Judging], number: int | None) -> int | None:
    """Return how many of `number` answers the judges are still to give; None if it is None."""
    return None if number is None else number - sum(judge.answered for judge in judges)


def _turn_size(n_left: int | None, n_judges: int) -> int:
    """Choose the number of answers in a turn: 20, or an equal share of those that are left.

    >>> _turn_size(None, 3), _turn_size(10, 3), _turn_size(500, 2)
    (20, 4, 20)
    """
    return _ANSWERS_A_TURN if n_left is None else min(_ANSWERS_A_TURN, math.ceil(n_left / n_judges))


def calls_so_far(service: LabellingService, annotator: str) -> int:
    """Count the calls that a judge's answers in the collection took.

    An answer without a stored number of calls counts as one call.
    """
    judgements = service.judgements()
    if annotator not in judgements.annotators:
        return 0
    facts = [json.loads(meta or "{}") for meta in judgements.meta[judgements.by(annotator)]]
    return sum(about.get("calls", 1) if isinstance(about, dict) else 1 for about in facts)


def _names(items: Collection[str]) -> str:
    """Name some items in a text; of many items only the number."""
    if len(items) > _MOST_NAMED:
        return count(len(items), "item")
    return " and ".join(f"item {item!r}" for item in sorted(items))


def _choice(judgement: Judgement) -> tuple[Answer, int | None, int | None]:
    """Return a judgement's answer, and its best and worst item if it is about several items."""
    return judgement.answer, judgement.best, judgement.worst


def mark_model(
    service: LabellingService, annotator: str, do: Callable[..., object] = operator.call
) -> None:
    """Decide that a new annotator is a model, and how the fit uses the model's probabilities.

    Each probability counts as a measurement of the score difference of two items. Earlier decisions
    about the annotator stay, and nothing is decided about an annotator who has answered.

    Args:
        do: calls each function that reads or writes the store, for example
            `StorePatience.retry_while_away`.
    """
    if service.session.answered(annotator):
        return
    decisions = []
    if annotator not in service.study.models:
        decisions.append(Decision("model", annotator))
    if annotator not in service.study.probabilities:
        decisions.append(Decision("p-measurement", annotator))
    if decisions:
        with suppress(StudyError):  # another process has marked the annotator meanwhile
            do(partial(service.collection.decide, *decisions))
        do(service.sync)


def example_questions(service: LabellingService, n: int) -> list[AskedQuestion]:
    """Make n example questions that a judge could be asked.

    The first example is about the first items of a group, the other examples are about random
    items. An example has as many items as the study's questions, or all items of a smaller group.

    Args:
        service: the service of a collection with items to compare.
        n: number of examples, 1 at least.
    """
    groups = Groups(service.items.groups, len(service.items), without=service.study.retired)
    set_size = service.study.set_size
    rng = np.random.default_rng(0)
    first_items = next(members[:set_size] for members in groups.members if len(members) > 1)
    examples = [_example(service, first_items.tolist())]
    left_items, right_items = groups.draw(rng, n - 1)
    for left, right in zip(left_items.tolist(), right_items.tolist(), strict=True):
        items = [left, right]
        if set_size > 2:
            items = _fill_up(items, groups, set_size, rng)
        examples.append(_example(service, items))
    return examples


def _fill_up(pair: list[int], groups: Groups, set_size: int, rng: np.random.Generator) -> list[int]:
    """Add random items of the pair's group, up to `set_size` items or the whole group."""
    group = groups.of[pair[0]]
    members = rng.permutation(groups.members[group]).tolist()
    further = [item for item in members if item not in pair]
    return pair + further[: set_size - len(pair)]


def _example(service: LabellingService, items: Sequence[int]) -> AskedQuestion:
    """Make a question about the given items, left to right, as a judge reads it."""
    question = Question(tuple(items), "random", 1.0)
    return asked_question_of(service, Lease("example", question, "", 0.0))
