"""`sortnet label` with a program or language model as annotator, or a dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import numpy as np

from cli.console import progress, say
from cli.judges.judge_results import dry_run_result
from cli.printing.results import Result
from cli.signals import ended_by_signals
from cli.terminal.asking import labelled_facts, refuse_closed
from sortnet.judges import LanguageModel, Program
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.estimate import N_EXAMPLES, dry_run
from sortnet.judges.request import part_of_judge
from sortnet.messages import printable
from store import Collection
from store.asking.machine import EndReason, Machine
from store.asking.service_questions import (
    ServiceQuestions,
    ask_in_turn,
    example_questions,
    why_ended,
)
from store.service.costs import parse_meta, sum_up_costs
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
    judgements = service.judgements()
    summary = machine.summary(service.session.answered(machine.annotator))
    return {
        **labelled_facts(service, machine.annotator, summary.answered),
        **summary.facts,
        "summary": summary.text,
        "why": why,
        "quit": bool(machine.fault),
        "cost_in_all": sum_up_costs(judgements, np.arange(len(judgements)))["cost"],
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
        examples = example_questions(service, N_EXAMPLES)
        n_once = service.n_questions_once
    return dry_run_result([dry_run(judge, examples, n_once, number) for judge in judges])
