"""Queries: grouping, checks, and the way back to the caller's rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.core import Queries
from sortnet.errors import DataError


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=30))
def test_rows_are_grouped_in_order_of_first_appearance(qid):
    rows = np.arange(len(qid), dtype=np.float32)
    queries = Queries.from_arrays(rows[:, None], rows.astype(int), qid=qid)
    assert queries.qids.tolist() == list(dict.fromkeys(qid))
    for k, name in enumerate(queries.qids):
        part = slice(queries.offsets[k], queries.offsets[k + 1])
        expected = [row for row, q in enumerate(qid) if q == name]
        assert queries.rows[part].tolist() == expected
        assert queries.features[part, 0].tolist() == expected
        assert queries.grades[part].tolist() == expected
    np.testing.assert_array_equal(queries.in_row_order(queries.grades), rows)


def test_a_qid_column_of_whole_floats_keeps_its_names():
    assert Queries.from_arrays(np.zeros((2, 1)), qid=[7.0, 3.0]).qids.tolist() == ["7", "3"]


def test_groups_are_sizes_of_consecutive_queries():
    queries = Queries.from_arrays(np.zeros((5, 1)), group=[2, 0, 3])
    assert queries.sizes.tolist() == [2, 3]  # a query without documents is left out
    with pytest.raises(DataError, match="add up to 5 rows"):
        Queries.from_arrays(np.zeros((5, 1)), group=[2, 2])


def test_some_of_the_queries_keep_their_documents_names_and_rows():
    X = np.arange(6.0)[:, None]
    queries = Queries.from_arrays(X, range(6), qid=list("abcabc"), docids=list("uvwxyz"))
    some = queries.take([2, 0])
    assert some.qids.tolist() == ["c", "a"]
    assert some.docids.tolist() == ["w", "z", "u", "x"]
    assert some.rows.tolist() == [2, 5, 0, 3]
    assert some.features.ravel().tolist() == [2, 5, 0, 3]
    assert len(queries.take([])) == 0


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"y": [0, -1]}, "row 1: grade '-1' is not a whole number from 0"),
        ({"y": [0.5, 1]}, "row 0: grade '0.5'"),
        ({"y": [np.nan, 1]}, "grade 'nan'"),
        ({"y": [np.inf, 1]}, "'inf' is not a whole number from 0"),
        ({"y": [1, 1e18]}, r"'1e\+18' is larger than 2147483647"),
        ({"y": ["good", "bad"]}, "grades must be numbers"),
        ({"y": [1]}, "2 rows of features but 1 grades"),
        ({"X": [[1.0], [np.inf]]}, "row 1, feature 1: inf is not finite"),
        ({"X": [[1.0], [1e39]]}, "row 1, feature 1: 1e\\+39 is not finite"),
        ({"X": [1.0, 2.0]}, "must be a table"),
        ({"X": [["a"], ["b"]]}, "features must be numbers"),
        ({"qid": [1]}, "qid has shape"),
        ({"qid": [1, 2], "group": [2]}, "not both"),
        ({"docids": ["a"]}, "but 1 document ids"),
        ({"feature_names": ["a", "b"]}, "1 features but 2 feature names"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused_by_value(wrong, text):
    arguments = {"X": [[1.0], [2.0]], "y": [0, 1], **wrong}
    with pytest.raises(DataError, match=text):
        Queries.from_arrays(**arguments)
