"""Figures as each official tool and each paper takes them, from the same rankings.

A convention says what queries without a relevant document count, and what else a tool does:
LETOR's tools discount NDCG by max(1, log2 rank), and count a list that is shorter than the cutoff
0 (`Eval-Score-3.0.pl` and `Eval-Score-4.0.pl` of LETOR 3.0 and 4.0); the papers on DirectRanker
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

_COUNTS: dict[Empty, float] = {"skip": np.nan, "zero": 0.0, "one": 1.0}


@dataclass(frozen=True)
class Convention:
    """How figures are taken.

    Attributes:
        empty: what a query without a relevant document counts for.
        discount: that of NDCG.
        short: kinds of measures of which a query with fewer documents than the cutoff counts 0.
        binary: whether a test grade is 1 from the relevance threshold on, else 0.
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
    """The measures of every query under a convention, by name; their `nanmean` is its figure.

    Args:
        convention: a key of `CONVENTIONS`.
        queries: the documents and their grades.
        order: (n_docs,) document numbers, query by query, best first.
        measures: measures by name, or as `Metric`; the threshold of "binarised" is the
            `relevant_from` of the `Metric`.

    Returns:
        (n_queries,) each; NaN where the convention leaves a query out.

    Raises:
        DataError: on an unknown convention.
        MetricError: on an unknown measure, or one of judged pairs.

    >>> q = Queries.from_arrays([[0.0]] * 4, [1, 2, 0, 0], qid=["a", "a", "b", "b"])
    >>> for name in ("skip", "zero", "letor4", "binarised"):
    ...     print(name, figures_under(name, q, np.arange(4), "ndcg@2")["ndcg@2"].round(3).tolist())
    skip [0.797, nan]
    zero [0.797, 0.0]
    letor4 [1.0, 0.0]
    binarised [1.0, nan]

    Cost: that of `sortnet.metrics.per_query` for each measure.
    """
    rule, metrics = _under(convention, measures)
    values = {}
    for metric in metrics:
        graded = queries
        if rule.binary:
            is_relevant = (queries.grades >= metric.relevant_from).astype(np.int32)
            graded = replace(queries, grades=is_relevant)
            metric = replace(metric, relevant_from=1)
        by_query = outcomes(metric, graded, order)
        by_query[np.isnan(by_query)] = _COUNTS[rule.empty]
        if metric.kind in rule.short:
            by_query[queries.sizes < (metric.cutoff or 0)] = 0.0
        values[metric.name] = by_query
    return values


def said_under(
    convention: str,
    measures: Metric | str | Iterable[Metric | str],
    n_empty: int,
    n_queries: int,
) -> str:
    """The line that belongs beside figures of a convention, as `sortnet.metrics.conventions`.

    >>> print(said_under("letor4", "ndcg@10", 3, 9).replace("; ", "\\n"))
    convention letor4
    gain 2^r-1, discount max(1, log2(rank))
    lists shorter than n count 0 in ndcg@n
    queries without a relevant document counted zero: 3 of 9
    """
    rule, metrics = _under(convention, measures)
    text = conventions_text(metrics, rule.empty, n_empty, n_queries)
    *clauses, on_empty = text.split("; ")
    short = sorted({f"{m.kind}@n" for m in metrics if m.cutoff and m.kind in rule.short})
    if short:
        clauses.append(f"lists shorter than n count 0 in {' and '.join(short)}")
    if rule.binary:
        levels = sorted({str(m.relevant_from) for m in metrics})
        clauses.append(f"test grades from {' and '.join(levels)} count as 1, others as 0")
    return "; ".join([f"convention {convention}", *clauses, on_empty])


def _under(
    convention: str, measures: Metric | str | Iterable[Metric | str]
) -> tuple[Convention, list[Metric]]:
    """A convention by its name, and the measures with its discount."""
    if convention not in CONVENTIONS:
        raise DataError(
            f"unknown convention {convention[:60]!r}; known are {', '.join(CONVENTIONS)}"
        )
    rule = CONVENTIONS[convention]
    return rule, [replace(metric, discount=rule.discount) for metric in as_metrics(measures)]
