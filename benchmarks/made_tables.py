"""Made data sets for learning to rank, each of another kind: a seed gives three parts of queries.

Grades are quantiles of a made truth, five of them, equally many documents each; where a query is so
long that ten of the best are easily found, fewer of the higher ones. No part shares a query with
another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from sortnet.core import F32, F64, I64, ComparedPairs, Queries
from sortnet.core.memory import allocate
from sortnet.data import Fold
from sortnet.data.read import digits_fold

EQUAL = (0.2, 0.4, 0.6, 0.8)  # shares of documents up to grades 0, 1, 2, 3
RARE = (0.6, 0.9, 0.99, 0.999)
PARTS = (0.6, 0.2, 0.2)  # of the queries


class Made(NamedTuple):
    """Features (n_docs, d), the truth (n_docs,), and documents in each query (n_queries,)."""

    X: F64
    truth: F64
    group: I64


def friedman(seed: int, *, queries: int = 200, size: int = 50, noise: int = 20) -> Made:
    """Friedman's first function of five features, beside features of no use.

    10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + N(0, 1), all features U(0, 1): Friedman,
    *Multivariate adaptive regression splines* (1991), section 4.3.
    """
    rng = np.random.default_rng([1, seed])
    X = rng.random((queries * size, 5 + noise))
    truth = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    truth += 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(0, 1, len(X))
    return Made(X, truth, np.full(queries, size))


def heavy_tails(seed: int, *, queries: int = 150, size: int = 30) -> Made:
    """Prices, counts, ages and sizes over several orders of magnitude, stars, three of no use."""
    rng = np.random.default_rng([2, seed])
    n = queries * size
    price, age = rng.lognormal(3, 1.5, n), rng.exponential(300, n)
    sold, stars = rng.poisson(rng.gamma(0.5, 20, n)), rng.integers(1, 6, n)
    weight, useless = rng.pareto(1.2, n) * 10, rng.lognormal(0, 2, (n, 3))
    truth = 0.6 * np.log1p(sold) + 0.4 * stars - 0.3 * np.log1p(age) + 0.2 * np.log1p(weight)
    truth += rng.normal(0, 0.3, n) - np.abs(np.log(price) - 2.5)
    return Made(
        np.column_stack((price, sold, age, stars, weight, useless)), truth, np.full(queries, size)
    )


def band(seed: int, *, queries: int = 150, size: int = 30) -> Made:
    """Best is near 50, the same for all queries, while each has a range of its own."""
    rng = np.random.default_rng([3, seed])
    n = queries * size
    low, width = rng.uniform(0, 60, queries), rng.uniform(10, 60, queries)
    x = np.repeat(low, size) + np.repeat(width, size) * rng.random(n)
    z = np.repeat(rng.normal(0, 2, queries), size) + rng.normal(0, 1, n)
    others = rng.random((n, 4))
    truth = 0.5 * np.sin(z) + 0.5 * others[:, 0] + rng.normal(0, 0.2, n) - np.abs(x - 50) / 10
    return Made(np.column_stack((x, z, others)), truth, np.full(queries, size))


def products(seed: int, *, queries: int = 150, size: int = 30) -> Made:
    """A product of two features, the exclusive-or of the signs of two more, a linear part."""
    rng = np.random.default_rng([4, seed])
    X = rng.normal(0, 1, (queries * size, 8))
    truth = X[:, 0] * X[:, 1] + np.sign(X[:, 2] * X[:, 3]) + 0.5 * X[:, 4]
    return Made(X, truth + rng.normal(0, 0.3, len(X)), np.full(queries, size))


def missing(seed: int, *, queries: int = 150, size: int = 30) -> Made:
    """30 % of the values are missing; that one of them is missing is worth something itself."""
    rng = np.random.default_rng([5, seed])
    X = rng.normal(0, 1, (queries * size, 10))
    truth = X[:, 0] + 0.7 * X[:, 1] ** 2 - 0.8 * X[:, 2] + np.sin(2 * X[:, 3])
    gone = rng.random(X.shape) < 0.3
    truth += 0.6 * gone[:, 4] + rng.normal(0, 0.3, len(X))
    X[gone] = np.nan
    return Made(X, truth, np.full(queries, size))


def counts(seed: int, *, queries: int = 150, size: int = 30) -> Made:
    """Counts, most of them 0, with steps and an interaction of thresholds."""
    rng = np.random.default_rng([6, seed])
    X = rng.poisson(rng.gamma(0.4, 4, (queries * size, 15))).astype(np.float64)
    truth = np.log1p(X[:, 0]) + 0.5 * np.minimum(X[:, 1], 3) + (X[:, 2] > 0)
    truth += 0.5 * (X[:, 4] > 2) * (X[:, 5] > 0) - 0.3 * np.sqrt(X[:, 3])
    return Made(X, truth + rng.normal(0, 0.3, len(X)), np.full(queries, size))


def tree(seed: int, *, queries: int = 150, size: int = 30, depth: int = 4) -> Made:
    """A random decision tree: one value in each of 2^depth boxes."""
    rng = np.random.default_rng([7, seed])
    X = rng.random((queries * size, 12))
    leaf = np.zeros(len(X), np.int64)
    for level in range(depth):
        feature = rng.integers(0, X.shape[1], 2**level)
        cut = rng.uniform(0.25, 0.75, 2**level)
        leaf = 2 * leaf + (X[np.arange(len(X)), feature[leaf]] > cut[leaf])
    truth = rng.normal(0, 1.5, 2**depth)[leaf] + rng.normal(0, 0.2, len(X))
    return Made(X, truth, np.full(queries, size))


def linear(
    seed: int, *, queries: int = 150, size: int = 30, features: int = 20, used: int = 20,
    noise: float = 2.0,
) -> Made:  # fmt: skip
    """A weighted sum of the first features, and noise."""
    rng = np.random.default_rng([8, seed])
    X = rng.normal(0, 1, (queries * size, features))
    truth = X[:, :used] @ rng.normal(0, 1, used) + rng.normal(0, noise, len(X))
    return Made(X, truth, np.full(queries, size))


def wide(seed: int) -> Made:
    """500 features, of which 30 count, and 60 queries to learn from."""
    return linear(seed, queries=100, size=20, features=500, used=30, noise=1.0)


def few_queries(seed: int) -> Made:
    """10 queries to learn from, 5 more to choose by: most are test queries."""
    return friedman(seed, queries=60, size=40, noise=5)


def two_documents(seed: int, *, queries: int = 1500) -> Made:
    """Queries of two documents."""
    rng = np.random.default_rng([9, seed])
    X = rng.normal(0, 1, (2 * queries, 8))
    truth = X[:, 0] + np.abs(X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + rng.normal(0, 0.3, len(X))
    return Made(X, truth, np.full(queries, 2))


def long_queries(seed: int) -> Made:
    """Queries of 3,000 documents: 6 to learn from, 2 to choose by, 2 to test."""
    return friedman(seed, queries=10, size=3000, noise=10)


def graded(n_queries: int, size: int = 120, features: int = 136, seed: int = 0) -> Queries:
    """Documents of five grades, whose truth has bends and a product, as many as wanted."""
    n, rng = n_queries * size, np.random.default_rng([41, seed])
    X, truth = allocate((n, features)), np.empty(n)
    for start in range(0, n, 100_000):
        part = X[start : start + 100_000]
        part[:] = rng.standard_normal(part.shape, np.float32)
        truth[start : start + 100_000] = part[:, 0] + part[:, 1] * part[:, 2] + np.abs(part[:, 3])
    truth += rng.standard_normal(n, np.float32) / 2
    grades = np.digitize(truth, np.quantile(truth, (0.5, 0.8, 0.93, 0.98))).astype(np.int32)
    qids = np.arange(n_queries).astype(str)
    return Queries(X, grades, np.arange(0, n + 1, size), qids, np.arange(n))


def all_pairs(queries: Queries) -> ComparedPairs:
    """Each pair of documents of different grades, of queries of one size."""
    above, below = np.triu_indices(int(queries.sizes[0]), 1)
    i, j = (np.add.outer(queries.offsets[:-1], each).ravel() for each in (above, below))
    better = queries.grades[i] - queries.grades[j]
    i, j, better = (each[better != 0] for each in (i, j, better))
    return ComparedPairs.of(i, j, answer=better > 0).in_order()


MSLR_SIZE, MSLR_FEATURES = 120, 136
MSLR_SHARES = (0.52, 0.84, 0.97, 0.99)


def mslr_shape(n_queries: int, seed: int) -> Queries:
    """MSLR-WEB10K's shape, 120 documents a query and 136 features, with a truth that is bent.

    The grades have MSLR's shares. A third of the features are counts of heavy tails; the truth has
    a linear part, steps, bends and products of two, noise, and a level of the query's own.
    """
    rng = np.random.default_rng([10, seed])
    X = rng.standard_normal((n_queries * MSLR_SIZE, MSLR_FEATURES), dtype=np.float32)
    weights = np.random.default_rng(1).standard_normal(MSLR_FEATURES, dtype=np.float32)
    truth = X @ weights / np.float32(2 * np.sqrt(MSLR_FEATURES))
    truth += 0.6 * np.tanh(X[:, 0] * X[:, 1]) + 0.5 * np.abs(X[:, 2]) + 0.5 * (X[:, 3] > 0.5)
    truth += 0.5 * np.sin(2 * X[:, 4]) + 0.5 * np.maximum(X[:, 5], X[:, 6])
    truth += 0.5 * np.sign(X[:, 7]) * X[:, 8]
    truth += rng.standard_normal(len(X), dtype=np.float32)
    truth += 0.5 * np.repeat(rng.standard_normal(n_queries, dtype=np.float32), MSLR_SIZE)
    third = X[:, ::3]
    np.floor(np.exp(third * np.float32(1.5), out=third), out=third)
    return Queries.from_arrays(
        X,
        np.digitize(truth, np.quantile(truth, MSLR_SHARES)),
        group=np.full(n_queries, MSLR_SIZE),
    )


N_WORDS, N_WORTHY = 400, 40  # words of the titles of a shop, and those that decide
DOCS_OF_SHOP = 15


def made_shop(seed: int, queries: int) -> tuple[pd.DataFrame, I64, I64]:
    """A shop's frame, with grades and queries: titles, numbers with missing values, brand and date.

    The grades are bands of the rank, in its query, of a sum of worths and noise.
    """
    rng = np.random.default_rng(seed)
    n = queries * DOCS_OF_SHOP
    worth_of_word = np.zeros(N_WORDS)
    worth_of_word[:N_WORTHY] = rng.normal(size=N_WORTHY)
    share = rng.permutation(np.arange(1, N_WORDS + 1) ** -0.6)
    words = [rng.choice(N_WORDS, 6, replace=False, p=share / share.sum()) for _ in range(n)]
    worth = worth_of_word[np.array(words)].sum(axis=1)
    price = rng.lognormal(3, 1, n)
    rating = rng.normal(4, 0.6, n)
    brand = rng.integers(8, size=n)
    day = rng.integers(1000, size=n)
    score = 1.2 * worth / worth.std() - 0.6 * np.log(price) + (rating - 4)
    score += 0.5 * rng.normal(size=8)[brand] + 0.5 * day / 290 + 0.5 * rng.normal(size=n)
    qid = np.repeat(np.arange(queries), DOCS_OF_SHOP)
    frame = pd.DataFrame(
        {
            "title": [" ".join(f"w{word:03d}" for word in title) for title in words],
            "price": np.where(rng.random(n) < 0.1, np.nan, price),
            "rating": np.where(rng.random(n) < 0.1, np.nan, rating),
            "stock": rng.normal(size=n),
            "brand": np.array([*"ABCDEFGH"])[brand],
            "date": np.datetime64("2023-01-01") + day,
        }
    )
    rank = pd.Series(score).groupby(qid).rank(pct=True)
    return frame, np.digitize(rank, [0.4, 0.65, 0.82, 0.94]), qid


TABLES: dict[str, tuple[Callable[[int], Made], Sequence[float]]] = {
    "friedman1, 20 noise features": (friedman, PARTS),
    "heavy tails": (heavy_tails, PARTS),
    "an absolute band": (band, PARTS),
    "products and exclusive-or": (products, PARTS),
    "30 % missing": (missing, PARTS),
    "counts": (counts, PARTS),
    "a tree of depth 4": (tree, PARTS),
    "linear, 20 features": (linear, PARTS),
    "500 features, 60 queries": (wide, PARTS),
    "10 training queries": (few_queries, (1 / 6, 1 / 12, 3 / 4)),
    "2-document queries": (two_documents, PARTS),
    "3,000-document queries": (long_queries, PARTS),
}


def table(name: str, seed: int) -> Fold:
    """A draw of a table of `TABLES`, or of the digits (`digits`, `digits + 100`)."""
    if name == "digits":
        return digits_fold(seed)
    if name == "digits + 100":
        return _moved(digits_fold(seed), 100)
    make, shares = TABLES[name]
    return parts(make(seed), shares, RARE if make is long_queries else EQUAL)


def parts(made: Made, shares: Sequence[float] = PARTS, grades: Sequence[float] = EQUAL) -> Fold:
    """The queries of a table divided into training, validation and test part, in order."""
    cuts = np.quantile(made.truth, grades)
    whole = Queries.from_arrays(
        made.X.astype(np.float32), np.searchsorted(cuts, made.truth), group=made.group
    )
    ends = np.round(np.cumsum(shares) * len(whole)).astype(int)
    train, vali, test = (
        whole.take(np.arange(first, end)) for first, end in zip((0, *ends[:-1]), ends, strict=True)
    )
    return Fold(train, vali, test)


def rows(*parts: Queries) -> tuple[F32, I64, I64]:
    """Features, grades and query of each row of some parts, as an estimator takes them."""
    qid = np.concatenate([queries.query_of_docs() for queries in parts])
    before = np.cumsum([0, *(len(queries) for queries in parts[:-1])])
    qid = qid + np.repeat(before, [queries.n_docs for queries in parts])
    X = np.concatenate([queries.features for queries in parts])
    return X, np.concatenate([queries.grades for queries in parts]), qid


def _moved(fold: Fold, offset: float) -> Fold:
    """Every feature larger by the offset."""
    assert fold.test is not None
    moved = (
        replace(part, features=part.features + np.float32(offset))
        for part in (fold.train, fold.vali, fold.test)
    )
    return Fold(*moved)
