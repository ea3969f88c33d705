"""Soft trees that learn no more: the weights of `SoftTrees` in arrays, and their scores.

A model of trees ranks with these, so that a process that only ranks need not load torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.comparators.forms import Score
from sortnet.comparators.tree_kernels import LANES, Floats, fill_scores
from sortnet.core import F32, F64
from sortnet.errors import ComparatorError
from sortnet.threads import one_numpy_thread, side_by_side

# Documents that are scored together: the inputs of their splits stay in the cache.
_AT_ONCE = 8 * LANES
# Names of the arrays, as `SoftTrees.state_dict` has them.
WEIGHTS = ("choices", "thresholds", "log_steepness", "leaves", "sharpness")


def weight_shapes(
    n_features: int, committee: int, trees: int, depth: int
) -> dict[str, tuple[int, ...]]:
    """The shape of each array of trees.

    >>> weight_shapes(3, 2, 1, 4)["choices"]
    (3, 8)
    """
    splits = committee * trees * depth
    return {
        "choices": (n_features, splits),
        "thresholds": (splits,),
        "log_steepness": (splits,),
        "leaves": (committee * trees, 1 << depth),
        "sharpness": (),
    }


@dataclass(frozen=True, eq=False)
class FittedTrees:
    """Comparator of learned soft trees; see `SoftTrees` for its formula.

    Attributes:
        committee: H, number of heads.
        weights: arrays of `weight_shapes`.

    >>> from sortnet.comparators.soft_trees import SoftTrees
    >>> trees = SoftTrees(2, committee=3, seed=1).fitted()
    >>> g = trees.prepare(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32))
    >>> g.shape, float(trees.prefer(g, [0], [2])[0])
    ((3, 3), 0.0)

    Cost: O(H trees (d depth + 2^depth)) a document, O(1) a comparison.
    """

    committee: int
    weights: Mapping[str, Floats]

    @property
    def n_features(self) -> int:
        """d, of a document."""
        return len(self.weights["choices"])

    @property
    def trees(self) -> int:
        """Number of trees of a head."""
        return len(self.weights["leaves"]) // self.committee

    @property
    def depth(self) -> int:
        """Number of splits on the way to a leaf."""
        return int(self.weights["leaves"].shape[1]).bit_length() - 1

    @property
    def members(self) -> tuple[FittedTrees]:
        """The nets of the comparator: itself."""
        return (self,)

    @cached_property
    def _chosen(self) -> Floats:
        """(d, splits) the share of each column in the input of a split."""
        return _softmax(self.weights["choices"], float(self.weights["sharpness"]))

    @cached_property
    def _logits(self) -> tuple[Floats, Floats]:
        return _half_logits(self.weights["thresholds"], self.weights["log_steepness"])

    def feature_shares(self) -> F64:
        """(d,) the mean share of each column in the inputs of all splits; the shares sum to 1."""
        shares: F64 = self._chosen.mean(axis=1, dtype=np.float64)
        return shares

    def prepare(self, X: Floats) -> Floats:
        """(n, d) scaled features -> (n, H), the scores g_h.

        Raises:
            ComparatorError: if the documents have another number of features.
        """
        if X.shape[1] != self.n_features:
            raise ComparatorError(
                f"the comparator takes {self.n_features} features, the data has {X.shape[1]}"
            )
        leaves = self.weights["leaves"]
        scores = np.empty((len(X), self.committee), leaves.dtype)
        scale, shift = self._logits

        def fill(docs: slice) -> None:
            inputs = _inputs(X[docs], self._chosen).astype(leaves.dtype, copy=False)
            sides = np.empty((-(-len(inputs) // LANES), len(scale), LANES), leaves.dtype)
            fill_scores(inputs, scale, shift, leaves, sides, scores[docs])

        with one_numpy_thread():
            side_by_side(fill, [slice(k, k + _AT_ONCE) for k in range(0, len(X), _AT_ONCE)])
        return scores

    def score(self, prepared: Floats) -> Floats:
        """(n, H) -> (n,) g, the mean of the heads' scores."""
        total = prepared[:, 0].copy()
        # The rounding of a sum along rows may depend on a row's place.
        for head in range(1, self.committee):
            total += prepared[:, head]
        total /= self.committee
        return total

    def scores(self, X: F32) -> F32:
        """(n, d) scaled features -> (n,) scores, whose differences are the margins."""
        return self.score(self.prepare(X)).astype(np.float32, copy=False)

    def prefer(self, prepared: Floats, i: NDArray[Any], j: NDArray[Any]) -> F32:
        """(m,) margins of prepared document i over prepared document j."""
        g = self.score(prepared)
        margin: F32 = g[i] - g[j]
        return margin

    def spread(self, prepared: Floats, i: NDArray[Any], j: NDArray[Any]) -> F32 | None:
        """(m,) the standard deviation of the heads' margins; None for a single head."""
        if self.committee == 1:
            return None
        spread: F32 = (prepared[i] - prepared[j]).std(axis=1)
        return spread

    def verdicts(self, prepared: Floats, i: int, j: int) -> list[dict[str, float]]:
        """The margin of each head for one pair."""
        return [{"margin": float(margin)} for margin in prepared[i] - prepared[j]]

    def kernel(self) -> Score:
        """The form for the compiled sort."""
        return Score(lambda X: self.scores(X).astype(np.float64), "identity", lambda z: z)


def _softmax(choices: Floats, sharpness: float) -> Floats:
    """(d, splits) -> the softmax over the columns of the sharpened choices, in their type."""
    logits = sharpness * choices.astype(np.float64)
    logits -= logits.max(axis=0, initial=-np.inf)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=0)
    return logits.astype(choices.dtype)


def _half_logits(thresholds: Floats, log_steepness: Floats) -> tuple[Floats, Floats]:
    """Scale and shift, (splits,) each: half the logits are scale * inputs + shift."""
    scale = np.exp(log_steepness.astype(np.float64)) / 2
    shift = -thresholds * scale
    return scale.astype(thresholds.dtype), shift.astype(thresholds.dtype)


def _inputs(X: Floats, weights: Floats) -> Floats:
    """(n, d), (d, splits) -> the inputs of the splits, (n, splits).

    The rows are filled up to whole blocks. A BLAS may sum the rows behind the last whole block in
    another order, and a document would differ from its twin.
    """
    n = len(X)
    n_missing = -n % LANES
    if n_missing:
        X = np.concatenate((X, np.zeros((n_missing, X.shape[1]), X.dtype)))
    inputs: Floats = (X @ weights)[:n]
    return inputs
