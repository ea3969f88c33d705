"""Language models as judges, over HTTP: any server that speaks `POST /v1/chat/completions`."""

from __future__ import annotations

import functools
import ipaddress
import math
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

from cli.judges.model_answers import (
    FIRST,
    LETTERS,
    letter_in,
    message_of,
    parsed,
    probability,
    tokens_of,
)
from cli.judges.model_http import Connections, HttpAnswer
from cli.judges.pairs import Pair
from cli.judges.prompts import AGAIN
from cli.judges.verdicts import Enough, Fault, Refused, Verdict, stored_meta, stored_text, word_of
from cli.output import count, cut, printable
from sortnet.errors import SortNetError

_TOPS = (10, 5, 0)  # log-probabilities asked for; 0: none
_SHORTEST_WAIT = 1.0  # seconds before the second call, whatever the server asks for
_LONGEST_WAIT = 60.0  # seconds between two calls, unless the server asks for more
_LONGEST_RETRY_AFTER = 1e9  # seconds: more is no time to wait, but a long number to print
_LONGEST_TEXT = 200  # characters of a server's text in a message
_LONGEST_FAULT = 300  # characters of a whole message
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
    _calls_before: int = 0  # before the clock began
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def restart_clock(self) -> None:
        """Take the rate of calls from now on: nothing was asked for some time."""
        self._began, self._calls_before = time.monotonic(), self.calls

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
        seconds = time.monotonic() - self._began
        rate = (self.calls - self._calls_before) / max(seconds, 1e-3)
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
    client: Connections | None = None

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
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with Connections(self.url, headers, self.timeout) as self.client:
            yield

    def post(self, body: Mapping[str, Any]) -> HttpAnswer:
        """Count a call and make it, see `Connections.post`."""
        self.spent.call()
        if self.client is None:
            raise RuntimeError("a call outside of `connected`")
        return self.client.post(body)

    def without_key(self, text: str, longest: int = _LONGEST_TEXT) -> str:
        """A text of the server's on one line: first the key is hidden in it, then it is cut."""
        return cut(printable(self.hidden(text)), longest)

    def hidden(self, text: str) -> str:
        """A text of the server's without the key, whatever escapes the key is written with."""
        return spellings(self.key).sub("***", text) if self.key else text

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


@functools.cache
def spellings(key: str) -> re.Pattern[str]:
    """Pattern of a key whose characters may be escaped as in JSON, Python, URLs and HTML.

    A text that was escaped several times has several backslashes.

    >>> bool(spellings("sk-1").fullmatch(r"sk\\u002d1")), bool(spellings("sk-1").search("sk 1"))
    (True, False)
    """
    characters = []
    for character in key:
        number, digits = ord(character), f"{ord(character):02x}"
        literal = rf"\\{{0,8}}{re.escape(character)}"
        escapes = rf"(?i:\\{{1,8}}(?:u00|x){digits}|%{digits}|&\#x0{{0,8}}{digits};)"
        characters.append(rf"(?:{literal}|{escapes}|&\#0{{0,8}}{number};)")
    return re.compile("".join(characters))


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
        """A verdict for each pair, whose messages are in it.

        Raises:
            Fault: with the verdicts before it. The key is hidden in the text of every fault here,
                and only then is it cut.
        """
        verdicts: list[Verdict] = []
        for pair in pairs:
            try:
                verdicts.append(self._verdict(pair))
            except Fault as fault:
                text = self.server.without_key(str(fault), _LONGEST_FAULT)
                raise type(fault)(text, verdicts) from None
        return verdicts

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
            text = self.server.hidden(reply["text"])
            tokens = tokens_of(reply, messages)
            usage = [a + b for a, b in zip(usage, tokens, strict=True)]
            self.server.spent.add(*tokens)
            meta = {"model": self.server.model, "tokens": usage, "calls": calls}
            facts = {
                "milliseconds": int(1000 * (time.monotonic() - began)),
                "cost": self.server.spent.cost_of(*usage),
                "meta": stored_meta(meta | pair.get("meta", {})),
            }
            letter = letter_in(reply["text"])
            begins_with_letter = FIRST.match(reply["text"])
            p = probability(reply["logprobs"], None if begins_with_letter else letter)
            comment = stored_text(text) if len(text.strip()) > 3 else None
            if p is not None:
                return Verdict(word_of(p), p, comment=comment, **facts)
            if letter is not None:
                return Verdict(LETTERS[letter], comment=comment, **facts)
            again = {"role": "assistant", "content": text or "-"}
            messages = [*messages, again, {"role": "user", "content": AGAIN}]
        return Verdict("skip", comment=stored_text(text), **facts)

    def _reply(self, messages: list[dict[str, Any]], pair: Pair) -> Any:
        """What the server says; waits while it is busy."""
        server, waited, shortest = self.server, 0.0, _SHORTEST_WAIT
        while True:
            if self._over.is_set():
                raise Fault("interrupted")
            body = server.body(messages)
            answer = server.post(body)
            if answer.status == 200:
                return parsed(answer.body)
            if answer.status == 429 or answer.status >= 500:
                seconds = self._seconds_to_wait(answer, shortest)
                if waited + seconds > server.patience:
                    beyond = f"a wait of {seconds:.0f} more is beyond --patience"
                    raise Fault(f"still {answer.status} after {waited:.0f} seconds, and {beyond}")
                if self._over.wait(seconds):
                    raise Fault("interrupted")
                waited, shortest = waited + seconds, min(2 * shortest, _LONGEST_WAIT)
                continue
            message = server.without_key(message_of(answer.body))
            if answer.status in (400, 422) and server.learns(body, message):
                continue
            return self._refused(answer, message, pair)

    def _seconds_to_wait(self, answer: HttpAnswer, shortest: float) -> float:
        """What the server asks for, but no less than the shortest wait, which doubles."""
        asked = retry_after(answer.headers.get("retry-after", ""))
        if asked is None:
            return shortest * self._random.uniform(
                1.0, 1.5
            )  # many workers do not come back at once
        return max(asked, shortest)

    def _refused(self, answer: HttpAnswer, message: str, pair: Pair) -> Verdict:
        """The verdict on a pair that is too long; else a Fault, whose text has no key."""
        status = answer.status
        if status in (401, 403) and self.server.key is None:
            raise Refused(
                f"the server asks for a key ({status}), which --key tells about: {message}"
            )
        if status in (401, 403):
            raise Refused(f"the server takes no such key ({status}): {message}")
        if status == 404:
            raise Refused(f"no such model or address ({status}): {message}")
        if 300 <= status < 400:
            address = self.server.without_key(answer.headers.get("location", "elsewhere"))
            raise Refused(
                f"the server redirects to {address}, which was not followed: give --server"
            )
        if status in (400, 413, 422) and _TOO_LONG.search(message):
            longest = max((pair["left"], pair["right"]), key=lambda side: len(side["text"] or ""))
            return Verdict("skip", comment=stored_text(message), left_out=longest["id"])
        raise Fault(f"the server says {status}: {message}")


def retry_after(value: str) -> float | None:
    """Seconds of a header `Retry-After`, which may be a date; None if it says nothing.

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
