"""Evaluate a model on labelled queries, and describe how the measures are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortnet.core import F64, Progress, Queries
from sortnet.metrics import MEASURED, as_metrics, average, per_query
from store.report.conventions import conventions_of
from store.service.model_data import DataFile
from store.service.named_model import load_model

_RULES = ("gain", "relevant_from", "empty")  # settings that an evaluation may change


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of evaluating a model.

    Attributes:
        model: the folder of the model.
        queries: the queries in the order of the data.
        measures: the mean of each measure over the queries.
        by_query: the values of each measure, one for each query; NaN if a query is left out.
        rules: the settings of the measures.
        conventions: the conventions of the measures, in words.
    """

    model: str
    queries: Queries
    measures: Mapping[str, float]
    by_query: Mapping[str, F64]
    rules: Mapping[str, Any]
    conventions: Sequence[str]


def evaluate_model(
    model: str,
    data: DataFile,
    measures: Sequence[str] = (),
    *,
    rules: Mapping[str, Any],
    threads: int | None = None,
    progress: Progress = lambda text: None,
) -> Evaluation:
    """Evaluate how well a model ranks labelled queries.

    Args:
        model: the folder of the model.
        data: the labelled queries.
        measures: the names of the measures. If empty, the measures `MEASURED`.
        rules: the settings `gain`, `relevant_from` and `empty` that replace the settings of the
            training.
        threads: the number of threads. If None, the number stays as it is.
        progress: gets the name of each step.

    Raises:
        SortNetError: if the model, the data or a measure cannot be used.
    """
    ranker = load_model(model, progress, threads)
    config = ranker.config.changed(**rules)
    metrics = as_metrics(map(config.metric, measures or MEASURED))
    queries = data.read(ranker, progress, labelled=True)
    progress("ranking")
    ranked_grades: Any = queries.grades[ranker.order(queries)]
    by_query = {
        metric.name: per_query(metric, ranked_grades, queries.offsets) for metric in metrics
    }
    return Evaluation(
        model=model,
        queries=queries,
        measures={
            name: average(values, config.empty, of=f"{queries.source}: {name}")
            for name, values in by_query.items()
        },
        by_query=by_query,
        rules={name: getattr(config, name) for name in _RULES},
        conventions=conventions_of(queries, metrics, config.empty),
    )
