"""Measure rankings by the conventions of official evaluation tools and of papers.

A convention says what a query without a relevant document counts, and how a measure is computed.
The tools of LETOR 3.0 and 4.0 (`Eval-Score-3.0.pl`, `Eval-Score-4.0.pl`) discount NDCG by
max(1, log2 rank), and count a list that is shorter than the cutoff as 0. The papers on DirectRanker
and RankNet* make the test grades binary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sortnet.core import F64, I64, Queries
from sortnet.errors import DataError
from sortnet.metrics import Discount, Empty, Metric, as_metrics, outcomes
from sortnet.metrics import conventions as conventions_text

# What a query without a relevant document counts; NaN for a query that is skipped.
_VALUE_OF_EMPTY: dict[Empty, float] = {"skip": np.nan, "zero": 0.0, "one": 1.0}


@dataclass(frozen=True)
class Convention:
    """Rules by which measures are computed.

    Attributes:
        empty: what a query without a relevant document counts: nothing, 0 or 1.
        discount: the discount of NDCG.
        short: kinds of measures that are 0 for a query with fewer documents than the cutoff.
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
    """Compute measures of every query under a convention; `nanmean` averages them over queries.

    Args:
        convention: a key of `CONVENTIONS`.
        queries: the documents and their grades.
        order: (n_docs,) document numbers, query by query, best first.
        measures: measures by name, or as `Metric`. Under the convention `binarised` a grade is
            relevant from `Metric.relevant_from` on.

    Returns:
        {name of a measure: (n_queries,) its values, NaN where the convention skips the query}.

    Raises:
        DataError: if the convention is unknown.
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
    values = {}
    for metric in metrics:
        graded = queries
        if rule.binary:
            is_relevant = (queries.grades >= metric.relevant_from).astype(np.int32)
            graded = replace(queries, grades=is_relevant)
            metric = replace(metric, relevant_from=1)
        values_of_queries = outcomes(metric, graded, order)
        is_empty = np.isnan(values_of_queries)
        values_of_queries[is_empty] = _VALUE_OF_EMPTY[rule.empty]
        if metric.kind in rule.short and metric.cutoff is not None:
            is_short = queries.sizes < metric.cutoff
            values_of_queries[is_short] = 0.0
        values[metric.name] = values_of_queries
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
    short = sorted({f"{m.kind}@n" for m in metrics if m.cutoff and m.kind in rule.short})
    if short:
        clauses.append(f"lists shorter than n count 0 in {' and '.join(short)}")
    if rule.binary:
        thresholds = sorted({str(m.relevant_from) for m in metrics})
        clauses.append(f"test grades from {' and '.join(thresholds)} count as 1, others as 0")
    return "; ".join([f"convention {convention}", *clauses, clause_about_empty])


def _convention_and_metrics(
    convention: str, measures: Metric | str | Iterable[Metric | str]
) -> tuple[Convention, list[Metric]]:
    """Look up a convention by its name, and give the measures the discount of the convention."""
    if convention not in CONVENTIONS:
        raise DataError(
            f"unknown convention {convention[:60]!r}; known are {', '.join(CONVENTIONS)}"
        )
    rule = CONVENTIONS[convention]
    return rule, [replace(metric, discount=rule.discount) for metric in as_metrics(measures)]
