"""How much memory is free, as the kernel and a container's limits say it, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sortnet.comparators import CmpNN, DirectRanker
from sortnet.core import Queries, memory
from sortnet.data import read_queries
from sortnet.errors import DataError
from sortnet.items import read_items

GB = 1_000_000_000


@pytest.fixture
def groups(tmp_path, monkeypatch) -> Path:
    """A folder in the place of the kernel's control groups."""
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    return tmp_path


def with_free(monkeypatch, n_bytes: int) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: n_bytes)


def refusal(read, *args: object) -> str:
    with pytest.raises(DataError) as raised:
        read(*args)
    message = str(raised.value)
    assert "\n" not in message and len(message) < 300
    return message


@pytest.mark.parametrize(
    ("most", "used", "left"),
    [
        ("3000000000", "2900000000", [150_000_007]),
        ("max", "2900000000", []),
        ("10", "51000000", [0]),
    ],
)
def test_a_container_s_limit_counts_without_the_files_that_it_keeps_in_memory(
    groups, most, used, left
):
    (groups / "memory.max").write_text(f"{most}\n")
    (groups / "memory.current").write_text(f"{used}\n")
    (groups / "memory.stat").write_text(
        "anon 2\nfile 9\ninactive_file 50000000\nactive_file 7\n\nodd\n"
    )
    assert memory._left_in_groups()[:1] == left
    if left:
        assert memory.free_memory() == left[0]
    else:  # what the machine has free, which another program changes at any moment
        assert memory.free_memory() > 150_000_007


def test_one_long_document_id_is_refused_however_it_comes(tmp_path, monkeypatch):
    n, long = 70_000, "d" * 1024
    (tmp_path / "t.txt").write_text(
        "1 qid:1 1:2 # docid = d\n" * n + f"1 qid:1 1:2 # docid = {long}\n"
    )
    said = refusal(read_queries, tmp_path / "t.txt")
    assert "longest of 1024 characters, need 0.3 GB of memory, most of it blank" in said
    X = np.zeros((n, 1), np.float32)
    said = refusal(lambda: Queries.from_arrays(X, docids=["d"] * (n - 1) + [long]))
    assert said.startswith("data: docids, the longest of 1024 characters, need 0.3 GB")
    monkeypatch.setattr(memory, "_BLANK", 1000)
    assert Queries.from_arrays(X[:9], docids=[long] * 9).docids.tolist() == [long] * 9


def test_one_large_index_in_a_sparse_file_is_refused_before_its_table_is_made(
    tmp_path, monkeypatch
):
    path = tmp_path / "t.txt"
    path.write_text("1 qid:1 1:2\n" * 9000 + "1 qid:1 100000:2\n")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=GB))
    message = refusal(read_queries, path)
    assert "9001 rows of 100000 features: 3.6 GB of temporary space in" in message


def test_a_table_of_too_many_columns_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    names = ",".join(f"f{k}" for k in range(100_000))
    path.write_text(f"qid,label,{names}\n1,0{',1' * 100_000}\n")
    assert "100002 columns; the limit is 100000" in refusal(read_queries, path)


@pytest.mark.parametrize("column", ["qid", "docid"])
def test_a_name_without_end_is_refused_with_its_line(tmp_path, column):
    path = tmp_path / "t.csv"
    row = {"qid": "1", "docid": "d", "label": "0", "x": "1"}
    lines = [",".join(row), ",".join(row.values())]
    lines.append(",".join((row | {column: "n" * 2000}).values()))
    path.write_text("\n".join(lines) + "\n")
    message = refusal(read_queries, path)
    assert "line 3" in message and f"'{column}'" in message and "2000 characters" in message


def test_a_parquet_file_of_few_bytes_and_many_rows_is_refused_unread(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    zeros = np.zeros(1_000_000, np.int8)
    parquet.write_table(pa.table({"qid": zeros, "label": zeros, "x": zeros}), path)
    assert path.stat().st_size < 20_000
    with_free(monkeypatch, 40_000_000)
    assert "1000000 rows of 3 columns need" in refusal(read_queries, path)
    assert "1000000 rows of 3 columns need" in refusal(read_items, path)


@pytest.mark.parametrize("kind", [CmpNN, DirectRanker])
def test_a_net_beyond_free_memory_is_refused_before_it_is_made(kind):
    message = refusal(lambda: kind(4, hidden=99_999_999_999_999))
    assert "99999999999999 weights of a hidden layer need" in message
