"""Fit the model of answers to many items, without a covariance of all scores.

The unknowns are the weights of the features and the residuals of the items that have answers, each
divided by its prior standard deviation. Newton steps are solved by conjugate gradients on the
sparse curvature. Draws of the posterior are solutions for a perturbed right side:

    (I + A^T H A)^-1 (e + A^T G^T sqrt(W) e')        H = G^T W G, e and e' standard normal

G has a row e_i - e_j for each edge of the answers, W the weights of the edges, A the prior standard
deviations and the features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sortnet.core import F32, F64, I64
from sortnet.preference.answers import GOLD, Answers
from sortnet.preference.model import (
    Annotators,
    Columns,
    Posterior,
    Prior,
    bias_steps,
    likelihood,
    tie_step,
)

DENSE = 1500  # up to this number of items, the covariance of all scores is computed
_DRAWS = 64
_STEPS = 20
_CLOSE = 1e-3  # the longest step of a score after which the search for the mode ends
_PRECISION = 1e-4  # of a solution by conjugate gradients, relative to its right side
_MOST_ITERATIONS = 300
_LONGEST_STEP = 3.0


class _Design(NamedTuple):
    """The scores of the items with answers as a linear function of the unknowns.

    Attributes:
        features: (n, d) the features, times the prior standard deviation of a weight.
        residual: the prior standard deviation of a residual.
    """

    features: F64
    residual: float

    def scores(self, unknowns: F64) -> F64:
        """Compute scores (n, ...) from unknowns (d + n, ...)."""
        d = self.features.shape[1]
        scores: F64 = self.features @ unknowns[:d] + self.residual * unknowns[d:]
        return scores

    def transposed(self, slope: F64) -> F64:
        """Compute the derivative in each unknown from the derivative in each score."""
        return np.concatenate((self.features.T @ slope, self.residual * slope))

    def transposed_squares(self, stiffness: F64) -> F64:
        """Compute the diagonal of A^T diag(stiffness) A, (d + n,)."""
        of_weights = (self.features**2).T @ stiffness
        return np.concatenate((of_weights, self.residual**2 * stiffness))


class Weights(NamedTuple):
    """The posterior of the features' weights.

    Attributes:
        mean: (d,) the expected weights.
        draws: (k, d) draws of the weights.
    """

    mean: F64
    draws: F64


def fit_weights(answers: Answers, prior: Prior, annotators: Annotators, *, seed: int) -> Weights:
    """Fit the weights of the features.

    Cost: that of `fit_many`.
    """
    weights = _Unknowns(answers, prior, annotators, np.random.default_rng(seed)).weights()
    return Weights(weights[:, 0], weights[:, 1:].T)


def fit_many(answers: Answers, prior: Prior, annotators: Annotators, *, seed: int) -> Posterior:
    """Fit the scores of many items, and draw from their posterior.

    Cost: about 20 ms an iteration of the draws for 100,000 answers; memory for 64 numbers an item.
    """
    rng = np.random.default_rng(seed)
    unknowns = _Unknowns(answers, prior, annotators, rng)
    weights = unknowns.weights()
    mode_and_draws: F32 = weights.T.astype(np.float32) @ prior.columns.values.T.astype(np.float32)
    for draw in mode_and_draws[1:]:  # one by one: all noise would be as large as the draws
        draw += unknowns.design.residual * rng.standard_normal(len(draw), np.float32)
    mode_and_draws[:, unknowns.items] = unknowns.design.scores(unknowns.mode_and_draws).T
    return Posterior(
        mode_and_draws[0].astype(np.float64),
        None,
        mode_and_draws[1:],
        unknowns.annotators,
        replace(prior, tie_odds=unknowns.nu),
    )


class _Unknowns:
    """The posterior of the unknowns: the most probable values, and draws.

    Attributes:
        items: (n,) the items that have answers.
        design: the scores of these items as a function of the unknowns.
        annotators: the annotators, with their most probable biases.
        nu: the most probable weight of a tie.
        mode_and_draws: (d + n, 1 + draws) the most probable unknowns, then draws.
    """

    def __init__(
        self, answers: Answers, prior: Prior, annotators: Annotators, rng: np.random.Generator
    ) -> None:
        """Find the mode and draw."""
        self.items = np.unique(answers.items[answers.items >= 0])
        d = prior.columns.width
        self._weight_sd = float(np.sqrt(prior.variance * prior.share / d)) if d else 0.0
        residual_sd = float(np.sqrt(prior.variance * (1 - prior.share)))
        self.design = _Design(prior.columns.values[self.items] * self._weight_sd, residual_sd)
        numbers = np.where(answers.items < 0, -1, np.searchsorted(self.items, answers.items))
        renumbered = replace(answers, items=numbers)
        mode, self.annotators, self.nu, H = _find_mode(renumbered, self.design, prior, annotators)
        errors = _drawn_errors(renumbered, self.design, self.annotators, self.nu, H, mode, rng)
        self.mode_and_draws = np.column_stack((mode, mode[:, None] + errors))

    def weights(self) -> F64:
        """Return the most probable weights of the features, then draws, (d, 1 + draws)."""
        d = self.design.features.shape[1]
        weights: F64 = self.mode_and_draws[:d] * self._weight_sd
        return weights


def _find_mode(
    answers: Answers, design: _Design, prior: Prior, annotators: Annotators
) -> tuple[F64, Annotators, float, sparse.csr_array]:
    """Find the most probable unknowns, biases and weight of a tie, and the curvature there."""
    n, d = design.features.shape
    unknowns = np.zeros(d + n)
    log_nu = float(np.log(prior.tie_odds)) if prior.tie_odds else 0.0
    may_tie = bool(answers.tied.any())
    for _ in range(_STEPS):
        nu = float(np.exp(log_nu)) if may_tie else 0.0
        at = likelihood(answers, design.scores(unknowns), annotators, nu)
        H = _curvature(answers, at.weight, n)
        slope = design.transposed(at.slope) - unknowns
        step = _solved(design, H, slope[:, None])[:, 0]
        longest = float(np.abs(design.scores(step)).max(initial=0.0))
        unknowns += step * min(1.0, _LONGEST_STEP / max(longest, _CLOSE))
        bias_step = bias_steps(answers, at, annotators)
        annotators = replace(annotators, bias=annotators.bias + bias_step)
        if may_tie:
            log_nu += tie_step(at.ties, log_nu)
        if max(longest, float(np.abs(bias_step).max(initial=0.0))) < _CLOSE:
            break
    return unknowns, annotators, nu, H


def _curvature(answers: Answers, weight: F64, n: int) -> sparse.csr_array:
    """Sum weight (e_i - e_j) (e_i - e_j)^T over the edges, as a sparse (n, n) matrix."""
    edges = answers.edges
    rows = np.concatenate((edges.i, edges.j, edges.i, edges.j))
    columns = np.concatenate((edges.i, edges.j, edges.j, edges.i))
    values = np.concatenate((weight, weight, -weight, -weight))
    return sparse.csr_array((values, (rows, columns)), shape=(n, n))


def _drawn_errors(
    answers: Answers,
    design: _Design,
    annotators: Annotators,
    nu: float,
    H: sparse.csr_array,
    unknowns: F64,
    rng: np.random.Generator,
) -> F64:
    """Draw the difference of the unknowns from their most probable values, (d + n, draws)."""
    n = len(design.features)
    edges = answers.edges
    weight = likelihood(answers, design.scores(unknowns), annotators, nu).weight
    noise = np.sqrt(weight)[:, None] * rng.standard_normal((len(weight), _DRAWS))
    ones = np.ones(len(weight))
    e = np.arange(len(weight))
    incidence = sparse.csr_array((ones, (edges.i, e)), shape=(n, len(e)))
    incidence -= sparse.csr_array((ones, (edges.j, e)), shape=(n, len(e)))
    right = design.transposed(incidence @ noise)
    right += rng.standard_normal(right.shape)
    return _solved(design, H, right)


def _solved(design: _Design, H: sparse.csr_array, right: F64) -> F64:
    """Solve (I + A^T H A) x = right for each column by preconditioned conjugate gradients."""
    diagonal = H.diagonal()
    precondition = 1 / (1 + design.transposed_squares(diagonal))[:, None]
    x = np.zeros_like(right)
    rest = right.copy()
    z = precondition * rest
    direction = z.copy()
    product = (rest * z).sum(axis=0)
    goal = _PRECISION**2 * np.maximum((right * right).sum(axis=0), 1e-300)
    for _ in range(_MOST_ITERATIONS):
        image = direction + design.transposed(H @ design.scores(direction))
        alpha = product / np.maximum((direction * image).sum(axis=0), 1e-300)
        x += alpha * direction
        rest -= alpha * image
        if ((rest * rest).sum(axis=0) < goal).all():
            break
        z = precondition * rest
        next_product = (rest * z).sum(axis=0)
        direction = z + (next_product / np.maximum(product, 1e-300)) * direction
        product = next_product
    return x


def sampled(
    answers: Answers, prior: Prior, seed: int, *, most: int = DENSE
) -> tuple[Answers, Prior, I64]:
    """Select items and the answers among them, from which hyperparameters are chosen.

    Gold pairs, then answers in a random order are taken until they are about `most` items; then
    every answer about these items is taken.

    Returns:
        The answers with renumbered items, the prior of the items, and the numbers of the items.
    """
    order = np.random.default_rng(seed).permutation(len(answers))
    gold_first = np.argsort(answers.annotator[order] != GOLD, kind="stable")
    in_order = answers.items[order[gold_first]]
    flat = in_order[in_order >= 0]
    _, first = np.unique(flat, return_index=True)
    items = np.sort(flat[np.sort(first)[:most]])
    is_inside = np.all(np.isin(answers.items, items) | (answers.items < 0), axis=1)
    inside = answers.where(is_inside)
    renumbered = np.where(inside.items < 0, -1, np.searchsorted(items, inside.items))
    columns = Columns(prior.columns.values[items])
    return replace(inside, items=renumbered), replace(prior, columns=columns), items
