"""Damaged answers of a model's server: a verdict, or a fault in one line without the key."""

from __future__ import annotations

import gzip
import json
import random
import socket
import zlib

from fuzz_helpers import changed_json, damaged, rounds
from language_model_server import pair_made, raw_server, worker_of

from sortnet.judges.model_server import Connections, without_key
from sortnet.judges.model_worker import ModelWorker
from sortnet.judges.verdicts import REPLIES, Fault, Verdict, stored_meta, stored_text
from sortnet.messages import printable
from sortnet.preference.base import LONGEST_COMMENT

KEY = "sk-s3cret/key+of~a_server"
# No message may hold them, however it is cut.
PARTS_OF_KEY = (KEY[:10], KEY[8:18], KEY[-8:], "s3cret")
STATUSES = (200,) * 12 + (100, 101, 103, 199, 201, 204, 301, 302, 304, 307, 400, 400, 401, 403, 404)
STATUSES += (408, 413, 418, 422, 422, 429, 429, 500, 503, 599, 600, 999, 0, -1)
HEADERS = (
    *(b"Content-Encoding: gzip", b"Content-Encoding: gzip, gzip", b"Content-Encoding: br"),
    *(b"Content-Encoding: identity", b"Content-Encoding: deflate", b"Content-Encoding: \xff,"),
    *(b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: " + b"9" * 5000),
    *(b"Content-Length: 0", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked"),
    *(b"Retry-After: 0", b"Retry-After: -inf", b"Retry-After: nan", b"Retry-After: " + b"9" * 4000),
    *(
        b"Retry-After: Wed, 99 Oct 20155 07:28:00 +9999",
        b"Retry-After: 1e308",
        b"Retry-After: \xff",
    ),
    *(
        b"Retry-After: Wed, 21 Oct 0000 07:28:00 -2359",
        b"Retry-After: soon",
        b"X: " + b"x" * 99_000,
    ),
    *(b"Location: http://[", b"Location: //", b"Location: http://\xff\xfe/", b"Location: x:\x00y"),
    *(b"Location: http://elsewhere.example/" + KEY.encode(), b"Location: http://xn--/", b" folded"),
    *(
        b"Set-Cookie: a=b; Max-Age=" + b"9" * 5000,
        b"Set-Cookie: =;;;expires=yesterday",
        b"\xff: \xff",
    ),
    *(
        b"Connection: close",
        b"Connection: upgrade",
        b"Upgrade: websocket",
        b"Content-Type: \xff/\x00",
    ),
    *(
        b"Content-Type: text/html; charset=utf-7",
        b"X-Key: " + KEY.encode(),
        b"no header",
        b": empty",
    ),
)
TEXTS = (
    *(
        "A",
        "B",
        "C",
        "Answer: A",
        "neither",
        "",
        " \x1b[2J A",
        "A\u2028\u202e",
        "\ud800",
        "\0" * 9,
        "a tie",
    ),
    *(
        "A" * 5000,
        "Answer: " * 500,
        f"Bearer {KEY}",
        "x" * 190 + KEY,
        "logprobs",
        "max_tokens",
        "\n" * 99,
    ),
    *(
        "context length exceeded",
        "temperature is no parameter",
        KEY.replace("/", r"\/"),
        "é" * 9000,
    ),
)
VALUES = (
    *(None, True, False, 0, 1, -1, 1.5, 2**63, 10**3999, -(10**3999), float("nan"), float("inf")),
    *(1e308, -1e308, "", "A", "1", [], [[]], [None], {}, {"": {}}, [{}], {"token": "A"}, [1] * 999),
)
TOP = [
    {"token": "A", "logprob": -0.3},
    {"token": " B", "logprob": -1.5},
    {"token": "the", "logprob": -9},
]
GOOD = {
    "id": "x",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "A"},
            "logprobs": {"content": [{"token": "A", "logprob": -0.3, "top_logprobs": TOP}]},
        }
    ],
    "usage": {"prompt_tokens": 80, "completion_tokens": 1},
}
REFUSED = {"error": {"message": "the maximum context length is 9 tokens", "code": None}}


def other_json(rng: random.Random) -> bytes:
    """A good answer or an error, with some values replaced, lost or nested deeply."""
    document: object = rng.choice((GOOD, GOOD, GOOD, REFUSED))
    if rng.random() < 0.8:
        document = changed_json(document, rng, (*VALUES, *TEXTS))
    raw = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        deep = rng.choice((b"[", b'{"token":')) * rng.choice((100, 990, 100_000))
        raw = raw.replace(b'"A"', deep, 1)
    return raw


def body_of(rng: random.Random, *, whole: bool) -> bytes:
    """The bytes of a body before they are encoded."""
    raw = other_json(rng)
    if not whole and rng.random() < 0.4:
        raw = damaged(raw, rng)
    text = raw.decode("latin-1")
    has_key = without_key(text, KEY) != text
    if rng.random() < 0.1 and not has_key:  # within a key it would make two parts of it
        escaped = "".join(rng.choice((c, f"\\u{ord(c):04x}")) for c in KEY).encode()
        place = rng.randrange(len(raw) + 1)
        raw = raw[:place] + escaped + raw[place:]
    if rng.random() < 0.03:
        raw = rng.choice((b"", b" " * (3 << 20), b"<html>" + KEY.encode(), b"\xff" * 99))
    return raw


def encoded(raw: bytes, rng: random.Random, *, whole: bool) -> tuple[list[bytes], bytes]:
    """Headers that say how a body is encoded, at times wrongly, and the encoded body."""
    match rng.randrange(8):
        case 0:
            return [b"Content-Encoding: gzip"], gzip.compress(raw)
        case 1 if not whole:
            return [b"Content-Encoding: gzip"], damaged(gzip.compress(raw), rng)
        case 2:
            return [b"Content-Encoding: gzip, gzip"], gzip.compress(gzip.compress(raw))
        case 3:
            return [b"Content-Encoding: gzip"] * 2, gzip.compress(raw)
        case 4:
            return [b"Content-Encoding: gzip"], gzip.compress(raw + b" " * (5 << 20), 1)
        case 5:
            return [b"Content-Encoding: deflate"], zlib.compress(raw)
        case _:
            return [], raw


def answer_of(rng: random.Random, *, whole: bool) -> bytes:
    """All bytes of an answer, from its status line to the end of its body.

    Damage, which may change the key into another one, is done unless it is to be `whole`.
    """
    encoding, body = encoded(body_of(rng, whole=whole), rng, whole=whole)
    if rng.random() < 0.2:
        encoding.append(b"Transfer-Encoding: chunked")
        half = len(body) // 2
        chunks = [part for part in (body[:half], body[half:]) if part]
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in chunks) + b"0\r\n\r\n"
    elif rng.random() < 0.5:
        encoding.append(b"Content-Length: %d" % len(body))
    status = b"HTTP/1.1 %d %b" % (
        rng.choice(STATUSES),
        rng.choice((b"OK", b"", b"\xff", b"x" * 999)),
    )
    headers = [status, *encoding]
    for _ in range(rng.choice((0, 0, 1, 2, 5))):
        headers.insert(rng.randrange(1, len(headers) + 1), rng.choice(HEADERS))
    head = b"\r\n".join(headers)
    if not whole and rng.random() < 0.3:
        head = damaged(head, rng)
    return head + rng.choice((b"\r\n\r\n",) * 9 + (b"\n\n", b"", b"\r\n")) + body


def check_verdict(verdict: Verdict) -> None:
    """That a verdict can be stored as it is."""
    assert verdict.answer in REPLIES
    assert verdict.p is None or 0 <= verdict.p <= 1
    assert verdict.comment is None or len(verdict.comment) <= LONGEST_COMMENT
    assert verdict.comment == stored_text(verdict.comment)
    if verdict.meta is not None:
        assert stored_meta(json.loads(verdict.meta)) == verdict.meta
        assert all(isinstance(n, int) and n >= 0 for n in json.loads(verdict.meta)["tokens"])


def outcome_of(worker: ModelWorker, seed: int) -> tuple[str, str]:
    """What comes of a pair, which is checked: "verdict" or "fault", and its text."""
    about = f"SORTNET_FUZZ_SEED={seed}"
    try:
        (verdict,) = worker.ask([pair_made()])
    except Fault as fault:
        text = str(fault)
        assert "\n" not in text and text == printable(text) and 0 < len(text) <= 300, about
        return "fault", text
    except Exception as error:
        raise AssertionError(f"{about}: {error!r}") from error
    check_verdict(verdict)
    return "verdict", verdict.comment or ""


def test_a_damaged_answer_of_a_server_gives_a_verdict_or_a_fault_in_one_line() -> None:
    raw = b""

    def reply(connection: socket.socket) -> None:
        connection.sendall(raw)

    n_of = {"verdict": 0, "fault": 0}
    n_hidden = 0
    with raw_server(reply) as url, Connections(url, {}, 60.0) as connections:
        for seed in rounds(300):
            rng = random.Random(seed)
            whole = rng.random() < 0.5
            raw = answer_of(rng, whole=whole)
            # Without patience: no wait.
            outcome, text = outcome_of(worker_of(connections, key=KEY), seed)
            assert without_key(text, KEY) == text, seed
            assert not (whole and any(part in text for part in PARTS_OF_KEY)), (seed, text)
            n_of[outcome] += 1
            n_hidden += "***" in text
    assert min(*n_of.values(), n_hidden) > 0, (n_of, n_hidden)
