"""The queries that a fit is measured on: held out or given; and what it says of its iterations."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from sortnet.config import Settings
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.metrics import Metric, can_choose, evaluate
from sortnet.rankers.base import Ranker


def eval_parts(X: Any, eval_set: Any, qid: Any, group: Any) -> dict[str, tuple[Any, Any, Any, Any]]:
    """{what messages call it: (X, y, qid, group)} of each part, the one that chooses first."""
    if not isinstance(eval_set, list):
        eval_set, qid, group = [eval_set], [qid], [group]
    for name, value in (("eval_qid", qid), ("eval_group", group)):
        if value is not None and len(value) != len(eval_set):
            raise DataError(f"{name} is a list of {len(value)}, eval_set one of {len(eval_set)}")
    nothing = [None] * len(eval_set)
    parts = {}
    for k, (part, *queries) in enumerate(
        zip(eval_set, qid or nothing, group or nothing, strict=True)
    ):
        if not isinstance(part, tuple) or len(part) != 2:
            raise DataError("eval_set must be (X, y) or a list of such tuples")
        parts["eval_set" if len(eval_set) == 1 else f"eval_set[{k}]"] = (*part, *queries)
    if not parts:
        raise DataError("eval_set is empty: give (X, y), or leave it out")
    if len(parts) > 1 and eval_set[0][0] is X:
        raise DataError(
            "the first eval_set chooses epoch and iteration, and it is the training data: "
            "put another one first"
        )
    return parts


def named(names: Sequence[str] | None, n: int) -> list[str]:
    """The names of n parts, by default as LightGBM has them."""
    found = [f"valid_{k}" for k in range(n)] if names is None else list(names)
    if len(found) != n or len(set(found)) < n:
        raise DataError(f"eval_names must be {n} different names, got {str(found)[:60]}")
    return found


def measures(config: Settings, given: str | Sequence[str] | None) -> list[Metric]:
    """RankQuality, and the measures of `eval_metric`."""
    asked: list[Any] = [] if given is None else [given]
    if isinstance(given, Iterable) and not isinstance(given, str):
        asked = [*given]
    for name in asked:
        if not isinstance(name, str):
            shown = str(name)[:60]
            raise DataError(f"eval_metric takes names of measures, such as ndcg@10, not {shown}")
    return list(dict.fromkeys([config.rank_quality, *map(config.metric, asked)]))


def results(
    history: Sequence[Iteration],
    model: Ranker,
    parts: dict[str, tuple[str, Queries]],
    metrics: Sequence[Metric],
) -> dict[str, dict[str, list[float]]]:
    """{name: {measure: a value an iteration}}; of a ranker without iterations, its own."""
    found = [{name: record.measures[key] for name, (key, _) in parts.items()} for record in history]
    if not found:
        measured = partial(evaluate, metrics=metrics, empty=model.config.empty)
        found = [{name: measured(part, model.order(part)) for name, (_, part) in parts.items()}]
    return {
        name: {metric.name: [each[name][metric.name] for each in found] for metric in metrics}
        for name in parts
    }


def callbacks_of(given: Any) -> list[Callback]:
    """The callbacks, which must be functions of an `Iteration` and a `State`.

    Raises:
        DataError: on one of another library.
    """
    if given is None:
        return []
    several = list(given) if isinstance(given, Iterable) else [given]
    for each in several:
        try:
            with suppress(ValueError):  # of a built-in that does not say
                inspect.signature(each).bind(None, None)
        except TypeError:
            raise DataError(
                f"callbacks: {type(each).__module__}.{type(each).__qualname__} is not a function "
                "(iteration, state) -> None; to stop early, set max_stale and start='fresh'"
            ) from None
    return several


def say(parts: dict[str, str], metric: Metric) -> Callback:
    """A callback that writes a line an iteration to stderr; `parts` is {name: key of a record}."""

    def line(record: Iteration, state: State) -> None:
        found = [f"{n} {metric.name} {record.measures[key][metric.name]:.4f}"
                 for n, key in parts.items()]  # fmt: skip
        best = " (best)" if record.best else ""
        new = f"{record.new_train:,} new pairs of {record.tp:,}"
        print(f"[{record.iteration}] {', '.join(found)}{best}, {new}", file=sys.stderr)

    return line


def hold_out(queries: Queries, share: float, seed: int, metric: Metric) -> tuple[Queries, Queries]:
    """Some whole queries to learn from, the others to choose by.

    Queries that can choose by the metric are divided by themselves, so that both parts have some
    of them.
    """
    if not 0 < share < 1:
        raise DataError(f"validation_fraction must be between 0 and 1, got {share}")
    useful = can_choose(metric, queries)
    if useful.sum() < 2:
        warnings.warn(
            f"{useful.sum()} of {len(queries)} queries can choose by {metric.name}, so none is "
            "held out: best_score_ is a training figure; give more queries or an eval_set",
            stacklevel=4,
        )
        return queries, queries
    generator = np.random.default_rng(seed)
    held = np.zeros(len(queries), np.bool_)
    for kind, least in ((useful, 1), (~useful, 0)):
        numbers = generator.permutation(np.flatnonzero(kind))
        most = max(len(numbers) - 1, 0)
        held[numbers[: min(max(round(share * len(numbers)), least), most)]] = True
    return queries.take(np.flatnonzero(~held)), queries.take(np.flatnonzero(held))
