"""`sortnet label` with a program or language model as annotator, or an estimate of its cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np

from cli.console import progress, say
from cli.judges.estimates import SAMPLE, show_estimate, show_first_estimate, show_prompt
from cli.judges.judge_options import judge_from_options
from cli.terminal.asking import Asker, Asking
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError
from sortnet.judges import LanguageModel, Program
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import part_of_judge
from sortnet.messages import printable
from sortnet.preference.goal import Goal
from store import Collection
from store.asking.machine import (
    EndReason,
    Judging,
    LabellingEnd,
    example_questions,
)
from store.service.costs import amounts, sum_up_costs
from store.service.labelling import LabellingService


def judge_asker(judge: LanguageModel | Program, *, in_turn: bool = False) -> Asker:
    """Make a function that lets a program or a language model answer the questions.

    Args:
        judge: the program or language model.
        in_turn: whether several judges answer in turn, so that messages name this judge.
    """
    option = "--model" if isinstance(judge, LanguageModel) else "--judge"
    if in_turn:
        option = f"{option} {printable(judge.annotator)}"
    connection = judge.connect(option)

    def ask(asking: Asking, number: int | None) -> tuple[str, dict[str, Any]]:
        """Let the judge answer; return why the labelling ended, and facts such as the cost."""
        if isinstance(judge, LanguageModel):
            warn_of_other_request(asking.service, asking.annotator, judge)
        end = _run_judge(connection, asking, number)
        asking.answered += end.n_preferences
        asking.interrupted = end.reason == EndReason.INTERRUPTED
        number_in_text = None if in_turn else number
        judgements = asking.service.judgements()
        costs = sum_up_costs(judgements, np.arange(len(judgements)))["costs"]
        spent = connection.spent_text()
        if spent and costs:
            spent = f"{spent}, {amounts(costs)} in the collection"
        why = _why_ended(end, number_in_text, spent)
        facts = {
            **connection.spent_facts(),
            "costs_in_all": costs,
            "skipped": end.skipped,
            "failed": end.failed,
            "fault": end.fault,
            "end": end.reason.name.lower(),
        }
        return why, facts

    return ask


def _run_judge(connection: JudgeConnection, asking: Asking, number: int | None) -> LabellingEnd:
    """Let a judge answer until a limit, the goal or a signal ends the labelling.

    Args:
        connection: the connection to the judge.
        asking: the annotator and the labelling service.
        number: number of answers after which the labelling ends; None: no limit.
    """
    with progress() as status:
        judging = Judging(
            judge=connection,
            service=asking.service,
            annotator=asking.annotator,
            notify=say,
            on_progress=status,
        )
        with ended_by_signals(), judging.opened():
            judging.ask(number)
            asking.service.settle()
    return judging.end()


def _why_ended(end: LabellingEnd, number: int | None, spent: str) -> str:
    """Explain why the labelling by a judge ended, and what it has spent.

    Args:
        end: end of the labelling.
        number: number of answers that the user asked for; None: the text does not compare with it.
        spent: description of calls and cost; empty if the judge costs nothing.
    """
    why = end.text
    if end.reason == EndReason.GOAL:
        why = f"{why} (--until sets another)"
        if number is not None:
            why = f"ended after {end.answered} of {number} answers (--number): {why}"
    if not spent:
        return why
    # The message of a fault is printed on a separate line, so it is not repeated here.
    return spent if end.fault else f"{why} ({spent})"


def warn_of_other_request(service: LabellingService, annotator: str, judge: LanguageModel) -> None:
    """Print a warning if the annotator's last answer is from another model, prompt or request.

    The answers of two different judges under the same name would be taken for those of one judge.
    """
    last_facts = _facts_of_last_answer(service, annotator)
    if "model" not in last_facts:
        return
    name = printable(annotator)
    prompt_hash = Prompt(judge.prompt).hash
    is_other_prompt = last_facts.get("prompt", prompt_hash) != prompt_hash
    if last_facts["model"] != judge.model or is_other_prompt:
        say(f"{name}: earlier answers are of another model or prompt: --as NAME keeps them apart")
        return
    request = last_facts.get("request")
    last_request = part_of_judge(request if isinstance(request, dict) else {})
    if last_request != part_of_judge(judge.request):
        say(f"{name}: earlier answers are to another request: --as NAME keeps them apart")


def _facts_of_last_answer(service: LabellingService, annotator: str) -> dict[str, Any]:
    """Return the facts that a model stored with the annotator's last answer; empty if none."""
    judgements = service.judgements()
    texts = [text for text in judgements.meta[judgements.by(annotator)] if text is not None]
    if not texts:
        return {}
    try:
        meta = json.loads(texts[-1] or "{}")
    except (ValueError, RecursionError):  # imported answers may have any text
        return {}
    return meta if isinstance(meta, dict) else {}


def show_prompt_or_estimate(
    collection: Collection,
    options: Mapping[str, Any],
    number: int | None,
    until: Goal | None,
    *,
    as_json: bool,
) -> None:
    """Show the prompt of one question, or an estimate of calls, tokens and cost.

    Nothing is sent or stored.

    Args:
        collection: collection of the questions.
        options: values of the options of the judge.
        number: number of answers; None: until the goal is reached.
        until: goal in place of the collection's own goal.
        as_json: whether the result is printed as JSON.
    """
    # A prompt and an estimate need no model, so any name will do.
    model_name = options["model"] or "model"
    model = judge_from_options({**options, "model": model_name, "judge": None})
    assert isinstance(model, LanguageModel)
    n_examples = 1 if options["show_prompt"] else SAMPLE
    first_criterion = collection.asked()[0]
    with closing(LabellingService(first_criterion, goal=until)) as service, progress() as status:
        status("fitting the answers so far")
        service.settle()
        is_unasked = not service.session.n_votes
        n_questions = service.questions_expected
        likely_range = service.likely_range
        examples = example_questions(service, n_examples)
    if options["show_prompt"]:
        show_prompt(Prompt(model.prompt), examples[0], as_json=as_json)
        return
    if number is not None:
        show_estimate(model, number, examples, as_json=as_json)
        return
    if n_questions is None:
        raise SortNetError("--estimate: the number of questions left is not known: give --number")
    if is_unasked:
        show_first_estimate(model, n_questions, examples, as_json=as_json)
        return
    show_estimate(model, n_questions, examples, likely_range, as_json=as_json)
