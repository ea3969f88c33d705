"""Simulated annotators who answer with probabilities, some honest, some misleading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtr

from sortnet.core import F64, I64
from sortnet.preference.base import Judgement

# A perceived difference is SURE times the difference of the true scores, plus an error. The true
# scores and the error have the standard deviation 1.
SURE = 2.0
_ERROR_OF_MODEL = 1  # standard deviation of the errors of the model
_ERROR_OF_PEOPLE = 2  # standard deviation of the errors of people
_N_PEOPLE = 3
MILD = 0.4  # the scale of an honest annotator: 88 % of the answers are right, few p beyond .9

# Computes the probabilities that an annotator states for the left item. The arguments are, for each
# answer, the perceived difference u between the left and the right item, and the share of all
# answers that were given before; and a random generator. The answer "left" or "right" is always the
# sign of u, whatever the probability.
Probabilities: TypeAlias = Callable[[F64, F64, np.random.Generator], F64]


def _for_left(u: F64, p_of_answer: F64) -> F64:
    """Convert the probabilities of the preferred items to probabilities of the left items."""
    return np.where(u > 0, p_of_answer, 1 - p_of_answer)


PROBABILITIES: dict[str, Probabilities] = {
    "honest": lambda u, done, rng: ndtr(MILD * u),
    "always .99": lambda u, done, rng: _for_left(u, np.full(len(u), 0.99)),
    "always .5": lambda u, done, rng: np.full(len(u), 0.5),
    "rounded to .1, .5, .9": lambda u, done, rng: np.clip(
        np.round(ndtr(MILD * u) * 2) / 2, 0.1, 0.9
    ),
    "of a scale three times wrong": lambda u, done, rng: ndtr(3 * MILD * u),
    "0 or 1": lambda u, done, rng: _for_left(u, np.ones(len(u))),
    "unrelated to the truth": lambda u, done, rng: _for_left(u, rng.uniform(0.5, 1, len(u))),
    "drifting": lambda u, done, rng: ndtr(MILD * (0.5 + 1.5 * done) * u),
}


@dataclass(frozen=True, eq=False)
class Answered:
    """True scores of items, and answers about random pairs of the items."""

    scores: F64
    judgements: list[Judgement]

    def coverage(self, low: I64, high: I64) -> float:
        """Compute the share of the items whose true rank is in the interval from low to high."""
        true_rank = np.empty(len(self.scores), np.int64)
        true_rank[np.argsort(-self.scores)] = np.arange(1, len(true_rank) + 1)
        return float(np.mean((low <= true_rank) & (true_rank <= high)))


def answered(
    kind: str, n_items: int, n_answers: int, seed: int, *, n_of_people: int = 0
) -> Answered:
    """Simulate a `model` that answers with probabilities, and people who state no probabilities.

    Args:
        kind: how the model states probabilities, a key of `PROBABILITIES`.
        n_items: number of items; their true scores are drawn from a normal distribution.
        n_answers: number of answers of the model.
        seed: seed of all random choices.
        n_of_people: number of answers of three people together. Their errors have twice the
            standard deviation of the model's errors.

    >>> [judgement.p for judgement in answered("always .99", 5, 2, seed=0).judgements]
    [0.99, 0.01]
    """
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(n_items)
    by_model = _draw_pairs(scores, n_answers, _ERROR_OF_MODEL, rng)
    share_done = np.arange(n_answers) / max(n_answers, 1)
    probabilities = np.round(PROBABILITIES[kind](by_model.perceived, share_done, rng), 4)
    by_people = _draw_pairs(scores, n_of_people, _ERROR_OF_PEOPLE, rng)
    judgements = [by_model.judgement(k, "model", float(p)) for k, p in enumerate(probabilities)]
    judgements += [
        by_people.judgement(k, f"person {k % _N_PEOPLE}", None) for k in range(n_of_people)
    ]
    return Answered(scores, judgements)


class _PerceivedPairs(NamedTuple):
    """Pairs of items, and how annotators perceive their difference.

    Attributes:
        left: (n_pairs,) number of the left item of each pair.
        right: (n_pairs,) number of the right item.
        perceived: (n_pairs,) perceived difference; above 0, the left item seems better.
    """

    left: I64
    right: I64
    perceived: F64

    def judgement(self, k: int, annotator: str, p: float | None) -> Judgement:
        """Make the judgement on pair k; p is the probability that the annotator states."""
        items = int(self.left[k]), int(self.right[k])
        return Judgement.of(annotator, items, "left" if self.perceived[k] > 0 else "right", p=p)


def _draw_pairs(
    scores: F64, n_pairs: int, error: float, rng: np.random.Generator
) -> _PerceivedPairs:
    """Draw random pairs of items, and the perceived difference of each pair.

    Args:
        scores: (n_items,) true scores of the items.
        n_pairs: number of pairs.
        error: standard deviation of the errors of the perceived differences.
        rng: the random generator.
    """
    n_items = len(scores)
    left = rng.integers(n_items, size=n_pairs)
    right = (left + rng.integers(1, n_items, size=n_pairs)) % n_items  # never the left item
    difference = SURE * (scores[left] - scores[right])
    return _PerceivedPairs(left, right, difference + error * rng.standard_normal(n_pairs))
