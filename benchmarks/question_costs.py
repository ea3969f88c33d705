"""What questions about pairs and about four cost, and which are better at equal cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sortnet.judges.asked_question import AskedQuestion
from sortnet.judges.prompts import Prompt

TOKENS_OF_A_WORD = 1.3
WORDS_OF_A_QUERY = 6  # of TREC DL 2019, about
WORDS_OF_A_PASSAGE = 56  # of MS MARCO, whose passages these queries have, on average
QUESTION = "Which passage answers the query better?"
F64: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """Quality of rankings by number of questions.

    Attributes:
        questions: (c,) numbers of questions.
        fours: (r, c) how many of them were about four, in each run.
        quality: (r, c) of the ranking after them, in each run.
    """

    questions: F64
    fours: F64
    quality: F64

    def cost(self, factor: float) -> F64:
        """(r, c) cost of the questions in pairs, if a four costs `factor` times a pair."""
        cost: F64 = self.questions + (factor - 1) * self.fours
        return cost

    def quality_at(self, budget: float, factor: float) -> F64:
        """(r,) quality for a budget in pairs, interpolated between the numbers of questions."""
        runs = zip(self.cost(factor), self.quality, strict=True)
        return np.array([np.interp(budget, cost, quality) for cost, quality in runs])


def break_even(pairs: Curve, fours: Curve, budget: float) -> float:
    """How many times a pair a four may cost, so that both are equally good for a budget in pairs.

    By the means over the runs. The fours are those after which the mean quality first reaches the
    pairs'; below the first number of questions that number counts.

    >>> questions = np.array([50.0, 100.0])
    >>> pairs = Curve(questions, np.zeros((1, 2)), np.array([[0.4, 0.6]]))
    >>> fours = Curve(questions, questions[None], np.array([[0.6, 0.8]]))
    >>> break_even(pairs, fours, 100)
    2.0
    """
    wanted = float(pairs.quality_at(budget, 1).mean())
    best_so_far = np.maximum.accumulate(fours.quality.mean(axis=0))
    if best_so_far[-1] < wanted:
        return float("nan")
    n_questions = float(np.interp(wanted, best_so_far, fours.questions))
    n_fours = float(np.interp(n_questions, fours.questions, fours.fours.mean(axis=0)))
    return (budget - (n_questions - n_fours)) / n_fours


def prompt_tokens(n_items: int, words_of_an_item: int) -> float:
    """Tokens of SortNet's prompt about a query's passages, about: 1.3 times the words."""
    side: AskedQuestion = {
        "shown": {},
        "text": "word " * words_of_an_item,
        "id": "passage",
        "image": None,
    }
    pair: AskedQuestion = {
        "question": QUESTION,
        "instructions": None,
        "group": "word " * WORDS_OF_A_QUERY,
    }
    if n_items == 2:
        pair |= {"left": side, "right": side}
    else:
        pair |= {"items": [side] * n_items, "worst": True}
    return TOKENS_OF_A_WORD * len(Prompt().of(pair).split())


def tokens_factor(words_of_an_item: int) -> float:
    """How many times the tokens of a pair's prompt the prompt of a four takes."""
    return prompt_tokens(4, words_of_an_item) / prompt_tokens(2, words_of_an_item)
