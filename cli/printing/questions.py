"""Result of `sortnet ask`: what the annotators of a collection are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.printing.results import Result
from sortnet.messages import count, printable


def questions_result(questions: Sequence[dict[str, Any]]) -> Result:
    """Make the result with a few lines for the question of each criterion.

    Args:
        questions: facts about each question, as `store.service.questions.question_facts` returns
            them.
    """
    lines = [line for question in questions for line in _lines(question)]
    return Result("questions", questions, text=lines)


def _lines(question: dict[str, Any]) -> list[str]:
    """Write the question, then a line for each of its settings."""
    from sortnet.preference.goal import WRONG, Goal
    from store.service.sentences import goal_in_words

    words = question["instructions"].split()
    length_of_instructions = count(len(words), "word") if words else "none"
    goal = Goal(question["goal"] or WRONG, question["top"] or 0)
    overlap = question["overlap"]
    lines = [
        f"{printable(question['name'])}: {printable(question['question'])}",
        f"  instructions  {length_of_instructions}",
        f"  goal          {goal_in_words(goal)}",
        f"  deadline      {question['deadline'] or 'none'}",
    ]
    if overlap > 1:
        lines.append(f"  overlap       {count(overlap, 'answer')} a pair")
    if question["set_size"] > 2:
        choice = "the best and the worst" if question["worst"] else "the best"
        lines.append(f"  items         {question['set_size']} a question: {choice}")
    for annotator, n_answers in question["quotas"].items():
        lines.append(f"  quota         {printable(annotator)}: {count(n_answers, 'answer')}")
    if question["models"]:
        lines.append(f"  models        {', '.join(map(printable, question['models']))}")
    return [*lines, f"  judgements    {question['judgements']}"]
