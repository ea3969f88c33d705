"""Language models as judges, on any server that speaks `POST /v1/chat/completions`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import Record
from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.budget import Budget
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.judge_fields import check_fields, judge_in_file
from sortnet.judges.model_server import KEY_VARIABLE, TOPS, Server
from sortnet.judges.model_worker import ModelWorker
from sortnet.judges.prompts import LARGEST_SIDE, Prompt
from sortnet.judges.request import check_request, has_secret

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class LanguageModel:
    """A language model as a judge, on any server that speaks `POST /v1/chat/completions`.

    If the server gives log-probabilities, the answer is the probability that the left item is
    better. A question with an item that is too long for the model is skipped. In a question about
    more than two items the model names the best item, and the worst if it is asked for; the
    log-probabilities are then not used.

    Args:
        model: name of the model on the server; the answers are stored under this name.
        server: URL, such as `http://localhost:8000`.
        key: name of the environment variable that has the server's key, or a function that returns
            the key; None: `SORTNET_KEY`, which may be missing. A key is never stored or shown.

        The question:

        prompt: file of a Jinja template; None: SortNet's own prompts. A template without
            `{{ items }}` is for two items only.
        request: parameters of every request, such as `{"temperature": 0.7, "seed": 1}`. The value
            None leaves a parameter out. The parameters are stored with the answers, and a model
            with other parameters is another judge.
        structured: whether the answer is asked for by JSON schema. A server that refuses JSON
            schemas is asked for a letter.
        logprobs: whether log-probabilities are asked for. If the server gives them, the answer to a
            question about two items is a probability.
        both_orders: whether each question is asked a second time, with its items in the reverse
            order of places, and both answers are kept.
        image_size: largest width and height in pixels of an image that is sent.

        The cost:

        max_calls: number of calls after which no call is made; None: no limit.
        max_cost: cost after which no call is made; None: no limit.
        price_in: price of a million tokens of prompts; None: not known.
        price_out: price of a million tokens of answers; None: not known.

        The calls:

        workers: number of calls at the same time.
        timeout: seconds until a call fails.
        patience: seconds in all for which a call of a busy server is repeated.

    Raises:
        SortNetError: on a value of a wrong type, a `key` that is a text but cannot be the name of
            a variable, a number out of range, a limit of the cost without a price, or a request
            that has a secret or a parameter that SortNet sets.

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
    image_size: int = LARGEST_SIDE
    max_calls: int | None = None
    max_cost: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    workers: int = 1
    timeout: float = 60.0
    patience: float = 600.0

    def __post_init__(self) -> None:
        """Check the fields, and copy the request."""
        # The attributes of a frozen dataclass can only be set in this way.
        object.__setattr__(self, "request", check_request(self.request))
        _check_key(self.key)
        check_fields(self)
        if self.max_cost is not None and self.budget().cost is None:
            raise SortNetError("max_cost needs price_in or price_out, prices of a million tokens")

    @classmethod
    def from_file(cls, file: str | Path) -> LanguageModel:
        """Read a language model from a TOML file, whose keys are the arguments of `LanguageModel`.

        `key` is the name of the environment variable that has the key, and `prompt` is a path
        relative to the file. `request` is a table; the text `null` in it leaves a parameter out.

        Raises:
            SortNetError: if the file cannot be read, or a key is unknown, missing or has a value
                that cannot be used; the message names the file and the key.
        """
        return judge_in_file(cls, file)

    @property
    def annotator(self) -> str:
        """Name under which the answers are stored."""
        return self.model

    def budget(self) -> Budget:
        """Make a budget with the limits and the price of the model; nothing is spent yet."""
        return Budget(self.max_calls, self.max_cost, self.price_in, self.price_out)

    def facts(self) -> Record:
        """Return facts to store with each answer.

        The facts are the hash of the prompt under `prompt`, and the user's parameters, if there are
        any, under `request`.
        """
        facts: Record = {"prompt": Prompt(self.prompt).hash}
        if self.request:
            facts["request"] = dict(self.request)
        return facts

    def connect(
        self, name: str = "", originals: Mapping[str, Any] | None = None
    ) -> JudgeConnection:
        """Make the connection through which the server is asked; nothing is sent yet.

        Raises:
            SortNetError: if the server, the template or the key cannot be used.
        """
        prompt = Prompt(self.prompt, self.image_size)
        budget = self.budget()
        server = Server(
            url=self.server,
            model=self.model,
            key=self._secret(),
            timeout=self.timeout,
            patience=self.patience,
            budget=budget,
            request=self.request,
            structured=self.structured,
            tops=[*TOPS] if self.logprobs else [0],  # 0: no log-probabilities are asked for
        )
        facts = self.facts()

        def make_workers() -> list[ModelWorker]:
            return [ModelWorker(server, seed) for seed in range(self.workers)]

        def with_messages(question: AskedQuestion) -> AskedQuestion:
            return question | {"messages": prompt.messages(question), "meta": facts}

        return JudgeConnection(
            name or f"model {self.model}",
            make_workers,
            both_orders=self.both_orders,
            prepare=with_messages,
            why_not_about=prompt.why_not_about,
            budget=budget,
            counts_calls=True,
            open_connections=server.connected,
        )

    def _secret(self) -> str | None:
        """Get the server's key; None if `key` is None and the variable `SORTNET_KEY` is not set.

        Raises:
            SortNetError: if the source in `key` has no key, or a text that cannot be a key, or if
                the request has the key.
        """
        secret: object
        if callable(self.key):
            secret, source = self.key(), "the function"  # which may return a value of a wrong type
        else:
            source = self.key or KEY_VARIABLE
            secret = os.environ.get(source, "").strip() or None
            if secret is None and self.key is not None:
                raise SortNetError(f"the variable {source}, which is to have the key, is not set")
        if secret is None:
            return None
        if not isinstance(secret, str):
            raise SortNetError(f"key: the function returned {type(secret).__name__}, no text")
        if not (secret.isascii() and secret.isprintable()):
            raise SortNetError(f"the key in {source} has characters that no key has")
        if secret in json.dumps(dict(self.request)):
            raise SortNetError("request: it has the server's key, and a request is stored")
        return secret


def _check_key(key: object) -> None:
    """Raise SortNetError unless a key is None, a function or the name of a variable.

    A user may have passed the secret key itself, which must not be stored with a run. So a text in
    lower case must be the name of an environment variable that is set. The message does not show
    the text.
    """
    if key is None or callable(key):
        return
    is_name = isinstance(key, str) and (key in os.environ or _VARIABLE.fullmatch(key) is not None)
    if not is_name or has_secret(str(key)):
        raise SortNetError(
            "key: give the name of an environment variable, or a function that returns the key; "
            "the key itself could be printed or stored"
        )
