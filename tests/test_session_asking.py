"""Which kind of question a session asks, and that a seed decides every draw."""

from __future__ import annotations

import numpy as np
import pytest

from sortnet.preference.base import Question
from sortnet.preference.session import Session
from sortnet.preference.study import Decision, study_of

GOLD = (Decision("gold", item=2, other=5), Decision("gold", item=7, other=1))
STUDY = study_of([*GOLD, Decision("gold-rate", amount=0.2), Decision("overlap", amount=2)])
# Recorded before the session was divided into asking, fitting and ranking. These strategies do not
# depend on a fit, so that another version of a library asks the same.
RECORDED = {
    "merge": (
        "25gol 52ove 01mer 10ove 68mer 86ove 73mer 17gol 37ove 17ove 21ran 54mer 54ove "
        "75mer 75ove 21mer 35mer 12ran 53ove 82mer 28ove 34mer 34ove 62mer 62ove 58ran "
        "78mer 87ove 76mer 67ove 56mer 05ran 56ove"
    ),
    "random": (
        "25gol 52ove 15uni 51ove 75uni 75ove 02uni 17gol 02ove 17ove 21ran 27uni 72ove "
        "15uni 16uni 16ove 46uni 12ran 64ove 63uni 63ove 34uni 34ove 24uni 24ove 58ran "
        "08uni 08ove 26uni 62ove 54uni 05ran 54ove 13uni 13ove 14ran 41ran 61uni 85ran "
        "50uni 65ran 52gol 60uni 41ran 06ove 36uni 83uni 83ove 56ran 42uni 50uni 18uni "
        "25rep 48ran 53uni 06ran 20rep 73uni 84ran 57rep 84uni 57rep 81ove 74uni 35ove "
        "72rep"
    ),
}


def asked(strategy: str, n_questions: int) -> list[tuple[str, Question]]:
    session = Session(None, 9, seed=4, strategy=strategy, study=STUDY, holdout=0.2, repeats=0.2)
    questions = []
    for k in range(n_questions):
        annotator = ("ana", "ben", "cyn")[k % 3]
        (question,) = session.ask(annotator)
        questions.append((annotator, question))
        better = "left" if question.left > question.right else "right"
        session.tell(question.answered(annotator, better))
    return questions


def in_letters(questions: list[tuple[str, Question]]) -> str:
    """Each question as its items and the first letters of its strategy."""
    return " ".join(f"{q.left}{q.right}{q.strategy[:3]}" for _, q in questions)


@pytest.mark.parametrize("strategy", RECORDED)
def test_the_same_seed_asks_the_recorded_questions(strategy):
    recorded = RECORDED[strategy]
    assert in_letters(asked(strategy, len(recorded.split()))) == recorded


def draws_of(holdout: float, repeats: float, gold_rate: float) -> dict[str, float]:
    """Share of each kind among the first questions of 400 annotators, who have answered eleven."""
    study = study_of([*GOLD, Decision("gold-rate", amount=gold_rate)])
    session = Session(None, 9, seed=1, study=study, holdout=holdout, repeats=repeats)
    kinds = []
    for k in range(400):
        question = session.ask(f"annotator {k}")[0]
        kinds.append("chosen" if question.strategy == "connect" else question.strategy)
    names, counts = np.unique(kinds, return_counts=True)
    return dict(zip(names.tolist(), (counts / 400).tolist(), strict=True))


def test_each_kind_has_its_share():
    shares = draws_of(0.3, 0.1, 0.2)
    # Nobody has answered yet, so that repeats are chosen pairs.
    expected = {"random": 0.3, "gold": 0.2, "chosen": 0.5}
    assert shares == {kind: pytest.approx(share, abs=0.07) for kind, share in expected.items()}


def test_gold_questions_take_all_but_the_repeats_if_their_share_is_one():
    assert draws_of(0.3, 0.25, 1.0) == {
        "gold": pytest.approx(0.75, abs=0.07),
        "chosen": pytest.approx(0.25, abs=0.07),
    }
