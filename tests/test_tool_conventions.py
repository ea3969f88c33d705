"""Conventions give what the official tools give, from the same rankings."""

from __future__ import annotations

from math import log2, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.core import Queries
from sortnet.errors import MetricError
from sortnet.lab.tool_conventions import CONVENTIONS, figures_under
from sortnet.metrics import Metric, evaluate

LISTS = [
    [0, 1, 2, 0, 0, 1, 0, 0, 0, 0, 2, 0],
    [0] * 11,
    [1, 0, 2],
    [0, 0],
    [1],
    [2, 2, 1, 0, 1, 0, 1],
    [0, 2, 0, 0, 0, 0, 0, 0, 0, 1],
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2],
]
# Of LISTS, from the subroutines of Eval-Score-3.0.pl and Eval-Score-4.0.pl, run by perl 5.36.
TOOLS = {
    "letor3": {
        "map": 0.465319264, "ndcg@1": 0.291666667, "ndcg@3": 0.363681784, "ndcg@5": 0.261193047,
        "ndcg@10": 0.160646922, "p@1": 0.375, "p@3": 0.333333333, "p@5": 0.175, "p@10": 0.0625,
    },
    "letor4": {
        "map": 0.465319264, "ndcg@1": 0.291666667, "ndcg@3": 0.363681784, "ndcg@5": 0.261193047,
        "ndcg@10": 0.160646922, "p@1": 0.375, "p@3": 0.375, "p@5": 0.25, "p@10": 0.1625,
    },
}  # fmt: skip
MEASURES = list(TOOLS["letor3"])

rankings = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=14), min_size=1, max_size=6)


def ranked(lists: list[list[int]]) -> tuple[Queries, np.ndarray]:
    """The queries, their documents in another order than the ranking, and the ranking."""
    n = sum(map(len, lists))
    codes = np.repeat(np.arange(len(lists)), [len(grades) for grades in lists])
    queries = Queries.from_arrays(
        np.zeros((n, 1)),
        [grade for grades in lists for grade in grades[::-1]],
        qid=[f"q{code:03}" for code in codes],
    )
    order = [np.arange(b - 1, a - 1, -1) for a, b in zip(queries.offsets, queries.offsets[1:])]  # noqa: B905
    return queries, np.concatenate(order)


def figures(convention: str, lists: list[list[int]], measures) -> dict[str, np.ndarray]:
    return figures_under(convention, *ranked(lists), measures)


@pytest.mark.parametrize("convention", TOOLS)
def test_letors_figures_are_those_of_its_tools(convention):
    found = figures(convention, LISTS, MEASURES)
    means = {name: values.mean() for name, values in found.items()}
    assert means == pytest.approx(TOOLS[convention], abs=1e-9)


def test_what_an_empty_query_counts():
    counts = {"skip": nan, "zero": 0.0, "one": 1.0, "letor3": 0.0, "letor4": 0.0, "binarised": nan}
    assert set(counts) <= set(CONVENTIONS)
    for convention, count in counts.items():
        for values in figures(convention, [[0, 0, 0], [0, 0, 1]], ["map", "ndcg", "mrr"]).values():
            assert values[0] == pytest.approx(count, nan_ok=True)
            assert 0 < values[1] < 1


@given(rankings)
def test_without_a_tools_quirks_the_mean_is_that_of_evaluate(lists):
    queries, order = ranked(lists)
    names = ["map", "ndcg@3", "p@3", "err@10"]
    for convention in ("zero", "one"):
        found = figures_under(convention, queries, order, names)
        means = {name: values.mean() for name, values in found.items()}
        assert means == pytest.approx(evaluate(queries, order, names, empty=convention))


def test_binarised_grades_have_one_gain_from_the_threshold_on():
    lists = [[1, 4, 0, 2], [1, 1, 0], [0, 2]]
    from_one = figures("binarised", lists, "ndcg@10")["ndcg@10"]
    first = 1 + 1 / log2(3) + 1 / log2(5)
    assert from_one == pytest.approx([first / (1 + 1 / log2(3) + 1 / log2(4)), 1, 1 / log2(3)])
    metrics = [Metric("ndcg", 10, relevant_from=2), Metric("map", relevant_from=2)]
    from_two = figures("binarised", lists, metrics)
    second = (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3))
    assert from_two["ndcg@10"] == pytest.approx([second, nan, 1 / log2(3)], nan_ok=True)
    assert from_two["map"] == pytest.approx([1 / 2, nan, 1 / 2], nan_ok=True)


def test_unknown_measures_are_refused():
    with pytest.raises(MetricError, match="not defined for documents without judged pairs"):
        figures("skip", LISTS, "accuracy")
    with pytest.raises(MetricError, match="unknown discount 'log10'; known are log2 and letor"):
        Metric("ndcg", discount="log10")
