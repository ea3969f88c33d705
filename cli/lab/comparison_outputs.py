"""Run a comparison of rankers, print its tables, and write its tables and its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import progress, put, say, write_output
from cli.lab.comparison import Comparison, compare, published_rows, settings_rows
from cli.lab.work import results_of
from cli.options import command_line
from cli.printing.results import Result, Table, print_result, table_of_cells, write_csv_file
from sortnet.files import make_folder, rows_of
from sortnet.lab.cells import Cell
from sortnet.lab.summaries import Spread, latex
from store.report import html_page
from store.report.html_page import Block, Picture, Section

if TYPE_CHECKING:
    import pandas as pd

FILES = ("results.csv", "summary.csv", "report.html")
_ALPHA = 0.05  # level of significance


def run_comparison(
    cells: Sequence[Cell],
    data: str,
    measures: list[str],
    convention: str,
    *,
    spread: Spread = "error",
    out: Path | None,
    as_json: bool,
    as_latex: bool,
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
        as_latex: whether the summary is printed as LaTeX.
        how: further arguments of `results_of`.

    Returns:
        1 if a cell failed, else 0.

    Raises:
        SortNetError: if the data cannot be used, or no cell has a result.
    """
    if as_latex and as_json:
        raise click.UsageError("--json and --latex both print the table: give one of them")
    with progress() as status:
        results = results_of(cells, status, **how)
        status("measuring")
        comparison = compare(results, measures, convention, data, spread)
    if out is not None:
        _write(comparison, out)
    if as_latex:
        put(latex(comparison.summary, caption=comparison.convention_line).rstrip())
    else:
        print_result(_printed(comparison), as_json=as_json)
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
    make_folder(out)
    for name, frame in (("results.csv", comparison.figures), ("summary.csv", comparison.summary)):
        write_csv_file(frame, str(out / name))
    page = _render(comparison, command_line(click.get_current_context()))
    write_output(str(out / "report.html"), lambda file: file.write(page))


def _printed(comparison: Comparison) -> Result:
    """Make the result that is printed, as text and as JSON.

    In the text the notes stand between the summary and the published figures.
    """
    value = {
        "data": comparison.data,
        "measures": comparison.measures,
        "summary": rows_of(comparison.summary),
        "by_query": rows_of(comparison.by_query),
        "by_part": rows_of(comparison.by_part),
        "failed": [{"cell": cell.name, "why": why} for cell, why in comparison.results.failed],
    }
    notes = [comparison.convention_line, *comparison.notes]
    return Result("comparison", value, _text(comparison), notes, is_noted_in_text=True)


def _render(comparison: Comparison, command: str) -> str:
    """Render the page of a comparison; `command` is the command line that is shown on the page.

    Cost: a second or two to draw the pictures.
    """
    part_names = list(dict.fromkeys(comparison.figures["part"]))
    figures = html_page.Table(comparison.convention_line, comparison.head, comparison.rows())
    heads, rows = settings_rows(comparison.results, part_names)
    settings = html_page.Table(
        "On each part, of those that were searched.", heads, rows, range(len(heads))
    )
    published: list[Block] = []
    if not comparison.published.empty:
        from_papers = html_page.Table("From the papers.", *published_rows(comparison.published))
        warning = "Only figures of one convention and protocol can be compared."
        published = [("text", warning), ("table", from_papers)]
    rows = [[cell.name, why] for cell, why in comparison.results.failed]
    failed = html_page.Table("A ranker on a part.", ["cell", "why"], rows, text=(0, 1))
    sections = [
        Section("Figures", [("table", figures), *(("text", note) for note in comparison.notes)]),
        Section("Published figures", published),
        Section("Is one better than another?", _differences(comparison)),
        Section("Settings chosen", [("table", settings)]),
        Section("Cells that failed", [("table", failed)] if rows else []),
        Section("Reproduce", [("code", command)]),
    ]
    return html_page.render_page(
        f"Rankers on {Path(comparison.data).resolve().name}",
        sections,
        about=f"{len(comparison.summary)} rankers on {len(part_names)} parts of the data, each "
        "with the same budget for its settings, which the test parts did not choose.",
    )


def _differences(comparison: Comparison) -> list[Block]:
    """Show the differences between each two rankers: tables of tests, and a picture of mean ranks.

    The picture needs three rankers or more on several parts of the data.
    """
    from sortnet.lab import significance as tests

    names = list(comparison.summary["ranker"])
    if len(names) < 2:
        return []
    measure = comparison.measures[0]
    blocks: list[Block] = []
    for test, by in (
        ("a paired t-test over all queries", comparison.by_query),
        ("Nadeau and Bengio's test over the parts", comparison.by_part),
    ):
        caption = (
            f"Difference in {measure}, row minus column, and p of {test} with Holm's correction; a "
            f"star marks p < {_ALPHA:g}."
        )
        blocks.append(("table", html_page.Table(caption, ["ranker", *names], _matrix(by, names))))
    table = tests.by_part(comparison.figures, measure, names)
    if len(table) > 1 and len(names) > 2:
        blocks.append(("pictures", [_mean_rank_picture(comparison, names, table)]))
    return blocks


def _matrix(tests: pd.DataFrame, names: Sequence[str]) -> list[list[str]]:
    """Arrange tests of each two rankers as a row for each ranker and a column for each ranker."""
    cells = {(name, name): "" for name in names}
    for row in tests.to_dict("records"):
        star = "*" if row["p_holm"] < _ALPHA else ""
        for pair, sign in (((row["a"], row["b"]), 1), ((row["b"], row["a"]), -1)):
            cells[pair] = f"{sign * row['difference']:+.4f}{star} ({row['p_holm']:.3f})"
    return [[name, *(cells[name, column] for column in names)] for name in names]


def _mean_rank_picture(
    comparison: Comparison, names: Sequence[str], table: pd.DataFrame
) -> Picture:
    """Draw the mean ranks of the rankers over the parts of the data.

    Args:
        comparison: the comparison.
        names: names of the rankers.
        table: the measure of each ranker on each part, with a row for each part.
    """
    from sortnet.lab import significance as tests
    from store.plots.figures import critical_difference_diagram

    result = tests.friedman(table)
    critical_difference = tests.critical_difference(len(names), len(table), _ALPHA)
    diagram = critical_difference_diagram(list(result.mean_ranks), names, critical_difference)
    caption = (
        f"Mean ranks in {comparison.measures[0]} over {len(table)} parts. Friedman's p "
        f"{result.p:.3g}; rankers at one bar do not differ by Nemenyi's test at {_ALPHA:.0%}."
    )
    return html_page.picture(diagram, "critical difference diagram", caption)
