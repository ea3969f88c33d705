"""Compiled soft oblivious trees: their scores, the loss of pairs, and the gradients of both.

Each split has a number h = scale * input + shift, half the logit of going right: a document goes
right with the probability s = σ(2h) = (1 + tanh h) / 2. The value of a node is the mean of the
values of its two children, weighted by the probabilities of going left and right. The value of the
root is the value of the tree.

The kernels process documents in blocks of `LANES` documents, which go down a tree side by side. The
last block is padded, so that the same code computes every document and equal documents get equal
scores. NaN stays NaN, which ends a training.

The name of a gradient begins with `d_`: `d_inputs` is the gradient of the loss in `inputs`. The
array `sides` holds the probability of going right, (blocks, splits, LANES).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.compiled import compiled
from sortnet.core import F32, F64, I64

Floats = NDArray[np.floating[Any]]

LANES = 64  # number of documents in a block
_LEAST_NORMAL = 1e-290  # a float64 above this bound is normal: it has all its digits

# Rational approximation of tanh, exact to the last digits of a float32: an odd polynomial divided
# by an even polynomial, with the coefficients of the highest powers first. Beyond the bound tanh is
# ±1 in float32.
_BOUND = 7.90531110763549805
_ODD = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_EVEN = (
    1.19825839466702e-06,
    1.18534705686654e-04,
    2.26843463243900e-03,
    4.89352518554385e-03,
)


def blocks_of(n: int) -> int:
    """Return the number of blocks of `LANES` documents that n documents need."""
    return -(-n // LANES)


@compiled(error_model="numpy", fastmath={"contract"})
def fill_scores(
    inputs: Floats, scale: Floats, shift: Floats, leaves: Floats, sides: Floats, out: Floats
) -> None:
    """Compute the scores of all heads, and the split probabilities that `fill_gradients` needs.

    Args:
        inputs: (n, splits) the number that each split compares; the splits are in the order of
            their trees.
        scale, shift: (splits,) half the logit of a split is scale * input + shift.
        leaves: (trees, 2^depth) values of the leaves; the trees are in the order of their heads.
        sides: (blocks_of(n), splits, LANES) array that is filled with the probabilities of going
            right.
        out: (n, heads) array that is filled with the scores.
    """
    for block in range(len(sides)):
        docs = slice(block * LANES, (block + 1) * LANES)
        _fill_sides(inputs[docs], scale, shift, sides[block])
        _fill_scores_of_block(sides[block], leaves, out[docs])


@compiled(error_model="numpy", fastmath={"contract"})
def fill_gradients(
    inputs: Floats,
    scale: Floats,
    leaves: Floats,
    sides: Floats,
    d_out: Floats,
    d_inputs: Floats,
    d_scale: Floats,
    d_shift: Floats,
    d_leaves: Floats,
) -> None:
    """Compute the gradients of a loss in inputs and weights, given its gradient in the scores.

    The gradients are back-propagated from the root of each tree to its leaves and splits, and from
    the splits to inputs and weights.

    Args:
        inputs, scale, leaves: the arguments of `fill_scores`.
        sides: the probabilities of going right that `fill_scores` computed.
        d_out: (n, heads) the gradient in the scores.
        d_inputs: (n, splits) array that is filled with the gradient in `inputs`.
        d_scale, d_shift, d_leaves: arrays of zeros, to which the gradients in `scale`, `shift` and
            `leaves` are added.
    """
    trees = len(leaves)
    depth = len(scale) // trees
    values = np.empty(((1 << depth) - 1, LANES), inputs.dtype)
    d_sides = np.empty((len(scale), LANES), inputs.dtype)
    d_scores = np.zeros((d_out.shape[1], LANES), inputs.dtype)
    for block in range(len(sides)):
        docs = slice(block * LANES, (block + 1) * LANES)
        _fill_transposed(d_out[docs], d_scores)
        for tree in range(trees):
            splits = slice(tree * depth, (tree + 1) * depth)
            _fill_values(sides[block, splits], leaves[tree], values)
            values[0] = d_scores[tree * len(d_scores) // trees]  # the gradient of the tree's head
            _backpropagate(
                sides[block, splits], leaves[tree], values, d_sides[splits], d_leaves[tree]
            )
        _backpropagate_probabilities(sides[block], d_sides, d_inputs[docs])
    _backpropagate_to_inputs(inputs, scale, d_inputs, d_scale, d_shift)


@compiled(error_model="numpy", fastmath={"contract"})
def _fill_transposed(values: Floats, out: Floats) -> None:
    """Transpose the values of a block's documents, and fill the rest of the block with 0.

    Args:
        values: (n, heads) a value of each document for each head; n is at most `LANES`.
        out: (heads, LANES) array that is filled.
    """
    out[:] = 0
    for k in range(len(values)):
        for head in range(len(out)):
            out[head, k] = values[k, head]


@compiled(error_model="numpy", fastmath={"contract"})
def _fill_sides(inputs: Floats, scale: Floats, shift: Floats, sides: Floats) -> None:
    """Compute the probability that each document of a block goes right at each split.

    Args:
        inputs: (n, splits) inputs of the block's documents, at most `LANES`.
        scale, shift: (splits,) half the logit of a split is scale * input + shift.
        sides: (splits, LANES) array that is filled; documents that are missing have the input 0.
    """
    n = len(inputs)
    sides[:, n:] = 0
    half = sides.dtype.type(0.5)  # a Python number would turn a float32 into a float64
    for split in range(len(sides)):
        # The row of the split holds the inputs, then half the logits h, then tanh h, and at last
        # the probabilities (1 + tanh h) / 2.
        for k in range(n):
            sides[split, k] = inputs[k, split]
        split_scale, split_shift = scale[split], shift[split]
        for k in range(LANES):
            sides[split, k] = split_scale * sides[split, k] + split_shift
        _fill_tanh(sides[split])
        for k in range(LANES):
            sides[split, k] = half * sides[split, k] + half


@compiled(error_model="numpy", fastmath={"contract"})
def _fill_tanh(x: Floats) -> None:
    """Replace float32 numbers by their tanh, in place.

    With the coefficients a and b of a rational approximation, tanh h is

        h (a13 h^12 + a11 h^10 + ... + a1) / (b6 h^6 + b4 h^4 + b2 h^2 + b0),

    evaluated by Horner's rule in q = h^2, for |h| up to a bound; beyond it h is set to the bound.
    """
    f = x.dtype.type  # the coefficients must be float32, else the sums would be float64
    bound = f(_BOUND)
    a13, a11 = f(_ODD[0]), f(_ODD[1])
    a9, a7 = f(_ODD[2]), f(_ODD[3])
    a5, a3 = f(_ODD[4]), f(_ODD[5])
    a1 = f(_ODD[6])
    b6, b4 = f(_EVEN[0]), f(_EVEN[1])
    b2, b0 = f(_EVEN[2]), f(_EVEN[3])
    for k in range(LANES):
        h = x[k]
        h = bound if h > bound else h
        h = -bound if h < -bound else h
        q = h * h
        odd = h * ((((((a13 * q + a11) * q + a9) * q + a7) * q + a5) * q + a3) * q + a1)
        x[k] = odd / (((b6 * q + b4) * q + b2) * q + b0)


@compiled(error_model="numpy", fastmath={"contract"})
def _fill_scores_of_block(sides: Floats, leaves: Floats, out: Floats) -> None:
    """Compute the scores of a block of documents: the sums of the values of each head's trees.

    Args:
        sides: (splits, LANES) probabilities of going right.
        leaves: (trees, 2^depth) values of the leaves.
        out: (n, heads) array that is filled, for the n documents of the block, at most `LANES`.
    """
    trees = len(leaves)
    depth = len(sides) // trees
    values = np.empty(((1 << depth) - 1, LANES), sides.dtype)
    out[:] = 0
    for tree in range(trees):
        head = tree * out.shape[1] // trees
        _fill_values(sides[tree * depth : (tree + 1) * depth], leaves[tree], values)
        for k in range(len(out)):
            out[k, head] += values[0, k]


@compiled(error_model="numpy", fastmath={"contract"})
def _fill_values(sides: Floats, leaves: Floats, values: Floats) -> None:
    """Compute the value of each node of a tree but the leaves.

    Args:
        sides: (depth, LANES) probabilities of going right at each level.
        leaves: (2^depth,) values of the leaves.
        values: (2^depth - 1, LANES) array that is filled. Row 0 is the root; the children of row r
            are the rows 2r + 1 and 2r + 2.
    """
    last = len(sides) - 1
    first_row = (1 << last) - 1  # first row of the last level, whose children are leaves
    for a in range(1 << last):
        left_leaf = leaves[2 * a]
        step = leaves[2 * a + 1] - left_leaf
        for k in range(LANES):
            values[first_row + a, k] = left_leaf + sides[last, k] * step
    for level in range(last - 1, -1, -1):
        for row in range((1 << level) - 1, (2 << level) - 1):
            for k in range(LANES):
                left = values[2 * row + 1, k]
                values[row, k] = left + sides[level, k] * (values[2 * row + 2, k] - left)


@compiled(error_model="numpy", fastmath={"contract", "reassoc"})
def _backpropagate(
    sides: Floats, leaves: Floats, values: Floats, d_sides: Floats, d_leaves: Floats
) -> None:
    """Back-propagate the gradient in the value of a tree's root to its splits and leaves.

    Args:
        sides, leaves: the arguments of `_fill_values`.
        values: the result of `_fill_values`, but the root's row has the gradient in its value. The
            other rows become gradients, too.
        d_sides: (depth, LANES) array that is filled with the gradients in `sides`.
        d_leaves: (2^depth,) array, to which the gradients in `leaves` are added.
    """
    last = len(sides) - 1
    d_sides[:] = 0
    for level in range(last):
        for row in range((1 << level) - 1, (2 << level) - 1):
            for k in range(LANES):
                d_value = values[row, k]
                d_sides[level, k] += d_value * (values[2 * row + 2, k] - values[2 * row + 1, k])
                d_right = d_value * sides[level, k]
                values[2 * row + 1, k] = d_value - d_right
                values[2 * row + 2, k] = d_right
    for a in range(1 << last):
        d_values = values[(1 << last) - 1 + a]
        step = leaves[2 * a + 1] - leaves[2 * a]
        total = sides.dtype.type(0)
        total_right = sides.dtype.type(0)
        for k in range(LANES):
            total += d_values[k]
            total_right += d_values[k] * sides[last, k]
            d_sides[last, k] += d_values[k] * step
        d_leaves[2 * a] += total - total_right
        d_leaves[2 * a + 1] += total_right


@compiled(error_model="numpy", fastmath={"contract"})
def _backpropagate_probabilities(sides: Floats, d_sides: Floats, d_inputs: Floats) -> None:
    """Back-propagate a block's gradients from the split probabilities s to h, half their logits.

    Args:
        sides: (splits, LANES) probabilities s = σ(2h), whose derivative in h is 2 (s - s²).
        d_sides: (splits, LANES) gradients in `sides`, which become the gradients in h.
        d_inputs: (n, splits) array that is filled with the gradients in h, transposed.
    """
    for split in range(len(sides)):
        for k in range(LANES):
            slope = sides[split, k] - sides[split, k] * sides[split, k]
            d_sides[split, k] *= slope + slope
        for k in range(len(d_inputs)):
            d_inputs[k, split] = d_sides[split, k]


@compiled(error_model="numpy", fastmath={"contract"})
def _backpropagate_to_inputs(
    inputs: Floats, scale: Floats, d_inputs: Floats, d_scale: Floats, d_shift: Floats
) -> None:
    """Back-propagate gradients from h, half the logits, to the inputs, the scale and the shift.

    On entry `d_inputs` has the gradients in h = scale * input + shift.
    """
    for k in range(len(inputs)):
        for split in range(len(scale)):
            d_h = d_inputs[k, split]
            d_shift[split] += d_h
            d_scale[split] += d_h * inputs[k, split]
            d_inputs[k, split] = d_h * scale[split]


@compiled(error_model="numpy", fastmath={"contract", "reassoc", "arcp"})
def add_losses(exp_scores: F64, winner: I64, loser: I64, weight: F64, d_scores: F64) -> float:
    """Sum weight * log(1 + exp(-margin)) over pairs and heads, and add its gradients to `d_scores`.

    Args:
        exp_scores: (n, heads) exponentials of the scores.
        winner, loser: (m,) row numbers in `exp_scores`.
        weight: (m,) weights of the pairs.
        d_scores: (n, heads) array, to which the gradients in the scores are added.
    """
    total = 0.0
    slopes = np.empty(exp_scores.shape[1])
    for k in range(len(winner)):
        i, j = winner[k], loser[k]
        # The sum over heads of the logarithms is the logarithm of the product.
        product = 1.0
        for head in range(len(slopes)):
            p_winner = exp_scores[i, head] / (exp_scores[i, head] + exp_scores[j, head])
            product *= p_winner
            slopes[head] = weight[k] * (1.0 - p_winner)
        if product < _LEAST_NORMAL:  # the product may have lost digits
            for head in range(len(slopes)):
                p_winner = exp_scores[i, head] / (exp_scores[i, head] + exp_scores[j, head])
                total -= weight[k] * np.log(p_winner)
        else:
            total -= weight[k] * np.log(product)
        for head in range(len(slopes)):
            d_scores[i, head] -= slopes[head]
        for head in range(len(slopes)):
            d_scores[j, head] += slopes[head]
    return total


@compiled(error_model="numpy", fastmath={"contract"})
def update_weights(
    weights: F32,
    gradient: F32,
    mean: F32,
    square: F32,
    rate: np.float32,
    weight_decay: np.float32,
    step: int,
) -> None:
    """Make a step of AdamW with its usual constants, in place.

    With the gradient g of step n the moments and the weights w become

        mean = 0.9 mean + 0.1 g,   square = 0.999 square + 0.001 g²,
        w = (1 - rate * weight_decay) w
            - rate * mean / (1 - 0.9^n) / (sqrt(square / (1 - 0.999^n)) + 1e-8)

    Loshchilov and Hutter 2019, Decoupled weight decay regularization, algorithm 2.

    Args:
        weights, gradient, mean, square: (k,) arrays.
        rate: the learning rate.
        weight_decay: the weight decay.
        step: the number n of the step, from 1.
    """
    f = np.float32
    rate_of_mean = rate / f(1 - 0.9**step)
    root_of_bias = f(np.sqrt(1 - 0.999**step))
    decay = f(1) - rate * weight_decay
    for k in range(len(weights)):
        g = gradient[k]
        mean[k] += f(0.1) * (g - mean[k])
        square[k] = f(0.999) * square[k] + f(0.001) * g * g
        spread = np.sqrt(square[k]) / root_of_bias + f(1e-8)
        weights[k] = decay * weights[k] - rate_of_mean * mean[k] / spread
