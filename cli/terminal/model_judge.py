"""Language models as judges, over HTTP: any server that speaks `POST /v1/chat/completions`."""

from __future__ import annotations

import ipaddress
import random
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from cli.output import count, cut, printable
from cli.terminal.judging import Pair
from cli.terminal.model_answers import (
    FIRST,
    LETTERS,
    letter_in,
    message_of,
    parsed,
    probability,
    tokens_of,
)
from cli.terminal.prompts import AGAIN
from cli.terminal.verdicts import Enough, Fault, Refused, Verdict, stored_meta, stored_text, word_of
from sortnet.errors import SortNetError

LONGEST = 1 << 20  # bytes of an answer
_TOPS = (10, 5, 0)  # log-probabilities asked for; 0: none
_FIRST_WAIT = 0.5  # seconds
_A_PAUSE = 60.0  # seconds between two calls, at most, unless the server asks for more
_TOO_LONG = re.compile(
    r"context|too long|too large|too many (input )?tokens|maximum (input )?(length|tokens)|exceed",
    re.IGNORECASE,
)
_MAY_BE_LEFT_OUT = ("temperature", "max_tokens", "max_completion_tokens")


@dataclass
class Spent:
    """What calls have cost so far, and what they may; None: no such end."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    price_in: float | None = None  # of a million tokens of prompts
    price_out: float | None = None  # and of answers
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self) -> None:
        """Count a call that is about to be made, or raise Enough after the last that is allowed."""
        with self._lock:
            if why := self.why():
                raise Enough(why)
            self.calls += 1

    def add(self, tokens_in: int, tokens_out: int) -> None:
        """Count the tokens of a call."""
        with self._lock:
            self.tokens_in += tokens_in
            self.tokens_out += tokens_out

    def cost_of(self, tokens_in: int, tokens_out: int) -> float | None:
        """What these tokens cost; None without prices."""
        if self.price_in is None and self.price_out is None:
            return None
        return (tokens_in * (self.price_in or 0) + tokens_out * (self.price_out or 0)) / 1e6

    @property
    def cost(self) -> float | None:
        """Of all calls so far."""
        return self.cost_of(self.tokens_in, self.tokens_out)

    def why(self) -> str:
        """Why no more calls may be made; empty: they may."""
        tokens, cost = self.tokens_in + self.tokens_out, self.cost
        if self.max_calls is not None and self.calls >= self.max_calls:
            return f"--max-calls: {self.calls:,} calls were made"
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return f"--max-tokens: {tokens:,} tokens were used"
        if self.max_cost is not None and cost is not None and cost >= self.max_cost:
            return f"--max-cost: {cost:.4g} was spent"
        return ""

    def progress(self) -> str:
        rate = self.calls / max(time.monotonic() - self._began, 1e-3)
        return f"{self.text()}, {rate:.1f} calls a second"

    def text(self) -> str:
        cost = "" if self.cost is None else f", {self.cost:.4g} spent"
        return f"{count(self.calls, 'call')}, {self.tokens_in + self.tokens_out:,} tokens{cost}"


@dataclass
class Server:
    """A server of language models, shared by all workers."""

    url: str  # up to and with `/v1`, or its root
    model: str  # its name there
    key: str | None  # for the header; never in a message
    timeout: float  # seconds for a call
    patience: float  # seconds in all for which a pair is asked again where the server is busy
    spent: Spent
    insecure: bool = False
    tops: list[int] = field(default_factory=lambda: [*_TOPS])  # the first is asked for
    without: set[str] = field(default_factory=set)  # parameters that the model has refused
    client: Any = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SortNetError(f"--server {self.url!r} is no http or https URL")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise SortNetError("--server: give no password, query or fragment in the URL")
        if parts.scheme == "http" and not self.insecure and not _is_loopback(parts.hostname):
            raise SortNetError(
                f"--server {self.url}: without https texts and key can be read on their way: "
                "--insecure allows it"
            )
        try:
            import httpx  # noqa: F401
        except ImportError:
            raise SortNetError("--model needs httpx: pip install 'sortnet[llm]'") from None
        path = parts.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/v1")
        self.url = f"{parts.scheme}://{parts.netloc}{path}/v1/chat/completions"

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Keep connections open for several calls."""
        import httpx

        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        many = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        with httpx.Client(
            headers=headers, timeout=self.timeout, limits=many, follow_redirects=False,
            trust_env=False,
        ) as self.client:  # fmt: skip
            yield

    def post(self, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """The status, headers and body of the answer; a Fault is none, or a very long one."""
        import httpx

        self.spent.call()
        late, until = f"no answer after {self.timeout:g} seconds", time.monotonic() + self.timeout
        try:
            with self.client.stream("POST", self.url, json=body) as reply:
                found = b""
                for part in reply.iter_bytes():
                    found += part
                    if len(found) > LONGEST:
                        raise Fault(f"an answer of more than {LONGEST:,} bytes")
                    if time.monotonic() > until:  # the client's timeout is that of a part
                        raise Fault(late)
                return reply.status_code, reply.headers, found
        except httpx.TimeoutException:
            raise Fault(late) from None
        except httpx.HTTPError as error:
            raise Fault(self.without_key(f"{self.url}: {error}")) from None

    def without_key(self, text: str) -> str:
        """A message of the server's without the key, on one line of limited length."""
        return cut(printable(self.hidden(text)), 200)

    def hidden(self, text: str) -> str:
        """A text of the server's without the key."""
        return text.replace(self.key, "***") if self.key else text

    def body(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What to send, without what was refused before."""
        found: dict[str, Any] = {"model": self.model, "messages": messages}
        if "temperature" not in self.without:
            found["temperature"] = 0
        known = "max_completion_tokens" if "max_tokens" in self.without else "max_tokens"
        if known not in self.without:
            found[known] = 256
        return found | ({"logprobs": True, "top_logprobs": self.tops[0]} if self.tops[0] else {})

    def learns(self, body: Mapping[str, Any], said: str) -> bool:
        """Whether a refusal names a parameter that can be left out; it is from now on."""
        if "logprob" in said.lower() and "logprobs" in body:
            if self.tops[0] == body["top_logprobs"]:  # no other worker has met it before
                self.tops.pop(0)
            return True
        if _TOO_LONG.search(said):  # that tells how many tokens there may be
            return False
        named = [
            name for name in _MAY_BE_LEFT_OUT if name in body and re.search(rf"\b{name}\b", said)
        ]
        self.without.update(named)
        return bool(named)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ModelWorker:
    """Asks the server about one pair after the other; `seed` is of the jitter of pauses."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self._over = threading.Event()
        self._random = random.Random(seed)

    def ask(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """A verdict for each pair, whose messages are in it."""
        found: list[Verdict] = []
        for pair in pairs:
            try:
                found.append(self._verdict(pair))
            except Fault as fault:
                raise type(fault)(str(fault), found) from None
        return found

    def stop(self) -> None:
        self._over.set()

    def end(self) -> None:
        """Nothing: the connections are the server's."""

    def _verdict(self, pair: Pair) -> Verdict:
        """An answer that is neither A, B nor C is asked for once more, then the pair is skipped."""
        messages, began, usage = pair["messages"], time.monotonic(), [0, 0]
        facts: dict[str, Any] = {}
        for calls in (1, 2):
            try:
                reply = self._reply(messages, pair)
            except Fault:
                if calls == 1:
                    raise
                break
            if isinstance(reply, Verdict):
                return reply
            text, tokens = self.server.hidden(reply["text"]), tokens_of(reply, messages)
            usage = [a + b for a, b in zip(usage, tokens, strict=True)]
            self.server.spent.add(*tokens)
            meta = {"model": self.server.model, "tokens": usage, "calls": calls}
            facts = {
                "milliseconds": int(1000 * (time.monotonic() - began)),
                "cost": self.server.spent.cost_of(*usage),
                "meta": stored_meta(meta | pair.get("meta", {})),
            }
            letter = letter_in(text)
            p = probability(reply["logprobs"], None if FIRST.match(text) else letter)
            if letter is not None or p is not None:
                answer = LETTERS[letter] if p is None and letter else word_of(p or 0.0)
                beside = stored_text(text) if len(text.strip()) > 3 else None
                return Verdict(answer, p, comment=beside, **facts)
            again = {"role": "assistant", "content": text or "-"}
            messages = [*messages, again, {"role": "user", "content": AGAIN}]
        return Verdict("skip", comment=stored_text(text), **facts)

    def _reply(self, messages: list[dict[str, Any]], pair: Pair) -> Any:
        """What the server says; waits while it is busy."""
        server, waited, pause = self.server, 0.0, _FIRST_WAIT
        while True:
            if self._over.is_set():
                raise Fault("interrupted")
            body = server.body(messages)
            status, headers, raw = server.post(body)
            if status == 429 or status >= 500:
                asked = _seconds(headers.get("retry-after"))
                seconds = pause * self._random.uniform(0.5, 1.5) if asked is None else asked
                if waited + seconds > server.patience:
                    beyond = f"a wait of {seconds:.0f} more is beyond --patience"
                    raise Fault(f"still {status} after {waited:.0f} seconds, and {beyond}")
                if self._over.wait(seconds):
                    raise Fault("interrupted")
                waited, pause = waited + seconds, min(2 * pause, _A_PAUSE)
                continue
            if status == 200:
                return parsed(raw)
            said = server.without_key(message_of(raw))
            if status in (400, 422) and server.learns(body, said):
                continue
            return self._refused(status, headers, said, pair)

    def _refused(self, status: int, headers: Mapping[str, str], said: str, pair: Pair) -> Verdict:
        if status in (401, 403) and self.server.key is None:
            raise Refused(f"the server asks for a key ({status}), which --key tells about: {said}")
        if status in (401, 403):
            raise Refused(f"the server takes no such key ({status}): {said}")
        if status == 404:
            raise Refused(f"no such model or address ({status}): {said}")
        if 300 <= status < 400:
            to = self.server.without_key(headers.get("location", "elsewhere"))
            raise Refused(f"the server redirects to {to}, which was not followed: give --server")
        if status in (400, 413, 422) and _TOO_LONG.search(said):
            longest = max((pair["left"], pair["right"]), key=lambda side: len(side["text"] or ""))
            return Verdict("skip", comment=stored_text(said), left_out=longest["id"])
        raise Fault(f"the server says {status}: {said}")


def _seconds(value: str | None) -> float | None:
    """The seconds of a `Retry-After`, which may be a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value)) if float(value) < 1e9 else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
