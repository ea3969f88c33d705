"""Compare rankers: work out what the store does not have, measure it, print and write it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.console import progress, put, say, write_output
from cli.lab.comparison import Comparison, published_rows
from cli.lab.work import RunOptions, results_of
from cli.options import command_line
from cli.printing.results import Result, Table, print_result, table_of_cells
from sortnet.files import make_folder, rows_of
from sortnet.lab.cells import Cell

if TYPE_CHECKING:
    from sortnet.lab.summaries import Spread

FILES = ("results.csv", "summary.csv", "report.html")


class OutputOptions(NamedTuple):
    """How a comparison is shown: options of its commands."""

    out: Path | None
    as_json: bool
    latex: bool


def run_comparison(
    cells: Sequence[Cell],
    where: RunOptions,
    shown: OutputOptions,
    data: str,
    measures: list[str],
    convention: str,
    *,
    spread: Spread = "error",
) -> int:
    """Work out the cells, measure and report: print the summary, write the files that are wanted.

    Returns:
        1 if a cell failed, else 0.

    Raises:
        SortNetError: if the data cannot be used, or no cell has a result.
    """
    if shown.latex and shown.as_json:
        raise click.UsageError("--json and --latex both print the table: give one of them")
    with progress() as status:
        found = results_of(cells, where, status)
        status("measuring")
        made = Comparison(found, measures, convention, data, where.cache, spread)
    if shown.out is not None:
        _write(made, shown.out)
    if shown.latex:
        from sortnet.lab.summaries import latex

        put(latex(made.summary, caption=made.said).rstrip())
    else:
        print_result(_result(made), as_json=shown.as_json)
    if shown.out is not None:
        say(f"written: {', '.join(str(shown.out / name) for name in FILES)}")
    return 1 if found.failed else 0


def _text(made: Comparison) -> list[str | Table]:
    text: list[str | Table] = [table_of_cells(made.head, made.rows()), made.said, *made.notes]
    alike = made.published[made.published["convention"] == made.convention]
    if not alike.empty:
        text += ["", "published figures of these data under this convention:"]
        text.append(table_of_cells(*published_rows(alike)))
    elif others := sorted({c for c in made.published["convention"] if c}):
        text.append(f"published figures are of --convention {' or '.join(others)}")
    return text


def _write(made: Comparison, out: Path) -> None:
    from cli.lab.comparison_page import render

    make_folder(out)
    for name, frame in (("results.csv", made.figures), ("summary.csv", made.summary)):
        write_output(str(out / name), lambda file, f=frame: f.to_csv(file, index=False))  # type: ignore[misc]
    page = render(made, command_line(click.get_current_context()))
    write_output(str(out / "report.html"), lambda file: file.write(page))


def _result(made: Comparison) -> Result:
    """The table and its frames; the text has the notes, above published figures."""
    frames = {"summary": made.summary, "by_query": made.by_query, "by_part": made.by_part}
    about = {"data": made.data, "measures": made.measures}
    failed = [{"cell": cell.name, "why": why} for cell, why in made.found.failed]
    rows = {name: rows_of(frame) for name, frame in frames.items()}
    value = {**about, **rows, "failed": failed}
    notes = [made.said, *made.notes]
    return Result("comparison", value, _text(made), notes, is_noted_in_text=True)
