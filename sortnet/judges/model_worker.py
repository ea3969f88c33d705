"""A worker that asks a server of language models one question after the other."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from sortnet.files import Record
from sortnet.judges.answer_form import AnswerForm, Reply, count_tokens, parse_reply
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.faults import Failure, Whose, failure_in
from sortnet.judges.model_server import KEY_VARIABLE, HttpAnswer, Server
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

    def ask(self, questions: Sequence[AskedQuestion]) -> Iterator[Verdict]:
        """Ask the server each question, and yield the verdicts.

        Args:
            questions: questions with the messages for the model under `messages`.

        Raises:
            Fault: if a question fails.
        """
        for question in questions:
            try:
                verdict = self._verdict(question)
            except Fault as fault:
                # The key is hidden before the message is cut, so that no part of the key stays.
                text = self.server.without_key(str(fault), _LONGEST_FAULT)
                raise type(fault)(text) from None
            yield verdict

    def stop(self) -> None:
        """End `ask` before its next call, and end a pause between two calls at once."""
        self._stopped.set()

    def end(self) -> None:
        """Do nothing: the connections belong to the server."""

    def _verdict(self, question: AskedQuestion) -> Verdict:
        """Ask the server, and ask a second time if the first answer cannot be read.

        The verdict is a skip if the second answer cannot be read either, or if the question is too
        long for the model or refused for its content.

        Raises:
            Fault: if the server does not reply to the first call, or refuses it.
        """
        budget = self.server.budget
        form = AnswerForm.of(question)
        messages = [*question["messages"]]
        began = time.monotonic()
        tokens = [0, 0]  # tokens of the prompts, tokens of the answers
        verdict: Verdict | None = None
        for n_calls in (1, 2):
            try:
                reply, is_structured = self._reply(messages, form)
            except Fault:
                if verdict is None:
                    raise
                break  # the skip of the first answer counts
            meta = {"model": self.server.model, "tokens": tokens, "calls": n_calls}
            meta |= {"structured": True} if is_structured else {}
            meta |= question.get("meta", {})
            if isinstance(reply, Failure):
                assert reply.reason is not None
                verdict = unanswered(reply.reason, reply.message, meta=meta)
                break
            reading = form.read(reply.choice)
            counted = count_tokens(reply, reading.text, messages)
            budget.add(*counted)
            tokens[:] = [sum(numbers) for numbers in zip(tokens, counted, strict=True)]
            verdict = form.verdict(reading, meta, self.server.hidden)
            if reading.best is not None:
                break
            messages += [
                {"role": "assistant", "content": self.server.hidden(reading.text) or "-"},
                {"role": "user", "content": form.again(as_json=is_structured)},
            ]
        assert verdict is not None
        milliseconds = int(1000 * (time.monotonic() - began))
        return replace(verdict, milliseconds=milliseconds, cost=budget.cost_of(*tokens))

    def _reply(self, messages: Sequence[Record], form: AnswerForm) -> tuple[Reply | Failure, bool]:
        """Return the server's reply, and whether the request had a JSON schema.

        While the server is busy, broken or away, the call is repeated after longer and longer
        pauses. If the server refuses a parameter that can be left out, the call is repeated without
        the parameter. A Failure takes the place of the reply if the messages are too long for the
        model, or refused for their content.

        Raises:
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
            answer = HttpAnswer(0, {}, b"")
            try:
                answer = server.post(body)
                failure = failure_in(answer.status, answer.body)
            except Unreachable as error:
                failure = Failure(Whose.ADDRESS, 0, str(error))
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
            elif not server.leave_out_refused(body, failure, message):
                if failure.whose is Whose.USER:
                    raise self._refusal(answer, failure, message)
                server.has_answered = True
                return failure._replace(message=message), False

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
        wish = retry_after(answer.headers.get("retry-after", ""))
        # The pause is random so that many workers do not call again at the same time.
        random_pause = shortest * self._random.uniform(1.0, 1.5)
        seconds = random_pause if wish is None else max(wish, shortest)
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

    def _refusal(self, answer: HttpAnswer, failure: Failure, message: str) -> Refused:
        """Make the fault of a server that would refuse every question.

        Args:
            answer: the answer of the server.
            failure: the failure of the call.
            message: the server's words, in which the key is hidden.
        """
        status = failure.status
        if 300 <= status < 400:
            address = self.server.without_key(answer.headers.get("location", "elsewhere"))
            return Refused(f"the server redirects to {address}: give that address")
        if status in (401, 403) and self.server.key is None:
            return Refused(
                f"the server asks for a key ({status}), which {KEY_VARIABLE} may have: {message}"
            )
        thing = {401: "key", 403: "key", 404: "model or address"}.get(status, "call")
        return Refused(f"the server takes no such {thing} ({status}): {message}")


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
