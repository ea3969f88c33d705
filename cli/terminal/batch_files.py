"""`sortnet label` by files: write questions for a provider's batch endpoint, read its answers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import click

from cli.console import progress, say
from cli.judges.batch_options import DEFAULT_SIZE
from cli.printing.labelling import short_status
from cli.printing.results import Result, Step
from cli.signals import ended_by_signals
from cli.terminal.label_by_judge import warn_of_other_request
from sortnet.errors import SortNetError
from sortnet.judges import LanguageModel, Program
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
from store.service.existing_store import open_collection
from store.service.labelling import LabellingService


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
        return _cancel(collection, values["cancel_batch"]), ""


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
            raise SortNetError(f"{collection.name}: {short_status(service)} (--until sets another)")
        warn_of_other_request(service, annotator, judge)
        status("choosing the questions")
        batch = write_batch(service, judge, annotator, batch_size, file)
    n_questions = count(batch.questions, "question")
    text = (
        f"{printable(batch.annotator)}: {n_questions} of batch {batch.name} in {batch.file}: "
        f"{batch.estimate}; nothing was sent"
    )
    read_command = f"sortnet label {shlex.quote(collection.name)} --read-batch ANSWERS.jsonl"
    return Result("batch", asdict(batch), text=[text], next=Step(read_command))


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
    text = [", ".join(counts), short_status(service)]
    notes = [
        f"batch {name}: {count(n_open, 'question')} without an answer yet"
        for name, n_open in n_open_by_batch.items()
    ]
    result = Result("batch_answers", value, text=text, notes=notes)
    return result, answers.record.why_useless()


def _cancel(collection: Collection, name: str) -> Result:
    """Take back the questions of a batch that have no answer yet."""
    n_questions = cancel_batch(collection, name)
    text = (
        f"{count(n_questions, 'question')} of batch {name} taken back: answers to them are refused"
    )
    return Result("cancelled", {"name": name, "questions": n_questions}, text=[text])
