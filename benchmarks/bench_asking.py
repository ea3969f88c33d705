"""`sortnet.sort`: what a call adds to its judge's time, and calls a second with several workers.

The machine may be shared: CPU time is reported beside the wall clock's. The server of a model has a
process of its own, and no fit of an earlier run is found in a cache.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import sortnet
from store.asking import sort as _imported  # noqa: F401

FOLDER = Path(__file__).resolve().parent
SECONDS = 0.2  # that a call of the server takes
WORKERS = 8
WORDS = 500


def run(quick: bool) -> list[dict[str, Any]]:
    """The rows of the table."""
    n_items, n_calls = (100, 40) if quick else (1_000, 500)
    with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, XDG_CACHE_HOME=cache):
        return [
            *_function_rows(n_items, n_calls, quick),
            _pace_row(80 if quick else 400, quick),
        ]


def _texts(n: int) -> dict[str, float]:
    """Texts of twenty words, with the scores by which they are judged."""
    rng = np.random.default_rng(0)
    worth = {f"w{k}": float(z) for k, z in enumerate(rng.normal(size=WORDS))}
    texts: dict[str, float] = {}
    for number in range(n):
        words = rng.choice([*worth], 20)
        texts[f"{' '.join(words)} {number}"] = sum(worth[word] for word in words) / 20**0.5
    return texts


def _function_rows(n_items: int, n_calls: int, quick: bool) -> list[dict[str, Any]]:
    """Time beside a function that answers at once; a collection before it imports all modules."""
    score = _texts(n_items)
    rng = np.random.default_rng(1)
    began: list[float] = []
    in_judge = 0.0

    def judge(left: str, right: str) -> str:
        nonlocal in_judge
        start = time.perf_counter()
        began.append(start)
        p = 1 / (1 + np.exp(2 * (score[right] - score[left])))
        answer = "left" if rng.random() < p else "right"
        in_judge += time.perf_counter() - start
        return answer

    with tempfile.TemporaryDirectory() as folder:
        _import_all(Path(folder, "imports.db"))
        start, start_cpu = time.perf_counter(), time.process_time()
        sortnet.sort(
            [*score], judge=judge, max_calls=n_calls, store=Path(folder, "s.db"), progress=False
        )
        wall, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    mean = 1000 * (wall - in_judge) / n_calls
    gaps = 1000 * np.diff(began)
    p95 = float(np.quantile(gaps, 0.95))
    note = f"{n_items:,} items, {n_calls} calls, {1000 * cpu / n_calls:.1f} CPU ms a call"
    return [
        _row("(wall - time in the judge) / calls of sort, ms", mean, 10.0, mean <= 10, note, quick),
        _row("between two calls of a judge, p95 in ms", p95, 200.0, p95 <= 200,
             f"median {np.median(gaps):.1f}, longest {gaps.max():.0f}", quick),
    ]  # fmt: skip


def _import_all(store: Path) -> None:
    """Sort a few texts with enough answers that a net is trained, which loads torch."""
    texts = _texts(30)
    sortnet.sort(
        [*texts], judge=lambda left, right: "left" if texts[left] > texts[right] else "right",
        max_calls=300, wrong=1e-6, store=store, progress=False,
    )  # fmt: skip


def _pace_row(n_calls: int, quick: bool) -> dict[str, Any]:
    """Calls a second between the first answers of all workers and the last one."""
    texts = _texts(200)
    with tempfile.TemporaryDirectory() as folder, _model_server() as (url, connection):
        judge = sortnet.LanguageModel("judge", server=url, workers=WORKERS)
        start_cpu = time.process_time()
        sortnet.sort(
            [*texts], judge=judge, max_calls=n_calls, wrong=1e-6,
            store=Path(folder, "s.db"), progress=False,
        )  # fmt: skip
        cpu = time.process_time() - start_cpu
        connection.send("how many")
        ended: list[float] = connection.recv()
    pace = (len(ended) - WORKERS) / (ended[-1] - ended[0])
    what = f"calls a second of {WORKERS} workers through sort, a server of {SECONDS:g} s"
    note = f"{len(ended)} calls, {1000 * cpu / len(ended):.1f} CPU ms a call"
    return {**_row(what, pace, WORKERS / SECONDS, pace >= 38.5, note, quick), "bar": ">= 38.5"}


@contextmanager
def _model_server() -> Iterator[tuple[str, Connection]]:
    """The URL of a model's server, and a connection that tells when its answers were ready."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,))
    process.start()
    try:
        yield here.recv(), here
    finally:
        here.send("end")
        process.join()


def _serve(connection: Connection) -> None:
    """Serve a model until the connection says end."""
    sys.path.append(str(FOLDER.parent / "tests"))
    from language_model_server import Model, serving

    texts = _texts(200)
    ended: list[float] = []

    def ends(letter: str) -> str:
        ended.append(time.monotonic())
        return letter

    model = Model(lambda text: texts[text], seconds=SECONDS, said=ends)
    with serving(model) as url:
        connection.send(url)
        while connection.recv() != "end":
            connection.send(ended)


def _row(what: str, ours: float, peer: float, ok: bool, note: str, quick: bool) -> dict[str, Any]:
    return {
        "what": what, "ours": ours, "peer": peer, "ratio": ours / peer, "bar": f"<= {peer:g}",
        "ok": None if quick else ok, "note": note,
    }  # fmt: skip
