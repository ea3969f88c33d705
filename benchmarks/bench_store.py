"""Pairs into the store: what SQLAlchemy and the texts of keys cost over bare sqlite3.

PostgreSQL stands beside SQLite; it is measured where its server is installed.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import I64, ComparedPairs, Queries
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
            first = seconds(lambda: ours.add("train", 0, pairs))
            again = seconds(lambda: ours.add("train", 1, pairs))
            replayed = seconds(lambda: ours.add("train", 1, pairs))
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
            "<= 2 x the time of the first add, which looks for no stored pair",
            again <= 2 * first,
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
        *server_rows(n, queries, pairs),
    ]


def server_rows(n: int, queries: Queries, pairs: ComparedPairs) -> list[dict[str, Any]]:
    """PostgreSQL beside SQLite, by turns: new pairs of a new run."""
    with tempfile.TemporaryDirectory() as folder, new_server() as server:
        urls = {"SQLite": f"sqlite:///{folder}/s.db", "PostgreSQL": server}
        if not server:
            return []
        spent: dict[str, list[float]] = {name: [] for name in urls}
        for _ in range(2):
            for name, url in urls.items():
                spent[name].append(of_new_run(url, queries, pairs))
    ours, peer = min(spent["PostgreSQL"]), min(spent["SQLite"])
    what = f"add {n:,} pairs to PostgreSQL"
    bar = ">= 0.3 x the rate of SQLite"
    return [row(what, ours, peer, peer / ours, bar, peer / ours >= 0.3, "seconds")]


@contextmanager
def new_server() -> Iterator[str]:
    """The URL of a new PostgreSQL server, as the tests start it; "" where none is installed."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from conftest import _binaries, _new_server

    if _binaries() is None:
        yield ""
        return
    with _new_server() as server:
        yield server.url


def of_new_run(url: str, queries: Queries, pairs: ComparedPairs) -> float:
    """Seconds to add all pairs to a new run."""
    with open_store(url) as store:
        run = start(store, queries)
        return seconds(lambda: run.add("train", 0, pairs))


def problem(n: int) -> tuple[Queries, ComparedPairs]:
    """As many pairs, each once and in no order, of queries of 120 documents."""
    rng = np.random.default_rng(0)
    n_queries = max(1, n // 150)
    codes = rng.choice(n_queries * DOCS_A_QUERY * (DOCS_A_QUERY - 1), n, replace=False)
    winner, place = np.divmod(codes, DOCS_A_QUERY - 1)
    start_of_query = winner // DOCS_A_QUERY * DOCS_A_QUERY
    place += place >= winner - start_of_query
    docs = np.zeros((n_queries * DOCS_A_QUERY, 1), np.float32)
    queries = Queries.from_arrays(docs, group=np.full(n_queries, DOCS_A_QUERY))
    loser = start_of_query + place
    return queries, ComparedPairs.of(winner, loser, margin=-1, answer=1).in_order()


def start(store: Any, queries: Queries) -> Run:
    started: Run = store.start_run(
        command="bench", config={}, seed=0, versions={}, train=queries, vali=queries
    )
    return started


def bare(path: Path, queries: Queries, pairs: ComparedPairs, *, in_key_order: bool) -> float:
    """Seconds of one executemany of ready tuples into a new store's table of pairs."""
    with open_store(path) as store:
        run = start(store, queries).number
    order = np.lexsort((pairs.j, pairs.i)) if in_key_order else slice(None)
    winner, loser = pairs.i[order], pairs.j[order]
    rows = rows_of(run, winner, loser)
    connection = sqlite3.connect(path)
    sql = (
        "INSERT INTO pairs (run, split, winner, loser, first_iteration, last_wrong, times,"
        " first_wrong) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    )

    def insert() -> None:
        with connection:
            connection.executemany(sql, rows)

    spent = seconds(insert)
    connection.close()
    return spent


def rows_of(run: int, winner: I64, loser: I64) -> list[tuple[Any, ...]]:
    columns = zip(winner.tolist(), loser.tolist(), strict=True)
    return [(run, "train", *column, 0, 0, 1, 0) for column in columns]


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
