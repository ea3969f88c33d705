"""The sort: both algorithms against a plain merge sort, and against comparators gone wrong."""

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.comparators import CmpNN, Committee, DirectRanker
from sortnet.core import Queries
from sortnet.errors import ComparatorError
from sortnet.sorting import sort
from sortnet.sorting.sort import arrangement

sizes = st.lists(st.integers(0, 25), max_size=5)


class Table:
    """A comparator that looks its margins up: document k's features are its number."""

    def __init__(self, margins: np.ndarray) -> None:
        self.margins = margins

    def prepare(self, X):
        return X[:, 0].astype(int)

    def prefer(self, prepared, i, j):
        return self.margins[prepared[i], prepared[j]]


class Batched:
    """Hides a comparator's type, so that the batched sort must take it."""

    def __init__(self, comparator) -> None:
        self.prepare, self.prefer = comparator.prepare, comparator.prefer


def numbered(sizes: list[int]) -> Queries:
    n = sum(sizes)
    features = np.arange(n, dtype=np.float32)[:, None]
    return Queries.from_arrays(features, group=np.array(sizes, dtype=np.int64))


def random_queries(sizes: list[int], seed: int, d: int = 3) -> Queries:
    X = np.random.default_rng(seed).normal(0, 1, (sum(sizes), d)).astype(np.float32)
    return Queries.from_arrays(X, group=np.array(sizes, dtype=np.int64))


def plain_merge_sort(documents, margin):
    """A bottom-up merge sort in plain Python, with the comparisons it makes, in no batch."""
    made, source, width = [], list(documents), 1
    while width < len(source):
        target = []
        for left in range(0, len(source), 2 * width):
            a, b = source[left : left + width], source[left + width : left + 2 * width]
            while a and b:
                made.append((a[0], b[0]))
                target.append(b.pop(0) if margin(a[0], b[0]) < 0 else a.pop(0))
            target += a + b
        source, width = target, 2 * width
    return source, made


def assert_sorted_as_by_hand(sorting, queries, start, margin):
    made = []
    for q in range(len(queries)):
        documents = start[queries.offsets[q] : queries.offsets[q + 1]]
        expected, pairs = plain_merge_sort(documents, margin)
        part = sorting.order[queries.offsets[q] : queries.offsets[q + 1]]
        assert part.tolist() == expected
        made += pairs
    assert sorted(
        zip(sorting.compared.i.tolist(), sorting.compared.j.tolist(), strict=True)
    ) == sorted(made)


@given(sizes, st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_any_margins_at_all_give_the_plain_merge_sorts_order_and_comparisons(sizes, seed):
    n = sum(sizes)
    margins = np.random.default_rng(seed).normal(0, 1, (n, n)).round(1).astype(np.float32)
    queries = numbered(sizes)
    start = arrangement(random_queries(sizes, seed))
    sorting = sort(Table(margins), queries, start=start)
    assert_sorted_as_by_hand(sorting, queries, start, lambda a, b: margins[a, b])
    np.testing.assert_array_equal(
        sorting.compared.margin, margins[sorting.compared.i, sorting.compared.j]
    )


direct_rankers = st.builds(
    DirectRanker,
    st.just(3),
    hidden=st.sampled_from([3, (6, 2)]),
    units=st.sampled_from(["tanh", "sigmoid", "relu"]),
    tau=st.sampled_from(["tanh", "identity", "sigmoid"]),
    seed=st.integers(0, 2**16),
)


def comparisons(sorting):
    at = np.lexsort((sorting.compared.j, sorting.compared.i))
    return np.stack((sorting.compared.i[at], sorting.compared.j[at])), sorting.compared.margin[at]


@given(sizes, st.integers(0, 2**16), direct_rankers, st.sampled_from([1, 30, 1e4]))
@settings(max_examples=50, deadline=None)
def test_a_score_is_sorted_as_its_margins_are_ties_and_all(sizes, seed, net, scale):
    queries = random_queries(sizes, seed)
    tied = queries.with_features(queries.features.round() * np.float32(scale))
    compiled, batched = sort(net, tied), sort(Batched(net), tied)
    np.testing.assert_array_equal(compiled.order, batched.order)
    for one, other in zip(comparisons(compiled), comparisons(batched), strict=True):
        np.testing.assert_array_equal(one, other)  # the margins too, to the last bit


units = st.sampled_from(["tanh", "sigmoid"])
cmpnns = st.builds(CmpNN, st.just(3), hidden=st.just(6), units=units, seed=st.integers(0, 2**16))
scores = direct_rankers.filter(lambda net: net.tau == "identity")
committees = (
    st.lists(nets, min_size=least, max_size=4).map(Committee)
    for nets, least in ((direct_rankers, 2), (scores, 2), (cmpnns, 1))
)


@given(sizes, st.integers(0, 2**16), st.one_of(cmpnns, *committees), st.sampled_from([1, 1e5]))
@settings(max_examples=50, deadline=None)
def test_the_kernel_and_the_batched_sort_agree_also_where_units_saturate(
    sizes, seed, comparator, scale
):
    queries = random_queries(sizes, seed)
    queries = queries.with_features(queries.features * np.float32(scale))
    compiled, batched = sort(comparator, queries), sort(Batched(comparator), queries)
    np.testing.assert_array_equal(compiled.order, batched.order)
    (ours, margin), (theirs, expected) = comparisons(compiled), comparisons(batched)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(margin, expected, atol=2e-5, rtol=1e-5)


MISSING = np.float32("nan")
ROWS = {
    "missing values": [[MISSING, 1], [MISSING, 2], [3, MISSING], [MISSING, MISSING], [2, 1]],
    "a very large column": [[3e38, 1], [3e38, 2], [-3e38, 3], [1e30, 4], [-3e38, 5], [3e38, 6]],
    "close values": np.float32(1e3) + np.arange(40).reshape(20, 2) * np.float32(2.0**-13),
}


@pytest.mark.parametrize("X", ROWS.values(), ids=ROWS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_documents_of_one_score_have_an_order_that_their_rows_do_not_change(X, data):
    X = np.array(X, np.float32)
    rows = np.array(data.draw(st.permutations(range(len(X)))))
    order = arrangement(Queries.from_arrays(X))
    np.testing.assert_array_equal(rows[arrangement(Queries.from_arrays(X[rows]))], order)


@pytest.mark.parametrize("kind", [CmpNN, DirectRanker])
@pytest.mark.parametrize("wrap", [lambda net: net, Batched])
def test_margins_that_are_not_numbers_are_refused_with_their_query_and_row(wrap, kind):
    X = np.zeros((5, 3), np.float32)
    X[4] = np.nan
    queries = Queries.from_arrays(X, qid=["a", "a", "b", "b", "b"], source="rows.txt")
    with pytest.raises(ComparatorError, match=r"not a number \(query b, row [234] of rows.txt\)"):
        sort(wrap(kind(3, hidden=2)), queries)


def test_data_larger_than_a_chunk_is_sorted_the_same(monkeypatch):
    queries = random_queries([30, 3, 0, 90, 5, 5], 0)
    comparators = [CmpNN(3, hidden=2, seed=0), DirectRanker(3, seed=0)]
    whole = [sort(comparator, queries) for comparator in comparators]
    module = importlib.import_module("sortnet.sorting.sort")  # the package's `sort` is a function
    for chunk in ("_COMPILED_CHUNK", "_BATCHED_CHUNK"):
        monkeypatch.setattr(module, chunk, 32)
    for comparator, expected in zip(comparators, whole, strict=True):
        chunked = sort(comparator, queries)
        np.testing.assert_array_equal(chunked.order, expected.order)
        (ours, margin), (theirs, of_whole) = comparisons(chunked), comparisons(expected)
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(margin, of_whole, atol=1e-6)
