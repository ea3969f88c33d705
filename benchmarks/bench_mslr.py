"""Data of MSLR-WEB10K's shape: an iteration, its memory, and a whole run beside LightGBM.

The features and grades are made (the data set itself cannot be had here), see
`made_tables.mslr_shape`.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from made_tables import MSLR_FEATURES as FEATURES
from made_tables import MSLR_SIZE as SIZE
from made_tables import mslr_shape

from sortnet.config import Config
from sortnet.core import F32, Queries
from sortnet.learning.iterations import Iteration
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import fit


def parts(n_queries: int) -> tuple[Queries, Queries, Queries]:
    return (
        mslr_shape(n_queries, 0),
        mslr_shape(n_queries // 3, 2),
        mslr_shape(n_queries // 3, 3),
    )


def one_iteration(n_queries: int) -> dict[str, float]:
    """Sort everything, train one epoch on the pairs (and sort again, not counted)."""
    train, vali = mslr_shape(n_queries, 0), mslr_shape(n_queries // 3, 2)
    config = Config(max_iter=2, quality="ndcg@10", scaling="query+rank").changed(epochs=1)
    seen: list[Iteration] = []
    fit(train, vali, config, callbacks=[lambda record, state: seen.append(record)])
    return {"seconds": seen[0].seconds_sort + seen[0].seconds_train, "pairs": seen[0].tp}


def whole_run(n_queries: int) -> dict[str, float]:
    """With the defaults."""
    train, vali, test = parts(n_queries)
    start, cpu = time.perf_counter(), time.process_time()
    model = fit(train, vali, Config(quality="ndcg@10"))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    quality = evaluate(test, model.sort(test).order, "ndcg@10")["ndcg@10"]
    iterations = model.info["iterations"]
    return {"seconds": seconds, "cpu": cpu, "quality": quality, "iterations": iterations}


def lightgbm_run(n_queries: int) -> dict[str, float]:
    import lightgbm

    train, _, test = parts(n_queries)
    start, cpu = time.perf_counter(), time.process_time()
    model = lightgbm.LGBMRanker(
        n_estimators=500, num_leaves=31, random_state=0, n_jobs=2, verbose=-1
    )
    model.fit(train.features, train.grades, group=train.sizes)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    order = np.lexsort((-predicted(model, test.features), test.query_of_docs()))
    quality = evaluate(test, order, "ndcg@10")["ndcg@10"]
    return {"seconds": seconds, "cpu": cpu, "quality": quality}


def predicted(model: Any, X: F32) -> np.ndarray:
    return np.asarray(model.predict(X))


def alone(function: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    """Run in a process of its own, and take its peak memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, function, arguments).result()


def _measured(function: Callable[..., dict[str, float]], arguments: Any) -> dict[str, float]:
    found = function(*arguments)
    return {**found, "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def run(quick: bool) -> list[dict[str, Any]]:
    n = 90 if quick else 6000
    iteration = alone(one_iteration, n)
    ours, peer = alone(whole_run, n), alone(lightgbm_run, n)
    shape = f"{n:,} x {SIZE} x {FEATURES}"
    return [
        {
            "what": f"{shape}: seconds of an iteration (sort all, train one epoch)",
            "ours": iteration["seconds"], "bar": "ours < 60", "ok": iteration["seconds"] < 60,
            "note": f"{iteration['pairs']:,} pairs",
        },
        {
            "what": f"{shape}: peak memory of that, GB",
            "ours": iteration["gb"], "bar": "ours < 3", "ok": iteration["gb"] < 3,
            "note": "the process's, data and libraries included",
        },
        {
            "what": f"{shape}: seconds of a whole run, defaults / LightGBM, 500 trees of 31 leaves",
            "ours": ours["seconds"], "peer": peer["seconds"],
            "ratio": ours["seconds"] / peer["seconds"],
            "bar": "<= 0.4", "ok": ours["seconds"] <= 0.4 * peer["seconds"],
            "note": f"{ours['iterations']} sorts; CPU s {ours['cpu']:.0f} / {peer['cpu']:.0f}",
        },
        {
            "what": f"{shape}: test NDCG@10 of that / LightGBM's",
            "ours": ours["quality"], "peer": peer["quality"],
            "ratio": ours["quality"] / peer["quality"],
            "bar": "ours >= 0.633", "ok": ours["quality"] >= 0.633,
        },
        {
            "what": f"{shape}: peak memory of that, GB / LightGBM's",
            "ours": ours["gb"], "peer": peer["gb"], "ratio": ours["gb"] / peer["gb"],
            "bar": "ours < 2", "ok": ours["gb"] < 2,
            "note": "the process's, data and libraries included",
        },
    ]  # fmt: skip


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
