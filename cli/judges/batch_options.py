"""Options of `sortnet label` for a provider's batch endpoint, which takes and returns files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from cli.options import Whole, files

C = TypeVar("C", bound=Callable[..., Any])

_ACTIONS = ("write_batch", "read_batch", "cancel_batch")
DEFAULT_SIZE = 100  # number of questions in a batch if --batch-size is not given
_OPTIONS = (
    click.option(
        "--write-batch",
        metavar="FILE",
        shell_complete=files,
        help="Write questions for a provider's batch endpoint; ask nothing.",
    ),
    click.option(
        "--batch-size",
        type=Whole(1, 50_000),
        metavar="N",
        help=f"Number of questions of a batch, chosen together.  [default: {DEFAULT_SIZE}]",
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
# Options that are refused when a batch is written, because nothing is sent to a server.
_SERVER_PARAMETERS = ("server", "key")
# Options that are refused when a batch is read or cancelled, because their values were stored when
# the batch was written.
_JUDGE_PARAMETERS = (
    *("judge", "model", "prompt", "both_orders", "request", "structured", "price_in", "price_out"),
    *("prices", "currency", "max_calls", "max_tokens", "max_cost", "no_logprobs"),
    *_SERVER_PARAMETERS,
)


def batch_options(command: C) -> C:
    """Add the options of batches to a command."""
    for option in reversed(_OPTIONS):  # the option that is added last comes first in the help
        command = option(command)
    return command


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
    if values["batch_size"] is not None and values["write_batch"] is None:
        raise click.UsageError("--batch-size is for --write-batch")
    actions = [_option(name) for name in _ACTIONS if values[name]]
    if not actions:
        return
    action = actions[0]
    if len(actions) > 1:
        raise click.UsageError(f"{action} and {actions[1]} cannot be combined")
    if values["place"] is not None:
        raise click.UsageError(f"--place is for people: leave out {action}")
    if number is not None:
        raise click.UsageError(f"{action} needs no --number: --batch-size N says how many")
    if values["write_batch"] is None:
        _refuse_judge(values, action, annotator)
    else:
        _refuse_server(values)


def _refuse_judge(values: Mapping[str, Any], action: str, annotator: str | None) -> None:
    """Refuse options of a judge for the action `--read-batch` or `--cancel-batch`.

    The batch has stored the values of these options when it was written.
    """
    for name in _JUDGE_PARAMETERS:
        is_given = values[name] not in (None, False, ())
        if is_given:
            raise click.UsageError(f"{action} needs no {_option(name)}: the batch says it")
    if annotator is not None:
        raise click.UsageError(f"{action} needs no --as: the batch says it")


def _refuse_server(values: Mapping[str, Any]) -> None:
    """Refuse `--write-batch` without a model, or with options of a server, which is not called."""
    if not values["model"] or values["judge"] is not None:
        raise click.UsageError("--write-batch needs --model")
    for name in _SERVER_PARAMETERS:
        if values[name] is not None:
            raise click.UsageError(f"{_option(name)} is for a server: leave out --write-batch")


def _option(name: str) -> str:
    """Return the option of a parameter as it is typed, such as `--write-batch`."""
    return f"--{name.replace('_', '-')}"
