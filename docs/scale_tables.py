"""Tables of docs/explanation/scale.md: of the rows of the benchmarks `scale` and `people_scale`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from generate import provenance
from measurements import figure, matched, not_measured, paragraph, table, wrapped

Row = Mapping[str, Any]
# Phases of the rows, as the page calls them, with how often they come.
PHASES = {
    "read text": "once; the cache is mapped",
    "fit the scaling": "a run",
    "scale": "a run",
    "sort and judge": "an iteration",
    "choose pairs": "an iteration",
    "store pairs": "an iteration",
    "an epoch": "an epoch",
}


def phase_costs() -> str:
    """CPU microseconds and bytes of a document in each phase, by the number of documents."""
    rows = matched("scale", r"scale, (\S+) documents, (.+): us a document")
    if not rows:
        return not_measured("scale")
    cells: dict[str, dict[float, str]] = {}
    sizes: set[float] = set()
    for match, row in rows:
        n_bytes = re.match(r"(\d+) bytes", row["note"])
        assert n_bytes is not None
        sizes.add(float(match[1]))
        text = f"{figure(row['ours'], 1)} ({int(n_bytes[1]):,})"
        cells.setdefault(match[2], {})[float(match[1])] = text
    ordered = sorted(sizes)
    lines = [
        [phase, often, *(cells[phase].get(size, "") for size in ordered)]
        for phase, often in PHASES.items()
        if phase in cells
    ]
    header = ["phase", "how often", *(f"{size:,.0f}" for size in ordered)]
    return f"\n{table(header, lines)}\n{_source(row for _, row in rows)}\n\n"


def process_times() -> str:
    """CPU seconds of a process, alone and of two, in each phase."""
    rows = matched("scale", r"scale, (\d+) queries, (.+): CPU s of a process, of 2 and alone")
    if not rows:
        return not_measured("scale")
    lines = []
    for match, row in rows:
        seconds = [f"{row[column]:.2f}" for column in ("peer", "ours")]
        lines.append([match[2], *seconds, figure(row["ratio"], 2)])
    header = ["phase", "one process, CPU s", "each of two, CPU s", "ratio"]
    return f"\n{table(header, lines)}\n{_source(row for _, row in rows)}\n\n"


def people_costs(of: str, names: Iterable[str]) -> str:
    """Some figures of `people_scale`, by the number of what they are `of`: items or judgements."""
    columns: dict[int, dict[str, float]] = {}
    sources = []
    for name in names:
        for match, row in matched("people_scale", rf"{re.escape(name)}, ([\d,]+) {of}"):
            smallest = re.fullmatch(rf"peer: ([\d,]+) {of}", row["note"])
            assert smallest is not None
            columns.setdefault(_number(smallest[1]), {})[name] = row["peer"]
            columns.setdefault(_number(match[1]), {})[name] = row["ours"]
            sources.append(row)
    if not sources:
        return not_measured("people_scale")
    sizes = sorted(columns)
    lines = [[name, *(_figure(columns[size].get(name)) for size in sizes)] for name in names]
    header = (f"number of {of}", *(f"{size:,}" for size in sizes))
    return f"\n{table(header, lines)}\n{_source(sources)}\n\n"


def label_memory() -> str:
    """Sentence on the peak memory of `sortnet label` of many items."""
    rows = matched("people_scale", r"peak memory of `sortnet label`, GB, ([\d,]+) items")
    if not rows:
        return not_measured("people_scale")
    match, row = rows[0]
    return paragraph(
        f"`sortnet label` of {match[1]} items {row['note']} takes {row['ours']:.2f} GB of memory "
        f"at most. {_source([row])}"
    )


def _figure(value: float | None) -> str:
    """A figure in about three digits."""
    if value is None:
        return ""
    if abs(value) < 10:
        return figure(value, 3 if abs(value) < 0.1 else 1)
    return f"{value:,.0f}"


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _source(rows: Iterable[Row]) -> str:
    return wrapped(f"By {provenance(rows)}.")
