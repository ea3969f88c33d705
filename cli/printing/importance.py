"""Result of `sortnet importance`: how important the features of a model are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cli.printing.compared_documents import MOST_PARTS, part_name
from cli.printing.results import Column, Result, Table
from sortnet.messages import printable

if TYPE_CHECKING:
    from store.report.feature_importance import FeatureImportance


def importance_result(importance: FeatureImportance, top: int) -> Result:
    """Make the result with a bar for each feature, and the conventions below the table.

    Args:
        importance: the importance of all features.
        top: number of columns that the text shows; JSON has all columns and parts.
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
    shown_rows = _shown_rows(rows, top)
    columns = [Column("feature", _name, cut="end")]
    for figure, title in _TITLES.items():
        if figure in rows[0]:
            columns.append(Column(title, partial(_figure, name=figure)))
    blocks: list[str | Table] = [
        f"{measure} {facts['quality']:.4f} on {facts['data']}",
        Table(columns, shown_rows, bars=[row["mean"] for row in shown_rows]),
    ]
    n_columns = sum("of" not in row for row in rows)
    if n_columns > top:
        blocks.append(f"{n_columns - top} more: --top {n_columns} shows all")
    times = "once" if repeats == 1 else f"{repeats} times"
    blocks.append(f"drop of {measure} where a feature is shuffled within its queries, {times}")
    return blocks


def _shown_rows(rows: Sequence[Mapping[str, Any]], top: int) -> list[Mapping[str, Any]]:
    """Select the rows of the most important columns, each with those of its most important parts.

    Args:
        rows: a row for each column, with the rows of its parts below it.
        top: number of columns.
    """
    shown_rows = []
    n_columns = 0
    n_parts = 0  # of the last column
    for row in rows:
        is_part = "of" in row
        n_columns += not is_part
        n_parts = n_parts + 1 if is_part else 0
        if n_columns <= top and n_parts <= MOST_PARTS:
            shown_rows.append(row)
    return shown_rows


def _name(row: Mapping[str, Any]) -> str:
    """Write the name of a column, or indented the name of a part without that of its column."""
    if "of" in row:
        return part_name(row["feature"], row["of"])
    return printable(row["feature"])


_TITLES = {"mean": "drop", "std": "std", "splits": "splits"}  # {figure: title of its column}


def _figure(row: Mapping[str, Any], name: str) -> str:
    """Write the figure with this name from the row of a feature."""
    return f"{row[name]:.4f}"
