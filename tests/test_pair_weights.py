"""Weights of pairs by RankQuality: each change against the measure taken twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pair_tables import table

from sortnet.core import ComparedPairs, Queries
from sortnet.learning.pair_weights import exchange_changes, weights_by_quality
from sortnet.metrics import parse_metric, per_query

NAMES = ("ndcg", "ndcg@3", "nDCG@4", "map", "p@2")


def ranked_queries(sizes: list[int], seed: int) -> tuple[Queries, np.ndarray, ComparedPairs]:
    """Graded queries, a random ranking of them, and all their pairs of two grades."""
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 5, sum(sizes)) * rng.integers(0, 2, sum(sizes))
    queries = Queries.from_arrays(np.zeros((sum(sizes), 1)), grades, group=sizes)
    orders = [
        start + rng.permutation(size)
        for start, size in zip(queries.offsets[:-1], sizes, strict=True)
    ]
    winner, loser = np.nonzero(
        (queries.query_of_docs()[:, None] == queries.query_of_docs())
        & (queries.grades[:, None] > queries.grades)
    )
    return queries, np.concatenate(orders), table(winner, loser)


def measured(metric, queries: Queries, order: np.ndarray) -> np.ndarray:
    return np.nan_to_num(per_query(metric, queries.grades[order], queries.offsets))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("discount", ["log2", "letor"])
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(0, 10_000))
def test_a_change_is_that_of_the_measure_with_both_documents_exchanged(name, discount, sizes, seed):
    queries, order, pairs = ranked_queries(sizes, seed)
    metric = replace(parse_metric(name, relevant_from=2), discount=discount)
    whole = metric if metric.row.needs_cutoff else replace(metric, cutoff=None)
    before = measured(whole, queries, order)
    expected = []
    for winner, loser in zip(pairs.i, pairs.j, strict=True):
        exchanged = order.copy()
        exchanged[order == winner], exchanged[order == loser] = loser, winner
        expected.append(np.abs(measured(whole, queries, exchanged) - before).max())
    np.testing.assert_allclose(
        exchange_changes(metric, queries, order, pairs), expected, atol=1e-12
    )


@given(st.integers(0, 1000))
def test_weights_are_half_even_and_half_by_the_change(seed):
    queries, order, pairs = ranked_queries([6, 5, 4], seed)
    metric = parse_metric("p@2")
    changes = exchange_changes(metric, queries, order, pairs)
    weights = weights_by_quality(metric, queries, order, pairs)
    query = queries.query_of_docs()[pairs.i]
    for number in range(3):
        own = query == number
        if not changes[own].any():
            expected = np.ones(own.sum())
        else:
            expected = 0.5 + 0.5 * changes[own] / changes.mean()
        np.testing.assert_allclose(weights[own], expected, rtol=1e-6)


def test_judged_pairs_and_correlations_weigh_alike():
    queries, order, pairs = ranked_queries([5], 3)
    assert weights_by_quality(parse_metric("kendall"), queries, order, pairs) is None
    judged = queries.with_judgements([0], [1])
    assert weights_by_quality(parse_metric("map"), judged, order, pairs) is None
