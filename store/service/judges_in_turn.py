"""Ask several judges in turn about one collection, each with its own limit of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from sortnet.core import Progress
from sortnet.errors import SortNetError
from sortnet.judges.connection import JudgeConnection
from sortnet.messages import count
from store.service.judge_as_annotator import EndReason, Judging, LabellingEnd
from store.service.labelling import LabellingService

_TURN = 20  # answers of a judge before the next judge is asked, if there are several


def ask_in_turn(
    service: LabellingService,
    connections: Mapping[str, JudgeConnection],
    max_calls: int | None,
    progress: Progress,
) -> LabellingEnd | None:
    """Ask several judges in turn, until the goal is reached or no judge can be asked.

    Args:
        connections: the judges by the names of their annotators.
        max_calls: most calls of each judge in the collection, with earlier calls; None: no limit.

    Returns the end of the last turn; None if the goal was reached before.

    Raises:
        SortNetError: if a judge fails.
        KeyboardInterrupt: at an interrupt, after the answers so far are stored.
    """
    calls_left: dict[str, int | None] = dict.fromkeys(connections)
    if max_calls is not None:
        for annotator, connection in connections.items():
            n_allowed = max_calls - _calls_so_far(service, annotator)
            _limit_calls(connection, n_allowed)
            calls_left[annotator] = n_allowed
    waiting = [annotator for annotator, n in calls_left.items() if n is None or n > 0]
    if not waiting and not service.remaining.stop:
        return LabellingEnd(EndReason.BUDGET, service.remaining.why, 0, 0, 0)
    answers_a_turn = None if len(connections) == 1 else _TURN
    end: LabellingEnd | None = None
    while waiting and not service.remaining.stop:
        annotator = waiting.pop(0)
        connection = connections[annotator]
        n_left = calls_left[annotator]
        limits = [limit for limit in (n_left, answers_a_turn) if limit is not None]
        end = _ask(service, annotator, connection, min(limits, default=None), progress)
        if n_left is not None:
            n_left = _calls_after(connection, n_left, end)
            calls_left[annotator] = n_left
            if n_left <= 0:
                end = replace(end, reason=EndReason.BUDGET)
        if end.reason not in (EndReason.BUDGET, EndReason.NOTHING_LEFT):
            waiting.append(annotator)
    return end


def _calls_after(connection: JudgeConnection, n_left: int, end: LabellingEnd) -> int:
    """Count the calls that a judge has left, by its budget, else by its answers in this turn."""
    budget = connection.budget
    if budget is not None and budget.limits.max_calls is not None:
        return budget.limits.max_calls - budget.calls
    return n_left - end.answered


def _limit_calls(connection: JudgeConnection, n_allowed: int) -> None:
    """Lower the limit of a judge's budget to `n_allowed` calls, if the judge has a budget.

    A judge without a call left is not asked, so its budget stays.
    """
    budget = connection.budget
    if budget is None or n_allowed <= 0:
        return
    most = budget.limits.max_calls
    if most is None or most > n_allowed:
        budget.limits = replace(budget.limits, max_calls=n_allowed)


def _calls_so_far(service: LabellingService, annotator: str) -> int:
    """Count the calls that a judge's answers in the collection took."""
    judgements = service.judgements()
    if annotator not in judgements.annotators:
        return 0
    n_calls = 0
    for row in judgements.by(annotator).nonzero()[0].tolist():
        meta = judgements.texts["meta"].get(row)
        facts = json.loads(meta) if meta else {}
        n_calls += facts.get("calls", 1) if isinstance(facts, dict) else 1
    return n_calls


def _ask(
    service: LabellingService,
    annotator: str,
    connection: JudgeConnection,
    number: int | None,
    progress: Progress,
) -> LabellingEnd:
    """Ask a judge for `number` answers; None: until the goal is reached.

    If a new judge gives no answer, its annotator is removed again.
    """
    collection = service.collection
    is_new = annotator not in {existing.name for existing in collection.annotators()}
    collection.annotator(annotator)
    judging = Judging(
        judge=connection,
        service=service,
        annotator=annotator,
        number=number,
        on_progress=lambda text: progress(connection.progress(text)),
    )
    try:
        judging.run()
    finally:
        if is_new:
            collection.forget(annotator)
    end = judging.end()
    if end.reason == EndReason.INTERRUPTED:
        raise KeyboardInterrupt
    has_only_failed = end.reason == EndReason.NOTHING_LEFT and end.failed and not end.answered
    if end.reason == EndReason.FAULT or has_only_failed:
        n_answers = service.session.answered(annotator)
        next_step = f"{count(n_answers, 'answer')} are kept: the same call goes on"
        if judging.cause is not None:
            judging.cause.add_note(f"{connection.name}: {next_step}")
            raise judging.cause
        raise SortNetError(f"{connection.name}: {end.fault or judging.last_fault}; {next_step}")
    return end
