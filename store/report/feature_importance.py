"""Measure the permutation importance of a model's features on data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sortnet.core import Progress
from store.report.conventions import conventions_of
from store.service.model_data import DataFile
from store.service.named_model import load_model

if TYPE_CHECKING:
    from sortnet.explanation.columns import Column
    from sortnet.explanation.permutation import Importance


@dataclass(frozen=True)
class FeatureImportance:
    """The importance of features: how much a measure drops when a feature is shuffled.

    Attributes:
        facts: the model, the data, the measure and its value, the number of repeats, and the seed.
        rows: a row for each column, the most important first, and below it one for each part.
        conventions: the conventions of the measure, in words.
    """

    facts: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    conventions: Sequence[str]


def measure_importance(
    model: str,
    data: DataFile,
    measure: str | None = None,
    *,
    repeats: int = 5,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = lambda text: None,
) -> FeatureImportance:
    """Shuffle each feature of labelled queries, and measure how much a measure drops.

    Args:
        model: the folder of the model.
        data: the labelled queries.
        measure: the name of the measure. If None, the RankQuality of the training.
        repeats: the number of times that each feature is shuffled.
        seed: the seed of the shuffling.
        threads: the number of threads. If None, the number stays as it is.
        progress: gets the name of each step.

    Raises:
        SortNetError: if the model, the data or the measure cannot be used.
    """
    from sortnet.explanation.permutation import permutation_importance

    ranker = load_model(model, progress, threads)
    config = ranker.config
    metric = config.metric(measure) if measure else config.rank_quality
    queries = data.read(ranker, progress, labelled=True)
    importance = permutation_importance(
        ranker, queries, metric, repeats=repeats, seed=seed, progress=progress
    )
    facts = {
        "model": model,
        "data": queries.source,
        "metric": metric.name,
        "quality": importance.quality,
        "repeats": repeats,
        "seed": seed,
    }
    conventions = conventions_of(queries, [metric], config.empty)
    return FeatureImportance(facts, _rows(importance), conventions)


def _rows(importance: Importance) -> list[dict[str, Any]]:
    """Make a row for each column, the most important first, and below it a row for each part.

    A row has the name and the number of the first feature, and the mean and the standard deviation
    of the drop. For soft trees it also has the share of splits that use the feature. The row of a
    part, such as a word, names its column, `of`.
    """
    figures = {"mean": importance.mean, "std": importance.std}
    if importance.splits is not None:
        figures["splits"] = importance.splits
    row_of_column: dict[Column, dict[str, Any]] = {}  # the most important first
    for index in importance.largest():
        column = importance.columns[index]
        row: dict[str, Any] = {"feature": column.name, "number": column.features[0] + 1}
        for name, values in figures.items():
            row[name] = float(values[index])
        row_of_column[column] = row
    are_parts = {part for column in row_of_column for part in column.parts}
    rows = []
    for column, row in row_of_column.items():
        if column not in are_parts:
            rows.append(row)
            parts = sorted(column.parts, key=lambda part: -row_of_column[part]["mean"])
            rows += [{**row_of_column[part], "of": column.name} for part in parts]
    return rows
