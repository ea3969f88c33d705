"""Asking a judge: what a call adds to its time, calls a second of several workers, and kills.

A server on loopback, in a process of its own, answers by hidden scores, so that no network is
needed. The machine may be shared: CPU time is reported beside the wall clock's. Killed runs are
those of `sortnet label --model`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
from measuring import Row, row

import sortnet
from store import open_store

TESTS = Path(__file__).resolve().parents[1] / "tests"
SECONDS = 0.2  # that a call of the server takes
WORKERS = 8
WORDS = 500
N_KILLED = 100  # items of the collection whose runs are killed


def run(quick: bool) -> list[Row]:
    """The rows of a function, of a server, and of kills."""
    with TemporaryDirectory() as cache, patch.dict(os.environ, XDG_CACHE_HOME=cache):
        return [
            *of_function(*((100, 40) if quick else (1_000, 500))),
            of_workers(80 if quick else 400),
            *of_kills(2 if quick else 20),
        ]


def texts_with_scores(n: int) -> dict[str, float]:
    """Texts of twenty words, with the scores by which they are judged."""
    rng = np.random.default_rng(0)
    worth = {f"w{k}": float(z) for k, z in enumerate(rng.normal(size=WORDS))}
    texts: dict[str, float] = {}
    for number in range(n):
        words = rng.choice([*worth], 20)
        texts[f"{' '.join(words)} {number}"] = sum(worth[word] for word in words) / 20**0.5
    return texts


def of_function(n_items: int, n_calls: int) -> list[Row]:
    """Time beside a function that answers at once; a sort before it imports all modules."""
    score = texts_with_scores(n_items)
    rng = np.random.default_rng(1)
    spans: list[tuple[float, float]] = []  # start and end of each call

    def judge(left: str, right: str) -> str:
        start = time.perf_counter()
        p = 1 / (1 + np.exp(2 * (score[right] - score[left])))
        answer = "left" if rng.random() < p else "right"
        spans.append((start, time.perf_counter()))
        return answer

    with TemporaryDirectory() as folder:
        sort_by(judge, [*score][:30], 100, Path(folder, "imports.db"))
        spans.clear()
        start, cpu = time.perf_counter(), time.process_time()
        sort_by(judge, [*score], n_calls, Path(folder, "s.db"))
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    starts, ends = 1000 * np.array(spans).T
    gaps = np.diff(starts)
    added = (1000 * wall - (ends - starts).sum()) / n_calls
    note = f"{n_items:,} items, {n_calls} calls, {1000 * cpu / n_calls:.1f} CPU ms a call"
    between = f"median {np.median(gaps):.1f}, longest {gaps.max():.0f}"
    return [
        row("(wall - time in the judge) / calls of sort, ms", added, bar="ours <= 10", note=note),
        row("between two calls of a judge, p95 in ms", float(np.quantile(gaps, 0.95)),
            bar="ours <= 200", note=between),
    ]  # fmt: skip


def sort_by(judge: object, texts: list[str], n_calls: int, store: Path) -> None:
    """Sort texts by a judge, and ask as many questions as there may be."""
    sortnet.sort(texts, judge=judge, max_calls=n_calls, wrong=1e-6, store=store, progress=False)


def of_workers(n_calls: int) -> Row:
    """Calls a second between the first answers of all workers and the last one."""
    texts = [*texts_with_scores(200)]
    with TemporaryDirectory() as folder, served(SECONDS) as (url, connection):
        judge = sortnet.LanguageModel("judge", server=url, workers=WORKERS)
        cpu = time.process_time()
        sort_by(judge, texts, n_calls, Path(folder, "s.db"))
        cpu = time.process_time() - cpu
        ended = [at for _, at in asked(connection)]
    return row(
        f"calls a second of {WORKERS} workers through sort, a server of {SECONDS} s",
        (len(ended) - WORKERS) / (ended[-1] - ended[0]),
        WORKERS / SECONDS,
        bar="ours >= 38.5",
        note=f"{len(ended)} calls, {1000 * cpu / len(ended):.1f} CPU ms a call",
    )


def of_kills(n: int) -> list[Row]:
    """Kills at random moments of a run that is started again each time.

    A call is repeated if its pair was asked again after its answer had been stored; an answer is
    lost if it was stored before a kill and is not there after it, or if the server had sent it
    half a second before the kill and it is not there: a busy disk takes its time.
    """
    rng = np.random.default_rng(0)
    repeated = set()
    lost = 0
    command = [sys.executable, "-m", "sortnet"]
    with TemporaryDirectory() as folder, served(0.02) as (url, connection):
        lines = ["id,text", *(f"t{k},{text}" for k, text in enumerate(texts_with_scores(N_KILLED)))]
        Path(folder, "t.csv").write_text("\n".join(lines) + "\n")
        add = ["items", "add", "t", "t.csv", "--no-describe", "--store", "s.db"]
        subprocess.run([*command, *add], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        judge = ["--model", "judge", "--server", url, "--workers", "2", "--until", "0.001"]
        label = [*command, "label", "t", *judge, "--store", "s.db"]
        for _ in range(n):
            n_before = len(asked(connection))
            stored_before = stored(Path(folder, "s.db"))
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            run = subprocess.Popen(label, cwd=folder, **quiet)
            while len(asked(connection)) == n_before and run.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 1.5))
            run.send_signal(signal.SIGKILL)
            killed = time.monotonic()
            run.wait()
            of_run = asked(connection)[n_before:]
            repeated |= stored_before & {pair for pair, _ in of_run}
            long_ago = {pair for pair, at in of_run if at < killed - 0.5}
            lost += len((stored_before | long_ago) - stored(Path(folder, "s.db")))
        note = f"{n} kills, {len(asked(connection))} answers of the server"
    return [
        row("kill -9: calls repeated", len(repeated), bar="ours <= 0",
            note=f"of pairs whose answer is stored; {note}"),
        row("kill -9: answers lost", lost, bar="ours <= 0",
            note="stored before a kill or sent 0.5 s before it, and not there after it"),
    ]  # fmt: skip


def stored(store: Path) -> set[tuple[str, str]]:
    """The texts of the pairs whose answer is stored."""
    texts = [*texts_with_scores(N_KILLED)]
    with open_store(store, write=False) as opened:
        table = opened.collection("t").judgements()
    return {(texts[one.left], texts[one.right]) for one in table}


def asked(connection: Connection) -> list[tuple[tuple[str, str], float]]:
    """The texts of the pairs that a server answered, and when."""
    connection.send("what was asked")
    answered: list[tuple[tuple[str, str], float]] = connection.recv()
    return answered


@contextmanager
def served(seconds: float) -> Iterator[tuple[str, Connection]]:
    """The URL of a model's server, and a connection to its process, see `asked`."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, seconds))
    process.start()
    try:
        yield here.recv(), here
    finally:
        here.send("end")
        process.join()


def serve(connection: Connection, seconds: float) -> None:
    """Serve a model until the connection says end."""
    sys.path.append(str(TESTS))
    from language_model_server import SIDES, Model, serving

    answered: list[tuple[tuple[str, str], float]] = []
    model = Model(texts_with_scores(200).__getitem__, seconds=seconds)
    answer = model.answer

    def timed(prompt: str, *, wants: bool) -> object:
        sides = SIDES.search(prompt)
        assert sides is not None
        left, right = sides.groups()
        answered.append(((left, right), time.monotonic()))
        return answer(prompt, wants=wants)

    model.answer = timed
    with serving(model) as url:
        connection.send(url)
        while connection.recv() != "end":
            connection.send(answered)
