"""`sortnet label` by files: questions for a provider's batch endpoint, and their answers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from cli.console import progress, say
from cli.judges.batch_options import DEFAULT_SIZE
from cli.judges.judge_options import judge_of
from cli.printing.labelling_status import short_status
from cli.printing.results import Result, Step
from cli.terminal.label_by_judge import tell_others
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError
from sortnet.judges import LanguageModel
from sortnet.messages import count, printable
from sortnet.preference.goal import Goal
from store import Collection
from store.service.batches import BatchAnswers, cancel_batch, open_batches, write_batch
from store.service.existing_store import open_collection
from store.service.labelling import LabellingService


def label_by_file(
    store: str | None,
    name: str,
    values: Mapping[str, Any],
    *,
    annotator: str | None,
    until: Goal | None,
) -> Result:
    """Write, read or cancel a batch of a collection.

    Args:
        values: the options of the judge and of the batch.
        annotator: as whom a model answers; None: under its own name.
        until: another goal than the collection's own.
    """
    with open_collection(store, name, write=True) as collection, ended_by_signals():
        if values["write_batch"] is not None:
            return _written(collection, values, annotator, until)
        if values["read_batch"]:
            return _read(collection, values["read_batch"], until)
        return _cancelled(collection, values["cancel_batch"])


def _written(
    collection: Collection, values: Mapping[str, Any], annotator: str | None, until: Goal | None
) -> Result:
    collection.check_one_question()
    judge = judge_of(values)
    assert isinstance(judge, LanguageModel)
    who = annotator or judge.annotator
    earlier = [batch for batch in open_batches(collection) if batch.annotator == who]
    service = LabellingService(collection, goal=until, record=True)
    with closing(service), progress() as status:
        status("fitting the answers so far")
        service.settle()
        if service.remaining.stop:
            raise SortNetError(f"{collection.name}: {service.remaining.why} (--until sets another)")
        tell_others(service, who, judge)
        status("choosing the questions")
        size = values["batch_size"] or DEFAULT_SIZE
        batch = write_batch(service, judge, who, size, values["write_batch"])
    notes = [f"{count(one.n_open, 'question')} of batch {one.name} are open" for one in earlier]
    if batch.cached:
        verb = "was" if batch.cached == 1 else "were"
        notes.append(f"{count(batch.cached, 'question')} {verb} answered from the cache")
    if batch.limit:
        notes.append(f"{batch.limit} ended the batch: fewer questions were written")
    if batch.file is None:
        text = f"{printable(who)}: no question is left to write"
        return Result("batch", asdict(batch), text=[text], notes=notes)
    n_questions = count(batch.questions, "question")
    text = (
        f"{printable(who)}: {n_questions} of batch {batch.name} in {batch.file}: {batch.estimate}; "
        "nothing was sent"
    )
    again = f"sortnet label {shlex.quote(collection.name)} --read-batch ANSWERS.jsonl"
    value = asdict(batch)
    return Result("batch", value, text=[text], notes=notes, next=Step(again))


def _read(collection: Collection, files: tuple[str, ...], until: Goal | None) -> Result:
    answers = BatchAnswers(collection, goal=until, notify=say)
    statuses = []
    with closing(answers), progress() as status:
        for file in files:
            status(f"reading {file}")
            answers.read(file)
        status("fitting the answers")
        answers.settle()
        statuses = [
            (service.collection.criterion, short_status(service))
            for service in answers.services.values()
        ]
    parts = [f"{count(answers.stored, 'answer')} stored"]
    more = {
        "stored before": answers.repeated,
        "failed": answers.failed,
        "refused": answers.refused,
    }
    parts += [f"{n:,} {words}" for words, n in more.items() if n]
    left = [(batch.name, batch.n_open) for batch in open_batches(collection)]
    value = {
        "stored": answers.stored,
        "repeated": answers.repeated,
        "failed": answers.failed,
        "refused": answers.refused,
        "annotators": dict(answers.annotators),
        "open": dict(left),
    }
    text = [", ".join(parts)]
    text += [f"{criterion}: {line}" if criterion else line for criterion, line in statuses]
    notes = [
        f"{count(n, 'question')} of batch {name} {'has' if n == 1 else 'have'} no answer yet"
        for name, n in left
    ]
    return Result("batch_answers", value, text=text, notes=notes)


def _cancelled(collection: Collection, name: str) -> Result:
    n_questions = cancel_batch(collection, name)
    text = (
        f"{count(n_questions, 'question')} of batch {name} taken back: answers to them are refused"
    )
    return Result("cancelled", {"name": name, "questions": n_questions}, text=[text])
