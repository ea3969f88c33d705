from __future__ import annotations

import sys
from pathlib import Path

import file_helpers
import numpy as np
import pandas as pd
import pytest
from file_helpers import refusal as fault

from sortnet import from_frame
from sortnet.core import Queries
from sortnet.data import read_queries
from sortnet.errors import DataError
from sortnet.tables import read_csv as tables


def written(folder: Path, text: str | bytes, name: str = "data.csv") -> Path:
    return file_helpers.written(folder, text, name)


def test_rows_that_are_only_ranked_need_no_grades(tmp_path):
    path = written(tmp_path, "qid,label,x\n1,2,3\n1,,4\n")
    assert read_queries(path, labelled=False).grades.tolist() == [2, 0]


def test_names_of_queries_and_documents_stay_as_they_are_written(tmp_path):
    text = "qid,docid,label,x\n007,NA,1,2\n7.0,1e3,0,3\nnull,,0,4\n"
    q = read_queries(written(tmp_path, text))
    assert q.qids.tolist() == ["007", "7.0", "null"]
    assert q.docids.tolist() == ["NA", "1e3", ""]


def late(values, **columns):
    """Two queries whose `time` has such values."""
    return pd.DataFrame({"qid": [1, 2] * 3, "label": [0, 1, 2] * 2, "x": 1.0, "time": values})


TIMES = np.array([0.0, 3600.0, 1.0, 3605.0, 3.0, 3607.0])


@pytest.mark.parametrize("start", [1.7e9, -1.7e9, 1_700_000_000])
def test_a_column_whose_differences_in_a_query_float32_loses_is_refused(
    tmp_path, monkeypatch, start
):
    monkeypatch.setattr(tables, "CELLS_AT_ONCE", 4)
    frame = late(TIMES.astype(type(start)) + start)
    lost = "column 'time': float32 loses the differences of values as large as 1.7e+09: subtract"
    with pytest.raises(DataError) as raised:
        from_frame(frame)
    assert str(raised.value).startswith(f"frame: {lost}")
    assert fault(written(tmp_path, frame.to_csv(index=False))).startswith(f": {lost}")
    frame.to_parquet(tmp_path / "x.parquet")
    assert fault(tmp_path / "x.parquet").startswith(f": {lost}")
    with pytest.raises(DataError, match="feature 1: float32 loses the differences"):
        Queries.from_arrays(frame[["time"]], frame["label"], qid=frame["qid"])
    assert from_frame(frame, labelled=False).n_docs == 6  # to be ranked, whatever they are


@pytest.mark.parametrize(
    "values",
    [
        TIMES,
        TIMES / 3,
        TIMES * 1e12,
        [0.1 + 0.2, 0.3] * 3,  # a constant, but for float64's own rounding
        [16_777_216, 16_777_218] * 3,  # large, and exact
        (TIMES / 3 + 1e9).astype(np.float32),
        [1 / 3, None, 1 / 7, 2.0, None, 5.0],
        [1e9 + 1 / 3, 0, 1e9 + 1 / 7, 3e3, 1e9, 4e3],  # lost where next to nothing is to lose
        [1e-30, 2e30, 3e-30, 4e-30, 0, 1],
        [7.0] * 6,
    ],
)
def test_a_column_that_float32_holds_well_enough_is_taken(values):
    frame = late(values)
    expected = np.asarray(frame["time"], np.float32)
    q = from_frame(frame)
    np.testing.assert_array_equal(q.features[:, 1], expected[q.rows])


def test_without_labels_grades_are_zero_if_one_may_be_without(tmp_path):
    path = written(tmp_path, "qid,x\n1,2\n1,3\n")
    assert read_queries(path, labelled=False).grades.tolist() == [0, 0]
    assert fault(path).startswith(": there is no column 'label' in qid, x: --grade NAME")
    assert from_frame(pd.DataFrame({"qid": [1], "x": [1.0]}), labelled=False).n_docs == 1


@pytest.mark.parametrize(
    ("row", "offending"),
    [
        ("1,0,abc,2", "column 'a': 'abc' is not a number"),
        ("1,0,1_0,2", "column 'a': '1_0' is not a number"),
        ('1,0,"0,5",2', "column 'a': '0,5' is not a number"),
        ("1,0,1,inf", "column 'b': 'inf' is infinite in float32"),
        ("1,0,-1e39,2", "column 'a': '-1e39' is infinite in float32"),
        ("1,-1,1,2", "grade '-1' is not a whole number from 0"),
        ("1,0.5,1,2", "grade '0.5' is not a whole number from 0"),
        ("1,,1,2", "the grade in column 'label' is missing"),
        ("1,good,1,2", "the grade in column 'label': 'good' is not a number"),
        (",0,1,2", "there is no 'qid'"),
        ("1,0,1", "3 fields where the header has 4: '1,0,1'"),
        ("1", "1 fields where the header has 4: '1'"),
        ("1,0,1,2,3", "5 fields where the header has 4: '1,0,1,2,3'"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_and_text(tmp_path, monkeypatch, row, offending):
    monkeypatch.setattr(tables, "CELLS_AT_ONCE", 8)  # two rows
    good = "1,0,1.5,2\n"
    path = written(tmp_path, f"qid,label,a,b\n{good}\n{good}{row}\n{good}")
    assert fault(path).startswith(f", line 5: {offending}")
    path = written(tmp_path, f"qid,label,a,b\n{row}\n{good}")
    assert fault(path).startswith(f", line 2: {offending}")
    path = written(tmp_path, f"qid,label,a,b\n{good}{row}")
    assert fault(path).startswith(f", line 3: {offending}")


def test_tables_and_columns_that_cannot_be_used_are_refused(tmp_path):
    for text, what in (
        ("", "no rows"),
        ("\n\n", "no rows"),
        ("qid,label,x\n", "no documents"),
        ("qid,label,x,x\n1,0,1,2\n", ", line 1: there are two columns 'x'"),
        ("qid,label,\n1,0,1\n", ", line 2: column 3 has no name"),
        ('qid,label,x\n1,0,"1\n"\n1,0,"1\n', ", line 4: unexpected end of data"),
        ('docid,qid,label,x\n"two\nlines",1,0,1\nd,1,0,abc\n', ", line 4: column 'x': 'abc'"),
        (b"qid,label,x\n1,0,1\n\xff,0,1\n", ", line 3: byte 0xff is not UTF-8"),
        (b"\xef\xbb\xbfqid,label,x\n1,0,1\n\xff,0,1\n", ", line 3: byte 0xff is not UTF-8"),
        (b"qid,label,x\r1,0,1\r\xff,0,1\r", ", line 3: byte 0xff is not UTF-8"),
        ("label,x\n1,0\n", "there is no column 'qid'"),
        ("qid,label\n1,0\n", "there is no feature column"),
        ("qid,label,x,y\n1,0,,n/a\n", "there is no feature column with a value"),
        ("qid,label,x,note\n1,0,,a\n", "there is no feature column with a value"),
    ):
        assert what in fault(written(tmp_path, text))
    for values in (["a"], [1j], [b"x"], [None]):
        with pytest.raises(DataError, match=r"frame: (there is no feature|no column can)"):
            from_frame(pd.DataFrame({"qid": [1], "label": [0], "x": values}))
    with pytest.raises(DataError, match=r"frame, row 0: column 'x' holds a nested value: \[1, 2\]"):
        from_frame(pd.DataFrame({"qid": [1], "label": [0], "x": [[1, 2]]}))
    with pytest.raises(DataError, match="there are two columns 'x'"):
        from_frame(pd.DataFrame([[1, 0, 1, 2]], columns=["qid", "label", "x", "x"]))


def test_a_table_of_another_number_of_features_is_refused(tmp_path):
    path = written(tmp_path, "qid,label,x\n1,0,1\n")
    assert read_queries(path, n_features=1).n_features == 1
    with pytest.raises(DataError, match="has 1 features, 2 are expected"):
        read_queries(path, n_features=2)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert fault(written(tmp_path, b"PAR1", "x.parquet")).endswith("pip install 'sortnet[parquet]'")
