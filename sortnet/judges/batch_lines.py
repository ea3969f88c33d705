"""Write the lines of requests to a provider's batch endpoint, and read the lines of its answers.

A line of a request, and a line of an answer:

{"custom_id": ..., "method": "POST", "url": "/v1/chat/completions", "body": {...}}
{"custom_id": ..., "response": {"status_code": 200, "body": {...}}, "error": null}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sortnet.files import open_bytes, reading, shown
from sortnet.judges.faults import error_message
from sortnet.judges.http_client import LONGEST
from sortnet.judges.request import without_secrets
from sortnet.judges.verdicts import Fault
from sortnet.messages import cut, printable

URL = "/v1/chat/completions"
_ID = re.compile(r"(?P<batch>[0-9a-f]{8})-(?P<lease>[\w-]{8,48})-(?P<order>[12])", re.ASCII)
_LONGEST_MESSAGE = 200  # characters


class RequestId(NamedTuple):
    """Parts of a request's `custom_id`: the batch, the lease and the order of the items.

    >>> str(RequestId("0a1b2c3d", "abcdefgh", 2))
    '0a1b2c3d-abcdefgh-2'
    >>> RequestId.parse("0a1b2c3d-abcdefgh-2") == RequestId("0a1b2c3d", "abcdefgh", 2)
    True
    """

    batch: str
    lease: str
    order: int  # 1; 2 if the items of the question are in the reverse order

    @property
    def has_order_of_lease(self) -> bool:
        """Whether the request shows the items in the order of the leased question."""
        return self.order == 1

    def __str__(self) -> str:
        return f"{self.batch}-{self.lease}-{self.order}"

    @classmethod
    def parse(cls, text: object) -> RequestId | None:
        """Parse a `custom_id`; None if SortNet did not make it."""
        match = _ID.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            return None
        return cls(match["batch"], match["lease"], int(match["order"]))


class AnswerLine(NamedTuple):
    """A line of a provider's file of answers.

    Attributes:
        number: number of the line in its file, from 1.
        id: `custom_id` of the request.
        status: HTTP status of the answer; None: the request was not carried out.
        body: body of the answer as JSON.
        error: reason why there is no answer; empty if there is an answer.
    """

    number: int
    id: str
    status: int | None
    body: bytes
    error: str


def is_same_model(answered: str, asked: str) -> bool:
    """Whether a model that has answered is the one that was asked; it is, if it has no name.

    Servers add a version to the name, or leave out a folder before it.

    >>> is_same_model("gpt-4o-2024-08-06", "openai/gpt-4o"), is_same_model("gpt-4o-mini", "gpt-4o")
    (True, False)
    >>> is_same_model("gpt-4-0613", "gpt-4-0314"), is_same_model("m-2409", "m-latest")
    (False, True)
    """
    answered, asked = (name.rsplit("/", 1)[-1].lower() for name in (answered, asked))
    if answered in ("", asked):
        return True
    stem = asked.removesuffix("latest").rstrip("-:@")
    return re.fullmatch(re.escape(stem) + r"[-:@](?:latest|v?\d[\d.-]*)", answered) is not None


def request_line(id: RequestId, body: Mapping[str, Any]) -> str:
    """Make the line of a request in a batch file, with its line break."""
    line = {"custom_id": str(id), "method": "POST", "url": URL, "body": body}
    text = json.dumps(line, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode() + "\n"  # a lone surrogate cannot be encoded


def answer_lines(path: Path) -> Iterator[AnswerLine | Fault]:
    """Read a file of answers; yield an `AnswerLine`, or a Fault for a line without an answer.

    Empty lines are skipped.

    Raises:
        DataError: if the file cannot be read.
    """
    with reading(path), open_bytes(path) as file:
        number = 0
        while line := file.readline(LONGEST + 1):
            number += 1
            if len(line) > LONGEST:
                # The rest of the line is read in pieces, so that memory stays bounded.
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST)
                yield Fault(f"line {number}: more than {LONGEST:,} bytes")
                continue
            if not line.strip():
                continue
            try:
                yield _answer_line(number, line)
            except Fault as fault:
                yield Fault(f"line {number}: {fault}")


def _answer_line(number: int, line: bytes) -> AnswerLine:
    """Parse a line of a file of answers.

    Raises:
        Fault: if the line is no answer of a batch.
    """
    record = _record(line)
    id = record["custom_id"]
    response = record.get("response")
    if response is None:
        return AnswerLine(number, id, None, b"", _error_text(record.get("error")))
    if not isinstance(response, dict) or not isinstance(response.get("status_code"), int):
        raise Fault(f"{shown(id)}: its response has no status_code")
    body = json.dumps(response.get("body")).encode()
    status = response["status_code"]
    error = "" if status == 200 else f"{status}: {_quoted(error_message(body))}"
    return AnswerLine(number, id, status, body, error)


def _record(line: bytes) -> dict[str, Any]:
    """Parse the JSON of a line, a dict with a `custom_id`, and a `response` or an `error`.

    Raises:
        Fault: if the line has something else.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        if line.endswith(b"\n"):
            raise Fault(f"is no JSON: {_quoted(line.decode('utf-8', 'replace'))}") from None
        raise Fault("is cut: its file does not end there") from None
    if not isinstance(record, dict) or not isinstance(record.get("custom_id"), str):
        raise Fault("is no answer of a batch: it has no custom_id")
    if "response" in record or "error" in record:
        return record
    if "body" in record:
        raise Fault("is a request, and no answer: give the file that the provider returned")
    raise Fault("is no answer of a batch: it has neither response nor error")


def _error_text(error: Any) -> str:
    """Describe the `error` of a line: its message, its code, or the whole error as JSON."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("code") or error
    text = error if isinstance(error, str) else json.dumps(error)
    return _quoted(text)


def _quoted(text: str) -> str:
    """Shorten a text of the provider for a message, with secrets replaced by ***."""
    return cut(printable(without_secrets(text)), _LONGEST_MESSAGE)
