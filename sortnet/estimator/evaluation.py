"""Evaluate a fit of the estimator: its validation parts, measures, and values by iteration."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from sortnet.config import Settings
from sortnet.core import I64, Queries
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.metrics import Metric, can_choose, evaluate
from sortnet.rankers.base import Ranker

_SHOWN = 60  # characters of a value that a message shows


def eval_parts(X: Any, eval_set: Any, qid: Any, group: Any) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Collect the validation parts from the arguments of `fit`.

    Args:
        X: the training data, for a check.
        eval_set: a part (X, y), or a list of parts; the first part chooses epoch and iteration.
        qid, group: the queries of the rows of the part, or a list of these for each part; None:
            there are no queries.

    Returns:
        {name of the part for messages: (X, y, qid, group)}, in the order of `eval_set`.

    Raises:
        DataError: if `eval_set` is no part or list of parts, or if the lists differ in length.
    """
    if not isinstance(eval_set, list):
        eval_set = [eval_set]
        qid = [qid]
        group = [group]
    n = len(eval_set)
    qids = _one_a_part("eval_qid", qid, n)
    groups = _one_a_part("eval_group", group, n)
    parts = {}
    for k, part in enumerate(eval_set):
        if not isinstance(part, tuple) or len(part) != 2:
            raise DataError("eval_set must be (X, y) or a list of such tuples")
        name = "eval_set" if n == 1 else f"eval_set[{k}]"
        X_of_part, y_of_part = part
        parts[name] = (X_of_part, y_of_part, qids[k], groups[k])
    if not parts:
        raise DataError("eval_set is empty: give (X, y), or leave it out")
    X_of_first, _ = eval_set[0]
    if n > 1 and X_of_first is X:
        raise DataError(
            "the first eval_set chooses epoch and iteration, and it is the training data: "
            "put another one first"
        )
    return parts


def _one_a_part(name: str, values: Any, n: int) -> Any:
    """Return a list with a value for each of n validation parts; values of None mean n times None.

    Args:
        name: name of the argument of `fit`, for the message.
        values: the list, with a value for each part; or None.
        n: the number of parts.

    Raises:
        DataError: if the list has another length than n.
    """
    if values is not None and len(values) != n:
        raise DataError(f"{name} is a list of {len(values)}, eval_set one of {n}")
    return [None] * n if values is None else values


def names_of_parts(eval_names: Sequence[str] | None, n: int) -> list[str]:
    """Check the names of n validation parts, and return them.

    Args:
        eval_names: the names; None: `valid_0`, `valid_1`, ... as in LightGBM.
        n: the number of parts.

    Raises:
        DataError: if there are not n different names.
    """
    names = [f"valid_{k}" for k in range(n)] if eval_names is None else list(eval_names)
    if len(names) != n or len(set(names)) < n:
        raise DataError(f"eval_names must be {n} different names, got {shown(names)}")
    return names


def measures(config: Settings, eval_metric: str | Sequence[str] | None) -> list[Metric]:
    """List the measures of a fit: RankQuality, then the measures named by `eval_metric`.

    Raises:
        DataError: if `eval_metric` is no name and no list of names.
    """
    names: list[Any] = [eval_metric]
    if eval_metric is None:
        names = []
    elif isinstance(eval_metric, Iterable) and not isinstance(eval_metric, str):
        names = [*eval_metric]
    for name in names:
        if not isinstance(name, str):
            text = str(name)[:_SHOWN]
            raise DataError(f"eval_metric takes names of measures, such as ndcg@10, not {text}")
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


def with_keys(parts: Mapping[str, Queries]) -> list[EvalPart]:
    """List the parts {name: queries}, with the keys vali, eval 1, eval 2, ... in this order."""
    eval_parts = []
    for k, (name, queries) in enumerate(parts.items()):
        key = "vali" if k == 0 else f"eval {k}"
        eval_parts.append(EvalPart(name, key, queries))
    return eval_parts


def results(
    history: Sequence[Iteration],
    model: Ranker,
    parts: Sequence[EvalPart],
    metrics: Sequence[Metric],
) -> dict[str, dict[str, list[float]]]:
    """Collect the values of all measures by iteration, {name of the part: {measure: values}}.

    A ranker without iterations has a single value, the measure of the fitted ranker.

    Args:
        history: the iterations; empty for a ranker without iterations.
        model: the fitted ranker.
        parts: the parts on which the fit was measured.
        metrics: the measures.
    """
    results_of_parts = {}
    for name, key, queries in parts:
        if history:
            measures_by_iteration = [record.measures[key] for record in history]
        else:
            order = model.order(queries)
            final_measures = evaluate(queries, order, metrics=metrics, empty=model.config.empty)
            measures_by_iteration = [final_measures]
        results_of_parts[name] = {
            metric.name: [values[metric.name] for values in measures_by_iteration]
            for metric in metrics
        }
    return results_of_parts


def checked_callbacks(callbacks: Any) -> list[Callback]:
    """Check that callbacks accept an `Iteration` and a `State`, and return them as a list.

    Args:
        callbacks: a function, several functions, or None.

    Raises:
        DataError: if a function has other arguments, as callbacks of other libraries have.
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


def printing_callback(parts: Sequence[EvalPart], metric: Metric) -> Callback:
    """Make a callback that writes a line for each iteration to stderr.

    Args:
        parts: the parts whose values are written.
        metric: the measure to print.
    """

    def print_line(record: Iteration, state: State) -> None:
        """Write the values of all parts in an iteration, and the number of its new pairs."""
        values = []
        for part in parts:
            value = record.measures[part.key][metric.name]
            values.append(f"{part.name} {metric.name} {value:.4f}")
        # If all queries are learned from, the last iteration is kept, not the best.
        best = " (best)" if record.best and parts[0].key != "train" else ""
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
    # Of the queries whose rankings differ in the measure, at least one is held out, and at least
    # one stays.
    choosing = _draw_share(np.flatnonzero(chooses), share, 1, rng)
    not_choosing = _draw_share(np.flatnonzero(~chooses), share, 0, rng)
    is_held_out = np.zeros(len(queries), np.bool_)
    is_held_out[choosing] = True
    is_held_out[not_choosing] = True
    train = queries.take(np.flatnonzero(~is_held_out))
    vali = queries.take(np.flatnonzero(is_held_out))
    return train, vali


def _draw_share(numbers: I64, share: float, least: int, rng: np.random.Generator) -> I64:
    """Draw a share of the numbers at random: `least` or more, but never all of them."""
    order = rng.permutation(numbers)
    most = max(len(numbers) - 1, 0)
    n_drawn = min(max(round(share * len(numbers)), least), most)
    return order[:n_drawn]
