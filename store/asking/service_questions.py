"""Ask machines the questions that a labelling service chooses, in turn if there are several."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np

from sortnet.errors import StudyError
from sortnet.judges.asked_question import AskedQuestion, asked_question
from sortnet.judges.trial import N_EXAMPLES
from sortnet.judges.verdicts import Verdict
from sortnet.messages import count
from sortnet.preference import Judgement, Question
from sortnet.preference.groups import Groups
from sortnet.preference.study import Decision
from store.asking.machine import EndReason, Machine, judgements_of
from store.collections.leases import Lease
from store.service.costs import parse_meta
from store.service.labelling import LabellingService, created_annotator
from store.service.sentences import answers_left, why

_MOST_NAMED = 3  # items that a text names
_ANSWERS_A_TURN = 20  # answers of one judge before the next judge is asked
_LEASED_TOGETHER = 5  # questions leased together for a single worker


@dataclass
class ServiceQuestions:
    """The questions of a labelling service, as `Questions` for machines.

    Attributes:
        service: chooses and leases the questions, and stores the answers.
    """

    service: LabellingService
    _renew_at: float = math.inf  # time of the monotonic clock when leases are renewed

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the items."""
        return self.service.items.ids

    @property
    def is_enough(self) -> bool:
        """Whether the goal is reached by the last fit."""
        return self.service.remaining.stop

    @contextmanager
    def opened(self, annotator: str) -> Iterator[None]:
        """Create the annotator, who is removed at the end without an answer."""
        with created_annotator(self.service.collection, annotator):
            try:
                yield
            finally:
                self.service.release(annotator)

    def begin_turn(self, n_workers: int) -> int:
        """Let fits run beside several workers, and return how many questions may be open."""
        self.service.fits_beside = n_workers > 1
        self._renew_at = time.monotonic() + self.service.lease_seconds / 4
        if n_workers > 1:
            return 2 * n_workers
        # A slow fit lacks the latest answers anyway. So several questions may be chosen and leased
        # together before any of them is answered, which saves transactions.
        return 1 if self.service.session.quick else _LEASED_TOGETHER

    def answered_items(self, annotator: str) -> set[str]:
        """Return the ids of the items that the annotator has put in an order with others."""
        judgements = self.service.judgements()
        is_order = judgements.is_answer & judgements.by(annotator)
        items = judgements.items[is_order]
        return {self.ids[item] for item in np.unique(items).tolist() if item >= 0}

    def next(self, annotator: str, most: int, taken_ids: Collection[str]) -> list[Lease]:
        """Lease up to `most` questions whose leases are not taken."""
        # The service returns all unanswered questions of the annotator first. Open and failed
        # questions are among these, so more leases than `most` are needed.
        leases = self.service.next(annotator, most + len(taken_ids))
        return [lease for lease in leases if lease.id not in taken_ids][:most]

    def asked(self, lease: Lease, *, turned: bool) -> AskedQuestion:
        """Write a leased question as a worker reads it; `turned` reverses the order of items."""
        return asked_question_of(self.service, lease, turned=turned)

    def answer(self, lease: Lease, verdicts: Sequence[Verdict]) -> bool:
        """Store the verdicts on a leased question, and return False if it was answered before.

        Raises:
            LeaseError: if the lease is lost.
        """
        service = self.service
        judgement, *turned = judgements_of(lease, verdicts)
        mark_model(service, lease.annotator)
        if not service.answer(lease.id, judgement).new:
            return False
        for of_order in turned:
            append_once(service, f"{lease.id}-2", of_order)
        if turned:
            service.sync()
        return True

    def attend(self, annotator: str) -> None:
        """Fit the model to the new answers, if there are many, and renew the leases in time."""
        now = time.monotonic()
        if now >= self._renew_at:
            self._renew_at = now + self.service.lease_seconds / 4
            self.service.next(annotator, 0)  # renews leases
        self.service.fit_if_due()

    def left(self) -> str:
        """Describe how many answers are left until the goal is reached."""
        return answers_left(self.service.remaining)


def ask_in_turn(machines: Sequence[Machine], service: LabellingService, number: int | None) -> None:
    """Let machines answer in turn, until the goal is reached or none of them can be asked.

    Of several machines a turn has 20 answers, or an equal share of the answers that are left. A
    judge that fails, has spent its budget or has no question left is not asked again, and the
    others go on.

    Args:
        machines: machines that ask the questions of the service.
        service: the service, which is fitted to all answers at the end.
        number: number of answers of all machines together; None: until the goal is reached.

    Raises:
        SortNetError: if a judge cannot be started, or the store stays away.
        KeyboardInterrupt: at Ctrl-C, after the answers so far are stored.
    """
    with ExitStack() as stack:
        for machine in machines:
            stack.enter_context(machine.opened())
        _take_turns(machines, service, number)
        service.settle()


def _take_turns(machines: Sequence[Machine], service: LabellingService, number: int | None) -> None:
    """Ask machines in rounds, in each of which every judge that can be asked has a turn."""
    most = math.inf if number is None else number
    in_round = [*machines]
    while in_round:
        n_left = most - sum(machine.answered for machine in machines)
        turn = n_left if len(in_round) == 1 else min(_ANSWERS_A_TURN, n_left / len(in_round))
        for machine in tuple(in_round):
            n_left = most - sum(machine.answered for machine in machines)
            if service.remaining.stop:
                service.settle()  # answers that came in after the goal may take it back
            if n_left == 0 or service.remaining.stop:
                return
            size = min(turn, n_left)
            machine.ask(None if size == math.inf else math.ceil(size))
            if machine.reason not in (EndReason.NUMBER, EndReason.GOAL):
                in_round.remove(machine)


def why_ended(service: LabellingService, machine: Machine) -> str:
    """Tell in words, with numbers, why a machine is not asked any more."""
    reason = machine.reason
    if machine.fault:
        return machine.fault
    if reason is EndReason.BUDGET:
        return machine.judge.budget.why()
    if reason is not EndReason.NOTHING_LEFT:
        return why(service.remaining)
    why_none = service.why_nothing_left(machine.annotator)
    if machine.failed:
        why_none = f"{why_none}, but for {machine.failed} that failed"
    left_out = sorted(machine.judge.record.left_out)
    if left_out:
        names = " and ".join(map(repr, left_out[:_MOST_NAMED]))
        why_none = f"{why_none}, but for those about {count(len(left_out), 'item')}, {names}"
    return why_none


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


def mark_model(service: LabellingService, annotator: str) -> None:
    """Decide that a new annotator is a model, and how the fit uses the model's probabilities.

    Each probability counts as a measurement of the score difference of two items. Earlier decisions
    about the annotator stay, and nothing is decided about an annotator who has answered.
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
            service.collection.decide(*decisions)
        service.sync()


def append_once(service: LabellingService, name: str, judgement: Judgement) -> bool:
    """Store an answer that has no lease, and return whether it is new.

    Args:
        name: name of the question and its order, which keeps the answer from being stored twice.
    """
    collection = service.collection
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return bool(collection.append([replace(judgement, at=collection.clock())], ids=[digest]))


def calls_so_far(service: LabellingService, annotator: str) -> int:
    """Count the calls that a judge's answers in the collection took.

    An answer without a stored number of calls counts as one call.
    """
    judgements = service.judgements()
    if annotator not in judgements.annotators:
        return 0
    texts = judgements.meta[judgements.by(annotator)]
    return sum(parse_meta(text or "{}").get("calls", 1) for text in texts)


def example_questions(service: LabellingService) -> list[AskedQuestion]:
    """Make example questions that a judge could be asked, to show one and to estimate the cost.

    The first example is about the first items of a group, the other examples are about random
    items. An example has as many items as the study's questions, or all items of a smaller group.

    Args:
        service: the service of a collection with items to compare.
    """
    groups = Groups(service.items.groups, len(service.items), without=service.study.retired)
    groups_to_compare = [members for members in groups.members if len(members) > 1]
    rng = np.random.default_rng(0)
    examples = []
    for number in range(N_EXAMPLES):
        members = groups_to_compare[number % len(groups_to_compare)]
        shuffled = rng.permutation(members) if number else members
        items = tuple(shuffled[: service.study.set_size].tolist())
        lease = Lease("example", Question(items, "random", 1.0), "", 0.0)
        examples.append(asked_question_of(service, lease))
    return examples
