"""Compare rankers: work out what the store does not have, measure it and report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.experiments.comparison import Comparison
from cli.experiments.outputs import report
from cli.experiments.work import Where, results_of
from cli.options import command_line
from cli.output import progress
from sortnet.experiments.cells import Cell

if TYPE_CHECKING:
    from sortnet.experiments.summaries import Spread


class Shown(NamedTuple):
    """How a comparison is shown: options of its commands."""

    out: Path | None
    as_json: bool
    latex: bool


def run_comparison(
    cells: Sequence[Cell],
    where: Where,
    shown: Shown,
    data: str,
    measures: list[str],
    convention: str,
    *,
    spread: Spread = "error",
) -> int:
    """Work out the cells and report; 1 if one failed, else 0.

    Args:
        cells: what is compared.
        where: they are worked out and kept.
        shown: how.
        data: what the page says of the data, and published figures are found by.
        measures, convention: of the figures.
        spread: what stands beside a mean.

    Raises:
        SortNetError: if the data cannot be used, or no cell has a result.
    """
    if shown.latex and shown.as_json:
        raise click.UsageError("--json and --latex both print the table: give one of them")
    command = command_line(click.get_current_context())
    with progress() as status:
        found = results_of(cells, where, status)
        status("measuring")
        made = Comparison.of(
            found, measures, convention, data=data, command=command,
            cache=where.cache, spread=spread,
        )  # fmt: skip
    report(made, shown.out, as_json=shown.as_json, latex=shown.latex)
    return 1 if found.failed else 0
