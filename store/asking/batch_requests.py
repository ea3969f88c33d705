"""Write the requests of a batch as lines, up to the limits of calls and cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sortnet.judges import LanguageModel
from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.batch_lines import RequestId, request_line
from sortnet.judges.budget import Budget
from sortnet.judges.estimate import CallEstimate
from sortnet.judges.model_answers import CHARACTERS
from sortnet.judges.model_server import TOPS
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import request_body
from store.asking.machine import asked_question_of
from store.collections.leases import Lease
from store.service.labelling import LabellingService


@dataclass(frozen=True)
class RequestTotals:
    """Totals of the requests in a file.

    Attributes:
        n_requests: number of requests.
        n_characters: number of characters of their prompts.
        tokens_out: expected number of tokens of their answers.
    """

    n_requests: int = 0
    n_characters: int = 0
    tokens_out: int = 0

    @property
    def tokens_in(self) -> int:
        """Expected number of tokens of the prompts."""
        return self.n_characters // CHARACTERS

    def plus(self, prompt: Prompt, question: AskedQuestion) -> RequestTotals:
        """Return the totals with one more request, which asks a question by a prompt."""
        return RequestTotals(
            self.n_requests + 1,
            self.n_characters + len(prompt.of(question)),
            self.tokens_out + AnswerForm.of(question).tokens,
        )


@dataclass
class BatchRequests:
    """Writes a line for each request of a batch, and collects the questions beyond the limits.

    Attributes:
        service: the service that has leased the questions.
        judge: the model that is asked.
        batch: name of the batch.
        facts: facts that are stored with each answer of the model.
        prompt: prompt of the model.
        budget: limits of the model, and prices of its tokens.
        n_questions: number of questions that the lines ask.
        totals: totals of the lines' requests, one or two for each question.
        left_out: leases of the questions that would exceed a limit.
        limit: the first limit that a question exceeded, in words; empty if there was none.
    """

    service: LabellingService
    judge: LanguageModel
    batch: str
    facts: Mapping[str, Any]
    prompt: Prompt
    budget: Budget
    n_questions: int = 0
    totals: RequestTotals = RequestTotals()
    left_out: list[Lease] = field(default_factory=list)
    limit: str = ""

    @property
    def orders(self) -> tuple[bool, ...]:
        """Orders of a question's items, one request each: False as leased, True reversed."""
        return (False, True) if self.judge.both_orders else (False,)

    def lines(self, leases: Sequence[Lease]) -> Iterator[str]:
        """Yield the lines of the requests about leased questions.

        After the first question that exceeds a limit no further line follows: the questions from
        there on are collected in `left_out`.
        """
        for lease in leases:
            questions = [
                asked_question_of(self.service, lease, turned=turned) for turned in self.orders
            ]
            if not self._count(questions):
                self.left_out.append(lease)
                continue
            for order, question in enumerate(questions, 1):
                yield self._line(RequestId(self.batch, lease.id, order), question)

    def estimate(self) -> CallEstimate:
        """Estimate the calls, tokens and cost of the requests in the lines."""
        totals = self.totals
        return CallEstimate(
            self.n_questions,
            totals.n_requests,
            totals.tokens_in,
            totals.tokens_out,
            self.budget.cost_of(totals.tokens_in, totals.tokens_out),
        )

    def _count(self, questions: Sequence[AskedQuestion]) -> bool:
        """Add a request for each order of a question's items to the totals, if limits allow it.

        Return whether the requests were added. After the first refusal, nothing more is added.
        """
        if self.limit:
            return False
        totals = self.totals
        for question in questions:
            totals = totals.plus(self.prompt, question)
        cost = self.budget.cost_of(totals.tokens_in, totals.tokens_out)
        self.limit = self.budget.exceeded_by(totals.n_requests, cost)
        if self.limit:
            return False
        self.n_questions += 1
        self.totals = totals
        return True

    def _line(self, id: RequestId, question: AskedQuestion) -> str:
        """Write the line of a request to the judge's model."""
        judge = self.judge
        response_format: dict[str, Any] | None = None
        if judge.structured:
            response_format = AnswerForm.of(question).response_format
        # TOPS lists numbers of log-probabilities to ask for at each token, the highest first.
        n_tops = TOPS[0] if judge.logprobs else 0
        body = request_body(
            judge.model,
            self.prompt.messages(question),
            judge.request,
            response_format=response_format,
            n_tops=n_tops,
        )
        return request_line(id, body)
