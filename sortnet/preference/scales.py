"""Hyperparameters of a fit: variances of the prior, ties, and the annotators' reliabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64
from sortnet.preference.reliability import Annotators

# Expected variance of the errors that models share, relative to the variance of the scores, where
# people have given many answers that do not yet tell the variance.
SHARED = 0.5
UNKNOWN = -1.0  # stands for the variance of shared errors if no model had answered


@dataclass(frozen=True)
class Prior:
    """Variances of the prior."""

    weight: float  # of the weight of each feature
    residual: float  # of the residual of each item

    def total(self, d: int) -> float:
        """Variance of the score of an item with d standardised features."""
        return d * self.weight + self.residual


def first_guess(d: int) -> Prior:
    """The prior before any answer: scores vary more than the noise, mostly due to the features.

    `d` is the number of features.
    """
    if d:
        return Prior(2 / d, 0.15)
    return Prior(1.0, 2.0)


@dataclass(frozen=True, eq=False)
class Scales:
    """Hyperparameters of a fit, estimated from the answers.

    Attributes:
        priors: the likely priors of the scores.
        odds: (k,) the probability of each prior.
        annotators: their reliabilities and blind shares, and the prior spread of their side biases.
        tie: the tie threshold.
        ties: the share of ties among the answers.
        shared: variance of the errors that models share, relative to the variance of the scores;
            `UNKNOWN` if there were no answers of models beside others.
    """

    priors: tuple[Prior, ...]
    odds: F64
    annotators: Annotators
    tie: float = 0.0
    ties: float = 0.0
    shared: float = SHARED

    @property
    def residual(self) -> float:
        """The expected variance of an item's residual."""
        return float(self.odds @ [prior.residual for prior in self.priors])

    def padded(self, n_annotators: int) -> Scales:
        """The same scales for more annotators; the new annotators are average."""
        return replace(self, annotators=self.annotators.padded(n_annotators))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The scales as arrays by name, from which `from_arrays` makes them again."""
        return {
            "priors": np.array([(prior.weight, prior.residual) for prior in self.priors]),
            "odds": self.odds,
            "annotators": np.array(list(vars(self.annotators).values())),
            "others": np.array([self.tie, self.ties, self.shared]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Scales:
        """Make scales from the arrays that the method `arrays` returned."""
        priors = tuple(Prior(*variances) for variances in arrays["priors"].tolist())
        annotators = Annotators(*arrays["annotators"])
        return cls(priors, arrays["odds"], annotators, *arrays["others"].tolist())
