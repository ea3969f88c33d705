"""List the measures of a run or an evaluation, and describe their conventions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sortnet.config import Settings
from sortnet.core import Queries
from sortnet.metrics import Empty, Metric, conventions, count_empty, measured, outcomes


def metrics_of(config: Settings) -> list[Metric]:
    """List all measures that a run reports, the RankQuality first."""
    quality = config.rank_quality
    return list(dict.fromkeys((quality, *map(config.metric, measured(quality)))))


def conventions_of(
    queries_of_part: Mapping[str, Queries], metrics: Sequence[Metric], empty: Empty
) -> list[str]:
    """Describe the conventions of measures, such as the discount of nDCG.

    Measures with the same numbers of empty queries, which have no relevant document, share a line.

    Args:
        queries_of_part: the queries that are measured, by the name of their part; a single part
            needs no name.
        metrics: the measures.
        empty: how an empty query counts.
    """
    by_counts: dict[str, list[Metric]] = {}
    for metric in metrics:
        counts = []
        for name, queries in queries_of_part.items():
            n_empty = count_empty(outcomes(metric, queries, np.arange(queries.n_docs)))
            counts.append(f"{name} {n_empty} of {len(queries)}".strip())
        text = "" if metric.row.of_pairs else f": {', '.join(counts)}"
        by_counts.setdefault(text, []).append(metric)
    return [f"{conventions(group, empty)}{counts}" for counts, group in by_counts.items()]
