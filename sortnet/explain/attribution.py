"""Explanation: which features made the comparator put one document before another."""

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

TOLERANCE = 1e-4  # of the sum of a pair's values, relative
_DOCUMENTS, _PAIRS = 2000, 1000  # that shares are taken of
_ROUNDING = 1e-10  # a saturated net's margins are rounding, which no tolerance can be part of
_PANELS = 8  # that a path begins with
_NODES = (3, 6)  # two Gauss-Legendre rules a panel; their difference bounds the error
_ROUNDS = 48  # of halving: a panel of 2^-51 is as short as a float64 tells apart
_POINTS = 1 << 18  # of the path, at most; 750 units of relu, each a kink, need 19,000


@dataclass(frozen=True)
class ColumnValue:
    """A column's part of a margin.

    Attributes:
        column: the column.
        value: the sum of the values of its features.
        a: a's value in the data: a number, a date, or a level of a category; None if missing.
        b: b's.
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
        baseline: m of the baseline pair: 0 where the comparator is antisymmetric.
        values: (n_features,), their sum is margin - baseline; positive ones favour a, negative b.
        a: (n_features,) a's unscaled features; NaN is missing.
        b: (n_features,) b's.
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

    With z' the mean of the query's documents and z(t) = z' + t (z - z') of both documents at once,

        value_k = Σ over z in {a, b} of (z_k - z'_k) ∫ from 0 to 1 of ∂m(a(t), b(t)) / ∂z_k dt

    in the scaled features that the comparator sees; the values of a feature's columns, where the
    scaling makes several, are added up. The values sum to m(a, b) - m(z', z'), and
    those of (b, a) are the same with the other sign if the comparator is antisymmetric. The
    path is halved where the integral is not exact enough, until the errors of its pieces add up
    to at most 1e-4 times the sum of the absolute values (for each document separately), or
    to 1e-10, which is rounding.

    Args:
        model: a ranker whose margins have gradients, see `Ranker.differentiable`.
        queries: unscaled documents; a's whole query must be among them.
        a: document number.
        b: document number of another document of the same query.

    Raises:
        ModelError: if the features are not those the model was trained on, or it has no gradients.
        DataError: if a and b are the same document, of two queries, or not there.
        ComparatorError: if the margin is not a number, has jumps, or has no torch gradients.

    >>> from sortnet.config import Config
    >>> from sortnet.rankers.sortnet import fit
    >>> X = np.arange(12, dtype=np.float32)[:, None] * [1, 0]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> found = explain_pair(fit(q, q, Config(max_iter=2, scaling="normal")), q, 5, 0)
    >>> bool(found.values[0] > 0), float(found.values[1]), found.names
    (True, 0.0, ('1', '2'))

    Cost: 72 gradients of one margin where it is smooth: about 10 milliseconds for 136 features
    and a committee of five; with `relu` units up to about 10,000, and 1 second.
    """
    model.check_features(queries)
    query = _query_of(queries, a, b)
    own = slice(*queries.offsets[query : query + 2].tolist())
    margin = model.differentiable()
    scaled = model.scaler(queries.take([query])).features.astype(np.float64)
    start = scaled.mean(axis=0)
    ends = scaled[[a - own.start, b - own.start]]
    path = _Path(margin, np.stack([start, start]), ends)
    values, error = path.integrate()
    of_features = np.zeros(model.n_features)
    np.add.at(of_features, model.scaler.sources, values.sum(axis=0))
    return Explanation(
        margin=path.at_end,
        baseline=path.at_start,
        values=of_features,
        a=queries.features[a],
        b=queries.features[b],
        names=feature_names(model, queries),
        columns=columns_of(model, queries),
        error=error,
        points=path.points,
    )


def _query_of(queries: Queries, a: int, b: int) -> int:
    for doc in (a, b):
        if not 0 <= doc < queries.n_docs:
            raise DataError(f"{queries.source}: no document {doc} of {queries.n_docs}")
    if a == b:
        raise DataError(f"{queries.source}: document {a} is both: two are needed to explain")
    query, other = (np.searchsorted(queries.offsets, [a, b], side="right") - 1).tolist()
    if query != other:
        raise DataError(
            f"{queries.source}: documents {a} and {b} are of the queries {queries.qids[query]} "
            f"and {queries.qids[other]}: only documents of one query are compared"
        )
    return int(query)


def some_queries(queries: Queries) -> Queries:
    """Random whole queries of two documents or more, about 2,000 documents, one query at least."""
    useful = np.random.default_rng(0).permutation(np.flatnonzero(queries.sizes > 1))
    enough = int(np.searchsorted(np.cumsum(queries.sizes[useful]), _DOCUMENTS)) + 1
    return queries.take(useful[:enough])


def feature_shares(model: Ranker, queries: Queries) -> F64:
    """(n_features,) the share of each feature in the margins of 1,000 random pairs; their sum is 1.

    For a pair (a, b) with the mean c = (a + b) / 2, and z(t) = c + t (z - c),

        value_k = (a_k - b_k) / 2 * ∫ from 0 to 1 of (∂m / ∂a_k - ∂m / ∂b_k)(a(t), b(t)) dt
        share_k = mean over the pairs of |value_k|, divided by the sum of these means

    in scaled features: integrated gradients from the pair's mean, where no document is better, so
    that the values of a pair sum to m(a, b). Five Gauss-Legendre nodes; `explain_pair` bounds its
    error instead. All is 0 where every margin is. It says what the comparator looks at, not what
    that is good for: `permutation_importance` does.

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
    query = rng.integers(len(queries), size=_PAIRS)  # queries are chosen alike
    sizes, first = queries.sizes[query], queries.offsets[query]
    i = rng.integers(sizes)
    j = (i + 1 + rng.integers(sizes - 1)) % sizes  # another one
    a, b = (torch.from_numpy(documents[first + k]) for k in (i, j))
    middle, half = (a + b) / 2, (a - b) / 2
    values = torch.zeros_like(half)
    for node, weight in zip(*np.polynomial.legendre.leggauss(5), strict=True):
        way = (node + 1) / 2 * half
        x, y = (middle + way).requires_grad_(), (middle - way).requires_grad_()
        total = margin(x, y).sum()
        slopes = torch.autograd.grad(total, (x, y)) if total.requires_grad else (x * 0, y * 0)
        values += weight / 2 * half * (slopes[0] - slopes[1])
    of_features = torch.zeros(_PAIRS, model.n_features, dtype=values.dtype)
    of_features.index_add_(1, torch.from_numpy(model.scaler.sources), values.detach())
    means = of_features.abs().mean(dim=0).numpy()
    shares: F64 = means / max(float(means.sum()), np.finfo(np.float64).tiny)
    return shares


class _Path:
    """The straight line from one pair of documents to another, and the margin along it."""

    def __init__(self, margin: Margin, start: F64, end: F64) -> None:
        self._margin = margin
        self._start, self._way = start, end - start  # (2, d)
        self.points = 0
        self.at_start, self.at_end = self._margins(np.array([0.0, 1.0])).tolist()

    def integrate(self) -> tuple[F64, float]:
        """(2, d) values of both documents' features, and a bound on their error."""
        edges = np.linspace(0, 1, _PANELS + 1)
        left, right = edges[:-1], edges[1:]
        values, errors = self._panels(left, right)
        for _ in range(_ROUNDS):
            allowed = max(TOLERANCE * float(np.abs(values.sum(axis=0)).sum()), _ROUNDING)
            if errors.sum() <= allowed:
                return values.sum(axis=0), float(errors.sum())
            # Those with more than their share of the error; there is one, as the sum is too large.
            bad = errors > allowed / (2 * len(errors))
            if self.points + 2 * bad.sum() * sum(_NODES) > _POINTS:
                break
            middle = (left[bad] + right[bad]) / 2
            ends = np.concatenate((left[bad], middle)), np.concatenate((middle, right[bad]))
            both = zip((left, right, values, errors), (*ends, *self._panels(*ends)), strict=True)
            left, right, values, errors = (np.concatenate((old[~bad], new)) for old, new in both)
        raise ComparatorError(
            f"the margin jumps between the documents: its gradients leave {errors.sum():.3g} of "
            f"{self.at_end - self.at_start:.3g} unexplained"
        )

    def _panels(self, left: F64, right: F64) -> tuple[F64, F64]:
        """(p, 2, d) the integrals over panels of the path, and (p,) their errors."""
        coarse, fine = (self._rule(left, right, n) for n in _NODES)
        true = self._margins(right) - self._margins(left)
        left_out = np.abs(fine.sum(axis=(1, 2)) - true)
        return fine, np.maximum(left_out, np.abs(fine - coarse).max(axis=(1, 2)))

    def _rule(self, left: F64, right: F64, n: int) -> F64:
        """(p, 2, d) by Gauss-Legendre quadrature with n nodes a panel."""
        nodes, weights = np.polynomial.legendre.leggauss(n)
        half = (right - left) / 2
        t = (left + half)[:, None] + half[:, None] * nodes
        slopes = self._gradients(t.ravel()).reshape(*t.shape, *self._way.shape)
        integrals: F64 = np.einsum("pnzd,n,p->pzd", slopes, weights, half) * self._way
        return integrals

    def _gradients(self, t: F64) -> F64:
        """(m, 2, d) gradients of the margin at points of the path."""
        self.points += len(t)
        documents = self._at(t).requires_grad_()
        # A margin depends on its own pair alone, so the sum's gradient is each margin's own.
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
        """(m, 2, d) the two documents at points of the path."""
        return torch.from_numpy(self._start + t[:, None, None] * self._way)


def _finite(found: NDArray[np.float64]) -> F64:
    if not np.isfinite(found).all():
        raise ComparatorError(
            "the comparator's margin is not a number between these documents: "
            "are its weights or the features finite?"
        )
    return found
