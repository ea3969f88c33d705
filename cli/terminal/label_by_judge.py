"""`sortnet label` with a program or language model as annotator, by batch files, or a dry run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from typing import Any

import click

from cli.console import progress, say
from cli.judges.judge_options import DEFAULT_SIZE
from cli.printing.labelling import dry_run_result
from cli.printing.results import Result
from cli.signals import ended_by_signals
from cli.terminal.asking import labelled_facts, refuse_closed
from sortnet.errors import SortNetError
from sortnet.judges import LanguageModel, Program
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.request import part_of_judge
from sortnet.judges.trial import dry_run
from sortnet.judges.unanswered import skipped_text
from sortnet.messages import count, printable
from sortnet.preference.stopping import Goal
from store import Collection
from store.asking.batches import (
    BatchAnswers,
    cancel_batch,
    open_batches,
    write_batch,
)
from store.asking.machine import EndReason, Machine
from store.asking.service_questions import (
    ServiceQuestions,
    ask_in_turn,
    example_questions,
    why_ended,
)
from store.service import sentences
from store.service.costs import parse_meta, sum_up_costs
from store.service.existing_store import open_collection
from store.service.labelling import LabellingService


def ask_judges(
    service: LabellingService,
    number: int | None,
    *,
    judges: Mapping[str, LanguageModel | Program],
    connections: Mapping[str, JudgeConnection],
) -> list[dict[str, Any]]:
    """Let judges answer the questions about a criterion, in turn if there are several.

    Args:
        service: the service of the criterion.
        number: number of answers of all judges together; None: there is no such limit.
        judges: {annotator: the judge that answers under this name}.
        connections: {annotator: the connection to the judge}.

    Returns:
        Facts about the labelling: a dict for each judge.
    """
    for annotator, judge in judges.items():
        refuse_closed(service, annotator)
        if isinstance(judge, LanguageModel):
            warn_of_other_request(service, annotator, judge)
    questions = ServiceQuestions(service)
    with progress() as status, ended_by_signals():
        machines = [
            Machine(questions, annotator, connection, say, status)
            for annotator, connection in connections.items()
        ]
        with suppress(KeyboardInterrupt):  # the facts tell that the asking was interrupted
            ask_in_turn(machines, service, number)
    return [_judge_facts(service, machine) for machine in machines]


def _judge_facts(service: LabellingService, machine: Machine) -> dict[str, Any]:
    """Collect the facts about the labelling by a judge: answers, cost, and why it ended."""
    why = why_ended(service, machine)
    if machine.reason is EndReason.GOAL:
        why = f"{why} (--until sets another)"
    elif machine.fault and machine.reason is not EndReason.INTERRUPTED:
        why = ""  # the fault has its own line
    summary = machine.summary(service.session.answered(machine.annotator))
    return {
        **labelled_facts(service, machine.annotator, summary.answered),
        **summary.facts,
        "summary": summary.text,
        "why": why,
        "quit": bool(machine.fault),
        "cost_in_all": sum_up_costs(service.judgements())["cost"],
        "fault": machine.fault,
        "end": machine.reason.name.lower(),
    }


def warn_of_other_request(service: LabellingService, annotator: str, judge: LanguageModel) -> None:
    """Print a warning if the annotator's last answer is from another model, prompt or request.

    The answers of two different judges under the same name would be taken for those of one judge.
    """
    judgements = service.judgements()
    texts = [text for text in judgements.meta[judgements.by(annotator)] if text is not None]
    last_facts = parse_meta(texts[-1]) if texts else {}
    own_facts = {"model": judge.model, **judge.facts()}
    if "model" in last_facts and _of_judge(last_facts) != _of_judge(own_facts):
        say(
            f"{printable(annotator)}: earlier answers are of another model, prompt or request: "
            "--as NAME keeps them apart"
        )


def _of_judge(facts: Mapping[str, Any]) -> list[Any]:
    """Select the facts of an answer that belong to the identity of its judge."""
    request = facts.get("request")
    parameters = part_of_judge(request if isinstance(request, dict) else {})
    return [facts.get("model"), facts.get("prompt"), parameters]


def dry_run_of_label(
    collection: Collection, judges: Sequence[LanguageModel | Program], number: int | None
) -> Result:
    """Describe what judges would be sent about a collection; nothing is sent or stored.

    Args:
        collection: collection of the questions.
        judges: judges that would be asked.
        number: number of answers; None: until the goal is reached.
    """
    first_criterion = collection.asked()[0]
    with closing(LabellingService(first_criterion)) as service:
        examples = example_questions(service)
        n_once = service.n_questions_once
    return dry_run_result([dry_run(judge, examples, n_once, number) for judge in judges])


def label_by_file(
    store: str | None,
    name: str,
    values: Mapping[str, Any],
    judges: Sequence[LanguageModel | Program],
    *,
    annotator: str | None,
    number: int | None,
    until: Goal | None,
) -> tuple[Result, str]:
    """Write, read or cancel a batch of a collection.

    Args:
        store: URL of the store; None: the default store.
        name: name of the collection.
        values: values of the options of the batch.
        judges: judges that the options describe; a batch that is written is for one model.
        annotator: name under which the model answers; None: the model's own name.
        number: number of questions of a batch that is written; None: the default number.
        until: goal in place of the collection's own goal.

    Returns:
        The result, and why a batch got nearly no answers; empty if it got more.
    """
    with open_collection(store, name, write=True) as collection, ended_by_signals():
        if values["write_batch"] is not None:
            if len(judges) != 1 or not isinstance(judges[0], LanguageModel):
                raise click.UsageError("--write-batch needs one language model")
            name = annotator or judges[0].annotator
            batch_size = number or DEFAULT_SIZE
            file = values["write_batch"]
            return _write(collection, judges[0], name, until, batch_size, file), ""
        if values["read_batch"]:
            return _read(collection, values["read_batch"], until)
        batch = values["cancel_batch"]
        n_questions = cancel_batch(collection, batch)
        taken_back = f"{count(n_questions, 'question')} of batch {batch} taken back"
        text = [f"{taken_back}: answers to them are refused"]
        return Result("cancelled", {"name": batch, "questions": n_questions}, text=text), ""


def _write(
    collection: Collection,
    judge: LanguageModel,
    annotator: str,
    until: Goal | None,
    batch_size: int,
    file: str,
) -> Result:
    """Choose questions for a language model and write them to a file, as a new batch."""
    collection.check_one_question()
    service = LabellingService(collection, goal=until)
    with closing(service), progress() as status:
        status("fitting the answers so far")
        service.settle()
        if service.remaining.stop:
            why = sentences.why(service.remaining)
            raise SortNetError(f"{collection.name}: {why} (--until sets another)")
        warn_of_other_request(service, annotator, judge)
        status("choosing the questions")
        batch = write_batch(service, judge, annotator, batch_size, file)
    n_questions = count(batch.questions, "question")
    text = (
        f"{printable(batch.annotator)}: {n_questions} of batch {batch.name} in {batch.file}: "
        f"{batch.estimate}; nothing was sent"
    )
    read_command = f"sortnet label {shlex.quote(collection.name)} --read-batch ANSWERS.jsonl"
    return Result("batch", asdict(batch), text=[text], next=read_command)


def _read(collection: Collection, files: tuple[str, ...], until: Goal | None) -> tuple[Result, str]:
    """Store the answers in files, and fit the model to the new answers.

    Returns:
        The result, and why nearly all questions got no answer; empty if more got an answer.
    """
    collection.check_one_question()
    service = LabellingService(collection, goal=until)
    answers = BatchAnswers(service, say)
    with closing(service), progress() as status:
        for file in files:
            status(f"reading {file}")
            answers.read(file)
        status("fitting the answers")
        service.settle()
    n_open_by_batch = {batch.name: batch.n_open for batch in open_batches(collection)}
    value: dict[str, Any] = {
        **answers.counts,
        "skipped": answers.skipped,
        "annotators": answers.annotators,
        "open": n_open_by_batch,
    }
    counts = [f"{number:,} {outcome}" for outcome, number in answers.counts.items() if number]
    if answers.skipped:
        counts.append(f"of these {skipped_text(answers.skipped)}")
    text = [", ".join(counts), sentences.why(service.remaining)]
    notes = [
        f"batch {name}: {count(n_open, 'question')} without an answer yet"
        for name, n_open in n_open_by_batch.items()
    ]
    result = Result("batch_answers", value, text=text, notes=notes)
    return result, answers.record.why_useless()
