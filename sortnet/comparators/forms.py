"""Forms of a comparator's margin that compiled code sorts by, and a check of its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sortnet.core import F32, F64
from sortnet.errors import ComparatorError

# Bound on κp and κq in the formula of `DualUnits.numbers`. Then (1 + e)(1 + e') is at most about
# exp(4 * 175), which a float64 can hold.
_LARGEST = 175.0


@dataclass(frozen=True, eq=False)
class DualUnits:
    """Margin of a CmpNN with one hidden layer.

    The margin of document i over j is the sum Σ_h w_h (s(p_ih + q_jh) - s(p_jh + q_ih)). A term of
    the sum has two dual units: the second unit sees the two documents swapped.

    Attributes:
        embed: a function that turns n documents, (n, d), into their p and q side by side, (n, 2H).
            H is the number of pairs of dual units.
        w: (H,) weights of the terms, w_> - w_< of the CmpNN.
        units: `tanh` or `sigmoid`, the name of the function s.
    """

    embed: Callable[[F32], F32]
    w: F32
    units: str

    def numbers(self, X: F32) -> tuple[F64, F64] | None:
        """Prepare documents for the compiled sort, so that a comparison needs no exponential.

        With e = exp(κ(p_i + q_j)) and e' = exp(κ(p_j + q_i)) a term of the margin is w times

            tanh(p_i + q_j) - tanh(p_j + q_i) = 2 (e - e') / ((1 + e)(1 + e'))    with κ = 2
               σ(p_i + q_j) -    σ(p_j + q_i) =   (e - e') / ((1 + e)(1 + e'))    with κ = 1

        Returns:
            exp(κp) and exp(κq) side by side, (n, 2H), and the weights κw, (H,). None if the
            exponentials could overflow a float64, which happens with unscaled features.
        """
        kappa = np.float32(2 if self.units == "tanh" else 1)
        embedded = kappa * self.embed(X)
        is_bounded = np.abs(embedded) <= _LARGEST  # False for NaN, too
        if not is_bounded.all():
            return None
        return np.exp(embedded.astype(np.float64)), (kappa * self.w).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Score:
    """Margin τ(g_i - g_j) of documents with the scores g; the function τ is odd and keeps the sign.

    A sort by this margin is a sort by the scores.

    Attributes:
        scores: a function that turns n documents, (n, d), into their scores g, (n,).
        tau: the name of the function τ: `tanh`, `identity` or `sigmoid` (2σ - 1).
        of_differences: the function τ for an array of score differences.
    """

    scores: Callable[[F32], F64]
    tau: str
    of_differences: Callable[[F32], F32]

    def numbers(self, X: F32) -> tuple[F64, F64]:
        """Prepare documents for the compiled sort: the scores, (n,), and no weights."""
        return self.scores(X), np.empty(0)

    def as_units(self) -> DualUnits | None:
        """Write the margin τ(g_i - g_j) as a pair of dual units; return None for the identity τ.

        With z = g_i - g_j, p = g and q = -g the units have the margin (tanh z - tanh(-z)) / 2,
        which is tanh z; or the margin σ(z) - σ(-z), which is 2σ(z) - 1.
        """
        if self.tau == "identity":
            return None

        def embed(X: F32) -> F32:
            scores = self.scores(X).astype(np.float32)
            return np.stack((scores, -scores), axis=1)

        w = 0.5 if self.tau == "tanh" else 1.0
        return DualUnits(embed, np.array([w], np.float32), self.tau)


Form: TypeAlias = DualUnits | Score


def check_features(X: F32, n_features: int) -> None:
    """Raise ComparatorError unless the documents X, (n, d), have `n_features` features."""
    if X.shape[1] != n_features:
        raise ComparatorError(
            f"the comparator takes {n_features} features, the data has {X.shape[1]}"
        )


def joined(forms: Sequence[Form | None]) -> Form | None:
    """Return the form of the sum of several margins; None if the sum has no such form.

    Differences of scores add up to a difference of the summed scores. Other margins are written as
    dual units, and these are put side by side.

    Args:
        forms: the form of each margin; None for a margin without a form.
    """
    if len(forms) == 1:
        return forms[0]
    scores = [form for form in forms if isinstance(form, Score) and form.tau == "identity"]
    if len(scores) == len(forms):
        # In float64 the sum of a few float32 is nearly always exact, so that only documents with
        # equal sums tie.
        return Score(
            lambda X: np.sum([score.scores(X) for score in scores], axis=0),
            "identity",
            scores[0].of_differences,
        )
    layers = [form.as_units() if isinstance(form, Score) else form for form in forms]
    units = [layer for layer in layers if layer is not None]
    functions = {layer.units for layer in units}
    if len(units) < len(forms) or len(functions) > 1:
        return None

    def embed(X: F32) -> F32:
        halves = [np.split(layer.embed(X), 2, axis=1) for layer in units]
        return np.concatenate([*(p for p, _ in halves), *(q for _, q in halves)], axis=1)

    return DualUnits(embed, np.concatenate([layer.w for layer in units]), units[0].units)
