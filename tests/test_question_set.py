"""Questions that are chosen together, before any of them is answered."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import spearmanr

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
def test_questions_that_are_to_join_items_join_new_ones_each(seed):
    asked = question_set(session(seed), "m", 60, rng=np.random.default_rng(seed))
    assert len(asked) == 60
    pairs = [question.pair for question in asked]
    assert len({*pairs}) == 60
    connecting = [question.pair for question in asked if question.strategy == "connect"]
    assert joined(connecting) == N - len(connecting)  # a forest: none of them was known before
    assert joined(pairs) == 1
    one_by_one = session(seed).ask("m", 60)
    connecting = [question.pair for question in one_by_one if question.strategy == "connect"]
    assert joined(connecting) > N - len(connecting)  # what a set avoids


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


@pytest.mark.slow
def test_sets_find_the_order_sooner_than_the_best_questions_one_by_one():
    def spearman(seed: int, *, together: bool) -> float:
        rng = np.random.default_rng(seed)
        truth = 1.5 * rng.normal(size=N)
        s = session(seed)
        for _ in range(2):
            if together:
                copy = session(seed)
                copy.replay(s.judgements())
                asked = question_set(copy, "m", N, rng=np.random.default_rng(seed))
            else:
                asked = s.ask("m", N)
            for question in asked:
                p = ndtr(truth[question.left] - truth[question.right])
                s.tell(question.answered("m", "left" if rng.random() < p else "right"))
        s.refit()
        return float(spearmanr(truth, s.posterior.scores)[0])

    gains = [spearman(k, together=True) - spearman(k, together=False) for k in range(8)]
    assert np.mean(gains) > 0
