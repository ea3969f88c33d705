"""The losses of whole queries: worked by hand, against slow ones, at ties, padding and extremes."""

from __future__ import annotations

from itertools import permutations
from math import exp, log, log1p

import pytest
import torch
from hypothesis import given, settings
from test_listwise import LISTS, pairs, slow_ranknet

from sortnet.comparators.losses import LOSSES, hinge, plackett_luce, ranknet, softmax


def of_one(loss, grades, scores) -> float:
    scores, grades = torch.tensor([scores]).double(), torch.tensor([grades]).float()
    return float(loss(scores, grades, torch.ones(grades.shape, dtype=torch.bool)))


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
    if len(set(grades)) == 1:
        return 0.0
    p, q = ([exp(x) / sum(map(exp, all_)) for x in all_] for all_ in (grades, scores))
    return -sum(a * log(b) for a, b in zip(p, q, strict=True))


# Three documents, the best scored in the middle: s = 1, 2, 0 of grades 2, 1, 0.
WORKED = {
    "logistic": (log1p(exp(1)) + log1p(exp(-1)) + log1p(exp(-2))) / 3,
    "hinge": (2 + 0 + 0) / 3,
    "plackett-luce": log(exp(1) + exp(2) + 1) - 1 + log(exp(2) + 1) - 2,
    "softmax": log(exp(1) + exp(2) + 1) - (exp(2) * 1 + exp(1) * 2) / (exp(2) + exp(1) + 1),
}
# Grades 1, 1, 0 of s = 0, 1, 0: the two tied ones are in no order.
TIED = {
    "logistic": (log(2) + log1p(exp(-1))) / 2,
    "hinge": (1 + 0) / 2,
    "plackett-luce": log(2) + log1p(exp(-1)),
    "softmax": log(2 + exp(1)) - exp(1) / (2 * exp(1) + 1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_worked_by_hand_without_and_with_ties(name):
    assert of_one(LOSSES[name], [2, 1, 0], [1.0, 2.0, 0.0]) == pytest.approx(WORKED[name])
    assert of_one(LOSSES[name], [1, 1, 0], [0.0, 1.0, 0.0]) == pytest.approx(TIED[name])


def padded(lists):
    from test_listwise import padded as with_rubbish

    return with_rubbish([*lists, []])  # a query without a document, too


@settings(deadline=None, max_examples=60)
@given(LISTS)
@pytest.mark.parametrize(
    ("fast", "slow"),
    [(ranknet, slow_ranknet), (hinge, slow_hinge), (plackett_luce, slow_plackett_luce),
     (softmax, slow_softmax)],
)  # fmt: skip
def test_losses_of_padded_queries_equal_slow_ones_of_each(fast, slow, lists):
    found = fast(*padded(lists))
    expected = [slow([g for g, _ in one], [s / 4 for _, s in one]) for one in lists]
    assert found.tolist() == pytest.approx([*expected, 0.0], abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(LISTS)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_finite_0_in_the_padding_and_without_two_grades(name, lists):
    scores, grades, there = padded(lists)
    scores = (scores * 1000).requires_grad_()
    losses = LOSSES[name](scores, grades, there)
    losses.sum().backward()
    assert torch.isfinite(scores.grad).all() and (losses >= 0).all()
    assert (scores.grad[~there] == 0).all()
    for loss, gradient, one in zip(losses, scores.grad, lists, strict=False):
        if len({grade for grade, _ in one}) == 1:
            assert loss == 0 and (gradient == 0).all()


def test_plackett_luce_without_ties_is_a_probability_over_all_rankings():
    scores = [0.3, -1.0, 2.0, 0.0]
    each = [exp(-of_one(plackett_luce, list(p), scores)) for p in permutations(range(4))]
    assert sum(each) == pytest.approx(1)


@settings(deadline=None, max_examples=60)
@given(LISTS)
def test_hinge_is_never_below_the_share_of_pairs_in_the_wrong_order(lists):
    for loss, one in zip(hinge(*padded(lists)), lists, strict=False):
        over = [t >= s for (g, s), (h, t) in pairs(*zip(*one, strict=True)) if g > h]
        assert not over or float(loss) >= sum(over) / len(over) - 1e-9
