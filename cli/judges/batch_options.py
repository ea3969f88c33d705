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
