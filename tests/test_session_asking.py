"""Which kind of question a session asks, and that a seed decides every draw."""

from __future__ import annotations

import numpy as np
import pytest

from sortnet.preference.base import Question
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, study_of

GOLD = (Decision("gold", item=2, other=5), Decision("gold", item=7, other=1))
STUDY = study_of([*GOLD, Decision("gold-rate", amount=0.2), Decision("overlap", amount=2)])


def asked(strategy: str, n_questions: int, *, seed: int = 4) -> list[tuple[str, Question]]:
    session = Session(None, 9, seed=seed, strategy=strategy, study=STUDY, holdout=0.2, repeats=0.2)
    questions = []
    for k in range(n_questions):
        annotator = ("ana", "ben", "cyn")[k % 3]
        (question,) = session.ask(annotator)
        questions.append((annotator, question))
        better = "left" if question.left > question.right else "right"
        session.tell(question.answered(annotator, better))
    return questions


@pytest.mark.parametrize("strategy", ["default", "random"])
def test_a_seed_decides_every_question(strategy):
    questions = asked(strategy, 70)
    assert asked(strategy, 70) == questions
    assert asked(strategy, 70, seed=5) != questions
    chosen = "uniform" if strategy == "random" else "informative"
    kinds = {question.strategy for _, question in questions}
    assert kinds == {chosen, "random", "gold", "overlap", "repeat"}


def draws_of(holdout: float, repeats: float, gold_rate: float) -> dict[str, float]:
    """Share of each kind among the first questions of 400 annotators, who have answered eleven."""
    study = study_of([*GOLD, Decision("gold-rate", amount=gold_rate)])
    session = Session(None, 9, seed=1, study=study, holdout=holdout, repeats=repeats)
    kinds = []
    for k in range(400):
        question = session.ask(f"annotator {k}")[0]
        kinds.append(question.strategy)
    names, counts = np.unique(kinds, return_counts=True)
    return dict(zip(names.tolist(), (counts / 400).tolist(), strict=True))


def test_each_kind_has_its_share():
    shares = draws_of(0.3, 0.1, 0.2)
    # Nobody has answered yet, so that repeats are informative questions.
    expected = {"random": 0.3, "gold": 0.2, "informative": 0.5}
    assert shares == {kind: pytest.approx(share, abs=0.07) for kind, share in expected.items()}


def test_gold_questions_take_all_but_the_repeats_if_their_share_is_one():
    assert draws_of(0.3, 0.25, 1.0) == {
        "gold": pytest.approx(0.75, abs=0.07),
        "informative": pytest.approx(0.25, abs=0.07),
    }
