"""Write the lines of requests to a provider's batch endpoint, and read the lines of its answers.

A line of a request, and a line of an answer:

{"custom_id": ..., "method": "POST", "url": "/v1/chat/completions", "body": {...}}
{"custom_id": ..., "response": {"status_code": 200, "body": {...}}, "error": null}

The `custom_id` names the batch, the lease of the question, and the order of its items: 1, or 2 if
they are in the reverse order.
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
from sortnet.judges.verdicts import quote

URL = "/v1/chat/completions"
_ID = re.compile(r"([0-9a-f]{8})-([\w-]{8,48})-([12])", re.ASCII)
_LONGEST_READ = 1000  # bytes of a line that are searched for a text to quote


class AnswerLine(NamedTuple):
    """A line of a provider's file of answers.

    Attributes:
        number: number of the line in its file, from 1.
        batch: name of the batch; empty: the line answers no request of SortNet.
        lease: id of the lease of the question.
        is_turned: whether the items of the question were in the reverse order.
        status: HTTP status of the answer.
        body: body of the answer.
        fault: reason why the line answers no request; empty if it answers one.
    """

    number: int
    batch: str = ""
    lease: str = ""
    is_turned: bool = False
    status: int = 0
    body: bytes = b""
    fault: str = ""


def request_line(batch: str, lease: str, body: Mapping[str, Any], *, is_turned: bool) -> str:
    """Make the line of a request in a batch file, with its line break."""
    custom_id = f"{batch}-{lease}-{2 if is_turned else 1}"
    line = {"custom_id": custom_id, "method": "POST", "url": URL, "body": body}
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
    quoted = quote(without_secrets(line[:_LONGEST_READ].decode("utf-8", "replace")))
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return AnswerLine(number, fault=f"is no JSON: {quoted}")
    custom_id = record.get("custom_id") if isinstance(record, dict) else None
    match = _ID.fullmatch(custom_id) if isinstance(custom_id, str) else None
    if match is None:
        return AnswerLine(number, fault=f"has no custom_id of a request of SortNet: {quoted}")
    response = record.get("response")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        status, body = response["status_code"], response.get("body")
    elif record.get("error"):
        # The request was not carried out. Any server's fault is told like this, and only the words
        # can tell that it is the question's fault.
        status, body = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": record["error"]}
    else:
        fault = "has neither a response nor an error: give the file that the provider returned"
        return AnswerLine(number, fault=fault)
    is_turned = match[3] == "2"
    return AnswerLine(number, match[1], match[2], is_turned, status, json.dumps(body).encode())
