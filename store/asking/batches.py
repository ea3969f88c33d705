"""Write questions to files for a provider's batch endpoint, and read the files of answers.

    write_batch: questions, chosen together -> leases without an end -> requests.jsonl
    read_batch: answers.jsonl -> each answer under its lease

`Batch.about` holds the model, the facts that are stored with each answer, the price of a million
tokens, and the mean number of tokens in a prompt.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.errors import DataError, JudgementError, LeaseError, SortNetError, StoreError
from sortnet.files import refuse_output, shown, write_file
from sortnet.judges import LanguageModel
from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.batch_lines import (
    AnswerLine,
    RequestId,
    answer_lines,
    is_same_model,
    request_line,
)
from sortnet.judges.budget import Budget
from sortnet.judges.estimate import CallEstimate
from sortnet.judges.faults import Failure, Reason, failure_in
from sortnet.judges.model_answers import CHARACTERS, Reply, parse_reply
from sortnet.judges.model_server import TOPS
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import request_body, without_secrets
from sortnet.judges.unanswered import AnswerRecord, Unanswered
from sortnet.judges.verdicts import Fault, Verdict, unanswered
from sortnet.messages import note, printable
from sortnet.preference import Question
from sortnet.preference.goal import Goal
from sortnet.preference.question_set import question_set
from sortnet.preference.session import Session
from store.asking.machine import asked_question_of, mark_model
from store.collections.batches import Batch
from store.collections.collection import Collection
from store.collections.leases import Lease
from store.service.annotators import created_annotator
from store.service.labelling import LabellingService, new_session

LARGEST_BATCH = 50_000  # most requests that providers accept in a file
_TOGETHER = 200  # lines of answers that are stored in one transaction
_LONGEST_COMMENT = 200  # characters of a server's words in a message
_MOST_NOTES = 20  # most messages about single answers of a file


class _AnotherModelError(SortNetError):
    """Raised for an answer of another model than the one that a batch asks."""


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
        service: a service that is fitted to the answers so far.
        annotator: name under which the model's answers are stored.
        n: most questions to write. Fewer are written if there are fewer questions, if a quota is
            smaller, or if more would exceed the limits of calls and cost by the estimate.
        file: path of the new file, JSON lines for a provider's batch endpoint; it must not exist.

    Raises:
        SortNetError: if there is nothing to ask, the prompt is for two items and questions are
            about more, a limit allows no question, or the file cannot be written; then nothing
            is leased.

    Cost: the choice of the questions, and a replay and a fit for a copy of the session.
    """
    prompt = Prompt(judge.prompt, judge.image_size)
    _refuse_batch(service, judge, prompt, annotator, n, file)
    collection = service.collection
    questions = _choose_questions(service, annotator, n)
    estimate, limit = _within_limits(service, judge, prompt, questions)
    if limit and not estimate.pairs:
        raise SortNetError(f"{limit} allows no question")
    about = _describe_batch(service, judge, estimate)
    with created_annotator(collection, annotator):
        name, leases = _lease_questions(service, annotator, questions[: estimate.pairs], about)
        if not leases:
            raise SortNetError(f"{collection.name}: {service.why_nothing_left(annotator)}")
        lines = _request_lines(service, judge, prompt, name, leases)
        try:
            write_file(file, partial(_write_lines, lines))
        except BaseException:  # an interrupt must leave no batch, too
            collection.remove_batch(name)
            raise
    if len(leases) < estimate.pairs:  # other processes have leased some of the questions
        estimate, _ = _within_limits(service, judge, prompt, [lease.question for lease in leases])
    return WrittenBatch(name, annotator, len(leases), estimate, file, limit)


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
        "tokens": estimate.tokens_in // max(estimate.calls, 1),
        "worst": service.study.worst,
        "orders": 2 if judge.both_orders else 1,
    }


def _within_limits(
    service: LabellingService, judge: LanguageModel, prompt: Prompt, questions: Sequence[Question]
) -> tuple[CallEstimate, str]:
    """Estimate what the first questions take, as many as the limits of the model allow.

    Returns:
        The estimate, whose `pairs` is the number of questions, and the limit that the next question
        would exceed, in words; empty if all questions are within the limits.
    """
    budget = judge.budget()
    estimate = CallEstimate(0, 0, 0, 0, None)
    n_characters = tokens_out = n_calls = 0
    for n_questions, question in enumerate(questions, 1):
        for asked in _in_orders(service, judge, Lease("", question, "", 0.0)):
            n_characters += len(prompt.of(asked))
            tokens_out += AnswerForm.of(asked).tokens
            n_calls += 1
        tokens_in = n_characters // CHARACTERS
        cost = budget.cost_of(tokens_in, tokens_out)
        limit = budget.exceeded_by(n_calls, cost)
        if limit:
            return estimate, limit
        estimate = CallEstimate(n_questions, n_calls, tokens_in, tokens_out, cost)
    return estimate, ""


def _in_orders(
    service: LabellingService, judge: LanguageModel, lease: Lease
) -> list[AskedQuestion]:
    """Write a question as the model reads it, once for each order in which it is asked."""
    orders = (False, True) if judge.both_orders else (False,)
    return [asked_question_of(service, lease, turned=turned) for turned in orders]


def _request_lines(
    service: LabellingService,
    judge: LanguageModel,
    prompt: Prompt,
    batch: str,
    leases: Sequence[Lease],
) -> Iterator[str]:
    """Yield a line for each request of a batch; the ids of the leases identify the requests."""
    for lease in leases:
        for order, asked in enumerate(_in_orders(service, judge, lease), 1):
            body = request_body(
                judge.model,
                prompt.messages(asked),
                judge.request,
                response_format=AnswerForm.of(asked).response_format if judge.structured else None,
                n_tops=TOPS[0] if judge.logprobs else 0,  # the highest number of log-probabilities
            )
            yield request_line(RequestId(batch, lease.id, order), body)


def _write_lines(lines: Iterator[str], path: Path) -> None:
    """Write lines to a file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


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
    n_requests = 2 * n if judge.both_orders else n
    if n_requests > LARGEST_BATCH:
        raise SortNetError(f"a batch of {n_requests:,} requests: {LARGEST_BATCH:,} at most")
    why_closed = service.why_closed(annotator)
    if why_closed:
        raise SortNetError(f"{service.collection.name}: {why_closed}")
    why_not = prompt.why_not_about(service.study.set_size)
    if why_not:
        raise SortNetError(f"{judge.model} {why_not}")


def _store_verdict(
    service: LabellingService,
    annotator: str,
    id: RequestId,
    question: Question,
    verdict: Verdict,
) -> bool:
    """Store the answer to a request, and return whether the answer is new."""
    collection = service.collection
    mark_model(service, annotator)
    if id.has_order_of_lease:
        return service.answer(id.lease, verdict.judgement(question, annotator)).new
    judgement = verdict.judgement(question.turned, annotator)
    judgement = replace(judgement, at=collection.clock())
    # The answer about the reverse order has no lease. An id that is made from the request's id
    # keeps the answer from being stored twice.
    digest = hashlib.sha256(str(id).encode()).hexdigest()[:16]
    return bool(collection.append([judgement], ids=[digest]))


def open_batches(collection: Collection) -> list[Batch]:
    """List the batches with unanswered questions, of a collection and all its criteria."""
    with collection.database.one_state():
        batches = chain.from_iterable(criterion.batches() for criterion in collection.asked())
        return [batch for batch in batches if batch.n_open]


def cancel_batch(collection: Collection, name: str) -> int:
    """Release the unanswered questions of a batch, and return the number of these questions.

    Raises:
        StoreError: if the collection has no such batch, or the batch has no unanswered question.
    """
    for criterion in collection.asked():
        for batch in criterion.batches():
            if batch.name == name:
                _check_open(batch)
                return criterion.cancel_batch(name)
    elsewhere = collection.collection_of_batch(name)
    if elsewhere is not None:
        raise StoreError(f"batch {name} is of collection {elsewhere!r}")
    names = ", ".join(batch.name for batch in open_batches(collection)) or "none"
    raise StoreError(f"collection {collection.name!r} has no batch {name[:40]!r}; open are {names}")


def _check_open(batch: Batch) -> None:
    """Raise StoreError if a batch has no unanswered question."""
    if not batch.n_open:
        state = "is cancelled" if batch.cancelled is not None else "has its answers"
        raise StoreError(f"batch {batch.name} {state}: it has no open question")


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
    _batches: dict[str, tuple[Batch, Collection]] = field(default_factory=dict)  # by name
    _unanswered: dict[str, set[str]] = field(default_factory=dict)  # {batch: ids of leases}
    _noted_batches: set[str] = field(default_factory=set)  # batches of other collections
    _n_notes: int = 0  # number of messages about single answers of the file
    _file: str = ""

    def __post_init__(self) -> None:
        with self.collection.database.one_state():
            for criterion in self.collection.asked():
                for batch in criterion.batches():
                    self._batches[batch.name] = (batch, criterion)

    def read(self, file: str) -> None:
        """Store the answers of a file; a line that cannot be used is noted and skipped.

        If the process is killed meanwhile, the first answers are stored. Reading the same file
        again stores the rest. The first 20 lines that cannot be used have a message each, and one
        message tells the number of all further lines.

        Raises:
            DataError: if the file cannot be read, or no line answers a batch of this collection.
        """
        self._file = file
        n_before = self._n_recognised
        lines = _lines_of_file(file)
        # 200 lines at a time, because one transaction for many answers is faster.
        while lines_together := list(islice(lines, _TOGETHER)):
            self._store_lines(lines_together)
        self._release_unanswered()
        if self._n_notes > _MOST_NOTES:
            self.notify(f"{file}: and {self._n_notes - _MOST_NOTES} more lines of this kind")
        if self._n_recognised == n_before:
            raise DataError(
                f"{file}: none of its answers belongs to an open question of {self.collection.name}"
            )

    @property
    def _n_recognised(self) -> int:
        """The number of lines that belonged to requests of this collection so far."""
        return self.stored + self.repeated + self.failed

    def settle(self) -> None:
        """Fit the models of all criteria to the stored answers."""
        for service in self.services.values():
            service.settle()

    def close(self) -> None:
        """Close the services of all criteria."""
        for service in self.services.values():
            service.close()

    def _store_lines(self, lines: Sequence[AnswerLine | Fault]) -> None:
        """Store the answers in some lines, in one transaction for each batch."""
        for name, answers in self._answers_by_batch(lines).items():
            batch, collection = self._batches[name]
            service = self._service(collection)
            with collection.locked():
                for id, line in answers:
                    self._store_line(service, batch, id, line)
            service.sync()

    def _answers_by_batch(
        self, lines: Sequence[AnswerLine | Fault]
    ) -> dict[str, list[tuple[RequestId, AnswerLine]]]:
        """Group answers by their batch; note lines that belong to no batch of this collection."""
        answers_by_batch: dict[str, list[tuple[RequestId, AnswerLine]]] = {}
        for line in lines:
            if isinstance(line, Fault):
                self.refused += 1
                self._note(str(line))
                continue
            id = RequestId.parse(line.id)
            if id is None:
                self._refuse(line, f"{line.id[:40]!r} is no request of SortNet")
            elif id.batch in self._batches:
                answers_by_batch.setdefault(id.batch, []).append((id, line))
            else:
                self.refused += 1
                self._note_foreign(id.batch, line.number)
        return answers_by_batch

    def _service(self, collection: Collection) -> LabellingService:
        """Return the service of a collection or criterion, which is started at the first answer."""
        if collection.name not in self.services:
            service = LabellingService(collection, goal=self.goal, record=True)
            self.services[collection.name] = service
        return self.services[collection.name]

    def _store_line(
        self, service: LabellingService, batch: Batch, id: RequestId, line: AnswerLine
    ) -> None:
        """Store the answer in a line and count it; if it cannot be stored, note the reason."""
        if batch.cancelled is not None:
            self._refuse(line, f"batch {batch.name} was cancelled")
            return
        if id.order > batch.about.get("orders", 2):
            self._refuse(line, f"batch {batch.name} asks in one order of the items, not in both")
            return
        try:
            question = service.collection.question_of_batch(batch.name, id.lease)
            form = AnswerForm(len(question.items), batch.about.get("worst", False))
            verdict = _read_verdict(line, batch, form)
            is_new = _store_verdict(service, batch.annotator, id, question, verdict)
        except _AnotherModelError as error:
            self._refuse(line, str(error))
        except Fault as fault:
            self._count_failure(id, line, fault)
        except (LeaseError, JudgementError):
            self._refuse(
                line,
                f"its question is not one of batch {batch.name}, or was taken back meanwhile",
            )
        else:
            self._count_answer(id, line, batch.annotator, is_new=is_new)
            if is_new:
                self._note_verdict(service, question, verdict)

    def _note_verdict(
        self, service: LabellingService, question: Question, verdict: Verdict
    ) -> None:
        """Count a skip by its reason, and name an item that several of these skips are about."""
        ids = frozenset(service.items.ids[item] for item in question.items)
        if verdict.why is None:
            self._record.note_answer(ids)
            return
        self.skipped[verdict.why.value] += 1
        comment = verdict.comment or ""
        for item in sorted(self._record.note_unanswered(Unanswered(ids, verdict.why, comment))):
            self._note(f"item {item!r} got no answer: {comment[:_LONGEST_COMMENT]}")

    def why_unanswered(self) -> str:
        """Return why nearly all questions got no answer; empty if more of them got an answer."""
        return self._record.summary_of_all()

    def _count_failure(self, id: RequestId, line: AnswerLine, fault: Fault) -> None:
        """Count and note a request without an answer; its question will be released."""
        self.failed += 1
        self._note(f"line {line.number}: {fault}")
        if id.has_order_of_lease:  # a request in the reverse order has no lease to release
            self._unanswered.setdefault(id.batch, set()).add(id.lease)

    def _count_answer(
        self, id: RequestId, line: AnswerLine, annotator: str, *, is_new: bool
    ) -> None:
        """Count an answer that is stored now, or note that it had been stored before."""
        if id.has_order_of_lease:
            # An earlier line of the file may have had no answer to the same request.
            self._unanswered.get(id.batch, set()).discard(id.lease)
        if is_new:
            self.stored += 1
            self.annotators[annotator] += 1
        else:
            self.repeated += 1
            self._note(f"line {line.number}: its question was answered before")

    def _refuse(self, line: AnswerLine, reason: str) -> None:
        """Count a line whose answer belongs to no open question, and note the reason."""
        self.refused += 1
        self._note(f"line {line.number}: {reason}")

    def _release_unanswered(self) -> None:
        """Release the questions whose requests failed."""
        for name, leases in self._unanswered.items():
            batch, collection = self._batches[name]
            collection.release(batch.annotator, sorted(leases))
        self._unanswered.clear()

    def _note_foreign(self, batch: str, number: int) -> None:
        """Note that an answer belongs to a batch of another collection, once for each batch.

        Args:
            batch: name of the batch.
            number: number of the answer's line.
        """
        if batch in self._noted_batches:
            return
        self._noted_batches.add(batch)
        collection = self.collection.collection_of_batch(batch)
        origin = "another store, or was removed"
        if collection is not None:
            origin = f"collection {collection}"
        self.notify(f"{self._file}, line {number}: batch {batch} is of {origin}")

    def _note(self, text: str) -> None:
        """Send a message about an answer of the file, unless there were too many messages."""
        self._n_notes += 1
        if self._n_notes <= _MOST_NOTES:
            self.notify(f"{self._file}, {printable(text)}")


def _lines_of_file(file: str) -> Iterator[AnswerLine | Fault]:
    """Read the lines of a file of answers; a Fault stands for a line without an answer.

    Raises:
        DataError: if the file is empty, or its first line has no answer: then it is another file.
    """
    lines = answer_lines(Path(file))
    first = next(lines, None)
    if first is None:
        raise DataError(f"{file}: is empty")
    if isinstance(first, Fault):
        raise DataError(f"{file}, {first}")
    return chain([first], lines)


def _lease_questions(
    service: LabellingService,
    annotator: str,
    questions: Sequence[Question],
    about: Mapping[str, Any],
) -> tuple[str, list[Lease]]:
    """Lease questions for a new batch, and return the batch's name and the leases.

    A question that another process has leased meanwhile is left out. Without a question no batch is
    made, and the name is empty.

    Args:
        about: the description of the batch, see `_describe_batch`.
    """
    if not questions:
        return "", []
    collection = service.collection
    with collection.locked():
        name = collection.add_batch(annotator, dict(about))
        leases = collection.lease(
            annotator, questions, math.inf, after=service.last_number, batch=name
        )
        if not leases:
            collection.remove_batch(name)
    return name, leases


def _choose_questions(service: LabellingService, annotator: str, n: int) -> list[Question]:
    """Choose up to n questions within the annotator's quota, about pairs that nobody has leased."""
    service.sync()
    live_leases = service.collection.leases()
    n_within_quota = _n_within_quota(service, annotator, n, live_leases)
    if n_within_quota <= 0:
        return []
    session = service.session
    return question_set(
        _copy_of_session(service),
        annotator,
        n_within_quota,
        busy={pair for lease in live_leases for pair in lease.question.pairs},
        rng=np.random.default_rng([session.seed, session.events]),
    )


def _n_within_quota(
    service: LabellingService, annotator: str, n: int, live_leases: Sequence[Lease]
) -> int:
    """Return how many of n questions the annotator's quota allows besides leased questions."""
    n_in_quota = service.study.left(annotator, service.session.answered(annotator))
    if n_in_quota is None:
        return n
    n_leased = sum(lease.annotator == annotator for lease in live_leases)
    return min(n, n_in_quota - n_leased)


def _copy_of_session(service: LabellingService) -> Session:
    """Copy a service's session, because `question_set` adds expected answers to its session."""
    session = service.session
    copy = new_session(service.collection, service.items, service.study, goal=session.goal)
    copy.replay(session.judgements())
    copy.refit()
    return copy


def _read_verdict(line: AnswerLine, batch: Batch, form: AnswerForm) -> Verdict:
    """Read the verdict in a line of answers, with its cost and the facts to store with it.

    An answer without a readable verdict counts as a skip, and so does a prompt that was too long or
    refused for its content.

    Args:
        form: the form of the answers that the request asked for.

    Raises:
        Fault: if the request has no answer.
        _AnotherModelError: if another model has answered.
    """
    about = batch.about  # see `_describe_batch` for the keys
    meta: dict[str, Any] = {"model": about["model"], "batch": batch.name, **about["facts"]}
    failure = _failure_in(line)
    if failure is not None:
        words = line.error or without_secrets(failure.message)
        if failure.reason in (Reason.TOO_LONG, Reason.FILTERED):
            return unanswered(failure.reason, words, meta=meta)
        raise Fault(f"the request failed: {words[:_LONGEST_COMMENT]}")
    reply = _read_reply(line)
    if not is_same_model(reply.model, about["model"]):
        raise _AnotherModelError(
            f"an answer of the model {shown(reply.model)}, and batch {batch.name} asks "
            f"{shown(about['model'])}"
        )
    reading = form.read(reply.choice)
    text = without_secrets(reading.text)
    reading = replace(reading, why_not=without_secrets(reading.why_not), text=text)
    tokens_in, tokens_out = _count_tokens(reply, text, about["tokens"])
    meta["tokens"] = [tokens_in, tokens_out]
    meta["calls"] = 1
    if about["structured"]:
        meta["structured"] = True
    meta.update(form.facts(reading))
    budget = Budget(price_in=about["price_in"], price_out=about["price_out"])
    cost = budget.cost_of(tokens_in, tokens_out)
    return form.verdict(reading, meta, cost=cost)


def _failure_in(line: AnswerLine) -> Failure | None:
    """Find the failure in a line of answers; None if the line has a reply of the model."""
    if line.status is None:
        # The request was not carried out. Any server's fault is told like this, and only the words
        # can tell that it is the question's fault.
        return failure_in(HTTPStatus.INTERNAL_SERVER_ERROR, line.error.encode())
    return failure_in(line.status, line.body)


def _read_reply(line: AnswerLine) -> Reply:
    """Read the model's reply in a line of answers.

    Raises:
        Fault: if its answer has no reply.
    """
    try:
        return parse_reply(line.body)
    except Fault as fault:
        raise Fault(without_secrets(str(fault))[:200]) from None


def _count_tokens(reply: Reply, text: str, mean_tokens_in: int) -> tuple[int, int]:
    """Return the numbers of tokens in the prompt and in the reply.

    A server that does not count tokens reports 0. Then the prompt counts as a mean prompt of the
    batch, and the tokens of the reply are estimated by its length.

    Args:
        text: the text of the reply, without secrets.
        mean_tokens_in: mean number of tokens in a prompt of the batch.
    """
    tokens_in = reply.tokens_in or mean_tokens_in
    tokens_out = reply.tokens_out or len(text) // CHARACTERS + 1
    return tokens_in, tokens_out
