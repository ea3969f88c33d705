"""Options that describe a program or a language model, or a batch of its questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.options import Real, Whole, files, with_options

if TYPE_CHECKING:
    from sortnet.judges import LanguageModel, Program

C = TypeVar("C", bound=Callable[..., Any])

_END_OF_FILES = ".toml"
# {option: (metavar, help)}
_ADDRESS = {
    "--judge": ("COMMAND|FILE.toml", "Program that answers, or file of a judge."),
    "--model": ("MODEL", "Language model that answers, by its name there."),
    "--server": ("URL", "Server of the model: http://localhost:8000."),
    "--key": ("VARIABLE", "Variable with the key; default: SORTNET_KEY."),
}
# Fields of a judge that `sortnet train` reads only from a file.
DETAILS = ("key", "prompt", "both_orders", "max_calls")
# Parameters of a command whose values replace those of the judge's file.
FIELDS = ("model", "server", "max_cost", "workers", *DETAILS)
_ACTIONS = ("write_batch", "read_batch", "cancel_batch")
DEFAULT_SIZE = 100  # number of questions in a batch if --number is not given


def _option(name: str, *, several: bool = False) -> Callable[[C], C]:
    """Make an option of a judge, which may be repeated for several judges."""
    metavar, text = _ADDRESS[name]
    return click.option(name, metavar=metavar, help=text, multiple=several)


# Options of a command that asks several judges.
judge_options = with_options(
    _option("--judge", several=True),
    _option("--model", several=True),
    _option("--server"),
    click.option(
        "--max-cost",
        type=Real(0, min_open=True),
        metavar="SUM",
        help="End at this cost; FILE.toml has the prices.",
    ),
    click.option(
        "--workers",
        type=Whole(1, 64),
        metavar="N",
        help="Calls, or programs, at once; default: 1.",
    ),
    click.option("--dry-run", is_flag=True, help="Show a question and the cost; send nothing."),
)
# Options of `DETAILS`, for a command that has `judge_options`, too.
detail_options = with_options(
    _option("--key"),
    click.option(
        "--prompt", metavar="FILE", shell_complete=files, help="Jinja template of the prompt."
    ),
    click.option(
        "--both-orders", is_flag=True, help="Ask each question in both orders, and keep both."
    ),
    click.option("--max-calls", type=Whole(1), metavar="N", help="End after N calls."),
)
# Options of `sortnet label` for a provider's batch endpoint, which takes and returns files.
batch_options = with_options(
    click.option(
        "--write-batch",
        metavar="FILE",
        shell_complete=files,
        help=f"Write questions for a provider's batch endpoint, --number N or {DEFAULT_SIZE}.",
    ),
    click.option(
        "--read-batch",
        metavar="FILE",
        multiple=True,
        shell_complete=files,
        help="Store the answers of a batch; repeatable.",
    ),
    click.option(
        "--cancel-batch", metavar="BATCH", help="Take back the open questions of a batch."
    ),
)
# Options of a command that asks one judge.
address_options = with_options(*map(_option, _ADDRESS))


def judges_from_options(values: Mapping[str, Any]) -> list[LanguageModel | Program]:
    """Make the judges that the options describe; there may be none, one or several.

    Args:
        values: {parameter of the command: value of its option}; `judge` and `model` have a sequence
            of values, the other values are for all judges.

    Raises:
        click.UsageError: if options cannot be combined.
        SortNetError: if a file or a value cannot be used.
    """
    sources, models = values["judge"] or (None,), values["model"] or (None,)
    if len(sources) > 1 and len(models) > 1:
        raise click.UsageError("give several --judge or several --model, not both")
    judges = [
        judge_from_options({**values, "judge": source, "model": model})
        for source, model in product(sources, models)
    ]
    return [judge for judge in judges if judge is not None]


def judges_by_annotator(
    judges: Sequence[LanguageModel | Program],
) -> dict[str, LanguageModel | Program]:
    """Return {annotator: the judge that answers under this name}.

    Raises:
        click.UsageError: if several judges would have the same name.
    """
    by_annotator = {judge.annotator: judge for judge in judges}
    if len(by_annotator) < len(judges):
        raise click.UsageError("several judges answer under their own names, which must differ")
    return by_annotator


def judge_from_options(values: Mapping[str, Any]) -> LanguageModel | Program | None:
    """Make the judge that the options describe; None if they describe no judge.

    Raises:
        click.UsageError: if options cannot be combined.
        SortNetError: if a file or a value cannot be used.
    """
    from sortnet.judges import LanguageModel, Program
    from sortnet.judges.any_judge import judge_from_file

    source = values["judge"]
    typed = {name: values[name] for name in FIELDS if values.get(name)}
    if source is None and "model" not in typed:
        if typed or values.get("dry_run"):
            option = option_of(next(iter(typed), "dry_run"))
            raise click.UsageError(f"{option} is for --judge and --model")
        return None
    if source is None:
        if "max_cost" in typed:
            raise click.UsageError(
                "--max-cost needs prices: give --judge FILE.toml, which has them"
            )
        return LanguageModel(**{"server": "", **typed})
    is_file = source.endswith(_END_OF_FILES) and (" " not in source or Path(source).exists())
    judge = judge_from_file(source) if is_file else Program(source)
    if isinstance(judge, Program):
        for name in typed:
            if name not in ("workers", "max_calls"):
                raise click.UsageError(f"{option_of(name)} is for a language model")
    return replace(judge, **typed)


def refuse_without_server(judge: LanguageModel | Program) -> None:
    """Raise UsageError if a judge is a language model without a server."""
    if getattr(judge, "server", None) == "":
        raise click.UsageError("--model needs --server URL")


def option_of(name: str) -> str:
    """Return the option of a parameter as it is typed, such as `--max-calls`."""
    return f"--{name.replace('_', '-')}"


def is_by_file(values: Mapping[str, Any]) -> bool:
    """Whether the options ask to write, read or cancel a batch."""
    if values["read_batch"]:
        return True
    return values["write_batch"] is not None or values["cancel_batch"] is not None


def refuse_batch_options(
    values: Mapping[str, Any], *, annotator: str | None, number: int | None
) -> None:
    """Refuse options that cannot be combined with a batch.

    Args:
        values: values of all options of judges and batches, by parameter.
        annotator: value of `--as`.
        number: value of `--number`.

    Raises:
        click.UsageError: naming the options, if they cannot be combined.
    """
    actions = [name for name in _ACTIONS if values[name]]
    if not actions:
        return
    needless = [*actions[1:], "place", "dry_run"]
    if actions == ["write_batch"]:
        needless += ["server", "key"]  # nothing is sent
    else:
        needless += ["judge", *FIELDS, "as", "number"]  # the batch has stored them
    for name in needless:
        if {**values, "as": annotator, "number": number}[name]:
            raise click.UsageError(f"{option_of(actions[0])} takes no {option_of(name)}")
