"""Large data: what each phase costs a document, two processes beside one, and whole runs.

Documents of `made_tables.graded`, 120 a query with 136 features, one thread;
docs/explanation/scale.md says what follows from the rows. Whole runs with the defaults, each in a
process of its own: 2 million documents with pairs in SQLite, and data of MSLR-WEB10K's shape
(`made_tables.mslr_shape`) beside LightGBM.
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

import lightgbm
import numpy as np
import torch
from made_tables import MSLR_FEATURES, MSLR_SIZE, all_pairs, graded, mslr_shape
from measuring import Row, alone, ndcg, order_of, row, status

from sortnet.comparators import CmpNN
from sortnet.config import Config, Training
from sortnet.core import ComparedPairs
from sortnet.core.shard import own_queries
from sortnet.data import read_queries
from sortnet.data.scaling import fit_scaler
from sortnet.learning.iterations import Iteration
from sortnet.learning.judges import judged_by_data
from sortnet.learning.pairs_to_ask import SortedPart, answered_pairs, select_pairs
from sortnet.learning.training import train_on_pairs
from sortnet.rankers.sortnet import fit
from sortnet.sorting.sort import order_of as sorted_order
from sortnet.sorting.sort import sorted_runs
from sortnet.threads import set_threads
from store import open_store
from store.training.training_run import joined

Seconds = dict[str, tuple[float, float]]  # of CPU and of the clock, by phase


def run(quick: bool) -> list[Row]:
    """The rows of the phases, of the processes and of the whole runs."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        rows = reading(84 if quick else 420, Path(folder))
        for n_queries in (84,) if quick else (84, 840, 8400):
            rows += phases(n_queries, Path(folder))
    return [*rows, *processes(20 if quick else 500), *large_run(quick), *mslr(quick)]


@contextmanager
def measured(rows: list[Row], phase: str, n_docs: int) -> Iterator[None]:
    """A row of the CPU time and of the most memory that was no file's, for a document."""
    peak, stop, before = [0], threading.Event(), status("RssAnon")

    def watch() -> None:
        while not stop.wait(0.01):
            peak[0] = max(peak[0], status("RssAnon"))

    thread, start = threading.Thread(target=watch), time.process_time()
    thread.start()
    try:
        yield
    finally:
        seconds = time.process_time() - start
        stop.set()
        thread.join()
    note = f"{max(0, peak[0] - before) / n_docs:.0f} bytes a document"
    what = f"scale, {n_docs:.0e} documents, {phase}: us a document"
    rows.append(row(what, 1e6 * seconds / n_docs, note=note))


def phases(n_queries: int, folder: Path) -> list[Row]:
    """A row for each phase of an iteration."""
    rows: list[Row] = []
    queries = graded(n_queries)

    def phase(name: str, work: Callable[[], Any]) -> Any:
        with measured(rows, name, queries.n_docs):
            return work()

    scaler = phase("fit the scaling", lambda: fit_scaler("query+rank", queries))
    scaled = phase("scale", lambda: scaler(queries))
    net = CmpNN(scaled.n_features, hidden=32, seed=0)
    sorted_order(net, scaled.take(np.arange(2)))  # compiles

    def sorted_and_judged() -> tuple[int, ComparedPairs]:
        made, wrong = 0, [ComparedPairs.empty()]
        for _, run in sorted_runs(net, scaled):
            judged = judged_by_data(scaled, run.compared)
            wrong.append(judged.where(judged.wrong).in_order())
            made += len(judged)
        return made, ComparedPairs.joined(wrong)

    comparisons, _ = phase("sort and judge", sorted_and_judged)
    part = SortedPart(scaled, net, None, np.random.default_rng(0), comparisons=comparisons)
    taken = phase("choose pairs", lambda: answered_pairs(scaled, select_pairs("random", part)[0]))
    with open_store(folder / f"{n_queries}.db") as store:
        run = store.start_run(
            command="", config={}, seed=0, versions={}, train=scaled, vali=scaled, data={}, out=None
        )
        phase("store pairs", lambda: run.add("train", 0, taken))
    how = Training(epochs=1, keep="loss")
    few, nothing = scaled.take(np.arange(2)), ComparedPairs.empty()
    train_on_pairs(net, few, nothing, few, nothing, how)  # compiles
    phase("an epoch", lambda: train_on_pairs(net, scaled, taken, few, nothing, how))
    rows[-1]["note"] += f", {len(taken):,} pairs"
    return rows


def reading(n_queries: int, folder: Path) -> list[Row]:
    """The row of reading text: of fewer documents, as it takes a kilobyte for each."""
    rows: list[Row] = []
    queries, file = graded(n_queries), folder / "made.txt"
    with file.open("w") as out:
        for grade, query, x in zip(
            queries.grades, queries.query_of_docs(), queries.features, strict=True
        ):
            values = " ".join(f"{k}:{v:.4f}" for k, v in enumerate(x, 1))
            out.write(f"{grade} qid:{query} {values}\n")
    read_queries(file)  # compiles
    with measured(rows, "read text", queries.n_docs):
        read_queries(file)
    return rows


def processes(n_queries: int) -> list[Row]:
    """What each of two processes takes of the time of one."""
    (one,), two = (together(size, n_queries) for size in (1, 2))
    rows = []
    for phase, (cpu, clock) in one.items():
        ours, ours_by_clock = np.max([each[phase] for each in two], axis=0)
        note = f"{ours_by_clock:.1f} and {clock:.1f} s by the clock"
        what = f"scale, {n_queries} queries, {phase}: CPU s of a process, of 2 and alone"
        rows.append(row(what, ours, cpu, note=note))
    return rows


def together(size: int, n_queries: int) -> list[Seconds]:
    """Seconds of each of some processes that work together."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ProcessPoolExecutor(size, get_context("spawn")) as pool:
        each = [pool.submit(one_of, rank, size, port, n_queries) for rank in range(size)]
        return [one.result() for one in each]


def one_of(rank: int, size: int, port: int, n_queries: int) -> Seconds:
    """CPU seconds of one of several processes by phase, and those of the clock.

    Blocks are as many for each number of processes, and pairs are all. A whole fit, of three
    iterations of ten epochs, has six times as many queries, and the pairs that the sorts compare.
    """
    torch.set_num_threads(1)
    set_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    queries, seconds = graded(n_queries), {}
    net = CmpNN(2 * queries.n_features, hidden=32, seed=0)
    scaler = fit_scaler("query+rank", queries)
    few, how = scaler(queries.take(np.arange(9))), Training(epochs=2, keep="loss")
    none = ComparedPairs.empty()
    train, vali = graded(6 * n_queries), graded(max(n_queries // 2, 8))
    config = Config(quality="ndcg@10", scaling="query+rank", pairs="compared", max_iter=3)
    sorted_order(net, few)  # compiles
    train_on_pairs(net, few, all_pairs(few), few, none, how)
    fit(few, few, config.changed(epochs=1))

    def phase(name: str, work: Callable[[], Any]) -> Any:
        cpu, clock = time.process_time(), time.perf_counter()
        result = work()
        seconds[name] = (time.process_time() - cpu, time.perf_counter() - clock)
        return result

    with joined() as group:
        part = phase("scale", lambda: scaler(queries))
        among = own_queries(group, part.sizes)
        runs = phase("sort", lambda: [run for _, run in sorted_runs(net, part, among=among)])
        phase("judge", lambda: [judged_by_data(part, run.compared) for run in runs])
        pairs = all_pairs(part)
        phase(
            "two epochs",
            lambda: train_on_pairs(net, part, pairs, part, none, how, group=group),
        )
        phase("a whole fit", lambda: fit(train, vali, config.changed(epochs=10), group=group))
    return seconds


def large_run(quick: bool) -> list[Row]:
    """Memory, the store and the share of sorting of a run on 2 million documents."""
    n_queries = 40 if quick else 20_000
    (iterations, store_bytes), gb = alone(stored_fit, n_queries)
    sorting = sum(record.seconds_sort for record in iterations)
    seconds = sorting + sum(record.seconds_train for record in iterations)
    last = iterations[-1]
    name = f"{n_queries * 100:,} documents"
    pairs = f"{last.tp:,} pairs of T and {last.vp:,} of V"
    share = f"{name}: share of sorting, judging and storing in the time"
    note = f"of {seconds:.0f} s; NDCG@10 {last.quality:.4f} after {len(iterations)} sorts"
    return [
        row(f"{name}: peak memory of a run, GB", gb, bar="ours <= 6",
            note="the process's, data and libraries included"),
        row(f"{name}: size of the store, MB", store_bytes / 1e6, note=pairs),
        row(share, sorting / seconds, bar="ours <= 0.2", note=note),
    ]  # fmt: skip


def stored_fit(n_queries: int) -> tuple[list[Iteration], int]:
    """The iterations of a run whose pairs are stored, and the size of the store."""
    train, vali = graded(n_queries, 100, 10), graded(n_queries // 10, 100, 10, seed=1)
    iterations: list[Iteration] = []
    with TemporaryDirectory() as folder, open_store(Path(folder) / "runs.db") as store:
        run = store.start_run(
            command="", config={}, seed=0, versions={}, train=train, vali=vali, data={}, out=None
        )
        config = Config(quality="ndcg@10")
        keep = [lambda record, state: iterations.append(record)]
        fit(train, vali, config, sink=run, callbacks=keep)
        return iterations, sum(file.stat().st_size for file in Path(folder).iterdir())


def mslr(quick: bool) -> list[Row]:
    """An iteration, its memory, and a whole run beside LightGBM."""
    n = 90 if quick else 6000
    (seconds, pairs), gb = alone(one_iteration, n)
    (ours, quality, note), our_gb = alone(whole_run, n)
    (theirs, peer_quality, peer_note), peer_gb = alone(lightgbm_run, n)
    shape = f"{n:,} x {MSLR_SIZE} x {MSLR_FEATURES}"
    included = "the process's, data and libraries included"
    whole = f"{shape}: seconds of a whole run, defaults / LightGBM, 500 trees of 31 leaves"
    return [
        row(f"{shape}: seconds of an iteration (sort all, train one epoch)", seconds,
            bar="ours <= 60", note=f"{pairs:,} pairs"),
        row(f"{shape}: peak memory of that, GB", gb, bar="ours <= 3", note=included),
        row(whole, ours, theirs, bar="ratio <= 0.4", note=f"{note} / {peer_note}"),
        row(f"{shape}: test NDCG@10 of that / LightGBM's", quality, peer_quality,
            bar="ours >= 0.633"),
        row(f"{shape}: peak memory of that, GB / LightGBM's", our_gb, peer_gb, bar="ours <= 2",
            note=included),
    ]  # fmt: skip


def one_iteration(n_queries: int) -> tuple[float, int]:
    """Seconds to sort everything and to train one epoch, and the number of pairs."""
    train, vali = mslr_shape(n_queries, 0), mslr_shape(n_queries // 3, 2)
    config = Config(max_iter=2, quality="ndcg@10", scaling="query+rank").changed(epochs=1)
    iterations: list[Iteration] = []
    fit(train, vali, config, callbacks=[lambda record, state: iterations.append(record)])
    return iterations[0].seconds_sort + iterations[0].seconds_train, iterations[0].tp


def whole_run(n_queries: int) -> tuple[float, float, str]:
    """Seconds and test NDCG@10 with the defaults, and a note."""
    train, vali, test = (mslr_shape(n, seed) for n, seed in mslr_parts(n_queries))
    start, cpu = time.perf_counter(), time.process_time()
    model = fit(train, vali, Config(quality="ndcg@10"))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    note = f"{model.info['iterations']} sorts; CPU s {cpu:.0f}"
    return seconds, ndcg(test, model.order(test)), note


def lightgbm_run(n_queries: int) -> tuple[float, float, str]:
    train, _, test = (mslr_shape(n, seed) for n, seed in mslr_parts(n_queries))
    start, cpu = time.perf_counter(), time.process_time()
    model = lightgbm.LGBMRanker(
        n_estimators=500, num_leaves=31, random_state=0, n_jobs=2, verbose=-1
    )
    model.fit(train.features, train.grades, group=train.sizes)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return seconds, ndcg(test, order_of(model.predict(test.features), test)), f"{cpu:.0f}"


def mslr_parts(n_queries: int) -> list[tuple[int, int]]:
    """Number of queries and seed of the training, validation and test part."""
    return [(n_queries, 0), (n_queries // 3, 2), (n_queries // 3, 3)]
