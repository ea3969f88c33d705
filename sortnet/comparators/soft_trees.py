"""SoftTrees, the default comparator: several heads, each a sum of soft oblivious trees."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sortnet.comparators.forms import Score, check_features
from sortnet.comparators.tree_kernels import LANES, Floats, blocks_of, fill_scores
from sortnet.core import F32, F64, Array, Margin
from sortnet.core.memory import refuse_too_large
from sortnet.threads import one_numpy_thread, side_by_side

_SHARPEST = 8.0  # sharpness of the choice of features at the end of a training
_SHARPENED = 0.7  # share of a training in which the sharpness grows from 1
_STEEPNESS = 2.0  # initial steepness of all splits
_THRESHOLDS = 0.7  # standard deviation of the initial thresholds
_LEAVES = 0.05  # standard deviation of the initial values of leaves
# Bytes for each weight: the weight, its gradient, AdamW's two moments, the softmax and its
# gradient.
_BYTES_A_WEIGHT = 24
# Number of documents that are scored together, so few that the inputs of their splits stay in the
# cache.
_AT_ONCE = 8 * LANES


class SoftTrees:
    """Comparator by several heads, each a sum of soft trees that gives a document a score.

    The margin of x over y is the mean of g_h(x) - g_h(y) over the heads h with the scores g_h. A
    document x goes right at a split with probability

        s = σ(a (x · softmax(k c) - t)),

    where the choices c, the steepness a and the threshold t are learned. The softmax chooses the
    features of the split. The sharpness k grows from 1 to 8 during a training, so that few features
    remain. All nodes of a level of a tree share a split (an oblivious tree). The value of a leaf is
    weighted with the product of s or 1 - s on the path to the leaf. These are the differentiable
    trees of Köppel et al. 2025, RankNet revisited, in the form of NODE (Popov, Morozov and Babenko
    2019, 1909.06312).

    The comparator is a DirectRanker whose feature part is the trees, so it is antisymmetric and
    transitive. It is also a committee: each head learns by its own loss, and the spread of the
    heads tells how uncertain a margin is. It is computed by numpy and numba, on the CPU;
    `sortnet.learning.tree_learner` trains it.

    Args:
        n_features: the number d of features of a document.
        committee: the number H of heads, which are trained together.
        trees: the number of trees of a head.
        depth: the number of splits on the path to a leaf.
        seed: the seed of the initial weights.

    Attributes:
        weights: the learned float32 arrays by name: `choices` c, (d, splits); `thresholds` t and
            `log_steepness` log a, (splits,); `leaves`, (H trees, 2^depth). The splits are in the
            order of their trees, the trees in the order of their heads.
        sharpness: the sharpness k.

    Raises:
        DataError: if the splits would not fit into memory.

    >>> import numpy as np
    >>> trees = SoftTrees(2, committee=3, seed=1)
    >>> g = trees.prepare(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32))
    >>> g.shape, float(trees.prefer(g, [0], [2])[0])
    ((3, 3), 0.0)

    Cost: O(H trees (d depth + 2^depth)) a document, O(1) a comparison.
    """

    def __init__(
        self, n_features: int, *, committee: int = 8, trees: int = 8, depth: int = 6, seed: int = 0
    ) -> None:
        """Draw the weights of all trees; raise DataError if they do not fit into memory."""
        self.committee = committee
        n_splits = committee * trees * depth
        # {name of an array: its shape, and the standard deviation of its initial weights}
        drawn_arrays = {
            "choices": ((n_features, n_splits), 1.0),
            "thresholds": ((n_splits,), _THRESHOLDS),
            "leaves": ((committee * trees, 1 << depth), _LEAVES),
        }
        n_weights = sum(math.prod(shape) for shape, _ in drawn_arrays.values()) + n_splits
        refuse_too_large(
            _BYTES_A_WEIGHT * n_weights, f"{n_splits:,} splits over {n_features:,} features"
        )
        rng = np.random.default_rng(seed)
        self.weights: dict[str, F32] = {
            name: np.float32(deviation) * rng.standard_normal(shape, np.float32)
            for name, (shape, deviation) in drawn_arrays.items()
        }
        self.weights["log_steepness"] = np.full(n_splits, math.log(_STEEPNESS), np.float32)
        self.sharpness = 1.0
        self._at_rest: tuple[F32, F32, F32] | None = None  # what `prepare` needs of the weights

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
    def members(self) -> tuple[SoftTrees]:
        """A tuple of the comparator itself, since only a `Committee` has several members."""
        return (self,)

    def arrays(self) -> dict[str, Array]:
        """List the arrays that a file of this comparator has: the weights and the sharpness."""
        return {**self.weights, "sharpness": np.array(self.sharpness, np.float32)}

    def load_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Take the values of arrays with the names and shapes of `arrays`."""
        self.weights = {name: arrays[name].copy() for name in self.weights}
        self.sharpness = float(arrays["sharpness"])
        self.weights_change()

    def weights_change(self) -> None:
        """Forget what `prepare` has computed from weights that are about to change."""
        self._at_rest = None

    def anneal(self, share: float) -> None:
        """Sharpen the choice of a feature at each split, when a `share` of the steps is done.

        The sharpness never falls, so that a training that starts from learned weights keeps their
        choices.
        """
        sharpness = 1 + (_SHARPEST - 1) * min(1.0, share / _SHARPENED)
        self.sharpness = max(sharpness, self.sharpness)

    def chosen(self) -> F32:
        """Compute the share (d, splits) of each feature in each split, by a softmax."""
        shares = self.weights["choices"] * np.float32(self.sharpness)
        shares -= shares.max(axis=0, initial=-np.inf)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=0)
        return shares

    def half_logits(self) -> tuple[F32, F32]:
        """Return the scale and the shift, (splits,), with which half a logit is scale * x + shift.

        The probability of going right at a split is σ(logit) = (1 + tanh(logit / 2)) / 2.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # a training that diverges is told
            scale: F32 = np.exp(self.weights["log_steepness"])
            scale /= 2
            shift: F32 = -self.weights["thresholds"] * scale
        return scale, shift

    def feature_shares(self) -> F64:
        """Compute the mean share (d,) of each feature in all splits; the shares sum to 1."""
        shares: F64 = self.chosen().mean(axis=1, dtype=np.float64)
        return shares

    def prepare(self, X: F32) -> F32:
        """Compute the score of each head, (n, H), of documents with scaled features X, (n, d).

        Raises:
            ComparatorError: if the documents have another number of features.
        """
        check_features(X, self.n_features)
        if self._at_rest is None:
            self._at_rest = self.chosen(), *self.half_logits()
        chosen, scale, shift = self._at_rest
        leaves = self.weights["leaves"]
        scores = np.empty((len(X), self.committee), np.float32)

        def fill(docs: slice) -> None:
            """Compute the scores of some documents."""
            inputs = inputs_of(X[docs], chosen)
            p_right = np.empty((blocks_of(len(inputs)), len(scale), LANES), np.float32)
            fill_scores(inputs, scale, shift, leaves, p_right, scores[docs])

        chunks = [slice(start, start + _AT_ONCE) for start in range(0, len(X), _AT_ONCE)]
        with one_numpy_thread():
            side_by_side(fill, chunks)
        return scores

    def score(self, prepared: F32) -> F32:
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
        return self.score(self.prepare(X))

    def prefer(self, prepared: F32, i: Array, j: Array) -> F32:
        """Compute the margins (m,) of the prepared documents i over the prepared documents j."""
        scores = self.score(prepared)
        margin: F32 = scores[i] - scores[j]
        return margin

    def spread(self, prepared: F32, i: Array, j: Array) -> F32 | None:
        """Compute the standard deviation (m,) of the heads' margins; None for a single head."""
        if self.committee == 1:
            return None
        spread: F32 = (prepared[i] - prepared[j]).std(axis=1)
        return spread

    def verdicts(self, prepared: F32, i: int, j: int) -> list[dict[str, float]]:
        """Return the margin of document i over document j by each head, one dict per head."""
        return [{"margin": float(margin)} for margin in prepared[i] - prepared[j]]

    def kernel(self) -> Score | None:
        """Describe the margin for the compiled sort: a difference of scores.

        Return None for a subclass, which may compare in another way.
        """
        if type(self) is not SoftTrees:
            return None
        return Score(lambda X: self.scores(X).astype(np.float64), "identity", lambda z: z)

    def differentiable(self) -> Margin:
        """Return a function that computes margins and their gradients in float64, see `Margin`.

        Cost of a call: O(H trees (d depth + 2^depth)) a document, without compiled code.
        """
        choices, thresholds, steepness, leaves = (
            self.weights[name].astype(np.float64)
            for name in ("choices", "thresholds", "log_steepness", "leaves")
        )
        chosen = np.exp(self.sharpness * (choices - choices.max(axis=0, initial=-np.inf)))
        chosen /= chosen.sum(axis=0)
        steepness = np.exp(steepness)

        def scores_and_gradients(X: F64) -> tuple[F64, F64]:
            """Compute the mean score, (n,), of documents, (n, d), and its gradient, (n, d)."""
            half_logit = steepness * (X @ chosen - thresholds) / 2
            p = ((1 + np.tanh(half_logit)) / 2).reshape(len(X), -1, self.depth)
            # Each level halves the leaves: the left and the right half become their weighted mean.
            values = leaves[None]
            steps = []  # right half less left half of the values, for each level
            for level in range(self.depth):
                left_half, right_half = np.split(values, 2, axis=2)
                steps.append(right_half - left_half)
                values = left_half + p[:, :, level, None] * steps[level]
            scores: F64 = values[:, :, 0].sum(axis=1) / self.committee
            # Back-propagate from the last level to the first.
            d_values = np.full((len(X), p.shape[1], 1), 1 / self.committee)
            d_p = np.empty_like(p)
            for level in reversed(range(self.depth)):
                d_p[:, :, level] = (d_values * steps[level]).sum(axis=2)
                d_right = p[:, :, level, None] * d_values
                d_values = np.concatenate((d_values - d_right, d_right), axis=2)
            d_logit = (d_p * p * (1 - p)).reshape(len(X), -1)
            return scores, (d_logit * steepness) @ chosen.T

        def margin(x: F64, y: F64) -> tuple[F64, F64, F64]:
            """Compute the margins of documents x over y, and the gradients in x and in y."""
            scores_of_x, d_x = scores_and_gradients(x)
            scores_of_y, d_y = scores_and_gradients(y)
            return scores_of_x - scores_of_y, d_x, -d_y

        return margin


def inputs_of(X: Floats, chosen: Floats) -> Floats:
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
    inputs: Floats = (X @ chosen)[:n]
    return inputs
