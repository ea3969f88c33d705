"""Ask several judges in turn about one collection, each with its own limit of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sortnet.core import Progress
from sortnet.judges.connection import JudgeConnection
from sortnet.messages import count
from store.service.judge_as_annotator import EndReason, Judging, LabellingEnd
from store.service.labelling import LabellingService
from store.service.sentences import why

_ANSWERS_A_TURN = 20  # answers of one judge before the next judge is asked


@dataclass
class _Participant:
    """A judge that takes turns with other judges.

    Attributes:
        annotator: name under which the judge's answers are stored.
        connection: the judge.
        n_calls_left: number of calls that the judge has left; None: no limit.
    """

    annotator: str
    connection: JudgeConnection
    n_calls_left: int | None

    @property
    def has_calls_left(self) -> bool:
        """Whether the limit of calls allows another call."""
        return self.n_calls_left is None or self.n_calls_left > 0

    def take_turn(
        self,
        service: LabellingService,
        progress: Progress,
        *,
        n_judges: int,
        is_temporary: bool,
    ) -> LabellingEnd:
        """Ask the judge for the answers of one turn, and return how the turn ended.

        If there are several judges, a turn has 20 answers.

        Args:
            n_judges: number of judges; a single judge need not make way for another.
            is_temporary: whether the store is removed if the judge fails.
        """
        limits = []
        if self.n_calls_left is not None:
            limits.append(self.n_calls_left)
        if n_judges > 1:
            limits.append(_ANSWERS_A_TURN)
        most_answers = min(limits, default=None)
        end = _ask(
            service,
            self.annotator,
            self.connection,
            most_answers,
            progress,
            is_temporary=is_temporary,
        )
        if self.n_calls_left is not None:
            self.n_calls_left = _calls_after(self.connection, self.n_calls_left, end)
        if not self.has_calls_left:
            return replace(end, reason=EndReason.BUDGET)
        return end


def ask_in_turn(
    service: LabellingService,
    connections: Mapping[str, JudgeConnection],
    max_calls: int | None,
    progress: Progress,
    *,
    is_temporary: bool,
) -> LabellingEnd | None:
    """Ask several judges in turn, until the goal is reached or no judge can be asked.

    Args:
        service: chooses the questions and stores the answers.
        connections: {annotator: the judge that answers under this name}.
        max_calls: most calls of each judge in the collection, earlier calls included; None: no
            limit.
        is_temporary: whether the store is removed if a judge fails.

    Returns:
        How the last turn ended; None if the goal was reached before.

    Raises:
        SortNetError: if a judge fails.
        KeyboardInterrupt: at an interrupt, after the answers so far are stored.
    """
    participants = [
        _limit_calls(service, annotator, connection, max_calls)
        for annotator, connection in connections.items()
    ]
    # The judges that can be asked, in the order of their turns.
    waiting = [participant for participant in participants if participant.has_calls_left]
    if not waiting and not service.remaining.stop:
        return LabellingEnd(
            EndReason.BUDGET, why(service.remaining), answered=0, n_preferences=0, failed=0
        )
    end: LabellingEnd | None = None
    while waiting and not service.remaining.stop:
        participant = waiting.pop(0)
        end = participant.take_turn(
            service, progress, n_judges=len(participants), is_temporary=is_temporary
        )
        if end.reason not in (EndReason.BUDGET, EndReason.NOTHING_LEFT):
            waiting.append(participant)
    return end


def _limit_calls(
    service: LabellingService,
    annotator: str,
    connection: JudgeConnection,
    max_calls: int | None,
) -> _Participant:
    """Limit the calls of a judge, and return the judge with the number of calls that are left.

    Args:
        max_calls: most calls of the judge, earlier calls included; None: no limit.
    """
    if max_calls is None:
        return _Participant(annotator, connection, n_calls_left=None)
    n_allowed = max_calls - calls_so_far(service, annotator)
    _lower_budget(connection, n_allowed)
    return _Participant(annotator, connection, n_calls_left=n_allowed)


def _calls_after(connection: JudgeConnection, n_left: int, end: LabellingEnd) -> int:
    """Count the calls that a judge has left after a turn.

    A judge without a limited budget, such as a function, takes one call for each answer.

    Args:
        n_left: number of calls that the judge had left before the turn.
        end: how the turn ended.
    """
    budget = connection.budget
    if budget is not None and budget.max_calls is not None:
        return budget.max_calls - budget.calls
    return n_left - end.answered


def _lower_budget(connection: JudgeConnection, n_allowed: int) -> None:
    """Lower the limit of a judge's budget to `n_allowed` calls, if the judge has a budget.

    The budget of a judge that has no call left stays as it is, because the judge is not asked.
    """
    budget = connection.budget
    if budget is None or n_allowed <= 0:
        return
    if budget.max_calls is None or budget.max_calls > n_allowed:
        budget.max_calls = n_allowed


def calls_so_far(service: LabellingService, annotator: str) -> int:
    """Count the calls that a judge's answers in the collection took.

    An answer without a stored number of calls counts as one call.
    """
    judgements = service.judgements()
    if annotator not in judgements.annotators:
        return 0
    n_calls = 0
    for meta in judgements.meta[judgements.by(annotator)]:
        n_calls += _calls_of_answer(meta)
    return n_calls


def _calls_of_answer(meta: str | None) -> int:
    """Return the number of calls that an answer took; 1 if the number is not stored.

    Args:
        meta: facts about the answer, as JSON text.

    >>> _calls_of_answer('{"calls": 2}'), _calls_of_answer(None)
    (2, 1)
    """
    facts = json.loads(meta) if meta else None
    if not isinstance(facts, dict):
        return 1
    n_calls: int = facts.get("calls", 1)
    return n_calls


def _ask(
    service: LabellingService,
    annotator: str,
    connection: JudgeConnection,
    number: int | None,
    progress: Progress,
    *,
    is_temporary: bool,
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
    # If the judge failed at every question, nothing is left to ask. This is a failure, too.
    has_only_failed = end.reason == EndReason.NOTHING_LEFT and end.failed and not end.answered
    if end.fault or has_only_failed:
        raise _failure(judging, end, is_temporary=is_temporary)
    return end


def answers_kept(n_answers: int, *, is_temporary: bool) -> str:
    """Tell how many answers are kept after an error or an interrupt, and what to do next.

    >>> answers_kept(3, is_temporary=False)
    '3 answers are kept: the same call goes on'
    >>> answers_kept(3, is_temporary=True)
    '0 answers are kept, 3 are lost: store="FILE" keeps them'
    """
    if not is_temporary:
        are = "is" if n_answers == 1 else "are"
        return f"{count(n_answers, 'answer')} {are} kept: the same call goes on"
    lost = f", {n_answers} {'is' if n_answers == 1 else 'are'} lost" if n_answers else ""
    return f'0 answers are kept{lost}: store="FILE" keeps them'


def _failure(judging: Judging, end: LabellingEnd, *, is_temporary: bool) -> BaseException:
    """Make the error that reports a failed judge, and tells how many of its answers are kept.

    If the judge is a function that raised an exception, this exception gets the report as a note.
    """
    name = judging.judge.name
    n_answers = judging.service.session.answered(judging.annotator)
    next_step = answers_kept(n_answers, is_temporary=is_temporary)
    if judging.cause is not None:
        judging.cause.add_note(f"{name}: {next_step}")
        return judging.cause
    return end.error(f"{name}: {end.fault or judging.last_fault}; {next_step}")
