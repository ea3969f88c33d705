"""Pairs into the store: what SQLAlchemy, the checks and the counting cost over bare sqlite3.

PostgreSQL stands beside SQLite, with one writer and with four at once; it is measured where its
server is installed.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
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
        *server_rows(n, queries, pairs),
    ]


def server_rows(n: int, queries: Queries, pairs: ComparedPairs) -> list[dict[str, Any]]:
    """PostgreSQL beside SQLite, by turns: new pairs, by one writer and by four of one run."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, new_server() as server:
        urls = {"SQLite": f"sqlite:///{folder}/s.db", "PostgreSQL": server}
        for writers in (1, 4) if server else ():
            spent: dict[str, list[float]] = {name: [] for name in urls}
            for _ in range(2):
                for name, url in urls.items():
                    spent[name].append(of_writers(url, writers, queries, pairs))
            ours, peer = min(spent["PostgreSQL"]), min(spent["SQLite"])
            what = f"add {n:,} pairs to PostgreSQL, {writers} writer{'s' * (writers > 1)}"
            bar = ">= 0.5 x the rate of SQLite"
            rows.append(row(what, ours, peer, peer / ours, bar, peer / ours >= 0.5, "seconds"))
    return rows


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


def of_writers(url: str, writers: int, queries: Queries, pairs: ComparedPairs) -> float:
    """Seconds until all have added their share of the pairs, every n-th, to one new run."""
    with open_store(url) as store:
        run = start(store, queries).id
    context = get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(writers, mp_context=context) as pool:
        barrier = manager.Barrier(writers)
        shares = [pairs.where(slice(k, None, writers)) for k in range(writers)]
        tasks = [pool.submit(write_share, url, run, share, barrier) for share in shares]
        done = [task.result() for task in tasks]
    if [count for count, _, _ in done] != [len(share) for share in shares]:
        raise RuntimeError(f"the writers counted {done}")
    return max(end for _, _, end in done) - min(begin for _, begin, _ in done)


def write_share(
    url: str, run_id: str, share: ComparedPairs, barrier: Any
) -> tuple[int, float, float]:
    """How many pairs were new, and when this began and ended."""
    with open_store(url) as store:
        run = store.run(run_id)
        barrier.wait()
        begin = time.time()
        return run.add("train", 0, share), begin, time.time()


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
