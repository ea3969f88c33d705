"""Write the lines of requests to a provider's batch endpoint, and read the lines of its answers.

A line of a request, and a line of an answer:

{"custom_id": ..., "method": "POST", "url": "/v1/chat/completions", "body": {...}}
{"custom_id": ..., "response": {"status_code": 200, "body": {...}}, "error": null}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from sortnet.files import open_bytes, reading
from sortnet.judges.request import without_secrets
from sortnet.messages import cut, printable

URL = "/v1/chat/completions"
_ID = re.compile(r"([0-9a-f]{8})-([\w-]{8,48})-([12])", re.ASCII)
_LONGEST_QUOTE = 83  # characters of a line in a message
_LONGEST_READ = 1000  # bytes of a line that are searched for a text to quote


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

    def __str__(self) -> str:
        return f"{self.batch}-{self.lease}-{self.order}"

    @classmethod
    def parse(cls, text: str) -> RequestId | None:
        """Parse a `custom_id`; None if SortNet did not make it."""
        match = _ID.fullmatch(text)
        return None if match is None else cls(match[1], match[2], int(match[3]))


class AnswerLine(NamedTuple):
    """A line of a provider's file of answers.

    Attributes:
        number: number of the line in its file, from 1.
        id: parts of the request's `custom_id`; None: the line answers no request of SortNet.
        status: HTTP status of the answer.
        body: body of the answer.
        fault: reason why the line answers no request; empty if it answers one.
    """

    number: int
    id: RequestId | None
    status: int = 0
    body: bytes = b""
    fault: str = ""


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


def answer_lines(path: Path) -> Iterator[AnswerLine]:
    """Read the lines of a file of answers, but for empty lines.

    Raises:
        DataError: if the file cannot be read.
    """
    with reading(path), open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _answer_line(number, line)


def _answer_line(number: int, line: bytes) -> AnswerLine:
    """Parse a line of a file of answers."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        text = without_secrets(line[:_LONGEST_READ].decode("utf-8", "replace"))
        return AnswerLine(number, None, fault=f"is no JSON: {cut(printable(text), _LONGEST_QUOTE)}")
    if not isinstance(record, dict) or not isinstance(record.get("custom_id"), str):
        return AnswerLine(number, None, fault="is no answer of a batch: it has no custom_id")
    id = RequestId.parse(record["custom_id"])
    if id is None:
        custom_id = cut(printable(record["custom_id"]), _LONGEST_QUOTE)
        return AnswerLine(number, None, fault=f"{custom_id!r} is no request of SortNet")
    response = record.get("response")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        body = json.dumps(response.get("body")).encode()
        return AnswerLine(number, id, response["status_code"], body)
    if record.get("error"):
        # The request was not carried out. Any server's fault is told like this, and only the words
        # can tell that it is the question's fault.
        body = json.dumps({"error": record["error"]}).encode()
        return AnswerLine(number, id, HTTPStatus.INTERNAL_SERVER_ERROR, body)
    fault = "has neither a response nor an error: give the file that the provider returned"
    return AnswerLine(number, None, fault=fault)
