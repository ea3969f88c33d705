"""Render a comparison of rankers as one page, report.html, which needs no other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.lab.comparison import Comparison, published_rows, settings_rows
from store.report.html_page import Block, Picture, Section, Table, picture, render_page

if TYPE_CHECKING:
    import pandas as pd

_ALPHA = 0.05  # level of significance


def render(comparison: Comparison, command: str) -> str:
    """Render the page of a comparison; `command` is the command line that is shown on the page.

    Cost: a second or two to draw the pictures.
    """
    part_names = list(dict.fromkeys(comparison.figures["part"]))
    figures = Table(comparison.convention_line, comparison.head, comparison.rows())
    heads, rows = settings_rows(comparison.results, part_names)
    settings = Table("On each part, of those that were searched.", heads, rows, range(len(heads)))
    published: list[Block] = []
    if not comparison.published.empty:
        from_papers = Table("From the papers.", *published_rows(comparison.published))
        warning = "Only figures of one convention and protocol can be compared."
        published = [("text", warning), ("table", from_papers)]
    rows = [[cell.name, why] for cell, why in comparison.results.failed]
    failed = Table("A ranker on a part.", ["cell", "why"], rows, text=(0, 1))
    sections = [
        Section("Figures", [("table", figures), *(("text", note) for note in comparison.notes)]),
        Section("Published figures", published),
        Section("Is one better than another?", _differences(comparison)),
        Section("Settings chosen", [("table", settings)]),
        Section("Cells that failed", [("table", failed)] if rows else []),
        Section("Reproduce", [("code", command)]),
    ]
    return render_page(
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
        blocks.append(("table", Table(caption, ["ranker", *names], _matrix(by, names))))
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
    return picture(diagram, "critical difference diagram", caption)
