"""Attribute a margin to features: why the comparator puts a document before another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sortnet.comparators import Margin
from sortnet.core import F32, F64, Queries
from sortnet.errors import ComparatorError, DataError
from sortnet.explain.columns import Column, columns_of, feature_names
from sortnet.rankers.base import Ranker

TOLERANCE = 1e-4  # error of the values of a pair, relative to the sum of their absolute values
_DOCUMENTS = 2000  # documents from which feature shares are computed
_PAIRS = 1000  # pairs from which feature shares are computed
_ROUNDING = 1e-10  # absolute error that is allowed: the margins of a saturated net are rounding
_PANELS = 8  # panels of a path before any is halved
_NODES = (3, 6)  # two Gauss-Legendre rules a panel; their difference bounds the error
_ROUNDS = 48  # rounds of halving: a float64 resolves no panel shorter than 2^-51
_POINTS = 1 << 18  # points of a path, at most; 750 units of relu, each a kink, need 19,000


@dataclass(frozen=True)
class ColumnValue:
    """A column's part of a margin.

    Attributes:
        column: the column.
        value: the sum of the values of its features.
        a: a's value in the data: a number, a date, or a level of a category; None if missing.
        b: b's value in the data.
    """

    column: Column
    value: float
    a: float | str | None
    b: float | str | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """The margin of document a over document b, attributed to the features.

    Attributes:
        margin: m(a, b); above 0, a goes first.
        baseline: margin of the baseline pair: 0 if the comparator is antisymmetric.
        values: (n_features,) values with the sum margin - baseline; a positive value favours a, a
            negative value b.
        a: (n_features,) a's unscaled features; NaN is missing.
        b: (n_features,) b's unscaled features.
        names: (n_features,) the features' names, or their numbers from 1.
        columns: the columns that the features come from.
        error: bound on the summed error of the values.
        points: number of points of the path at which gradients were computed.
    """

    margin: float
    baseline: float
    values: F64
    a: F32
    b: F32
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    error: float
    points: int

    def largest(self, n: int | None = None) -> list[int]:
        """The numbers (from 0) of the n features with the largest absolute values."""
        order: list[int] = np.argsort(-np.abs(self.values), kind="stable")[:n].tolist()
        return order

    def by_column(self) -> list[ColumnValue]:
        """The columns' parts of the margin, the largest absolute value first.

        The values of the levels of a categorical column are added up.
        """
        values = [
            ColumnValue(
                column,
                float(self.values[list(column.features)].sum()),
                column.value(self.a),
                column.value(self.b),
            )
            for column in self.columns
        ]
        return sorted(values, key=lambda part: -abs(part.value))


def explain_pair(model: Ranker, queries: Queries, a: int, b: int) -> Explanation:
    """Explain m(a, b) by integrated gradients (Sundararajan, Taly and Yan 2017, equation 1).

    With z' the mean of the query's documents, both documents move along z(t) = z' + t (z - z'):

        value_k = Σ over z in {a, b} of (z_k - z'_k) ∫ from 0 to 1 of ∂m(a(t), b(t)) / ∂z_k dt

    This is in the scaled features that the comparator sees; if the scaling makes several columns of
    a feature, their values are added up. The values sum to m(a, b) - m(z', z'). If the comparator
    is antisymmetric, the values of (b, a) are the same with the opposite sign. Pieces of the path
    with a large error are halved until the errors add up to at most 1e-4 times the sum of the
    absolute values (for each document separately), or to 1e-10, which is rounding.

    Args:
        model: a ranker whose margins have gradients, see `Ranker.differentiable`.
        queries: unscaled documents; a's whole query must be among them.
        a: document number.
        b: document number of another document of the same query.

    Raises:
        ModelError: if the features are not those the model was trained on, or it has no gradients.
        DataError: if a and b are the same document, are of two queries, or do not exist.
        ComparatorError: if the margin is not a number, has jumps, or has no torch gradients.

    >>> from sortnet.config import Config
    >>> from sortnet.rankers.sortnet import fit
    >>> X = np.arange(12, dtype=np.float32)[:, None] * [1, 0]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> explanation = explain_pair(fit(q, q, Config(max_iter=2, scaling="normal")), q, 5, 0)
    >>> bool(explanation.values[0] > 0), float(explanation.values[1]), explanation.names
    (True, 0.0, ('1', '2'))

    Cost: 72 gradients of a margin if it is smooth: about 10 milliseconds for 136 features and a
    committee of five; with `relu` units up to about 10,000 gradients, and 1 second.
    """
    model.check_features(queries)
    query = _query_of(queries, a, b)
    first = int(queries.offsets[query])
    margin = model.differentiable()
    scaled = model.scaler(queries.take([query])).features.astype(np.float64)
    start = scaled.mean(axis=0)
    ends = scaled[[a - first, b - first]]
    path = _Path(margin, np.stack([start, start]), ends)
    values_of_columns, error = path.integrate()
    values = np.zeros(model.n_features)
    np.add.at(values, model.scaler.sources, values_of_columns.sum(axis=0))
    return Explanation(
        margin=path.at_end,
        baseline=path.at_start,
        values=values,
        a=queries.features[a],
        b=queries.features[b],
        names=feature_names(model, queries),
        columns=columns_of(model, queries),
        error=error,
        points=path.points,
    )


def _query_of(queries: Queries, a: int, b: int) -> int:
    """The query of both documents; anything but two documents of one query is refused."""
    for doc in (a, b):
        if not 0 <= doc < queries.n_docs:
            raise DataError(f"{queries.source}: no document {doc} of {queries.n_docs}")
    if a == b:
        raise DataError(f"{queries.source}: document {a} is both: two are needed to explain")
    query_of_a, query_of_b = np.searchsorted(queries.offsets, [a, b], side="right") - 1
    if query_of_a != query_of_b:
        raise DataError(
            f"{queries.source}: documents {a} and {b} are of the queries "
            f"{queries.qids[query_of_a]} and {queries.qids[query_of_b]}: only documents of one "
            "query are compared"
        )
    return int(query_of_a)


def some_queries(queries: Queries) -> Queries:
    """Draw queries with about 2,000 documents; queries of one document are left out."""
    numbers = np.random.default_rng(0).permutation(np.flatnonzero(queries.sizes > 1))
    n_queries = int(np.searchsorted(np.cumsum(queries.sizes[numbers]), _DOCUMENTS)) + 1
    return queries.take(numbers[:n_queries])


def feature_shares(model: Ranker, queries: Queries) -> F64:
    """Share (n_features,) of each feature in the margins of 1,000 random pairs; the sum is 1.

    For a pair (a, b) with the mean c = (a + b) / 2, and z(t) = c + t (z - c),

        value_k = (a_k - b_k) / 2 * ∫ from 0 to 1 of (∂m / ∂a_k - ∂m / ∂b_k)(a(t), b(t)) dt
        share_k = mean over the pairs of |value_k|, divided by the sum of these means

    in scaled features. These are integrated gradients from the pair's mean, where neither document
    is better, so that the values of a pair sum to m(a, b). The integral has five Gauss-Legendre
    nodes, without the bound on the error that `explain_pair` has. If all margins are 0, all shares
    are 0. The shares say which features the comparator looks at; `permutation_importance` says
    which features it needs.

    Args:
        model: a ranker whose margins have gradients, see `Ranker.differentiable`.
        queries: unscaled documents; queries of one document are left out.

    Raises:
        ModelError: if the features are not those the model was trained on, or it has no gradients.

    Cost: five gradients a pair; 0.03 s for 1000 pairs of 46 features and five small nets.
    """
    model.check_features(queries)
    queries = queries.take(np.flatnonzero(queries.sizes > 1))
    if not len(queries):
        return np.zeros(model.n_features)
    margin = model.differentiable()
    documents = model.scaler(queries).features.astype(np.float64)
    rng = np.random.default_rng(0)
    query = rng.integers(len(queries), size=_PAIRS)  # all queries are equally likely
    sizes = queries.sizes[query]
    first = queries.offsets[query]
    i = rng.integers(sizes)
    j = (i + 1 + rng.integers(sizes - 1)) % sizes  # never equal to i
    a = torch.from_numpy(documents[first + i])
    b = torch.from_numpy(documents[first + j])
    middle = (a + b) / 2
    half = (a - b) / 2
    values_of_columns = torch.zeros_like(half)
    for node, weight in zip(*np.polynomial.legendre.leggauss(5), strict=True):
        step = (node + 1) / 2 * half
        x = (middle + step).requires_grad_()
        y = (middle - step).requires_grad_()
        total = margin(x, y).sum()
        if total.requires_grad:
            slope_x, slope_y = torch.autograd.grad(total, (x, y))
        else:  # no feature changes the margin
            slope_x = x * 0
            slope_y = y * 0
        values_of_columns += weight / 2 * half * (slope_x - slope_y)
    values = torch.zeros(_PAIRS, model.n_features, dtype=values_of_columns.dtype)
    values.index_add_(1, torch.from_numpy(model.scaler.sources), values_of_columns.detach())
    means = values.abs().mean(dim=0).numpy()
    shares: F64 = means / max(float(means.sum()), np.finfo(np.float64).tiny)
    return shares


class _Path:
    """The straight line from one pair of documents to another, and the margin along it."""

    def __init__(self, margin: Margin, start: F64, end: F64) -> None:
        self._margin = margin
        self._start = start  # (2, d)
        self._direction = end - start  # (2, d)
        self.points = 0
        self.at_start, self.at_end = self._margins(np.array([0.0, 1.0])).tolist()

    def integrate(self) -> tuple[F64, float]:
        """Values (2, d) of both documents' features, and a bound on their summed error."""
        edges = np.linspace(0, 1, _PANELS + 1)
        left = edges[:-1]
        right = edges[1:]
        values, errors = self._panels(left, right)
        for _ in range(_ROUNDS):
            allowed = max(TOLERANCE * float(np.abs(values.sum(axis=0)).sum()), _ROUNDING)
            if errors.sum() <= allowed:
                return values.sum(axis=0), float(errors.sum())
            # The sum of the errors is too large, so that a panel has more than its share.
            is_bad = errors > allowed / (2 * len(errors))
            if self.points + 2 * is_bad.sum() * sum(_NODES) > _POINTS:
                break
            middle = (left[is_bad] + right[is_bad]) / 2
            new_left = np.concatenate((left[is_bad], middle))
            new_right = np.concatenate((middle, right[is_bad]))
            new_values, new_errors = self._panels(new_left, new_right)
            left = np.concatenate((left[~is_bad], new_left))
            right = np.concatenate((right[~is_bad], new_right))
            values = np.concatenate((values[~is_bad], new_values))
            errors = np.concatenate((errors[~is_bad], new_errors))
        raise ComparatorError(
            f"the margin jumps between the documents: its gradients leave {errors.sum():.3g} of "
            f"{self.at_end - self.at_start:.3g} unexplained"
        )

    def _panels(self, left: F64, right: F64) -> tuple[F64, F64]:
        """Integrals (p, 2, d) over panels of the path, and bounds (p,) on their errors."""
        coarse, fine = (self._quadrature(left, right, n) for n in _NODES)
        true_sums = self._margins(right) - self._margins(left)
        errors_of_sums = np.abs(fine.sum(axis=(1, 2)) - true_sums)
        return fine, np.maximum(errors_of_sums, np.abs(fine - coarse).max(axis=(1, 2)))

    def _quadrature(self, left: F64, right: F64, n: int) -> F64:
        """Integrals (p, 2, d) over panels, by Gauss-Legendre quadrature with n nodes a panel."""
        nodes, weights = np.polynomial.legendre.leggauss(n)
        half = (right - left) / 2
        t = (left + half)[:, None] + half[:, None] * nodes
        slopes = self._gradients(t.ravel()).reshape(*t.shape, *self._direction.shape)
        integrals: F64 = np.einsum("pnzd,n,p->pzd", slopes, weights, half) * self._direction
        return integrals

    def _gradients(self, t: F64) -> F64:
        """Gradients (m, 2, d) of the margin at points of the path."""
        self.points += len(t)
        documents = self._at(t).requires_grad_()
        # A margin depends only on its pair, so the gradient of the sum has all margins' gradients.
        margins = self._margin(documents[:, 0], documents[:, 1])
        if not margins.requires_grad:  # no feature changes the margin
            return np.zeros(tuple(documents.shape))
        (slopes,) = torch.autograd.grad(margins.sum(), documents)
        return _finite(slopes.numpy())

    @torch.no_grad()
    def _margins(self, t: F64) -> F64:
        documents = self._at(t)
        return _finite(self._margin(documents[:, 0], documents[:, 1]).numpy())

    def _at(self, t: F64) -> Tensor:
        """The two documents (m, 2, d) at points of the path."""
        return torch.from_numpy(self._start + t[:, None, None] * self._direction)


def _finite(values: NDArray[np.float64]) -> F64:
    """Return margins or gradients; infinite values and NaN are refused."""
    if not np.isfinite(values).all():
        raise ComparatorError(
            "the comparator's margin is not a number between these documents: "
            "are its weights or the features finite?"
        )
    return values
