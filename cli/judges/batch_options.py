"""Options of `sortnet label` for a provider's batch endpoint, which takes and returns files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cli.judges.judge_options import FIELDS, option_of
from cli.options import files, with_options

_ACTIONS = ("write_batch", "read_batch", "cancel_batch")
DEFAULT_SIZE = 100  # number of questions in a batch if --number is not given
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
# Options that are refused when a batch is written, because nothing is sent to a server.
_SERVER_PARAMETERS = ("server", "key")


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
    actions = [option_of(name) for name in _ACTIONS if values[name]]
    if not actions:
        return
    action = actions[0]
    if len(actions) > 1:
        raise click.UsageError(f"{action} and {actions[1]} cannot be combined")
    if values["place"] is not None:
        raise click.UsageError(f"--place is for people: leave out {action}")
    if values["dry_run"]:
        raise click.UsageError(f"--dry-run is for a judge that is asked: leave out {action}")
    if values["write_batch"] is None:
        _refuse_judge(values, action, annotator=annotator, number=number)
        return
    for name in _SERVER_PARAMETERS:
        if values[name]:
            raise click.UsageError(f"{option_of(name)} is for a server: leave out --write-batch")


def _refuse_judge(
    values: Mapping[str, Any], action: str, *, annotator: str | None, number: int | None
) -> None:
    """Refuse options of a judge for the action `--read-batch` or `--cancel-batch`.

    The batch has stored the values of these options when it was written.
    """
    needless = {option_of(name): values[name] for name in ("judge", *FIELDS)}
    for option, value in {**needless, "--as": annotator, "--number": number}.items():
        if value:
            raise click.UsageError(f"{action} needs no {option}: the batch says it")
