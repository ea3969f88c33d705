"""Hyperparameters of a fit: prior variances, ties, and parameters of the annotators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64
from sortnet.preference.reliability import Annotators

# Expected variance of the errors that models share, relative to the variance of the scores, if
# people have given many answers, but these do not determine the variance.
SHARED = 0.5
UNKNOWN = -1.0  # the value of `Scales.shared` if no model had answered


@dataclass(frozen=True)
class Prior:
    """Variances of the normal prior of the scores.

    Attributes:
        weight: the variance of the weight of each feature.
        residual: the variance of the residual of each item.
    """

    weight: float
    residual: float

    def total(self, d: int) -> float:
        """Return the variance of the score of an item with d standardised features."""
        return d * self.weight + self.residual


def first_guess(d: int) -> Prior:
    """Return the prior before any answer, given the number of features d.

    Scores vary more than the noise of an answer, whose variance is 1, and mostly because of the
    features.
    """
    if d:
        return Prior(2 / d, 0.15)
    return Prior(1.0, 2.0)


@dataclass(frozen=True, eq=False)
class Scales:
    """Hyperparameters of a fit, estimated from the answers.

    Attributes:
        priors: the likely priors of the scores.
        odds: the probability of each prior.
        annotators: the reliabilities and blind shares of the annotators, and the prior spread of
            each side bias.
        tie_threshold: the tie threshold τ, see `pair_likelihood`; 0 if no answer is a tie.
        share_of_ties: the share of ties among the answers.
        shared: the variance of the errors that models share, relative to the variance of the
            scores; `UNKNOWN` if no answers counted as answers of models.
    """

    priors: tuple[Prior, ...]
    odds: F64
    annotators: Annotators
    tie_threshold: float = 0.0
    share_of_ties: float = 0.0
    shared: float = SHARED

    @property
    def residual(self) -> float:
        """Expected variance of an item's residual, a mean over the likely priors."""
        return float(self.odds @ [prior.residual for prior in self.priors])

    def padded(self, n_annotators: int) -> Scales:
        """Append average annotators, so that the scales have `n_annotators` annotators."""
        return replace(self, annotators=self.annotators.padded(n_annotators))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the scales as named arrays; `from_arrays` rebuilds the scales."""
        return {
            "priors": np.array([(prior.weight, prior.residual) for prior in self.priors]),
            "odds": self.odds,
            "annotators": np.array(list(vars(self.annotators).values())),
            "others": np.array([self.tie_threshold, self.share_of_ties, self.shared]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Scales:
        """Rebuild scales from the arrays that `arrays` returned."""
        priors = tuple(Prior(*variances) for variances in arrays["priors"].tolist())
        annotators = Annotators(*arrays["annotators"])
        return cls(priors, arrays["odds"], annotators, *arrays["others"].tolist())
