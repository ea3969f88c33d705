"""Files and pairs: LETOR text beside scikit-learn's reader, pairs in SQLite beside bare sqlite3.

Frames of pairs stand beside the time to read the pairs alone.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measuring import DATA, Row, alone, fastest, row, seconds_of, status
from sklearn.datasets import load_svmlight_file

from sortnet import read_letor
from sortnet.core import ComparedPairs, Queries
from store import Run, open_store

DOCS_A_QUERY = 120
# A frame's own: two int64, six int32, three masks, codes of split (int8) and query (int16).
BYTES_A_PAIR = 46


def run(quick: bool) -> list[Row]:
    """The rows of the files, then those of the pairs."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        return [*of_files(folder, quick), *of_pairs(folder, 20_000 if quick else 1_000_000)]


def of_files(folder: Path, quick: bool) -> list[Row]:
    """Time and memory on MQ2008 (where it is), on a made dense file and on a made sparse one."""
    small = make(folder / "small.txt", 50, 5)
    dense = make(folder / "dense.txt", 2_000 if quick else 180_000, 136)
    sparse = make(folder / "sparse.txt", 2_000 if quick else 60_000, 300, filled=0.2)
    files = {
        "MQ2008 Fold1 train": DATA / "mq2008" / "Fold1" / "train.txt",
        "made, 136 features": dense,
        "made, sparse, 300 features": sparse,
    }
    files = {what: path for what, path in files.items() if path.exists()}
    read_letor(small)  # compiles
    return [
        *(speed(what, path) for what, path in files.items()),
        *(memory(what, path, small) for what, path in files.items()),
    ]


def make(path: Path, rows: int, features: int, *, filled: float = 1.0) -> Path:
    """Write a file shaped like MSLR-WEB: counts, ratios and scores, 120 documents a query."""
    rng = np.random.default_rng(0)
    makers = (
        lambda: f"{rng.integers(0, 300)}",
        lambda: f"{rng.random():.6f}",
        lambda: f"{rng.normal() * 30:.6g}",
        lambda: f"{rng.random() * 1e-4:.6g}",
    )
    pool = [[makers[k % 4]() for k in range(features)] for _ in range(97)]
    with path.open("w") as file:
        for row in range(rows):
            values, shift = pool[row % 97], row // 97 % 4 * 4
            keep = rng.random(features) < filled if filled < 1 else np.ones(features, bool)
            pairs = (f"{k + 1}:{values[k - shift]}" for k in np.flatnonzero(keep))
            file.write(f"{row % 5} qid:{row // 120} {' '.join(pairs)}\n")
    return path


def speed(what: str, path: Path) -> Row:
    """Seconds of both readers."""

    def peer() -> Any:
        return load_svmlight_file(str(path), query_id=True, zero_based=False, dtype=np.float32)

    ours, theirs = fastest(lambda: read_letor(path), peer, rounds=3)
    megabytes = path.stat().st_size / 1e6
    return row(
        f"read LETOR text, {what}, {megabytes:.0f} MB (s)",
        ours,
        theirs,
        bar="ratio <= 0.4",
        note=f"{megabytes / ours:.0f} MB/s; peer: load_svmlight_file (leaves the table sparse)",
    )


def memory(what: str, path: Path, small: Path) -> Row:
    """The peak of reading a file above a process that has read a small one."""
    (peak, arrays), _ = alone(peak_of_reading, small, path)
    return row(
        f"peak memory of reading LETOR text, {what} (MiB)",
        peak / 2**20,
        arrays / 2**20,
        bar="ratio <= 2.0",
        note="peer: the arrays returned; ours: above a process that has read a small file",
    )


def peak_of_reading(small: Path, path: Path) -> tuple[int, int]:
    """Bytes by which reading a file raises the peak of this process, and bytes of its arrays."""
    read_letor(small)
    before = status("VmHWM")
    queries = read_letor(path)
    arrays = (queries.features, queries.grades, queries.offsets, queries.qids, queries.rows)
    return status("VmHWM") - before, sum(each.nbytes for each in arrays)


def of_pairs(folder: Path, n: int) -> list[Row]:
    """Seconds for new pairs, for the same again, and for reading them, also as a frame."""
    queries, pairs = problem(n)
    bare = seconds_of_bare_inserts(folder / "bare.db", queries, pairs)
    with open_store(folder / "ours.db") as store:
        run = start(store, queries)
        first, again, replayed = (
            seconds_of(partial(run.add, "train", number, pairs)) for number in (0, 1, 1)
        )
        reading = seconds_of(lambda: run.pairs("train"))
    (as_frame, peak), _ = alone(read_frame, folder / "ours.db")
    what, frame = f"{n:,} pairs to SQLite", f"{n:,} pairs from SQLite as a frame"
    raised = f"seconds; {bare / again:.2f} x the rate of bare executemany of new pairs"
    return [
        row(f"add {what}", first, bare, bar="ratio <= 2.5",
            note="seconds; peer: sqlite3.executemany in the key's order"),
        row(f"add {what} again, every count raised", again, first, bar="ratio <= 2", note=raised),
        row(f"add {what} again as a resumed run does", replayed, first,
            note="seconds; changes nothing"),
        row(f"read {n:,} pairs back", reading, note="seconds"),
        row(f"{frame}, seconds", as_frame, reading, note="peer: the pairs alone"),
        row(f"{frame}, memory", peak / 2**20, n * BYTES_A_PAIR / 2**20, bar="ratio <= 2",
            note="MiB, the process's peak over what it had before, beside the frame's own size"),
    ]  # fmt: skip


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


def seconds_of_bare_inserts(path: Path, queries: Queries, pairs: ComparedPairs) -> float:
    """Seconds of one executemany of ready tuples into a new store's table of pairs."""
    with open_store(path) as store:
        run = start(store, queries).number
    order = np.lexsort((pairs.j, pairs.i))
    columns = zip(pairs.i[order].tolist(), pairs.j[order].tolist(), strict=True)
    rows = [(run, "train", *column, 0, 0, 1, 0) for column in columns]
    connection = sqlite3.connect(path)
    sql = (
        "INSERT INTO pairs (run, split, winner, loser, first_iteration, last_wrong, times,"
        " first_wrong) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    )

    def insert() -> None:
        with connection:
            connection.executemany(sql, rows)

    spent = seconds_of(insert)
    connection.close()
    return spent


def read_frame(path: Path) -> tuple[float, int]:
    """Seconds to read all pairs as a frame, and bytes by which the peak of this process rises."""
    import pandas as pd  # noqa: F401  # its own megabytes are no pairs

    with open_store(path) as store:
        before = status("VmHWM")
        return seconds_of(store.run("last").pairs_frame), status("VmHWM") - before
