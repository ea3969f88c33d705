"""Run a comparison of rankers: compute missing results, measure all, print and write tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import progress, put, say, write_output
from cli.lab.comparison import Comparison, compare, published_rows
from cli.lab.work import results_of
from cli.options import command_line
from cli.printing.results import Result, Table, print_result, table_of_cells, write_csv_file
from sortnet.files import make_folder, rows_of
from sortnet.lab.cells import Cell

if TYPE_CHECKING:
    from sortnet.lab.summaries import Spread

FILES = ("results.csv", "summary.csv", "report.html")


def run_comparison(
    cells: Sequence[Cell],
    data: str,
    measures: list[str],
    convention: str,
    *,
    spread: Spread = "error",
    out: Path | None,
    as_json: bool,
    latex: bool,
    **how: Any,
) -> int:
    """Compute missing results, measure all results, print the summary and write the files.

    Args:
        cells: the cells of the comparison.
        data: path or name of the data.
        measures: names of the measures.
        convention: name of the convention of the figures.
        spread: the kind of spread beside a mean.
        out: folder for the files `FILES`; None to write none.
        as_json: whether the summary is printed as JSON.
        latex: whether the summary is printed as LaTeX.
        how: further arguments of `results_of`.

    Returns:
        1 if a cell failed, else 0.

    Raises:
        SortNetError: if the data cannot be used, or no cell has a result.
    """
    if latex and as_json:
        raise click.UsageError("--json and --latex both print the table: give one of them")
    with progress() as status:
        results = results_of(cells, status, **how)
        status("measuring")
        comparison = compare(results, measures, convention, data, spread)
    if out is not None:
        _write(comparison, out)
    if latex:
        from sortnet.lab.summaries import latex as as_latex

        put(as_latex(comparison.summary, caption=comparison.convention_line).rstrip())
    else:
        print_result(_result(comparison), as_json=as_json)
    if out is not None:
        say(f"written: {', '.join(str(out / name) for name in FILES)}")
    return 1 if results.failed else 0


def _text(comparison: Comparison) -> list[str | Table]:
    """List the printed parts: the summary, its notes, and published figures of the same data."""
    summary = table_of_cells(comparison.head, comparison.rows())
    text: list[str | Table] = [summary, comparison.convention_line, *comparison.notes]
    published = comparison.published
    comparable = published[published["convention"] == comparison.convention]
    other_conventions = sorted({convention for convention in published["convention"] if convention})
    if not comparable.empty:
        text += ["", "published figures of these data under this convention:"]
        text.append(table_of_cells(*published_rows(comparable)))
    elif other_conventions:
        text.append(f"published figures are of --convention {' or '.join(other_conventions)}")
    return text


def _write(comparison: Comparison, out: Path) -> None:
    """Write the figures and the summary as CSV files, and the page, to a folder."""
    from cli.lab.comparison_page import render

    make_folder(out)
    for name, frame in (("results.csv", comparison.figures), ("summary.csv", comparison.summary)):
        write_csv_file(frame, str(out / name))
    page = render(comparison, command_line(click.get_current_context()))
    write_output(str(out / "report.html"), lambda file: file.write(page))


def _result(comparison: Comparison) -> Result:
    """Make the result that is printed, as text and as JSON.

    In the text the notes stand between the summary and the published figures.
    """
    frames = {
        "summary": comparison.summary,
        "by_query": comparison.by_query,
        "by_part": comparison.by_part,
    }
    value = {
        "data": comparison.data,
        "measures": comparison.measures,
        **{name: rows_of(frame) for name, frame in frames.items()},
        "failed": [{"cell": cell.name, "why": why} for cell, why in comparison.results.failed],
    }
    notes = [comparison.convention_line, *comparison.notes]
    return Result("comparison", value, _text(comparison), notes, is_noted_in_text=True)
