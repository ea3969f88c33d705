"""A comparison of rankers as one page, report.html, that opens without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli.lab.comparison import Comparison, published_rows, settings_rows
from store.report.html_page import render_template
from store.report.svg import picture

if TYPE_CHECKING:
    import pandas as pd

_ALPHA = 0.05


def render(comparison: Comparison, command: str) -> str:
    """The page of a comparison; `command` is the command that made it.

    Cost: a second or two to draw the pictures.
    """
    parts = list(dict.fromkeys(comparison.figures["part"]))
    return render_template(
        "experiment.html",
        title=f"Rankers on {Path(comparison.data).resolve().name}",
        about=f"{len(comparison.summary)} rankers on {len(parts)} parts of the data, each with the "
        "same budget for its settings, which the test parts did not choose.",
        said=comparison.said,
        figures=(comparison.head, comparison.rows()),
        notes=comparison.notes,
        published=None if comparison.published.empty else published_rows(comparison.published),
        pictures=_pictures(comparison),
        tests=[_tests(comparison)],
        settings=settings_rows(comparison.results, parts),
        failed=[[cell.name, why] for cell, why in comparison.results.failed],
        command=command,
    )


def _pictures(comparison: Comparison) -> list[dict[str, str]]:
    """Differences of two rankers or more; with several parts also their mean ranks."""
    from sortnet.lab import significance as tests
    from store.plots.comparisons import critical_difference_diagram, p_value_matrix

    names = list(comparison.summary["ranker"])
    measure = comparison.measures[0]
    if len(names) < 2:
        return []
    pictures = [
        picture(
            f"Differences in {measure}, query by query",
            "p of a paired t-test over all queries, Holm's correction; the arrow points to the "
            "better one.",
            "matrix of p values",
            p_value_matrix(
                tests.as_matrix(comparison.by_query, names),
                names,
                list(comparison.summary[measure]),
            ),
        )
    ]
    table = tests.by_part(comparison.figures, measure, names)
    if len(table) > 1 and len(names) > 2:
        result = tests.friedman(table)
        width = tests.critical_difference(len(names), len(table), _ALPHA)
        pictures.append(
            picture(
                f"Mean ranks in {measure} over {len(table)} parts",
                f"Friedman's p {result.p:.3g}; rankers under one bar do not differ by Nemenyi's "
                f"test at {_ALPHA:.0%}.",
                "critical difference diagram",
                critical_difference_diagram(list(result.mean_ranks), names, width),
            )
        )
    return pictures


def _tests(comparison: Comparison) -> tuple[str, list[str], list[list[str]]]:
    """A title, and a table of each two rankers with both tests side by side."""
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
