"""Questions that are chosen together, before any of them is answered."""

from __future__ import annotations

import numpy as np
import pytest

from sortnet.preference.question_set import question_set
from sortnet.preference.session import Session

N = 30


def session(seed: int, **named) -> Session:
    return Session(None, N, seed=seed, **named)


def joined(pairs) -> int:
    """The number of components that pairs leave of N items, by a plain union-find."""
    root = [*range(N)]

    def of(item: int) -> int:
        while root[item] != item:
            item = root[item]
        return item

    for i, j in pairs:
        root[of(i)] = of(j)
    return len({of(item) for item in range(N)})


@pytest.mark.parametrize("seed", range(3))
def test_questions_chosen_together_are_about_all_items_and_no_pair_twice(seed):
    asked = question_set(session(seed), "m", 60, rng=np.random.default_rng(seed))
    pairs = [question.pair for question in asked]
    assert len(asked) == len({*pairs}) == 60
    first_half = [question.pair for question in asked[:N]]
    assert {item for pair in first_half for item in pair} == {*range(N)}
    assert joined(pairs) == 1


def test_busy_pairs_and_unanswered_repeats_are_not_asked():
    s = session(1, repeats=0.9, holdout=0.0)
    busy = {(0, j) for j in range(1, N)}
    asked = question_set(s, "m", 40, busy=busy, rng=np.random.default_rng(1))
    assert asked and not busy & {question.pair for question in asked}
    # Nothing was answered, so nothing can be repeated.
    assert "repeat" not in {question.strategy for question in asked}


def test_no_more_are_given_than_there_are():
    few = Session(None, 4, seed=0)
    assert len(question_set(few, "m", 50, rng=np.random.default_rng(0))) == 6
