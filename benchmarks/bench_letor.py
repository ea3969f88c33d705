"""LETOR text: read_letor beside scikit-learn's load_svmlight_file, time and peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MQ2008 = Path(__file__).resolve().parents[2] / "shared" / "data" / "mq2008"
FASTER_BY, MEMORY_BAR = 2.5, 2.0

# Run in a process of its own: how far reading one file raises the peak above what the process had
# after it read a small one, over the bytes of the arrays that it got.
PEAK = """
import json, pathlib, re, resource, sys
from sortnet import read_letor
read_letor(sys.argv[1])
def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # Linux hands ru_maxrss down from the process that started this one
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
q = read_letor(sys.argv[2])
arrays = (q.features, q.grades, q.offsets, q.qids, q.rows, q.docids)
print(json.dumps([peak() - before, sum(a.nbytes for a in arrays if a is not None)]))
"""


def main() -> None:
    for row in run(quick="--quick" in sys.argv):
        print(row)


def run(quick: bool) -> list[dict[str, Any]]:
    """Time and memory on MQ2008 (where it is), on a made dense file and on a made sparse one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = make(folder / "small.txt", 50, 5)
        dense = make(folder / "dense.txt", 2_000 if quick else 180_000, 136)
        sparse = make(folder / "sparse.txt", 2_000 if quick else 60_000, 300, filled=0.2)
        files = {"made, 136 features": dense, "made, sparse, 300 features": sparse}
        mq2008 = MQ2008 / "Fold1" / "train.txt"
        if mq2008.exists():
            files = {"MQ2008 Fold1 train": mq2008, **files}
        _read(small)  # compile, or load what was compiled
        rows = [speed(what, path, repeats=1 if quick else 3) for what, path in files.items()]
        rows += [memory(what, path, small, quick) for what, path in files.items()]
        return [*rows, cache("made, 136 features", dense, folder), first_use(small)]


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


def _read(path: Path) -> Any:
    from sortnet import read_letor

    return read_letor(path)


def _peer(path: Path) -> Any:
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path), query_id=True, zero_based=False, dtype=np.float32)


def _best(repeats: int, *calls: Callable[[], Any]) -> list[float]:
    """The least seconds of each call, taken by turns."""
    seconds = [[] for _ in calls]
    for _ in range(repeats):
        for call, times in zip(calls, seconds, strict=True):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return [min(times) for times in seconds]


def speed(what: str, path: Path, *, repeats: int) -> dict[str, Any]:
    ours, peer = _best(repeats, lambda: _read(path), lambda: _peer(path))
    megabytes = path.stat().st_size / 1e6
    return {
        "what": f"read LETOR text, {what}, {megabytes:.0f} MB (s)",
        "ours": ours,
        "peer": peer,
        "ratio": peer / ours,
        "bar": f">= {FASTER_BY}",
        "ok": peer / ours >= FASTER_BY,
        "note": f"{megabytes / ours:.0f} MB/s; peer: load_svmlight_file (leaves the table sparse)",
    }


def memory(what: str, path: Path, small: Path, quick: bool) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(small), str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    peak, arrays = json.loads(done.stdout)
    return {
        "what": f"peak memory of reading LETOR text, {what} (MiB)",
        "ours": peak / 2**20,
        "peer": arrays / 2**20,
        "ratio": peak / arrays,
        "bar": f"<= {MEMORY_BAR}",
        "ok": quick or peak / arrays <= MEMORY_BAR,
        "note": "peer: the arrays returned; ours: above a process that has read a small file"
        + (" (this file is too small to be judged)" if quick else ""),
    }


def cache(what: str, path: Path, folder: Path) -> dict[str, Any]:
    from sortnet.data import read_queries

    read_queries(path, cache=folder / "cache")
    ours, peer = _best(3, lambda: read_queries(path, cache=folder / "cache"), lambda: _read(path))
    return {
        "what": f"read LETOR text again, from the cache, {what} (s)",
        "ours": ours,
        "peer": peer,
        "ratio": ours / peer,
        "bar": "",
        "ok": None,
        "note": "peer: parsing; the arrays are memory-mapped",
    }


def first_use(small: Path) -> dict[str, Any]:
    """The first read ever on a machine, which compiles, and the first of a later process."""
    code = "import sys; from sortnet import read_letor; read_letor(sys.argv[1])"
    with tempfile.TemporaryDirectory() as name:
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", code, str(small)],
                check=True,
                env={**os.environ, "NUMBA_CACHE_DIR": name},
            )
            seconds.append(time.perf_counter() - start)
    return {
        "what": "first read of LETOR text on a machine, whole process (s)",
        "ours": seconds[0],
        "peer": seconds[1],
        "ratio": seconds[0] / seconds[1],
        "bar": "",
        "ok": None,
        "note": "the reader is compiled; peer: a later process",
    }


if __name__ == "__main__":
    main()
