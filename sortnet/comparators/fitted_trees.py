"""FittedTrees: the weights of learned `SoftTrees` in numpy arrays, which rank without torch.

A model of soft trees ranks with `FittedTrees`, so that a process that only ranks never loads torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.comparators.forms import Score
from sortnet.comparators.tree_kernels import LANES, Floats, blocks_of, fill_scores
from sortnet.core import F32, F64
from sortnet.errors import ComparatorError
from sortnet.threads import one_numpy_thread, side_by_side

# Number of documents that are scored together, so few that the inputs of their splits stay in the
# cache.
_AT_ONCE = 8 * LANES
# Names of the arrays, as `SoftTrees.state_dict` has them.
WEIGHTS = ("choices", "thresholds", "log_steepness", "leaves", "sharpness")


def weight_shapes(
    n_features: int, committee: int, trees: int, depth: int
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight array of soft trees, by name.

    Args:
        n_features: the number of features of a document.
        committee: the number of heads.
        trees: the number of trees of a head.
        depth: the number of splits on the path to a leaf.

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
    """Comparator of learned soft trees; see `SoftTrees` for the formula of its margin.

    Attributes:
        committee: the number H of heads.
        weights: the weight arrays by name, with the shapes that `weight_shapes` returns.

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
        """The number d of features of a document."""
        return len(self.weights["choices"])

    @property
    def trees(self) -> int:
        """Number of trees of a head."""
        return len(self.weights["leaves"]) // self.committee

    @property
    def depth(self) -> int:
        """Number of splits on the path to a leaf."""
        return int(self.weights["leaves"].shape[1]).bit_length() - 1

    @property
    def members(self) -> tuple[FittedTrees]:
        """A tuple of the comparator itself, since only a `Committee` has several members."""
        return (self,)

    @cached_property
    def _chosen(self) -> Floats:
        """Share (d, splits) of each feature in each split, by the softmax over features."""
        return _softmax(self.weights["choices"], float(self.weights["sharpness"]))

    @cached_property
    def _scale_and_shift(self) -> tuple[Floats, Floats]:
        """Scale and shift, (splits,) each: half the logit of a split is scale * input + shift."""
        return _half_logits(self.weights["thresholds"], self.weights["log_steepness"])

    def feature_shares(self) -> F64:
        """Compute the mean share (d,) of each feature in all splits; the shares sum to 1."""
        shares: F64 = self._chosen.mean(axis=1, dtype=np.float64)
        return shares

    def prepare(self, X: Floats) -> Floats:
        """Compute the score of each head, (n, H), of documents with scaled features X, (n, d).

        Raises:
            ComparatorError: if the documents have another number of features.
        """
        if X.shape[1] != self.n_features:
            raise ComparatorError(
                f"the comparator takes {self.n_features} features, the data has {X.shape[1]}"
            )
        leaves = self.weights["leaves"]
        scores = np.empty((len(X), self.committee), leaves.dtype)
        scale, shift = self._scale_and_shift

        def fill(docs: slice) -> None:
            inputs = _inputs(X[docs], self._chosen).astype(leaves.dtype, copy=False)
            p_right = np.empty((blocks_of(len(inputs)), len(scale), LANES), leaves.dtype)
            fill_scores(inputs, scale, shift, leaves, p_right, scores[docs])

        chunks = [slice(start, start + _AT_ONCE) for start in range(0, len(X), _AT_ONCE)]
        with one_numpy_thread():
            side_by_side(fill, chunks)
        return scores

    def score(self, prepared: Floats) -> Floats:
        """Average the heads' scores, (n, H), of prepared documents to one score each, (n,)."""
        total = prepared[:, 0].copy()
        # np.mean may round equal rows differently, depending on their position.
        for head in range(1, self.committee):
            total += prepared[:, head]
        total /= self.committee
        return total

    def scores(self, X: F32) -> F32:
        """Compute one score per document, (n,), given scaled features X, (n, d).

        The margin of two documents is the difference of their scores.
        """
        return self.score(self.prepare(X)).astype(np.float32, copy=False)

    def prefer(self, prepared: Floats, i: NDArray[Any], j: NDArray[Any]) -> F32:
        """Compute the margins (m,) of the prepared documents i over the prepared documents j."""
        scores = self.score(prepared)
        margin: F32 = scores[i] - scores[j]
        return margin

    def spread(self, prepared: Floats, i: NDArray[Any], j: NDArray[Any]) -> F32 | None:
        """Compute the standard deviation (m,) of the heads' margins; None for a single head."""
        if self.committee == 1:
            return None
        spread: F32 = (prepared[i] - prepared[j]).std(axis=1)
        return spread

    def verdicts(self, prepared: Floats, i: int, j: int) -> list[dict[str, float]]:
        """Return the margin of document i over document j by each head, one dict per head."""
        return [{"margin": float(margin)} for margin in prepared[i] - prepared[j]]

    def kernel(self) -> Score:
        """Describe the margin for the compiled sort: a difference of scores."""
        return Score(lambda X: self.scores(X).astype(np.float64), "identity", lambda z: z)


def _softmax(choices: Floats, sharpness: float) -> Floats:
    """Compute the softmax over the d features of sharpness * choices, (d, splits).

    The result has the number type of `choices`, but is computed in float64.
    """
    logits = sharpness * choices.astype(np.float64)
    logits -= logits.max(axis=0, initial=-np.inf)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=0)
    return logits.astype(choices.dtype)


def _half_logits(thresholds: Floats, log_steepness: Floats) -> tuple[Floats, Floats]:
    """Return scale and shift, (splits,): half the logit of a split is scale * input + shift."""
    scale = np.exp(log_steepness.astype(np.float64)) / 2
    shift = -thresholds * scale
    return scale.astype(thresholds.dtype), shift.astype(thresholds.dtype)


def _inputs(X: Floats, weights: Floats) -> Floats:
    """Multiply features, (n, d), with the shares of features in splits, (d, splits).

    The rows are padded to whole blocks. A BLAS (library of matrix products) may sum the rows after
    the last whole block in another order, and equal documents would get different scores.

    Returns:
        (n, splits) the numbers that the splits compare with their thresholds.
    """
    n = len(X)
    n_padding = -n % LANES
    if n_padding:
        X = np.concatenate((X, np.zeros((n_padding, X.shape[1]), X.dtype)))
    inputs: Floats = (X @ weights)[:n]
    return inputs
