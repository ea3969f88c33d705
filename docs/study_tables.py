"""Tables of docs/how-to/studies.md, of the rows that `make bench ARGS=studies` stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from generate import benchmark_rows, provenance
from measurements import figure, paragraph, table, wrapped

Row = Mapping[str, Any]
COMMAND = "make bench ARGS=studies"


def study_figures() -> str:
    """A table of the figures of each study that was measured, and the names of the others."""
    rows = benchmark_rows("studies")
    if not rows:
        return paragraph(f"Not measured on this version yet: `{COMMAND}`.")
    lines = []
    for _, group in groupby(rows, key=lambda row: row["study"]):
        of_study = list(group)
        name, data = of_study[0]["study"], of_study[0]["data"]
        command = f"`{name}`" if data == "made data" else f"`{name} {data}`"
        cells = {row["note"].split(", ")[-2] for row in of_study}
        lines.append([command, study_text(of_study), " or ".join(sorted(cells))])
    text = table(("`sortnet experiment study`", "figures", "means of"), lines)
    return f"\n{text}\n{wrapped(f'By {provenance(rows)}, seed 0, size `small`.')}\n\n"


def study_text(rows: Sequence[Row]) -> str:
    """The figures of a study in a cell of a table, measure by measure."""
    parts = [
        _measure_text(measure, list(group))
        for measure, group in groupby(rows, key=lambda row: row["measure"])
    ]
    return ". ".join(parts)


def _measure_text(measure: str, rows: Sequence[Row]) -> str:
    """The figures of a measure: a list for each series where all have the same numbers across."""
    by_series = {
        series: list(group) for series, group in groupby(rows, key=lambda row: row["series"])
    }
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
        single = len({row["x"] for row in rows}) == 1
        text = f"{measure}: {', '.join(_named(row, single) for row in rows)}"
    errors = [row["error"] for row in rows if row["error"] is not None]
    return f"{text} (± {_number(max(errors), rows)} at most)" if errors else text


def _named(row: Row, single: bool) -> str:
    """A figure after its series, and after its place unless all have the same one."""
    place = "" if single or row["x"] is None else _place(row["x"])
    name = " at ".join(part for part in (row["series"], place) if part)
    return f"{name} {_value(row)}"


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
