"""Options that describe a judge which is no person, the same for every command that asks one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.options import Real, Whole

if TYPE_CHECKING:
    from sortnet.judges import LanguageModel, Program
    from sortnet.judges.connection import JudgeConnection

C = TypeVar("C", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--judge", metavar="COMMAND", help="Program that answers; see above."),
    click.option(
        "--timeout",
        type=Real(0, 86400, min_open=True),
        default=60.0,
        help="Timeout for an answer of the program or model, in seconds.",
    ),
    click.option(
        "--workers",
        type=Whole(1, 64),
        default=1,
        help="Copies of the program, or calls, at once.",
    ),
    click.option(
        "--batch",
        type=Whole(1, 1000),
        default=1,
        help="Pairs in a line for the program, as an array.",
    ),
    click.option(
        "--model", metavar="MODEL", help="Language model that answers, by its name there."
    ),
    click.option(
        "--server",
        metavar="URL",
        help="Server of the model, such as http://localhost:8000.",
    ),
    click.option(
        "--key",
        metavar="VARIABLE",
        help="Variable that has the server's key.  [default: SORTNET_KEY]",
    ),
    click.option("--prompt", metavar="FILE", help="Jinja template of the prompt."),
    click.option("--show-prompt", is_flag=True, help="Show the prompt of one pair; ask nothing."),
    click.option("--estimate", is_flag=True, help="Show calls, tokens and cost; ask nothing."),
    click.option(
        "--no-logprobs", is_flag=True, help="Ask the model for no log-probabilities, only words."
    ),
    click.option(
        "--both-orders", is_flag=True, help="Ask each pair in both orders, and keep both."
    ),
    click.option("--max-calls", type=Whole(1), metavar="N", help="End after that many calls."),
    click.option("--max-tokens", type=Whole(1), metavar="N", help="End after that many tokens."),
    click.option(
        "--max-cost", type=Real(0, min_open=True), metavar="SUM", help="End at that cost."
    ),
    click.option(
        "--price-in", type=Real(0), metavar="SUM", help="Price of a million prompt tokens."
    ),
    click.option(
        "--price-out", type=Real(0), metavar="SUM", help="Price of a million answer tokens."
    ),
    click.option(
        "--patience",
        "store_patience",
        type=Real(0),
        default=600.0,
        help="Seconds to wait for a server that is busy, or a store that is away.",
    ),
    click.option("--insecure", is_flag=True, help="Allow a server without https."),
)
NAMES = (
    *("judge", "timeout", "workers", "batch", "model", "server", "key", "prompt", "show_prompt"),
    *("estimate", "both_orders", "max_calls", "max_tokens", "max_cost", "price_in", "price_out"),
    *("store_patience", "insecure", "no_logprobs"),
)  # of the parameters that a command gets
_OF_A_MODEL = (
    *("server", "prompt", "both_orders", "max_calls", "max_tokens", "max_cost", "key"),
    "no_logprobs",
)


def judge_options(command: C) -> C:
    """Add the options; the command gets those in `NAMES`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def judge_of(values: Mapping[str, Any]) -> LanguageModel | Program | None:
    """The judge that the options describe; None if they describe none.

    Raises:
        SortNetError: if the command cannot be one.
    """
    from sortnet.judges import LanguageModel, Program

    if values["judge"] is not None:
        return Program(
            values["judge"],
            timeout=values["timeout"],
            workers=values["workers"],
            batch=values["batch"],
            patience=values["store_patience"],
        )
    if not values["model"]:
        return None
    return LanguageModel(
        values["model"],
        values["server"] or "",
        key_variable=values["key"],
        prompt=values["prompt"],
        both_orders=values["both_orders"],
        logprobs=not values["no_logprobs"],
        workers=values["workers"],
        timeout=values["timeout"],
        patience=values["store_patience"],
        max_calls=values["max_calls"],
        max_tokens=values["max_tokens"],
        max_cost=values["max_cost"],
        price_in=values["price_in"],
        price_out=values["price_out"],
        insecure=values["insecure"],
    )


def connect(values: Mapping[str, Any]) -> JudgeConnection | None:
    """The judge that the options describe, ready to be asked; None if they describe none.

    Raises:
        SortNetError: if the command, the server, the template or the key cannot be used.
    """
    judge = judge_of(values)
    option = "--model" if values["judge"] is None else "--judge"
    return None if judge is None else judge.connect(option)


def is_asked(values: Mapping[str, Any]) -> bool:
    """Whether the options name a judge."""
    return values["judge"] is not None or bool(values["model"])


def only_shows(values: Mapping[str, Any]) -> bool:
    """Whether a prompt or an estimate is to be shown, and nothing asked."""
    return bool(values["show_prompt"] or values["estimate"])


def refuse_together(values: Mapping[str, Any]) -> None:
    """Refuse options that do not go together.

    Raises:
        click.UsageError: naming them.
    """
    if values["judge"] is not None and values["model"]:
        raise click.UsageError("--judge and --model cannot be combined")
    if values["batch"] > 1 and values["judge"] is None:
        raise click.UsageError("--batch is for --judge")
    asks = not only_shows(values)
    if values["model"] and not values["server"] and asks:
        raise click.UsageError("--model needs --server URL")
    for option in _OF_A_MODEL:
        if values[option] and not values["model"] and asks:
            raise click.UsageError(f"--{option.replace('_', '-')} is for --model")
    if (
        values["max_cost"] is not None
        and values["price_in"] is None
        and values["price_out"] is None
    ):
        raise click.UsageError("--max-cost needs --price-in or --price-out")
