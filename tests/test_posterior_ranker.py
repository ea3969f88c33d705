"""The posterior as a ranker and as a comparator, against the preference model it is of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sortnet import SortNetRanker
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.explanation.attribution import explain_pair
from sortnet.preference.answers import choices_of_two
from sortnet.preference.model import Annotators, Columns, Prior, fit
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.posterior_ranker import PosteriorSettings, Scores
from sortnet.sorting import sort
from sortnet.sorting.diagnostics import cyclic_triples

N, D = 40, 3


def judged(seed: int, n: int = 150) -> Queries:
    """Documents whose score is linear in standard features, with noisy judgements."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)).astype(np.float32)
    score = X @ [2.0, -1.0, 0.0]
    i, j = rng.integers(0, N, (2, n))
    i, j = i[i != j], j[i != j]
    left = score[i] - score[j] + rng.normal(size=len(i)) > 0
    queries = Queries.from_arrays(X, feature_names=["a", "b", "c"])
    return queries.with_judgements(np.where(left, i, j), np.where(left, j, i))


@pytest.fixture(scope="module")
def queries() -> Queries:
    return judged(0)


@pytest.fixture(scope="module")
def ranker(queries):
    return fit_ranker(queries, queries, PosteriorSettings(scaling="standard"))


def test_new_documents_are_ordered_by_the_truth(ranker):
    new = np.random.default_rng(5).normal(size=(200, D)).astype(np.float32)
    scores = ranker.scores(Queries.from_arrays(new))
    assert np.corrcoef(scores, new @ [2.0, -1.0, 0.0])[0, 1] > 0.95


def test_a_margin_is_the_expected_difference_over_its_spread(ranker):
    new = Queries.from_arrays(np.random.default_rng(6).normal(size=(30, D)).astype(np.float32))
    i, j = np.arange(29), np.arange(1, 30)
    X = ranker.scaler(new).features.astype(np.float64)
    of = ranker.comparator
    for a, b, margin in zip(i, j, ranker.margins(new, i, j), strict=True):
        gap = X[a] - X[b]
        spread = np.sqrt(np.var([gap @ w for w in of.draws]) + 2 * of.residual)
        assert margin == pytest.approx(gap @ of.mean / spread, rel=1e-4, abs=1e-5)
    scores = ranker.scores(new)
    assert np.array_equal(np.sign(ranker.margins(new, i, j)), np.sign(scores[i] - scores[j]))


def test_the_draws_are_of_the_weights_about_their_mean(ranker):
    draws = ranker.comparator.draws
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - ranker.comparator.mean) < 6 * error).all()
    assert len(fit_ranker_of(judged(1, 2000)).comparator.draws)
    # More judgements, less spread.
    assert (fit_ranker_of(judged(1, 2000)).comparator.draws.std(axis=0) < draws.std(axis=0)).all()


def fit_ranker_of(queries: Queries):
    return fit_ranker(queries, queries, PosteriorSettings(scaling="standard"))


def test_a_weight_counts_as_that_many_answers():
    rng = np.random.default_rng(2)
    X, n = rng.normal(size=(12, 2)), 30
    left = rng.integers(0, 12, n)
    right = (left + rng.integers(1, 12, n)) % 12
    share = rng.choice([0.0, 0.5, 1.0], n)
    times = rng.integers(1, 4, n)
    none = np.zeros(n, np.int64)
    once = choices_of_two(np.column_stack((left, right)), share, none, none)
    repeated = once.where(np.repeat(np.arange(n), times))
    prior = Prior(Columns(X), share=0.5)
    scores = [
        fit(answers, prior, Annotators.average(1), seed=0).scores
        for answers in (replace(once, weight=times.astype(float)), repeated)
    ]
    assert scores[0] == pytest.approx(scores[1])


def test_it_sorts_as_a_comparator_and_never_in_circles(ranker, queries):
    scaled = ranker.scaler(queries)
    order = sort(ranker.comparator, scaled).order
    assert order.tolist() == ranker.order(queries).tolist()
    assert cyclic_triples(ranker.comparator, scaled, samples=300).share == 0


def test_it_is_explained_evaluated_and_saved_as_any_ranker(ranker, queries, tmp_path):
    found = explain_pair(ranker, queries, 0, 1)
    margin = float(ranker.margins(queries, [0], [1])[0])
    assert found.margin == pytest.approx(margin, rel=1e-4)
    ranker.save(tmp_path / "m")
    again = load_ranker(tmp_path / "m")
    assert again.config == ranker.config and again.info["quality"] == ranker.info["quality"]
    assert np.array_equal(again.scores(queries), ranker.scores(queries))
    assert np.array_equal(
        again.margins(queries, [0, 1], [2, 3]), ranker.margins(queries, [0, 1], [2, 3])
    )


def test_the_estimator_takes_it_and_grades_are_refused(queries):
    assert isinstance(fit_ranker_of(queries).comparator, Scores)
    pairs = np.stack((queries.judged.winner, queries.judged.loser), axis=1)
    soft = queries.judged.target
    net = SortNetRanker(ranker="posterior", single_query=True)
    net.fit_pairs(queries.features, pairs, soft=soft)
    assert net.score_pairs(queries.features, pairs, soft=soft) > 0.8
    with pytest.raises(DataError, match="learned from judged pairs, not grades"):
        SortNetRanker(ranker="posterior").fit(queries.features, np.arange(N) % 3, group=[10] * 4)
