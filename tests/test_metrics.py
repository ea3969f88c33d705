from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import combinations, permutations
from math import log2

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, P, nDCG
from scipy.stats import kendalltau, spearmanr

from sortnet.core import Queries
from sortnet.errors import DataError, MetricError
from sortnet.metrics import (
    Metric,
    average,
    can_choose,
    check_can_choose,
    evaluate,
    parse_metric,
    per_query,
)

rankings = st.lists(st.lists(st.integers(0, 4), max_size=15), min_size=1, max_size=8)


def flat(ranked: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, ranked)])
    return np.array([g for query in ranked for g in query], dtype=np.int32), offsets


def by_ir_measures(measure, ranked: list[list[int]], labels=int) -> np.ndarray:
    """The measure of each query by ir-measures; queries it does not report stay NaN."""
    qrels = [
        ir_measures.Qrel(str(q), f"d{d}", labels(grade))
        for q, grades in enumerate(ranked)
        for d, grade in enumerate(grades)
    ]
    run = [
        ir_measures.ScoredDoc(str(q), f"d{d}", -float(d))
        for q, grades in enumerate(ranked)
        for d in range(len(grades))
    ]
    values = np.full(len(ranked), np.nan)
    for found in ir_measures.iter_calc([measure], qrels, run):
        values[int(found.query_id)] = found.value
    return values


def assert_equal_where_relevant(
    ours: np.ndarray, theirs: np.ndarray, ranked, lowest: int, *, atol: float = 1e-9
) -> None:
    has_relevant = np.array([any(g >= lowest for g in grades) for grades in ranked])
    np.testing.assert_array_equal(np.isnan(ours), ~has_relevant)
    np.testing.assert_allclose(ours[has_relevant], theirs[has_relevant], rtol=0, atol=atol)


def assert_equal_to_ir_measures(ranked, cutoff: int, lowest: int) -> None:
    grades, offsets = flat(ranked)
    for metric, peer in [
        (Metric("map", None, relevant_from=lowest), AP(rel=lowest)),
        (Metric("map", cutoff, relevant_from=lowest), AP(rel=lowest) @ cutoff),
        (Metric("p", cutoff, relevant_from=lowest), P(rel=lowest) @ cutoff),
        (Metric("mrr", None, relevant_from=lowest), RR(rel=lowest)),
        (Metric("mrr", cutoff, relevant_from=lowest), RR(rel=lowest) @ cutoff),
    ]:
        ours = per_query(metric, grades, offsets)
        assert_equal_where_relevant(ours, by_ir_measures(peer, ranked), ranked, lowest)
    for gain, labels in [("linear", int), ("exp", lambda grade: 2 ** int(grade) - 1)]:
        for n, peer in [(cutoff, nDCG @ cutoff), (None, nDCG)]:
            ours = per_query(Metric("ndcg", n, gain), grades, offsets)
            assert_equal_where_relevant(ours, by_ir_measures(peer, ranked, labels), ranked, 1)


@settings(max_examples=40, deadline=None)
@given(rankings, st.integers(1, 12), st.integers(1, 3))
def test_every_measure_equals_ir_measures_on_random_rankings(ranked, cutoff, lowest):
    assert_equal_to_ir_measures(ranked, cutoff, lowest)


@given(rankings, st.one_of(st.none(), st.integers(1, 12)))
def test_err_equals_algorithm_2_of_chapelle_and_others_2009(ranked, cutoff):
    ours = per_query(Metric("err", cutoff), *flat(ranked))
    for value, grades in zip(ours, ranked, strict=True):
        p, err = Fraction(1), Fraction(0)
        for r, grade in enumerate(grades[:cutoff], 1):
            R = Fraction(2**grade - 1, 16)
            err += p * R / r
            p *= 1 - R
        assert np.isnan(value) if not any(grades) else value == pytest.approx(float(err), abs=1e-14)


def test_err_keeps_its_digits_in_the_last_of_many_queries():
    one = [3, 0, 4, 1, 2]
    values = per_query(Metric("err"), *flat([one] * 20_000))
    assert values[0] == values[-1]


WHOLE = ("spearman", "kendall", "concordance", "exact")


@given(rankings)
def test_measures_of_whole_rankings_equal_scipy_and_counted_pairs(ranked):
    found = {name: per_query(Metric(name), *flat(ranked)) for name in WHOLE}
    for q, grades in enumerate(ranked):
        if len(set(grades)) < 2:  # no ranking is better than another
            assert all(np.isnan(values[q]) for values in found.values())
            continue
        scores = -np.arange(len(grades))
        pairs = [(a, b) for a, b in combinations(grades, 2) if a != b]
        right = sum(a > b for a, b in pairs)
        assert found["spearman"][q] == pytest.approx(spearmanr(grades, scores)[0])
        assert found["kendall"][q] == pytest.approx(kendalltau(grades, scores)[0])
        assert found["concordance"][q] == pytest.approx(right / len(pairs))
        assert found["exact"][q] == (right == len(pairs))


def test_err_has_no_grade_above_that_of_gdeval():
    high = Queries.from_arrays(np.zeros((3, 1)), [0, 5, 4])
    for ask in (lambda: evaluate(high, np.arange(3), "err@10"),
                lambda: check_can_choose(Metric("err", 10), high)):  # fmt: skip
        with pytest.raises(MetricError, match=r"err@10 is .* up to 4, .* grade 5; take ndcg@10$"):
            ask()


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=8).filter(any), st.integers(1, 9))
def test_huge_grades_keep_their_exact_exponential_gains(grades, cutoff):
    def dcg(ranked):
        top = ranked[:cutoff]
        return sum(Fraction(2**g - 1) / Fraction(log2(1 + r)) for r, g in enumerate(top, 1))

    expected = float(dcg(grades) / dcg(sorted(grades, reverse=True)))
    ours = per_query(Metric("ndcg", cutoff), grades, [0, len(grades)])
    assert ours[0] == pytest.approx(expected, abs=1e-12)


def test_offsets_that_do_not_span_the_grades_are_refused():
    with pytest.raises(MetricError, match="3 grades"):
        per_query(Metric("map"), [1, 0, 1], [0, 2])


def test_empty_queries_count_zero_one_nothing_or_an_error():
    values = np.array([0.5, np.nan, 1.0, np.nan])
    assert average(values) == average(values, "zero") == 1.5 / 4
    assert average(values, "one") == 3.5 / 4
    assert average(values, "skip") == 1.5 / 2
    assert average(values[[0, 2]], "error") == 0.75
    assert average(values[[1, 3]]) == 0.0
    for at, empty, said in (
        ([0, 1, 2, 3], "error", "2 of 4 queries have no relevant"),
        ([0, 1, 2, 3], "ignore", "'ignore'"),
        ([1, 3], "skip", "2 of them empty"),
        ([], "zero", "nothing to average: 0 queries"),
    ):
        with pytest.raises(MetricError, match=said):
            average(values[np.array(at, int)], empty)


def test_a_measure_that_cannot_be_averaged_is_named():
    queries = Queries.from_arrays([[0.0], [1.0]], [0, 1], source="vali.txt")
    measures = [parse_metric("ndcg@10"), parse_metric("map", relevant_from=2)]
    for empty, said in (("skip", "nothing to average"), ("error", "1 of 1 queries")):
        with pytest.raises(MetricError, match=f"vali.txt: map: {said}"):
            evaluate(queries, np.arange(2), measures, empty=empty)


TREC_EVAL = ("map", "map_cut_5", "map_cut.5", "ndcg_cut_5", "ndcg_cut.5", "P_5", "P.5",
             "recip_rank")  # fmt: skip
IR_MEASURES = ("AP", "MAP", "AP@5", "nDCG", "NDCG", "nDCG@5", "NDCG@5", "P@5", "RR", "MRR", "RR@5")


@pytest.mark.parametrize("name", [*TREC_EVAL, *IR_MEASURES])
@pytest.mark.parametrize("gain", ["exp", "linear"])
def test_a_name_of_another_tool_means_what_it_means_there(name, gain):
    rng = np.random.default_rng(3)
    ranked = [rng.integers(0, 5, n).tolist() for n in (3, 5, 8, 30)]
    if name in TREC_EVAL:
        (peer,) = ir_measures.parse_trec_measure(name)
    else:
        peer = ir_measures.parse_measure(name)
    ours = per_query(parse_metric(name, gain=gain), *flat(ranked))
    assert_equal_where_relevant(ours, by_ir_measures(peer, ranked), ranked, 1)


@pytest.mark.parametrize(
    "text",
    ["", "p", "P", "ndcg@", "ndcg@0", "p@-1", "map@x", "ndcg_cut", "map_cut", "ndcg@١٠",
     "nDCG(gains={1:1})@10", "p@10 map", "p@99999999999999999999", "p@1.5", "bpref", "kendall@10"],
)  # fmt: skip
def test_other_names_are_refused(text):
    with pytest.raises(MetricError):
        parse_metric(text)


@pytest.mark.parametrize(
    "wrong", [{"kind": "f1"}, {"cutoff": 0}, {"gain": "log"}, {"relevant_from": 0}]
)
def test_impossible_conventions_are_refused(wrong):
    with pytest.raises(MetricError):
        dataclasses.replace(Metric("ndcg", 10), **wrong)


def test_evaluate_speaks_of_document_numbers_of_several_queries():
    q = Queries.from_arrays(np.zeros((5, 1)), [0, 1, 0, 0, 2], group=[3, 2])
    found = evaluate(q, np.array([2, 1, 0, 4, 3]), ["MRR", Metric("p", 1), "mrr"])
    assert found == {"mrr": (1 / 2 + 1) / 2, "p@1": 1 / 2}
    with pytest.raises(MetricError, match="'ndcg@10'"):
        evaluate(q, np.arange(5), [Metric("ndcg", 10), Metric("ndcg", 10, "linear")])
    with pytest.raises(MetricError, match="4 documents, not of 5"):
        evaluate(q, np.arange(4), "map")


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=4),
    st.sampled_from(["map", "map@1", "ndcg", "ndcg@1", "p@1", "p@2", "p@5", "mrr", "mrr@2",
                     "err", "err@1", "err@2"]),
    st.integers(1, 3),
)  # fmt: skip
def test_a_query_can_choose_where_two_of_its_rankings_differ(ranked, name, lowest):
    metric = parse_metric(name, relevant_from=lowest)
    queries = queries_of(ranked)
    expected = [
        len({repr(per_query(metric, list(p), [0, len(p)])[0]) for p in permutations(grades)}) > 1
        for grades in ranked
    ]
    assert can_choose(metric, queries).tolist() == expected
    if any(expected):
        check_can_choose(metric, queries)
        return
    with pytest.raises(DataError, match="scores every ranking alike"):
        check_can_choose(metric, queries)


def queries_of(ranked: list[list[int]]) -> Queries:
    grades, offsets = flat(ranked)
    return Queries.from_arrays(np.zeros((len(grades), 1)), grades, group=np.diff(offsets))
