"""Try a language model or a program: estimate its cost without asking, or ask one easy question."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sortnet.errors import SortNetError
from sortnet.files import Record
from sortnet.judges.answer_form import CHARACTERS, AnswerForm
from sortnet.judges.any_judge import address_of
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.budget import amount
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.program import Program
from sortnet.judges.prompts import Prompt
from sortnet.judges.verdicts import Fault
from sortnet.messages import count

N_EXAMPLES = 50  # prompts whose mean length is used in an estimate


@dataclass(frozen=True)
class CallEstimate:
    """Expected calls, tokens and cost of asking a language model or a program.

    Attributes:
        pairs: number of questions, about two items or more.
        calls: number of calls of the server, or of lines for the program.
        tokens_in: number of tokens in the prompts.
        tokens_out: number of tokens in the answers.
        cost: cost of the tokens; None if no price is known.
    """

    pairs: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None

    def __str__(self) -> str:
        n_tokens = self.tokens_in + self.tokens_out
        tokens = f", {n_tokens:,} tokens" if n_tokens else ""
        cost = "" if self.cost is None else f", a cost of about {amount(self.cost)}"
        return f"about {count(self.calls, 'call')}{tokens}{cost}"


@dataclass(frozen=True)
class DryRun:
    """Request that a judge would get, and its address; making it sends nothing.

    Attributes:
        judge: name under which the judge's answers are stored.
        to: URL of the server, or command of the program.
        question: prompt of a question, or line for the program.
        once: calls, tokens and cost of asking about every item once.
        hundred: calls, tokens and cost of each further hundred questions.
        planned: calls, tokens and cost of the number of answers that the user gave; None: no number
            was given.
    """

    judge: str
    to: str
    question: str
    once: CallEstimate
    hundred: CallEstimate
    planned: CallEstimate | None = None


def dry_run(
    judge: LanguageModel | Program,
    examples: Sequence[AskedQuestion],
    n_once: int,
    number: int | None = None,
) -> DryRun:
    """Describe what a judge would be sent, and what the answers would take; send nothing.

    Args:
        judge: the judge.
        examples: questions of typical length, of which the first is shown.
        n_once: number of questions that ask about every item once.
        number: number of answers that the user wants; None: no number was given.

    Raises:
        SortNetError: if the prompt of a model cannot be used.
    """
    if isinstance(judge, LanguageModel):
        question = Prompt(judge.prompt).of(examples[0])
    else:
        question = json.dumps([examples[0]] if judge.batch > 1 else examples[0])
    return DryRun(
        judge.annotator,
        address_of(judge),
        question,
        once=estimate_calls(judge, n_once, examples),
        hundred=estimate_calls(judge, 100, examples),
        planned=None if number is None else estimate_calls(judge, number, examples),
    )


def estimate_calls(
    judge: LanguageModel | Program, n_pairs: int, examples: Sequence[AskedQuestion]
) -> CallEstimate:
    """Estimate the calls, tokens and cost of `n_pairs` questions.

    Args:
        judge: judge to ask.
        n_pairs: number of questions.
        examples: questions with prompts of typical length.
    """
    if not isinstance(judge, LanguageModel):
        n_asked = n_pairs if judge.max_calls is None else min(n_pairs, judge.max_calls)
        return CallEstimate(n_pairs, math.ceil(n_asked / judge.batch), 0, 0, None)
    calls = 2 * n_pairs if judge.both_orders else n_pairs
    if judge.max_calls is not None:
        calls = min(calls, judge.max_calls)
    prompt = Prompt(judge.prompt)
    tokens_of_prompts = sum(len(prompt.of(example)) // CHARACTERS for example in examples)
    tokens_of_answers = sum(AnswerForm.of(example).tokens for example in examples)
    mean_tokens_of_prompt = max(1.0, tokens_of_prompts / len(examples))
    tokens_in = int(calls * mean_tokens_of_prompt)
    tokens_out = int(calls * tokens_of_answers / len(examples))
    cost = judge.budget().cost_of(tokens_in, tokens_out)
    return CallEstimate(n_pairs, calls, tokens_in, tokens_out, cost)


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


def check_judge(judge: LanguageModel | Program) -> Record:
    """Ask a judge one easy question, and tell what came; a busy server is not waited for.

    Returns:
        Facts for JSON: `judge`, the name under which its answers are stored, and `to`, its address.
        `fault` is None if there is an answer, else the other facts are not known. `answer` is what
        the answer was read as, `p` the probability that the left item is better, None if the judge
        gave none. `milliseconds` has the start of a program, too. `structured` tells whether a
        model answered by JSON schema. `calls`, `tokens_in`, `tokens_out` and `cost` are a model's.
    """
    facts: Record = {
        "judge": judge.annotator,
        "to": address_of(judge),
        "fault": None,
        **dict.fromkeys(("answer", "p", "cost")),
        **dict.fromkeys(("milliseconds", "calls", "tokens_in", "tokens_out"), 0),
        "structured": False,
    }
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
        return facts | {"fault": str(error)}
    if verdict.why is not None:
        return facts | {"fault": verdict.comment or verdict.why.value}
    return {
        **facts,
        "answer": verdict.answer,
        "p": verdict.p,
        "milliseconds": int(1000 * (time.monotonic() - began)),
        "structured": connection.counts_calls and '"structured"' in (verdict.meta or ""),
        **connection.spent_facts(),
    }
