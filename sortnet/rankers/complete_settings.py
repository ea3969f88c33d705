"""Complete the settings of SortNet by the training data: the scaling, and the weight decay."""

from __future__ import annotations

import numpy as np

from sortnet.config import Config
from sortnet.core import F64, Bool, Queries
from sortnet.data.scaling import any_missing

_WITHIN_QUERY = "query+rank"
_EVERYTHING = "query+rank+normal"
_WEIGHT_DECAY_OF_JUDGED = 0.1
_MOST_VALUES = 1 << 22  # values of features that are looked at, which bounds memory
_FEWEST_QUERIES = 5  # fewer queries may have the same statistics by chance
_FEWEST_VALUES = 10  # a feature of fewer values may have the same extremes in all queries
_TOLERANCE = 1e-3  # as numbers in files are rounded
_MOST = 0.9  # share of the features


def complete_settings(config: Config, train: Queries) -> Config:
    """Give a value to every setting that is None, but RankQuality.

    Comparators learn from the paper's equation 5, ranks within the query, and normal deviates of
    each feature's quantiles (`query+rank+normal`), and from a column that marks missing values. If
    the features are scaled within each query, quantiles over all queries mean nothing, and they
    learn from `query+rank`. Judged pairs, which are few, need a stronger weight decay than grades.

    Args:
        config: the settings.
        train: the training queries, not scaled.

    >>> X = np.linspace(0, 1, 20, dtype=np.float32)[:, None]
    >>> twice = Queries.from_arrays(np.tile(X, (5, 1)), group=[20] * 5)
    >>> complete_settings(Config(), twice).scaling
    'query+rank'
    >>> by_row = Queries.from_arrays(np.arange(100, dtype=np.float32)[:, None], group=[20] * 5)
    >>> complete_settings(Config(), by_row).scaling
    'query+rank+normal'

    Cost: a pass over at most four million values of features.
    """
    changes: dict[str, object] = {}
    if config.scaling is None:
        inputs = _WITHIN_QUERY if are_scaled_within_queries(train) else _EVERYTHING
        changes["scaling"] = inputs + ("+missing" if any_missing(train.features) else "")
    if config.training.weight_decay is None and train.judged is not None:
        changes["weight_decay"] = _WEIGHT_DECAY_OF_JUDGED
    return config.changed(**changes).with_defaults


def are_scaled_within_queries(queries: Queries) -> bool:
    """Check whether the features of each query were scaled to the same range or deviation.

    Then nine of ten features have the same least and greatest value in all queries in which they
    vary, or the same mean and standard deviation. Such data are the collections of LETOR. Only
    features with many values count.
    """
    n_docs_to_see = _MOST_VALUES // max(queries.n_features, 1)
    n_queries = int(np.searchsorted(queries.offsets, n_docs_to_see))
    sample = queries.take(np.flatnonzero(queries.sizes[:n_queries] > 1))
    if len(sample) < _FEWEST_QUERIES:
        return False
    X = sample.features.astype(np.float64)
    starts = sample.offsets[:-1]
    n_docs = sample.sizes[:, None]
    least = np.minimum.reduceat(X, starts)
    greatest = np.maximum.reduceat(X, starts)
    mean = np.add.reduceat(X, starts) / n_docs
    variance = np.add.reduceat((X - mean.repeat(sample.sizes, axis=0)) ** 2, starts) / n_docs
    varies = greatest > least  # False if a value is missing
    # Scaled features are not much larger than 1, but a far sentinel makes the deviation large.
    tolerance = _TOLERANCE * np.minimum(X.std(axis=0), 1)
    same_range = _are_same(least, varies, tolerance) & _are_same(greatest, varies, tolerance)
    deviation = np.sqrt(variance)
    same_deviation = _are_same(mean, varies, tolerance) & _are_same(deviation, varies, tolerance)
    counts = np.count_nonzero(varies, axis=0) >= _FEWEST_QUERIES
    counts &= np.array([len(np.unique(column)) > _FEWEST_VALUES for column in X.T], np.bool_)
    return bool(counts.any() and (same_range | same_deviation)[counts].mean() >= _MOST)


def _are_same(statistic: F64, counts: Bool, tolerance: F64) -> Bool:
    """Check for each feature whether a statistic, (n_queries, d), is the same where it counts."""
    spread = np.max(statistic, axis=0, where=counts, initial=-np.inf)
    spread -= np.min(statistic, axis=0, where=counts, initial=np.inf)
    same: Bool = spread <= tolerance
    return same
