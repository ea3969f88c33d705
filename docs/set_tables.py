"""Tables of the explanation of questions about sets: rows of the benchmark `sets`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from generate import benchmark_rows, provenance
from measurements import figure, paragraph, table, wrapped

Row = Mapping[str, Any]
PEERS = ("pairs", "setwise heapsort", "fours, naive", "fours, best alone")


def fours_by_calls() -> str:
    """NDCG@10 of fours beside each other way to ask, by judge and number of calls."""
    name = re.compile(r"dl19, (.+), NDCG@10 at (\d+) calls, against (.+)")
    rows = _rows_named(name)
    if not rows:
        return _not_measured()
    fours: dict[tuple[str, str], str] = {}
    peers: dict[tuple[str, str, str], str] = {}
    for match, row in rows:
        judge, calls, peer = match.groups()
        fours.setdefault((judge, calls), figure(row["ours"]))
        peers[judge, calls, peer] = _peer(row)
    columns = [peer for peer in PEERS if any(peer == named for _, _, named in peers)]
    lines = [
        [judge, calls, value, *(peers.get((judge, calls, peer), "") for peer in columns)]
        for (judge, calls), value in fours.items()
    ]
    return _table_with_source(("judge", "calls", "fours", *columns), lines, rows)


def fours_at_equal_cost() -> str:
    """NDCG@10 of pairs and of fours that cost as much, and the cost of a four at equal quality."""
    name = re.compile(r"dl19, (.+), NDCG@10 (?:for|in) the (.+) of (\d+) pairs, (.+)")
    equal = re.compile(r"dl19, (.+), as good as (\d+) pairs: .+")
    rows = _rows_named(name)
    if not rows:
        return _not_measured()
    pairs: dict[tuple[str, str], str] = {}
    fours: dict[tuple[str, str], dict[str, str]] = {}
    for match, row in rows:
        judge, cost, n_pairs, way = match.groups()
        factor = way.removeprefix("a four takes ")
        column = "prompt tokens" if cost == "prompt tokens" else f"{factor} the time"
        pairs[judge, n_pairs] = figure(row["peer"])
        fours.setdefault((judge, n_pairs), {})[column] = figure(row["ours"])
    break_even = {match.groups(): figure(row["ours"], 1) for match, row in _rows_named(equal)}
    columns = list(next(iter(fours.values())))
    lines = [
        [*key, value, *(fours[key].get(column, "") for column in columns), break_even.get(key, "")]
        for key, value in pairs.items()
    ]
    header = (
        "judge",
        "pairs for the same cost",
        "pairs",
        *(f"fours, {column}" for column in columns),
        "break-even",
    )
    return _table_with_source(header, lines, rows)


def _peer(row: Row) -> str:
    """The figure of a peer, and the mean difference of fours with its standard error."""
    gain = re.match(r"([+-])0?(\.\d+) ± 0?(\.\d+)", row["note"])
    value = figure(row["peer"])
    return f"{value} ({gain[1]}{gain[2]} ± {gain[3]})" if gain else value


def _rows_named(name: re.Pattern[str]) -> list[tuple[re.Match[str], Row]]:
    """The stored rows whose whole name matches, each with its match."""
    matches = [(name.fullmatch(row["what"]), row) for row in benchmark_rows("sets")]
    return [(match, row) for match, row in matches if match is not None]


def _table_with_source(
    header: Sequence[str], lines: list[list[str]], rows: list[tuple[re.Match[str], Row]]
) -> str:
    """A table, and a sentence on the queries and the source of its rows."""
    numbers = {int(n) for _, row in rows for n in re.findall(r"of (\d+) queries", row["note"])}
    means = ""
    if numbers:
        smallest, largest = min(numbers), max(numbers)
        means = f"Means of {smallest} queries. "
        if smallest < largest:
            means = f"Means of {smallest} to {largest} queries, as the rows of the benchmark say. "
    source = wrapped(f"{means}By {provenance([row for _, row in rows])}.")
    return f"\n{table(header, lines)}\n{source}\n\n"


def _not_measured() -> str:
    return paragraph("Not measured on this version yet: `make bench ARGS=sets`.")
