from __future__ import annotations

import subprocess
import sys

import pytest
from graded_queries import graded

from sortnet import write_letor
from sortnet.data import read_fold
from sortnet.errors import DataError

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
    with pytest.raises(
        DataError, match=r"vali\.txt: only one of it and .*train\.csv has feature names"
    ):
        read_fold(tmp_path)


def test_a_folder_that_is_none_or_is_ambiguous_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        read_fold(tmp_path / "none")
    write_letor(graded(0), tmp_path / "train.txt")
    with pytest.raises(DataError, match="is a file, not a folder"):
        read_fold(tmp_path / "train.txt")
    write_letor(graded(0), tmp_path / "train.txt.gz")
    with pytest.raises(DataError, match=r"which one is it, train\.txt or train\.txt\.gz"):
        read_fold(tmp_path)


# ------------------------------------------------------------------------------------- the rest


@pytest.mark.slow
def test_the_reader_works_where_numba_can_write_nothing(tmp_path):
    """As in an installation that belongs to root, for a user without a home."""
    script = """
import sys
import numba.core.caching as caching
for locator in caching.CacheImpl._locator_classes:
    locator.from_function = classmethod(lambda cls, function, file: None)
from sortnet import read_letor
print(read_letor(sys.argv[1]).n_docs)
"""
    write_letor(graded(0), tmp_path / "train.txt")
    run = [sys.executable, "-c", script, str(tmp_path / "train.txt")]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout == "160\n"


@pytest.mark.parametrize("vali", ["vali.txt", "VALID.TXT.gz", "val.txt", "validationset.txt"])
def test_a_fold_needs_a_validation_part_and_no_test_part(tmp_path, vali):
    write_letor(graded(0), tmp_path / "train.txt")
    with pytest.raises(DataError, match=r"there is no vali\.txt"):
        read_fold(tmp_path)
    write_letor(graded(1, 3), tmp_path / vali)
    assert read_fold(tmp_path).vali.n_docs == 24
