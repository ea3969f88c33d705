"""Render a comparison of rankers as one page, report.html, which needs no other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.lab.comparison import Comparison, published_rows, settings_rows
from store.report.html_page import render_template
from store.report.svg import Picture, picture

if TYPE_CHECKING:
    import pandas as pd

_ALPHA = 0.05  # level of significance


def render(comparison: Comparison, command: str) -> str:
    """Render the page of a comparison; `command` is the command line that is shown on the page.

    Cost: a second or two to draw the pictures.
    """
    parts = list(dict.fromkeys(comparison.figures["part"]))
    return render_template(
        "experiment.html",
        title=f"Rankers on {Path(comparison.data).resolve().name}",
        about=f"{len(comparison.summary)} rankers on {len(parts)} parts of the data, each with the "
        "same budget for its settings, which the test parts did not choose.",
        said=comparison.convention_line,
        figures=(comparison.head, comparison.rows()),
        notes=comparison.notes,
        published=None if comparison.published.empty else published_rows(comparison.published),
        pictures=_pictures(comparison),
        tests=[_tests(comparison)],
        settings=settings_rows(comparison.results, parts),
        failed=[[cell.name, why] for cell, why in comparison.results.failed],
        command=command,
    )


def _pictures(comparison: Comparison) -> list[Picture]:
    """Draw the pictures of the differences between rankers.

    With two rankers or more there is a matrix of p values; with three rankers or more on several
    parts of the data also a critical difference diagram.
    """
    from sortnet.lab import significance as tests

    names = list(comparison.summary["ranker"])
    if len(names) < 2:
        return []
    pictures = [_p_value_picture(comparison, names)]
    table = tests.by_part(comparison.figures, comparison.measures[0], names)
    if len(table) > 1 and len(names) > 2:
        pictures.append(_mean_rank_picture(comparison, names, table))
    return pictures


def _p_value_picture(comparison: Comparison, names: Sequence[str]) -> Picture:
    """Draw the p values of the differences between each two rankers over all queries."""
    from sortnet.lab import significance as tests
    from store.plots.comparisons import p_value_matrix

    measure = comparison.measures[0]
    p_values = tests.as_matrix(comparison.by_query, names)
    means = list(comparison.summary[measure])
    caption = (
        "p of a paired t-test over all queries, Holm's correction; the arrow points to the "
        "better one."
    )
    title = f"Differences in {measure}, query by query"
    return picture(title, caption, "matrix of p values", p_value_matrix(p_values, names, means))


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
    from store.plots.comparisons import critical_difference_diagram

    result = tests.friedman(table)
    critical_difference = tests.critical_difference(len(names), len(table), _ALPHA)
    diagram = critical_difference_diagram(list(result.mean_ranks), names, critical_difference)
    title = f"Mean ranks in {comparison.measures[0]} over {len(table)} parts"
    caption = (
        f"Friedman's p {result.p:.3g}; rankers under one bar do not differ by Nemenyi's "
        f"test at {_ALPHA:.0%}."
    )
    return picture(title, caption, "critical difference diagram", diagram)


def _tests(comparison: Comparison) -> tuple[str, list[str], list[list[str]]]:
    """Make a table with the tests of the difference between each two rankers.

    Each row has a test over the queries, and a test over the parts of the data.

    Returns:
        The title, the names of the columns, and the rows.
    """
    both_tests: pd.DataFrame = comparison.by_query.merge(
        comparison.by_part, on=["a", "b"], suffixes=("", "_part")
    )
    rows = [
        [
            f"{row['a']} - {row['b']}",
            f"{row['difference']:+.4f}",
            f"{row['p_holm']:.3f}",
            f"{row['difference_part']:+.4f}",
            f"{row['p_holm_part']:.3f}",
        ]
        for row in both_tests.to_dict("records")
    ]
    head = ["rankers", "by query", "p", "by part", "p (Nadeau and Bengio)"]
    return f"Differences in {comparison.measures[0]}, with Holm's correction", head, rows
