"""Queries are divided whole: no query is in two parts, none is lost, a seed gives one division."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.core import Queries
from sortnet.data.divide import hold_out, joined, query_folds, refuse_shared
from sortnet.errors import DataError


def made(sizes: list[int], first: int = 0) -> Queries:
    n = sum(sizes)
    X = np.arange(first, first + n, dtype=np.float32)[:, None]
    qid = np.repeat([f"q{first}.{k}" for k in range(len(sizes))], sizes)
    docids = [f"d{first + k}" for k in range(n)]
    return Queries.from_arrays(X, np.arange(n) % 3, qid=qid, docids=docids, source=f"from {first}")


SIZES = st.lists(st.integers(1, 4), min_size=6, max_size=20)


@given(SIZES, st.integers(2, 5), st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_each_query_is_in_one_fold_and_in_the_others_of_all_others(sizes, k, seed):
    q = made(sizes)
    folds = list(query_folds(q, k, seed=seed))
    assert sorted(np.concatenate([part.qids for _, part in folds])) == sorted(q.qids)
    for others, part in folds:
        assert sorted([*others.qids, *part.qids]) == sorted(q.qids)
        assert len(part) in (len(q) // k, len(q) // k + 1)


@given(SIZES, st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_a_hold_out_loses_no_query_and_shares_none(sizes, seed):
    q = made(sizes)
    fold = hold_out(q, 1 / 3, 1 / 4, seed=seed)
    parts = [fold.train, fold.vali, fold.test]
    assert sorted(np.concatenate([part.qids for part in parts])) == sorted(q.qids)
    assert len(fold.test) == round(len(q) / 3)
    again = hold_out(q, 1 / 3, 1 / 4, seed=seed)
    assert fold.test.qids.tolist() == again.test.qids.tolist()


def test_joined_parts_keep_documents_grades_names_and_weights():
    a, b = made([2, 1]), made([3], first=3)
    both = joined([a, b])
    assert both.features.ravel().tolist() == list(range(6))
    assert both.offsets.tolist() == [0, 2, 3, 6]
    assert both.qids.tolist() == [*a.qids, *b.qids]
    assert both.docids.tolist() == [f"d{k}" for k in range(6)]
    assert both.grades.tolist() == [*a.grades, *b.grades]
    assert both.take([2]).docids.tolist() == b.docids.tolist()


def test_a_query_in_two_parts_is_named():
    q = made([2, 2])
    with pytest.raises(DataError, match=r"1 queries are both in from 0 and in from 0.*'q0\.1'"):
        refuse_shared(q, q.take([1]))


def test_too_few_queries_to_divide_are_refused():
    with pytest.raises(DataError, match="2 queries are too few for 3 parts"):
        list(query_folds(made([1, 1]), 3))
    with pytest.raises(DataError, match="2 queries are too few to hold some out"):
        hold_out(made([1, 1]), 1 / 3, 1 / 4, seed=0)


def test_joined_parts_keep_their_judged_pairs():
    a, b = made([4, 3]), made([5, 2], 7)
    rng, drawn = np.random.default_rng(0), []
    for part in (a, b):
        i, j = np.triu_indices(int(part.sizes[0]), 1)
        soft = rng.random(len(i))
        drawn.append(part.with_judgements(j, i, soft=soft, weight=rng.random(len(i)) + 0.1))
    both = joined(drawn)
    assert len(both.judged) == sum(len(part.judged) for part in drawn)
    for part, first in zip(drawn, (0, a.n_docs), strict=True):
        i, j = part.judged.winner, part.judged.loser
        for ours, theirs in zip(
            both.judged.answers_for(first + i, first + j),
            part.judged.answers_for(i, j),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)
    assert (np.diff(both.judged.key) > 0).all()
    with pytest.raises(DataError, match=r"only one of .* has judged pairs"):
        joined([drawn[0], b])


def test_names_that_two_parts_share_become_numbers_and_missing_weights_1():
    q = made([2, 2])
    weighted = replace(q.take([1]), weights=np.array([0.5, 2], np.float32))
    both = joined([q, weighted])
    assert both.qids.tolist() == ["0", "1", "2"]
    assert both.weights.tolist() == [1, 1, 1, 1, 0.5, 2]
