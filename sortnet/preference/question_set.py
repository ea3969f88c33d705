"""Questions that are chosen together, before any of them is answered."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.random import Generator

from sortnet.preference.base import Answer, Pair, Question
from sortnet.preference.session import Session

_REPEAT = "repeat"


def question_set(
    session: Session,
    annotator: str,
    k: int,
    *,
    busy: Collection[Pair] = (),
    rng: Generator,
) -> list[Question]:
    """The next k questions for an annotator, which say most together; fewer if fewer are left.

    Each question is chosen as if the questions before it were answered as the model expects. So no
    question asks for what the others will tell.

    Args:
        session: a copy that nobody else uses: the expected answers are added to it.
        busy: pairs, each the lower number first, that must not be asked now.
        rng: draws the expected answers.

    Cost: as `Session.ask` and `Session.tell`, k times.
    """
    questions: list[Question] = []
    taken = {*busy}
    expected: set[Pair] = set()
    while len(questions) < k:
        asked = session.ask(annotator, 1, busy=taken)
        if not asked:
            break
        (question,) = asked
        if question.strategy == _REPEAT and question.pair in expected:
            taken.add(question.pair)  # nobody has answered it yet
            continue
        questions.append(question)
        taken.add(question.pair)
        expected.add(question.pair)
        session.tell(question.answered(annotator, _expected_answer(session, question, rng)))
    return questions


def _expected_answer(session: Session, question: Question, rng: Generator) -> Answer:
    """An answer drawn by how probable it is by the model."""
    left, right = np.array([question.left]), np.array([question.right])
    mean, variance = session.posterior.difference(left, right)
    margin = float(mean[0]) + rng.normal() * float(1 + variance[0]) ** 0.5
    return "left" if margin > 0 else "right"
