"""Choose several questions together, before any of them is answered."""

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
    """Choose the next k questions for an annotator together; fewer if fewer are left.

    Each question is chosen as if the questions before it had been answered as the model expects.
    So the questions do not ask for the same information twice.

    Args:
        session: a copy that nobody else uses, because the expected answers are added to it.
        annotator: the name of the annotator.
        k: number of questions.
        busy: pairs, each the lower number first, that must not be asked now.
        rng: draws the expected answers.

    Cost: as `Session.ask` and `Session.tell`, k times.
    """
    questions: list[Question] = []
    taken = {*busy}
    chosen_sets: set[frozenset[int]] = set()
    while len(questions) < k:
        next_questions = session.ask(annotator, 1, busy=taken)
        if not next_questions:
            break
        (question,) = next_questions
        taken.update(question.pairs)
        items = frozenset(question.items)
        if question.strategy == _REPEAT and items in chosen_sets:
            continue  # it would repeat a question that nobody has answered yet
        questions.append(question)
        chosen_sets.add(items)
        session.tell(_expected_judgement(session, annotator, question, rng))
    return questions


def _expected_judgement(
    session: Session, annotator: str, question: Question, rng: Generator
) -> Judgement:
    """Draw an answer to a question from its distribution under the model, as a judgement."""
    if not question.further:
        return question.answered(annotator, _expected_answer(session, question, rng))
    items = np.array(question.items)
    first = np.full(len(items) - 1, items[0])
    mean, variance = session.posterior.difference(items[1:], first)
    # Only differences of utilities matter, so the utility of the first item is 0.
    utilities = np.append(0.0, mean + rng.normal(size=len(mean)) * (1 + variance) ** 0.5)
    best_first = np.argsort(-utilities, kind="stable")
    worst = int(best_first[-1]) if session.study.worst else None
    return question.answered_by_place(annotator, int(best_first[0]), worst)


def _expected_answer(session: Session, question: Question, rng: Generator) -> Answer:
    """Draw an answer about two items from its distribution under the model; never a tie."""
    left = np.array([question.left])
    right = np.array([question.right])
    mean, variance = session.posterior.difference(left, right)
    margin = float(mean[0]) + rng.normal() * float(1 + variance[0]) ** 0.5
    return "left" if margin > 0 else "right"
