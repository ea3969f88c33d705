"""RankQuality of the rankings of many queries at once: MAP, NDCG@n, P@n, correlations and others.

    AP     = mean over the relevant documents of the precision at their rank;   MAP its mean
    NDCG@n = DCG@n / DCG@n of the ideal ranking,   DCG@n = sum_{rank <= n} gain / log2(1 + rank)
    P@n    = relevant documents among the first n, divided by n
    RR     = 1 / rank of the first relevant document;   MRR its mean
    ERR@n  = sum_{rank <= n} R / rank * product of the 1 - R above,   R = (2^grade - 1) / 2^4

    spearman    = Pearson's correlation of the ranks with those by grade, ties at their mean rank
    kendall     = (C - D) / sqrt(T n (n - 1) / 2), tau-b,   T = C + D pairs of two grades
    concordance = C / T, the 0/1 ranking accuracy;   exact = 1 if D = 0 else 0, the 0/1 accuracy

C pairs are in the order of their grades, D pairs are not. These four measures use every document of
a query, and have no value where all documents have one grade.

Gain is 2^grade - 1, or the grade itself with `gain="linear"`, and always for `nDCG`, the measure of
ir-measures and trec_eval. `discount="letor"` divides the gain by max(1, log2 rank) instead, as
LETOR's tools do. ERR (Chapelle et al. 2009) is gdeval's: its highest grade is 4 whatever the data
have, and a higher grade is refused. MAP, P@n and MRR are binary: a grade of `relevant_from` or more
is relevant. A query without a relevant document (for NDCG and ERR: without a grade above 0) has no
value; only `average` decides what such a query counts for.

Documents without grades, of which people compared pairs, have one measure, accuracy: the share of
these judgements that a ranking predicts. A judgement counts by its weight and by the agreement of
the judges, so a tie does not count.

A measure is a row of `MEASURES`, which all functions here and all commands read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sortnet.core import F64, I32, I64, Bool, Queries
from sortnet.core.shard import gathered, summed
from sortnet.errors import DataError, MetricError

Gain: TypeAlias = Literal["exp", "linear"]
Discount: TypeAlias = Literal["log2", "letor"]
Empty: TypeAlias = Literal["zero", "skip", "one", "error"]

_NAME = re.compile(r"(?P<kind>[A-Za-z]+(?:_[A-Za-z]+)?)(?:[@_.](?P<cutoff>[0-9]{1,9}))?")
_GAIN_WORDS: dict[Gain, str] = {"exp": "2^r-1", "linear": "r"}
_DISCOUNT_WORDS: dict[Discount, str] = {"log2": "log2(1+rank)", "letor": "max(1, log2(rank))"}
_EMPTY_WORDS: dict[Empty, str] = {
    "zero": "counted zero",
    "skip": "left out",
    "one": "counted one",
    "error": "refused",
}
_WITHOUT = "without a relevant document"
_ERR_HIGHEST = 4  # the grade that gdeval's ERR regards as the best possible


@dataclass(frozen=True, eq=False)
class _Hits:
    """The relevant documents of ranked queries, which are all that a measure needs."""

    query: I64  # (n_hits,) ascending
    rank: I64  # (n_hits,) from 1, ascending within a query
    grade: NDArray[Any]  # (n_hits,)
    counts: I64  # (n_queries,)
    starts: I64  # (n_queries,) each query's first hit

    def sum(self, weights: F64, counted: NDArray[np.bool_]) -> F64:
        """(n_queries,) sums of the weights of the hits selected by a mask, `counted`."""
        sums = np.bincount(self.query[counted], weights[counted], minlength=len(self.counts))
        return sums.astype(np.float64, copy=False)  # numpy's stubs declare integers

    def first(self, values: I64) -> I64:
        """(n_queries,) the first of each query's (n_hits,) values; arbitrary for an empty query."""
        return values[np.minimum(self.starts, len(values) - 1)]  # the last query may be empty


def _find_hits(grades: NDArray[Any], offsets: I64, lowest: int) -> _Hits:
    """Find the relevant documents, whose grade is `lowest` or higher.

    Args:
        grades: (n_docs,) query by query, in ranked order.
        offsets: (n_queries + 1,) where each query begins in `grades`.
    """
    places = np.flatnonzero(grades >= lowest)
    bounds = np.searchsorted(places, offsets)  # where each query begins in `places`
    counts = np.diff(bounds)
    query = np.repeat(np.arange(len(counts)), counts)
    return _Hits(
        query,
        rank=places - offsets[query] + 1,
        grade=grades[places],
        counts=counts,
        starts=bounds[:-1],
    )


def _within(metric: Metric, rank: I64) -> NDArray[np.bool_]:
    """(m,) whether each rank is within the measure's cutoff."""
    return np.ones(len(rank), np.bool_) if metric.cutoff is None else rank <= metric.cutoff


def _nth(hits: _Hits) -> I64:
    """(n_hits,) 1 for a query's first hit, 2 for the second: the ranks of the ideal ranking."""
    return np.arange(1, len(hits.rank) + 1) - hits.starts[hits.query]


def _map(metric: Metric, hits: _Hits) -> F64:
    precision_sums = hits.sum(_nth(hits) / hits.rank, _within(metric, hits.rank))
    return precision_sums / np.maximum(hits.counts, 1)


def _p(metric: Metric, hits: _Hits) -> F64:
    query = hits.query[_within(metric, hits.rank)]
    n_relevant = np.bincount(query, minlength=len(hits.counts))
    return n_relevant / float(metric.cutoff or 1)


def _mrr(metric: Metric, hits: _Hits) -> F64:
    first_rank = hits.first(hits.rank)
    return np.where(_within(metric, first_rank), 1.0 / first_rank, 0.0)


def _ndcg(metric: Metric, hits: _Hits) -> F64:
    ideal_grades = _best_first(hits)
    best = hits.first(ideal_grades)[hits.query]
    dcg = _dcg(metric, hits, hits.grade, hits.rank, best)
    ideal_dcg = _dcg(metric, hits, ideal_grades, _nth(hits), best)
    return dcg / np.where(hits.counts > 0, ideal_dcg, 1.0)


def _best_first(hits: _Hits) -> I64:
    """(n_hits,) each query's grades from the highest down."""
    grades = hits.grade.astype(np.int64)
    highest = int(grades.max())
    # One sort for all queries; the keys are below 2^62 for int32 grades.
    keys = hits.query * (highest + 1) + (highest - grades)
    keys.sort()
    return highest - (keys - hits.query * (highest + 1))


def _dcg(metric: Metric, hits: _Hits, grade: I64, rank: I64, best: I64) -> F64:
    """(n_queries,) DCG, relative to the gain of each query's best grade, (n_hits,)."""
    if metric.gain == "linear":
        gains = grade.astype(np.float64)
    else:  # (2^grade - 1) / 2^best, which is exact and cannot overflow
        gains = np.ldexp(1.0, grade - best) - np.ldexp(1.0, -best)
    if metric.discount == "letor":
        discounts = np.maximum(np.log2(rank), 1.0)
    else:
        discounts = np.log2(1.0 + rank)
    return hits.sum(gains / discounts, _within(metric, rank))


def _err(metric: Metric, hits: _Hits) -> F64:
    # The probability that a reader stops at a document, by its grade.
    p_stop = (np.exp2(np.arange(_ERR_HIGHEST + 1)) - 1.0) / 2**_ERR_HIGHEST
    # (n_hits,) the probability that a reader reaches a document.
    p_reach = np.ones(len(hits.rank))
    for grade in range(1, _ERR_HIGHEST + 1):
        has_grade = hits.grade == grade
        n_above = np.cumsum(has_grade) - has_grade  # integers lose no digit over many queries
        p_reach *= (1.0 - p_stop[grade]) ** (n_above - hits.first(n_above)[hits.query])
    p_stop_here = p_stop[hits.grade.astype(np.int64)] * p_reach
    return hits.sum(p_stop_here / hits.rank, _within(metric, hits.rank))


def _spearman(metric: Metric, hits: _Hits) -> F64:
    order, n_lower, n_equal = _sorted_by_value(hits, -hits.grade.astype(np.int64))
    rank_by_grade = np.empty(len(order), np.float64)
    rank_by_grade[order] = n_lower + (n_equal + 1) / 2
    n = hits.counts.astype(np.float64)
    mean_rank = ((n + 1) / 2)[hits.query]
    all_hits = np.ones(len(order), np.bool_)
    products = hits.sum((hits.rank - mean_rank) * (rank_by_grade - mean_rank), all_hits)
    squares = hits.sum(np.square(rank_by_grade - mean_rank), all_hits)
    with np.errstate(invalid="ignore"):  # 0 / 0 where all have one grade
        correlation: F64 = products / np.sqrt(squares * (n**3 - n) / 12)
    return correlation


def _kendall(metric: Metric, hits: _Hits) -> F64:
    n_wrong, n_pairs = _count_discordant(hits)
    n = hits.counts.astype(np.float64)
    with np.errstate(invalid="ignore"):  # 0 / 0 where all have one grade
        correlation: F64 = (n_pairs - 2 * n_wrong) / np.sqrt(n_pairs * n * (n - 1) / 2)
    return correlation


def _concordance(metric: Metric, hits: _Hits) -> F64:
    n_wrong, n_pairs = _count_discordant(hits)
    return np.where(n_pairs > 0, 1.0 - n_wrong / np.maximum(n_pairs, 1), np.nan)


def _exact(metric: Metric, hits: _Hits) -> F64:
    return np.floor(_concordance(metric, hits))


def _count_discordant(hits: _Hits) -> tuple[F64, F64]:
    """Count the pairs of documents of each query that differ in grade.

    The pairs in the wrong order are counted as in merge sort: each level counts the pairs across
    the halves of its blocks.

    Returns:
        (n_queries,) the pairs in the wrong order, and (n_queries,) all pairs.
    """
    n_wrong = np.zeros(len(hits.counts))
    longest = int(hits.counts.max())
    n_levels = (longest - 1).bit_length()
    for level in range(n_levels):
        n_wrong += _count_discordant_of_level(hits, level)
    _, _, n_equal = _sorted_by_value(hits, hits.grade)
    n_equal_others = (n_equal - 1).astype(np.float64)
    all_hits = np.ones(len(n_equal), np.bool_)
    n_tied = hits.sum(n_equal_others, all_hits) / 2  # the sum counts a pair at both documents
    n = hits.counts.astype(np.float64)
    return n_wrong, n * (n - 1) / 2 - n_tied


def _count_discordant_of_level(hits: _Hits, level: int) -> F64:
    """(n_queries,) pairs of a lower grade in the left and a higher grade in the right half.

    The halves are of the same block, which has the ranks of two runs that merge sort merges at
    this level.
    """
    place = hits.rank - 1
    block = hits.starts[hits.query] + (place >> (level + 1))
    is_left = (place >> level) & 1 == 0
    order = np.lexsort((is_left, hits.grade, block))  # within a grade, the right half is first
    n_left_before = np.cumsum(is_left[order]) - is_left[order]
    starts_block = np.diff(block[order], prepend=-1) != 0
    n_left_before_block = np.maximum.accumulate(np.where(starts_block, n_left_before, 0))
    n_lower_left = np.zeros(len(order))
    n_lower_left[order] = n_left_before - n_left_before_block
    return hits.sum(n_lower_left, ~is_left)


def _sorted_by_value(hits: _Hits, value: NDArray[Any]) -> tuple[I64, I64, I64]:
    """Sort hits by query and value.

    Returns:
        Their order, and of each hit in this order the number of hits of its query with a lower
        value, and the number with the same value.
    """
    order = np.lexsort((value, hits.query))
    query = hits.query[order]
    sorted_value = value[order]
    is_new = (np.diff(query, prepend=-1) != 0) | (np.diff(sorted_value, prepend=0) != 0)
    starts = np.flatnonzero(is_new)
    sizes = np.diff(np.append(starts, len(order)))
    n_lower = np.repeat(starts, sizes) - hits.starts[query]
    return order, n_lower, np.repeat(sizes, sizes)


@dataclass(frozen=True)
class Measure:
    """A row of `MEASURES`.

    Attributes:
        values: (metric, relevant documents) -> (n_queries,) values, which are used only for queries
            with a relevant document.
        spellings: names in other tools, in any case; with "@n", only with a cutoff. The row's key
            in the exact case comes before all spellings; of two equal spellings the last row's
            counts.
        convention: text to print beside figures, with {gain}, {discount} and {cutoff}.
        default: name under which the measure is taken where nobody chose measures.
        graded: whether it depends on the grades, not only on which documents are relevant.
        needs_cutoff: whether it counts the first n documents in any order, and so needs n.
        gain: the gain that it always has.
        highest: the highest grade that it is defined for.
        of_pairs: whether it measures judged pairs, see `outcomes`, instead of grades.
        whole: whether it includes every document, also of grade 0.
    """

    values: Callable[[Metric, _Hits], F64]
    spellings: tuple[str, ...] = ()
    convention: str = ""
    default: str | None = None
    graded: bool = False
    needs_cutoff: bool = False
    gain: Gain | None = None
    highest: int | None = None
    of_pairs: bool = False
    whole: bool = False


_OF_WHOLE: dict[str, Any] = {"graded": True, "whole": True}
MEASURES: dict[str, Measure] = {
    "map": Measure(_map, ("ap", "map_cut@n"), default="map"),
    "ndcg": Measure(
        _ndcg, (), "gain {gain}, discount {discount}", default="ndcg@10", graded=True
    ),
    "nDCG": Measure(
        _ndcg, ("ndcg_cut@n",),
        "gain r in nDCG as in ir-measures and trec_eval, discount {discount}",
        graded=True, gain="linear",
    ),
    "p": Measure(_p, (), "P@{cutoff} divides by {cutoff}", default="p@10", needs_cutoff=True),
    "mrr": Measure(_mrr, ("rr", "recip_rank"), default="mrr"),
    "err": Measure(
        _err, (), "ERR stops at grade r with probability (2^r-1)/16 as in gdeval",
        graded=True, highest=_ERR_HIGHEST,
    ),
    "spearman": Measure(
        _spearman, (), "spearman gives documents of one grade their mean rank", **_OF_WHOLE
    ),
    "kendall": Measure(_kendall, (), "kendall is tau-b", **_OF_WHOLE),
    "concordance": Measure(
        _concordance, ("ranking_accuracy",),
        "concordance is the share of the pairs of two grades in their order", **_OF_WHOLE,
    ),
    "exact": Measure(
        _exact, (), "exact is the share of the queries with all pairs of two grades in their order",
        **_OF_WHOLE,
    ),
    "accuracy": Measure(
        lambda metric, hits: np.full(len(hits.counts), np.nan), (),
        "accuracy is the share of the judgements predicted, by their weights", of_pairs=True,
    ),
}  # fmt: skip
# The measures that are taken where nobody chose any.
MEASURED = tuple(row.default for row in MEASURES.values() if row.default)
_KIND_OF = {
    spelling.removesuffix("@n"): kind
    for kind, row in MEASURES.items()
    for spelling in (kind.lower(), *row.spellings)
}


def measured(quality: Metric) -> tuple[str, ...]:
    """The measures that are taken beside RankQuality where nobody chose any."""
    return () if quality.row.of_pairs else MEASURED


def _known_measures() -> str:
    """The end of a message about an unknown measure, with the names of all measures."""
    may_have_cutoff, need_cutoff, have_no_cutoff = [], [], []
    for kind, row in MEASURES.items():
        if row.needs_cutoff:
            need_cutoff.append(f"{kind}@n")
        elif row.whole:  # measures of the whole ranking
            have_no_cutoff.append(kind)
        elif not row.of_pairs:  # accuracy, the measure of judged pairs, is named below
            may_have_cutoff.append(kind)
    return (
        f"known are {', '.join(may_have_cutoff)} (each also @n, as ndcg@10), "
        f"{', '.join(need_cutoff)}, {', '.join(have_no_cutoff)}, and of judged pairs accuracy"
    )


@dataclass(frozen=True)
class Metric:
    """A measure and its conventions.

    Attributes:
        kind: a key of `MEASURES`, such as map or ndcg.
        cutoff: the last rank that counts; None for all (p always has one).
        gain: for ndcg, 2^grade - 1 ("exp") or the grade ("linear").
        relevant_from: for the binary measures, the lowest grade that is relevant.
        discount: for ndcg, log2(1 + rank) ("log2") or max(1, log2 rank) ("letor").

    Raises:
        MetricError: on values that no measure has.
    """

    kind: str
    cutoff: int | None = None
    gain: Gain = "exp"
    relevant_from: int = 1
    discount: Discount = "log2"

    def __post_init__(self) -> None:
        if self.kind not in MEASURES:
            raise MetricError(f"unknown metric {self.kind!r}; {_known_measures()}")
        if self.cutoff is None and self.row.needs_cutoff:
            raise MetricError(f"metric {self.kind!r} needs a cutoff, as in {self.kind}@10")
        if self.cutoff is not None and (self.row.of_pairs or self.row.whole):
            raise MetricError(f"metric {self.name!r}: {self.kind} has no cutoff")
        if self.cutoff is not None and self.cutoff < 1:
            raise MetricError(f"metric {self.name!r}: the cutoff must be 1 or more")
        if self.gain not in get_args(Gain):
            raise MetricError(f"unknown gain {self.gain!r}; known are exp and linear")
        if self.discount not in get_args(Discount):
            raise MetricError(f"unknown discount {self.discount!r}; known are log2 and letor")
        if not 1 <= self.relevant_from < 2**31:
            raise MetricError(f"relevant-from must be from 1 to 2^31 - 1, got {self.relevant_from}")
        if self.row.gain is not None:
            object.__setattr__(self, "gain", self.row.gain)

    @property
    def row(self) -> Measure:
        """The row of `MEASURES` that all measures of this kind share."""
        return MEASURES[self.kind]

    @property
    def name(self) -> str:
        """The canonical name, such as `ndcg@10`."""
        return self.kind if self.cutoff is None else f"{self.kind}@{self.cutoff}"

    @property
    def lowest_relevant(self) -> int:
        """The lowest grade that counts for this measure."""
        if self.row.whole:
            return 0
        return 1 if self.row.graded else self.relevant_from


def parse_metric(name: str, *, gain: Gain = "exp", relevant_from: int = 1) -> Metric:
    """Parse the name of a measure, as written here, in trec_eval or in ir-measures, in any case.

    `map`, `ndcg@10`, `p@10`, `mrr`, `err@10`; also AP, P_10, RR, recip_rank, map_cut.10. The
    relevance threshold is `relevant_from`, and the gain of `ndcg` in lower case is `gain`. A name
    of ir-measures (`nDCG@10`, with capitals) or of trec_eval (`ndcg_cut_10`) has linear gain, as in
    these tools, whatever `gain` is.

    Raises:
        MetricError: with the text and the known measures.

    >>> parse_metric("AP").name, parse_metric("P.5").name, parse_metric("ndcg@10").gain
    ('map', 'p@5', 'exp')
    >>> parse_metric("ndcg_cut_10").name, parse_metric("ndcg_cut_10").gain
    ('nDCG@10', 'linear')
    """
    match = _NAME.fullmatch(name.strip())
    typed = match["kind"] if match else ""
    spelling = typed.lower()
    kind = typed if typed in MEASURES else _KIND_OF.get(spelling)
    if match is None or kind is None:
        raise MetricError(f"unknown metric {name!r}; {_known_measures()}")
    row = MEASURES[kind]
    cutoff = match["cutoff"]
    if cutoff is None and (row.needs_cutoff or f"{spelling}@n" in row.spellings):
        raise MetricError(f"metric {name!r} needs a cutoff, as in {kind}@10; {_known_measures()}")
    return Metric(kind, None if cutoff is None else int(cutoff), gain, relevant_from)


def per_query(metric: Metric, ranked_grades: ArrayLike, offsets: ArrayLike) -> F64:
    """(n_queries,) values of the measure; NaN for a query without a relevant document.

    For spearman, kendall, concordance and exact it is NaN for a query of a single grade.

    Args:
        ranked_grades: (n_docs,) whole grades from 0, query by query, the best-ranked first.
        offsets: (n_queries + 1,) where each query's documents begin.

    A query shorter than the cutoff is scored at its own length, but P@n divides by n (as trec_eval
    does). Exponential gains are taken relative to the query's best grade, so no grade overflows.

    Raises:
        MetricError: when the offsets do not fit the grades, or a grade is too high for the measure.

    >>> per_query(Metric("mrr"), [0, 1, 0, 0, 0], [0, 3, 5]).tolist()
    [0.5, nan]
    >>> per_query(Metric("ndcg", 10), [1, 2, 0], [0, 3]).round(4).tolist()
    [0.7967]

    Cost: O(n_docs), and for NDCG one sort of the relevant documents; memory in proportion to the
    relevant documents, beyond one boolean a document.
    """
    grades = np.asarray(ranked_grades)
    bounds = np.asarray(offsets, dtype=np.int64)
    if len(bounds) == 0 or bounds[0] != 0 or bounds[-1] != len(grades):
        raise MetricError(f"offsets do not span the {len(grades)} grades")
    _refuse_high(metric, grades)
    hits = _find_hits(grades, bounds, metric.lowest_relevant)
    values = np.full(len(bounds) - 1, np.nan)
    if len(hits.rank):
        has_hits = hits.counts > 0
        values[has_hits] = metric.row.values(metric, hits)[has_hits]
    return values


def average(values: F64, empty: Empty = "zero", *, of: str = "data") -> float:
    """Mean over queries, where NaN marks a query without a relevant document.

    Args:
        values: (n_queries,) from `per_query`.
        empty: value of such a query: 0 ("zero", as in trec_eval), 1 ("one"), none ("skip"), or an
            error ("error").
        of: beginning of error messages, such as the data's source and the measure.

    Raises:
        MetricError: if there is no query to average, or a query is empty under "error".

    >>> values = np.array([0.5, np.nan])
    >>> average(values), average(values, "skip"), average(values, "one")
    (0.25, 0.5, 0.75)
    """
    n_empty = count_empty(values)
    if empty not in get_args(Empty):
        raise MetricError(f"unknown rule {empty!r} for empty queries; known: zero|skip|one|error")
    if empty == "error" and n_empty:
        raise MetricError(f"{of}: {n_empty} of {len(values)} queries have no relevant document")
    if len(values) == 0 or (empty == "skip" and n_empty == len(values)):
        raise MetricError(
            f"{of}: nothing to average: {len(values)} queries, {n_empty} of them empty"
        )
    if empty == "skip":
        return float(np.nanmean(values))
    value_of_empty = 1.0 if empty == "one" else 0.0
    return float(np.where(np.isnan(values), value_of_empty, values).mean())


def count_empty(values: F64) -> int:
    """Number of queries without a relevant document, from the values of `per_query`.

    >>> count_empty(np.array([0.5, np.nan]))
    1
    """
    return int(np.isnan(values).sum())


def evaluate(
    queries: Queries,
    order: I64,
    metrics: Metric | str | Iterable[Metric | str],
    *,
    empty: Empty = "zero",
) -> dict[str, float]:
    """Mean of each measure over the queries, by the measure's canonical name.

    Args:
        order: (n_docs,) document numbers, query by query, best first, as `Sorting.order`.
        metrics: one or several measures, as `Metric` or by name.
        empty: value of queries without a relevant document, see `average`.

    Raises:
        MetricError: on an unknown measure, two measures of one name, or as `average`.

    >>> q = Queries.from_arrays([[0.0], [1.0], [2.0]], [0, 2, 1])
    >>> evaluate(q, np.array([0, 1, 2]), ["map", "P@2"])
    {'map': 0.5833333333333333, 'p@2': 0.5}
    """
    if len(order) != queries.n_docs:
        raise MetricError(f"a ranking of {len(order)} documents, not of {queries.n_docs}")
    return {
        metric.name: average(
            outcomes(metric, queries, order), empty, of=f"{queries.source}: {metric.name}"
        )
        for metric in as_metrics(metrics)
    }


def outcomes(metric: Metric, queries: Queries, order: I64) -> F64:
    """Values whose mean is the measure: (n_queries,) of `per_query`, or (m,) of judged pairs.

    The value of a judged pair that the ranking predicts is m times its share of the weight of all
    pairs; the value of another pair is 0. Pairs without a majority are left out.

    Raises:
        MetricError: if the measure is of grades and the data are judged pairs, or the reverse.

    >>> q = Queries.from_arrays([[0.0]] * 3).with_judgements([2, 0], [1, 1], weight=[3, 1])
    >>> outcomes(Metric("accuracy"), q, np.array([0, 1, 2])).tolist()
    [0.5, 0.0]
    """
    judged = queries.judged
    if metric.row.of_pairs != (judged is not None):
        data = "judged pairs, which only accuracy measures"
        if judged is None:
            data = "documents without judged pairs"
        raise MetricError(f"{queries.source}: {metric.name} is not defined for {data}")
    if judged is None:
        return gathered(queries, per_query(metric, queries.grades[order], queries.offsets))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    decided = judged.where(judged.sure > 0)
    is_predicted = place[decided.winner] < place[decided.loser]
    weight = gathered(queries, decided.sure)
    predicted_weight = gathered(queries, is_predicted * decided.sure)
    mean_weight = weight.mean() if len(weight) else 1.0
    values: F64 = predicted_weight / mean_weight
    return values


def as_metrics(metrics: Metric | str | Iterable[Metric | str]) -> list[Metric]:
    """List one or several measures, given as `Metric` or by name, without duplicates.

    Raises:
        MetricError: on an unknown name, or two different measures of one name.

    >>> [metric.name for metric in as_metrics("MAP")]
    ['map']
    """
    metrics = [metrics] if isinstance(metrics, Metric | str) else list(metrics)
    parsed = [parse_metric(metric) if isinstance(metric, str) else metric for metric in metrics]
    different = list(dict.fromkeys(parsed))
    names = [metric.name for metric in different]
    for name in names:
        if names.count(name) > 1:
            raise MetricError(
                f"two different measures are called {name!r}; ask for them separately"
            )
    return different


def conventions(
    metrics: Metric | str | Iterable[Metric | str],
    empty: Empty,
    n_empty: int | None = None,
    n_queries: int | None = None,
) -> str:
    """One line to print beside figures: conventions of the measures, and number of empty queries.

    Args:
        metrics: the measures.
        empty: the value of a query without a relevant document.
        n_empty: the number of such queries; None: it is left out of the line.
        n_queries: the number of all queries.

    >>> conventions("ndcg@10", "zero", 12, 157)
    'gain 2^r-1, discount log2(1+rank); queries without a relevant document counted zero: 12 of 157'
    """
    kinds = list(MEASURES)
    ordered = sorted(
        as_metrics(metrics), key=lambda m: (kinds.index(m.kind), m.gain, m.cutoff or 0)
    )
    clauses = []
    for m in ordered:
        clause = m.row.convention.format(
            gain=_GAIN_WORDS[m.gain], discount=_DISCOUNT_WORDS[m.discount], cutoff=m.cutoff
        )
        if clause and clause not in clauses:
            clauses.append(clause)
    binary = [m for m in ordered if not (m.row.graded or m.row.of_pairs)]
    levels = sorted({m.relevant_from for m in binary})
    clauses += [f"relevant from grade {level}" for level in levels]
    if not all(m.row.of_pairs for m in ordered):
        rule = _EMPTY_WORDS[empty]
        empty_queries = "of a single grade" if all(m.row.whole for m in ordered) else _WITHOUT
        n_of_all = "" if n_empty is None else f": {n_empty} of {n_queries}"
        clauses.append(f"queries {empty_queries} {rule}{n_of_all}")
    return "; ".join(clauses)


def is_gain(gains: F64, n_errors: float, *, ddof: int = 1) -> bool:
    """Whether the mean gain is above 0 by more than some standard errors of the mean.

    Gains that are NaN do not count. A single gain has no standard error: it has to be above 0.

    Args:
        gains: gains by query, or by vote.
        n_errors: number of standard errors.
        ddof: delta degrees of freedom of the standard deviation, as in NumPy.

    >>> is_gain(np.array([1.0, 2.0, 3.0]), 2.0), is_gain(np.array([-1.0, 1.0, 3.0]), 2.0)
    (True, False)
    """
    gains = gains[~np.isnan(gains)]
    error = gains.std(ddof=ddof) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return bool(gains.mean() > n_errors * error)


def can_choose(metric: Metric, queries: Queries) -> Bool:
    """(n_queries,) whether two rankings of a query's documents differ in the measure.

    They can differ for a query with documents of two different gains, and for P@n with more
    documents than n; for accuracy, with a judgement that prefers one of two documents.

    Raises:
        MetricError: on a grade that is too high for the measure.

    >>> q = Queries.from_arrays([[0.0]] * 4, [1, 2, 0, 1], qid=["a", "a", "b", "b"])
    >>> can_choose(Metric("map"), q).tolist(), can_choose(Metric("ndcg"), q).tolist()
    ([False, True], [True, True])

    Cost: linear in the documents.
    """
    if queries.judged is not None:
        query_of_pairs = queries.query_of_docs()[queries.judged.winner]
        is_decided: Bool = np.bincount(query_of_pairs, queries.judged.sure, len(queries)) > 0
        return is_decided & metric.row.of_pairs
    _refuse_high(metric, queries.grades)
    lowest, highest = _grade_ranges(queries)
    differ: Bool = lowest < highest
    if not metric.row.graded:
        differ = (lowest < metric.relevant_from) & (highest >= metric.relevant_from)
    return differ & (queries.sizes > _needed_docs(metric))


def check_can_choose(metric: Metric, queries: Queries) -> None:
    """Refuse a measure that scores every ranking of these queries alike.

    Raises:
        DataError: with measures that can tell rankings of these queries apart, if there are any.
        MetricError: as `can_choose`.
    """
    if summed(queries, np.count_nonzero(can_choose(metric, queries))):
        return
    if queries.judged is not None:
        raise DataError(
            f"{queries.source}: no judgement prefers one of two documents"
            if metric.row.of_pairs
            else f"{queries.source}: judged pairs are measured by accuracy, not by {metric.name}"
        )
    lacking = "documents of two different grades"
    if not metric.row.graded:
        n = _needed_docs(metric)
        lacking = f"documents both of grade {metric.relevant_from} or more and below"
        if n:
            lacking += f" and more than {n} documents"
    raise DataError(
        f"{queries.source}: {metric.name} scores every ranking alike, as no query has {lacking}; "
        + _remedies(metric, queries)
    )


def default_quality(grades: ArrayLike, relevant_from: int = 1) -> str:
    """RankQuality for data of these grades: map where they are relevant or not, else ndcg@10.

    >>> default_quality([0, 1, 1]), default_quality([0, 1, 2]), default_quality([1, 2])
    ('map', 'ndcg@10', 'ndcg@10')
    """
    different = np.unique(grades)
    is_binary = len(different) == 2 and different[0] < relevant_from <= different[1]
    return "map" if is_binary else "ndcg@10"


def _remedies(metric: Metric, queries: Queries) -> str:
    """The end of a message about a measure that cannot choose: what to give instead."""
    lowest, highest = _grade_ranges(queries)
    if not (lowest < highest).any():
        return "give queries whose documents differ in grade"
    options = ["--quality ndcg@10"]
    is_long = queries.sizes > _needed_docs(metric)
    if not metric.row.graded and (lowest < highest)[is_long].any():
        # The level that divides most queries: some grades are below it, some are not.
        levels = np.unique(highest[is_long])
        n_with_lower = np.searchsorted(np.sort(lowest[is_long]), levels)
        n_all_lower = np.searchsorted(np.sort(highest[is_long]), levels)
        level = levels[np.argmax(n_with_lower - n_all_lower)]
        options.insert(0, f"--relevant-from {level}")
    return f"try {' or '.join(options)}"


def _needed_docs(metric: Metric) -> int:
    """Number of documents that a query must exceed to be measured.

    P@n scores all rankings of n or fewer documents alike.
    """
    return (metric.cutoff or 0) if metric.row.needs_cutoff else 0


def _refuse_high(metric: Metric, grades: NDArray[Any]) -> None:
    """Refuse grades above the highest grade of the measure."""
    highest = metric.row.highest
    if highest is not None and len(grades) and grades.max() > highest:
        raise MetricError(
            f"{metric.name} is defined for grades up to {highest}, and there is a grade "
            f"{grades.max()}; take ndcg@10"
        )


def _grade_ranges(queries: Queries) -> tuple[I32, I32]:
    """(n_queries,) the lowest and the highest grade of each query; 0 without documents."""
    lowest = np.zeros(len(queries), np.int32)
    highest = np.zeros(len(queries), np.int32)
    has_docs = queries.sizes > 0
    if has_docs.any():
        starts = queries.offsets[:-1][has_docs]
        lowest[has_docs] = np.minimum.reduceat(queries.grades, starts)
        highest[has_docs] = np.maximum.reduceat(queries.grades, starts)
    return lowest, highest
