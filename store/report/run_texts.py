"""Describe a run: its iterations as a table, its models, and the conventions of its measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sortnet.config import Settings
from sortnet.core import Queries
from sortnet.files import Record
from sortnet.metrics import (
    Empty,
    Metric,
    conventions,
    count_empty,
    measured,
    outcomes,
    parse_metric,
)
from store.report.columns import cell

if TYPE_CHECKING:
    from sortnet.learning.iterations import Iteration

Kept: TypeAlias = Mapping[str, Any]  # the value of `store.Run.kept`: kind, measure, figures, reason
_NAMES = {"sortnet": "the comparator", "posterior": "the posterior"}
MEANING = (
    "wrong: share of the comparisons that had the wrong order; pairs: compared so far and kept; "
    "*: best so far"
)
_LINE = "{:>4} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {}"


def iteration_header(quality: str) -> list[str]:
    """Return the two header lines of the table.

    Args:
        quality: the name of the run's RankQuality.
    """
    part_titles = f"{'':14} {'training':^26} {'validation':^26}"
    columns = ["wrong", "pairs", quality]
    titles = _LINE.format("iter", "compared", *columns, *columns, "seconds", "")
    return [part_titles.rstrip(), titles.rstrip()]


def iteration_line(row: Record, quality: str) -> str:
    """Format an iteration as a line of the table; the best iteration so far is marked with `*`.

    Args:
        row: the iteration, as a row of the store's frame or as `iteration_row` returns it.
        quality: the name of the run's RankQuality.
    """
    n_compared = (row["comparisons_train"] or 0) + (row["comparisons_vali"] or 0)
    seconds = (row["seconds_sort"] or 0) + (row["seconds_train"] or 0)
    cells = [row["iteration"], n_compared]
    for part, pairs in (("train", "tp"), ("vali", "vp")):
        n_compared_in_part = row[f"comparisons_{part}"]
        n_wrong = row[f"miscompared_{part}"]
        is_known = n_compared_in_part and n_wrong is not None
        cells.append(f"{n_wrong / n_compared_in_part:.1%}" if is_known else "-")
        cells.append("-" if row[pairs] is None else row[pairs])
        cells.append(cell("figure", row.get(f"{part}_{quality}")))
    return _LINE.format(*cells, f"{seconds:.1f}", "*" if row["best"] else "").rstrip()


def iteration_row(record: Iteration) -> Record:
    """Convert an iteration to a row with the columns of the store's frame, such as `vali_map`."""
    measures = {
        f"{split}_{name}": value
        for split, values in record.measures.items()
        for name, value in values.items()
    }
    return {**vars(record), **measures}


def quality_of(config: Record) -> str:
    """Return the name of the RankQuality of a run with these settings."""
    return parse_metric(config.get("quality", "map")).name


def kept_figure(model: Kept) -> float:
    """Return the value of the measure for the kept model."""
    return float(model["figures"][model["kind"]])


def kept_model(model: Kept) -> str:
    """Describe the kept model: its measure, the measures of the other models, and the reason.

    >>> figures = {"sortnet": 0.75, "posterior": 1.0}
    >>> kept_model({"kind": "posterior", "measure": "accuracy", "figures": figures,
    ...     "reason": "better on the judgements held out"})
    "the posterior: accuracy 1.0000, the comparator's is 0.7500; better on the judgements held out"
    """
    figures = [f"{model['measure']} {kept_figure(model):.4f}"]
    for kind, figure in model["figures"].items():
        if kind != model["kind"]:
            figures.append(f"{_NAMES.get(kind, kind)}'s is {float(figure):.4f}")
    name = _NAMES.get(model["kind"], model["kind"])
    return f"{name}: {', '.join(figures)}; {model['reason']}"


def from_which(facts: Record) -> str:
    """Name the folder of the model that a run began with, and the run that trained the model.

    Args:
        facts: the folder `path` of the model, and the id `run` of its run, if they are recorded.

    >>> from_which({"path": "old", "run": "3f2a5b"}), from_which({"path": "old", "run": None})
    ('old (run 3f2a5b)', 'old')
    """
    path = facts.get("path") or "a model"
    run = facts.get("run")
    return f"{path} (run {run})" if run else str(path)


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
