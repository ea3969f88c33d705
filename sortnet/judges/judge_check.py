"""Ask a judge one easy question, to find out whether and how it answers."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from sortnet.errors import SortNetError
from sortnet.judges.any_judge import address_of
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.program import Program
from sortnet.judges.verdicts import Fault


def _item(text: str) -> dict[str, object]:
    """Make an item of a question that has only a text."""
    return {"id": text, "text": text, "image": None, "audio": None, "shown": {}, "features": {}}


_QUESTION: AskedQuestion = {
    "id": "doctor",
    "question": "Which number is greater?",
    "instructions": None,
    "left": _item("2"),
    "right": _item("7"),
}
EXPECTED = "right"


@dataclass(frozen=True)
class JudgeCheck:
    """Answer of a judge to one easy question.

    Attributes:
        judge: name under which the judge's answers are stored.
        to: URL of the server, or command of the program.
        fault: why there is no answer; None: there is an answer.
        answer: what the answer was read as.
        p: probability that the left item is better, which a model's log-probabilities give; None:
            the judge gave none.
        milliseconds: time of the answer, the start of a program included.
        structured: whether a model answered by JSON schema.
        calls, tokens_in, tokens_out: numbers of a model; 0 for a program.
        cost: cost of the tokens; None if no price is known.
    """

    judge: str
    to: str
    fault: str | None = None
    answer: str | None = None
    p: float | None = None
    milliseconds: int = 0
    structured: bool = False
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None


def check_judge(judge: LanguageModel | Program) -> JudgeCheck:
    """Ask a judge one easy question, and return what came; a busy server is not waited for."""
    check = JudgeCheck(judge.annotator, address_of(judge))
    began = time.monotonic()
    try:
        connection = replace(judge, workers=1, patience=0.0).connect()
        with connection.open_connections():
            [worker] = connection.make_workers()
            try:
                [verdict] = worker.ask([connection.prepare(_QUESTION)])
            finally:
                worker.end()
    except (SortNetError, Fault) as error:
        return replace(check, fault=str(error))
    if verdict.why is not None:
        return replace(check, fault=verdict.comment or verdict.why.value)
    milliseconds = int(1000 * (time.monotonic() - began))
    return replace(
        check,
        answer=verdict.answer,
        p=verdict.p,
        milliseconds=milliseconds,
        structured=connection.counts_calls and '"structured"' in (verdict.meta or ""),
        **connection.spent_facts(),
    )
