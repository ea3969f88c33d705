"""Depth of super pixels: the files that the paper uses, in a small made sample."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from sortnet.data.depth import read_depth, subsets
from sortnet.errors import DataError
from sortnet.metrics import evaluate
from sortnet.types import Queries

# Two images, their super pixels in no order; the sensor ends at .8.
SAMPLE = """0.31 qid:1 1:0.25 2:1
0.07 qid:1 1:0.5 2:0 # image 1
0.80 qid:1 1:0.75 2:2
0.42 qid:2 1:0 2:0.125

1.95 qid:1 1:1 2:3
0.42 qid:2 1:0.5 2:0.5
0.12 qid:2 1:1 2:1
0.79 qid:1 1:0 2:0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "basic.dat"
    path.write_text(SAMPLE)
    return path


def test_the_nearest_ranks_first_and_what_is_out_of_range_ties(file):
    found = read_depth(file)
    assert found.qids.tolist() == ["1", "2"] and found.sizes.tolist() == [5, 3]
    # Image 1: .31 .07 .80 1.95 .79 in the order of the file; two are farther than .79.
    assert found.grades.tolist() == [3, 4, 0, 0, 2, 0, 0, 2]
    assert found.rows.tolist() == [0, 1, 2, 4, 7, 3, 5, 6]
    assert found.features[:3].tolist() == [[0.25, 1], [0.5, 0], [0.75, 2]]
    near_first = np.array([1, 0, 4, 3, 2, 7, 6, 5])
    assert evaluate(found, near_first, ["exact", "spearman"])["exact"] == 1


def test_the_range_of_the_sensor_is_an_argument(file):
    assert read_depth(file, beyond=2).grades.tolist() == [3, 4, 1, 0, 2, 0, 0, 2]
    assert read_depth(file, beyond=0.1).grades.tolist() == [0, 4, 0, 0, 0, 0, 0, 0]


def test_a_gzipped_file_is_read_alike(file, tmp_path):
    packed = tmp_path / "basic.dat.gz"
    packed.write_bytes(gzip.compress(SAMPLE.encode()))
    assert (read_depth(packed).features == read_depth(file).features).all()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("near qid:1 1:2 2:3", "is not DEPTH qid:IMAGE 1:VALUE 2:VALUE ...: 'near qid:1 1:2 2:3'"),
        ("-1 qid:1 1:2 2:3", "is not DEPTH"),
        ("nan qid:1 1:2 2:3", "is not DEPTH"),
        ("0.5", "is not DEPTH"),
        ("0.5 1 1:2 2:3", "is not DEPTH"),
        ("0.5 qid: 1:2 2:3", "is not DEPTH"),
        ("0.5 qid:1 1:2 3:3", "is not DEPTH"),
        ("0.5 qid:1", "is not DEPTH"),
        ("0.5 qid:1 1:2 2:x", "is not DEPTH"),
        ("0.5 qid:1 1:2", "has 1 features, the lines before have 2"),
    ],
)
def test_a_line_of_another_form_is_named(file, line, said):
    file.write_text(SAMPLE + line + "\n")
    with pytest.raises(DataError) as caught:
        read_depth(file)
    assert str(caught.value).startswith(f"{file}, line 10: {said}")


def test_a_file_without_super_pixels_is_refused(tmp_path):
    (tmp_path / "none.dat").write_text("# nothing\n")
    with pytest.raises(DataError, match="no line of a super pixel"):
        read_depth(tmp_path / "none.dat")
    with pytest.raises(DataError, match="no such file"):
        read_depth(tmp_path / "nowhere.dat")


def test_subsets_have_some_documents_of_one_query_each_once():
    grades = np.arange(30) % 10
    whole = Queries.from_arrays(np.arange(30)[:, None], grades, group=[10, 3, 17])
    few = subsets(whole, 5, 40, seed=2)
    assert len(few) == 80 and set(few.sizes) == {5} and len(set(few.qids)) == 80
    docs = few.features[:, 0].astype(int).reshape(80, 5)
    assert (docs[:40] < 10).all() and (docs[40:] >= 13).all()
    assert all(len(set(row)) == 5 for row in docs)
    assert set(docs.ravel()) == {*range(10), *range(13, 30)}
    assert (few.grades == grades[docs.ravel()]).all()
    with pytest.raises(DataError, match="no query has 18 documents"):
        subsets(whole, 18, 1)
