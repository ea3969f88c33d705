"""What asking a language model would take: a prompt to look at, and an estimate of the cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cli.judges.machine_judge import spent_of
from cli.judges.model_answers import CHARACTERS
from cli.judges.pairs import Pair
from cli.judges.prompts import Prompt
from cli.output import count, print_json, put

SAMPLE = 50  # prompts of which an estimate takes the mean length
_ANSWER = 2  # tokens, about


def show_prompt(prompt: Prompt, pair: Pair, *, as_json: bool) -> None:
    """Print the prompt of a pair."""
    text = prompt.of(pair)
    if as_json:
        print_json({"prompt": text})
    else:
        put(text)


def show_estimate(
    prompt: Prompt,
    options: Mapping[str, Any],
    n_pairs: int,
    some: Sequence[Pair],
    *,
    as_json: bool,
) -> None:
    """Print how many calls and tokens that many pairs take, and what they cost.

    Args:
        options: the values of `judge_options`.
        some: pairs by whose prompts the others are estimated.
    """
    calls = n_pairs * (2 if options["both_orders"] else 1)
    if options["max_calls"] is not None:
        calls = min(calls, options["max_calls"])
    length = sum(len(prompt.of(pair)) // CHARACTERS for pair in some) / len(some)
    tokens_in = int(calls * max(1.0, length))
    tokens_out = calls * _ANSWER
    spent = spent_of(options)
    spent.add(tokens_in, tokens_out)
    if as_json:
        facts = {"pairs": n_pairs, "calls": calls, "tokens_in": tokens_in, "tokens_out": tokens_out}
        print_json({**facts, "cost": spent.cost})
        return
    cost = "" if spent.cost is None else f", a cost of about {spent.cost:.4g}"
    tokens = f"{tokens_in + tokens_out:,} tokens"
    put(f"about {count(calls, 'call')}, {tokens}{cost}; nothing was sent")
