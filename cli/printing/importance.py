"""Result of `sortnet importance`: how important the features of a model are."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cli.printing.results import Column, Result, Table
from sortnet.messages import printable

if TYPE_CHECKING:
    from store.report.feature_importance import FeatureImportance


def importance_result(importance: FeatureImportance, top: int) -> Result:
    """Make the result with a bar for each feature, and the conventions below the table.

    Args:
        importance: the importance of all features.
        top: number of features that the text shows; JSON has all features.
    """
    conventions = importance.conventions
    text = [*_text_blocks(importance, top), *conventions]
    value = {**importance.facts, "features": importance.rows}
    return Result("importance", value, text=text, notes=conventions, is_noted_in_text=True)


def _text_blocks(importance: FeatureImportance, top: int) -> list[str | Table]:
    """Write the measure, the table of the most important features, and how drops are measured."""
    facts = importance.facts
    rows = importance.rows
    measure = facts["metric"]
    repeats = facts["repeats"]
    top_rows = rows[:top]
    columns = [Column("feature", lambda row: printable(row["feature"]), cut="end")]
    for figure, title in _TITLES.items():
        if figure in top_rows[0]:
            columns.append(Column(title, partial(_figure, name=figure)))
    blocks: list[str | Table] = [
        f"{measure} {facts['quality']:.4f} on {facts['data']}",
        Table(columns, top_rows, bars=[row["mean"] for row in top_rows]),
    ]
    if len(rows) > top:
        blocks.append(f"{len(rows) - top} more: --top {len(rows)} shows all")
    times = "once" if repeats == 1 else f"{repeats} times"
    blocks.append(f"drop of {measure} where a feature is shuffled within its queries, {times}")
    return blocks


_TITLES = {"mean": "drop", "std": "std", "splits": "splits"}  # {figure: title of its column}


def _figure(row: dict[str, Any], name: str) -> str:
    """Write the figure with this name from the row of a feature."""
    return f"{row[name]:.4f}"
