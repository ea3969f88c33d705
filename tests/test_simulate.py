"""Simulated people and real votes as the oracle: truths, samplers, scorer, errors."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.errors import JudgementError
from sortnet.lab.asking_sorts import SORTS, next_items
from sortnet.lab.recorded_votes import VotingAnnotators, accuracy, majority, simulate_votes
from sortnet.lab.simulated_annotators import (
    features_truth,
    ids_truth,
    simulate,
    summary,
)
from sortnet.preference.comparisons import Comparisons


def values_of(results, strategy, questions, value="spearman"):
    of_strategy = results[(results.strategy == strategy) & (results.questions == questions)]
    return of_strategy[value].to_numpy()


def replies(sort, reply):
    """Run a sort to its end; return the items of its questions."""
    asked, items = [], next(sort, None)
    while items is not None:
        asked.append(items)
        items = next_items(sort, reply(items))
    return asked


def votes_of(scores, pairs, each):
    """Every pair so many times, the better item winning."""
    left, right = np.array(pairs * each).T
    return Comparisons.of_one(left, right, (scores[left] > scores[right]).astype(float))


def test_scores_of_ids_are_uniform_from_zero_up_to_five():
    scores = ids_truth(20_000, np.random.default_rng(0))
    assert scores.min() == 0 and 4.99 < scores.max() <= 5
    assert np.histogram(scores, 5, (0, 5))[0] == pytest.approx([4000] * 5, rel=0.06)


def test_so_large_a_share_of_the_variance_as_asked_is_outside_the_features():
    X, scores = features_truth(20_000, 3, 0.2, np.random.default_rng(0))
    w, *_ = np.linalg.lstsq(X, scores, rcond=None)
    assert (scores - X @ w).var() / scores.var() == pytest.approx(0.2, abs=0.01)
    X, scores = features_truth(50, 3, 0.0, np.random.default_rng(0))
    w, *_ = np.linalg.lstsq(X, scores, rcond=None)
    assert X @ w == pytest.approx(scores)


@given(st.permutations(range(13)), st.integers(1, 13), st.sampled_from(sorted(SORTS)))
def test_a_sort_with_a_judge_who_is_right_has_the_best_first(items, top, name):
    order = list(items)
    asked = replies(SORTS[name](order, top), max)
    assert sorted(order) == list(range(13))
    assert order[:top] == list(range(13))[::-1][:top]
    most = 4 if name == "setwise-heapsort" else 2
    assert all(2 <= len({*question}) == len(question) <= most for question in asked)
    limits = {
        "bubble": sum(12 - k for k in range(top)),  # 12 + 11 + ...
        "heapsort": 2 * 13 + 2 * 3 * (top - 1),  # 2 n for the heap, 2 floor(log2 n) an item taken
        "quicksort": 13 * 12 // 2,
        "merge-sort": 13 * 4,  # n ceil(log2 n)
    }
    assert len(asked) <= limits.get(name, 60)


@pytest.mark.parametrize("name", SORTS)
@given(order=st.permutations(range(11)), random=st.randoms())
def test_sorts_end_whatever_is_said(name, order, random):
    order = list(order)
    asked = replies(SORTS[name](order, 3), random.choice)
    assert len(asked) <= 11 * 11 and sorted(order) == list(range(11))


def test_every_strategy_meets_the_same_truths_and_improves_with_questions():
    strategies = ["default", "random", "quicksort", "merge-sort"]
    results = simulate(strategies, [8, 60], n=8, seeds=1)
    assert len(results) == len(strategies) * 2
    for name in strategies:
        assert values_of(results, name, 60).mean() > values_of(results, name, 8).mean()
        assert (
            values_of(results, name, 60, "rmse").mean() < values_of(results, name, 8, "rmse").mean()
        )


@pytest.mark.slow
def test_a_seed_gives_the_same_figures_again_in_one_process_or_two():
    def figures(**options):
        found = simulate(["default", "merge-sort"], [6, 12], n=5, seeds=3, **options)
        return found.drop(columns="ms").to_dict("records")

    first = figures()
    assert figures() == first
    assert figures(jobs=2) == first
    assert figures(seed=1) != first


def test_means_errors_and_intervals_are_those_of_the_seeds():
    results = simulate(["random"], [10], n=5, seeds=4)
    values = results["spearman"]
    (row,) = summary(results, ["spearman"], ["strategy", "questions"]).to_dict("records")
    error = np.std(values, ddof=1) / 2
    assert row["spearman"] == pytest.approx(np.mean(values))
    assert row["spearman_se"] == pytest.approx(error)
    assert row["spearman_high"] - row["spearman_low"] == pytest.approx(2 * 1.96 * error)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategies": ["guess"]}, "unknown strategy 'guess'"),
        ({"budgets": [100]}, "100 questions about 5 items: 4 annotators can be asked 40"),
        ({"top": 5}, "the top items are from 1 to 4 of 5, not 5"),
        ({"strategies": ["top"]}, "from 1 to 4 of 5, not 0"),
        ({"strategies": ["default", "sets-4"], "n": 8, "budgets": [30]}, "can be asked 18"),
    ],
)
def test_what_cannot_be_simulated_is_refused(options, words):
    with pytest.raises(JudgementError, match=words):
        simulate(**{"strategies": ["random"], "budgets": [5], "n": 5, "seeds": 1, **options})


def test_the_majority_decides_a_pair_whichever_side_an_item_stood_on():
    known = Comparisons.of_one(
        np.array([0, 1, 0, 1, 2, 3]), np.array([1, 0, 1, 2, 1, 2]),
        np.array([1.0, 0.0, 0.5, 1.0, 1.0, 0.0]),
    )  # fmt: skip
    kept = majority(known)
    # 0 has all votes against 1; 1 and 2 have one each; 2 beats 3.
    rows = list(zip(kept.left.tolist(), kept.right.tolist(), kept.target.tolist(), strict=True))
    assert rows == [(0, 1, 1.0), (2, 3, 1.0)]


def test_an_accuracy_counts_equal_scores_half():
    known = Comparisons.of_one(np.array([0, 1, 0]), np.array([1, 2, 3]), np.ones(3))
    assert accuracy(np.array([3.0, 1.0, 1.0, 9.0]), known) == pytest.approx((1 + 0.5 + 0) / 3)


def test_recorded_votes_teach_a_session_the_held_out_pairs():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16, 2))
    scores = X @ [3.0, -2.0]
    known = votes_of(scores, list(combinations(range(16), 2)), 3)
    results = simulate_votes(X, known, ["default", "random"], [4, 60], seeds=2)
    assert results[["strategy", "seed", "questions"]].to_numpy().tolist()[:2] == [
        ["default", 0, 4], ["default", 0, 60],
    ]  # fmt: skip
    for name in ("default", "random"):
        assert values_of(results, name, 60, "accuracy").min() > 0.85
    with pytest.raises(JudgementError, match="999 votes are to be used, and there are 288"):
        simulate_votes(X, known, ["random"], [999])


def test_the_best_of_four_has_most_votes_the_worst_fewest_and_each_vote_is_used_once():
    # Votes for the first item of two.
    votes = Comparisons.of_one(*np.array([[2, 2, 2, 0, 3, 3], [0, 1, 3, 1, 0, 1]]), np.ones(6))
    rng = np.random.default_rng(0)
    annotators = VotingAnnotators(np.empty((4, 0)), rng, votes, votes)
    answer = annotators.answer((0, 1, 2, 3))
    assert (answer.best, answer.worst) == (2, 1)
    assert annotators.answer((0, 1, 2, 3)).word == "cant-say"


def test_groups_of_votes_are_collections_that_the_seeds_take_in_turn():
    pairs = [*combinations(range(10), 2), *combinations(range(10, 20), 2)]
    known = votes_of(np.arange(20.0), pairs, 2)
    group = (known.left >= 10).astype(int)
    results = simulate_votes(np.empty((20, 0)), known, ["random"], [60], group=group, seeds=2)
    for k in (0, 1):
        sides = known.where(group == k)
        alone = Comparisons.of_one(sides.left - 10 * k, sides.right - 10 * k, sides.target)
        one = simulate_votes(np.empty((10, 0)), alone, ["random"], [60], seeds=k + 1)
        assert results.accuracy[k] == one.accuracy[k] > 0.75
