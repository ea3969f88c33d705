"""Simulated annotators who answer with probabilities, some honest, some misleading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sortnet.preference.base import Judgement

# A perceived difference is SURE times the difference of the true scores, plus an error. The true
# scores and the error of the model have the standard deviation 1, the errors of people 2.
SURE = 2.0
_N_PEOPLE = 3
MILD = 0.4  # the scale of an honest annotator: 88 % of the answers are right, few p beyond .9
F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]

# Computes the probabilities that an annotator states for the left item. The arguments are, for each
# answer, the perceived difference u between the left and the right item, and the share of all
# answers that were given before; and a random generator. The answer "left" or "right" is always the
# sign of u, whatever the probability.
Probabilities: TypeAlias = Callable[[F64, F64, np.random.Generator], F64]
PROBABILITIES: dict[str, Probabilities] = {
    "honest": lambda u, done, rng: ndtr(MILD * u),
    "always .99": lambda u, done, rng: np.where(u > 0, 0.99, 0.01),
    "always .5": lambda u, done, rng: np.full(len(u), 0.5),
    "rounded to .1, .5, .9": lambda u, done, rng: np.clip(
        np.round(ndtr(MILD * u) * 2) / 2, 0.1, 0.9
    ),
    "of a scale three times wrong": lambda u, done, rng: ndtr(3 * MILD * u),
    "0 or 1": lambda u, done, rng: np.where(u > 0, 1.0, 0.0),
    "unrelated to the truth": lambda u, done, rng: np.abs((u <= 0) - rng.uniform(0.5, 1, len(u))),
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
        n_of_people: number of answers of three people together.
    """
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(n_items)
    pairs, u = _perceived(scores, n_answers, 1, rng)
    share_done = np.arange(n_answers) / max(n_answers, 1)
    stated = np.round(PROBABILITIES[kind](u, share_done, rng), 4)
    judgements = [
        Judgement.of("model", tuple(pair), "left" if difference > 0 else "right", p=float(p))
        for pair, difference, p in zip(pairs.tolist(), u, stated, strict=True)
    ]
    pairs, u = _perceived(scores, n_of_people, 2, rng)
    judgements += [
        Judgement.of(f"person {k % _N_PEOPLE}", tuple(pair), "left" if difference > 0 else "right")
        for k, (pair, difference) in enumerate(zip(pairs.tolist(), u, strict=True))
    ]
    return Answered(scores, judgements)


def _perceived(
    scores: F64, n_pairs: int, error: float, rng: np.random.Generator
) -> tuple[I64, F64]:
    """Draw random pairs of items (n_pairs, 2), and the perceived difference of each pair."""
    left = rng.integers(len(scores), size=n_pairs)
    right = (left + rng.integers(1, len(scores), size=n_pairs)) % len(scores)  # never the left item
    differences = SURE * (scores[left] - scores[right])
    return np.column_stack((left, right)), differences + error * rng.standard_normal(n_pairs)
