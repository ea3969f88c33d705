"""List the measures of a run or an evaluation, and describe their conventions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sortnet.config import Settings
from sortnet.core import Queries
from sortnet.metrics import Empty, Metric, conventions, count_empty, measured, outcomes


def metrics_of(config: Settings) -> list[Metric]:
    """List all measures that a run reports, the RankQuality first."""
    quality = config.rank_quality
    return list(dict.fromkeys((quality, *map(config.metric, measured(quality)))))


def conventions_of(queries: Queries, metrics: Sequence[Metric], empty: Empty) -> list[str]:
    """Describe the conventions of measures, such as the discount of nDCG.

    Measures with the same number of empty queries, which have no relevant document, share a line.

    Args:
        queries: the queries that are measured.
        metrics: the measures.
        empty: how an empty query counts.
    """
    by_count: dict[int, list[Metric]] = {}
    for metric in metrics:
        values = outcomes(metric, queries, np.arange(queries.n_docs))
        by_count.setdefault(count_empty(values), []).append(metric)
    return [
        conventions(metrics_with_count, empty, n_empty, len(queries))
        for n_empty, metrics_with_count in by_count.items()
    ]


def convention_notes(conventions: Mapping[str, Iterable[str]]) -> list[str]:
    """Write each convention once, with the number of empty queries of each part of the data.

    >>> convention_notes({"train": ["linear; empty: 0 of 9"], "vali": ["linear; empty: 1 of 4"]})
    ['linear; empty: train 0 of 9, vali 1 of 4']
    """
    numbers_of = defaultdict[str, list[str]](list)
    for part, texts in conventions.items():
        for text in texts:
            convention, colon, n_empty = text.rpartition(": ")
            numbers = numbers_of[convention if colon else text]
            if colon:
                numbers.append(f"{part} {n_empty}")
    return [
        f"{convention}: {', '.join(numbers)}" if numbers else convention
        for convention, numbers in numbers_of.items()
    ]
