"""Write questions to files for a provider's batch endpoint, and read the files of answers.

    write_batch: questions, chosen together -> leases without an end -> requests.jsonl
    read_batch: answers.jsonl -> each answer under its lease

`Batch.about` holds the model, the facts that are stored with each answer, the price of a million
tokens, and the mean number of tokens in a prompt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
from sortnet.judges.verdicts import Fault, Verdict, unanswered
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


class _RefusedError(SortNetError):
    """Raised for an answer that belongs to no open question of a batch, or is of another model."""


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
    _refuse_batch(service, judge, prompt, annotator, n, file)
    collection = service.collection
    questions = _choose_questions(service, annotator, n)
    if not questions:
        raise SortNetError(f"{collection.name}: {service.why_nothing_left(annotator)}")
    examples = [asked_question_of(service, Lease("", question, "", 0.0)) for question in questions]
    estimate_of_all = estimate_calls(replace(judge, max_calls=None), len(examples), examples)
    n_allowed, limit = _limit(judge, estimate_of_all)
    if not n_allowed:
        raise SortNetError(f"{limit} allows no question")
    about = _describe_batch(service, judge, estimate_of_all)
    with created_annotator(collection, annotator):
        name, leases = _lease_questions(service, annotator, questions[:n_allowed], about)
        try:
            write_file(file, partial(_write_requests, service, judge, prompt, leases))
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
    n: int,
    file: str,
) -> None:
    """Raise SortNetError with the reason if a batch of n questions cannot be written.

    This check comes before the questions are chosen, which takes long.
    """
    refuse_output(file)
    if Path(file).exists():
        raise SortNetError(f"cannot write {file!r}: it exists: name another file")
    n_requests = n * len(_orders(judge))
    if n_requests > LARGEST_BATCH:
        raise SortNetError(f"a batch of {n_requests:,} requests: {LARGEST_BATCH:,} at most")
    why_closed = service.why_closed(annotator)
    if why_closed:
        raise SortNetError(f"{service.collection.name}: {why_closed}")
    why_not = prompt.why_not_about(service.study.set_size)
    if why_not:
        raise SortNetError(f"{judge.model} {why_not}")


def _orders(judge: LanguageModel) -> tuple[bool, ...]:
    """Return the orders in which each question is asked; True stands for the reverse order."""
    return (False, True) if judge.both_orders else (False,)


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
    limits: dict[int, str] = {}
    if judge.max_calls is not None:
        n_allowed = judge.max_calls // len(_orders(judge))
        limits[n_allowed] = f"the limit of {count(judge.max_calls, 'call')}"
    if judge.max_cost is not None and estimate.cost:
        n_allowed = int(estimate.pairs * judge.max_cost / estimate.cost)
        limits[n_allowed] = f"the limit of the cost, {amount(judge.max_cost)},"
    limits[estimate.pairs] = ""
    return min(limits.items())


def _describe_batch(
    service: LabellingService, judge: LanguageModel, estimate: CallEstimate
) -> dict[str, Any]:
    """Describe a batch that is about to be written, for the later reading of its answers.

    The dict is stored with the batch. Its keys:
        model: name of the model.
        facts: what is stored with each answer: the hash of the prompt, and what else is known.
        structured: whether the model is asked for answers that fit a JSON schema.
        price_in, price_out: prices of a million tokens in prompts and in replies.
        tokens: mean number of tokens in a prompt.
        worst: whether questions about a set ask for the worst item, too.
        orders: 2 if each question is asked in both orders of its items, else 1.
    """
    return {
        "model": judge.model,
        "facts": judge.facts(),
        "structured": judge.structured,
        "price_in": judge.price_in,
        "price_out": judge.price_out,
        "tokens": estimate.tokens_in // estimate.calls,
        "worst": service.study.worst,
        "orders": len(_orders(judge)),
    }


def _lease_questions(
    service: LabellingService, annotator: str, questions: Sequence[Question], about: dict[str, Any]
) -> tuple[str, list[Lease]]:
    """Lease questions for a new batch, and return the batch's name and the leases.

    A question that another process has leased meanwhile is left out.

    Args:
        about: the description of the batch, see `_describe_batch`.

    Raises:
        SortNetError: if no question can be leased; then there is no batch.
    """
    collection = service.collection
    with collection.locked():
        name = collection.add_batch(annotator, about)
        leases = collection.lease(
            annotator, questions, math.inf, after=service.last_number, batch=name
        )
        if not leases:
            raise SortNetError(f"{collection.name}: {service.why_nothing_left(annotator)}")
    return name, leases


def _write_requests(
    service: LabellingService,
    judge: LanguageModel,
    prompt: Prompt,
    leases: Sequence[Lease],
    path: Path,
) -> None:
    """Write a line for each request of a batch; the ids of the leases identify the requests."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for lease in leases:
            for order, turned in enumerate(_orders(judge), 1):
                asked = asked_question_of(service, lease, turned=turned)
                form = AnswerForm.of(asked)
                body = request_body(
                    judge.model,
                    prompt.messages(asked),
                    judge.request,
                    response_format=form.response_format if judge.structured else None,
                    n_tops=TOPS[0] if judge.logprobs else 0,  # the highest number
                )
                assert lease.batch is not None
                file.write(request_line(RequestId(lease.batch, lease.id, order), body))


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
        stored: number of new answers, skips included.
        skipped: {reason: number of new skips}.
        repeated: number of answers that had been stored before.
        failed: number of requests without an answer; their questions may be asked again.
        refused: number of answers that belong to no open question of the collection.
        annotators: {annotator: number of new answers}.
        services: {name of a criterion: its service} for the criteria with answers.
    """

    collection: Collection
    goal: Goal | None = None
    notify: Callable[[str], None] = note
    stored: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    failed: int = 0
    refused: int = 0
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
        n_before = self.stored + self.repeated + self.failed
        for (name, _), lines in groupby(answer_lines(Path(file)), _transaction_of):
            self._store_lines(name, list(lines))
        if self._n_notes > _MOST_NOTES:
            self.notify(f"{file}: and {self._n_notes - _MOST_NOTES} more lines of this kind")
        if self.stored + self.repeated + self.failed == n_before:
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
            service = LabellingService(collection, goal=self.goal, record=True)
            self.services[collection.name] = service
        service = self.services[collection.name]
        with collection.locked():
            for line in lines:
                try:
                    self._store_line(service, batch, line)
                except _RefusedError as error:
                    self.refused += 1
                    self._note(line, str(error))
                except (LeaseError, JudgementError):
                    self.refused += 1
                    why = f"its question is not one of batch {name}, or was taken back meanwhile"
                    self._note(line, why)
        service.sync()

    def _refuse(self, name: str, lines: Sequence[AnswerLine]) -> None:
        """Count and note lines that belong to no batch of this collection."""
        self.refused += len(lines)
        if name:  # one message is enough, because all lines are of the same batch
            owner = self.collection.collection_of_batch(name)
            origin = "another store, or was removed" if owner is None else f"collection {owner}"
            self._note(lines[0], f"batch {name} is of {origin}")
            return
        for line in lines:
            self._note(line, line.fault)

    def _store_line(self, service: LabellingService, batch: Batch, line: AnswerLine) -> None:
        """Store the answer in a line and count it; release the question of a failed request.

        Raises:
            _RefusedError: if the answer does not belong to the batch.
            LeaseError, JudgementError: if the question has no lease of the batch.
        """
        id = line.id
        assert id is not None
        if batch.cancelled is not None:
            raise _RefusedError(f"batch {batch.name} was cancelled")
        if id.order > batch.about.get("orders", 2):
            raise _RefusedError(f"batch {batch.name} asks in one order of the items, not in both")
        question = service.collection.question_of_batch(batch.name, id.lease)
        form = AnswerForm(len(question.items), batch.about.get("worst", False))
        try:
            verdict = _read_verdict(line, batch, form)
        except Fault as fault:
            self.failed += 1
            self._note(line, str(fault))
            if id.order == 1:  # a request in the reverse order has no lease to release
                service.collection.release(batch.annotator, [id.lease])
            return
        mark_model(service, batch.annotator)
        if id.order == 1:
            judgement = verdict.judgement(question, batch.annotator)
            is_new = service.answer(id.lease, judgement).new
        else:
            judgement = verdict.judgement(question.turned, batch.annotator)
            is_new = append_once(service, str(id), judgement)
        if not is_new:
            self.repeated += 1
            self._note(line, "its question was answered before")
            return
        self.stored += 1
        self.annotators[batch.annotator] += 1
        self._note_verdict(line, frozenset(service.items.ids[k] for k in question.items), verdict)

    def _note_verdict(self, line: AnswerLine, items: frozenset[str], verdict: Verdict) -> None:
        """Count a skip by its reason, and name an item that several of these skips are about."""
        if verdict.why is None:
            self._record.note_answer(items)
            return
        self.skipped[verdict.why.value] += 1
        comment = (verdict.comment or "")[:_LONGEST_COMMENT]
        for item in sorted(self._record.note_unanswered(Unanswered(items, verdict.why, comment))):
            self._note(line, f"item {item!r} got no answer: {comment}")

    def _note(self, line: AnswerLine, text: str) -> None:
        """Send a message about a line of the file, unless there were too many messages."""
        self._n_notes += 1
        if self._n_notes <= _MOST_NOTES:
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
        _RefusedError: if another model has answered.
    """
    about = batch.about  # see `_describe_batch` for the keys
    meta: dict[str, Any] = {"model": about["model"], "batch": batch.name, **about["facts"]}
    failure = failure_in(line.status, line.body)
    if failure is not None:
        words = without_secrets(failure.message)
        if failure.reason in (Reason.TOO_LONG, Reason.FILTERED):
            return unanswered(failure.reason, words, meta=meta)
        raise Fault(f"the request failed: {words[:_LONGEST_COMMENT]}")
    reply = parse_reply(line.body)
    if not is_same_model(reply.model, about["model"]):
        raise _RefusedError(
            f"an answer of the model {shown(reply.model)}, and batch {batch.name} asks "
            f"{shown(about['model'])}"
        )
    reading = form.read(reply.choice)
    text = without_secrets(reading.text)
    reading = replace(reading, why_not=without_secrets(reading.why_not), text=text)
    # A server that does not count tokens reports 0: the numbers are estimated.
    tokens_in = reply.tokens_in or about["tokens"]
    tokens_out = reply.tokens_out or len(text) // CHARACTERS + 1
    meta["tokens"] = [tokens_in, tokens_out]
    meta["calls"] = 1
    if about["structured"]:
        meta["structured"] = True
    meta.update(form.facts(reading))
    budget = Budget(price_in=about["price_in"], price_out=about["price_out"])
    cost = budget.cost_of(tokens_in, tokens_out)
    return form.verdict(reading, meta, cost=cost)
