"""`sortnet label --model`: what is asked of a language model, what it will cost, and the run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np

from cli.output import count, print_json, printable, progress, put, say
from cli.terminal.asking import Ask, Asking
from cli.terminal.judging import Judging, Pair, pair_of
from cli.terminal.model_answers import CHARACTERS
from cli.terminal.model_judge import ModelWorker, Server, Spent
from cli.terminal.prompts import Prompt
from sortnet.errors import SortNetError
from sortnet.preference import Question
from sortnet.preference.goal import Goal
from sortnet.preference.groups import Groups
from store import Collection, Lease
from store.service.labelling import LabellingService

KEY = "SORTNET_KEY"  # the variable that has a server's key by default
_SAMPLE = 50  # prompts of which an estimate takes the mean length
_ANSWER = 2  # tokens, about


def by_model(options: Mapping[str, Any]) -> Ask:
    """What asks a language model.

    Raises:
        SortNetError: on a server, a template or a key that cannot be.
    """
    prompt, spent = Prompt(options["prompt"]), _spent(options)
    server = Server(
        options["server"], options["model"], _key(options["key"]), options["timeout"],
        options["patience"], spent, insecure=options["insecure"],
    )  # fmt: skip

    def ask(asking: Asking, number: int | None) -> tuple[str, dict[str, Any]]:
        workers = [ModelWorker(server, seed) for seed in range(options["workers"])]
        meta = {"prompt": prompt.hash}
        _tell_others(asking, server.model, prompt)
        with server.connected(), progress() as status:
            why, failures = Judging(
                asking, number, name="--model",
                both_orders=options["both_orders"], patience=options["patience"], spent=spent.why,
                on_progress=lambda text: status(f"{text}, {spent.progress()}"),
                prepared=lambda pair: pair | {"messages": prompt.messages(pair), "meta": meta},
            ).run(workers)  # fmt: skip
        # The fault has a line of its own.
        why = spent.text() if failures["fault"] else f"{why} ({spent.text()})"
        facts = {
            name: getattr(spent, name) for name in ("calls", "tokens_in", "tokens_out", "cost")
        }
        return why, facts | failures

    return ask


def _tell_others(asking: Asking, model: str, prompt: Prompt) -> None:
    """Tell if the annotator's last answer is of another model or prompt."""
    judgements = asking.service.judgements()
    texts, mine = judgements.texts["meta"], judgements.by(asking.annotator)
    last = next((texts[row] for row in sorted(texts, reverse=True) if mine[row]), None)
    try:
        said = json.loads(last or "{}")
    except (ValueError, RecursionError):  # an import's
        return
    now = {"model": model, "prompt": prompt.hash}
    if isinstance(said, dict) and any(said.get(name, now[name]) != now[name] for name in now):
        who = printable(asking.annotator)
        say(f"{who}: earlier answers are of another model or prompt: --as NAME keeps them apart")


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
        left = service.remaining.questions
        some = _some_pairs(service, 1 if options["show_prompt"] else _SAMPLE)
    if options["show_prompt"]:
        text = prompt.of(some[0])
        print_json({"prompt": text}) if as_json else put(text)
        return
    pairs = number if number is not None else left
    if pairs is None:
        raise SortNetError("--estimate: how many questions are left is not known: give --number")
    calls = pairs * (2 if options["both_orders"] else 1)
    if options["max_calls"] is not None:
        calls = min(calls, options["max_calls"])
    each = sum(len(prompt.of(pair)) // CHARACTERS for pair in some) / len(some)
    tokens_in = int(calls * max(1.0, each))
    spent = _spent(options)
    spent.add(tokens_in, calls * _ANSWER)
    found = {"pairs": pairs, "calls": calls, "tokens_in": tokens_in, "tokens_out": calls * _ANSWER}
    if as_json:
        print_json({**found, "cost": spent.cost})
        return
    cost = "" if spent.cost is None else f", a cost of about {spent.cost:.4g}"
    tokens = f"{tokens_in + spent.tokens_out:,} tokens"
    put(f"about {count(calls, 'call')}, {tokens}{cost}; nothing was sent")


def _some_pairs(service: LabellingService, n: int) -> list[Pair]:
    """The first item with the next of its group, then random pairs."""
    groups = Groups(service.items.groups, len(service.items), without=service.study.retired)
    first = next(members[:2].tolist() for members in groups.members if len(members) > 1)
    drawn = np.transpose(groups.draw(np.random.default_rng(0), n - 1)).tolist()
    return [
        pair_of(service, Lease("example", Question(i, j, "random", 1.0), "", 0.0))
        for i, j in [first, *drawn]
    ]


def _spent(options: Mapping[str, Any]) -> Spent:
    names = ("max_calls", "max_tokens", "max_cost", "price_in", "price_out")
    return Spent(**{name: options[name] for name in names})


def _key(variable: str | None) -> str | None:
    """The key in the environment; only a variable that was named must be there."""
    key = os.environ.get(variable or KEY, "").strip() or None
    if key is None and variable is not None:
        raise SortNetError(f"--key: the variable {variable} is not set")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise SortNetError(f"the key in {variable or KEY} has characters that no key has")
    return key
