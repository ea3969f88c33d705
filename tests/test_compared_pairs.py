"""The table of compared pairs against plain Python over its rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.core import ComparedPairs, Queries
from sortnet.core.pairs import unordered
from sortnet.errors import DataError
from sortnet.learning.pairs_to_ask import answered_pairs

NAN = math.nan
a_row = st.tuples(
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from([-2.0, -0.5, 0.0, 0.5, NAN]),
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, NAN]),
).filter(lambda row: row[0] != row[1])
rows_of_pairs = st.lists(a_row, max_size=20, unique_by=lambda row: frozenset(row[:2]))


def table(rows: list[tuple[int, int, float, float]]) -> ComparedPairs:
    i, j, margin, answer = zip(*rows, strict=True) if rows else ((), (), (), ())
    return ComparedPairs.of(i, j, margin=margin, answer=answer)


def rows_of(pairs: ComparedPairs) -> list[tuple[int, int, float, float]]:
    columns = (pairs.i, pairs.j, pairs.margin, pairs.answer)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def is_wrong(margin: float, answer: float) -> bool:
    if math.isnan(margin) or math.isnan(answer) or answer == 0.5:
        return False
    return not margin > 0 if answer > 0.5 else not margin < 0


def in_order(rows: list[tuple[int, int, float, float]]) -> list[tuple[int, int, float, float]]:
    ordered = []
    for i, j, margin, answer in rows:
        if answer > 0.5 or (answer == 0.5 and i < j):
            ordered.append((i, j, margin, answer))
        elif not math.isnan(answer):
            ordered.append((j, i, -margin, 1 - answer))
    return sorted(ordered, key=lambda row: row[:2])


@given(rows_of_pairs)
def test_wrong_is_what_the_better_document_did_not_win(rows):
    pairs = table(rows)
    expected = [is_wrong(margin, answer) for *_, margin, answer in rows]
    assert pairs.wrong.tolist() == expected
    assert int(pairs.in_order().wrong.sum()) == sum(expected)


@given(rows_of_pairs)
def test_in_order_are_the_answered_rows_with_the_better_document_first(rows):
    ordered = table(rows).in_order()
    assert str(rows_of(ordered)) == str(in_order(rows)).replace("-nan", "nan")
    assert str(rows_of(ordered.in_order())) == str(rows_of(ordered))


@given(rows_of_pairs, rows_of_pairs)
def test_a_union_has_each_pair_once_with_its_later_answer_and_no_margin(rows, later):
    first, second = table(rows).in_order(), table(later).in_order()
    answers = {row[:2]: row[3] for row in in_order(rows)}
    answers |= {row[:2]: row[3] for row in in_order(later)}
    union = first | second
    keys = list(zip(union.i.tolist(), union.j.tolist(), strict=True))
    assert keys == sorted(answers)
    assert union.answer.tolist() == [answers[key] for key in keys]
    assert np.isnan(union.margin).all()
    expected = [row[:2] in {row[:2] for row in in_order(later)} for row in in_order(rows)]
    assert first.is_in(second).tolist() == expected


@given(st.sets(st.integers(0, 35)))
def test_what_is_learned_are_the_chosen_pairs_with_an_answer(chosen):
    queries = Queries.from_arrays(np.zeros((9, 1)), [0, 1, 2, 0, 1, 2, 3, 0, 1])
    grades = queries.grades.tolist()
    i, j = (column[sorted(chosen)].tolist() for column in np.triu_indices(9, 1))
    better = [(a, b) if grades[a] > grades[b] else (b, a) for a, b in zip(i, j, strict=True)]
    expected = sorted((a, b, NAN, 1.0) for a, b in better if grades[a] != grades[b])
    learned = answered_pairs(queries, unordered(np.array(i, int), np.array(j, int)))
    assert str(rows_of(learned)) == str(expected)


@pytest.mark.parametrize(("i", "j"), [([3], [3]), ([-1], [2]), ([0], [2**31]), ([0, 1], [2])])
def test_what_is_no_pair_is_refused(i, j):
    with pytest.raises(DataError, match=r"pair"):
        ComparedPairs.of(i, j)
