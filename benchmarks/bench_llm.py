"""Language models as the judge: calls a second, kills, and what `bench_llm_*.py` measure.

A server on loopback answers by hidden scores, so that no network is needed. The runs are those of
`sortnet label --model` in a process of its own.
"""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np

from store import open_store

FOLDER = Path(__file__).resolve().parent
SECONDS = 0.2  # that a call takes
WORKERS = 8
BAR = 38.0
KILLS = 20
SORTNET = (sys.executable, "-m", "cli")


def run(quick: bool) -> list[dict[str, Any]]:
    """The rows of the table; those of the other files of this benchmark after its own."""
    sys.path.append(str(FOLDER.parent / "tests"))
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        rows = [_pace(quick), *_kills(2 if quick else KILLS)]
    for path in sorted(FOLDER.glob("bench_llm_*.py")):
        rows += importlib.import_module(path.stem).run(quick)
    return rows


def _pace(quick: bool) -> dict[str, Any]:
    """Calls a second between the first and the last one of a run with several workers."""
    number = 80 if quick else 800
    with _Judged(200, seconds=SECONDS) as judged:
        judged.label("--number", str(number), "--workers", str(WORKERS)).wait()
        at = np.array([when for _, when in judged.answered()])
    pace = (len(at) - WORKERS) / (at[-1] - at[0])
    ideal = WORKERS / SECONDS
    return {
        "what": f"calls a second of {WORKERS} workers, a server of {SECONDS:g} s",
        "ours": float(pace), "peer": ideal, "ratio": float(pace / ideal), "bar": f">= {BAR:g}",
        "ok": None if quick else bool(pace >= BAR),
        "note": f"{len(at)} calls; peer: no time lost at all; aim 39.5",
    }  # fmt: skip


def _kills(n: int) -> list[dict[str, Any]]:
    """Kills at random moments of a run that is started again each time.

    A call is repeated if its pair was asked again after its answer had been stored; an answer is
    lost if it was stored before a kill and is not there after it, or if the server had sent it
    half a second before the kill and it is not there: a busy disk takes its time.
    """
    rng = np.random.default_rng(0)
    repeated: set[tuple[str, str]] = set()
    lost = under_way = 0
    with _Judged(100, seconds=0.02) as judged:
        for _ in range(n):
            before, sent = len(judged.model.prompts), len(judged.answered())
            stored = judged.stored()
            run = judged.label("--until", "0.001", "--workers", "2")
            while len(judged.model.prompts) == before and run.poll() is None:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 1.5))
            run.send_signal(signal.SIGKILL)
            killed = time.monotonic()
            run.wait()
            repeated |= stored & {*judged.asked()[before:]}
            kept = judged.stored()
            long_ago = {pair for pair, at in judged.answered()[sent:] if at < killed - 0.5}
            lost += len((stored | long_ago) - kept)
            under_way += len({*judged.asked()} - kept)
        calls, answers = len(judged.asked()), len(judged.stored())
    common = f"{n} kills, {calls} calls, {answers} answers, {under_way} under way at a kill"
    return [
        {"what": "kill -9: calls repeated", "ours": len(repeated), "bar": "0",
         "ok": not repeated, "note": f"of pairs whose answer is stored; {common}"},
        {"what": "kill -9: answers lost", "ours": lost, "bar": "0", "ok": lost == 0,
         "note": "stored before a kill or sent 0.5 s before it, and not there after it"},
    ]  # fmt: skip


class _Judged:
    """A collection, a server that judges it, and runs of `sortnet label` on both.

    Args:
        n: number of items.
        seconds: that a call takes.
    """

    def __init__(self, n: int, *, seconds: float) -> None:
        from language_model_server import Model, serving

        self._times: list[tuple[tuple[str, str], float]] = []
        self.model = Model(lambda text: float(text.split()[-1]) / 10, seconds=seconds)
        answer = self.model.answer

        def timed(prompt: str, *, wants: bool) -> dict[str, Any]:
            self._times.append((_pair_of(prompt), time.monotonic()))
            return answer(prompt, wants=wants)

        self.model.answer = timed  # type: ignore[method-assign]
        self._serving = serving(self.model)
        self._n = n

    def __enter__(self) -> _Judged:
        self._url = self._serving.__enter__()
        self._store = f"llm{self._n}.db"
        rows = [f"t{k},text number {k}" for k in range(self._n)]
        Path("t.csv").write_text("\n".join(["id,text", *rows]) + "\n")
        command = [*SORTNET, "items", "add", "t", "t.csv", "--no-describe", "--store", self._store]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *error: object) -> None:
        self._serving.__exit__(None, None, None)

    def label(self, *more: str) -> subprocess.Popen[bytes]:
        """A run, which goes on meanwhile."""
        model = ("--model", "judge", "--server", self._url, "--store", self._store)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([*SORTNET, "label", "t", *model, *more], **quiet)  # type: ignore[call-overload, no-any-return]

    def asked(self) -> list[tuple[str, str]]:
        """The pairs that were asked, the left item first."""
        return [_pair_of(prompt) for prompt in [*self.model.prompts]]

    def answered(self) -> list[tuple[tuple[str, str], float]]:
        """The pairs that the server answered, and when."""
        return [*self._times]

    def stored(self) -> set[tuple[str, str]]:
        """The pairs whose answer is stored."""
        with open_store(self._store, write=False) as store:
            table = store.collection("t").judgements()
        return {(f"t{one.left}", f"t{one.right}") for one in table}


def _pair_of(prompt: str) -> tuple[str, str]:
    from language_model_server import SIDES

    left, right = (text.rsplit(maxsplit=1)[-1] for text in SIDES.search(prompt).groups())  # type: ignore[union-attr]
    return f"t{left}", f"t{right}"
