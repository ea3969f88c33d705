"""The judge that the options of a command describe: a program, or a language model on a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cli.judges.model_judge import ModelWorker, Server, Spent
from cli.judges.pairs import Pair
from cli.judges.program_judge import program_workers
from cli.judges.prompts import Prompt
from cli.judges.worker_pool import Worker
from sortnet.errors import SortNetError

KEY = "SORTNET_KEY"  # the variable that has a server's key by default


@dataclass(frozen=True)
class MachineJudge:
    """A program or a language model that can be asked.

    Attributes:
        name: the option that it came by, for messages.
        make_workers: makes its workers, which are ended by who asked them.
        batch, both_orders, patience: as `WorkerPool` has them.
        server, prompt: of a model.
    """

    name: str
    make_workers: Callable[[], Sequence[Worker]]
    batch: int
    both_orders: bool
    patience: float
    server: Server | None = None
    prompt: Prompt | None = None

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Keep the connections to a server open."""
        if self.server is None:
            yield
            return
        with self.server.connected():
            yield

    def prepared(self, pair: Pair) -> Pair:
        """A pair with the messages for a model."""
        if self.prompt is None:
            return pair
        messages = self.prompt.messages(pair)
        return pair | {"messages": messages, "meta": {"prompt": self.prompt.hash}}

    def why_no_more(self) -> str:
        """Why no more may be asked; empty: it may."""
        return "" if self.server is None else self.server.spent.why()

    def progress(self, text: str) -> str:
        """A line of progress with what was spent so far."""
        return text if self.server is None else f"{text}, {self.server.spent.progress()}"

    def restart_clock(self) -> None:
        """Take the rate of calls from now on."""
        if self.server is not None:
            self.server.spent.restart_clock()

    def spent_text(self) -> str:
        """Calls, tokens and cost in words; empty for a program."""
        return "" if self.server is None else self.server.spent.text()

    def spent_facts(self) -> dict[str, Any]:
        """Calls, tokens and cost as JSON; nothing for a program."""
        if self.server is None:
            return {}
        names = ("calls", "tokens_in", "tokens_out", "cost")
        return {name: getattr(self.server.spent, name) for name in names}


def judge_of(options: Mapping[str, Any]) -> MachineJudge | None:
    """The judge that the values of `judge_options` describe; None if they describe none.

    Raises:
        SortNetError: if the command, the server, the template or the key cannot be.
    """
    patience: float = options["store_patience"]
    if options["judge"] is not None:
        make = program_workers(
            options["judge"], options["timeout"], options["workers"], options["batch"]
        )
        return MachineJudge("--judge", make, options["batch"], False, patience)
    if not options["model"]:
        return None
    prompt = Prompt(options["prompt"])
    server = Server(
        options["server"], options["model"], _key(options["key"]), options["timeout"],
        patience, spent_of(options), insecure=options["insecure"],
    )  # fmt: skip

    def make_model_workers() -> list[Worker]:
        return [ModelWorker(server, seed) for seed in range(options["workers"])]

    return MachineJudge(
        "--model", make_model_workers, 1, options["both_orders"], patience, server, prompt
    )


def spent_of(options: Mapping[str, Any]) -> Spent:
    """Limits and prices of calls, by the values of `judge_options`; nothing is spent yet."""
    return Spent(
        max_calls=options["max_calls"],
        max_tokens=options["max_tokens"],
        max_cost=options["max_cost"],
        price_in=options["price_in"],
        price_out=options["price_out"],
    )


def _key(variable: str | None) -> str | None:
    """The key in the environment; only a variable that was named must be there."""
    key = os.environ.get(variable or KEY, "").strip() or None
    if key is None and variable is not None:
        raise SortNetError(f"--key: the variable {variable} is not set")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise SortNetError(f"the key in {variable or KEY} has characters that no key has")
    return key
