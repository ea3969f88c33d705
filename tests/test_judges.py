"""Grades and judged pairs as the judge, against loops over the comparisons."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sortnet.comparators import CmpNN
from sortnet.config import Config
from sortnet.core import ComparedPairs, Pairs, Queries
from sortnet.data.divide import hold_out_documents, joined
from sortnet.errors import DataError
from sortnet.learning.judges import (
    judged_by_data,
)
from sortnet.learning.loop import MemoryPairs, learn_to_sort
from sortnet.metrics import Metric, evaluate

judgements = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.integers(0, 6),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    ).filter(lambda one: one[0] != one[1]),
    max_size=25,
)


@given(judgements)
def test_judgements_of_a_pair_are_added_up_by_their_weights(made):
    i, j, p, w = (np.array([one[k] for one in made], dtype) for k, dtype in enumerate("iiff"))
    known = Pairs.judged(i, j, soft=p, weight=w)
    sums: dict[tuple[int, int], np.ndarray] = {}
    for a, b, soft, weight in made:
        pair = min(a, b), max(a, b)
        for_first = soft if a < b else 1 - soft
        sums[pair] = sums.get(pair, np.zeros(2)) + weight * np.array([for_first, 1])
    expected = {}
    for pair, (for_first, total) in sums.items():
        if total:
            is_first = 2 * for_first >= total
            winner_first = pair if is_first else pair[::-1]
            expected[winner_first] = max(for_first, total - for_first) / total, total
    pairs = [*zip(known.winner.tolist(), known.loser.tolist(), strict=True)]
    assert pairs == sorted(expected)
    for k, pair in enumerate(pairs):
        target, weight = known.answers_for(np.array(pair), np.array(pair[::-1]))
        share, total = expected[pair]
        assert target.tolist() == pytest.approx([share, 1 - share])
        assert known.target[k] == target[0] and weight.tolist() == pytest.approx([total] * 2)


@given(st.integers(0, 200))
def test_judged_pairs_follow_their_documents(seed):
    rng = np.random.default_rng(seed)
    queries = Queries.from_arrays(np.arange(12.0)[:, None], qid=rng.integers(0, 3, 12))
    query = dict(zip(queries.rows.tolist(), queries.query_of_docs().tolist(), strict=True))
    pairs = [pair for pair in rng.integers(0, 12, (40, 2)) if pair[0] != pair[1]]
    pairs = np.array([pair for pair in pairs if query[pair[0]] == query[pair[1]]]).reshape(-1, 2)
    judged = queries.with_judgements(*pairs.T)

    def told(part: Queries) -> dict[tuple[float, float], float]:
        documents = zip(part.judged.winner, part.judged.loser, part.judged.target, strict=True)
        x = part.features[:, 0]
        return {(x[a], x[b]): target for a, b, target in documents}

    wins = {*map(tuple, pairs.tolist())}
    assert all(((b, a) in wins) == (target < 1) for (a, b), target in told(judged).items())
    kept = rng.random(12) < 0.6
    rows = {*judged.rows[kept].tolist()}
    inside = {pair: target for pair, target in told(judged).items() if rows.issuperset(pair)}
    assert told(judged.only(kept)) == inside
    assert told(judged.take(rng.permutation(len(judged)))) == told(judged)


def test_ties_and_unknown_pairs_are_never_wrong_and_a_tie_is_learned_as_the_lower_number_first():
    queries = Queries.from_arrays(np.zeros((4, 1))).with_judgements(
        [3, 1, 1], [0, 2, 2], soft=[1, 1, 0]
    )
    i, j = np.array([0, 2, 1], np.int32), np.array([3, 1, 3], np.int32)
    judged = judged_by_data(queries, ComparedPairs.of(i, j, margin=1))
    np.testing.assert_array_equal(judged.answer, np.array([0, 0.5, np.nan], np.float32))
    assert judged.wrong.tolist() == [True, False, False]
    known = judged.in_order()
    assert list(zip(known.i.tolist(), known.j.tolist(), strict=True)) == [(1, 2), (3, 0)]
    assert known.answer.tolist() == [0.5, 1] and known.margin.tolist() == [-1, -1]


def judged_by(score: np.ndarray, group: list[int], seed: int, n: int) -> Queries:
    """n judgements of documents of one feature beside noise."""
    rng = np.random.default_rng(seed)
    X = np.column_stack((score, rng.normal(size=len(score)))).astype(np.float32)
    queries = Queries.from_arrays(X, group=group)
    first = rng.integers(0, len(score), 4 * n)
    query = queries.query_of_docs()
    second = np.array([rng.choice(np.flatnonzero(query == query[k])) for k in first])
    apart = np.flatnonzero(score[first] != score[second])[:n]
    a, b = first[apart], second[apart]
    right = score[a] > score[b]
    return queries.with_judgements(np.where(right, a, b), np.where(right, b, a))


@pytest.mark.parametrize("group", [[60], [6] * 20])
def test_held_out_are_documents_that_the_training_part_does_not_have(group):
    queries = judged_by(np.arange(sum(group), dtype=float), group, 0, 300)
    T, V = hold_out_documents(queries, seed=3)
    seen = set(T.rows.tolist())
    for a, b in zip(V.judged.winner, V.judged.loser, strict=True):
        assert not seen.issuperset(V.rows[[a, b]].tolist())
    assert 0.1 < len(V.judged) / len(queries.judged) < 0.5
    if len(group) == 1:
        assert len(T.judged) + len(V.judged) == len(queries.judged)


@pytest.mark.parametrize(
    ("better", "worse", "more", "fault"),
    [
        ([0], [0], {}, "compared with itself"),
        ([0], [9], {}, "no row 9 among 4"),
        ([0], [2], {}, "rows 0 and 2 are of two queries"),
        ([0], [1], {"soft": [1.5]}, "not a probability: 1.5"),
        ([0], [1], {"weight": [-1]}, "not a weight: -1.0"),
        ([0], [1], {"weight": [1e300]}, "not a weight: 1e\\+300"),
        ([0], [1], {"weight": [1, 2]}, "weight has shape"),
    ],
)
def test_judgements_that_cannot_be_are_refused(better, worse, more, fault):
    queries = Queries.from_arrays(np.zeros((4, 1)), group=[2, 2])
    with pytest.raises(DataError, match=fault):
        queries.with_judgements(better, worse, **more)


def test_accuracy_counts_light_judgements_beside_a_heavy_one():
    m = 3001
    weight = np.append(2.0**24, np.full(m - 1, 0.9, np.float32))
    queries = Queries.from_arrays(np.zeros((m + 1, 1)))
    V = queries.with_judgements(np.arange(1, m + 1), np.zeros(m, int), weight=weight)
    order = np.arange(1, m + 1)[::-1]  # document 1, the heavy one's winner, behind all
    found = evaluate(V, np.append(order[:-1], [0, 1]), Metric("accuracy"))["accuracy"]
    assert found == pytest.approx(1 - weight[0] / weight.sum(), rel=1e-9)


def test_too_few_judgements_are_refused_in_one_line():
    queries = Queries.from_arrays(np.zeros((3, 1))).with_judgements([0], [1])
    with pytest.raises(
        DataError, match=r"too few judged pairs .*: holding some documents out leaves none"
    ):
        hold_out_documents(queries)


def nearest_to_one(asked: list[tuple[str, ...]]):
    """A judge of a hidden truth by document names, unsure of near ones, silent about the last."""

    def judge(queries, i, j):
        asked.extend((queries.source, *sorted(queries.docids[[a, b]])) for a, b in zip(i, j))  # noqa: B905
        x = np.array([float(name) for name in queries.docids])
        p = 1 / (1 + np.exp(20 * (np.abs(x[i] - 1) - np.abs(x[j] - 1))))
        return np.where((x[i] > 1.9) | (x[j] > 1.9), np.nan, p).astype(np.float32)

    return judge


def ungraded(n: int, judge, source: str) -> Queries:
    rng = np.random.default_rng(n)
    x = rng.uniform(0, 2, n * 10)
    queries = Queries.from_arrays(
        np.column_stack((x, rng.normal(size=len(x)))), group=[10] * n,
        docids=[str(value) for value in x], source=source,
    )  # fmt: skip
    return replace(queries, judge=judge)


@pytest.mark.parametrize("pairs", ["wrong", "compared", "uncertain", "random", "top"])
def test_a_judge_is_asked_what_the_strategy_chooses_and_a_resumed_run_goes_on(pairs):
    def run(state=None):
        asked, states = [], []
        T, V = (ungraded(n, nearest_to_one(asked), name) for name, n in (("T", 12), ("V", 6)))
        config = Config(
            quality="accuracy", pairs=pairs, judgements=160,
            max_iter=3, max_stale=None, start="warm",
        ).with_defaults.changed(epochs=2)  # fmt: skip
        end = learn_to_sort(
            T, V, lambda seed: CmpNN(2, hidden=4, seed=seed), config, sink=sink,
            callbacks=[lambda record, state: states.append(state)], state=state,
        )  # fmt: skip
        of_T = [pair for source, *pair in asked if source == "T"]
        return end, states, of_T

    sink = MemoryPairs()
    whole, states, of_T = run()
    assert len(set(map(tuple, of_T))) == len(of_T) == len(whole.asked)
    assert 0 < len(of_T) <= 160
    resumed, _, again = run(states[0])
    assert again == of_T
    np.testing.assert_array_equal(resumed.asked, whole.asked)
    for a, b in zip(resumed.best.parameters(), whole.best.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        (lambda q, i, j: np.zeros(3), r"T: the judge was asked about \d+ pairs .* shape \(3,\)"),
        (lambda q, i, j: np.full(len(i), -1.0), "not a probability: -1"),
        (lambda q, i, j: np.full(len(i), np.nan), "T: no judgement prefers one of two"),
    ],
)
def test_what_a_judge_cannot_say_is_refused(answers, fault):
    T, V = ungraded(6, answers, "T"), ungraded(4, nearest_to_one([]), "V")
    config = Config(quality="accuracy", comparator="cmpnn").with_defaults
    with pytest.raises(DataError, match=fault):
        learn_to_sort(T, V, lambda seed: CmpNN(2, hidden=4, seed=seed), config)


def test_parts_of_one_judge_alone_are_joined():
    judge = nearest_to_one([])
    both = joined([ungraded(6, judge, "T"), ungraded(4, judge, "V")])
    assert both.judge is judge and both.take([9]).judge is judge
    with pytest.raises(DataError, match="V: another judge than that of T"):
        joined([ungraded(6, judge, "T"), ungraded(4, None, "V")])
