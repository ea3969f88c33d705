"""The losses of whole queries against slow ones, at padding and extremes; training by them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import cos, exp, log, log1p, log2, pi

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.comparators.losses import LOSSES as BY_NAME
from sortnet.comparators.losses import hinge, lambdarank, listnet, plackett_luce, ranknet, softmax
from sortnet.core import Queries
from sortnet.errors import DataError, DivergedError
from sortnet.metrics import Metric, per_query
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.listwise import ListwiseSettings

LOSSES = (ranknet, listnet, lambdarank)
LISTS = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-8, 8)), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


def of(algorithm: str, **settings) -> ListwiseSettings:
    return ListwiseSettings(algorithm=algorithm, **settings)


def padded(lists):
    """Scores, grades and mask of lists of (grade, score), with rubbish where there is none."""
    n = max(map(len, lists), default=1)
    scores, grades = torch.full((len(lists), n), 77.0).double(), torch.full((len(lists), n), 3.0)
    there = torch.zeros(len(lists), n, dtype=torch.bool)
    for q, documents in enumerate(lists):
        for d, (grade, score) in enumerate(documents):
            scores[q, d], grades[q, d], there[q, d] = score / 4, grade, True
    grades[~there] = 0
    return scores, grades, there


def slow_ranknet(grades, scores):
    over = [log1p(exp(t - s)) for (g, s), (h, t) in pairs(grades, scores) if g > h]
    return sum(over) / len(over) if over else 0.0


def slow_listnet(grades, scores):
    p, q = ([exp(x) / sum(map(exp, all_)) for x in all_] for all_ in (grades, scores))
    return -sum(a * log(b) for a, b in zip(p, q, strict=True))


def slow_hinge(grades, scores):
    over = [max(0, 1 - (s - t)) for (g, s), (h, t) in pairs(grades, scores) if g > h]
    return sum(over) / len(over) if over else 0.0


def slow_plackett_luce(grades, scores):
    total = 0.0
    for g, s in zip(grades, scores, strict=True):
        lower = [t for h, t in zip(grades, scores, strict=True) if h < g]
        total -= log(exp(s) / (exp(s) + sum(map(exp, lower))))
    return total


def slow_softmax(grades, scores):
    return 0.0 if len(set(grades)) == 1 else slow_listnet(grades, scores)


def slow_lambdarank(grades, scores):
    """|delta NDCG| by swapping the two documents in the ranking and measuring again."""
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    total = 0.0
    for a, b in product(range(len(scores)), repeat=2):
        if grades[a] > grades[b]:
            swapped = [b if d == a else a if d == b else d for d in order]
            before, after = ndcg([grades[d] for d in order]), ndcg([grades[d] for d in swapped])
            total += abs(before - after) * log1p(exp(scores[b] - scores[a]))
    return total


def ndcg(grades):
    return per_query(Metric("ndcg"), grades, [0, len(grades)])[0]


def pairs(grades, scores):
    return product(zip(grades, scores, strict=True), repeat=2)


@settings(deadline=None, max_examples=40)
@given(LISTS)
@pytest.mark.parametrize(
    ("fast", "slow"),
    [(ranknet, slow_ranknet), (listnet, slow_listnet), (lambdarank, slow_lambdarank),
     (hinge, slow_hinge), (plackett_luce, slow_plackett_luce), (softmax, slow_softmax)],
)  # fmt: skip
def test_losses_of_padded_queries_equal_slow_ones_of_each(fast, slow, lists):
    found = fast(*padded([*lists, []]))  # a query without a document, too
    expected = [slow([g for g, _ in one], [s / 4 for _, s in one]) for one in lists]
    assert found.tolist() == pytest.approx([*expected, 0.0], abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(LISTS)
@pytest.mark.parametrize("loss", BY_NAME.values(), ids=BY_NAME)
def test_gradients_are_finite_0_in_the_padding_and_without_two_grades(loss, lists):
    scores, grades, there = padded([*lists, []])
    scores = (scores * 1000).requires_grad_()
    losses = loss(scores, grades, there)
    losses.sum().backward()
    assert torch.isfinite(scores.grad).all() and (losses >= 0).all()
    assert (scores.grad[~there] == 0).all()
    for of_one, gradient, one in zip(losses, scores.grad, lists, strict=False):
        if len({grade for grade, _ in one}) == 1:
            assert of_one == 0 and (gradient == 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_equal_finite_differences(loss):
    rng = np.random.default_rng(0)
    grades = torch.from_numpy(rng.integers(0, 3, (3, 5)).astype(np.float32))
    there = torch.arange(5) < torch.tensor([[5], [3], [1]])
    scores = torch.from_numpy(rng.permutation(15.0 * np.arange(15)).reshape(3, 5) / 40)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: loss(s, grades * there, there), (scores,))
    loss(scores, grades * there, there).sum().backward()
    assert (scores.grad[~there] == 0).all()


def gradient(loss, lists, **given):
    """The gradient of each list's loss by its scores, without the padding."""
    scores, grades, there = padded(lists)
    loss(scores.requires_grad_(), grades, there, **given).sum().backward()
    return [row[: len(one)].tolist() for row, one in zip(scores.grad, lists, strict=True)]


def lambdas(grades, scores, ranked):
    """lambda_i = -(its pairs over others) + (others over it) of |dNDCG| / (1 + exp(s_i - s_j))."""
    place = {d: k for k, d in enumerate(sorted(range(len(scores)), key=lambda d: -ranked[d]), 1)}
    ideal = sum((2**g - 1) / log2(1 + k) for k, g in enumerate(sorted(grades, reverse=True), 1))
    found = [0.0] * len(scores)
    for i, j in product(range(len(scores)), repeat=2):
        if grades[i] > grades[j]:
            before = 2 ** grades[i] / log2(1 + place[i]) + 2 ** grades[j] / log2(1 + place[j])
            after = 2 ** grades[j] / log2(1 + place[i]) + 2 ** grades[i] / log2(1 + place[j])
            pull = abs(before - after) / ideal / (1 + exp(scores[i] - scores[j]))
            found[i] -= pull
            found[j] += pull
    return found


@settings(deadline=None, max_examples=40)
@given(LISTS)
@pytest.mark.parametrize("weighting", ["delta", "ideal"])
def test_the_gradients_of_lambdarank_are_burges_lambdas(weighting, lists):
    grads = gradient(lambdarank, lists, weighting=weighting)
    for found, one in zip(grads, lists, strict=True):
        grades, scores = [g for g, _ in one], [s / 4 for _, s in one]
        expected = lambdas(grades, scores, scores if weighting == "delta" else grades)
        assert found == pytest.approx(expected, abs=1e-6)


def test_the_weighting_is_a_setting_that_is_saved_and_checked():
    assert of("lambdarank").weighting == "delta"
    ideal = of("lambdarank", weighting="ideal")
    assert ListwiseSettings.from_json(ideal.to_json()) == ideal
    one = torch.tensor([[1.0, 0.0]])
    none, delta = (float(of("lambdarank", weighting=w).query_loss(0 * one, one, one >= 0)[0])
                   for w in ("none", "delta"))  # fmt: skip
    assert none == float(ranknet(0 * one, one, one >= 0)[0]) > delta
    with pytest.raises(DataError, match="unknown weighting 'x'"):
        of("lambdarank", weighting="x")


def test_a_grade_of_any_height_leaves_lambdarank_finite():
    grades = torch.tensor([[500.0, 499.0, 0.0]])
    assert torch.isfinite(lambdarank(torch.zeros(1, 3), grades, grades >= 0)).all()


def made(seed: int, n: int = 20) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * 8, 3)).astype(np.float32)
    grades = np.clip(np.round(X[:, 0] - X[:, 1] + 1), 0, 4).astype(int)
    return Queries.from_arrays(X, grades, group=[8] * n)


@pytest.mark.parametrize("kind", ["ranknet", "listnet", "lambdarank"])
def test_what_can_be_learned_is_learned_and_the_best_epoch_kept(kind):
    train, vali = made(0), made(1)
    ranker = fit_ranker(train, vali, of(kind, scaling="standard", hidden=(8,), lr=0.1))
    assert ranker.info["quality"] > 0.97
    assert 1 <= ranker.info["epoch"] <= 40


def by_plain_arithmetic(part, V, b, w, *, adam: bool, epochs: int, lr: float, decay: float):
    """The weights of g(x) = w tanh(xV + b) after each epoch of one batch of all queries."""
    weights = [V, b, w]
    first, second = ([np.zeros_like(a) for a in weights] for _ in range(2))
    X, query = part.features.astype(float), part.query_of_docs()
    n_queries = query.max() + 1
    P, found = np.exp(part.grades), []
    P = P / np.bincount(query, P)[query]
    for t in range(1, epochs + 1):
        V, b, w = weights
        h = np.tanh(X @ V + b)
        Q = np.exp(h @ w)
        by_score = (Q / np.bincount(query, Q)[query] - P) / n_queries
        by_unit = by_score[:, None] * w * (1 - h**2)
        gradients = [X.T @ by_unit, by_unit.sum(0), h.T @ by_score]
        # One cycle: by half a cosine from 1 / 25 of the highest rate up to it, in the first 30 %
        # of the steps, and down to 1 / 250,000.
        peak, last = 0.3 * epochs - 1, epochs - 1
        up = t - 1 <= peak
        at = (t - 1) / peak if up else (t - 1 - peak) / (last - peak)
        start, end = (lr / 25, lr) if up else (lr, lr / 25e4)
        rate = end + (start - end) * (1 + cos(pi * at)) / 2
        for k, gradient in enumerate(gradients):
            if adam:  # with weight decay apart from the gradient
                first[k] = 0.9 * first[k] + 0.1 * gradient
                second[k] = 0.999 * second[k] + 0.001 * gradient**2
                size = np.sqrt(second[k] / (1 - 0.999**t)) + 1e-8
                step = first[k] / (1 - 0.9**t) / size + decay * weights[k]
            else:  # gradient descent with momentum and an L2 penalty
                first[k] = step = 0.9 * first[k] + gradient + decay * weights[k]
            weights[k] = weights[k] - rate * step
        found.append(weights.copy())
    return found


@pytest.mark.parametrize("kind", ["listnet", "listnet-star"])
def test_listnet_goes_down_its_gradient_and_listnet_star_by_adamw_with_decay(kind):
    train, vali = made(0, 4), made(1, 4)
    config = of(kind, scaling="none", hidden=(3,), epochs=10, lr=0.5, weight_decay=0.2)

    def numbers(net):
        (V,), (b,) = net.feature_part.weights, net.feature_part.biases
        return [a.detach().numpy().astype(float) for a in (V, b, net.w[:, 0])]

    found = fit_ranker(train, vali, config)
    adam = kind == "listnet-star"
    each = by_plain_arithmetic(
        train, *numbers(config.make(3)(config.seed).members[0]),
        adam=adam, epochs=10, lr=0.05 if adam else 0.5, decay=0.2,
    )  # fmt: skip
    for ours, expected in zip(
        numbers(found.comparator.members[0]), each[found.info["epoch"] - 1], strict=True
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)
    assert found.info["epoch"] > 1


def test_runs_of_queries_that_fit_into_memory_give_the_same_gradient(monkeypatch):
    train = made(0, 4)
    whole = fit_ranker(train, train, of("ranknet", scaling="standard", epochs=2)).scores(train)
    monkeypatch.setattr("sortnet.rankers.listwise._PAIRS_AT_ONCE", 1)  # a query at a time
    parts = fit_ranker(train, train, of("ranknet", scaling="standard", epochs=2)).scores(train)
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-5)


def test_a_loss_that_is_no_number_ends_the_training():
    train = made(0)
    huge = replace(train, features=train.features * np.float32(1e37))
    with pytest.raises(DivergedError, match=r"in epoch 1: try a lr lower than 1e\+30"):
        fit_ranker(huge, train, of("ranknet", scaling="none", units="relu", lr=1e30))
