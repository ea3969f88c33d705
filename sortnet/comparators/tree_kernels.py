"""Compiled soft oblivious trees: their scores, the loss of pairs, and the gradients of both.

With half logits h = scale * inputs + shift a document goes right at a split with probability
σ(2h) = (1 + tanh h) / 2. A leaf is reached with the product of the probabilities on the way to it:
the product over the upper levels times the product over the lower levels. A tree's leaves are a
matrix, with a row for each way through the upper levels and a column for each way through the lower
levels. So the value of a document is up · (leaves low), where `up` and `low` are the probabilities
of these ways.

A kernel takes documents in blocks of `LANES`, which go down a tree side by side. The last block is
filled up: the same code for each document gives equal documents equal scores. NaN stays NaN, which
ends a training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sortnet.core import F64, I64

Floats = NDArray[np.floating[Any]]

LANES = 64
_AT_ONCE = 8  # number of ways whose values are added up in registers
_LEAST = 1e-290  # a product of probabilities above it has all its digits
_TILE = 16  # number of splits transposed together: a cache line holds as many float32

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
    """Number of blocks, of `LANES` documents each, that hold n documents."""
    return -(-n // LANES)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def fill_scores(
    inputs: Floats, scale: Floats, shift: Floats, leaves: Floats, sides: Floats, out: Floats
) -> None:
    """Fill the scores of all heads, and the split probabilities that `fill_gradients` needs.

    Args:
        inputs: (n, splits) the input of each split; splits tree by tree.
        scale, shift: (splits,) from which the half logits follow.
        leaves: (trees, 2^depth), trees head by head.
        sides: (blocks_of(n), splits, LANES), filled.
        out: (n, heads), filled.
    """
    for block in range(len(sides)):
        docs = slice(block * LANES, (block + 1) * LANES)
        _fill_sides(inputs[docs], scale, shift, sides[block])
        _fill_block(sides[block], leaves, out[docs])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
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
    """Fill the gradients of a loss in inputs and weights, given its gradient in the scores.

    Args:
        inputs, scale, leaves: the arguments of `fill_scores`.
        sides: as filled by `fill_scores`.
        d_out: (n, heads) the gradient in the scores.
        d_inputs: an array of the shape of `inputs`, which is filled.
        d_scale, d_shift, d_leaves: zeros, filled.
    """
    trees = len(leaves)
    depth = len(scale) // trees
    upper = depth // 2
    rows, columns = 1 << upper, 1 << (depth - upper)
    up, d_up = _ways(upper, inputs), _ways(upper, inputs)
    low, d_low = _ways(depth - upper, inputs), _ways(depth - upper, inputs)
    d_sides = np.empty((len(scale), LANES), inputs.dtype)
    d_scores = np.zeros((d_out.shape[1], LANES), inputs.dtype)
    for block in range(len(sides)):
        d_scores[:] = 0
        for k in range(min(LANES, len(inputs) - block * LANES)):
            for head in range(len(d_scores)):
                d_scores[head, k] = d_out[block * LANES + k, head]
        for tree in range(trees):
            first = tree * depth
            tree_sides = sides[block, first : first + depth]
            d_tree_sides = d_sides[first : first + depth]
            matrix = leaves[tree].reshape(rows, columns)
            _fill_ways(tree_sides[upper:], low)
            _fill_products(matrix, low[columns - 1 :], d_up[rows - 1 :])
            up[0] = 1
            _fill_ways(tree_sides[:upper], up)
            _scale_rows(d_up[rows - 1 :], d_scores[tree * len(d_scores) // trees])
            _fill_slopes(tree_sides[:upper], up, d_up, d_tree_sides[:upper])
            _scale_rows(up[rows - 1 :], d_scores[tree * len(d_scores) // trees])
            _fill_products(matrix.T, up[rows - 1 :], d_low[columns - 1 :])
            _fill_slopes(tree_sides[upper:], low, d_low, d_tree_sides[upper:])
            _add_products(up[rows - 1 :], low[columns - 1 :], d_leaves[tree])
        _copy_slopes(sides[block], d_sides, d_inputs[block * LANES : (block + 1) * LANES])
    _finish_slopes(inputs, scale, d_inputs, d_scale, d_shift)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _ways(levels: int, like: Floats) -> Floats:
    """Allocate an array for the probabilities of all ways through 0, 1, ... levels of a tree."""
    return np.ones(((2 << levels) - 1, LANES), like.dtype)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_sides(inputs: Floats, scale: Floats, shift: Floats, sides: Floats) -> None:
    """Fill the probability that each document goes right at each split, (splits, LANES)."""
    n = len(inputs)
    sides[:, n:] = 0
    half = sides.dtype.type(0.5)  # a Python number would turn a float32 into a float64
    for split in range(len(sides)):
        for k in range(n):
            sides[split, k] = inputs[k, split]
        split_scale, split_shift = scale[split], shift[split]
        for k in range(LANES):
            sides[split, k] = split_scale * sides[split, k] + split_shift
        if sides.itemsize == 8:
            for k in range(LANES):
                sides[split, k] = np.tanh(sides[split, k])
        else:
            _fill_tanh(sides[split])
        for k in range(LANES):
            sides[split, k] = half * sides[split, k] + half


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_tanh(x: Floats) -> None:
    """Replace float32 numbers by their tanh, in place."""
    f = x.dtype.type
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_block(sides: Floats, leaves: Floats, out: Floats) -> None:
    """Fill the scores of a block of documents, given the probabilities of going right."""
    trees, heads = len(leaves), out.shape[1]
    depth = len(sides) // trees
    upper = depth // 2
    rows, columns = 1 << upper, 1 << (depth - upper)
    up, low = _ways(upper, sides), _ways(depth - upper, sides)
    values = np.empty((rows, LANES), sides.dtype)
    total = np.empty(LANES, sides.dtype)
    for head in range(heads):
        total[:] = 0
        for tree in range(head * (trees // heads), (head + 1) * (trees // heads)):
            tree_sides = sides[tree * depth : (tree + 1) * depth]
            _fill_ways(tree_sides[:upper], up)
            _fill_ways(tree_sides[upper:], low)
            _fill_products(leaves[tree].reshape(rows, columns), low[columns - 1 :], values)
            for a in range(rows):
                for k in range(LANES):
                    total[k] += up[rows - 1 + a, k] * values[a, k]
        for k in range(len(out)):
            out[k, head] = total[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_ways(sides: Floats, ways: Floats) -> None:
    """Fill the probability of each way through the first 0, 1, ... levels of a tree."""
    # A level is a run of rows of `ways`, and the next level has a left and a right row for each.
    before, size = 0, 1
    for level in range(len(sides)):
        after = before + size
        for a in range(size):
            for k in range(LANES):
                p_right = ways[before + a, k] * sides[level, k]
                ways[after + 2 * a + 1, k] = p_right
                ways[after + 2 * a, k] = ways[before + a, k] - p_right
        before, size = after, 2 * size


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_products(matrix: Floats, ways: Floats, out: Floats) -> None:
    """Multiply a tree's leaves, (rows, columns), with way probabilities, (columns, LANES)."""
    columns = matrix.shape[1]
    n_rest = columns % _AT_ONCE
    for row in range(len(matrix)):
        if n_rest:
            out[row] = 0
            for column in range(n_rest):
                for k in range(LANES):
                    out[row, k] += matrix[row, column] * ways[column, k]
        else:
            for k in range(LANES):
                total = matrix[row, 0] * ways[0, k]
                for a in range(1, _AT_ONCE):
                    total += matrix[row, a] * ways[a, k]
                out[row, k] = total
        for first in range(_AT_ONCE, columns, _AT_ONCE):
            for k in range(LANES):
                total = out[row, k]
                for a in range(_AT_ONCE):
                    total += matrix[row, first + a] * ways[first + a, k]
                out[row, k] = total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_slopes(sides: Floats, ways: Floats, d_ways: Floats, d_sides: Floats) -> None:
    """Back-propagate gradients from the longest ways through a tree to shorter ways and splits."""
    size = (len(ways) + 1) // 2
    before = len(ways) - size
    for level in range(len(sides) - 1, -1, -1):
        after, size = before, size // 2
        before -= size
        d_sides[level] = 0
        for a in range(size):
            for k in range(LANES):
                step = d_ways[after + 2 * a + 1, k] - d_ways[after + 2 * a, k]
                d_sides[level, k] += ways[before + a, k] * step
                d_ways[before + a, k] = d_ways[after + 2 * a, k] + sides[level, k] * step


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _scale_rows(rows: Floats, factor: Floats) -> None:
    """Multiply each of the rows, (n, LANES), by the factors (LANES,), in place."""
    for a in range(len(rows)):
        for k in range(LANES):
            rows[a, k] *= factor[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _add_products(up: Floats, low: Floats, d_leaves: Floats) -> None:
    """Add each pair of upper and lower way probabilities, summed over a block, to `d_leaves`."""
    zero = up.dtype.type(0)
    for a in range(len(up)):
        for b in range(len(low)):
            total = zero
            for k in range(LANES):
                total += up[a, k] * low[b, k]
            d_leaves[a * len(low) + b] += total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _copy_slopes(sides: Floats, d_sides: Floats, d_inputs: Floats) -> None:
    """Back-propagate a block's gradients from the split probabilities to the half logits."""
    for split in range(len(sides)):
        for k in range(LANES):
            slope = sides[split, k] - sides[split, k] * sides[split, k]
            d_sides[split, k] *= slope + slope
    n_tiled = len(sides) - len(sides) % _TILE
    for first in range(0, n_tiled, _TILE):
        for k in range(len(d_inputs)):
            for split in range(first, first + _TILE):
                d_inputs[k, split] = d_sides[split, k]
    for k in range(len(d_inputs)):
        for split in range(n_tiled, len(sides)):
            d_inputs[k, split] = d_sides[split, k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _finish_slopes(
    inputs: Floats, scale: Floats, d_inputs: Floats, d_scale: Floats, d_shift: Floats
) -> None:
    """Back-propagate gradients from the half logits to the inputs, the scale and the shift."""
    for k in range(len(inputs)):
        for split in range(len(scale)):
            d_half = d_inputs[k, split]
            d_shift[split] += d_half
            d_scale[split] += d_half * inputs[k, split]
            d_inputs[k, split] = d_half * scale[split]


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract", "reassoc", "arcp"},
)
def add_losses(exp_scores: F64, winner: I64, loser: I64, weight: F64, d_scores: F64) -> float:
    """Sum weight * log(1 + exp(-margin)) over pairs and heads, and add its gradients to `d_scores`.

    Args:
        exp_scores: (n, heads) exponentials of the scores.
        winner, loser: (m,) document numbers.
        weight: (m,).
        d_scores: (n, heads), to which the gradients in the scores are added.
    """
    total = 0.0
    slopes = np.empty(exp_scores.shape[1])
    for k in range(len(winner)):
        i, j = winner[k], loser[k]
        product = 1.0
        for head in range(len(slopes)):
            p_right = exp_scores[i, head] / (exp_scores[i, head] + exp_scores[j, head])
            product *= p_right
            slopes[head] = weight[k] * (1.0 - p_right)
        if product < _LEAST:  # the product may have lost digits
            for head in range(len(slopes)):
                total -= weight[k] * np.log(
                    exp_scores[i, head] / (exp_scores[i, head] + exp_scores[j, head])
                )
        else:
            total -= weight[k] * np.log(product)
        for head in range(len(slopes)):
            d_scores[i, head] -= slopes[head]
        for head in range(len(slopes)):
            d_scores[j, head] += slopes[head]
    return total
