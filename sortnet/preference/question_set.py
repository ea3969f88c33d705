"""Questions that are chosen together, before any of them is answered."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.random import Generator

from sortnet.preference.base import Answer, Judgement, Pair, Question
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
    expected: set[frozenset[int]] = set()
    while len(questions) < k:
        asked = session.ask(annotator, 1, busy=taken)
        if not asked:
            break
        (question,) = asked
        taken.update(question.pairs)
        items = frozenset(question.items)
        if question.strategy == _REPEAT and items in expected:
            continue  # nobody has answered it yet
        questions.append(question)
        expected.add(items)
        session.tell(_expected_judgement(session, annotator, question, rng))
    return questions


def _expected_judgement(
    session: Session, annotator: str, question: Question, rng: Generator
) -> Judgement:
    """A judgement drawn by how probable it is by the model."""
    if not question.further:
        return question.answered(annotator, _expected_answer(session, question, rng))
    items = np.array(question.items)
    first = np.full(len(items) - 1, items[0])
    mean, variance = session.posterior.difference(items[1:], first)
    # A draw of each of k items, of which the first is the origin.
    above_first = mean + rng.normal(size=len(mean)) * (1 + variance) ** 0.5
    places = np.argsort(-np.append(0.0, above_first), kind="stable")
    worst = int(places[-1]) if session.study.worst else None
    return question.answered_by_place(annotator, int(places[0]), worst)


def _expected_answer(session: Session, question: Question, rng: Generator) -> Answer:
    """An answer about two items, drawn by how probable it is by the model."""
    left, right = np.array([question.left]), np.array([question.right])
    mean, variance = session.posterior.difference(left, right)
    margin = float(mean[0]) + rng.normal() * float(1 + variance[0]) ** 0.5
    return "left" if margin > 0 else "right"
