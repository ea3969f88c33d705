"""What each strategy asks about, against brute force over every pair of made queries."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.comparators import CmpNN
from sortnet.config import PAIRS, Config, LoopTraining
from sortnet.core import ComparedPairs, Queries
from sortnet.core.pairs import packed, unpacked
from sortnet.learning.loop import learn_to_sort
from sortnet.learning.pairs_to_ask import (
    STRATEGIES,
    SortedPart,
    is_kept,
    kept_share,
    select_pairs,
)
from sortnet.rankers.sortnet import fit
from sortnet.sorting import sort

NET = CmpNN(2, hidden=3, seed=5)
parts = st.builds(
    lambda sizes, n_grades, seed: made(sizes, n_grades, seed),
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.integers(2, 4),
    st.integers(0, 1000),
)
budgets = st.none() | st.integers(0, 80)


def made(sizes: list[int], n_grades: int, seed: int) -> Queries:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    grades = rng.integers(0, n_grades, n)
    grades[: min(n, 2)] = (0, 1)[: min(n, 2)]  # some two grades
    return Queries.from_arrays(rng.normal(0, 1, (n, 2)).astype(np.float32), grades, group=sizes)


def shown(queries: Queries, wanted: int | None = None, asked=(), seed: int = 0) -> SortedPart:
    rng = np.random.default_rng(seed)
    made = sort(NET, queries)
    before = np.array(asked, np.int64)
    return SortedPart(
        queries, NET, wanted, rng, before, order=made.order, compared=made.compared,
        comparisons=len(made.compared),
    )  # fmt: skip


def all_pairs(queries: Queries) -> set[tuple[int, int]]:
    return {
        pair
        for first, end in zip(queries.offsets[:-1], queries.offsets[1:], strict=True)
        for pair in combinations(range(first, end), 2)
    }


def first_keys(queries: Queries, n: int) -> np.ndarray:
    """The keys of the first n pairs, ascending."""
    return np.array(
        [packed(*pair) for pair in map(np.int64, sorted(all_pairs(queries))[:n])], np.int64
    )


def as_set(key) -> set[tuple[int, int]]:
    i, j = unpacked(key)
    return set(zip(i.tolist(), j.tolist(), strict=True))


@pytest.mark.parametrize("strategy", PAIRS)
@given(parts, budgets, st.integers(0, 60))
def test_every_strategy_asks_about_pairs_of_one_query_once_within_the_budget_without_grades(
    strategy, queries, wanted, n_asked
):
    before = first_keys(queries, n_asked)
    key, asked = select_pairs(strategy, shown(queries, wanted, before))
    pairs = as_set(key)
    assert len(pairs) == len(key)
    assert pairs <= all_pairs(queries)
    assert asked.tolist() == sorted(set(before.tolist()) | set(key.tolist()))
    assert wanted is None or len(asked) - len(before) <= wanted
    other_grades = replace(queries, grades=queries.grades.max() - queries.grades)
    again, _ = select_pairs(strategy, shown(other_grades, wanted, before))
    np.testing.assert_array_equal(key, again)  # no strategy looks at grades before it asks


@given(parts)
def test_compared_are_what_the_sort_compared(queries):
    seen = shown(queries)
    compared = zip(seen.compared.i.tolist(), seen.compared.j.tolist(), strict=True)
    expected = {(min(pair), max(pair)) for pair in compared}
    assert as_set(STRATEGIES["compared"](seen)) == expected


def test_random_takes_pairs_by_their_number():
    queries = made([100, 200], 3, 1)
    i, _ = unpacked(STRATEGIES["random"](shown(queries, 5000)))
    share = np.mean(queries.query_of_docs()[i] == 0)
    assert abs(share - 4950 / (4950 + 19900)) < 0.03


def test_uncertain_takes_new_pairs_of_smaller_margins_than_random_ones():
    queries = made([60, 60], 3, 1)
    first = STRATEGIES["random"](shown(queries, 30))
    seen = shown(queries, 100, np.unique(first))
    key = STRATEGIES["uncertain"](seen)
    assert len(set(key.tolist()) - set(first.tolist())) == len(key) == 100
    i, j = np.array(sorted(all_pairs(queries))).T

    def margins(i, j):
        return np.abs(NET.prefer(NET.prepare(queries.features), i, j))

    assert np.median(margins(*unpacked(key))) < np.quantile(margins(i, j), 0.1)


def top_by_brute_force(seen: SortedPart, candidates: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """The wanted ones of the candidates, in ascending order, by certainty and better place."""
    prepared = NET.prepare(seen.queries.features)
    place = {}
    for first, end in zip(seen.queries.offsets[:-1], seen.queries.offsets[1:], strict=True):
        place |= {int(doc): n for n, doc in enumerate(seen.order[first:end])}
    certainty = [abs(float(NET.prefer(prepared, [i], [j])[0])) for i, j in candidates]
    better = [min(place[i], place[j]) for i, j in candidates]

    def share_below(values, value):
        return sum(other < value for other in values) / len(values)

    worth = [
        share_below(certainty, one) + 0.5 * seen.done * share_below(better, two)
        for one, two in zip(certainty, better, strict=True)
    ]
    chosen = sorted(range(len(candidates)), key=lambda k: (worth[k], k))[: seen.wanted]
    return {candidates[k] for k in chosen}


@settings(max_examples=40)
@given(parts, st.integers(1, 10), st.integers(1, 40), st.sampled_from([0.0, 0.4, 1.0]))
def test_top_takes_the_least_sure_and_nearest_the_top_of_all_new_pairs(
    queries, wanted, n_asked, done
):
    every = sorted(all_pairs(queries))
    before = first_keys(queries, n_asked)
    seen = replace(shown(queries, wanted, before), done=done)
    if not len(before):  # the first pairs are random
        return
    with pytest.MonkeyPatch.context() as patch:  # enough random pairs that all are candidates
        patch.setattr("sortnet.learning.pairs_to_ask._CANDIDATES", 4000)
        found = as_set(STRATEGIES["top"](seen))
    new = [pair for pair in every if pair not in as_set(before)]
    assert found == top_by_brute_force(seen, new)


def test_a_run_whose_judge_is_asked_about_both_parts_asks_uncertain_pairs():
    grades = np.random.default_rng(0).integers(0, 3, 60)

    def judge(queries, i, j):
        return (grades[i] > grades[j]).astype(np.float32)

    part = replace(Queries.from_arrays(np.c_[grades], group=[6] * 10), judge=judge)
    settings = Config(judgements=30, trees=2, depth=2, max_iter=2).changed(epochs=2)
    assert fit(part, part, settings).config.pairs == "uncertain"


@pytest.mark.parametrize(
    ("pairs", "first", "then"),
    [("compared", 13, 26), ("uncertain", 13, 26), ("top", 13, 26), ("random", 40, 40)],
)
def test_a_budget_is_spent_over_three_fifths_of_the_trainings_where_what_was_learned_chooses(
    pairs, first, then
):
    queries, asked = made([15, 15], 3, 1), []
    config = Config(
        quality="map", training=LoopTraining(epochs=5, batch_size=8), pairs=pairs, judgements=40,
        max_iter=5, max_stale=None,
    )  # fmt: skip
    learn_to_sort(
        queries, queries, lambda seed: CmpNN(2, hidden=3, seed=seed), config,
        callbacks=[lambda record, state: asked.append(record.observed["train"]["answers"])],
    )  # fmt: skip
    # Random pairs may be the same twice: the next iterations ask for what is left.
    assert 0.75 * first <= asked[0] <= first
    assert 0.9 * then <= asked[1] <= then
    assert set(asked[2:]) <= {39, 40}


def test_of_many_compared_pairs_a_run_keeps_the_same_share_in_every_sort():
    many = Queries.from_arrays(np.zeros((1 << 20, 1)), group=[1 << 10] * (1 << 10))
    share = kept_share("compared", many, 11)  # of 3 sorts of 10 comparisons a document
    assert share == pytest.approx((1 << 21) / (3 * 10 * (1 << 20)))
    i, j = np.random.default_rng(0).choice(1 << 20, (2, 100_000)).astype(np.int32)
    i, j = i[i != j], j[i != j]
    kept = is_kept(ComparedPairs.of(i, j), share)
    assert abs(kept.mean() - share) < 4 * np.sqrt(share / 100_000)  # four standard errors
    turned = is_kept(ComparedPairs.of(j, i), share)
    np.testing.assert_array_equal(turned, kept)  # whichever is first
