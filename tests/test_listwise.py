"""The losses of whole queries against slow ones, at padding and extremes; training by them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from math import exp, log, log1p, log2

import numpy as np
import pytest
import torch
from graded_queries import graded
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.errors import DivergedError
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.listwise import LOSSES as BY_NAME
from sortnet.rankers.listwise import (
    ListwiseSettings,
    hinge,
    lambdarank,
    listnet,
    plackett_luce,
    ranknet,
    softmax,
)

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


def pairs(grades, scores):
    return product(zip(grades, scores, strict=True), repeat=2)


@settings(deadline=None, max_examples=40)
@given(LISTS)
@pytest.mark.parametrize(
    ("fast", "slow"),
    [(ranknet, slow_ranknet), (partial(lambdarank, weighting="none"), slow_ranknet),
     (listnet, slow_listnet),
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


def test_a_grade_of_any_height_leaves_lambdarank_finite():
    grades = torch.tensor([[500.0, 499.0, 0.0]])
    assert torch.isfinite(lambdarank(torch.zeros(1, 3), grades, grades >= 0)).all()


@pytest.mark.parametrize("kind", ["ranknet", "listnet", "lambdarank"])
def test_what_can_be_learned_is_learned_and_the_best_epoch_kept(kind):
    train, vali = graded(0), graded(1)
    ranker = fit_ranker(train, vali, of(kind, scaling="standard", hidden=(8,), lr=0.1))
    assert ranker.info["quality"] > 0.97
    assert 1 <= ranker.info["epoch"] <= 40


def test_runs_of_queries_that_fit_into_memory_give_the_same_gradient(monkeypatch):
    train = graded(0, 4)
    whole = fit_ranker(train, train, of("ranknet", scaling="standard", epochs=2)).scores(train)
    monkeypatch.setattr("sortnet.rankers.listwise._PAIRS_AT_ONCE", 1)  # a query at a time
    parts = fit_ranker(train, train, of("ranknet", scaling="standard", epochs=2)).scores(train)
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-5)


def test_a_loss_that_is_no_number_ends_the_training():
    train = graded(0)
    huge = replace(train, features=train.features * np.float32(1e37))
    with pytest.raises(DivergedError, match=r"in epoch 1: try a lr lower than 1e\+30"):
        fit_ranker(huge, train, of("ranknet", scaling="none", units="relu", lr=1e30))
