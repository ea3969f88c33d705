"""Measure the results of an experiment: a frame with a row for each query, ranker and part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
    *,
    cache: Path | None = None,
) -> pd.DataFrame:
    """Compute the measures of every test query under one convention.

    Args:
        results: the cells with their results.
        measures: names of the measures.
        convention: a key of `sortnet.lab.tool_conventions.CONVENTIONS`.
        cache: cache folder for the data; None for no cache.

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
        fold = split.load(cache)
        assert fold.test is not None
        # The rows of all rankers share the objects of the query ids.
        return fold, fold.test.qids.astype(object)

    frames = []
    sizes: dict[Split, tuple[int, int, int]] = {}  # n_empty, n_queries, n_learned of a division
    for cell, result in results:
        fold, qids = read(cell.split)
        test = fold.test
        assert test is not None
        if cell.split not in sizes:
            # Whether a query has a relevant document does not depend on the order.
            values_in_file_order = outcomes(parse_metric(measures[0]), test, np.arange(test.n_docs))
            n_learned = len(fold.train) + len(fold.vali)
            sizes[cell.split] = (count_empty(values_in_file_order), len(test), n_learned)
        metrics = [parse_metric(name, relevant_from=cell.relevant_from) for name in measures]
        values = figures_under(convention, test, result.order, metrics)
        names = {"ranker": cell.ranker.name, "part": cell.split.name, "qid": qids}
        frames.append(pd.DataFrame({**names, **values}))
    n_empty, n_test, n_learned = np.sum(list(sizes.values()), axis=0).tolist()
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs = {"n_empty": n_empty, "n_queries": n_test, "ratio": n_test / n_learned}
    return frame
