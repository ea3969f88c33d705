"""Figures of an experiment: a data frame with one row a query, ranker and part."""

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
    """Measures of every test query, under one convention.

    Returns:
        Columns `ranker`, `part`, `qid`, and one for each measure, NaN where the query counts for
        nothing; `attrs` has `n_queries` tested, `n_empty` of them without a relevant document, and
        the `ratio` of queries tested to those learned from.

    Cost: reading the test part of every division once.

    Raises:
        SortNetError: if the data cannot be read, or on an unknown measure or convention.
    """
    import pandas as pd

    @lru_cache(maxsize=1)
    def read(split: Split) -> tuple[Fold, Any]:
        fold = split.load(cache)
        assert fold.test is not None
        return fold, fold.test.qids.astype(object)  # which all rankers' rows share

    frames = []
    sizes: dict[Split, tuple[int, int, int]] = {}
    for cell, result in results:
        fold, qids = read(cell.split)
        test = fold.test
        assert test is not None
        if cell.split not in sizes:
            values_in_file_order = outcomes(parse_metric(measures[0]), test, np.arange(test.n_docs))
            n_learned = len(fold.train) + len(fold.vali)
            sizes[cell.split] = count_empty(values_in_file_order), len(test), n_learned
        metrics = [parse_metric(name, relevant_from=cell.relevant_from) for name in measures]
        values = figures_under(convention, test, result.order, metrics)
        names = {"ranker": cell.ranker.name, "part": cell.split.name, "qid": qids}
        frames.append(pd.DataFrame({**names, **values}))
    n_empty, n_test, n_learned = np.sum(list(sizes.values()), axis=0).tolist()
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs = {"n_empty": n_empty, "n_queries": n_test, "ratio": n_test / n_learned}
    return frame
