"""Whose fault a server's answer is, in the words of many servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sortnet.judges.faults import failure_in

# Each line has a status, a body, and the reason of a question's fault or whose fault it is.
FILE = Path(__file__).parent / "data" / "answers_of_servers.jsonl"
ANSWERS = [json.loads(line) for line in FILE.read_text().splitlines()]


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_fault_is_that_of_the_server_the_question_or_the_user(answer):
    body = answer["body"]
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    failure = failure_in(answer["status"], raw)
    if answer["fault"] is None:
        assert failure is None
    else:
        assert failure is not None and failure.message
        found = failure.reason.value if failure.reason else failure.whose.name
        assert found == answer["fault"]


def test_the_words_of_the_provider_behind_a_gateway_are_told():
    raw = json.dumps({"error": {"message": "prompt is too long"}})
    error = {"message": "Provider returned error", "metadata": {"raw": raw}}
    failure = failure_in(400, json.dumps({"error": error}).encode())
    assert failure is not None
    assert failure.message == "Provider returned error: prompt is too long"
