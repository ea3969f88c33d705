"""Write questions to files for a provider's batch endpoint, and read the files of answers.

    write_batch: questions, chosen together -> leases without an end -> requests.jsonl
    read_batch: answers.jsonl -> each answer under its lease

`Batch.about` holds the model, the facts that are stored with each answer, the price of a million
tokens, and the mean number of tokens in a prompt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from sortnet.errors import DataError, JudgementError, LeaseError, SortNetError, StoreError
from sortnet.files import refuse_output, shown, write_file
from sortnet.judges import LanguageModel
from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.batch_lines import (
    AnswerLine,
    RequestId,
    answer_lines,
    is_same_model,
    request_line,
)
from sortnet.judges.budget import Budget, amount
from sortnet.judges.estimate import CallEstimate, estimate_calls
from sortnet.judges.faults import Reason, failure_in
from sortnet.judges.model_answers import CHARACTERS, parse_reply
from sortnet.judges.model_server import TOPS
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import request_body, without_secrets
from sortnet.judges.unanswered import AnswerRecord, Unanswered
from sortnet.judges.verdicts import Fault, Refused, Verdict, unanswered
from sortnet.messages import count, note, printable
from sortnet.preference import Question
from sortnet.preference.goal import Goal
from store.asking.service_questions import append_once, asked_question_of, mark_model
from store.collections.batches import Batch
from store.collections.collection import Collection
from store.collections.leases import Lease
from store.service.annotators import created_annotator
from store.service.labelling import LabellingService

LARGEST_BATCH = 50_000  # most requests that providers accept in a file
_TOGETHER = 200  # lines of answers that are stored in one transaction
_LONGEST_COMMENT = 200  # characters of a server's words in a message
_MOST_NOTES = 20  # most messages about single answers of a file
_OUTCOMES = ("stored", "repeated", "failed", "refused")  # of a line


@dataclass(frozen=True)
class WrittenBatch:
    """The result of writing the requests of a batch to a file.

    Attributes:
        name: name of the batch.
        annotator: name under which the model's answers are stored.
        questions: number of questions in the file.
        estimate: calls, tokens and cost of the requests in the file.
        file: path of the requests.
        limit: the limit that ended the batch, in words; empty if no limit ended it.
    """

    name: str
    annotator: str
    questions: int
    estimate: CallEstimate
    file: str
    limit: str = ""


def write_batch(
    service: LabellingService, judge: LanguageModel, annotator: str, n: int, file: str
) -> WrittenBatch:
    """Choose questions for a model, lease them without an end, and write the requests to a file.

    Args:
        service: a service that is fitted to the answers so far, and chooses no other questions
            afterwards: its session gets answers that are expected.
        annotator: name under which the model's answers are stored.
        n: most questions to write. Fewer are written if there are fewer questions, if a quota is
            smaller, or if more would exceed the limits of calls and cost by the estimate.
        file: path of the new file, JSON lines for a provider's batch endpoint; it must not exist.

    Raises:
        SortNetError: if there is nothing to ask, the prompt is for two items and questions are
            about more, a limit allows no question, or the file cannot be written; then nothing
            is leased.

    Cost: the choice of the questions.
    """
    prompt = Prompt(judge.prompt, judge.image_size)
    orders = (False, True) if judge.both_orders else (False,)  # True: the items are reversed
    _refuse_batch(service, judge, prompt, annotator, n * len(orders), file)
    collection = service.collection
    questions = _choose_questions(service, annotator, n)
    if not questions:
        raise SortNetError(f"{collection.name}: {service.why_nothing_left(annotator)}")
    examples = [asked_question_of(service, Lease("", question, "", 0.0)) for question in questions]
    estimate = estimate_calls(replace(judge, max_calls=None), len(examples), examples)
    n_allowed, limit = _limit(judge, estimate)
    if not n_allowed:
        raise SortNetError(f"{limit} allows no question")
    # What is stored with the batch, for the later reading of its answers.
    about = {
        "model": judge.model,
        "facts": judge.facts(),
        "structured": judge.structured,
        "price_in": judge.price_in,
        "price_out": judge.price_out,
        "tokens": estimate.tokens_in // estimate.calls,  # of a prompt, in the mean
        "worst": service.study.worst,
        "orders": len(orders),
    }
    with created_annotator(collection, annotator):
        with collection.locked():
            name = collection.add_batch(annotator, about)
            allowed = questions[:n_allowed]
            # A question that another process has leased meanwhile is left out.
            leases = collection.lease(
                annotator, allowed, math.inf, after=service.last_number, batch=name
            )
            if not leases:
                raise SortNetError(f"{collection.name}: {service.why_nothing_left(annotator)}")

        def write_lines(path: Path) -> None:
            with path.open("w", encoding="utf-8", newline="") as requests:
                requests.writelines(_request_lines(service, judge, prompt, leases, orders))

        try:
            write_file(file, write_lines)
        except BaseException:  # an interrupt must leave no batch, too
            collection.remove_batch(name)
            raise
    estimate = estimate_calls(judge, len(leases), examples)
    return WrittenBatch(name, annotator, len(leases), estimate, file, limit)


def _refuse_batch(
    service: LabellingService,
    judge: LanguageModel,
    prompt: Prompt,
    annotator: str,
    n_requests: int,
    file: str,
) -> None:
    """Raise SortNetError with the reason if a batch of requests cannot be written.

    This check comes before the questions are chosen, which takes long.
    """
    refuse_output(file)
    if Path(file).exists():
        raise SortNetError(f"cannot write {file!r}: it exists: name another file")
    if n_requests > LARGEST_BATCH:
        raise SortNetError(f"a batch of {n_requests:,} requests: {LARGEST_BATCH:,} at most")
    why_closed = service.why_closed(annotator)
    if why_closed:
        raise SortNetError(f"{service.collection.name}: {why_closed}")
    why_not = prompt.why_not_about(service.study.set_size)
    if why_not:
        raise SortNetError(f"{judge.model} {why_not}")


def _choose_questions(service: LabellingService, annotator: str, n: int) -> list[Question]:
    """Choose up to n questions within the annotator's quota, about pairs that nobody has leased."""
    service.sync()
    session = service.session
    live_leases = service.collection.leases()
    n_in_quota = service.study.left(annotator, session.answered(annotator))
    if n_in_quota is not None:
        n_leased = sum(lease.annotator == annotator for lease in live_leases)
        n = min(n, n_in_quota - n_leased)
    busy = {pair for lease in live_leases for pair in lease.question.pairs}
    return session.ask(annotator, n, busy=busy)


def _limit(judge: LanguageModel, estimate: CallEstimate) -> tuple[int, str]:
    """Return how many of the estimated questions the limits of calls and cost allow.

    The second value is the limit in words; it is empty if all questions are within the limits.
    """
    limits = {estimate.pairs: ""}
    if judge.max_calls is not None:
        n_allowed = judge.max_calls * estimate.pairs // estimate.calls
        limits.setdefault(n_allowed, f"the limit of {count(judge.max_calls, 'call')}")
    if judge.max_cost is not None and estimate.cost:
        n_allowed = int(estimate.pairs * judge.max_cost / estimate.cost)
        limits.setdefault(n_allowed, f"the limit of the cost, {amount(judge.max_cost)},")
    return min(limits.items())


def _request_lines(
    service: LabellingService,
    judge: LanguageModel,
    prompt: Prompt,
    leases: Sequence[Lease],
    orders: Sequence[bool],
) -> Iterator[str]:
    """Make a line for each request; the ids of the leases identify the requests."""
    for lease in leases:
        for order, turned in enumerate(orders, 1):
            question = asked_question_of(service, lease, turned=turned)
            form = AnswerForm.of(question)
            body = request_body(
                judge.model,
                prompt.messages(question),
                judge.request,
                response_format=form.response_format if judge.structured else None,
                n_tops=TOPS[0] if judge.logprobs else 0,  # the highest number
            )
            assert lease.batch is not None
            yield request_line(RequestId(lease.batch, lease.id, order), body)


def _batches(collection: Collection) -> dict[str, tuple[Batch, Collection]]:
    """Return {name: batch and its collection} of a collection and all its criteria."""
    with collection.database.one_state():
        return {
            batch.name: (batch, criterion)
            for criterion in collection.asked()
            for batch in criterion.batches()
        }


def open_batches(collection: Collection) -> list[Batch]:
    """List the batches with unanswered questions, of a collection and all its criteria."""
    return [batch for batch, _ in _batches(collection).values() if batch.n_open]


def cancel_batch(collection: Collection, name: str) -> int:
    """Release the unanswered questions of a batch, and return the number of these questions.

    Raises:
        StoreError: if the collection has no such batch, or the batch has no unanswered question.
    """
    open_names = [batch.name for batch in open_batches(collection)]
    if name not in open_names:
        names = ", ".join(open_names) or "none"
        raise StoreError(
            f"collection {collection.name!r} has no open batch {name[:40]!r}; open are {names}"
        )
    _, criterion = _batches(collection)[name]
    return criterion.cancel_batch(name)


@dataclass
class BatchAnswers:
    """Reads files of answers to batches, and stores each answer under the lease of its question.

    Attributes:
        collection: the collection that has the batches.
        goal: the goal at which labelling stops; None: the goal of the study.
        notify: called with a line about each answer that is not stored.
        counts: {`stored`: new answers, skips included, `repeated`: answers that had been stored
            before, `failed`: requests without an answer, whose questions may be asked again,
            `refused`: answers that belong to no open question of the collection}.
        skipped: {reason: number of new skips}.
        annotators: {annotator: number of new answers}.
        services: {name of a criterion: its service} for the criteria with answers.
    """

    collection: Collection
    goal: Goal | None = None
    notify: Callable[[str], None] = note
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0))
    skipped: Counter[str] = field(default_factory=Counter)
    annotators: Counter[str] = field(default_factory=Counter)
    services: dict[str, LabellingService] = field(default_factory=dict)
    _record: AnswerRecord = field(default_factory=AnswerRecord)
    _n_notes: int = 0  # number of messages about single answers of the file
    _file: str = ""

    def __post_init__(self) -> None:
        self._batches = _batches(self.collection)

    def read(self, file: str) -> None:
        """Store the answers of a file; a line that cannot be used is noted and skipped.

        If the process is killed meanwhile, the first answers are stored. Reading the same file
        again stores the rest. The first 20 lines that cannot be used have a message each, and one
        message tells the number of all further lines.

        Raises:
            DataError: if the file cannot be read, or no line answers a batch of this collection.
        """
        self._file = file
        before = dict(self.counts)
        for (name, _), lines in groupby(answer_lines(Path(file)), _transaction_of):
            self._store_lines(name, list(lines))
        if self._n_notes > _MOST_NOTES:
            self.notify(f"{file}: and {self._n_notes - _MOST_NOTES} more lines of this kind")
        if {**before, "refused": 0} == {**self.counts, "refused": 0}:
            raise DataError(
                f"{file}: none of its answers belongs to an open question of {self.collection.name}"
            )

    def settle(self) -> None:
        """Fit the models of all criteria to the stored answers."""
        for service in self.services.values():
            service.settle()

    def close(self) -> None:
        """Close the services of all criteria."""
        for service in self.services.values():
            service.close()

    def why_unanswered(self) -> str:
        """Return why nearly all questions got no answer; empty if more of them got an answer."""
        return self._record.why_useless()

    def _store_lines(self, name: str, lines: Sequence[AnswerLine]) -> None:
        """Store the answers in lines of one batch, in one transaction.

        Args:
            name: name of the batch; empty: the lines answer no request of SortNet.
        """
        if name not in self._batches:
            self._refuse(name, lines)
            return
        batch, collection = self._batches[name]
        if collection.name not in self.services:
            service = LabellingService(collection, goal=self.goal)
            self.services[collection.name] = service
        service = self.services[collection.name]
        with collection.locked():
            for line in lines:
                try:
                    outcome, words = self._store_line(service, batch, line)
                except (LeaseError, JudgementError):
                    outcome = "refused"
                    words = f"its question is not one of batch {name}, or was taken back meanwhile"
                self._note(line, outcome, words)
        service.sync()

    def _refuse(self, name: str, lines: Sequence[AnswerLine]) -> None:
        """Count and note lines that belong to no batch of this collection."""
        owner = self.collection.collection_of_batch(name) if name else None
        origin = "another store, or was removed" if owner is None else f"collection {owner}"
        for number, line in enumerate(lines):
            words = f"batch {name} is of {origin}" if name else line.fault
            # One message is enough, if all lines are of the same batch.
            self._note(line, "refused", "" if name and number else words)

    def _store_line(
        self, service: LabellingService, batch: Batch, line: AnswerLine
    ) -> tuple[str, str]:
        """Store the answer in a line; release the question of a failed request.

        Returns:
            The outcome, one of `_OUTCOMES`, and what is noted about it.

        Raises:
            LeaseError, JudgementError: if the question has no lease of the batch.
        """
        id = line.id
        assert id is not None
        if batch.cancelled is not None:
            return "refused", f"batch {batch.name} was cancelled"
        if id.order > batch.about.get("orders", 2):
            return "refused", f"batch {batch.name} asks in one order of the items, not in both"
        question = service.collection.question_of_batch(batch.name, id.lease)
        form = AnswerForm(len(question.items), batch.about.get("worst", False))
        try:
            verdict = _read_verdict(line, batch, form)
        except Refused as refusal:
            return "refused", str(refusal)
        except Fault as fault:
            if id.order == 1:  # a request in the reverse order has no lease to release
                service.collection.release(batch.annotator, [id.lease])
            return "failed", str(fault)
        mark_model(service, batch.annotator)
        if id.order == 1:
            judgement = verdict.judgement(question, batch.annotator)
            is_new = service.answer(id.lease, judgement).new
        else:
            judgement = verdict.judgement(question.turned, batch.annotator)
            is_new = append_once(service, str(id), judgement)
        if not is_new:
            return "repeated", "its question was answered before"
        self.annotators[batch.annotator] += 1
        items = frozenset(service.items.ids[k] for k in question.items)
        if verdict.why is None:
            self._record.note_answer(items)
            return "stored", ""
        self.skipped[verdict.why.value] += 1
        comment = (verdict.comment or "")[:_LONGEST_COMMENT]
        left_out = self._record.note_unanswered(Unanswered(items, verdict.why, comment))
        return "stored", "".join(f"item {item!r} got no answer: {comment}" for item in left_out)

    def _note(self, line: AnswerLine, outcome: str, text: str) -> None:
        """Count an outcome, and send a message about the line, if there are not too many."""
        self.counts[outcome] += 1
        self._n_notes += bool(text)
        if text and self._n_notes <= _MOST_NOTES:
            self.notify(f"{self._file}, line {line.number}: {printable(without_secrets(text))}")


def _transaction_of(line: AnswerLine) -> tuple[str, int]:
    """Return a key that is the same for consecutive lines to store in one transaction.

    These lines are of the same batch, and one of a few hundred lines together, because one
    transaction for many answers is faster. The name is empty if a line answers no request.
    """
    return "" if line.id is None else line.id.batch, (line.number - 1) // _TOGETHER


def _read_verdict(line: AnswerLine, batch: Batch, form: AnswerForm) -> Verdict:
    """Read the verdict in a line of answers, with its cost and the facts to store with it.

    An answer without a readable verdict counts as a skip, and so does a prompt that was too long or
    refused for its content.

    Args:
        form: the form of the answers that the request asked for.

    Raises:
        Fault: if the request has no answer.
        Refused: if another model has answered.
    """
    batch_facts = batch.about  # see `write_batch` for the keys
    meta: dict[str, Any] = {
        "model": batch_facts["model"],
        "batch": batch.name,
        **batch_facts["facts"],
    }
    failure = failure_in(line.status, line.body)
    if failure is not None:
        words = without_secrets(failure.message)
        if failure.reason in (Reason.TOO_LONG, Reason.FILTERED):
            return unanswered(failure.reason, words, meta=meta)
        raise Fault(f"the request failed: {words[:_LONGEST_COMMENT]}")
    reply = parse_reply(line.body)
    if not is_same_model(reply.model, batch_facts["model"]):
        raise Refused(
            f"an answer of the model {shown(reply.model)}, and batch {batch.name} asks "
            f"{shown(batch_facts['model'])}"
        )
    reading = form.read(reply.choice)
    # A server that does not count tokens reports 0: the numbers are estimated.
    tokens_in = reply.tokens_in or batch_facts["tokens"]
    tokens_out = reply.tokens_out or len(reading.text) // CHARACTERS + 1
    meta["tokens"] = [tokens_in, tokens_out]
    meta["calls"] = 1
    if batch_facts["structured"]:
        meta["structured"] = True
    budget = Budget(price_in=batch_facts["price_in"], price_out=batch_facts["price_out"])
    cost = budget.cost_of(tokens_in, tokens_out)
    return form.verdict(reading, meta, without_secrets, cost=cost)
