from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.core import Queries
from sortnet.errors import ComparatorError
from sortnet.sorting import sort
from sortnet.sorting.diagnostics import cyclic_triples, quicksort, rank_changes, shuffled


class Table:
    """Margins looked up by the number that is a document's only feature."""

    def __init__(self, margins: np.ndarray) -> None:
        self.margins = np.asarray(margins, dtype=np.float32)
        self.calls = 0

    def prepare(self, X):
        return X[:, 0].astype(np.int64)

    def prefer(self, prepared, i, j):
        self.calls += 1
        return self.margins[prepared[i], prepared[j]]


class ByValue:
    def prepare(self, X):
        return X[:, 0]

    def prefer(self, x, i, j):
        return x[i] - x[j]


def tournament(n: int, seed: int, values=(-1.0, 0.0, 1.0)) -> np.ndarray:
    """Random antisymmetric margins: as far from an order as a comparator gets."""
    upper = np.triu(np.random.default_rng(seed).choice(values, size=(n, n)), 1)
    return upper - upper.T


def numbered(sizes: list[int]) -> Queries:
    return Queries.from_arrays(np.arange(sum(sizes))[:, None], group=np.array(sizes, dtype=int))


def cycles(margins: np.ndarray, queries: Queries) -> set[frozenset[int]]:
    found = set()
    for begin, end in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        for a, b, c in combinations(range(begin, end), 3):
            for x, y, z in ((a, b, c), (a, c, b)):
                if margins[x, y] > 0 and margins[y, z] > 0 and margins[z, x] > 0:
                    found.add(frozenset((a, b, c)))
    return found


sizes_lists = st.lists(st.integers(0, 9), min_size=1, max_size=5)


@given(sizes_lists, st.integers(0, 99))
def test_all_triples_are_looked_at_where_they_are_few(sizes, seed):
    queries, margins = numbered(sizes), tournament(sum(sizes), seed)
    comparator = Table(margins)
    found = cyclic_triples(comparator, queries)
    expected = cycles(margins, queries)
    assert found.sampled == sum(n * (n - 1) * (n - 2) // 6 for n in sizes)
    assert found.share * found.sampled == pytest.approx(len(expected))
    assert comparator.calls == (3 if found.sampled else 0)


def test_sampled_triples_are_uniform_over_queries_weighted_by_their_triples():
    queries = numbered([3, 2, 40, 30])
    margins = np.zeros((75, 75))
    cyclic = tournament(40, 1, values=(-1.0, 1.0))
    margins[5:45, 5:45] = cyclic  # the query of 40 has cycles, the others only ties
    expected = len(cycles(margins, queries)) / (1 + 9880 + 4060)
    found = cyclic_triples(Table(margins), queries, samples=8000)
    assert found.sampled == 8000
    error = (expected * (1 - expected) / 8000) ** 0.5
    assert abs(found.share - expected) < 4 * error


def test_margins_that_are_no_numbers_are_refused_by_name():
    table = Table(np.full((4, 4), np.nan))
    with pytest.raises(ComparatorError, match="not a number"):
        cyclic_triples(table, numbered([4]))
    with pytest.raises(ComparatorError, match="not a number"):
        quicksort(table, numbered([4]))
    with pytest.raises(ComparatorError, match="3 documents, the data 4"):
        quicksort(ByValue(), numbered([4]), start=np.arange(3))


@given(sizes_lists, st.integers(0, 99))
def test_quicksort_returns_a_permutation_whatever_the_comparator_does(sizes, seed):
    queries, margins = numbered(sizes), tournament(sum(sizes), seed)
    start = shuffled(queries, np.random.default_rng(seed))
    got = quicksort(Table(margins), queries, start=start)
    np.testing.assert_array_equal(np.sort(got.order), np.arange(queries.n_docs))
    query = queries.query_of_docs()
    np.testing.assert_array_equal(query[got.order], query)
    np.testing.assert_array_equal(got.compared.margin, margins[got.compared.i, got.compared.j])
    assert len(np.unique(got.compared.unordered_key)) == len(got.compared)


@given(st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=5))
def test_quicksort_equals_pythons_sort_under_an_order_with_ties(lists):
    flat = [value for values in lists for value in values]
    X = np.array(flat, dtype=float).reshape(-1, 1)
    queries = Queries.from_arrays(X, group=np.array([len(v) for v in lists]))
    order = quicksort(ByValue(), queries).order
    begin = 0
    for values in lists:
        expected = sorted(range(len(values)), key=lambda d, values=values: -values[d])
        assert (order[begin : begin + len(values)] - begin).tolist() == expected
        begin += len(values)


def test_documents_do_not_move_under_an_order():
    queries = Queries.from_arrays(np.random.default_rng(0).normal(size=(90, 1)), group=[40, 50])
    changes = rank_changes(ByValue(), queries)
    assert [c.against for c in changes] == [*(f"shuffle {k}" for k in range(1, 6)), "quicksort"]
    assert all((c.mean, c.max, c.share) == (0.0, 0, 0.0) for c in changes)


def test_documents_with_the_same_features_count_as_interchangeable():
    rng = np.random.default_rng(0)
    values, zeros = rng.integers(0, 4, 60).astype(float), rng.choice([0.0, -0.0], 60)
    queries = Queries.from_arrays(np.stack([values, zeros], axis=1), group=[30, 30])
    assert all(c.share == 0.0 for c in rank_changes(ByValue(), queries))
    unlike = queries.with_features(np.stack([values, np.arange(60)], axis=1, dtype=np.float32))
    assert all(c.share > 0.0 for c in rank_changes(ByValue(), unlike)[:5])


def test_rank_changes_are_the_distances_between_the_rankings():
    table, queries = Table(tournament(60, 4, (-1.0, 1.0))), numbered([60])
    places = [np.argsort(s(table, queries).order) for s in (sort, quicksort)]
    away = np.abs(places[0] - places[1])
    last = rank_changes(table, queries)[-1]
    assert (last.mean, last.max, last.share) == (away.mean(), away.max(), (away > 0).mean())
