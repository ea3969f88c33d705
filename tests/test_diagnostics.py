from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from test_sort import Table, numbered

from sortnet.core import Queries
from sortnet.errors import ComparatorError
from sortnet.sorting import sort
from sortnet.sorting.diagnostics import cyclic_triples, rank_changes


class ByValue:
    def prepare(self, X):
        return X[:, 0]

    def prefer(self, x, i, j):
        return x[i] - x[j]


def tournament(n: int, seed: int, values=(-1.0, 0.0, 1.0)) -> np.ndarray:
    """Random antisymmetric margins: as far from an order as a comparator gets."""
    upper = np.triu(np.random.default_rng(seed).choice(values, size=(n, n)), 1)
    return upper - upper.T


def cycles(margins: np.ndarray, queries: Queries) -> set[frozenset[int]]:
    found = set()
    for begin, end in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        for a, b, c in combinations(range(begin, end), 3):
            for x, y, z in ((a, b, c), (a, c, b)):
                if margins[x, y] > 0 and margins[y, z] > 0 and margins[z, x] > 0:
                    found.add(frozenset((a, b, c)))
    return found


@pytest.mark.parametrize("sizes", [[], [2, 1], [3]])
def test_few_documents_have_few_triples(sizes):
    margins = np.sin(np.subtract.outer(np.arange(3), np.arange(3)) * 2 * np.pi / 3)
    found = cyclic_triples(Table(margins), numbered(sizes))
    assert (found.share, found.sampled > 0) == ((1.0, True) if sizes == [3] else (0.0, False))


def test_sampled_triples_are_uniform_over_queries_weighted_by_their_triples():
    queries = numbered([3, 2, 40, 30])
    margins = np.zeros((75, 75))
    cyclic = tournament(40, 1, values=(-1.0, 1.0))
    margins[5:45, 5:45] = cyclic  # the query of 40 has cycles, the others only ties
    expected = len(cycles(margins, queries)) / (1 + 9880 + 4060)
    found = cyclic_triples(Table(margins), queries, samples=8000)
    assert 7000 < found.sampled < 8000  # a draw with the same document twice is not checked
    error = (expected * (1 - expected) / found.sampled) ** 0.5
    assert abs(found.share - expected) < 4 * error


def test_margins_that_are_no_numbers_are_refused_by_name():
    table = Table(np.full((4, 4), np.nan))
    with pytest.raises(ComparatorError, match="not a number"):
        cyclic_triples(table, numbered([4]))
    with pytest.raises(ComparatorError, match="3 documents, the data 4"):
        sort(ByValue(), numbered([4]), start=np.arange(3))


def test_documents_do_not_move_under_an_order():
    queries = Queries.from_arrays(np.random.default_rng(0).normal(size=(90, 1)), group=[40, 50])
    changes = rank_changes(ByValue(), queries)
    assert [c.against for c in changes] == [f"shuffle {k}" for k in range(1, 6)]
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
    start = np.argsort(np.random.default_rng(0).random(60))  # as the first shuffle draws it
    places = [np.argsort(sort(table, queries, start=order).order) for order in (None, start)]
    away = np.abs(places[0] - places[1])
    first = rank_changes(table, queries)[0]
    assert (first.mean, first.max, first.share) == (away.mean(), away.max(), (away > 0).mean())
