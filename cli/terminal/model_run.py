"""`sortnet label --model`: what is asked of a language model, what it will cost, and the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from cli.output import print_json, progress, put
from cli.terminal.asking import Asking
from cli.terminal.judging import Judging, Pair, pair_of
from cli.terminal.model_judge import ModelWorker, Server, Spent
from cli.terminal.prompts import Prompt
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError
from sortnet.preference import Question
from sortnet.preference.goal import Goal
from store import Collection, Lease
from store.service.labelling import LabellingService

_KEY = "SORTNET_KEY"
_CHARACTERS = 4  # of a token, about
_ANSWER = 2  # tokens, about
COUNTED = ("calls", "tokens_in", "tokens_out", "cost")
Ask = Callable[[Asking, "int | None"], tuple[str, dict[str, Any]]]


def by_model(options: Mapping[str, Any], timeout: float, n_workers: int) -> Ask:
    """What asks a language model.

    Raises:
        SortNetError: on a server, a template or a key that cannot be.
    """
    prompt, spent = Prompt(options["prompt"]), _spent(options)
    server = Server(
        options["server"], options["model"], _key(options["key"]), timeout, options["patience"],
        spent, insecure=options["insecure"],
    )  # fmt: skip

    def ask(asking: Asking, number: int | None) -> tuple[str, dict[str, Any]]:
        workers = [ModelWorker(server, seed) for seed in range(n_workers)]
        with server.connected(), progress() as status, ended_by_signals():
            judging = Judging(
                asking.service, asking.annotator, number, name="--model",
                both_orders=options["both_orders"], spent=spent.why,
                on_progress=lambda text: status(f"{text}, {spent.text()}"),
                prepared=lambda pair: pair | {"messages": prompt.messages(pair)},
            )  # fmt: skip
            judging.run(workers)
        asking.answered += judging.votes
        why = f"{judging.why} ({spent.text()})"
        facts: dict[str, Any] = {
            "calls": spent.calls,
            "tokens_in": spent.tokens_in,
            "tokens_out": spent.tokens_out,
        }
        facts |= {"cost": spent.cost, "failed": judging.failed, "fault": judging.fault}
        return why, facts

    return ask


def show_prompt_or_estimate(
    collection: Collection,
    options: Mapping[str, Any],
    number: int | None,
    until: Goal | None,
    *,
    as_json: bool,
) -> None:
    """Show the prompt of one pair, or what a run would take; nothing is sent or stored."""
    prompt = Prompt(options["prompt"])
    first = collection.asked()[0]
    with closing(LabellingService(first, goal=until)) as service, progress() as status:
        status("fitting the answers so far")
        service.settle()
        pair = _some_pair(service)
        left = service.remaining.questions
    if options["show_prompt"]:
        text = prompt.of(pair)
        print_json({"prompt": text}) if as_json else put(text)
        return
    pairs = number if number is not None else left
    if pairs is None:
        raise SortNetError("--estimate: how many questions are left is not known: give --number")
    calls = pairs * (2 if options["both_orders"] else 1)
    tokens_in = calls * max(1, len(prompt.of(pair)) // _CHARACTERS)
    spent = _spent(options)
    spent.add(tokens_in, calls * _ANSWER)
    found = {"pairs": pairs, "calls": calls, "tokens_in": tokens_in, "tokens_out": calls * _ANSWER}
    if as_json:
        print_json({**found, "cost": spent.cost})
        return
    cost = "" if spent.cost is None else f", a cost of about {spent.cost:.4g}"
    put(f"about {calls:,} calls, {tokens_in + spent.tokens_out:,} tokens{cost}; nothing was sent")


def _some_pair(service: LabellingService) -> Pair:
    """The first item and the next of its group."""
    groups = service.items.groups
    others = range(1, len(service.items))
    alike = (k for k in others if groups is None or groups[k] == groups[0])
    question = Question(0, next(alike, 1), "random", 1.0)
    return pair_of(service, Lease("example", question, "", 0.0))


def _spent(options: Mapping[str, Any]) -> Spent:
    names = ("max_calls", "max_tokens", "max_cost", "price_in", "price_out")
    return Spent(**{name: options[name] for name in names})


def _key(variable: str | None) -> str | None:
    """The key in the environment; only a variable that was named must be there."""
    key = os.environ.get(variable or _KEY, "").strip() or None
    if key is None and variable is not None:
        raise SortNetError(f"--key: the variable {variable} is not set")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise SortNetError(f"the key in {variable or _KEY} has characters that no key has")
    return key
