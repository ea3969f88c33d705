"""Measure rankings by the conventions of official evaluation tools and of papers.

A convention says what a query without a relevant document counts, and how a measure is computed.
The tools of LETOR 3.0 and 4.0 (`Eval-Score-3.0.pl`, `Eval-Score-4.0.pl`) discount NDCG by
max(1, log2 rank), and count a list that is shorter than the cutoff as 0. The papers on DirectRanker
and RankNet* make the test grades binary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from sortnet.core import F64, I64, Queries
from sortnet.lab.splits import with_binary_grades
from sortnet.metrics import (
    Discount,
    Empty,
    Metric,
    as_metrics,
    count_empty,
    outcomes,
    parse_metric,
)
from sortnet.metrics import conventions as conventions_text

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.lab.cells import Cell, Result

# Value of a query without a relevant document, by `Convention.empty`; NaN if it is skipped.
_VALUE_OF_EMPTY: dict[Empty, float] = {"skip": np.nan, "zero": 0.0, "one": 1.0}


@dataclass(frozen=True)
class Convention:
    """Rules by which measures are computed.

    Attributes:
        empty: how a query without a relevant document counts: `skip` leaves it out of the mean,
            `zero` and `one` give it the value 0 or 1.
        discount: the discount of NDCG.
        short: kinds of measures, such as `ndcg`, whose value is 0 for a query with fewer documents
            than the cutoff.
        binary: whether test grades become 1 from the relevance threshold on, and 0 below.
    """

    empty: Empty
    discount: Discount = "log2"
    short: tuple[str, ...] = ()
    binary: bool = False


CONVENTIONS: dict[str, Convention] = {
    "skip": Convention("skip"),
    "zero": Convention("zero"),
    "one": Convention("one"),
    "letor3": Convention("zero", "letor", ("ndcg", "nDCG", "p")),
    "letor4": Convention("zero", "letor", ("ndcg", "nDCG")),
    "binarised": Convention("skip", binary=True),
}


def figures_under(
    convention: str,
    queries: Queries,
    order: I64,
    measures: Metric | str | Iterable[Metric | str],
) -> dict[str, F64]:
    """Compute measures of every query by the rules of a convention.

    `np.nanmean` of a measure's values is the measure of all queries.

    Args:
        convention: a key of `CONVENTIONS`.
        queries: the documents and their grades.
        order: (n_docs,) document numbers, query by query, best first.
        measures: measures by name, or as `Metric`. Under the convention `binarised` a grade is
            relevant from `Metric.relevant_from` on.

    Returns:
        {name of a measure: (n_queries,) its values, NaN where the convention skips the query}.

    Raises:
        MetricError: if a measure is unknown, or is a measure of judged pairs.

    >>> q = Queries.from_arrays([[0.0]] * 4, [1, 2, 0, 0], qid=["a", "a", "b", "b"])
    >>> for name in ("skip", "zero", "letor4", "binarised"):
    ...     print(name, figures_under(name, q, np.arange(4), "ndcg@2")["ndcg@2"].round(3).tolist())
    skip [0.797, nan]
    zero [0.797, 0.0]
    letor4 [1.0, 0.0]
    binarised [1.0, nan]

    Cost: as `sortnet.metrics.per_query` for each measure.
    """
    rule, metrics = _convention_and_metrics(convention, measures)
    return {metric.name: _values_of_queries(rule, metric, queries, order) for metric in metrics}


def _values_of_queries(rule: Convention, metric: Metric, queries: Queries, order: I64) -> F64:
    """Compute one measure of every query by the rules of a convention.

    Args:
        rule: the convention.
        metric: the measure, with the discount of the convention.
        queries: the documents and their grades.
        order: (n_docs,) document numbers, query by query, best first.

    Returns:
        (n_queries,) the values, NaN where the convention skips the query.
    """
    if rule.binary:
        binary_queries = with_binary_grades(queries, metric.relevant_from)
        values = outcomes(replace(metric, relevant_from=1), binary_queries, order)
    else:
        values = outcomes(metric, queries, order)
    # The value of a query without a relevant document is NaN so far.
    values[np.isnan(values)] = _VALUE_OF_EMPTY[rule.empty]
    if metric.kind in rule.short and metric.cutoff is not None:
        has_too_few_documents = queries.sizes < metric.cutoff
        values[has_too_few_documents] = 0.0
    return values


def convention_line(
    convention: str,
    measures: Metric | str | Iterable[Metric | str],
    n_empty: int,
    n_queries: int,
) -> str:
    """Describe a convention in one line to be printed with its figures.

    Args:
        convention: a key of `CONVENTIONS`.
        measures: the measures that are printed.
        n_empty: number of queries without a relevant document.
        n_queries: number of all queries.

    >>> print(convention_line("letor4", "ndcg@10", 3, 9).replace("; ", "\\n"))
    convention letor4
    gain 2^r-1, discount max(1, log2(rank))
    lists shorter than n count 0 in ndcg@n
    queries without a relevant document counted zero: 3 of 9
    """
    rule, metrics = _convention_and_metrics(convention, measures)
    text = conventions_text(metrics, rule.empty, n_empty, n_queries)
    *clauses, clause_about_empty = text.split("; ")
    kinds_with_cutoff = {metric.kind for metric in metrics if metric.cutoff}
    short_names = sorted(f"{kind}@n" for kind in kinds_with_cutoff if kind in rule.short)
    if short_names:
        clauses.append(f"lists shorter than n count 0 in {' and '.join(short_names)}")
    if rule.binary:
        thresholds = sorted({str(metric.relevant_from) for metric in metrics})
        clauses.append(f"test grades from {' and '.join(thresholds)} count as 1, others as 0")
    return "; ".join([f"convention {convention}", *clauses, clause_about_empty])


def figures_of(
    results: Iterable[tuple[Cell, Result]], measures: Sequence[str], convention: str
) -> pd.DataFrame:
    """Compute the measures of every test query of an experiment under one convention.

    Args:
        results: the cells with their results, division by division.
        measures: names of the measures.
        convention: a key of `CONVENTIONS`.

    Returns:
        A frame with the columns `ranker`, `part`, `qid` and the measures, NaN where the convention
        skips the query. Its `attrs` have, summed over the divisions: `n_queries`, the number of
        test queries; `n_empty`, the number of test queries without a relevant document; and
        `ratio`, test queries / queries for training and validation.

    Raises:
        SortNetError: if the data cannot be read, or a measure is unknown.

    Cost: reading the test part of every division once.
    """
    import pandas as pd

    frames = []
    n_test = n_empty = n_learned = 0
    for split, results_of_split in groupby(
        results, lambda cell_and_result: cell_and_result[0].split
    ):
        fold = split.load()
        assert fold.test is not None
        any_order = np.arange(fold.test.n_docs)  # every order gives NaN to the same queries
        n_empty += count_empty(outcomes(parse_metric(measures[0]), fold.test, any_order))
        n_test += len(fold.test)
        n_learned += len(fold.train) + len(fold.vali)
        # The rows of all rankers refer to the same objects, which saves memory.
        qids = fold.test.qids.astype(object)
        for cell, result in results_of_split:
            metrics = [parse_metric(name, relevant_from=cell.relevant_from) for name in measures]
            values = figures_under(convention, fold.test, result.order, metrics)
            names = {"ranker": cell.ranker.name, "part": split.name, "qid": qids}
            frames.append(pd.DataFrame({**names, **values}))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs = {"n_empty": n_empty, "n_queries": n_test, "ratio": n_test / n_learned}
    return frame


def _convention_and_metrics(
    convention: str, measures: Metric | str | Iterable[Metric | str]
) -> tuple[Convention, list[Metric]]:
    """Look up a convention by its name, and give the measures the discount of the convention."""
    rule = CONVENTIONS[convention]
    return rule, [replace(metric, discount=rule.discount) for metric in as_metrics(measures)]
