"""Evaluate a fit of the estimator: its validation parts, measures, and values by iteration."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sortnet.config import Settings
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.metrics import Metric, can_choose, evaluate
from sortnet.rankers.base import Ranker


def parts_of_eval_set(
    X: Any, eval_set: Any, qid: Any, group: Any
) -> Iterator[tuple[str, tuple[Any, Any, Any, Any]]]:
    """Yield the validation parts in the arguments of `fit`: a name for messages, and the data.

    Args:
        X: the training data, for a check.
        eval_set: a part (X, y), or a list of parts; the first part chooses epoch and iteration.
        qid, group: the queries of the rows of the part, or a list of these for each part; None:
            there are no queries.

    Raises:
        DataError: if `eval_set` is no part or list of parts, or if the lists differ in length.
    """
    if not isinstance(eval_set, list):
        eval_set = [eval_set]
        qid = [qid]
        group = [group]
    n = len(eval_set)
    if not n:
        raise DataError("eval_set is empty: give (X, y), or leave it out")
    for name, values in (("eval_qid", qid), ("eval_group", group)):
        if values is not None and len(values) != n:
            raise DataError(f"{name} is a list of {len(values)}, eval_set one of {n}")
    for k, part in enumerate(eval_set):
        if not isinstance(part, tuple) or len(part) != 2:
            raise DataError("eval_set must be (X, y) or a list of such tuples")
        if n > 1 and eval_set[0][0] is X:
            raise DataError(
                "the first eval_set chooses epoch and iteration, and it is the training data: "
                "put another one first"
            )
        name = "eval_set" if n == 1 else f"eval_set[{k}]"
        qid_of_part = None if qid is None else qid[k]
        group_of_part = None if group is None else group[k]
        yield name, (*part, qid_of_part, group_of_part)


def measures(config: Settings, eval_metric: str | Sequence[str] | None) -> list[Metric]:
    """List the measures of a fit: RankQuality, then the measures named by `eval_metric`.

    Raises:
        DataError: if `eval_metric` is no name and no list of names.
    """
    names = [eval_metric] if isinstance(eval_metric, str) else eval_metric or []
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise DataError(
            f"eval_metric takes names of measures, such as ndcg@10, not {shown(eval_metric)}"
        )
    measures = [config.rank_quality, *map(config.metric, names)]
    return list(dict.fromkeys(measures))  # each measure once


class EvalPart(NamedTuple):
    """A part of the data on which a fit is measured.

    Attributes:
        name: the name of the part in `evals_result_`.
        key: the key of the part in `Iteration.measures`.
        queries: the queries of the part.
    """

    name: str
    key: str
    queries: Queries


def named_parts(
    queries_of_parts: Sequence[Queries], eval_names: Sequence[str] | None, first_key: str = "vali"
) -> list[EvalPart]:
    """Name the parts of the data on which a fit is measured.

    Args:
        queries_of_parts: the parts; the first part chooses epoch and iteration.
        eval_names: the names; None: `valid_0`, `valid_1`, ... as in LightGBM.
        first_key: the key of the first part: `train` for the training queries.

    Raises:
        DataError: if there is not a different name for each part.
    """
    n = len(queries_of_parts)
    names = [f"valid_{k}" for k in range(n)] if eval_names is None else list(eval_names)
    if len(names) != n or len(set(names)) < n:
        raise DataError(f"eval_names must be {n} different names, got {shown(names)}")
    keys = [first_key, *(f"eval {k}" for k in range(1, n))]
    return [EvalPart(*part) for part in zip(names, keys, queries_of_parts, strict=True)]


def results(
    history: Sequence[Iteration],
    model: Ranker,
    eval_parts: Sequence[EvalPart],
    metrics: Sequence[Metric],
) -> dict[str, dict[str, list[float]]]:
    """Collect the values of all measures by iteration, {name of the part: {measure: values}}.

    A ranker without iterations has a single value, the measure of the fitted ranker.

    Args:
        history: the iterations; empty for a ranker without iterations.
        model: the fitted ranker.
        eval_parts: the parts on which the fit was measured.
        metrics: the measures.
    """
    results_of_parts = {}
    for name, key, queries in eval_parts:
        records = [record.measures[key] for record in history]
        if not history:
            order = model.order(queries)
            records = [evaluate(queries, order, metrics=metrics, empty=model.config.empty)]
        results_of_parts[name] = {
            metric.name: [values[metric.name] for values in records] for metric in metrics
        }
    return results_of_parts


def printing_callback(eval_parts: Sequence[EvalPart], metric: Metric) -> Callback:
    """Make a callback that writes a line for each iteration to stderr.

    Args:
        eval_parts: the parts whose values are written.
        metric: the measure to print.
    """

    def print_line(record: Iteration, state: State) -> None:
        """Write the values of all parts in an iteration, and the number of its new pairs."""
        values = [
            f"{part.name} {metric.name} {record.measures[part.key][metric.name]:.4f}"
            for part in eval_parts
        ]
        # If all queries are learned from, the last iteration is kept, not the best.
        best = " (best)" if record.best and eval_parts[0].key != "train" else ""
        pairs = f"{record.new_train:,} new pairs of {record.tp:,}"
        print(f"[{record.iteration}] {', '.join(values)}{best}, {pairs}", file=sys.stderr)

    return print_line


def hold_out(queries: Queries, share: float, seed: int, metric: Metric) -> tuple[Queries, Queries]:
    """Hold out a share of the queries, by which the fit chooses its epoch and iteration.

    A query can choose if the metric differs between its rankings. Both parts get a query that can
    choose. If fewer than two queries can choose, all queries are in both parts, with a warning.

    Args:
        queries: all queries.
        share: share of the queries to hold out, between 0 and 1.
        seed: seed of the random choice of queries.
        metric: the measure by which the fit chooses.

    Returns:
        The queries to learn from, and the queries to choose by.

    Raises:
        DataError: if the share is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise DataError(f"validation_fraction must be between 0 and 1, got {share}")
    chooses = can_choose(metric, queries)
    if chooses.sum() < 2:
        warnings.warn(
            f"{chooses.sum()} of {len(queries)} queries can choose by {metric.name}, so none is "
            "held out: best_score_ is a training figure; give more queries or an eval_set",
            stacklevel=4,
        )
        return queries, queries
    rng = np.random.default_rng(seed)
    is_held_out = np.zeros(len(queries), np.bool_)
    # Of the queries that can choose, at least one is held out, and at least one stays.
    for numbers, least in ((np.flatnonzero(chooses), 1), (np.flatnonzero(~chooses), 0)):
        most = max(len(numbers) - 1, 0)
        n_held_out = min(max(round(share * len(numbers)), least), most)
        is_held_out[rng.permutation(numbers)[:n_held_out]] = True
    train = queries.take(np.flatnonzero(~is_held_out))
    vali = queries.take(np.flatnonzero(is_held_out))
    return train, vali
