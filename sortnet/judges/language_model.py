"""Language models as judges, over HTTP: any server that speaks `POST /v1/chat/completions`."""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import json
import math
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from sortnet.errors import SortNetError
from sortnet.files import shown
from sortnet.judges.answer_cache import AnswerCache, answer_key, answered_from_cache
from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.asked_question import AskedQuestion, asked_items
from sortnet.judges.budget import Budget
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.http_client import Connections, HttpAnswer
from sortnet.judges.limits import MOST_WORKERS, Limits, check_number, check_whole_number
from sortnet.judges.model_answers import (
    message_of,
    parsed,
    tokens_of,
)
from sortnet.judges.prices import Price, default_prices_file
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import (
    check_request,
    has_secret,
    is_random,
    part_of_judge,
    request_body,
)
from sortnet.judges.verdicts import Fault, Refused, Verdict, stored_meta, stored_text
from sortnet.messages import cut, note, printable

TOPS = (10, 5, 0)  # numbers of log-probabilities to ask for, the first at first; 0: none
_SHORTEST_WAIT = 1.0  # seconds before the second call, whatever the server asks for
_LONGEST_WAIT = 60.0  # seconds between two calls, unless the server asks for more
_LONGEST_RETRY_AFTER = 1e9  # seconds: a longer time would only be a long number to print
_LONGEST_TEXT = 200  # characters of a server's text in a message
_LONGEST_FAULT = 300  # characters of a whole message
TOO_LONG = re.compile(
    r"context|too long|too large|too many (input )?tokens|maximum (input )?(length|tokens)|exceed",
    re.IGNORECASE,
)
_MAY_BE_LEFT_OUT = ("temperature", "max_tokens", "max_completion_tokens")
_NAMES_SCHEMA = re.compile(r"response_format|json_schema|schema|structured", re.IGNORECASE)

_OF_TWO = AnswerForm()
KEY_VARIABLE = "SORTNET_KEY"  # the environment variable that has a server's key by default
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class LanguageModel:
    """A language model as a judge, on any server that speaks `POST /v1/chat/completions`.

    Where the server gives log-probabilities, the answer is the probability that the left item is
    better. A question with an item that is too long for the model is skipped. About more than two
    items the model names the best and the worst; log-probabilities are then only kept.

    Args:
        model: its name on the server; its answers are stored under this name.
        server: URL, such as `http://localhost:8000`.
        key: name of the environment variable that has the server's key, or a function that returns
            the key; None: `SORTNET_KEY`, which may be missing. A key is never stored or shown.

        The question:

        prompt: file of a Jinja template; None: SortNet's own prompts. A template without
            `{{ items }}` is for two items only.
        request: parameters of every request, such as `{"temperature": 0.7, "seed": 1}`; None leaves
            one out. They are stored with the answers, and a model with other ones is another judge.
        structured: whether the answer is asked for by JSON schema; a server that takes none is
            asked for a letter.
        logprobs: whether log-probabilities are asked for; where the server gives them, they are
            the answer.
        both_orders: whether each question is asked a second time, with its items in the reverse
            order of places, and both answers are kept.

        The cost:

        limits: calls, tokens and cost after which no call is made.
        price: price of the tokens, or the table that has the price; by default the user's table
            `~/.config/sortnet/prices.toml`, if it exists.
        answer_cache: file of answers that several collections share; None: none is shared.

        The calls:

        workers: calls at once.
        timeout: seconds for one call.
        patience: seconds in all for which a busy server is asked again.
        insecure: whether a server without https may be asked that is not on this machine.

    Raises:
        SortNetError: on a text that cannot be the name of a variable as `key`, a number out of
            range, a limit of the cost without a price, or a request that has a secret or a
            parameter that SortNet sets.

    >>> LanguageModel("qwen3", server="http://localhost:8000").annotator
    'qwen3'
    """

    model: str
    server: str
    key: str | Callable[[], str] | None = field(default=None, repr=False)
    prompt: str | None = None
    request: Mapping[str, Any] = field(default_factory=dict, hash=False)
    structured: bool = False
    logprobs: bool = True
    both_orders: bool = False
    limits: Limits = field(default_factory=Limits)
    price: Price = field(default_factory=Price)
    answer_cache: str | None = None
    workers: int = 1
    timeout: float = 60.0
    patience: float = 600.0
    insecure: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "request", check_request(self.request))
        _check_key(self.key)
        _check_type("limits", self.limits, Limits)
        _check_type("price", self.price, Price)
        check_whole_number("workers", self.workers, most=MOST_WORKERS)
        check_number("timeout", self.timeout, may_be_zero=False)
        check_number("patience", self.patience)
        if self.limits.max_cost is not None and not self.price_of_tokens().is_known:
            raise SortNetError(
                f"max_cost needs price_in or price_out, or a price of {self.model!r} in "
                f"{self.price.table or default_prices_file()}"
            )

    @property
    def annotator(self) -> str:
        """Name under which the answers are stored."""
        return self.model

    @property
    def variant(self) -> str:
        """Hash of the settings that make the model another judge than by default; empty if none do.

        Such settings are a prompt from a file, an answer by JSON schema, and the parameters of a
        request except seeds, limits of tokens and bookkeeping.

        >>> LanguageModel("qwen3", "http://localhost:8000", request={"seed": 7}).variant
        ''
        """
        prompt_hash = "" if self.prompt is None else Prompt(self.prompt).hash
        parameters = part_of_judge(self.request)
        if not parameters and not self.structured:
            return prompt_hash
        settings = json.dumps([prompt_hash, parameters, self.structured], sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()[:8]

    def price_of_tokens(self) -> Price:
        """Price of the tokens: the numbers of `price`, else the price in the table.

        Raises:
            SortNetError: if the table cannot be used, or its prices have another currency.
        """
        return self.price.looked_up(self.model)

    def budget(self) -> Budget:
        """Limits and prices of the calls; nothing is spent yet."""
        return Budget(self.limits, self.price_of_tokens())

    def facts(self) -> dict[str, Any]:
        """Facts to store with each answer: the prompt's hash, the request and the currency."""
        facts: dict[str, Any] = {"prompt": Prompt(self.prompt).hash}
        if self.request:
            facts["request"] = dict(self.request)
        price = self.price_of_tokens()
        if price.is_known and price.currency is not None:
            facts["currency"] = price.currency
        return facts

    def connect(
        self, name: str = "", originals: Mapping[str, Any] | None = None
    ) -> JudgeConnection:
        """Prepare to ask the server; nothing is sent yet.

        Raises:
            SortNetError: if the server, the template or the key cannot be used.
        """
        prompt = Prompt(self.prompt)
        budget = self.budget()
        server = Server(
            self.server,
            self.model,
            self._secret(),
            self.timeout,
            self.patience,
            budget,
            insecure=self.insecure,
            request=self.request,
            structured=self.structured,
            cache=None if self.answer_cache is None else AnswerCache(self.answer_cache),
            tops=[*TOPS] if self.logprobs else [0],
        )
        facts = self.facts()

        def make_workers() -> list[ModelWorker]:
            return [ModelWorker(server, seed) for seed in range(self.workers)]

        def with_messages(question: AskedQuestion, *, is_fresh: bool) -> AskedQuestion:
            return question | {
                "messages": prompt.messages(question),
                "meta": facts,
                "is_fresh": is_fresh,
            }

        return JudgeConnection(
            name or f"model {self.model}",
            make_workers,
            both_orders=self.both_orders,
            patience=self.patience,
            prepare=with_messages,
            why_not_about=prompt.why_not_about,
            budget=budget,
            open_connections=server.connected,
        )

    def _secret(self) -> str | None:
        """The key; None if the variable `SORTNET_KEY` is not set and no other source is named.

        Raises:
            SortNetError: if the source that is named has no key, or the key cannot be one.
        """
        secret: str | None
        if callable(self.key):
            secret = self.key()  # the function may return another type than it should
            source = "the function"
        else:
            source = self.key or KEY_VARIABLE
            secret = os.environ.get(source, "").strip() or None
            if secret is None and self.key is not None:
                raise SortNetError(f"the variable {source}, which is to have the key, is not set")
        if secret is not None and not isinstance(secret, str):
            raise SortNetError(f"key: the function returned {type(secret).__name__}, no text")
        if secret is not None and not (secret.isascii() and secret.isprintable()):
            raise SortNetError(f"the key in {source} has characters that no key has")
        if secret is not None and secret in json.dumps(dict(self.request)):
            raise SortNetError("request: it has the server's key, and a request is stored")
        return secret


def _check_key(key: object) -> None:
    """Refuse a key that is neither a function nor the name of a variable, without showing it.

    The name of a variable is stored with a run. So a text of small letters, which a key may be too,
    has to be the name of a variable that is set.

    Raises:
        SortNetError: saying what to give.
    """
    if key is None or callable(key):
        return
    if isinstance(key, str) and not has_secret(key) and _is_variable(key):
        return
    raise SortNetError(
        "key: give the name of an environment variable, or a function that returns the key; the "
        "key itself could be printed or stored"
    )


def _is_variable(text: str) -> bool:
    """Whether a text is the name of a variable that is set, or has the form of one."""
    return text in os.environ or _VARIABLE.fullmatch(text) is not None


def _check_type(name: str, value: object, kind: type) -> None:
    """Refuse an argument of another type.

    Raises:
        SortNetError: naming the argument.
    """
    if not isinstance(value, kind):
        raise SortNetError(f"{name}: {shown(value)} is no sortnet.{kind.__name__}")


@dataclass
class Server:
    """A server of language models, shared by all workers."""

    url: str  # root of the server, or an address that ends with `/v1`
    model: str  # name of the model on the server
    key: str | None  # for the header; never in a message
    timeout: float  # seconds for a call
    patience: float  # seconds in all for which a busy server is asked about a question again
    budget: Budget
    insecure: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)  # parameters that the user gave
    structured: bool = False  # whether answers are asked for by JSON schema
    cache: AnswerCache | None = None
    tops: list[int] = field(default_factory=lambda: [*TOPS])  # see TOPS; refused ones are removed
    without: set[str] = field(default_factory=set)  # parameters that the model has refused
    client: Connections | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SortNetError(f"server {self.url!r} is no http or https URL")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise SortNetError("server: give no password, query or fragment in the URL")
        if parts.scheme == "http" and not self.insecure and not _is_loopback(parts.hostname):
            raise SortNetError(
                f"server {self.url}: without https texts and key can be read on their way: "
                "only insecure allows it"
            )
        try:
            import httpx  # noqa: F401
        except ImportError:
            raise SortNetError("a language model needs httpx: pip install 'sortnet[llm]'") from None
        path = parts.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/v1")
        self.url = f"{parts.scheme}://{parts.netloc}{path}/v1/chat/completions"

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Keep connections open for several calls."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with Connections(self.url, headers, self.timeout) as self.client:
            yield

    def post(self, body: Mapping[str, Any]) -> HttpAnswer:
        """Count a call and make the call, see `Connections.post`."""
        self.budget.call()
        if self.client is None:
            raise RuntimeError("a call outside of `connected`")
        return self.client.post(body)

    def without_key(self, text: str, longest: int = _LONGEST_TEXT) -> str:
        """A text of the server on one line: the key is hidden, and then the text is cut."""
        return cut(printable(self.hidden(text)), longest)

    def hidden(self, text: str) -> str:
        """A text of the server in which the key is hidden, with or without escapes."""
        return spellings(self.key).sub("***", text) if self.key else text

    def body(
        self, messages: Sequence[Mapping[str, Any]], form: AnswerForm = _OF_TWO
    ) -> dict[str, Any]:
        """Body of a request, without the parameters that were refused before."""
        return request_body(
            self.model,
            messages,
            self.request,
            response_format=form.response_format if self.structured else None,
            n_tops=self.tops[0],
            without=self.without,
        )

    @property
    def is_random(self) -> bool:
        """Whether the answer to the same question may differ the next time."""
        return "temperature" in self.without or is_random(self.request)

    def key_of(self, question: AskedQuestion) -> str:
        """The key of a question's answer in the cache."""
        return answer_key(
            self.model,
            question["messages"],
            self.request,
            structured=self.structured,
            with_logprobs=self.tops[0] > 0,
            form=AnswerForm.of(question),
        )

    def learns(self, body: Mapping[str, Any], refusal: str) -> bool:
        """Leave out a parameter that a refusal names; returns whether it names such a parameter.

        Raises:
            Refused: if it names a parameter that the user gave.
        """
        if "logprob" in refusal.lower() and "logprobs" in body:
            if self.tops[0] == body["top_logprobs"]:  # no other worker was refused before
                self.tops.pop(0)
            return True
        if TOO_LONG.search(refusal):  # the refusal names max_tokens, but the prompt is too long
            return False
        if "response_format" in body and _NAMES_SCHEMA.search(refusal):
            if self.structured:  # no other worker was refused before
                self.structured = False
                note(f"model {self.model}: the server takes no JSON schema: a letter is asked for")
            return True
        for name in self.request:
            if re.search(rf"\b{re.escape(name)}\b", refusal):
                raise Refused(f"the server does not take {name} of the request: {refusal}")
        refused = [
            name for name in _MAY_BE_LEFT_OUT if name in body and re.search(rf"\b{name}\b", refusal)
        ]
        self.without.update(refused)
        return bool(refused)


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
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ModelWorker:
    """Asks the server about one question after the other; `seed` makes the pauses random."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self._over = threading.Event()
        self._random = random.Random(seed)

    def ask(self, questions: Sequence[AskedQuestion]) -> list[Verdict]:
        """A verdict for each question, whose messages are in it.

        Raises:
            Fault: with the verdicts so far. The key is hidden in the message, and then the message
                is cut.
        """
        verdicts: list[Verdict] = []
        for question in questions:
            try:
                verdicts.append(self._verdict(question))
            except Fault as fault:
                text = self.server.without_key(str(fault), _LONGEST_FAULT)
                raise type(fault)(text, verdicts) from None
        return verdicts

    def stop(self) -> None:
        """Ask no more, and wait for the server no longer."""
        self._over.set()

    def end(self) -> None:
        """Do nothing: the connections belong to the server."""

    def _verdict(self, question: AskedQuestion) -> Verdict:
        """The answer in the cache, else the server's, which is then added to the cache."""
        server = self.server
        if server.cache is None or server.is_random:
            return self._answer_of_server(question)
        key = server.key_of(question)
        cached = None if question.get("is_fresh") else server.cache.get(key)
        if cached is not None:
            server.budget.take_from_cache()
            return answered_from_cache(
                cached, server.model, question.get("meta", {}), server.budget.price
            )
        verdict = self._answer_of_server(question)
        if not server.is_random:  # the server may have refused the temperature just now
            server.cache.add(server.key_of(question), verdict)
        return verdict

    def _answer_of_server(self, question: AskedQuestion) -> Verdict:
        """The server's answer, asked for twice if it cannot be read the first time.

        The verdict is a skip if the second answer cannot be read either.
        """
        messages = question["messages"]
        form = AnswerForm.of(question)
        facts: dict[str, Any] = {}
        text = ""
        tokens_in = tokens_out = 0
        began = time.monotonic()
        for calls in (1, 2):
            try:
                reply = self._reply(messages, question)
            except Fault:
                if calls == 1:
                    raise
                break
            if isinstance(reply, Verdict):
                return reply
            text = self.server.hidden(reply["text"])
            why_empty = self.server.hidden(reply["why_empty"])
            tokens = tokens_of(reply, messages)
            self.server.budget.add(*tokens)
            tokens_in += tokens[0]
            tokens_out += tokens[1]
            meta = {
                "model": self.server.model,
                "tokens": [tokens_in, tokens_out],
                "calls": calls,
            }
            if reply["is_structured"]:
                meta["structured"] = True
            meta |= form.facts(reply)
            facts = {
                "milliseconds": int(1000 * (time.monotonic() - began)),
                "cost": self.server.budget.cost_of(tokens_in, tokens_out),
                "meta": stored_meta(meta | question.get("meta", {})),
            }
            verdict = form.verdict(reply, text, facts)
            if verdict is not None:
                return verdict
            unreadable = {"role": "assistant", "content": text or "-"}
            request = {"role": "user", "content": form.again(as_json=reply["is_structured"])}
            messages = [*messages, unreadable, request]
        return Verdict("skip", comment=stored_text(text) or stored_text(why_empty), **facts)

    def _reply(self, messages: list[dict[str, Any]], question: AskedQuestion) -> Any:
        """The reply of the server as `parsed` returns it, or a verdict in place of a reply.

        While the server is busy, the call is repeated after longer and longer pauses.
        """
        server = self.server
        form = AnswerForm.of(question)
        waited = 0.0
        shortest = _SHORTEST_WAIT
        while True:
            if self._over.is_set():
                raise Fault("interrupted")
            body = server.body(messages, form)
            answer = server.post(body)
            if answer.status == 200:
                return parsed(answer.body) | {"is_structured": "response_format" in body}
            if answer.status == 429 or answer.status >= 500:
                seconds = self._seconds_to_wait(answer, shortest)
                if waited + seconds > server.patience:
                    beyond = f"a wait of {seconds:.0f} more is beyond the patience"
                    raise Fault(f"still {answer.status} after {waited:.0f} seconds, and {beyond}")
                if self._over.wait(seconds):
                    raise Fault("interrupted")
                waited += seconds
                shortest = min(2 * shortest, _LONGEST_WAIT)
                continue
            message = server.without_key(message_of(answer.body))
            if answer.status in (400, 422) and server.learns(body, message):
                continue
            return self._refused(answer, message, question)

    def _seconds_to_wait(self, answer: HttpAnswer, shortest: float) -> float:
        """Seconds before the next call: as the server asks, but at least `shortest`."""
        seconds = retry_after(answer.headers.get("retry-after", ""))
        if seconds is None:
            # A random pause, so that many workers do not come back at the same time.
            return shortest * self._random.uniform(1.0, 1.5)
        return max(seconds, shortest)

    def _refused(self, answer: HttpAnswer, message: str, question: AskedQuestion) -> Verdict:
        """The verdict on a question that is too long.

        Raises:
            Fault: if the server refused for another reason; the message does not show the key.
        """
        status = answer.status
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
        if status in (400, 413, 422) and TOO_LONG.search(message):
            longest = max(asked_items(question), key=lambda side: len(side["text"] or ""))
            return Verdict("skip", comment=stored_text(message), left_out=longest["id"])
        raise Fault(f"the server says {status}: {message}")


def retry_after(value: str) -> float | None:
    """Seconds of a header `Retry-After`, which may be a date; None if the header has no time.

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
