"""Pairs as a frame: seconds and memory of reading them, beside pandas.read_sql."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import ComparedPairs, Queries
from store import open_store

DOCS_A_QUERY = 120
# The frame's own: two int64, six int32, three masks, codes of split (int8) and query (int16).
BYTES_A_PAIR = 46


def run(quick: bool) -> list[dict[str, Any]]:
    """Reading all pairs, and those of one query, each in a process of its own."""
    n = 50_000 if quick else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.db"
        # A process's peak begins with what its parent held: this one stays small.
        qid = apart(make, path, n)
        ours = apart(measured, read_ours, path, {})
        peer = apart(measured, read_peer, path, {}) if quick else None
        one = apart(measured, read_ours, path, {"qid": qid})
        often = apart(measured, read_ours, path, {"min_times": 2})
    what = f"{n:,} pairs from SQLite as a frame"
    copies = ours["peak"] / (ours["rows"] * BYTES_A_PAIR)
    seconds = ours["seconds"]
    rows = [
        row(f"{what}, seconds", seconds, None, None, "< 30 s", seconds < 30, "one thread"),
        row(
            f"{what}, memory",
            ours["peak"] / 2**20,
            ours["rows"] * BYTES_A_PAIR / 2**20,
            copies,
            None if quick else "< 2 x the frame",
            None if quick else copies < 2,
            "MiB, the process's peak over what it had before, beside the frame's own size",
        ),
        row(
            f"{what}, one query of it",
            one["seconds"],
            seconds,
            one["seconds"] / seconds,
            None,
            None,
            f"seconds; {one['rows']:,} pairs",
        ),
        row(
            f"{what}, those missed twice",
            often["seconds"],
            seconds,
            often["seconds"] / seconds,
            None,
            None,
            f"seconds; {often['rows']:,} pairs",
        ),
    ]
    if peer is not None:
        rows.append(
            row(
                f"{what}, beside pandas.read_sql of the table",
                seconds,
                peer["seconds"],
                seconds / peer["seconds"],
                None,
                None,
                "seconds; read_sql gives neither names nor places",
            )
        )
    return rows


def make(path: Path, n: int) -> str:
    """A store with that many pairs, a tenth of them missed twice; the name of a query."""
    winner, loser = np.nonzero(~np.eye(DOCS_A_QUERY, dtype=bool))
    n_queries = -(-n // len(winner))
    first = np.arange(n_queries)[:, None] * DOCS_A_QUERY
    better, worse = (first + winner).ravel()[:n], (first + loser).ravel()[:n]
    pairs = ComparedPairs.of(better, worse, margin=-1, answer=1).in_order()
    X = np.zeros((n_queries * DOCS_A_QUERY, 1), np.float32)
    queries = Queries.from_arrays(X, group=[DOCS_A_QUERY] * n_queries)
    with open_store(path) as store:
        new = store.start_run(
            command="bench", config={}, seed=0, versions={}, train=queries, vali=queries.take([])
        )
        new.add("train", 0, pairs)
        new.add("train", 1, pairs.where(slice(None, None, 10)))
    return str(queries.qids[n_queries // 2])


def read_ours(path: Path, filters: dict[str, Any]) -> int:
    with open_store(path) as store:
        return len(store.run("last").pairs_frame(**filters))


def read_peer(path: Path, filters: dict[str, Any]) -> int:
    import pandas as pd

    with open_store(path) as store, store.database.transaction() as connection:
        return len(pd.read_sql("SELECT * FROM pairs ORDER BY winner, loser", connection))


def apart(call: Callable[..., Any], *given: Any) -> Any:
    """What a call returns in a new process, whose memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(call, given)


def measured(
    read: Callable[[Path, dict[str, Any]], int], path: Path, filters: dict[str, Any]
) -> dict[str, float]:
    import pandas as pd  # noqa: F401  # its own megabytes are no pairs

    before = peak()
    started = time.perf_counter()
    rows = read(path, filters)
    return {"seconds": time.perf_counter() - started, "rows": rows, "peak": peak() - before}


def peak() -> int:
    """Bytes, the most that this process held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def row(
    what: str,
    ours: float,
    peer: float | None,
    ratio: float | None,
    bar: str | None,
    ok: bool | None,
    note: str,
) -> dict[str, Any]:
    return {
        "what": what, "ours": ours, "peer": peer, "ratio": ratio, "bar": bar, "ok": ok,
        "note": note,
    }  # fmt: skip


def main() -> None:
    for result in run(quick=False):
        print(result)


if __name__ == "__main__":
    main()
