"""Tables of docs/benchmarks-papers.md, of the rows that `make bench ARGS=studies` stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from generate import benchmark_rows, provenance
from measurements import figure, paragraph, table

from sortnet.lab.studies import STUDIES

Row = Mapping[str, Any]
COMMAND = "make bench ARGS=studies"
# What the papers say, where it is a statement that figures can be compared with.
PAPERS = {
    "rank-quality": "the measure that is RankQuality gains",
    "convergence": "before the last iteration",
    "classes": "falls",
    "features": "grows",
    "noise": "above .80 at .75",
    "training-size": "RankNet\\* needs the fewest",
    "label-ratio": "RankNet\\* is ahead with few upper grades",
    "optimiser-activation": "a difference by the optimiser",
    "runtime": "RankNet\\* is quick, AdaRank the quickest",
    "neighbours": "peaks where the grades change, weaker ones of two grades",
    "order": "documents move by 1 to 5 places of 1,000",
}


def study_figures() -> str:
    """A table of all studies: what the papers say, and the figures that were measured."""
    rows = benchmark_rows("studies")
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row["study"], []).append(row)
    lines = []
    for name in STUDIES:
        of_study = by_name.get(name, [])
        lines.append([_command(name, of_study), PAPERS.get(name, ""), study_text(of_study)])
    text = table(("`sortnet experiment study`", "in the paper", "here"), lines)
    missing = [f"`{name}`" for name in STUDIES if name not in by_name]
    source = f"By {provenance(rows)}, seed 0, size `small`." if rows else ""
    if missing:
        source += f" Not measured on this version yet: {', '.join(missing)} (`{COMMAND}`)."
    return f"\n{text}{paragraph(source.strip())}"


def _command(name: str, rows: Sequence[Row]) -> str:
    """The name of a study, with its data unless they are made."""
    data = rows[0]["data"] if rows else "made data"
    return f"`{name}`" if data == "made data" else f"`{name} {data}`"


def study_text(rows: Sequence[Row]) -> str:
    """The figures of a study in a cell of a table, measure by measure."""
    by_measure: dict[str, list[Row]] = {}
    for row in rows:
        by_measure.setdefault(row["measure"], []).append(row)
    parts = [_measure_text(measure, of_measure) for measure, of_measure in by_measure.items()]
    return ". ".join(parts).replace("*", "\\*").replace("|", "\\|")


def _measure_text(measure: str, rows: Sequence[Row]) -> str:
    """The figures of a measure: a list for each series where all have the same numbers across."""
    by_series: dict[str, list[Row]] = {}
    for row in rows:
        by_series.setdefault(row["series"], []).append(row)
    places = [[row["x"] for row in of_series] for of_series in by_series.values()]
    are_numbers = all(isinstance(x, int | float) for xs in places for x in xs)
    if are_numbers and all(xs == places[0] for xs in places):
        across = ", ".join(_place(x) for x in places[0])
        lists = [
            f"{series} {', '.join(_value(row) for row in of_series)}".strip()
            for series, of_series in by_series.items()
        ]
        text = f"{measure} at {across}: {'; '.join(lists)}"
    else:
        text = f"{measure}: {'; '.join(map(_named, by_series.values()))}"
    errors = [row["error"] for row in rows if row["error"] is not None]
    return f"{text} (± {_number(max(errors), rows)} at most)" if errors else text


def _named(rows: Sequence[Row]) -> str:
    """The figures of a series, each after its place where there are several."""
    series = rows[0]["series"]
    if len(rows) == 1:
        return f"{series} {_value(rows[0])}".strip()
    figures = ", ".join(f"{_place(row['x'])} {_value(row)}" for row in rows)
    return f"{series}: {figures}" if series else figures


def _value(row: Row) -> str:
    return _number(row["ours"], [row])


def _number(value: float, rows: Sequence[Row]) -> str:
    """A number in three digits after the point, or fewer where the figures are large.

    >>> _number(0.5, [{"ours": 0.4}]), _number(16.25, [{"ours": 20.0}])
    ('.500', '16.2')
    """
    largest = max(abs(row["ours"]) for row in rows)
    if largest <= 1:
        return figure(value)
    return f"{value:.1f}" if largest < 100 else f"{value:,.0f}"


def _place(x: Any) -> str:
    """A place across: a name, or a number in three digits.

    >>> _place(10000), _place(0.25), _place("tanh"), _place(2.0)
    ('10,000', '.25', 'tanh', '2')
    """
    if isinstance(x, str):
        return x
    return f"{x:,.0f}" if x == int(x) else figure(float(f"{x:.2g}"), 6).rstrip("0")
