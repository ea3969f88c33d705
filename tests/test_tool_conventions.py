"""Conventions give what the official tools give, from the same rankings."""

from __future__ import annotations

from itertools import accumulate
from math import log2, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.core import Queries
from sortnet.data.read import read_queries
from sortnet.errors import DataError, MetricError
from sortnet.lab.tool_conventions import CONVENTIONS, convention_line, figures_under
from sortnet.metrics import Metric, evaluate

MQ2008 = Path(__file__).parents[2] / "shared/data/mq2008/Fold1/test.txt"
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


@given(rankings, st.integers(1, 12))
def test_letors_ndcg_of_each_query_is_worked_out_again(lists, n):
    def dcg(grades: list[int]) -> list[float]:
        gains = [
            (2**g - 1) / (1 if rank <= 2 else log2(rank)) for rank, g in enumerate(grades, start=1)
        ]
        return list(accumulate(gains))

    expected = [
        0.0 if len(g) < n or not any(g) else dcg(g)[n - 1] / dcg(sorted(g, reverse=True))[n - 1]
        for g in lists
    ]
    for convention in ("letor3", "letor4"):
        found = figures(convention, lists, f"ndcg@{n}")[f"ndcg@{n}"]
        assert found.tolist() == pytest.approx(expected, abs=1e-12)


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


@pytest.mark.skipif(not MQ2008.exists(), reason="needs MQ2008")
def test_mq2008_by_one_feature_has_the_figures_of_letors_tools():
    queries = read_queries(MQ2008)
    order = np.lexsort((-queries.features[:, 38], queries.query_of_docs()))
    of_tool = {  # run on this ranking
        "letor3": {"map": 0.431135530, "ndcg@10": 0.191956302, "p@10": 0.141025641},
        "letor4": {"map": 0.431135530, "ndcg@10": 0.191956302, "p@10": 0.233333333},
    }
    for convention, expected in of_tool.items():
        found = figures_under(convention, queries, order, expected)
        means = {name: values.mean() for name, values in found.items()}
        assert means == pytest.approx(expected, abs=1e-9)


def test_the_line_beside_the_figures_says_what_is_done():
    def said(*of) -> str:
        return convention_line(*of, 2, 9)

    last = "queries without a relevant document {}: 2 of 9"
    assert said("letor3", ["ndcg@10", "p@5"]) == (
        "convention letor3; gain 2^r-1, discount max(1, log2(rank)); P@5 divides by 5; "
        "relevant from grade 1; lists shorter than n count 0 in ndcg@n and p@n; "
        + last.format("counted zero")
    )
    assert said("letor4", "map").count("shorter") == 0
    assert said("binarised", [Metric("ndcg", 10, relevant_from=2)]) == (
        "convention binarised; gain 2^r-1, discount log2(1+rank); "
        "test grades from 2 count as 1, others as 0; " + last.format("left out")
    )
    assert "log2(1+rank)" in said("skip", "ndcg")


def test_unknown_conventions_and_measures_are_refused():
    with pytest.raises(DataError, match="unknown convention 'letor5'; known are skip, zero, one,"):
        figures("letor5", LISTS, "map")
    with pytest.raises(MetricError, match="not defined for documents without judged pairs"):
        figures("skip", LISTS, "accuracy")
    with pytest.raises(MetricError, match="unknown discount 'log10'; known are log2 and letor"):
        Metric("ndcg", discount="log10")
