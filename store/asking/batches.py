"""Write questions to files for a provider's batch endpoint, and read the files of answers.

    write_batch: questions, chosen together -> leases without an end -> requests.jsonl
    read_batch: answers.jsonl -> each answer under its lease

`Batch.about` holds the model, the facts that are stored with each answer, the price of a million
tokens, and the mean number of tokens in a prompt. A line of a request, and a line of an answer:

{"custom_id": ..., "method": "POST", "url": "/v1/chat/completions", "body": {...}}
{"custom_id": ..., "response": {"status_code": 200, "body": {...}}, "error": null}

The `custom_id` names the batch, the lease of the question, and the order of its items: 1, or 2 if
they are in the reverse order.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from sortnet.errors import DataError, JudgementError, LeaseError, SortNetError, StoreError
from sortnet.files import Record, open_bytes, reading, refuse_output, write_file
from sortnet.judges import LanguageModel
from sortnet.judges.answer_form import CHARACTERS, AnswerForm, parse_reply
from sortnet.judges.budget import Budget
from sortnet.judges.faults import Reason, failure_in
from sortnet.judges.model_server import TOPS
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import request_body, without_secrets
from sortnet.judges.trial import CallEstimate, estimate_calls
from sortnet.judges.unanswered import AnswerRecord, Unanswered
from sortnet.judges.verdicts import Fault, Verdict, quote, unanswered
from sortnet.messages import note, printable
from sortnet.preference import Question
from store.asking.service_questions import append_once, asked_question_of, mark_model
from store.collections.collection import Collection
from store.collections.leases import Batch, Lease
from store.service.labelling import LabellingService, created_annotator

_TOGETHER = 200  # lines of answers that are stored in one transaction
_LONGEST_COMMENT = 200  # characters of a server's words in a message
_MOST_NOTES = 20  # most messages about single answers of a file
_OUTCOMES = ("stored", "repeated", "failed", "refused")  # outcomes of a line
URL = "/v1/chat/completions"
_ID = re.compile(r"([0-9a-f]{8})-([\w-]{8,48})-([12])", re.ASCII)
_LONGEST_READ = 1000  # bytes of a line that are searched for a text to quote


@dataclass(frozen=True)
class WrittenBatch:
    """The result of writing the requests of a batch to a file.

    Attributes:
        name: name of the batch.
        annotator: name under which the model's answers are stored.
        questions: number of questions in the file.
        estimate: calls, tokens and cost of the requests in the file.
        file: path of the requests.
    """

    name: str
    annotator: str
    questions: int
    estimate: CallEstimate
    file: str


def write_batch(
    service: LabellingService, judge: LanguageModel, annotator: str, n: int, file: str
) -> WrittenBatch:
    """Choose questions for a model, lease them without an end, and write the requests to a file.

    Args:
        service: a service that is fitted to the answers so far, and chooses no other questions
            afterwards: its session gets answers that are expected.
        annotator: name under which the model's answers are stored.
        n: most questions to write. Fewer are written if there are fewer questions, or if a quota is
            smaller.
        file: path of the new file, JSON lines for a provider's batch endpoint; it must not exist.

    Raises:
        SortNetError: if there is nothing to ask, the prompt is for two items and questions are
            about more, a limit of calls or cost is lower than the estimate, or the file cannot be
            written; then nothing is leased.

    Cost: the choice of the questions.
    """
    collection = service.collection
    prompt = Prompt(judge.prompt, judge.image_size)
    _refuse_batch(service, judge, prompt, annotator, file)
    service.sync()
    live_leases = collection.leases()
    busy = {pair for lease in live_leases for pair in lease.question.pairs}
    n_in_quota = service.n_within_quota(annotator, n, live_leases)
    questions = service.session.ask(annotator, n_in_quota, busy=busy)
    if not questions:
        raise SortNetError(f"{collection.name}: {service.why_nothing_left(annotator)}")
    examples = [asked_question_of(service, Lease("", question, "", 0.0)) for question in questions]
    estimate = _estimate(judge, examples)
    # What is stored with the batch, for the later reading of its answers.
    about = {
        "model": judge.model,
        "facts": judge.facts(),
        "structured": judge.structured,
        "price_in": judge.price_in,
        "price_out": judge.price_out,
        "tokens": estimate.tokens_in // estimate.calls,  # mean tokens of a prompt
        "worst": service.study.worst,
    }
    with created_annotator(collection, annotator):
        with collection.locked():
            name = collection.add_batch(annotator, about)
            # A question that another process has leased meanwhile is left out.
            leases = collection.lease(
                annotator, questions, math.inf, after=service.last_number, batch=name
            )
            if not leases:
                raise SortNetError(f"{collection.name}: {service.why_nothing_left(annotator)}")

        def write_lines(path: Path) -> None:
            with path.open("w", encoding="utf-8", newline="") as requests:
                requests.writelines(_request_lines(service, judge, prompt, leases, name))

        try:
            write_file(file, write_lines)
        except BaseException:  # an interrupt must leave no batch, too
            collection.remove_batch(name)
            raise
    estimate = estimate_calls(judge, len(leases), examples)
    return WrittenBatch(name, annotator, len(leases), estimate, file)


def _refuse_batch(
    service: LabellingService, judge: LanguageModel, prompt: Prompt, annotator: str, file: str
) -> None:
    """Raise SortNetError with the reason if a batch cannot be written.

    This check comes before the questions are chosen, which takes long.
    """
    refuse_output(file)
    if Path(file).exists():
        raise SortNetError(f"cannot write {file!r}: it exists: name another file")
    why_closed = service.why_closed(annotator)
    if why_closed:
        raise SortNetError(f"{service.collection.name}: {why_closed}")
    why_not = prompt.why_not_about(service.study.set_size)
    if why_not:
        raise SortNetError(f"{judge.model} {why_not}")


def _estimate(judge: LanguageModel, examples: Sequence[Record]) -> CallEstimate:
    """Estimate the calls and the cost of questions.

    Raises:
        SortNetError: if they are more than the limits of the model.
    """
    estimate = estimate_calls(replace(judge, max_calls=None), len(examples), examples)
    max_calls = math.inf if judge.max_calls is None else judge.max_calls
    max_cost = math.inf if judge.max_cost is None else judge.max_cost
    if estimate.calls > max_calls or (estimate.cost or 0) > max_cost:
        raise SortNetError(f"a batch of {estimate} exceeds max_calls or max_cost: ask fewer")
    return estimate


def _request_lines(
    service: LabellingService,
    judge: LanguageModel,
    prompt: Prompt,
    leases: Sequence[Lease],
    batch: str,
) -> Iterator[str]:
    """Make a line with its line break for each request, which the id of its lease identifies."""
    for lease in leases:
        for is_turned in (False, True) if judge.both_orders else (False,):
            question = asked_question_of(service, lease, turned=is_turned)
            form = AnswerForm.of(question)
            body = request_body(
                judge.model,
                prompt.messages(question),
                judge.request,
                response_format=form.response_format if judge.structured else None,
                n_tops=TOPS[0] if judge.logprobs else 0,  # the highest number
            )
            custom_id = f"{batch}-{lease.id}-{2 if is_turned else 1}"
            line = {"custom_id": custom_id, "method": "POST", "url": URL, "body": body}
            text = json.dumps(line, ensure_ascii=False)
            # A lone surrogate cannot be encoded.
            yield text.encode("utf-8", "replace").decode() + "\n"


def open_batches(collection: Collection) -> list[Batch]:
    """List the batches of a collection with unanswered questions."""
    return [batch for batch in collection.batches() if batch.n_open]


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
    return collection.cancel_batch(name)


@dataclass
class BatchAnswers:
    """Reads files of answers to batches, and stores each answer under the lease of its question.

    Attributes:
        service: the service of the collection that has the batches.
        notify: called with a line about each answer that is not stored.
        counts: {`stored`: new answers, skips included, `repeated`: answers that had been stored
            before, `failed`: requests without an answer, whose questions may be asked again,
            `refused`: answers that belong to no open question of the collection}.
        skipped: {reason: number of new skips}.
        annotators: {annotator: number of new answers}.
        record: which questions were answered.
    """

    service: LabellingService
    notify: Callable[[str], None] = note
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0))
    skipped: Counter[str] = field(default_factory=Counter)
    annotators: Counter[str] = field(default_factory=Counter)
    record: AnswerRecord = field(default_factory=AnswerRecord)

    def read(self, file: str) -> None:
        """Store the answers of a file; a line that cannot be used is noted and skipped.

        If the process is killed meanwhile, the first answers are stored. Reading the same file
        again stores the rest. The first 20 lines that cannot be used have a message each, and one
        message tells the number of all further lines.

        Raises:
            DataError: if the file cannot be read, or no line answers a batch of this collection.
        """
        collection = self.service.collection
        batches = {batch.name: batch for batch in collection.batches()}
        n_refused = n_lines = n_notes = 0
        # One transaction for many answers is faster.
        for _, lines in groupby(answer_lines(Path(file)), lambda line: line.number // _TOGETHER):
            with collection.locked():
                outcomes = [(line, *self._store_line(batches, line)) for line in lines]
            self.service.sync()
            for line, outcome, words in outcomes:
                self.counts[outcome] += 1
                n_lines += 1
                n_refused += outcome == "refused"
                n_notes += bool(words)
                if words and n_notes <= _MOST_NOTES:
                    text = printable(without_secrets(words))
                    self.notify(f"{file}, line {line.number}: {text}")
        if n_notes > _MOST_NOTES:
            self.notify(f"{file}: and {n_notes - _MOST_NOTES} more lines of this kind")
        if n_refused == n_lines:
            raise DataError(
                f"{file}: none of its answers belongs to an open question of {collection.name}"
            )

    def _store_line(self, batches: Mapping[str, Batch], line: AnswerLine) -> tuple[str, str]:
        """Store the answer in a line; release the question of a failed request.

        Returns:
            The outcome, one of `_OUTCOMES`, and what is noted about it.
        """
        collection = self.service.collection
        if line.batch not in batches:
            return "refused", line.fault or f"{collection.name} has no batch {line.batch}"
        batch = batches[line.batch]
        try:
            question = collection.question(line.lease, batch.name)
            form = AnswerForm(len(question.items), batch.about.get("worst", False))
            verdict = _read_verdict(line, batch, form)
            is_new = self._store(batch, line, question, verdict)
        except Fault as fault:
            if not line.is_turned:  # a request in the reverse order has no lease to release
                collection.release(batch.annotator, [line.lease])
            return "failed", str(fault)
        except (LeaseError, JudgementError):
            words = f"its question is not one of batch {batch.name}, or was taken back meanwhile"
            return "refused", words
        if not is_new:
            return "repeated", "its question was answered before"
        self.annotators[batch.annotator] += 1
        items = frozenset(self.service.items.ids[k] for k in question.items)
        if verdict.why is None:
            self.record.note_answer(items)
            return "stored", ""
        self.skipped[verdict.why.value] += 1
        comment = (verdict.comment or "")[:_LONGEST_COMMENT]
        left_out = self.record.note_unanswered(Unanswered(items, verdict.why, comment))
        return "stored", "".join(f"item {item!r} got no answer: {comment}" for item in left_out)

    def _store(self, batch: Batch, line: AnswerLine, question: Question, verdict: Verdict) -> bool:
        """Store a verdict, and return whether it is new."""
        mark_model(self.service, batch.annotator)
        if line.is_turned:
            judgement = verdict.judgement(question.turned, batch.annotator)
            return append_once(self.service, f"{batch.name}-{line.lease}-2", judgement)
        judgement = verdict.judgement(question, batch.annotator)
        return self.service.answer(line.lease, judgement).new


def _read_verdict(line: AnswerLine, batch: Batch, form: AnswerForm) -> Verdict:
    """Read the verdict in a line of answers, with its cost and the facts to store with it.

    An answer without a readable verdict counts as a skip, and so does a prompt that was too long or
    refused for its content.

    Args:
        form: the form of the answers that the request asked for.

    Raises:
        Fault: if the request has no answer.
    """
    about = batch.about  # see `write_batch` for the keys
    meta: Record = {"model": about["model"], "batch": batch.name, **about["facts"]}
    failure = failure_in(line.status, line.body)
    if failure is not None:
        words = without_secrets(failure.message)
        if failure.reason in (Reason.TOO_LONG, Reason.FILTERED):
            return unanswered(failure.reason, words, meta=meta)
        raise Fault(f"the request failed: {words[:_LONGEST_COMMENT]}")
    reply = parse_reply(line.body)
    reading = form.read(reply.choice)
    # A server that does not count tokens reports 0: the numbers are estimated.
    tokens_in = reply.tokens_in or about["tokens"]
    tokens_out = reply.tokens_out or len(reading.text) // CHARACTERS + 1
    meta |= {"tokens": [tokens_in, tokens_out], "calls": 1}
    if about["structured"]:
        meta["structured"] = True
    budget = Budget(price_in=about["price_in"], price_out=about["price_out"])
    cost = budget.cost_of(tokens_in, tokens_out)
    return form.verdict(reading, meta, without_secrets, cost=cost)


class AnswerLine(NamedTuple):
    """A line of a provider's file of answers.

    Attributes:
        number: number of the line in its file, from 1.
        batch: name of the batch; empty: the line answers no request of SortNet.
        lease: id of the lease of the question.
        is_turned: whether the items of the question were in the reverse order.
        status: HTTP status of the answer.
        body: body of the answer.
        fault: reason why the line answers no request; empty if it answers one.
    """

    number: int
    batch: str = ""
    lease: str = ""
    is_turned: bool = False
    status: int = 0
    body: bytes = b""
    fault: str = ""


def answer_lines(path: Path) -> Iterator[AnswerLine]:
    """Read the lines of a file of answers, but for empty lines.

    Raises:
        DataError: if the file cannot be read.
    """
    with reading(path), open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _answer_line(number, line)


def _answer_line(number: int, line: bytes) -> AnswerLine:
    """Parse a line of a file of answers."""
    quoted = quote(without_secrets(line[:_LONGEST_READ].decode("utf-8", "replace")))
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return AnswerLine(number, fault=f"is no JSON: {quoted}")
    custom_id = record.get("custom_id") if isinstance(record, dict) else None
    match = _ID.fullmatch(custom_id) if isinstance(custom_id, str) else None
    if match is None:
        return AnswerLine(number, fault=f"has no custom_id of a request of SortNet: {quoted}")
    response = record.get("response")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        status, body = response["status_code"], response.get("body")
    elif record.get("error"):
        # The request was not carried out. Any server's fault is told like this, and only the words
        # can tell that it is the question's fault.
        status, body = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": record["error"]}
    else:
        fault = "has neither a response nor an error: give the file that the provider returned"
        return AnswerLine(number, fault=fault)
    is_turned = match[3] == "2"
    return AnswerLine(number, match[1], match[2], is_turned, status, json.dumps(body).encode())
