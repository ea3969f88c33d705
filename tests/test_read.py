from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from file_helpers import assert_same

from sortnet import write_letor
from sortnet.core import Queries
from sortnet.data import read_fold, read_queries
from sortnet.errors import DataError
from sortnet.tables import letor


def made(n: int = 200, seed: int = 0) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    qid = rng.integers(n // 5, size=n)
    return Queries.from_arrays(
        X, rng.integers(3, size=n), qid=qid, docids=[f"d{k}" for k in range(n)]
    )


# ------------------------------------------------------------------------------------ the folder


def test_tables_of_a_fold_must_have_the_columns_of_training_in_any_order(tmp_path):
    (tmp_path / "train.csv").write_text("qid,label,a,b\n1,0,1,2\n")
    (tmp_path / "vali.csv").write_text("qid,label,b,a\n1,0,1,2\n")
    fold = read_fold(tmp_path)
    assert fold.vali.feature_names == fold.train.feature_names == ("a", "b")
    assert fold.vali.features.tolist() == [[2, 1]]
    (tmp_path / "vali.csv").write_text("qid,label,a\n1,0,1\n")
    with pytest.raises(DataError, match=r"vali\.csv: there is no column 'b' in qid, label, a"):
        read_fold(tmp_path)
    (tmp_path / "vali.csv").unlink()
    (tmp_path / "vali.txt").write_text("0 qid:1 1:1 2:2\n")
    with pytest.raises(DataError, match=r"vali\.txt: has no feature names, .*train\.csv has"):
        read_fold(tmp_path)


def test_a_folder_that_is_none_or_is_ambiguous_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        read_fold(tmp_path / "none")
    write_letor(made(), tmp_path / "train.txt")
    with pytest.raises(DataError, match="is a file, not a folder"):
        read_fold(tmp_path / "train.txt")
    write_letor(made(), tmp_path / "train.txt.gz")
    with pytest.raises(DataError, match=r"which one is it, train\.txt or train\.txt\.gz"):
        read_fold(tmp_path)


# ------------------------------------------------------------------------------------ the cache


@pytest.fixture
def parses(monkeypatch):
    """Every path that is really parsed."""
    paths: list[Path] = []
    read = letor.read_letor

    def counted(path, **options):
        paths.append(path)
        return read(path, **options)

    monkeypatch.setattr(letor, "read_letor", counted)
    return paths


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.txt"
    write_letor(made(), path)
    return path


def test_the_second_read_comes_from_the_cache_and_is_the_same(tmp_path, file, parses):
    plain = read_queries(file)
    first = read_queries(file, cache=tmp_path / "cache")
    second = read_queries(file, cache=tmp_path / "cache")
    assert len(parses) == 2
    assert_same(first, plain)
    assert_same(second, plain)
    assert second.source == str(file)
    assert isinstance(second.features.base, np.memmap)


def test_a_stale_cache_is_noticed(tmp_path, file, parses):
    folder = tmp_path / "cache"
    read_queries(file, cache=folder)
    stat, text = file.stat(), file.read_bytes()

    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    read_queries(file, cache=folder)
    assert len(parses) == 2

    file.write_bytes(text.replace(b"1:", b"1:1", 1))  # longer
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert_same(read_queries(file, cache=folder), read_queries(file))
    assert len(parses) == 4

    place = text.index(b"1:") + 3
    new = b"7" if text[place : place + 1] != b"7" else b"8"
    file.write_bytes(text[:place] + new + text[place + 1 :])  # same size, same time
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert_same(read_queries(file, cache=folder), read_queries(file))
    assert len(parses) == 6
    assert len(list(folder.glob("*/*"))) == 1  # what is stale is taken away


def test_what_is_read_differently_is_cached_apart(tmp_path, parses):
    path = tmp_path / "sparse.txt"
    path.write_text("1 qid:1 1:1\n0 qid:1 2:1\n")
    for _ in range(2):
        for n in (None, 2, 5):
            q = read_queries(path, n_features=n, cache=tmp_path / "cache")
            assert q.n_features == (n or 2)
    assert len(parses) == 3
    with pytest.raises(DataError, match="beyond the 1 features"):
        read_queries(path, n_features=1, cache=tmp_path / "cache")


@pytest.mark.parametrize(
    "name", ["meta.json", *(f"{a}.npy" for a in ("features", "grades", "offsets", "qids", "rows"))]
)
@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "removed", "foreign"])
def test_a_damaged_cache_is_ignored_and_rewritten(tmp_path, file, parses, name, damage):
    plain = read_queries(file, cache=tmp_path / "cache")
    (victim,) = (tmp_path / "cache").glob(f"*/*/{name}")
    content = victim.read_bytes()
    damaged = {
        "cut": content[: len(content) // 2],
        "emptied": b"",
        "changed": content[:-8] + bytes(8),
        "foreign": b"[1, 2]",
    }
    victim.unlink()
    if damage != "removed":
        victim.write_bytes(damaged[damage])
    assert_same(read_queries(file, cache=tmp_path / "cache"), plain)
    assert len(parses) == 2
    assert_same(read_queries(file, cache=tmp_path / "cache"), plain)
    assert len(parses) == 2


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, file):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert_same(read_queries(file, cache=tmp_path / "cache"), read_queries(file))


def test_a_writer_killed_at_any_moment_leaves_no_half_cache(tmp_path, file, parses):
    plain = read_queries(file)
    script = """
import os, signal, sys
import numpy as np
from sortnet.data import cache, read_queries
left = int(sys.argv[3])
save = np.save
def dying(*arguments, **options):
    global left
    save(*arguments, **options)
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
np.save = dying
read_queries(sys.argv[1], cache=sys.argv[2])
"""
    for left in (0, 3):
        arguments = [sys.executable, "-c", script, str(file), str(tmp_path / "cache"), str(left)]
        assert subprocess.run(arguments).returncode == -signal.SIGKILL
        assert not list((tmp_path / "cache").glob("*/*/meta.json"))
    parses.clear()
    assert_same(read_queries(file, cache=tmp_path / "cache"), plain)
    assert len(parses) == 1
    (folder,) = (tmp_path / "cache").iterdir()
    leftovers = list(folder.glob(".writing-*"))
    assert len(leftovers) == 2
    for leftover in leftovers:
        os.utime(leftover, (0, 0))
    os.utime(file)
    read_queries(file, cache=tmp_path / "cache")
    assert not list(folder.glob(".writing-*"))


# ------------------------------------------------------------------------------------- the rest


@pytest.mark.slow
def test_the_reader_works_where_numba_can_write_nothing(tmp_path, file):
    """As in an installation that belongs to root, for a user without a home."""
    script = """
import sys
import numba.core.caching as caching
for locator in caching.CacheImpl._locator_classes:
    locator.from_function = classmethod(lambda cls, function, file: None)
from sortnet import read_letor
print(read_letor(sys.argv[1]).n_docs)
"""
    run = [sys.executable, "-c", script, str(file)]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout == "200\n"


@pytest.mark.parametrize("vali", ["vali.txt", "VALID.TXT.gz", "validation.txt"])
def test_a_fold_needs_a_validation_part_and_no_test_part(tmp_path, vali):
    write_letor(made(), tmp_path / "train.txt")
    with pytest.raises(DataError, match=r"there is no vali\.txt"):
        read_fold(tmp_path)
    write_letor(made(20), tmp_path / vali)
    assert read_fold(tmp_path).vali.n_docs == 20
