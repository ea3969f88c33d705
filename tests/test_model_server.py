"""Bad servers of language models: keys that they repeat, waits, late and long answers."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from language_model_server import Answers, pair_made, raw_server, worker_of

from sortnet.judges.answer_form import parse_reply
from sortnet.judges.model_server import LONGEST, Connections, HttpAnswer, without_key
from sortnet.judges.model_worker import ModelWorker, retry_after
from sortnet.judges.verdicts import Fault

KEY = "sk-proj/0+A_z"
GOOD = {"choices": [{"message": {"content": "A"}}]}
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


def answered(body: object, status: int = 200, **headers: str) -> HttpAnswer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpAnswer(status, headers, raw)


def fault_of(worker: ModelWorker) -> str:
    """The message of a server's fault, or the comment of a skip by the question's fault."""
    try:
        (verdict,) = worker.ask([pair_made()])
    except Fault as fault:
        message = str(fault)
        assert "\n" not in message and len(message) <= 300
        return message
    assert verdict.answer == "skip" and verdict.comment
    return verdict.comment


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 418])
def test_the_key_is_hidden_before_a_message_is_cut(status: int) -> None:
    """No start of the key may be left at the end of a message either."""
    for before in range(320):
        text = "." * before + f"Bearer {KEY}"
        answer = answered({"error": text}, status, location=text)
        message = fault_of(worker_of(Answers([answer]), key=KEY))
        assert "Bearer s" not in message
        assert "***" in message or before > 50


def in_json(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in text)


def in_json_twice(text: str) -> str:
    return json.dumps({"body": in_json(text)})


def in_python(text: str) -> str:
    return "".join(f"\\x{ord(c):02X}" for c in text)


def in_a_url(text: str) -> str:
    return "".join(f"%{ord(c):02x}" for c in text)


def in_html(text: str) -> str:
    return "".join(f"&#{ord(c)};" if k % 2 else f"&#x{ord(c):04X};" for k, c in enumerate(text))


def dash_alone(text: str) -> str:
    return text.replace("-", r"\u002d")


def slash_alone(text: str) -> str:
    return text.replace("/", r"\/")


@pytest.mark.parametrize(
    "spelled", [in_json, in_json_twice, in_python, in_a_url, in_html, dash_alone, slash_alone]
)
@pytest.mark.parametrize("status", [200, 400])
def test_a_key_that_is_spelled_with_escapes_is_hidden(
    spelled: Callable[[str], str], status: int
) -> None:
    answer = answered(f'{{"error": "key {spelled(KEY)}."'.encode(), status)
    message = fault_of(worker_of(Answers([answer]), key=KEY))
    assert "***" in message and spelled(KEY) not in message


def test_a_comment_of_the_model_has_no_key_and_its_answer_is_read_all_the_same() -> None:
    text = f"Answer: A. I was asked with {KEY}"
    reply = {"choices": [{"message": {"content": text}}]}
    for key, comment in ((KEY, "Answer: A. I was asked with ***"), ("A", text.replace("A", "***"))):
        (verdict,) = worker_of(Answers([answered(reply)]), key=key).ask([pair_made()])
        assert (verdict.answer, verdict.comment) == ("left", comment)


@pytest.mark.parametrize(
    "between", ["\0", "\u200b", "\xad\ufeff", " ", "\\u0000", "\\u200B", "&#8203;", "."]
)
@pytest.mark.parametrize("status", [200, 400])
def test_a_key_with_other_characters_between_its_letters_is_hidden(
    between: str, status: int
) -> None:
    spelled = between.join(KEY)
    message = fault_of(
        worker_of(Answers([answered({"error": f"key {spelled}!"}, status)]), key=KEY)
    )
    assert "***" in message and "proj" not in "".join(filter(str.isalnum, message))
    reply = {"choices": [{"message": {"content": f"Answer: A. It is {spelled}."}}]}
    (verdict,) = worker_of(Answers([answered(reply)]), key=KEY).ask([pair_made()])
    assert (verdict.answer, verdict.comment) == ("left", "Answer: A. It is ***.")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("status", [200, 400])
def test_a_key_in_a_body_of_another_encoding_is_hidden(encoding: str, status: int) -> None:
    for text in (f'{{"error": "key {KEY}!"}}', f"[key {KEY}!"):
        message = fault_of(worker_of(Answers([answered(text.encode(encoding), status)]), key=KEY))
        assert "key ***!" in message


def test_a_key_is_found_by_its_letters_and_no_other_text_is_hidden() -> None:
    assert without_key("sk-12 and sk_1, and sK-1", "sk-1") == "***2 and ***, and sK-1"
    assert without_key("a-b -- c", "--") == "a-b *** c"
    hostile = "\\" * LONGEST + KEY[0] * LONGEST
    assert without_key(hostile, KEY) == hostile


class Waits:
    """An event that is never set, and keeps how long it was waited for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return False


@pytest.mark.parametrize(
    "value", ["0", "-5", "-inf", "0.001", "-1e308", "Wed, 21 Oct 2015 07:28:00 GMT", "1"]
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_says_to_ask_at_once_is_asked_after_waits_that_double(
    value: str, status: int
) -> None:
    client = Answers([answered({}, status, **{"retry-after": value})])
    worker = worker_of(client, patience=20.0)
    worker._stopped = Waits()  # type: ignore[assignment]
    assert f"still {status} after 15 seconds" in fault_of(worker)
    assert worker._stopped.seconds == [1.0, 2.0, 4.0, 8.0]  # 16 more would be 31
    assert client.n_calls == 5


@pytest.mark.parametrize("value", ["nan", "soon", "", "9" * 5000 + "x"])
def test_a_retry_after_that_says_nothing_is_none(value: str) -> None:
    client = Answers([answered({}, 429, **{"retry-after": value})])
    worker = worker_of(client, patience=600.0)
    worker._stopped = Waits()  # type: ignore[assignment]
    fault_of(worker)
    waits = worker._stopped.seconds
    assert 600.0 - 1.5 * 60.0 < sum(waits) <= 600.0
    for k, wait in enumerate(waits):
        shortest = min(2.0**k, 60.0)
        assert shortest <= wait <= 1.5 * shortest


def test_a_longer_wait_is_what_the_server_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1445412475.0)
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 5.0
    assert retry_after("3600") == 3600.0
    for endless in ("inf", "1e308", "9" * 4000):
        client = Answers([answered({}, 429, **{"retry-after": endless})])
        assert "a wait of 1000000000 more is beyond" in fault_of(worker_of(client, patience=600))


DRIPPING = HEAD + b"Content-Length: 100000\r\n\r\n"


def test_an_answer_that_drips_is_given_up_at_the_deadline() -> None:
    """Each byte comes before any timeout of a read; only the client ends the connection."""

    def reply(connection: socket.socket) -> None:
        connection.sendall(DRIPPING)
        while True:  # until the client hangs up
            connection.sendall(b"1")
            time.sleep(0.02)

    with raw_server(reply) as url, Connections(url, {}, 0.5) as connections:
        assert fault_of(worker_of(connections)) == "no answer after 0.5 seconds"


def test_a_connection_that_is_refused_is_told_in_usual_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with Connections(url, {}, 60.0) as connections:
        assert (
            fault_of(worker_of(connections))
            == f"{url}: Connection refused (is the server running?)"
        )


@contextmanager
def replying(raw: bytes) -> Iterator[Connections]:
    """Yield connections to a server that answers with these headers and content."""
    with (
        raw_server(lambda connection: connection.sendall(HEAD + raw)) as url,
        Connections(url, {}, 60.0) as connections,
    ):
        yield connections


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("gzip", "an answer of more than 1,048,576 bytes"),
        ("deflate", "an answer of more than 1,048,576 bytes"),
        ("br", "an answer that is encoded as br, unasked: turn compression off"),
        ("gzip, gzip", "an answer that is encoded as gzip, gzip, unasked: turn compression off"),
    ],
)
def test_an_answer_is_never_decoded_beyond_its_limit(encoding: str, message: str) -> None:
    raw = gzip.compress(b" " * (64 << 20), 1)

    def reply(connection: socket.socket) -> None:
        head = HEAD + f"Content-Encoding: {encoding}\r\n\r\n".encode()
        connection.sendall(head + raw)

    with raw_server(reply) as url, Connections(url, {}, 60.0) as connections:
        assert fault_of(worker_of(connections)).startswith(message)


@pytest.mark.parametrize(
    ("encoding", "encoded", "body"),
    [
        ("GZIP", gzip.compress(b"{}", mtime=0), b"{}"),
        ("deflate", zlib.compress(b"{}"), b"{}"),
        ("gzip", b"{}", None),
    ],
)
def test_a_compressed_answer_is_decoded(encoding: str, encoded: bytes, body: bytes | None) -> None:
    def reply(connection: socket.socket) -> None:
        connection.sendall(HEAD + f"Content-Encoding: {encoding}\r\n\r\n".encode() + encoded)

    with raw_server(reply) as url, Connections(url, {}, 60.0) as connections:
        if body is None:
            assert "incorrect header check" in fault_of(worker_of(connections))
        else:
            assert connections.post({}).body == body


PLAIN = b"\r\n\r\n" + json.dumps(GOOD).encode()


@pytest.mark.parametrize(
    ("raw", "answer", "comment"),
    [
        (b"Content-Encoding: identity" + PLAIN, "left", None),
        # Found by fuzzing: a time that is no float was a traceback of the reader of cookies.
        (b"Set-Cookie: a=b; Max-Age=" + b"9" * 5000 + PLAIN, "left", None),
        # Half a surrogate pair is part of the second request, which is UTF-8.
        (
            b'\r\n{"choices": [{"message": {"content": "no \\ud800 letter"}}]}',
            "skip",
            "no ? letter",
        ),
    ],
)
def test_an_odd_answer_is_read(raw: bytes, answer: str, comment: str | None) -> None:
    with replying(raw) as connections:
        (verdict,) = worker_of(connections).ask([pair_made()])
        assert connections._headers["Accept-Encoding"] == "identity"
    assert (verdict.answer, verdict.comment) == (answer, comment)


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"message": {"refusal": "I cannot judge persons."}}, "I cannot judge persons."),
        ({"message": {"content": ""}, "finish_reason": "content_filter"}, "content_filter"),
    ],
)
def test_a_skip_keeps_its_reason(choice: dict, why: str) -> None:
    client = Answers([answered({"choices": [choice]})])
    (verdict,) = worker_of(client).ask([pair_made()])
    assert (verdict.answer, verdict.comment) == ("skip", why)


@pytest.mark.parametrize(
    "usage", [None, "many", [1], {"prompt_tokens": "x", "completion_tokens": None}, {"other": 1}]
)
def test_an_answer_counts_without_a_number_of_tokens(usage: object) -> None:
    reply = parse_reply(json.dumps(GOOD | {"usage": usage}).encode())
    assert (reply.choice, reply.tokens_in, reply.tokens_out) == (GOOD["choices"][0], 0, 0)
