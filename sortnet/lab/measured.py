"""Measure the results of an experiment: a frame with a row for each query, ranker and part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.core import Queries
from sortnet.data.read import Fold
from sortnet.lab.cells import Cell, Result
from sortnet.lab.splits import Split
from sortnet.lab.tool_conventions import figures_under
from sortnet.metrics import count_empty, outcomes, parse_metric

if TYPE_CHECKING:
    import pandas as pd


def figures_of(
    results: Iterable[tuple[Cell, Result]],
    measures: Sequence[str],
    convention: str,
) -> pd.DataFrame:
    """Compute the measures of every test query under one convention.

    Args:
        results: the cells with their results.
        measures: names of the measures.
        convention: a key of `sortnet.lab.tool_conventions.CONVENTIONS`.

    Returns:
        A frame with the columns `ranker`, `part`, `qid` and the measures, NaN where the convention
        skips the query. Its `attrs` have, summed over the divisions: `n_queries`, the number of
        test queries; `n_empty`, the number of test queries without a relevant document; and
        `ratio`, test queries / queries for training and validation.

    Raises:
        SortNetError: if the data cannot be read, or a measure or the convention is unknown.

    Cost: reading the test part of every division once.
    """
    import pandas as pd

    @lru_cache(maxsize=1)
    def read(split: Split) -> tuple[Fold, Any]:
        """Read a division, and the query ids of its test part as objects."""
        fold = split.load()
        assert fold.test is not None
        # The rows of all rankers refer to the same objects, which saves memory.
        return fold, fold.test.qids.astype(object)

    frames = []
    sizes: dict[Split, list[int]] = {}  # test queries, empty ones, queries to learn from
    for cell, result in results:
        fold, qids = read(cell.split)
        assert fold.test is not None
        n_empty = _count_empty_queries(fold.test, measures[0])
        sizes[cell.split] = [len(fold.test), n_empty, len(fold.train) + len(fold.vali)]
        metrics = [parse_metric(name, relevant_from=cell.relevant_from) for name in measures]
        values = figures_under(convention, fold.test, result.order, metrics)
        names = {"ranker": cell.ranker.name, "part": cell.split.name, "qid": qids}
        frames.append(pd.DataFrame({**names, **values}))
    frame = pd.concat(frames, ignore_index=True)
    n_test, n_empty, n_learned = np.sum([*sizes.values()], axis=0).tolist()
    frame.attrs = {"n_empty": n_empty, "n_queries": n_test, "ratio": n_test / n_learned}
    return frame


def _count_empty_queries(queries: Queries, measure: str) -> int:
    """Count the queries without a relevant document, for which the measure has no value."""
    any_order = np.arange(queries.n_docs)  # whether there is a value does not depend on the order
    return count_empty(outcomes(parse_metric(measure), queries, any_order))
