"""Figures by the conventions of official evaluation tools and of papers: measured or published.

A convention says what a query without a relevant document counts, and how a measure is computed.
The tools of LETOR 3.0 and 4.0 (`Eval-Score-3.0.pl`, `Eval-Score-4.0.pl`) discount NDCG by
max(1, log2 rank), and count a list that is shorter than the cutoff as 0. The papers on DirectRanker
and RankNet* make the test grades binary.

Only figures under the same convention can be compared, so each published figure names its
convention. The name is empty if the source does not tell the convention, or if the programs of the
source measure in another way: the hold-outs of Köppel et al. 2025 divide the documents of a query,
so that each test query also has documents in the training part.

Columns of `published.csv`:

- `data`: a key of `DATA`
- `ranker`: the name of the ranker in the source
- `kind`: the most similar kind of `sortnet.rankers.registry.KINDS`, or empty
- `measure`: the name of the measure
- `value`, `error`: the mean over the parts; its standard error, or empty
- `protocol`: which data the ranker was trained on
- `convention`: a key of `CONVENTIONS`, or empty
- `source`: paper and table
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby
from pathlib import PurePath
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

# {data: regular expression that is searched in the lower-case name of a folder}. The expressions of
# MQ2007 and MQ2008 exclude the semi-supervised and listwise versions, which have other rankings.
DATA: dict[str, str] = {
    "MQ2007": r"mq2007(?!.?(semi|list|agg))",
    "MQ2008": r"mq2008(?!.?(semi|list|agg))",
    "MSLR-WEB10K": r"(web|mslr).?10k",
    "MSLR-WEB30K": r"(web|mslr).?30k",
    "OHSUMED": r"ohsumed",
    "TD2003": r"td2003|2003_td",
    "TD2004": r"td2004|2004_td",
    "medoid": r"medoid$",
    "hypervolume": r"hypervolume$",
}
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
    values_of_metric = {}
    for metric in metrics:
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
        values_of_metric[metric.name] = values
    return values_of_metric


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


def published_for(
    folder: str | PurePath, measures: Metric | str | Iterable[Metric | str]
) -> pd.DataFrame:
    """Look up the published figures for the data in a folder.

    Args:
        folder: path of the folder; its name tells which data it has, see `data_of`.
        measures: the measures whose figures are wanted.

    Returns:
        A frame with the columns of `published.csv`, with rows in the order of the measures. The
        frame is empty if there are no published figures.

    Raises:
        MetricError: if a measure is unknown.

    >>> figures = published_for("data/mq2008", ["ndcg@10", "p@5"])
    >>> figures.loc[0, ["ranker", "measure", "convention"]].tolist(), float(figures.loc[0, "value"])
    (['RankNet*, DirectRanker', 'ndcg@10', 'binarised'], 0.72)
    """
    names = [metric.name for metric in as_metrics(measures)]
    figures = published()
    is_about_data = figures["data"] == data_of(folder)
    matching = figures[is_about_data & figures["measure"].isin(names)]
    order = matching["measure"].map(names.index).argsort(kind="stable")
    return matching.iloc[order].reset_index(drop=True)


def published() -> pd.DataFrame:
    """Read all published figures from `published.csv`."""
    import pandas as pd

    with (files("sortnet.lab") / "published.csv").open(encoding="utf-8") as file:
        frame = pd.read_csv(file, dtype={"value": float, "error": float})
    return frame.fillna({"kind": "", "convention": ""})


def data_of(folder: str | PurePath) -> str | None:
    """Find the key in `DATA` for the path of a folder; None if no folder name matches.

    The last matching folder name of the path decides.

    >>> data_of("letor/MSLR-WEB10K/Fold2"), data_of("MQ2008-list"), data_of("mine")
    ('MSLR-WEB10K', None, None)
    """
    for part in reversed(PurePath(folder).parts):
        for name, pattern in DATA.items():
            if re.search(pattern, part.lower()):
                return name
    return None
