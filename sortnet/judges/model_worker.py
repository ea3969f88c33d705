"""A worker that asks a server of language models one question after the other."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple

from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.faults import Failure, Reason, Whose, failure_in
from sortnet.judges.http_client import HttpAnswer
from sortnet.judges.model_answers import Reply, count_tokens, parse_reply
from sortnet.judges.model_server import KEY_VARIABLE, Server
from sortnet.judges.verdicts import (
    Fault,
    Refused,
    Unreachable,
    Verdict,
    unanswered,
)

_SHORTEST_WAIT = 1.0  # seconds before the second call, even if the server asks for less
_LONGEST_WAIT = 60.0  # seconds between two calls, unless the server asks for more
_LONGEST_RETRY_AFTER = 1e9  # seconds: a longer time would only be a long number to print
_LONGEST_FAULT = 300  # characters of a whole message


class _Unanswerable(Fault):
    """Raised for a question that is too long for the model, or that is refused for its content."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        assert failure.reason is not None
        self.reason = failure.reason


@dataclass
class _Usage:
    """Calls about one question so far, with their tokens."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    began: float = field(default_factory=time.monotonic)  # before the first call


class _Attempt(NamedTuple):
    """Result of asking a server once.

    Attributes:
        verdict: the verdict; a skip if the reply cannot be read.
        messages_to_ask_again: messages for a second call; None if the reply can be read.
    """

    verdict: Verdict
    messages_to_ask_again: Sequence[Mapping[str, Any]] | None = None


class ModelWorker:
    """Worker that asks a server of language models one question after the other.

    Args:
        server: the server, which all workers share.
        seed: random seed of the pauses between the calls of a busy server.
    """

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self._stopped = threading.Event()  # set when nothing more is asked
        self._random = random.Random(seed)

    def ask(self, questions: Sequence[AskedQuestion]) -> list[Verdict]:
        """Ask the server each question, and return the verdicts.

        Args:
            questions: questions with the messages for the model under `messages`.

        Raises:
            Fault: if a question fails; the fault has the verdicts on the questions before.
        """
        verdicts: list[Verdict] = []
        for question in questions:
            try:
                verdicts.append(self._verdict(question))
            except Fault as fault:
                # The key is hidden before the message is cut, so that no part of the key stays.
                text = self.server.without_key(str(fault), _LONGEST_FAULT)
                raise type(fault)(text, verdicts) from None
        return verdicts

    def stop(self) -> None:
        """End `ask` before its next call, and end a pause between two calls at once."""
        self._stopped.set()

    def end(self) -> None:
        """Do nothing: the connections belong to the server."""

    def _verdict(self, question: AskedQuestion) -> Verdict:
        """Ask the server, and ask a second time if the first answer cannot be read.

        The verdict is a skip if the second answer cannot be read either, or if the question is too
        long for the model or refused for its content.
        """
        usage = _Usage()
        try:
            first = self._attempt(question, question["messages"], usage)
            if first.messages_to_ask_again is None:
                return first.verdict
            return self._second_verdict(question, first.messages_to_ask_again, usage, first.verdict)
        except _Unanswerable as fault:
            meta = self._meta(usage, question.get("meta", {}), is_structured=False)
            facts = self._facts(usage)
            return unanswered(fault.reason, str(fault), meta=meta, **facts)

    def _second_verdict(
        self,
        question: AskedQuestion,
        messages: Sequence[Mapping[str, Any]],
        usage: _Usage,
        skip: Verdict,
    ) -> Verdict:
        """Ask the server a second time; return the verdict, or `skip` if the server fails.

        Args:
            question: the question.
            messages: messages that ask for a better answer.
            usage: calls and tokens of the question so far.
            skip: the verdict after the first answer, which could not be read.

        Raises:
            _Unanswerable: if the messages are too long for the model, or refused.
        """
        try:
            return self._attempt(question, messages, usage).verdict
        except _Unanswerable:
            raise
        except Fault:
            return skip

    def _attempt(
        self, question: AskedQuestion, messages: Sequence[Mapping[str, Any]], usage: _Usage
    ) -> _Attempt:
        """Ask the server once, and read the verdict from the reply.

        Args:
            question: the question.
            messages: messages that ask the question.
            usage: calls and tokens of the question so far, to which the call is added.

        Raises:
            _Unanswerable: if the messages are too long for the model, or refused.
            Fault: if the server does not reply, or refuses the request.
        """
        form = AnswerForm.of(question)
        usage.calls += 1
        reply, is_structured = self._reply(messages, form)
        reading = form.read(reply.choice)
        tokens_in, tokens_out = count_tokens(reply, reading.text, messages)
        self.server.budget.add(tokens_in, tokens_out)
        usage.tokens_in += tokens_in
        usage.tokens_out += tokens_out
        further_meta = form.facts(reading) | question.get("meta", {})
        meta = self._meta(usage, further_meta, is_structured=is_structured)
        reading = replace(reading, why_not=self.server.hidden(reading.why_not))
        text = self.server.hidden(reading.text)
        verdict = form.verdict(reading, text, meta, self._facts(usage))
        if reading.best is not None:
            return _Attempt(verdict)
        request = form.again(as_json=is_structured)
        return _Attempt(verdict, _messages_to_ask_again(messages, text, request))

    def _meta(
        self, usage: _Usage, further_meta: Mapping[str, Any], *, is_structured: bool
    ) -> dict[str, Any]:
        """Collect the facts that are stored with a verdict: the model, its calls and their tokens.

        Args:
            usage: calls and tokens of the question so far.
            further_meta: further facts.
            is_structured: whether the answer was asked for by JSON schema.
        """
        meta: dict[str, Any] = {
            "model": self.server.model,
            "tokens": [usage.tokens_in, usage.tokens_out],
            "calls": usage.calls,
        }
        if is_structured:
            meta["structured"] = True
        return {**meta, **further_meta}

    def _facts(self, usage: _Usage) -> dict[str, Any]:
        """Return the time and the cost of a question so far, by the names of a verdict's fields."""
        return {
            "milliseconds": int(1000 * (time.monotonic() - usage.began)),
            "cost": self.server.budget.cost_of(usage.tokens_in, usage.tokens_out),
        }

    def _reply(self, messages: Sequence[Mapping[str, Any]], form: AnswerForm) -> tuple[Reply, bool]:
        """Return the server's reply, and whether the request had a JSON schema.

        While the server is busy, broken or away, the call is repeated after longer and longer
        pauses. If the server refuses a parameter that can be left out, the call is repeated without
        the parameter.

        Raises:
            _Unanswerable: if the messages are too long for the model, or refused for their content.
            Fault: if the server does not reply, or refuses the request.
        """
        server = self.server
        seconds_waited = 0.0
        shortest_pause = _SHORTEST_WAIT  # seconds
        while True:
            if self._stopped.is_set():
                raise Fault("interrupted")
            body = server.body(messages, form)
            began = time.monotonic()
            answer, failure = self._call(body)
            if failure is None:
                reply = parse_reply(answer.body)
                server.has_answered, server.is_away = True, False
                return reply, "response_format" in body
            message = server.without_key(failure.message)
            if failure.whose in (Whose.SERVER, Whose.ADDRESS):
                if failure.whose is Whose.ADDRESS and not server.has_answered:
                    raise Fault(failure.message)  # the address may be wrong: nobody waits for it
                seconds_waited += time.monotonic() - began
                seconds_waited += self._pause(answer, failure, seconds_waited, shortest_pause)
                shortest_pause = min(2 * shortest_pause, _LONGEST_WAIT)
                continue
            if self._may_ask_without(body, failure, message):
                continue
            self._raise_if_refused(answer, failure, message)
            server.has_answered = True
            raise _Unanswerable(failure, message)

    def _call(self, body: Mapping[str, Any]) -> tuple[HttpAnswer, Failure | None]:
        """Call the server once; return the answer, and the failure if it has no reply.

        If the server cannot be reached, the answer is empty. Its status is 0.

        Raises:
            Fault: if the answer cannot be taken, or the budget allows no call.
        """
        try:
            answer = self.server.post(body)
        except Unreachable as error:
            return HttpAnswer(0, {}, b""), Failure(Whose.ADDRESS, 0, str(error))
        return answer, failure_in(answer.status, answer.body)

    def _may_ask_without(self, body: Mapping[str, Any], failure: Failure, message: str) -> bool:
        """Whether a request may succeed without a parameter that the server refuses.

        Args:
            body: body of the request.
            failure: the failure of the request.
            message: the server's words, in which the key is hidden.
        """
        is_about_request = failure.status in (400, 422)
        may_be_parameter = failure.reason is Reason.REFUSED or "logprob" in message.lower()
        return (
            is_about_request and may_be_parameter and self.server.leave_out_refused(body, message)
        )

    def _pause(
        self, answer: HttpAnswer, failure: Failure, seconds_waited: float, shortest: float
    ) -> float:
        """Wait before the next call of a server; return the seconds of the pause.

        Args:
            answer: answer of the server, which may ask to wait.
            failure: the failure of the last call.
            seconds_waited: seconds of the calls and pauses before.
            shortest: seconds of this pause, at least.

        Raises:
            Fault: if all pauses together would be longer than the patience, or at an interrupt.
        """
        seconds = self._seconds_to_wait(answer, shortest)
        # The words of a busy server say little more than its status.
        why = str(failure.status) if failure.status >= 400 else failure.message
        if seconds_waited + seconds > self.server.patience:
            beyond = f"a wait of {seconds:.0f} more is beyond the patience"
            raise Fault(f"still {why} after {seconds_waited:.0f} seconds, and {beyond}")
        if failure.status != HTTPStatus.TOO_MANY_REQUESTS:
            self.server.note_waiting(self.server.without_key(why))
        if self._stopped.wait(seconds):
            raise Fault("interrupted")
        return seconds

    def _seconds_to_wait(self, answer: HttpAnswer, shortest: float) -> float:
        """Return the seconds that the server asks to wait, but at least `shortest`."""
        seconds = retry_after(answer.headers.get("retry-after", ""))
        if seconds is None:
            # The pause is random so that many workers do not call again at the same time.
            return shortest * self._random.uniform(1.0, 1.5)
        return max(seconds, shortest)

    def _raise_if_refused(self, answer: HttpAnswer, failure: Failure, message: str) -> None:
        """Raise Refused if the server would refuse every question.

        Args:
            answer: the answer of the server.
            failure: the failure of the call.
            message: the server's words, in which the key is hidden.
        """
        if failure.whose is not Whose.USER:
            return
        status = failure.status
        if status in (401, 403) and self.server.key is None:
            raise Refused(
                f"the server asks for a key ({status}), which {KEY_VARIABLE} may have: {message}"
            )
        if status in (401, 403):
            raise Refused(f"the server takes no such key ({status}): {message}")
        if status == 404:
            raise Refused(f"no such model or address ({status}): {message}")
        if 300 <= status < 400:
            address = self.server.without_key(answer.headers.get("location", "elsewhere"))
            raise Refused(
                f"the server redirects to {address}, which was not followed: give that address"
            )
        raise Refused(f"the server says {status}: {message}")


def _messages_to_ask_again(
    messages: Sequence[Mapping[str, Any]], unreadable_text: str, request: str
) -> list[Mapping[str, Any]]:
    """Append a model's unreadable answer and the request for a better one to the messages."""
    answer = {"role": "assistant", "content": unreadable_text or "-"}
    return [*messages, answer, {"role": "user", "content": request}]


def retry_after(value: str) -> float | None:
    """Read the seconds to wait from a header `Retry-After`, which is a number or a date.

    The result is None if the header is neither.

    >>> retry_after("7"), retry_after("-inf"), retry_after("soon")
    (7.0, 0.0, None)
    """
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER)
