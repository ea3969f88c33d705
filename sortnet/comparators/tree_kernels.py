"""Compiled soft oblivious trees: their scores, the loss of pairs, and the gradients of both.

With the half logit h = scale * input + shift a document goes right at a split with probability
σ(2h) = (1 + tanh h) / 2. The probability of reaching a leaf is the product of the probabilities on
the path to the leaf: the product over the upper levels times the product over the lower levels. A
tree's leaves are a matrix, with a row for each path through the upper levels and a column for each
path through the lower levels. So the value of a document is up · (leaves low), where the vectors
`up` and `low` are the probabilities of the paths through the upper and the lower levels.

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
_AT_ONCE = 8  # number of products that are added up in registers
_LEAST_NORMAL = 1e-290  # a float64 above this bound is normal: it has all its digits
_TILE = 16  # number of splits transposed together: a cache line holds 16 float32

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

    A tree gives a document the value up · (leaves low), where `up` and `low` are the probabilities
    of the paths through the upper and through the lower levels. So the tree has the gradients

        d_up = g (leaves low),   d_low = leavesᵀ (g up),   d_leaves = Σ (g up) lowᵀ

    with the gradient g in the score of the tree's head, and the sum over the documents. They are
    back-propagated from the paths to the splits, and from the splits to inputs and weights.

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
    upper = depth // 2  # number of upper levels
    lower = depth - upper
    rows = 1 << upper
    columns = 1 << lower
    # These arrays are used again for every tree. They have a row for each path; the last rows
    # belong to the whole paths, through all upper or all lower levels.
    up = _allocate_paths(upper, inputs)
    d_up = _allocate_paths(upper, inputs)
    low = _allocate_paths(lower, inputs)
    d_low = _allocate_paths(lower, inputs)
    whole_up = up[rows - 1 :]
    d_whole_up = d_up[rows - 1 :]
    whole_low = low[columns - 1 :]
    d_whole_low = d_low[columns - 1 :]
    d_sides = np.empty((len(scale), LANES), inputs.dtype)
    d_scores = np.zeros((d_out.shape[1], LANES), inputs.dtype)
    for block in range(len(sides)):
        docs = slice(block * LANES, (block + 1) * LANES)
        _fill_transposed(d_out[docs], d_scores)
        for tree in range(trees):
            head_of_tree = tree * len(d_scores) // trees
            g = d_scores[head_of_tree]
            first = tree * depth
            tree_sides = sides[block, first : first + depth]
            d_tree_sides = d_sides[first : first + depth]
            matrix = leaves[tree].reshape(rows, columns)
            # Back-propagate to the upper levels: d_up = g (leaves low).
            _fill_paths(tree_sides[upper:], low)
            _fill_products(matrix, whole_low, d_whole_up)
            _scale_rows(d_whole_up, g)
            up[0] = 1  # without upper levels, the tree before has multiplied this row by g
            _fill_paths(tree_sides[:upper], up)
            _backpropagate_paths(tree_sides[:upper], up, d_up, d_tree_sides[:upper])
            # Back-propagate to the lower levels and the leaves: d_low = leavesᵀ (g up), and
            # d_leaves is the sum of (g up) lowᵀ.
            _scale_rows(whole_up, g)
            _fill_products(matrix.T, whole_up, d_whole_low)
            _backpropagate_paths(tree_sides[upper:], low, d_low, d_tree_sides[upper:])
            _add_products(whole_up, whole_low, d_leaves[tree])
        _backpropagate_probabilities(sides[block], d_sides, d_inputs[docs])
    _backpropagate_half_logits(inputs, scale, d_inputs, d_scale, d_shift)


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
def _allocate_paths(levels: int, like: Floats) -> Floats:
    """Allocate an array for the probabilities of all paths through the first 0, 1, ... levels.

    The array has one row for the root, 2 rows for the paths through the first level, 4 for the
    paths through the first two levels, and so on. It has the number type of `like`.
    """
    return np.ones(((2 << levels) - 1, LANES), like.dtype)


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
    """Compute the scores of a block of documents, given the probabilities of going right.

    The score of a head is the sum of up · (leaves low) over its trees, where `up` and `low` are the
    probabilities of the paths through the upper and through the lower levels of a tree.

    Args:
        sides: (splits, LANES) probabilities of going right.
        leaves: (trees, 2^depth) values of the leaves.
        out: (n, heads) array that is filled, for the n documents of the block, at most `LANES`.
    """
    heads = out.shape[1]
    trees_a_head = len(leaves) // heads
    depth = len(sides) // len(leaves)
    upper = depth // 2  # number of upper levels
    lower = depth - upper
    rows = 1 << upper
    columns = 1 << lower
    up = _allocate_paths(upper, sides)
    low = _allocate_paths(lower, sides)
    whole_up = up[rows - 1 :]  # rows of the paths through all upper levels
    whole_low = low[columns - 1 :]  # rows of the paths through all lower levels
    values = np.empty((rows, LANES), sides.dtype)
    total = np.empty(LANES, sides.dtype)
    for head in range(heads):
        total[:] = 0
        for tree in range(head * trees_a_head, (head + 1) * trees_a_head):
            tree_sides = sides[tree * depth : (tree + 1) * depth]
            _fill_paths(tree_sides[:upper], up)
            _fill_paths(tree_sides[upper:], low)
            _fill_products(leaves[tree].reshape(rows, columns), whole_low, values)
            for a in range(rows):
                for k in range(LANES):
                    total[k] += whole_up[a, k] * values[a, k]
        for k in range(len(out)):
            out[k, head] = total[k]


@compiled(error_model="numpy", fastmath={"contract"})
def _fill_paths(sides: Floats, paths: Floats) -> None:
    """Compute the probability of each path through the first 0, 1, ... levels of a tree.

    Args:
        sides: (levels, LANES) probabilities of going right at each level.
        paths: array from `_allocate_paths` that is filled; its first row, for the root, must be 1.
    """
    # The `n_paths` paths through the levels so far are rows of `paths`. A path, in row `path`,
    # continues to the left in row `left`, and to the right in row `left + 1`.
    first_path = 0
    n_paths = 1
    for level in range(len(sides)):
        first_longer = first_path + n_paths
        for a in range(n_paths):
            path = first_path + a
            left = first_longer + 2 * a
            for k in range(LANES):
                p_right = paths[path, k] * sides[level, k]
                paths[left + 1, k] = p_right
                paths[left, k] = paths[path, k] - p_right
        first_path = first_longer
        n_paths *= 2


@compiled(error_model="numpy", fastmath={"contract"})
def _fill_products(matrix: Floats, paths: Floats, out: Floats) -> None:
    """Multiply a tree's leaves with the probabilities of paths: out = matrix @ paths.

    The compiler keeps a sum of `_AT_ONCE` products in registers. If the number of columns is no
    multiple of `_AT_ONCE`, the first columns are added one at a time.

    Args:
        matrix: (rows, columns) leaves.
        paths: (columns, LANES) probabilities.
        out: (rows, LANES) array that is filled with the product.
    """
    columns = matrix.shape[1]
    n_rest = columns % _AT_ONCE
    for row in range(len(matrix)):
        if n_rest:
            out[row] = 0
            for column in range(n_rest):
                for k in range(LANES):
                    out[row, k] += matrix[row, column] * paths[column, k]
        else:
            for k in range(LANES):
                total = matrix[row, 0] * paths[0, k]
                for a in range(1, _AT_ONCE):
                    total += matrix[row, a] * paths[a, k]
                out[row, k] = total
        for first in range(_AT_ONCE, columns, _AT_ONCE):
            for k in range(LANES):
                total = out[row, k]
                for a in range(_AT_ONCE):
                    total += matrix[row, first + a] * paths[first + a, k]
                out[row, k] = total


@compiled(error_model="numpy", fastmath={"contract"})
def _backpropagate_paths(sides: Floats, paths: Floats, d_paths: Floats, d_sides: Floats) -> None:
    """Back-propagate gradients from the longest paths through a tree to shorter paths and splits.

    Args:
        sides: (levels, LANES) probabilities of going right at each level.
        paths: probabilities of all paths, with the rows of `_allocate_paths`.
        d_paths: gradients in `paths`; given for the longest paths, and filled for shorter paths.
        d_sides: (levels, LANES) array that is filled with the gradients in `sides`.
    """
    # A path, in row `path`, has the probability p. It continues to the left, in row `left`, with
    # probability p (1 - side), and to the right, in row `left + 1`, with probability p side.
    n_paths = (len(paths) + 1) // 2  # the longest paths are the last rows
    first_path = len(paths) - n_paths
    for level in range(len(sides) - 1, -1, -1):
        first_longer = first_path
        n_paths //= 2
        first_path -= n_paths
        d_sides[level] = 0
        for a in range(n_paths):
            path = first_path + a
            left = first_longer + 2 * a
            for k in range(LANES):
                step = d_paths[left + 1, k] - d_paths[left, k]
                d_sides[level, k] += paths[path, k] * step
                d_paths[path, k] = d_paths[left, k] + sides[level, k] * step


@compiled(error_model="numpy", fastmath={"contract"})
def _scale_rows(rows: Floats, factor: Floats) -> None:
    """Multiply every row of a matrix, (n, LANES), by the factors, (LANES,), in place."""
    for a in range(len(rows)):
        for k in range(LANES):
            rows[a, k] *= factor[k]


@compiled(error_model="numpy", fastmath={"contract", "reassoc"})
def _add_products(up: Floats, low: Floats, d_leaves: Floats) -> None:
    """Add the gradients in the leaves to `d_leaves`, (rows * columns,).

    The gradient in a leaf is the sum of up * low over the documents of a block.

    Args:
        up: (rows, LANES) probabilities of paths through the upper levels, times the gradients in
            the scores.
        low: (columns, LANES) probabilities of paths through the lower levels.
        d_leaves: (rows * columns,) gradients in the leaves.
    """
    zero = up.dtype.type(0)
    for a in range(len(up)):
        for b in range(len(low)):
            total = zero
            for k in range(LANES):
                total += up[a, k] * low[b, k]
            d_leaves[a * len(low) + b] += total


@compiled(error_model="numpy", fastmath={"contract"})
def _backpropagate_probabilities(sides: Floats, d_sides: Floats, d_inputs: Floats) -> None:
    """Back-propagate a block's gradients from the split probabilities to the half logits.

    Args:
        sides: (splits, LANES) probabilities s = (1 + tanh h) / 2, with the slope 2 (s - s²) in h.
        d_sides: (splits, LANES) gradients in `sides`, which become the gradients in h.
        d_inputs: (n, splits) array that is filled with the gradients in h, transposed.
    """
    for split in range(len(sides)):
        for k in range(LANES):
            slope = sides[split, k] - sides[split, k] * sides[split, k]
            d_sides[split, k] *= slope + slope
    # Transpose tiles of `_TILE` splits, so that each cache line is written at once.
    n_tiled = len(sides) - len(sides) % _TILE
    for first in range(0, n_tiled, _TILE):
        for k in range(len(d_inputs)):
            for split in range(first, first + _TILE):
                d_inputs[k, split] = d_sides[split, k]
    for k in range(len(d_inputs)):
        for split in range(n_tiled, len(sides)):
            d_inputs[k, split] = d_sides[split, k]


@compiled(error_model="numpy", fastmath={"contract"})
def _backpropagate_half_logits(
    inputs: Floats, scale: Floats, d_inputs: Floats, d_scale: Floats, d_shift: Floats
) -> None:
    """Back-propagate gradients from the half logits to the inputs, the scale and the shift.

    On entry `d_inputs` has the gradients in the half logits scale * input + shift.
    """
    for k in range(len(inputs)):
        for split in range(len(scale)):
            d_half = d_inputs[k, split]
            d_shift[split] += d_half
            d_scale[split] += d_half * inputs[k, split]
            d_inputs[k, split] = d_half * scale[split]


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
