"""Pairs into the store: what SQLAlchemy, the checks and the counting cost over bare sqlite3."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.types import I64, Pairs, Queries
from store import Run, open_store

DOCS_A_QUERY = 120


def run(quick: bool) -> list[dict[str, Any]]:
    """Seconds for new pairs, for the same again, and for reading them."""
    n = 20_000 if quick else 1_000_000
    queries, pairs = problem(n)
    with tempfile.TemporaryDirectory() as folder:
        bare_sorted = bare(Path(folder) / "sorted.db", queries, pairs, in_key_order=True)
        bare_given = bare(Path(folder) / "given.db", queries, pairs, in_key_order=False)
        with open_store(Path(folder) / "ours.db") as store:
            ours = start(store, queries)
            first = seconds(lambda: expect(n, ours.add("train", 0, pairs)))
            again = seconds(lambda: expect(0, ours.add("train", 1, pairs)))
            replayed = seconds(lambda: expect(0, ours.add("train", 1, pairs)))
            reading = seconds(lambda: expect(n, len(ours.pairs("train"))))
    what = f"{n:,} pairs to SQLite"
    return [
        row(
            f"add {what}",
            first,
            bare_sorted,
            bare_sorted / first,
            ">= 0.4 x the rate of bare sqlite3.executemany",
            bare_sorted / first >= 0.4,
            f"seconds; executemany in the pairs' own order, not the key's: {bare_given:.2f}",
        ),
        row(
            f"add {what} again, every count raised",
            again,
            first,
            again / first,
            "<= 1 x the time of the first add",
            again <= first,
            f"seconds; {bare_sorted / again:.2f} x the rate of bare executemany of new pairs",
        ),
        row(
            f"add {what} again as a resumed run does",
            replayed,
            first,
            replayed / first,
            None,
            None,
            "seconds; changes nothing",
        ),
        row(f"read {what[:-10]} back", reading, None, None, None, None, "seconds"),
    ]


def problem(n: int) -> tuple[Queries, Pairs]:
    """As many pairs, each once and in no order, of queries of 120 documents."""
    rng = np.random.default_rng(0)
    n_queries = max(1, n // 150)
    codes = rng.choice(n_queries * DOCS_A_QUERY * (DOCS_A_QUERY - 1), n, replace=False)
    winner, place = np.divmod(codes, DOCS_A_QUERY - 1)
    start_of_query = winner // DOCS_A_QUERY * DOCS_A_QUERY
    place += place >= winner - start_of_query
    docs = np.zeros((n_queries * DOCS_A_QUERY, 1), np.float32)
    queries = Queries.from_arrays(docs, group=np.full(n_queries, DOCS_A_QUERY))
    return queries, Pairs(winner, start_of_query + place)


def start(store: Any, queries: Queries) -> Run:
    started: Run = store.start_run(
        command="bench", config={}, seed=0, versions={}, train=queries, vali=queries
    )
    return started


def bare(path: Path, queries: Queries, pairs: Pairs, *, in_key_order: bool) -> float:
    """Seconds of one executemany of ready tuples into a new store's table of pairs."""
    with open_store(path) as store:
        run = start(store, queries).number
    order = np.lexsort((pairs.loser, pairs.winner)) if in_key_order else slice(None)
    winner, loser = pairs.winner[order], pairs.loser[order]
    rows = rows_of(run, winner // DOCS_A_QUERY, winner, loser)
    connection = sqlite3.connect(path)
    sql = (
        "INSERT INTO pairs (run, split, query, winner, loser, first_iteration, last_iteration,"
        " times) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    )

    def insert() -> None:
        with connection:
            connection.executemany(sql, rows)

    spent = seconds(insert)
    connection.close()
    return spent


def rows_of(run: int, query: I64, winner: I64, loser: I64) -> list[tuple[Any, ...]]:
    columns = zip(query.tolist(), winner.tolist(), loser.tolist(), strict=True)
    return [(run, "train", *column, 0, 0, 1) for column in columns]


def seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def expect(expected: int, found: int) -> None:
    if found != expected:
        raise RuntimeError(f"expected {expected} pairs, found {found}")


def row(
    what: str,
    ours: float,
    peer: float | None,
    ratio: float | None,
    bar: str | None,
    ok: bool | None,
    note: str,
) -> dict[str, Any]:
    keys = ("what", "ours", "peer", "ratio", "bar", "ok", "note")
    return dict(zip(keys, (what, ours, peer, ratio, bar, ok, note), strict=True))


def main() -> None:
    for measured in run(quick=False):
        print({key: value for key, value in measured.items() if value is not None})


if __name__ == "__main__":
    main()
