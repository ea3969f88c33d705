"""Choose several questions for an annotator together, before the first is answered."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.random import Generator

from sortnet.preference.base import Judgement, Pair, Question
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
    """Choose the next k questions for an annotator together; fewer if fewer are left.

    After each question, an answer is drawn from the model and added to the session. So the next
    question does not ask for the same information again.

    Args:
        session: a copy that nobody else uses, because the drawn answers are added to it.
        annotator: the name of the annotator.
        k: number of questions.
        busy: pairs of items that must not be asked now, each with the lower number first.
        rng: draws the answers.

    Cost: k times the cost of `Session.ask` and `Session.tell`.
    """
    questions: list[Question] = []
    taken = {*busy}
    asked_items: set[frozenset[int]] = set()
    while len(questions) < k:
        next_questions = session.ask(annotator, 1, busy=taken)
        if not next_questions:
            break
        (question,) = next_questions
        taken.update(question.pairs)
        items = frozenset(question.items)
        if question.strategy == _REPEAT and items in asked_items:
            continue  # it would repeat a question that nobody has answered yet
        questions.append(question)
        asked_items.add(items)
        session.tell(_draw_judgement(session, annotator, question, rng))
    return questions


def _draw_judgement(
    session: Session, annotator: str, question: Question, rng: Generator
) -> Judgement:
    """Draw a judgement on a question, with scores from the model and the noise of an answer."""
    items = np.array(question.items)
    first_item_repeated = np.full(len(items) - 1, items[0])
    mean, variance = session.posterior.difference(items[1:], first_item_repeated)
    # Only differences of utilities matter, so the utility of the first item is 0.
    noise_sd = (1 + variance) ** 0.5
    utilities = np.append(0.0, mean + rng.normal(size=len(mean)) * noise_sd)
    worst = int(np.argmin(utilities)) if session.study.worst else None
    return question.answered_by_place(annotator, int(np.argmax(utilities)), worst)
