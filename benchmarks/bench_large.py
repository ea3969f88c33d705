"""A run on 2 million documents, pairs in SQLite: memory, the store, and what each phase costs.

20,000 queries of 100 made documents with 10 features, a tenth as many to validate, settings as they
are by default.
"""

from __future__ import annotations

import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sortnet.config import Config
from sortnet.core import ComparedPairs, PairSink, Queries, Split
from sortnet.learning.iterations import Iteration, State
from sortnet.rankers.sortnet import fit
from store import open_store

SIZE, FEATURES = 100, 10
START, SORTING, STORING, TRAINING = "start", "sorting", "storing", "training"


def made(n_queries: int, seed: int) -> Queries:
    """Documents of five grades, whose truth has bends, a product and noise."""
    rng = np.random.default_rng([41, seed])
    X = rng.standard_normal((n_queries * SIZE, FEATURES), dtype=np.float32)
    truth = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * X[:, 3] + np.sin(2 * X[:, 4])
    truth += rng.standard_normal(len(X), dtype=np.float32)
    grades = np.digitize(truth, np.quantile(truth, (0.5, 0.8, 0.93, 0.98)))
    return Queries.from_arrays(X, grades, group=np.full(n_queries, SIZE))


@dataclass
class Clock:
    """CPU seconds by phase; `phase` is the one that runs."""

    phase: str = START
    seconds: dict[str, float] = field(default_factory=dict)
    begun: float = field(default_factory=time.process_time)

    def enter(self, phase: str) -> str:
        """Begin a phase; returns the one before."""
        before, now = self.phase, time.process_time()
        self.seconds[before] = self.seconds.get(before, 0.0) + now - self.begun
        self.phase, self.begun = phase, now
        return before

    def progress(self, text: str) -> None:
        for phase in (SORTING, TRAINING):
            if phase in text:
                self.enter(phase)


@dataclass
class TimedSink:
    """A sink whose time counts as that of storing."""

    sink: PairSink
    clock: Clock

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        before = self.clock.enter(STORING)
        self.sink.add(split, iteration, pairs, wrong)
        self.clock.enter(before)

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        return self.sink.pairs(split, before)


def large_run(n_queries: int) -> dict[str, Any]:
    """The phases of each iteration, and what the whole took."""
    train, vali = made(n_queries, 0), made(n_queries // 10, 1)
    clock, iterations = Clock(), []

    def on_iteration(record: Iteration, state: State) -> None:
        clock.enter(START)
        gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        iterations.append((record, dict(clock.seconds), gb))

    with TemporaryDirectory() as folder, open_store(Path(folder) / "runs.db") as store:
        run = store.start_run(
            command="", config={}, seed=0, versions={}, train=train, vali=vali, data={}, out=None
        )
        sink = TimedSink(run, clock)
        config = Config(quality="ndcg@10")
        fit(train, vali, config, sink=sink, callbacks=[on_iteration], progress=clock.progress)
        clock.enter(START)
        store_bytes = sum(file.stat().st_size for file in Path(folder).iterdir())
    return {
        "iterations": iterations,
        "seconds": clock.seconds,
        "store_bytes": store_bytes,
        "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def run(quick: bool) -> list[dict[str, Any]]:
    n = 40 if quick else 20_000
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        result = pool.submit(large_run, n).result()
    name, seconds = f"{n * SIZE:,} documents", result["seconds"]
    total = sum(seconds.values())
    share = (seconds[SORTING] + seconds[STORING]) / total
    last = result["iterations"][-1][0]
    return [
        {
            "what": f"{name}: peak memory of a run, GB",
            "ours": result["gb"], "bar": "ours < 6", "ok": result["gb"] < 6,
            "note": "the process's, data and libraries included",
        },
        {
            "what": f"{name}: size of the store, MB",
            "ours": result["store_bytes"] / 1e6,
            "note": f"{last.tp:,} pairs of T and {last.vp:,} of V",
        },
        {
            "what": f"{name}: share of sorting, judging and storing in the CPU time",
            "ours": share, "bar": "ours <= 0.2", "ok": share <= 0.2,
            "note": f"of {total:.0f} s; {seconds[STORING]:.0f} s of storing",
        },
        *(iteration_row(name, result["iterations"], k) for k in range(len(result["iterations"]))),
    ]  # fmt: skip


def iteration_row(
    name: str, iterations: list[tuple[Iteration, dict[str, float], float]], k: int
) -> dict[str, Any]:
    """CPU seconds of one iteration by phase."""
    record, after, gb = iterations[k]
    before = iterations[k - 1][1] if k else {}
    seconds = {phase: after.get(phase, 0.0) - before.get(phase, 0.0) for phase in after}
    phases = ", ".join(
        f"{phase} {seconds.get(phase, 0.0):.1f}" for phase in (SORTING, STORING, TRAINING)
    )
    return {
        "what": f"{name}, iteration {k}: CPU seconds",
        "ours": sum(seconds.get(phase, 0.0) for phase in (SORTING, STORING, TRAINING)),
        "note": f"{phases}; {record.tp:,} pairs in TP, {record.new_train:,} of them new; "
        f"NDCG@10 {record.quality:.4f}; {gb:.2f} GB so far",
    }


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
