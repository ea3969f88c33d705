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

_ANSWERS_A_TURN = 20  # answers of one judge before the next judge is asked


def ask_in_turn(
    service: LabellingService,
    connections: Mapping[str, JudgeConnection],
    max_calls: int | None,
    progress: Progress,
) -> LabellingEnd | None:
    """Ask several judges in turn, until the goal is reached or no judge can be asked.

    Args:
        service: chooses the questions and stores the answers.
        connections: {annotator: the judge that answers under this name}.
        max_calls: most calls of each judge in the collection, earlier calls included; None: no
            limit.

    Returns:
        How the last turn ended; None if the goal was reached before.

    Raises:
        SortNetError: if a judge fails.
        KeyboardInterrupt: at an interrupt, after the answers so far are stored.
    """
    calls_left = _limit_all_calls(service, connections, max_calls)
    # The annotators whose judges can be asked, in the order of their turns.
    waiting = [annotator for annotator, n in calls_left.items() if n is None or n > 0]
    if not waiting and not service.remaining.stop:
        return LabellingEnd(
            EndReason.BUDGET, service.remaining.why, answered=0, n_preferences=0, failed=0
        )
    end: LabellingEnd | None = None
    while waiting and not service.remaining.stop:
        annotator = waiting.pop(0)
        connection = connections[annotator]
        n_left = calls_left[annotator]
        n_answers = _answers_of_turn(n_left, len(connections))
        end = _ask(service, annotator, connection, n_answers, progress)
        if n_left is not None:
            n_left = _calls_after(connection, n_left, end)
            calls_left[annotator] = n_left
            if n_left <= 0:
                end = replace(end, reason=EndReason.BUDGET)
        if end.reason not in (EndReason.BUDGET, EndReason.NOTHING_LEFT):
            waiting.append(annotator)
    return end


def _limit_all_calls(
    service: LabellingService, connections: Mapping[str, JudgeConnection], max_calls: int | None
) -> dict[str, int | None]:
    """Limit the calls of each judge, and return {annotator: calls that are left}.

    Args:
        max_calls: most calls of each judge, earlier calls included; None: no limit, and the number
            of calls left is None.
    """
    calls_left: dict[str, int | None] = dict.fromkeys(connections)
    if max_calls is not None:
        for annotator, connection in connections.items():
            n_allowed = max_calls - _calls_so_far(service, annotator)
            _limit_calls(connection, n_allowed)
            calls_left[annotator] = n_allowed
    return calls_left


def _answers_of_turn(n_left: int | None, n_judges: int) -> int | None:
    """Return the most answers that a judge gives in its next turn; None if there is no limit.

    Args:
        n_left: number of calls that the judge has left; None: no limit.
        n_judges: number of judges; a single judge need not make way for another.
    """
    limits = []
    if n_left is not None:
        limits.append(n_left)
    if n_judges > 1:
        limits.append(_ANSWERS_A_TURN)
    return min(limits, default=None)


def _calls_after(connection: JudgeConnection, n_left: int, end: LabellingEnd) -> int:
    """Count the calls that a judge has left after a turn.

    A judge without a limited budget, such as a function, takes one call for each answer.

    Args:
        n_left: number of calls that the judge had left before the turn.
        end: how the turn ended.
    """
    budget = connection.budget
    if budget is not None and budget.limits.max_calls is not None:
        return budget.limits.max_calls - budget.calls
    return n_left - end.answered


def _limit_calls(connection: JudgeConnection, n_allowed: int) -> None:
    """Lower the limit of a judge's budget to `n_allowed` calls, if the judge has a budget.

    The budget of a judge that has no call left stays as it is, because the judge is not asked.
    """
    budget = connection.budget
    if budget is None or n_allowed <= 0:
        return
    max_calls = budget.limits.max_calls
    if max_calls is None or max_calls > n_allowed:
        budget.limits = replace(budget.limits, max_calls=n_allowed)


def _calls_so_far(service: LabellingService, annotator: str) -> int:
    """Count the calls that a judge's answers in the collection took.

    An answer without a stored number of calls counts as one call.
    """
    judgements = service.judgements()
    if annotator not in judgements.annotators:
        return 0
    n_calls = 0
    for row in judgements.by(annotator).nonzero()[0].tolist():
        meta = judgements.texts["meta"].get(row)
        facts = json.loads(meta) if meta else None
        if isinstance(facts, dict):
            n_calls += facts.get("calls", 1)
        else:
            n_calls += 1
    return n_calls


def _ask(
    service: LabellingService,
    annotator: str,
    connection: JudgeConnection,
    number: int | None,
    progress: Progress,
) -> LabellingEnd:
    """Ask a judge for `number` answers; None: until the goal is reached.

    The annotator is added if the collection does not have it, and removed again if the judge gives
    no answer.

    Raises:
        SortNetError: if the judge fails.
        KeyboardInterrupt: at an interrupt, after the answers so far are stored.
    """
    collection = service.collection
    is_new_annotator = annotator not in {existing.name for existing in collection.annotators()}
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
        if is_new_annotator:
            collection.forget(annotator)
    end = judging.end()
    if end.reason == EndReason.INTERRUPTED:
        raise KeyboardInterrupt
    has_only_failed = end.reason == EndReason.NOTHING_LEFT and end.failed and not end.answered
    if end.reason == EndReason.FAULT or has_only_failed:
        raise _failure(judging, end)
    return end


def _failure(judging: Judging, end: LabellingEnd) -> BaseException:
    """Make the error that reports a failed judge, and tells how many of its answers are kept.

    If the judge is a function that raised an exception, this exception gets the report as a note.
    """
    name = judging.judge.name
    n_answers = judging.service.session.answered(judging.annotator)
    next_step = f"{count(n_answers, 'answer')} are kept: the same call goes on"
    if judging.cause is not None:
        judging.cause.add_note(f"{name}: {next_step}")
        return judging.cause
    return SortNetError(f"{name}: {end.fault or judging.last_fault}; {next_step}")
