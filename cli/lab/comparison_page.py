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


def render(made: Comparison, command: str) -> str:
    """The page; cost: a second or two to draw."""
    parts = list(dict.fromkeys(made.figures["part"]))
    return render_template(
        "experiment.html",
        title=f"Rankers on {Path(made.data).resolve().name}",
        about=f"{len(made.summary)} rankers on {len(parts)} parts of the data, each with the same "
        "budget for its settings, which the test parts did not choose.",
        said=made.said,
        figures=(made.head, made.rows()),
        notes=made.notes,
        published=None if made.published.empty else published_rows(made.published),
        pictures=_pictures(made),
        tests=[_test(made)],
        settings=settings_rows(made.found, parts),
        failed=[[cell.name, why] for cell, why in made.found.failed],
        command=command,
    )


def _pictures(made: Comparison) -> list[dict[str, str]]:
    from sortnet.lab import significance as tests
    from store.plots.comparisons import critical_difference_diagram, p_value_matrix

    names, measure = list(made.summary["ranker"]), made.measures[0]
    if len(names) < 2:
        return []
    found = [
        picture(
            f"Differences in {measure}, query by query",
            "p of a paired t-test over all queries, Holm's correction; the arrow points to the "
            "better one.",
            "matrix of p values",
            p_value_matrix(
                tests.as_matrix(made.by_query, names), names, list(made.summary[measure])
            ),
        )
    ]
    table = tests.by_part(made.figures, measure, names)
    if len(table) > 1 and len(names) > 2:
        result = tests.friedman(table)
        width = tests.critical_difference(len(names), len(table), _ALPHA)
        found.append(
            picture(
                f"Mean ranks in {measure} over {len(table)} parts",
                f"Friedman's p {result.p:.3g}; rankers under one bar do not differ by Nemenyi's "
                f"test at {_ALPHA:.0%}.",
                "critical difference diagram",
                critical_difference_diagram(list(result.mean_ranks), names, width),
            )
        )
    return found


def _test(made: Comparison) -> tuple[str, list[str], list[list[str]]]:
    """Each two rankers: both tests side by side."""
    both: pd.DataFrame = made.by_query.merge(made.by_part, on=["a", "b"], suffixes=("", "_part"))
    rows = [
        [
            f"{row['a']} - {row['b']}",
            f"{row['difference']:+.4f}",
            f"{row['p_holm']:.3f}",
            f"{row['difference_part']:+.4f}",
            f"{row['p_holm_part']:.3f}",
        ]
        for row in both.to_dict("records")
    ]
    head = ["rankers", "by query", "p", "by part", "p (Nadeau and Bengio)"]
    return f"Differences in {made.measures[0]}, with Holm's correction", head, rows
