from __future__ import annotations

import errno
import gzip
import hashlib
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from file_helpers import assert_same

from sortnet import read_letor, write_letor
from sortnet.config import Config
from sortnet.core import Queries, memory
from sortnet.data import read_queries, scaling
from sortnet.data.scaling import fit_scaler
from sortnet.errors import DataError
from sortnet.rankers.sortnet import fit
from sortnet.tables import letor

EVERY_PART = "query+zscore+rank+log+normal+quantile+standard+none+missing"


@pytest.fixture
def on_disk(monkeypatch, tmp_path):
    """Every array is a file."""
    monkeypatch.setattr(memory, "IN_MEMORY", 0)
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_a_model_learned_from_a_file_is_the_same(monkeypatch):
    parts, config = (made(600), made(300, seed=1)), Config(scaling="normal", committee=1, trees=2)
    one = fit(*parts, config.changed(epochs=2))
    monkeypatch.setattr(memory, "IN_MEMORY", 0)
    monkeypatch.setattr(scaling.Scaler, "is_large", lambda self, queries: False)  # not in float16
    for name in ("_VALUES", "_READ_AT_ONCE"):
        monkeypatch.setattr(sys.modules["sortnet.sorting.sort"], name, 1 << 14)
    other = fit(*parts, config.changed(epochs=2))
    assert one.weights_sha256() == other.weights_sha256()
    np.testing.assert_array_equal(one.sort(parts[1]).order, other.sort(parts[1]).order)


def made(n: int = 3000, d: int = 20, seed: int = 0) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    docids = [f"d{k}" for k in range(n)]
    return Queries.from_arrays(X, rng.integers(3, size=n), qid=np.arange(n) // 9, docids=docids)


def test_a_large_array_takes_no_memory_of_the_process(monkeypatch):
    monkeypatch.setattr(memory, "IN_MEMORY", 1 << 20)
    tracemalloc.start()
    try:
        large = memory.allocate((1 << 20, 4))
        small = memory.allocate((1 << 10,), np.int64)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert large.flags.writeable and not large.flags.owndata and small.flags.owndata
    assert type(large) is np.ndarray and large.dtype == np.float32 and small.shape == (1024,)


def test_its_file_is_in_tmpdir_has_no_name_and_its_space_is_taken_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "IN_MEMORY", 0)
    reserved = []
    monkeypatch.setattr(os, "posix_fallocate", lambda *given: reserved.append(given[1:]))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with pytest.raises(DataError, match=r"temporary space in .*/gone: No such file or directory"):
        memory.allocate((1000,))
    (tmp_path / "gone").mkdir()
    monkeypatch.setattr(memory.mmap, "mmap", lambda file, n_bytes: bytearray(n_bytes))
    memory.allocate((1000,))
    assert reserved == [(0, 4000)] and not list((tmp_path / "gone").iterdir())


@pytest.mark.parametrize("step", ["asked before", "while it is reserved"])
def test_a_full_disk_is_one_line_that_names_the_cure(monkeypatch, tmp_path, on_disk, step):
    queries = made()
    write_letor(queries, tmp_path / "train.txt")
    if step == "asked before":
        disk_usage = shutil_usage(free=1000)
        monkeypatch.setattr(memory.shutil, "disk_usage", lambda folder: disk_usage)
    else:
        monkeypatch.setattr(os, "posix_fallocate", full)
    pattern = r"GB of temporary space in .*: No space left on device: set TMPDIR to a folder"
    scaler = fit_scaler("query", queries)
    for call in (lambda: read_letor(tmp_path / "train.txt"), lambda: scaler(queries)):
        with pytest.raises(DataError, match=pattern) as caught:
            call()
        assert "\n" not in str(caught.value)


def is_mapped(array: np.ndarray) -> bool:
    """Whether the numbers of an array lie in a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array is not None


def shutil_usage(free: int) -> object:
    return type("Usage", (), {"free": free})


def full(*given: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("block", [1 << 10, 1 << 20])
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_text_is_read_into_a_file_as_into_memory(monkeypatch, tmp_path, block, scattered, pack):
    queries = made()
    path = tmp_path / "train.txt"
    write_letor(queries, path)
    lines = path.read_bytes().splitlines(keepends=True)
    if scattered:
        lines = [lines[k] for k in np.random.default_rng(0).permutation(len(lines))]
    path.write_bytes(pack(b"".join(lines)))
    in_memory = read_letor(path)
    monkeypatch.setattr(memory, "IN_MEMORY", 10_000)
    monkeypatch.setattr(letor, "BLOCK_BYTES", block)
    mapped = read_letor(path)
    assert is_mapped(mapped.features) and not is_mapped(in_memory.features)
    assert_same(mapped, in_memory)


def test_features_are_scaled_into_a_file_as_into_memory(monkeypatch, on_disk):
    queries = made()
    scaler = fit_scaler(EVERY_PART, queries)
    mapped = scaler(queries)
    monkeypatch.setattr(memory, "IN_MEMORY", 1 << 30)
    in_memory = scaler(queries)
    assert is_mapped(mapped.features) and not is_mapped(in_memory.features)
    np.testing.assert_array_equal(mapped.features, in_memory.features)


# Run in a process of its own, which may take 12 MiB more than it has after it read a small file.
LIMITED = """
import hashlib, re, resource, sys, threading
from pathlib import Path
from sortnet.config import Config
from sortnet.data import read_queries, scaled_columns, scaling
from sortnet.tables import letor
from sortnet.data.scaling import fit_scaler
from sortnet.core import memory
threading.stack_size(1 << 18)
small, large, limit = sys.argv[1:]
memory.IN_MEMORY = 1 << 20
scaling.CHUNK = scaled_columns.CHUNK = 1 << 16
scaled_columns._VALUES_COPIED_AT_ONCE = 1 << 18
def use(path):
    queries = read_queries(path)
    scaled = fit_scaler("query+rank+standard", queries)(queries).features
    return hashlib.sha256(queries.features).hexdigest() + hashlib.sha256(scaled).hexdigest()
use(small)
taken = 1024 * int(re.search(r"VmData:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (taken + int(limit),) * 2)
print(use(large))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems limit other memory")
def test_data_four_times_larger_than_memory_are_read_and_scaled(tmp_path):
    d, limit = 200, 16 << 20
    rng = np.random.default_rng(0)
    rows = [
        " ".join(f"{k + 1}:{v}" for k, v in enumerate(rng.integers(0, 99, d))) for _ in range(100)
    ]
    for name, n in (("small", 200), ("large", 4 * limit // (4 * d))):
        lines = (f"{k % 3} qid:{k // 40} {rows[k % 100]}\n" for k in range(n))
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    # Done here first: where the kernels are compiled, the process would need memory for that, too.
    queries = read_queries(tmp_path / "large.txt")
    assert queries.features.nbytes > 3.99 * limit and not is_mapped(queries.features)
    scaled = fit_scaler("query+rank+standard", queries)(queries).features
    sums = [hashlib.sha256(each).hexdigest() for each in (queries.features, scaled)]
    paths = [str(tmp_path / name) for name in ("small.txt", "large.txt")]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *paths, str(limit)],
        capture_output=True,
        text=True,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "".join(sums)
