"""Graded labels as the judge, against a loop over the comparisons."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sortnet.learning.judges import can_be_learned, judge_by_grades, wrong_pairs
from sortnet.types import Queries, Sorting


@given(st.integers(0, 999))
def test_wrong_is_every_compared_pair_whose_higher_grade_did_not_win(seed):
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 3, 9)
    i, j = rng.integers(0, 9, (2, 30)).astype(np.int32)
    margin = rng.choice([-1.0, 0.0, 1.0], 30).astype(np.float32)
    expected = set()
    for a, b, m in zip(i, j, margin, strict=True):
        if grades[a] > grades[b] and m <= 0:
            expected.add((int(a), int(b)))
        if grades[b] > grades[a] and m >= 0:
            expected.add((int(b), int(a)))
    queries = Queries.from_arrays(np.zeros((9, 1)), grades)
    wrong = wrong_pairs(Sorting(np.arange(9), i, j, margin), judge_by_grades(queries, i, j))
    assert list(zip(wrong.winner.tolist(), wrong.loser.tolist(), strict=True)) == sorted(expected)


def test_something_can_be_learned_only_where_one_query_has_two_grades():
    X = np.zeros((4, 1))
    assert can_be_learned(Queries.from_arrays(X, [0, 1, 0, 0], qid=[0, 0, 1, 1]))
    assert not can_be_learned(Queries.from_arrays(X, [0, 0, 1, 1], qid=[0, 0, 1, 1]))
    assert not can_be_learned(Queries.from_arrays(X[:0], [], qid=[]))
