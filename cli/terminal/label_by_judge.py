"""`sortnet label` by a program or a language model: the run, and what a model will cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from cli.console import progress, say
from cli.judges.estimates import SAMPLE, show_estimate, show_prompt
from cli.judges.judge_options import judge_of
from cli.terminal.asking import Ask, Asking
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError
from sortnet.judges import LanguageModel, Program
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import part_of_judge
from sortnet.messages import printable
from sortnet.preference.goal import Goal
from store import Collection
from store.service.judge_as_annotator import EndReason, Judging, example_pairs
from store.service.labelling import LabellingService


def by_judge(judge: LanguageModel | Program, *, in_turn: bool = False) -> Ask:
    """What asks a program or a language model.

    Args:
        in_turn: whether it is one of several, so that messages name it.
    """
    option = "--model" if isinstance(judge, LanguageModel) else "--judge"
    if in_turn:
        option = f"{option} {printable(judge.annotator)}"
    connection = judge.connect(option)

    def ask(asking: Asking, number: int | None) -> tuple[str, dict[str, Any]]:
        if isinstance(judge, LanguageModel):
            tell_others(asking.service, asking.annotator, judge)
        with progress() as status:
            judging = Judging(
                judge=connection, service=asking.service, annotator=asking.annotator,
                number=number, notify=say,
                on_progress=lambda text: status(connection.progress(text)),
            )  # fmt: skip
            with ended_by_signals():
                judging.run()
        end = judging.end()
        asking.answered += end.n_preferences
        asking.interrupted = end.reason == EndReason.INTERRUPTED
        why = end.text
        if end.reason == EndReason.GOAL:
            why = f"{why} (--until sets another)"
            if number is not None and not in_turn:
                why = f"ended after {end.answered} of {number} answers (--number): {why}"
        if spent := connection.spent_text():
            # The fault has a line of its own.
            why = spent if end.fault else f"{why} ({spent})"
        facts = connection.spent_facts()
        about_end = {"failed": end.failed, "fault": end.fault, "end": end.reason.name.lower()}
        return why, {**facts, **about_end}

    return ask


def tell_others(service: LabellingService, annotator: str, judge: LanguageModel) -> None:
    """Tell if the annotator's last answer is of another model, prompt or request."""
    judgements = service.judgements()
    texts, mine = judgements.texts["meta"], judgements.by(annotator)
    last = next((texts[row] for row in sorted(texts, reverse=True) if mine[row]), None)
    try:
        said = json.loads(last or "{}")
    except (ValueError, RecursionError):  # an import's
        return
    if not isinstance(said, dict) or "model" not in said:
        return
    before = said.get("request")
    is_same_request = part_of_judge(before if isinstance(before, dict) else {}) == part_of_judge(
        judge.request
    )
    now = {"model": judge.model, "prompt": Prompt(judge.prompt).hash}
    who = printable(annotator)
    if any(said.get(name, now[name]) != now[name] for name in now):
        say(f"{who}: earlier answers are of another model or prompt: --as NAME keeps them apart")
    elif not is_same_request:
        say(f"{who}: earlier answers are to another request: --as NAME keeps them apart")


def show_prompt_or_estimate(
    collection: Collection,
    options: Mapping[str, Any],
    number: int | None,
    until: Goal | None,
    *,
    as_json: bool,
) -> None:
    """Show the prompt of one pair, or what a run would take; nothing is sent or stored."""
    model = judge_of({**options, "model": options["model"] or "model", "judge": None})
    assert isinstance(model, LanguageModel)
    first = collection.asked()[0]
    with closing(LabellingService(first, goal=until)) as service, progress() as status:
        status("fitting the answers so far")
        service.settle()
        remaining = service.remaining
        some = example_pairs(service, 1 if options["show_prompt"] else SAMPLE)
    if options["show_prompt"]:
        show_prompt(Prompt(model.prompt), some[0], as_json=as_json)
        return
    if number is not None:
        show_estimate(model, number, some, as_json=as_json)
        return
    if remaining.questions is None:
        raise SortNetError("--estimate: how many questions are left is not known: give --number")
    show_estimate(model, remaining.questions, some, remaining.likely_range, as_json=as_json)
