"""The likelihood of the answers as a function of the unknowns, and what is found by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar

from sortnet.core import F64, I64, Bool
from sortnet.preference.likelihood import Likelihood, answers, genuine, measured, squared_error
from sortnet.preference.posterior_precision import Dense, Large, Precision
from sortnet.preference.reliability import (
    Annotators,
    matched_scale,
    reliabilities,
    side_spread,
)
from sortnet.preference.set_answers import SetRows, set_likelihood, summed_over_answers
from sortnet.preference.vote_arrays import GOLD, MODEL, PERSON, Votes, unseen, unseen_in_blocks

DENSE = 1_000  # unknowns up to which the posterior's covariance is kept
_LOG_TIE = np.log(0.05), np.log(20.0)  # of the tie threshold
# Priors are tried of these shares of the features in the scores' variance, and of these factors of
# the matched variance; the most likely ones are kept, with at least so much of the best's odds.
_SHARES = {0.01: 2.0, 0.3: 1.0, 0.6: 1.5, 0.85: 1.5, 0.998: 0.5}  # with odds before any answer
_FACTORS = (0.3, 1.0, 3.0)
_MOST_PRIORS = 8
_LIKELY = 0.02
# Variance of the errors that models share, relative to the variance of the scores: beside many
# answers of people, and the number of unknowns that this guess counts for.
SHARED = 0.5
UNKNOWN = float("nan")
_SHARED_BELIEF = 3.0
_CERTAIN = 4.0  # reliability of a gold pair's known answer
# Relative fall of the loss after which there is no other Newton step. Each squares the distance to
# the mode, so the next one would fall by its square.
_FLAT = 1e-5
_STEP = 0.01  # of the logarithm of a variance, in a difference quotient
_HYPER = 1.0  # standard deviation of the logarithm of that variance around the first guess


@dataclass(frozen=True)
class Prior:
    """Variances of the prior: of a feature's weight, and of an item's residual."""

    weight: float
    residual: float

    def total(self, d: int) -> float:
        """Variance of an item's score, given d standardised features."""
        return d * self.weight + self.residual


def first_guess(d: int) -> Prior:
    """The prior before any answer: scores vary more than the noise, mostly by features."""
    return Prior(2 / d, 0.15) if d else Prior(1.0, 2.0)


@dataclass(frozen=True, eq=False)
class Scales:
    """Hyperparameters of a fit, chosen by the answers.

    Attributes:
        priors, odds: of the scores, those that are likely; (k,) their probabilities.
        annotators: their reliabilities and blind shares, and the prior spread of their side biases.
        tie, ties: the tie threshold, and the share of ties among the answers.
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

    def of(self, n_annotators: int) -> Scales:
        """The same for more annotators: new ones are average."""
        return replace(self, annotators=self.annotators.padded(n_annotators))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same as arrays by name; see `from_arrays`."""
        return {
            "priors": np.array([(prior.weight, prior.residual) for prior in self.priors]),
            "odds": self.odds,
            "annotators": np.array(list(vars(self.annotators).values())),
            "others": np.array([self.tie, self.ties, self.shared]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Scales:
        """What `arrays` said."""
        priors = tuple(Prior(*prior) for prior in arrays["priors"].tolist())
        return cls(
            priors, arrays["odds"], Annotators(*arrays["annotators"]), *arrays["others"].tolist()
        )


class Part(NamedTuple):
    """The posterior under one prior."""

    theta: F64
    mean: F64  # (n + a,)
    covariance: F64 | None
    draws: F64
    weights: F64  # (draws, d)
    moved: F64  # (draws, d) how the uncertainty of the reliabilities moves them


@dataclass(frozen=True, eq=False)
class Problem:
    """The answers' likelihood as a function of the unknowns: weights, residuals, biases; and if
    models have answered, the weights and residuals of the errors that they share.
    """

    features: F64  # (n, d)
    votes: Votes
    n_annotators: int
    scales: Scales

    @property
    def large(self) -> bool:
        """Whether the precision is never written out."""
        return sum(self.features.shape) + self.n_annotators > DENSE

    @cached_property
    def shared(self) -> bool:
        """Whether there are errors that models share."""
        return bool(self.votes.of_kind(MODEL).any())

    @property
    def size(self) -> int:
        """The number of scores and biases, and of shared errors."""
        return (1 + self.shared) * len(self.features) + self.n_annotators

    @property
    def n_unknowns(self) -> int:
        """The number of weights and residuals, biases, and the same of shared errors."""
        return self.size + (1 + self.shared) * int(self.features.shape[1])

    def solver(self, weight: F64, prior: Prior) -> Precision:
        """The posterior's precision, given the weight of each answer."""
        return (Large if self.large else Dense)(self, weight, self.precision(prior))

    def precision(self, prior: Prior) -> F64:
        """Inverse variances of the prior, in the order of the unknowns."""
        n, d = self.features.shape
        scores = np.repeat([1 / prior.weight, 1 / prior.residual], [d, n])
        errors = scores[: self.shared * (d + n)] / self.scales.shared
        return np.concatenate((scores, self.scales.annotators.side_sd**-2.0, errors))

    def to_scores(self, theta: F64) -> F64:
        """(..., d + n + a) unknowns -> (..., n + a) scores and biases; then shared errors."""
        n, d = self.features.shape
        own, errors = np.split(theta, [d + n + self.n_annotators], axis=-1)
        out: F64 = np.concatenate((own[..., d:], errors[..., d:]), axis=-1)
        out[..., :n] += theta[..., :d] @ self.features.T
        if self.shared:
            out[..., -n:] += errors[..., :d] @ self.features.T
        return out

    def pull_back(self, slope: F64) -> F64:
        """The transpose of `to_scores`."""
        return self._times(slope, self.features)

    def diagonal(self, curvature: F64) -> F64:
        """Diagonal of a matrix's pull back, whose own diagonal alone counts."""
        return self._times(curvature, self.features**2)

    def _times(self, slope: F64, X: F64) -> F64:
        n = len(X)
        own, errors = np.split(slope, [n + self.n_annotators], axis=-1)
        parts = [own[..., :n] @ X, own]
        if self.shared:
            parts += [errors @ X, errors]
        return np.concatenate(parts, axis=-1)

    @cached_property
    def reliability(self) -> F64:
        """(m,) of who gave each answer; that of a known answer is high."""
        c = self.scales.annotators.reliability[self.votes.annotator]
        high: F64 = np.where(self.votes.of_kind(GOLD), _CERTAIN, c)
        return high

    @cached_property
    def given(self) -> F64:
        """(m,) 1 for an annotator's answer, 0 for a known one: nobody has a bias in it."""
        return (~self.votes.of_kind(GOLD)).astype(np.float64)

    @cached_property
    def sets(self) -> list[SetRows]:
        """The rows of answers about sets."""
        return self.votes.sets

    @cached_property
    def side(self) -> F64:
        """(m,) how much of the annotator's side bias is for the left item; 0 in a known answer."""
        return self.given if self.votes.bias is None else self.given * self.votes.bias

    def z(self, theta: F64) -> F64:
        """(m,) c (s_left - s_right) + b of each answer, and of a model's e_left - e_right more."""
        v, s, n = self.votes, self.to_scores(theta), len(self.features)
        z: F64 = self.reliability * (s[v.left] - s[v.right]) + self.side * s[n + v.annotator]
        if self.shared:
            errors = s[n + self.n_annotators :]
            z += self.by_model * (errors[v.left] - errors[v.right])
        return z

    @cached_property
    def by_model(self) -> F64:
        """(m,) 1 for a model's answer, else 0."""
        return self.votes.of_kind(MODEL).astype(np.float64)

    @cached_property
    def measured(self) -> I64:
        """The places of the answers that are measurements and count as such."""
        is_used = self.scales.annotators.scale[self.votes.annotator] > 0
        return np.flatnonzero(self.votes.is_measured & is_used)

    def likelihood(self, theta: F64) -> Likelihood:
        """Log-likelihood of every answer, with its slope and curvature."""
        scales, votes, rows = self.scales, self.votes, self.measured
        z = self.z(theta)
        blind = scales.annotators.blind[votes.annotator] * self.given
        of_answers = answers(z, votes.target, scales.tie, blind, scales.ties)
        if votes.probit is not None and len(rows):
            scale = scales.annotators.scale[votes.annotator[rows]]
            of_measurements = measured(z[rows], votes.probit[rows], scale)
            for column, values in zip(of_answers, of_measurements, strict=True):
                column[rows] = values
        for sets in self.sets:
            first = sets.first
            of_sets = set_likelihood(sets.layout, z[sets.rows], blind[first], scales.ties)
            of_answers.log_p[sets.rows] = 0
            of_answers.log_p[first] = of_sets.log_p
            of_answers.slope[sets.rows] = of_sets.slope
            of_answers.weight[sets.rows] = of_sets.weight
        if votes.weight is None:
            return of_answers
        return Likelihood(*(votes.weight * column for column in of_answers))

    def newton(self, theta: F64, prior: Prior, *, steps: int) -> F64:
        """The mode of the posterior, or a few steps towards it."""
        precision = self.precision(prior)

        def loss(theta: F64) -> tuple[float, Likelihood]:
            seen = self.likelihood(theta)
            return float(0.5 * precision @ theta**2 - seen.log_p.sum()), seen

        before, seen = loss(theta)
        for _ in range(steps):
            slope = self.pull_back(self.summed(seen.slope)) - precision * theta
            step = self.solver(seen.weight, prior).solve(slope)
            size, (after, then) = 1.0, loss(theta + step)
            while after > before and size > 1e-3:
                size /= 2
                after, then = loss(theta + size * step)
            if after <= before:
                theta = theta + size * step
            if before - after <= _FLAT * (1 + abs(before)):
                break
            before, seen = after, then
        return theta

    def summed(self, pull: F64) -> F64:
        """Sums of the votes' pulls on scores, biases and shared errors."""
        v, n = self.votes, len(self.features)

        def on_items(scaled: F64) -> F64:
            won, lost = (np.bincount(side, scaled, n) for side in (v.left, v.right))
            return np.asarray(won - lost, np.float64)

        sums = [
            on_items(pull * self.reliability),
            np.bincount(v.annotator, pull * self.side, self.n_annotators),
        ]
        if self.shared:
            sums.append(on_items(pull * self.by_model))
        return np.concatenate(sums)

    def coefficients(self) -> tuple[tuple[I64, F64], ...]:
        """Which scores, biases and shared errors z of each answer depends on, and how much."""
        v, n, c = self.votes, len(self.features), self.reliability
        own = (v.left, c), (v.right, -c), (n + v.annotator, self.side)
        if not self.shared:
            return own
        first, e = n + self.n_annotators, self.by_model
        return (*own, (first + v.left, e), (first + v.right, -e))

    def curvature(self, weight: F64, some: slice = slice(None)) -> tuple[I64, I64, F64]:
        """Minus the second derivatives of the log-likelihood of some answers in scores, biases and
        shared errors, as the rows, columns and values of a square matrix; duplicates are summed.
        """
        of = [(i[some], x[some]) for i, x in self.coefficients()]
        weight = weight[some]
        entries = [(i, j, weight * x * y) for i, x in of for j, y in of]
        i, j, x = (np.concatenate(part) for part in zip(*entries, strict=True))
        return i, j, x

    @property
    def compares(self) -> bool:
        """Whether annotators are measured: by each other, or models by people and gold pairs."""
        return self.n_annotators > 1 or self.shared

    def around(self, theta: F64, prior: Prior, draws: int, rng: np.random.Generator) -> Part:
        """Laplace's approximation, widened by the uncertainty of the reliabilities."""
        at = self.solver(self.likelihood(theta).weight, prior)
        unknowns = theta + at.draw(draws, rng)
        mean, drawn = self.to_scores(theta), self.to_scores(unknowns)
        covariance, d = at.covariance(), self.features.shape[1]
        moves = np.zeros_like(unknowns[:, :d])
        if self.compares and len(self.votes):
            pulled = self.pulled_by_reliability(theta)
            noise = rng.standard_normal((draws, self.n_annotators))
            moved = self.moved(noise @ pulled, at)  # of thousands of annotators, a few draws
            drawn += self.to_scores(moved)
            moves = moved[:, :d]
            if covariance is not None:
                moved = self.to_scores(self.moved(pulled.toarray(), at))
                covariance = covariance + moved.T @ moved
        return Part(theta, mean, covariance, drawn, unknowns[:, :d], moves)

    def moved(self, pulled: F64, at: Precision) -> F64:
        """(k, d + n + a) how pulls on scores and biases, (k, n + a), move the mode."""
        return at.solve(self.pull_back(pulled).T).T

    def pulled_by_reliability(self, theta: F64) -> sparse.csr_array:
        """(a, n + a) how a standard deviation of each reliability pulls scores, biases, errors."""
        v, s = self.votes, self.to_scores(theta)
        gap = s[v.left] - s[v.right]
        _, slope, weight = self.likelihood(theta)
        of = self.coefficients()
        pulls = [-weight * gap * x for _, x in of]
        pulls[0], pulls[1] = pulls[0] + slope, pulls[1] - slope
        sd = self.scales.annotators.reliability_sd[v.annotator] * self.given
        pull, what = np.concatenate([p * sd for p in pulls]), np.concatenate([i for i, _ in of])
        who = np.tile(v.annotator, len(of))
        shape = self.n_annotators, self.size
        return sparse.csr_array(sparse.coo_array((pull, (who, what)), shape=shape))

    def matched_scales(self, theta: F64, variance: F64) -> Scales:
        """The scales of side biases and ties, given the scores."""
        first, scales = sum(self.features.shape), self.scales
        if scales.tie:
            said = (self.given > 0) & self.votes.of_pairs
            said[self.measured] = False
            z, target = self.z(theta)[said], self.votes.target[said]
            found = minimize_scalar(
                lambda log: -genuine(z, target, np.exp(log)).log_p.sum(),
                bounds=_LOG_TIE,
                method="bounded",
                options={"xatol": 0.02},
            )
            scales = replace(scales, tie=float(np.exp(found.x)))
        side_sd = side_spread((theta**2 + variance)[first : first + self.n_annotators])
        return replace(scales, annotators=replace(scales.annotators, side_sd=side_sd))

    def matched_shared(self, theta: F64, variance: F64, prior: Prior, guess: float) -> float:
        """Variance of the errors that models share, relative to the variance of the scores.

        MacKay's update, as of the prior. Where nothing says how they differ, it stays near the
        guess. Scores that are larger than their prior expects, such as those of judges who never
        contradict each other, say nothing of the errors: both are divided by the scores' excess.

        `variance` is of the unknowns.
        """
        if not self.shared or self.votes.only_of_models:
            return self.scales.shared
        n_errors = sum(self.features.shape)
        precision = self.precision(prior)[:n_errors]
        scores, errors = slice(n_errors), slice(-n_errors, None)
        excess = _matched_variance(
            float(precision @ theta[scores] ** 2), precision * variance[scores], 1.0
        )
        square = float(precision @ theta[errors] ** 2) / excess
        unsure = precision * variance[errors] / self.scales.shared
        return _matched_variance(square, unsure, guess)

    def lost_weights(
        self, theta: F64, root: F64, prior: Prior, solver: Precision
    ) -> tuple[float, float]:
        """How much weight the answers lose as the variance of feature weights, or of residuals,
        grows: Σ -dw / d log(variance) times the variance of z of each answer.

        With the variance the mode grows by H⁻¹ Λ θ, and there the answers' weights w are smaller.
        Half of this loss is the part of the evidence's slope that MacKay's update leaves out: with
        three answers to an item, the update alone finds a third of the variance.

        `root` is of the covariance of scores and biases, `solver` of the precision at the mode.
        """
        n, d = self.features.shape
        weight = self.likelihood(theta).weight
        variance = self._variance(root, np.arange(len(self.votes)))
        pull = np.zeros((2, len(theta)))
        pull[0, :d], pull[1, d : d + n] = (
            theta[:d] / prior.weight,
            theta[d : d + n] / prior.residual,
        )
        step = _STEP * solver.solve(pull.T).T
        of_weights, of_residuals = (
            float((weight - self.likelihood(theta + moved).weight) @ variance / _STEP)
            for moved in step
        )
        return of_weights, of_residuals

    def matched_annotators(
        self, theta: F64, root: F64, prior: Prior, rng: np.random.Generator
    ) -> Annotators:
        """Reliabilities, by comparing answers with what the scores would be without them: those of
        people without the annotator's own, those of models without all models'.

        `root` is of the covariance of scores and biases.
        """
        v, n, s = self.votes, len(self.features), self.to_scores(theta)
        models, people = v.of_kind(MODEL), v.of_kind(PERSON)
        gap, variance, noise, counts = np.repeat([[0.0], [0.0], [1.0], [1.0]], len(v), axis=1)
        gap[people], variance[people] = self._without_own(theta, root, people)
        if self.shared:
            gap[models], variance[models] = self._without_models(prior, rng)
            apart = self.features[v.left[models]] - self.features[v.right[models]]
            errors = prior.weight * np.sum(apart**2, axis=1) + 2 * prior.residual
            noise[models] += self.scales.shared * errors
            counts[models] = self._informative(gap, noise, prior)[v.annotator[models]]
        # Some annotators answer with ties more often; of models only the order is measured.
        said = people | (models & (v.target != 0.5))
        return reliabilities(
            self.scales.annotators,
            gap[said],
            variance[said],
            (self.side * s[n + v.annotator])[said],
            v.where(said),
            np.where(models, 0.0, self.scales.tie)[said],
            self.scales.ties,
            noise[said],
            counts[said],
        )

    @property
    def alone(self) -> bool:
        """Whether one annotator's measurements are the unit of the scores."""
        return not self.compares and bool(len(self.measured))

    def matched_measurements(self, theta: F64, root: F64) -> Annotators:
        """The annotators, with scales of measurements by how well these agree with all answers.

        MacKay's update of a variance: squared errors over the number of measurements that are not
        taken up by unknowns. `root` is of the covariance of scores and biases. Scales of people
        beside others are learned from others' answers, see `reliabilities`.
        """
        v, annotators = self.votes, self.scales.annotators
        rows = (
            self.measured if not self.compares else self.measured[v.of_kind(MODEL)[self.measured]]
        )
        if v.probit is None or not len(rows):
            return annotators
        scale, z, weight = annotators.scale.copy(), self.z(theta)[rows], self._weight(theta)[rows]
        taken_up = np.minimum(weight * self._variance(root, rows), 1.0)
        square = squared_error(z, v.probit[rows], scale[v.annotator[rows]])
        for who in np.unique(v.annotator[rows]).tolist():
            own = v.annotator[rows] == who
            free = np.sum(1 - taken_up[own])
            scale[who] = matched_scale(scale[who], float(np.sum(square[own])), float(free))
        return replace(annotators, scale=scale)

    def _weight(self, theta: F64) -> F64:
        return self.likelihood(theta).weight

    def _variance(self, root: F64, rows: I64) -> F64:
        """(m,) variances of z of some answers; `root` is of the covariance of scores and biases."""
        terms = [(place[rows], factor[rows]) for place, factor in self.coefficients()]
        if self.large:  # of few draws
            drawn = np.zeros((len(root), len(rows)))
            for place, factor in terms:
                drawn += root[:, place] * factor
            square: F64 = np.einsum("ij,ij->j", drawn, drawn)
            return square
        C, variance = root.T @ root, np.zeros(len(rows))
        for i, x in terms:
            for j, y in terms:
                variance += x * y * C[i, j]
        return np.maximum(variance, 0)

    def left_out(self, theta: F64, root: F64, rows: I64) -> tuple[F64, F64]:
        """Means and variances of z of some answers as they would be without each of them."""
        _, slope, weight = self.likelihood(theta)
        variance = self._variance(root, rows)
        return unseen(self.z(theta)[rows], variance, slope[rows], weight[rows])

    def _without_own(self, theta: F64, root: F64, some: Bool) -> tuple[F64, F64]:
        """Means and variances of s_left - s_right without the answers of the same annotator."""
        v, s, c = self.votes.where(some), self.to_scores(theta), self.reliability[some]
        _, slope, weight = self.likelihood(theta)
        slope, weight = slope[some], weight[some]
        gap = s[v.left] - s[v.right]
        if not len(v):
            return gap, gap
        if self.large:
            slope, weight = c * slope, c**2 * weight
            for sets in v.sets:
                slope[sets.rows], weight[sets.rows] = summed_over_answers(
                    sets.layout, slope[sets.rows], weight[sets.rows]
                )
            return unseen(gap, _squares(root, v), slope, weight)
        n_items, C = len(self.features), root.T @ root
        return unseen_in_blocks(gap, C, v, (slope, weight), c, self.side[some], n_items)

    def _without_models(self, prior: Prior, rng: np.random.Generator) -> tuple[F64, F64]:
        """The same of the models' answers, by people's answers and gold pairs alone."""
        models = self.votes.of_kind(MODEL)
        v, others = self.votes.where(models), replace(self, votes=self.votes.where(~models))
        theta = np.zeros(sum(self.features.shape) + self.n_annotators)
        theta = others.newton(theta, prior, steps=10)
        at, s = others.solver(others.likelihood(theta).weight, prior), others.to_scores(theta)
        C = at.covariance()
        if C is None:
            root = others.to_scores(at.root(rng))
            return s[v.left] - s[v.right], _squares(root, v)
        variance = C[v.left, v.left] + C[v.right, v.right] - 2 * C[v.left, v.right]
        return s[v.left] - s[v.right], variance

    def _informative(self, gap: F64, noise: F64, prior: Prior) -> F64:
        """(a,) how many independent answers each answer of a model counts for, at most 1: those of
        one model have errors in common, such as its taste for long texts.

        That is the information gᵀ (W⁻¹ + E)⁻¹ g on c, with the covariance E of the errors and the
        weights W = 2 / π of answers at z = 0, as a share of what `reliabilities` takes it for.
        """
        models, shares = self.votes.of_kind(MODEL), np.ones(self.n_annotators)
        ratio = self.scales.shared
        errors = Prior(ratio * prior.weight, ratio * prior.residual)
        people = replace(self.scales, annotators=Annotators.average(self.n_annotators))
        for who in np.unique(self.votes.annotator[models]).tolist():
            own = models & (self.votes.annotator == who)
            votes, g = replace(self.votes.where(own), kind=None), gap[own]
            alone = replace(self, votes=votes, scales=people)
            weight = np.full(len(g), 2 / np.pi)
            for sets in votes.sets:
                nothing = np.zeros(sets.rows.shape)
                sighted = np.zeros(len(nothing))
                weight[sets.rows] = set_likelihood(sets.layout, nothing, sighted, 0.0).weight
            pull = alone.pull_back(alone.summed(weight * g))
            found = weight @ g**2 - pull @ alone.solver(weight, errors).solve(pull)
            apart = weight @ (g**2 / noise[own])
            if apart > 0:
                shares[who] = np.clip(found / apart, 0, 1)
        return shares

    def likely_priors(self, theta: F64, matched: Prior) -> tuple[tuple[Prior, ...], F64]:
        """Priors of about the matched total variance, by their evidence; the likeliest first."""
        if self.large:
            return (matched,), np.ones(1)
        d = self.features.shape[1]
        total = matched.total(d)
        tried = [
            Prior(total * factor * share / max(d, 1) or 1.0, total * factor * (1 - share))
            for share in (_SHARES if d else {0.0: 1.0})
            for factor in _FACTORS
        ]
        evidence = np.array([self.evidence(theta, prior) for prior in tried])
        if d:
            evidence += np.log(np.repeat(list(_SHARES.values()), len(_FACTORS)))
        odds = np.exp(evidence - evidence.max())
        odds /= odds.sum()
        order = [k for k in np.argsort(-odds)[:_MOST_PRIORS] if odds[k] >= _LIKELY * odds.max()]
        return tuple(tried[k] for k in order), odds[order] / odds[order].sum()

    def evidence(self, theta: F64, prior: Prior) -> float:
        """Log-probability of the answers under a prior, and of the prior's scale, by Laplace."""
        theta = self.newton(theta, prior, steps=2)
        precision, seen = self.precision(prior), self.likelihood(theta)
        log_p = seen.log_p.sum() - 0.5 * precision @ theta**2 + 0.5 * np.log(precision).sum()
        log_p -= 0.5 * Dense(self, seen.weight, precision).log_determinant()
        d = self.features.shape[1]
        scale = np.log(prior.total(d) / first_guess(d).total(d))
        return float(log_p - 0.5 * (scale / _HYPER) ** 2)


def _matched_variance(square: float, unsure: F64, guess: float) -> float:
    """MacKay's update of a variance, relative to the present prior.

    Args:
        square: sum of the squared unknowns, in units of the prior.
        unsure: of each unknown, the share of its prior variance that the answers have left.
        guess: the variance before any answer, which counts as a few unknowns.
    """
    n_determined = float(np.sum(1 - np.minimum(unsure, 1.0)))
    return (square + _SHARED_BELIEF * guess) / (n_determined + _SHARED_BELIEF)


def _squares(root: F64, votes: Votes) -> F64:
    """(m,) about the variances of s_left - s_right."""
    squares: F64 = np.sum((root[:, votes.left] - root[:, votes.right]) ** 2, axis=0)
    return squares
