"""Costs of questions in the benchmark of fours: quality at equal cost, and where it is equal."""

from __future__ import annotations

import numpy as np
import pytest
from question_costs import Curve, break_even

QUESTIONS = np.array([10.0, 20.0, 40.0])
PAIRS = Curve(QUESTIONS, np.zeros((2, 3)), np.array([[0.2, 0.4, 0.6], [0.4, 0.6, 0.8]]))
# Every other question is about four; they are as good as pairs that are twice as many.
FOURS = Curve(QUESTIONS, np.array([QUESTIONS / 2] * 2), np.array([[0.4, 0.6, 0.7]] * 2))


def test_questions_of_which_half_are_about_four_cost_twice_as_much_if_a_four_costs_three_pairs():
    assert FOURS.cost(3).tolist() == [[20, 40, 80]] * 2
    assert FOURS.quality_at(30, 3).tolist() == pytest.approx([0.5, 0.5])
    assert PAIRS.quality_at(15, 1).tolist() == pytest.approx([0.3, 0.5])


def test_a_four_may_cost_so_much_that_as_good_fours_cost_what_the_pairs_do():
    # 20 pairs have a mean of .5, as 15 questions do, half of them about four: 7.5 + 7.5 f = 20
    assert break_even(PAIRS, FOURS, 20) == pytest.approx(12.5 / 7.5)
