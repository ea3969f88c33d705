"""Find out what a run's model does on the run's data: how good it is, and what decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from sortnet.core import Progress, Queries
from sortnet.errors import DataError, SortNetError
from sortnet.metrics import evaluate
from store.plots.figures import PARTS
from store.report.run_texts import metrics_of
from store.report.sources import Sources

if TYPE_CHECKING:
    from sortnet.explanation.columns import Dependence, Importance
    from sortnet.rankers.base import Ranker

N_CURVES = 4  # columns with a curve of partial dependence
_REPEATS = 3  # times that each column is shuffled
_MOST_SHUFFLED = 2_000_000  # values that are shuffled in all, about: a few seconds
_MOST_DOCUMENTS = 20_000  # documents whose columns are shuffled
_MOST_DEPENDENT = 2_000  # documents of the curves of partial dependence
_MOST_FITTED = 5_000_000  # values that LightGBM is fitted to: a few seconds


@dataclass(eq=False)
class Findings:
    """Facts found out about a model; all fields are empty if the model or the data is missing.

    Attributes:
        measures: {(part, name of a model): {measure: value}}.
        importance: the importance of the columns; None if it could not be measured.
        dependences: the partial dependence on the most important columns.
        sampled: a clause about the documents from which importance was measured.
        notes: sentences about what could not be found out.
    """

    measures: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    importance: Importance | None = None
    dependences: list[Dependence] = field(default_factory=list)
    sampled: str = ""
    notes: list[str] = field(default_factory=list)


def find_out(sources: Sources, name: str, progress: Progress) -> Findings:
    """Measure a model on validation and test data, beside LightGBM, and find out what decides.

    Args:
        sources: the model and the data of the run.
        name: the name of the model.
        progress: gets the name of each step.

    Cost: a few seconds; importance is measured on a sample of large data, and LightGBM is not
    fitted to large data.
    """
    findings = Findings()
    model = sources.model
    if model is None:
        return findings
    rankers = {name: model}
    try:
        rankers |= _fit_lightgbm(sources.data, model, progress)
    except SortNetError as error:
        findings.notes.append(f"LightGBM is not in the table: {error}.")
    progress("measuring the ranking")
    metrics = metrics_of(model.config)
    queries_of_part = {
        part: sources.data[part] for part in ("vali", "test") if part in sources.data
    }
    for part, queries in queries_of_part.items():
        try:
            for ranker_name, ranker in rankers.items():
                order = ranker.order(queries)
                measures = evaluate(queries, order, metrics, empty=model.config.empty)
                findings.measures[part, ranker_name] = measures
        except SortNetError as error:  # the setting `empty` may refuse a query
            findings.notes.append(f"The {PARTS[part]} part is not in the table: {error}.")
    # The model was not chosen by the test part.
    new_queries = queries_of_part.get("test", queries_of_part.get("vali"))
    if new_queries is None:
        return findings
    try:
        _find_what_decides(findings, model, new_queries, progress)
    except SortNetError as error:
        findings.notes.append(f"Importance is not known: {error}.")
    return findings


def some_documents(queries: Queries, n_docs: int) -> Queries:
    """Draw whole queries with about n documents in all, or n documents of a single query."""
    share = n_docs / max(queries.n_docs, 1)
    if share >= 1 or queries.judged is not None:
        return queries
    rng = np.random.default_rng(0)
    if len(queries) == 1:
        return queries.only(rng.random(queries.n_docs) < share)
    numbers = rng.permutation(len(queries))
    return queries.take(np.sort(numbers[: ceil(share * len(queries))]))


def _find_what_decides(
    findings: Findings, model: Ranker, queries: Queries, progress: Progress
) -> None:
    """Measure the importance of the columns, and the dependence on the most important columns."""
    from sortnet.explanation.columns import partial_dependence, permutation_importance

    most = max(200, min(_MOST_DOCUMENTS, _MOST_SHUFFLED // (_REPEATS * model.n_features)))
    sample = some_documents(queries, most)
    importance = permutation_importance(model, sample, repeats=_REPEATS, progress=progress)
    few = some_documents(sample, _MOST_DEPENDENT)
    for k in importance.largest(10):
        if importance.mean[k] > 0 and len(findings.dependences) < N_CURVES:
            progress(f"partial dependence on {importance.columns[k].name}")
            dependence = partial_dependence(model, few, importance.columns[k])
            findings.dependences += [] if dependence is None else [dependence]
    noun = "query" if len(sample) == 1 else "queries"
    prefix = "a sample, " if sample.n_docs < queries.n_docs else ""
    findings.sampled = f"{prefix}{sample.n_docs:,} rows of {len(sample):,} {noun}"
    findings.importance = importance


def _fit_lightgbm(
    data: Mapping[str, Queries], model: Ranker, progress: Progress
) -> dict[str, Ranker]:
    """Fit LightGBM to the training data of a run; {} without the library or without grades.

    Raises:
        DataError: if the data is large, or LightGBM cannot learn from it.
    """
    from sortnet.rankers.fit_ranker import fit_ranker
    from sortnet.rankers.trees import TreeSettings

    if find_spec("lightgbm") is None or not {"train", "vali"} <= data.keys():
        return {}
    train = data["train"]
    if train.judged is not None or model.config.kind == TreeSettings.kind:
        return {}
    if train.n_docs * train.n_features > _MOST_FITTED:
        raise DataError("its fit to so many rows would take long; sortnet experiment compares it")
    progress("fitting LightGBM to the same rows")
    names = ["quality", "gain", "relevant_from", "empty", "seed"]
    settings = TreeSettings(**{name: getattr(model.config, name) for name in names})
    return {"LightGBM, on the same rows": fit_ranker(train, data["vali"], settings)}
