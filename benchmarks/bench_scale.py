"""What each phase of an iteration costs a document: CPU seconds and bytes, by the number of them.

Queries of 120 made documents with 136 features, one thread; docs/explanation/scale.md says what
follows from the rows. Then what each of two processes takes, and one alone.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from sortnet.comparators import CmpNN
from sortnet.config import Config, Training
from sortnet.core import ComparedPairs, Queries
from sortnet.core.large_arrays import allocate
from sortnet.core.shard import sharded
from sortnet.data import read_queries
from sortnet.data.scaling import fit_scaler
from sortnet.learning.judges import judged_by_data
from sortnet.learning.pairs_to_ask import SortedPart, answered_pairs, select_pairs
from sortnet.learning.training import train_on_pairs
from sortnet.rankers.sortnet import fit
from sortnet.sorting.sort import order_of, sorted_runs
from sortnet.threads import set_threads
from store import open_store
from store.training.run_processes import joined

SIZE, FEATURES = 120, 136
Seconds = dict[str, tuple[float, float]]  # of CPU and of the clock, by phase


def made(n_queries: int) -> Queries:
    n, rng = n_queries * SIZE, np.random.default_rng(0)
    X, score = allocate((n, FEATURES)), np.empty(n)
    for start in range(0, n, 100_000):
        part = X[start : start + 100_000]
        part[:] = rng.standard_normal(part.shape, np.float32)
        score[start : start + 100_000] = part[:, 0] + part[:, 1] * part[:, 2] + part[:, 3] / 2
    grades = np.digitize(score, [0.5, 1.5, 2.5, 3.5]).astype(np.int32)
    qids = np.arange(n_queries).astype(str)
    return Queries(X, grades, np.arange(0, n + 1, SIZE), qids, np.arange(n))


@contextmanager
def measured(rows: list[dict[str, Any]], phase: str, n_docs: int) -> Iterator[None]:
    """A row of the CPU time and of the most memory that was no file's, for a document."""
    peak, stop, before = [0], threading.Event(), anonymous()

    def watch() -> None:
        while not stop.wait(0.01):
            peak[0] = max(peak[0], anonymous())

    thread, start = threading.Thread(target=watch), time.process_time()
    thread.start()
    try:
        yield
    finally:
        seconds = time.process_time() - start
        stop.set()
        thread.join()
    rows.append(
        {
            "what": f"scale, {n_docs:.0e} documents, {phase}: us a document",
            "ours": 1e6 * seconds / n_docs,
            "note": f"{max(0, peak[0] - before) / n_docs:.0f} bytes a document",
        }
    )


def anonymous() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("RssAnon:")[1].split()[0])


def phases(n_queries: int, folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    queries = made(n_queries)
    n = queries.n_docs

    def phase(name: str, work: Callable[[], Any]) -> Any:
        with measured(rows, name, n):
            return work()

    scaler = phase("fit the scaling", lambda: fit_scaler("query+rank", queries))
    scaled = phase("scale", lambda: scaler(queries))
    net = CmpNN(scaled.n_features, hidden=32, seed=0)
    order_of(net, scaled.take(np.arange(2)))  # compiles

    def sorted_and_judged() -> tuple[int, ComparedPairs]:
        made, wrong = 0, [ComparedPairs.empty()]
        for _, run in sorted_runs(net, scaled):
            judged = judged_by_data(scaled, run.compared)
            wrong.append(judged.where(judged.wrong).in_order())
            made += len(judged)
        return made, ComparedPairs.joined(wrong)

    comparisons, _ = phase("sort and judge", sorted_and_judged)
    part = SortedPart(scaled, net, None, np.random.default_rng(0), comparisons=comparisons)
    taken = phase(
        "choose pairs",
        lambda: answered_pairs(scaled, select_pairs("random", part)[0]),
    )
    with open_store(folder / f"{n_queries}.db") as store:
        run = store.start_run(
            command="", config={}, seed=0, versions={}, train=scaled, vali=scaled, data={}, out=None
        )
        phase("store pairs", lambda: run.add("train", 0, taken))
    how = Training(epochs=1, keep="loss")
    few = scaled.take(np.arange(2))
    nothing = ComparedPairs.empty()
    train_on_pairs(net, few, nothing, few, nothing, how)
    phase("an epoch", lambda: train_on_pairs(net, scaled, taken, few, nothing, how))
    rows[-1]["note"] += f", {len(taken):,} pairs"
    return rows


def reading(n_queries: int, folder: Path) -> list[dict[str, Any]]:
    """Reading text: of fewer documents, as it takes a kilobyte for each."""
    rows: list[dict[str, Any]] = []
    queries, file = made(n_queries), folder / "made.txt"
    query = queries.query_of_docs()
    with file.open("w") as out:
        for grade, of, x in zip(queries.grades, query, queries.features, strict=True):
            values = " ".join(f"{k}:{v:.4f}" for k, v in enumerate(x, 1))
            out.write(f"{grade} qid:{of} {values}\n")
    read_queries(file)  # compiles
    with measured(rows, "read text", queries.n_docs):
        read_queries(file)
    return rows


def processes(n_queries: int) -> list[dict[str, Any]]:
    """What each of two processes takes of the time of one; blocks are as many, pairs are all.

    Of a whole fit six times as many queries, and the pairs that the sorts compare.
    """
    (one,), two = (together(size, one_of, n_queries) for size in (1, 2))
    (whole,), wholes = (together(size, whole_fit, 6 * n_queries) for size in (1, 2))
    one |= whole
    for each, more in zip(two, wholes, strict=True):
        each |= more
    rows = []
    for phase in one:
        ours, peer = max(each[phase][0] for each in two), one[phase][0]
        clock = f"{max(each[phase][1] for each in two):.1f} and {one[phase][1]:.1f} s by the clock"
        rows.append(
            {
                "what": f"scale, {n_queries} queries, {phase}: CPU s of a process, of 2 and alone",
                **{"ours": ours, "peer": peer, "ratio": ours / peer, "note": clock},
            }
        )
    return rows


def together(size: int, work: Callable[..., Seconds], n_queries: int) -> list[Seconds]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ProcessPoolExecutor(size, get_context("spawn")) as pool:
        each = [pool.submit(work, rank, size, port, n_queries) for rank in range(size)]
        return [one.result() for one in each]


def whole_fit(rank: int, size: int, port: int, n_queries: int) -> Seconds:
    """Three iterations of ten epochs."""
    be_one_of(rank, size, port)
    train, vali = made(n_queries), made(max(n_queries // 12, 8))
    config = Config(quality="ndcg@10", scaling="query+rank", pairs="compared", max_iter=3)
    few = train.take(np.arange(9))
    fit(few, few, config.changed(epochs=1))  # compiles
    with joined() as group:
        cpu, clock = time.process_time(), time.perf_counter()
        fit(train, vali, config.changed(epochs=10), group=group)
        return {"a whole fit": (time.process_time() - cpu, time.perf_counter() - clock)}


def be_one_of(rank: int, size: int, port: int) -> None:
    torch.set_num_threads(1)
    set_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def one_of(rank: int, size: int, port: int, n_queries: int) -> Seconds:
    """CPU seconds of one of several processes by phase, and those of the clock."""
    be_one_of(rank, size, port)
    queries, net, seconds = made(n_queries), CmpNN(2 * FEATURES, hidden=32, seed=0), {}
    scaler = fit_scaler("query+rank", queries)
    few, how = scaler(queries.take(np.arange(9))), Training(epochs=2, keep="loss")
    order_of(net, few)  # compiles
    train_on_pairs(net, few, all_pairs(few), few, ComparedPairs.empty(), how)

    def phase(name: str, work: Callable[[], Any]) -> Any:
        cpu, clock = time.process_time(), time.perf_counter()
        result = work()
        seconds[name] = (time.process_time() - cpu, time.perf_counter() - clock)
        return result

    with joined() as group:
        part = phase("scale", lambda: scaler(sharded(queries, group)))
        runs = phase("sort", lambda: [run for _, run in sorted_runs(net, part)])
        phase("judge", lambda: [judged_by_data(part, run.compared) for run in runs])
        pairs, none = all_pairs(part), ComparedPairs.empty()
        phase("two epochs", lambda: train_on_pairs(net, part, pairs, part, none, how))
    return seconds


def all_pairs(queries: Queries) -> ComparedPairs:
    """Each pair of documents of a query that have different grades."""
    above, below = np.triu_indices(SIZE, 1)
    i, j = (np.add.outer(queries.offsets[:-1], each).ravel() for each in (above, below))
    better = queries.grades[i] - queries.grades[j]
    i, j, better = (each[better != 0] for each in (i, j, better))
    return ComparedPairs.of(i, j, answer=better > 0).in_order()


def run(quick: bool) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        sizes = (84,) if quick else (84, 840, 8400)
        rows = [row for n in sizes for row in phases(n, Path(folder))]
        rows = [*reading(84 if quick else 420, Path(folder)), *rows]
    return [*rows, *processes(84 if quick else 500)]


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
