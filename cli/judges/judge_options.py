"""Options that describe a program or a language model, for all commands that ask a judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.options import Real, Whole

if TYPE_CHECKING:
    from sortnet.judges import LanguageModel, Price, Program
    from sortnet.judges.connection import JudgeConnection

C = TypeVar("C", bound=Callable[..., Any])

# Options that may be given once for each of several models: {option: (metavar, help)}.
_OPTIONS_OF_EACH_MODEL = {
    "--model": ("MODEL", "Language model that answers, by its name there."),
    "--server": ("URL", "Server of the model, such as http://localhost:8000."),
    "--key": ("VARIABLE", "Variable that has the server's key.  [default: SORTNET_KEY]"),
}


def _options_of_each_model(*, several: bool) -> list[Callable[[C], C]]:
    """Make `--model`, `--server` and `--key`; with `several`, each option may be repeated."""
    return [
        click.option(name, metavar=metavar, help=text, multiple=several)
        for name, (metavar, text) in _OPTIONS_OF_EACH_MODEL.items()
    ]


# The help lists these options before `--model`, `--server` and `--key`.
_FIRST = (
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
        help="Number of copies of the program, or of calls, at once.",
    ),
    click.option(
        "--batch",
        type=Whole(1, 1000),
        default=1,
        help="Questions in a line for the program, as an array.",
    ),
)
# The help lists these options after `--model`, `--server` and `--key`.
_LAST = (
    click.option("--prompt", metavar="FILE", help="Jinja template of the prompt."),
    click.option(
        "--request",
        metavar="KEY=VALUE",
        multiple=True,
        help="Parameter of each request, such as temperature=0.7; repeatable.",
    ),
    click.option("--structured", is_flag=True, help="Ask for answers that fit a JSON schema."),
    click.option("--show-prompt", is_flag=True, help="Show the prompt of a question; ask nothing."),
    click.option("--estimate", is_flag=True, help="Show calls, tokens and cost; ask nothing."),
    click.option(
        "--no-logprobs", is_flag=True, help="Ask the model for no log-probabilities, only words."
    ),
    click.option(
        "--both-orders", is_flag=True, help="Ask each question in both orders, and keep both."
    ),
    click.option("--max-calls", type=Whole(1), metavar="N", help="End after N calls."),
    click.option("--max-tokens", type=Whole(1), metavar="N", help="End after N tokens."),
    click.option(
        "--max-cost",
        type=Real(0, min_open=True),
        metavar="SUM",
        help="End when the cost reaches SUM.",
    ),
    click.option(
        "--price-in", type=Real(0), metavar="SUM", help="Price of a million prompt tokens."
    ),
    click.option(
        "--price-out", type=Real(0), metavar="SUM", help="Price of a million answer tokens."
    ),
    click.option(
        "--prices",
        metavar="FILE",
        help="Table of prices.  [default: prices.toml in the user's sortnet configuration]",
    ),
    click.option("--currency", metavar="NAME", help="Currency of the sums, such as EUR."),
    click.option(
        "--patience",
        "store_patience",
        type=Real(0),
        default=600.0,
        help="Seconds to wait for a busy server, or an unreachable store.",
    ),
    click.option("--insecure", is_flag=True, help="Allow a server without https."),
)
# Names of the parameters of a command that stand for the options of a judge.
NAMES = (
    *("judge", "timeout", "workers", "batch", "model", "server", "key", "prompt", "show_prompt"),
    *("estimate", "both_orders", "max_calls", "max_tokens", "max_cost", "price_in", "price_out"),
    *("request", "structured", "prices", "currency"),
    *("store_patience", "insecure", "no_logprobs"),
)
# Parameters that only a language model has.
_MODEL_PARAMETERS = (
    *("server", "prompt", "both_orders", "max_calls", "max_tokens", "max_cost", "key"),
    *("request", "structured", "prices", "currency", "no_logprobs"),
)


def judge_options(command: C) -> C:
    """Add the options of a judge to a command, which gets their values as parameters."""
    return _with_options(command, several=False)


def several_judges_options(command: C) -> C:
    """Add the options of judges; the options of a model may be given once for each model."""
    return _with_options(command, several=True)


def _with_options(command: C, *, several: bool) -> C:
    """Add the options of judges to a command, in the order in which the help lists them."""
    for option in reversed((*_FIRST, *_options_of_each_model(several=several), *_LAST)):
        command = option(command)
    return command


def each_judge(values: Mapping[str, Any], annotator: str | None) -> list[dict[str, Any]]:
    """Split the options of several judges into a dict for each judge.

    There is a dict for each model, or one dict for a program or a person.

    Args:
        values: {parameter of the command: value of its option}. Models, servers and keys are
            sequences here; in the dict of a judge each is one text or None.
        annotator: value of `--as`.

    Raises:
        click.UsageError: if a model is given twice, or the number of servers or keys is neither 1
            nor the number of models.
    """
    models = values["model"]
    if len(models) > 1 and annotator is not None:
        raise click.UsageError("--as is for one --model: several answer under their own names")
    if len({*models}) < len(models):
        raise click.UsageError("a --model is given twice: give each once")
    n_judges = max(len(models), 1)  # without a model, the only judge is a program or a person
    judges = [dict(values) for _ in range(n_judges)]
    for option in _OPTIONS_OF_EACH_MODEL:
        parameter = option.removeprefix("--")
        value_of_judge = _one_value_for_each(n_judges, values[parameter], option)
        for judge, value in zip(judges, value_of_judge, strict=True):
            judge[parameter] = value
    return judges


def _one_value_for_each(
    n_judges: int, option_values: Sequence[str], option: str
) -> Sequence[str | None]:
    """Return the value of an option for each judge.

    All judges share a value that is given once. Their values are None if no value is given.

    Args:
        n_judges: number of judges.
        option_values: the values that the user gave, none, one or several.
        option: name of the option, for messages.

    Raises:
        click.UsageError: if there are several values, but not one for each judge.
    """
    if not option_values:
        return [None] * n_judges
    if len(option_values) == 1:
        return [option_values[0]] * n_judges
    if len(option_values) != n_judges:
        raise click.UsageError(f"give one {option} for all models, or one for each")
    return option_values


def judge_from_options(values: Mapping[str, Any]) -> LanguageModel | Program | None:
    """Make the judge that the options describe; None if they describe no judge.

    Raises:
        SortNetError: if the command, a parameter of the request or a price cannot be used.
    """
    from sortnet.judges import LanguageModel, Limits, Program
    from sortnet.judges.request import parse_request

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
        key=values["key"],
        prompt=values["prompt"],
        request=parse_request(values["request"]),
        structured=values["structured"],
        logprobs=not values["no_logprobs"],
        both_orders=values["both_orders"],
        limits=Limits(
            max_calls=values["max_calls"],
            max_tokens=values["max_tokens"],
            max_cost=values["max_cost"],
        ),
        price=_price_from_options(values),
        workers=values["workers"],
        timeout=values["timeout"],
        patience=values["store_patience"],
        insecure=values["insecure"],
    )


def _price_from_options(values: Mapping[str, Any]) -> Price:
    """Make the price of tokens that the options describe; a table of prices is not read yet."""
    from sortnet.judges import Price

    return Price(
        price_in=values["price_in"],
        price_out=values["price_out"],
        currency=values["currency"],
        table=values["prices"],
    )


def connect(values: Mapping[str, Any]) -> JudgeConnection | None:
    """Connect to the judge that the options describe; None if they describe no judge.

    Raises:
        SortNetError: if the command, the server, the template or the key cannot be used.
    """
    judge = judge_from_options(values)
    if judge is None:
        return None
    option = "--model" if values["judge"] is None else "--judge"
    return judge.connect(option)


def is_asked(values: Mapping[str, Any]) -> bool:
    """Whether the options name a judge, that is, a program or a language model."""
    return values["judge"] is not None or bool(values["model"])


def only_shows(values: Mapping[str, Any]) -> bool:
    """Whether the options only ask to show a prompt or an estimate."""
    return bool(values["show_prompt"] or values["estimate"])


def refuse_together(values: Mapping[str, Any]) -> None:
    """Refuse options of judges that cannot be combined.

    Raises:
        click.UsageError: naming the options.
        SortNetError: if a table of prices cannot be used.
    """
    if values["judge"] is not None and values["model"]:
        raise click.UsageError("--judge and --model cannot be combined")
    if values["batch"] > 1 and values["judge"] is None:
        raise click.UsageError("--batch is for --judge")
    asks_server = not only_shows(values) and values.get("write_batch") is None
    if values["model"] and not values["server"] and asks_server:
        raise click.UsageError("--model needs --server URL")
    needs_model = not values["model"] and not only_shows(values)
    for parameter in _MODEL_PARAMETERS:
        if needs_model and values[parameter]:
            option = f"--{parameter.replace('_', '-')}"
            raise click.UsageError(f"{option} is for --model")
    if values["max_cost"] is None:
        return
    price = _price_from_options(values).looked_up(values["model"] or "")
    if not price.is_known:
        raise click.UsageError("--max-cost needs --price-in or --price-out, or a table of prices")
