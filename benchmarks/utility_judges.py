"""Judges that see the utilities of items with noise, and name the best and the worst item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from sortnet.preference.base import Judgement, Question

JUDGE = "judge"
BIAS = 0.5  # of the first place over the last, in units of the noise of a pair
F64: TypeAlias = NDArray[np.float64]
Answering: TypeAlias = Callable[[Question], Judgement]
Noise: TypeAlias = Callable[[int], F64]  # number of places -> noise of the utility in each


def noise_of_pairs(utility: F64, accuracy: float) -> float:
    """Standard deviation of a utility's noise, so that this share of different pairs is right."""
    gaps = np.abs(utility[:, None] - utility)[np.triu_indices(len(utility), 1)]
    gaps = gaps[gaps > 0]

    def excess(log_noise: float) -> float:
        return float(ndtr(gaps / (np.sqrt(2) * np.exp(log_noise))).mean()) - accuracy

    return float(np.exp(brentq(excess, -5, 5)))


def noises(sd: float, rng: np.random.Generator) -> dict[str, Noise]:
    """Noise of three families by name, all of one standard deviation."""

    def biased(n_places: int) -> F64:
        first = np.arange(n_places) == 0
        noise: F64 = sd * (rng.standard_normal(n_places) + BIAS * np.sqrt(2) * first)
        return noise

    return {
        "normal": lambda n_places: sd * rng.standard_normal(n_places),
        "a bias to the first place": biased,
        "heavy tails": lambda n_places: sd * rng.standard_t(3, n_places) / np.sqrt(3),
    }


def answering(utility: F64, noise: Noise) -> Answering:
    """A judge that answers by the utilities with noise, drawn for each answer."""

    def answer(question: Question) -> Judgement:
        items = question.items
        perceived = utility[list(items)] + noise(len(items))
        if len(items) == 2:
            return question.answered(JUDGE, "left" if perceived[0] > perceived[1] else "right")
        best, worst = int(perceived.argmax()), int(perceived.argmin())
        return question.answered_by_place(JUDGE, best, worst)

    return answer
