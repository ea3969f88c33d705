"""Permutation importance: how much a measure drops when a feature is shuffled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.errors import SortNetError
from sortnet.explain.attribution import feature_names
from sortnet.metrics import Metric, as_metrics, average, outcomes
from sortnet.rankers.base import Ranker
from sortnet.types import F64, Progress, Queries


@dataclass(frozen=True, eq=False)
class Importance:
    """How much a measure drops without each feature.

    Attributes:
        metric: the measure and its conventions.
        quality: its mean over the queries with nothing shuffled.
        drops: (n_features, repeats) quality less the shuffled data's quality.
        names: (n_features,) the features' names, or their numbers from 1.
        splits: (n_features,) the share of splits that each has in soft trees; None: of another
            ranker.
    """

    metric: Metric
    quality: float
    drops: F64
    names: tuple[str, ...]
    splits: F64 | None = None

    @property
    def mean(self) -> F64:
        """(n_features,) mean drop over the repeats."""
        mean: F64 = self.drops.mean(axis=1)
        return mean

    @property
    def std(self) -> F64:
        """(n_features,) standard deviation over the repeats (divided by their number)."""
        std: F64 = self.drops.std(axis=1)
        return std

    def largest(self, n: int | None = None) -> list[int]:
        """The numbers (from 0) of the n features with the largest mean drops."""
        order: list[int] = np.argsort(-self.mean, kind="stable")[:n].tolist()
        return order


def permutation_importance(
    model: Ranker,
    queries: Queries,
    metric: Metric | str | None = None,
    *,
    repeats: int = 5,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Importance:
    """How much the measure drops when a feature is shuffled (Breiman 2001, section 10).

    A feature is shuffled among the documents of each query, not across queries: a ranking is of
    one query's documents, values of another query would make documents that do not exist, and
    every scaling commutes with it. A feature that is constant within each query therefore has
    importance 0, even if it changes the effect of others. In a repeat all features are shuffled
    by the same permutation, so that they can be compared.

    Args:
        model: any ranker.
        queries: labelled, unscaled documents, preferably not those of the training.
        metric: the measure; by default the model's RankQuality with its conventions.
        repeats: how often each feature is shuffled.
        seed: of the permutations.

    Raises:
        ModelError: if the features are not those the model was trained on.
        MetricError: on an unknown measure, or as `average`.
        SortNetError: if `repeats` is less than 1.

    >>> from sortnet.config import Config
    >>> from sortnet.rankers.sortnet import fit
    >>> X = np.arange(12, dtype=np.float32)[:, None] * [1, 0]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> found = permutation_importance(fit(q, q, Config(max_iter=2, scaling="normal")), q, "ndcg")
    >>> bool(found.mean[0] > 0), float(found.mean[1])
    (True, 0.0)

    Cost: a sort for every feature and repeat, none for a feature that does not vary; one scaled
    copy of the features.
    """
    if repeats < 1:
        raise SortNetError(f"repeats must be 1 or more, got {repeats}")
    model.check_features(queries)
    config = model.config
    (measure,) = as_metrics(config.rank_quality if metric is None else metric)
    documents, order_of, sources = model.repeatable(queries)

    def measured() -> float:
        return average(outcomes(measure, documents, order_of(documents)), config.empty)

    quality, table = measured(), documents.features
    names = feature_names(model, queries)
    drops = np.zeros((model.n_features, repeats))
    rng, query = np.random.default_rng(seed), queries.query_of_docs()
    for r in range(repeats):
        order = np.lexsort((rng.random(queries.n_docs), query))  # each query's in random order
        for k, name in enumerate(names):
            progress(f"shuffle {r + 1} of {repeats}: feature {name}")
            columns = np.flatnonzero(sources == k)
            kept = table[:, columns]
            if not np.array_equal(kept[order], kept):
                table[:, columns] = kept[order]
                drops[k, r] = quality - measured()
                table[:, columns] = kept
    return Importance(measure, quality, drops, names, model.split_shares())
