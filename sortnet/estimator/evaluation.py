"""Evaluation of a fit: its validation queries, its measures, and their values by iteration."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from sortnet.config import Settings
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.metrics import Metric, can_choose, evaluate
from sortnet.rankers.base import Ranker


def eval_parts(X: Any, eval_set: Any, qid: Any, group: Any) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Split `eval_set` into its parts: {name for messages: (X, y, qid, group)}, in their order.

    The first part chooses epoch and iteration.

    Raises:
        DataError: if `eval_set` is no part or list of parts, or the lists do not fit each other.
    """
    if not isinstance(eval_set, list):
        eval_set = [eval_set]
        qid = [qid]
        group = [group]
    for name, value in (("eval_qid", qid), ("eval_group", group)):
        if value is not None and len(value) != len(eval_set):
            raise DataError(f"{name} is a list of {len(value)}, eval_set one of {len(eval_set)}")
    qids = qid or [None] * len(eval_set)
    groups = group or [None] * len(eval_set)
    parts = {}
    for k, part in enumerate(eval_set):
        if not isinstance(part, tuple) or len(part) != 2:
            raise DataError("eval_set must be (X, y) or a list of such tuples")
        name = "eval_set" if len(eval_set) == 1 else f"eval_set[{k}]"
        parts[name] = (*part, qids[k], groups[k])
    if not parts:
        raise DataError("eval_set is empty: give (X, y), or leave it out")
    if len(parts) > 1 and eval_set[0][0] is X:
        raise DataError(
            "the first eval_set chooses epoch and iteration, and it is the training data: "
            "put another one first"
        )
    return parts


def names_of_parts(eval_names: Sequence[str] | None, n: int) -> list[str]:
    """Check the names of n validation parts; LightGBM's `valid_0`, `valid_1`, ... by default."""
    names = [f"valid_{k}" for k in range(n)] if eval_names is None else list(eval_names)
    if len(names) != n or len(set(names)) < n:
        raise DataError(f"eval_names must be {n} different names, got {str(names)[:60]}")
    return names


def measures(config: Settings, eval_metric: str | Sequence[str] | None) -> list[Metric]:
    """List the measures of a fit: RankQuality, then the measures named by `eval_metric`."""
    names: list[Any] = []
    if isinstance(eval_metric, Iterable) and not isinstance(eval_metric, str):
        names = [*eval_metric]
    elif eval_metric is not None:
        names = [eval_metric]
    for name in names:
        if not isinstance(name, str):
            text = str(name)[:60]
            raise DataError(f"eval_metric takes names of measures, such as ndcg@10, not {text}")
    return list(dict.fromkeys([config.rank_quality, *map(config.metric, names)]))


def results(
    history: Sequence[Iteration],
    model: Ranker,
    parts: dict[str, tuple[str, Queries]],
    metrics: Sequence[Metric],
) -> dict[str, dict[str, list[float]]]:
    """Values of all measures by iteration, as {name of the part: {measure: values}}.

    A ranker without iterations has a single value, the ranker's own.

    Args:
        history: the iterations.
        model: the fitted ranker.
        parts: {name of the part: its key in `Iteration.measures`, and its queries}.
        metrics: the measures.
    """
    results_of_parts = {}
    for name, (key, part) in parts.items():
        values_by_iteration = [record.measures[key] for record in history]
        if not history:
            order = model.order(part)
            values = evaluate(part, order, metrics=metrics, empty=model.config.empty)
            values_by_iteration = [values]
        results_of_parts[name] = {
            metric.name: [values[metric.name] for values in values_by_iteration]
            for metric in metrics
        }
    return results_of_parts


def checked_callbacks(callbacks: Any) -> list[Callback]:
    """Check that callbacks accept an `Iteration` and a `State`; return them as a list.

    Raises:
        DataError: on a callback of another library.
    """
    if callbacks is None:
        return []
    functions = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for function in functions:
        try:
            with suppress(ValueError):  # some built-in functions have no signature
                inspect.signature(function).bind(None, None)
        except TypeError:
            name = f"{type(function).__module__}.{type(function).__qualname__}"
            raise DataError(
                f"callbacks: {name} is not a function "
                "(iteration, state) -> None; to stop early, set max_stale and start='fresh'"
            ) from None
    return functions


def printing_callback(key_of_part: dict[str, str], metric: Metric) -> Callback:
    """Make a callback that writes one line per iteration to stderr.

    `key_of_part` is {name of the part: its key in `Iteration.measures`}.
    """

    def print_line(record: Iteration, state: State) -> None:
        values = []
        for name, key in key_of_part.items():
            values.append(f"{name} {metric.name} {record.measures[key][metric.name]:.4f}")
        best = " (best)" if record.best else ""
        pairs = f"{record.new_train:,} new pairs of {record.tp:,}"
        print(f"[{record.iteration}] {', '.join(values)}{best}, {pairs}", file=sys.stderr)

    return print_line


def hold_out(queries: Queries, share: float, seed: int, metric: Metric) -> tuple[Queries, Queries]:
    """Hold out a share of the queries, by which the fit chooses its epoch and iteration.

    Both parts get queries that can choose by the metric: the rankings of such a query differ in the
    metric. With fewer than two such queries all queries are in both parts, with a warning.

    Returns:
        The queries to learn from, and the queries to choose by.
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
    generator = np.random.default_rng(seed)
    is_held_out = np.zeros(len(queries), np.bool_)
    # Of the queries that can choose, at least one is held out, and at least one stays.
    for is_member, least in ((chooses, 1), (~chooses, 0)):
        numbers = generator.permutation(np.flatnonzero(is_member))
        most = max(len(numbers) - 1, 0)
        n_held_out = min(max(round(share * len(numbers)), least), most)
        is_held_out[numbers[:n_held_out]] = True
    train = queries.take(np.flatnonzero(~is_held_out))
    vali = queries.take(np.flatnonzero(is_held_out))
    return train, vali
