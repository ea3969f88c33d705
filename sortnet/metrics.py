"""Compute measures of rankings, for many queries at once: MAP, NDCG@n, P@n, correlations and more.

    AP     = mean over the relevant documents of the precision at their rank
    MAP    = mean of AP over the queries
    NDCG@n = DCG@n / DCG@n of the ideal ranking,   DCG@n = sum_{rank <= n} gain / log2(1 + rank)
    P@n    = relevant documents among the first n, divided by n
    RR     = 1 / rank of the first relevant document
    MRR    = mean of RR over the queries
    ERR@n  = sum_{rank <= n} R / rank * product of 1 - R over the documents above,
             R = (2^grade - 1) / 2^4

    spearman    = Pearson's correlation of a document's rank with its rank by grade
    kendall     = (C - D) / sqrt((C + D) n (n - 1) / 2), tau-b
    concordance = C / (C + D), the 0/1 ranking accuracy
    exact       = 1 if D = 0 else 0, the 0/1 accuracy

Among the pairs of documents of different grades, C pairs are ranked in the order of their grades,
and D pairs are not; n is the number of documents of the query. In the rank by grade, documents of
the same grade share their mean rank. The last four measures use every document of a query, and have
no value where all documents have the same grade.

The gain is 2^grade - 1. It is the grade itself with `gain="linear"`, and always for `nDCG`, the
measure of ir-measures and trec_eval. `discount="letor"` divides the gain by max(1, log2 rank)
instead, as LETOR's tools do. ERR (Chapelle et al. 2009) is computed as by gdeval: the highest grade
is 4, also if the data have no grade 4, and a higher grade is refused. MAP, P@n and MRR are binary:
a grade of `relevant_from` or more is relevant. A query without a relevant document (for NDCG and
ERR: without a grade above 0) has no value; only `average` decides how such a query counts.

Judged pairs of documents without grades have one measure, accuracy: the share of the judgements
that a ranking predicts. A judgement counts by its weight and by the agreement of the judges, so a
tie does not count.

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
_ERR_HIGHEST = 4  # the grade that gdeval's ERR regards as the best possible


@dataclass(frozen=True, eq=False)
class _Hits:
    """The relevant documents (hits) of ranked queries, from which a measure is computed."""

    query: I64  # (n_hits,) number of the query, ascending
    rank: I64  # (n_hits,) from 1, ascending within a query
    grade: NDArray[Any]  # (n_hits,)
    counts: I64  # (n_queries,) number of hits of each query
    starts: I64  # (n_queries,) number of each query's first hit

    def sum(self, weights: F64, counted: NDArray[np.bool_] | None = None) -> F64:
        """Add up the weights (n_hits,) of each query's hits, (n_queries,).

        Args:
            weights: (n_hits,) the weights.
            counted: (n_hits,) a mask of the hits to count; None: all hits count.
        """
        query = self.query
        if counted is not None:
            query = query[counted]
            weights = weights[counted]
        sums = np.bincount(query, weights, minlength=len(self.counts))
        return sums.astype(np.float64, copy=False)  # numpy's stubs declare integers

    def first(self, values: I64) -> I64:
        """Select from values (n_hits,) the value of each query's first hit, (n_queries,).

        A query without hits gets an arbitrary value.
        """
        return values[np.minimum(self.starts, len(values) - 1)]  # the last query may be empty


def _find_hits(grades: NDArray[Any], offsets: I64, lowest: int) -> _Hits:
    """Find the relevant documents, whose grade is `lowest` or higher.

    Args:
        grades: (n_docs,) query by query, in ranked order.
        offsets: (n_queries + 1,) where each query begins in `grades`.
        lowest: the lowest grade of a relevant document.
    """
    relevant = np.flatnonzero(grades >= lowest)
    bounds = np.searchsorted(relevant, offsets)  # where each query begins in `relevant`
    counts = np.diff(bounds)
    query = np.repeat(np.arange(len(counts)), counts)
    return _Hits(
        query,
        rank=relevant - offsets[query] + 1,
        grade=grades[relevant],
        counts=counts,
        starts=bounds[:-1],
    )


def _within(metric: Metric, rank: I64) -> NDArray[np.bool_]:
    """Make a mask of the ranks that are within the measure's cutoff."""
    if metric.cutoff is None:
        return np.ones(len(rank), np.bool_)
    return rank <= metric.cutoff


def _ideal_ranks(hits: _Hits) -> I64:
    """Ranks that hits have in an ideal ranking, (n_hits,): 1, 2, 3 and so on in each query."""
    return np.arange(1, len(hits.rank) + 1) - hits.starts[hits.query]


def _map(metric: Metric, hits: _Hits) -> F64:
    """Compute the average precision of each query, (n_queries,).

    The precision at a query's k-th hit is k divided by its rank.
    """
    precision_sums = hits.sum(_ideal_ranks(hits) / hits.rank, _within(metric, hits.rank))
    return precision_sums / np.maximum(hits.counts, 1)


def _p(metric: Metric, hits: _Hits) -> F64:
    """Compute P@n of each query, (n_queries,): the hits within the cutoff n, divided by n."""
    query = hits.query[_within(metric, hits.rank)]
    n_relevant = np.bincount(query, minlength=len(hits.counts))
    return n_relevant / float(metric.cutoff or 1)


def _mrr(metric: Metric, hits: _Hits) -> F64:
    """Compute 1 / rank of each query's first hit, (n_queries,); 0 for a hit below the cutoff."""
    first_rank = hits.first(hits.rank)
    return np.where(_within(metric, first_rank), 1.0 / first_rank, 0.0)


def _ndcg(metric: Metric, hits: _Hits) -> F64:
    """Divide the DCG of each query by the DCG of its ideal ranking, (n_queries,)."""
    ideal_grades = _grades_best_first(hits)
    best_grade_of_query = hits.first(ideal_grades)
    best_grade = best_grade_of_query[hits.query]
    dcg = _dcg(metric, hits, hits.grade, hits.rank, best_grade)
    ideal_dcg = _dcg(metric, hits, ideal_grades, _ideal_ranks(hits), best_grade)
    return dcg / np.where(hits.counts > 0, ideal_dcg, 1.0)


def _grades_best_first(hits: _Hits) -> I64:
    """Sort the grades of each query's hits, the highest first, (n_hits,)."""
    grades = hits.grade.astype(np.int64)
    highest = int(grades.max())
    # All queries are sorted at once: the keys grow from query to query, and within a query from the
    # highest grade down. They fit int64, because grades are int32.
    keys = hits.query * (highest + 1) + (highest - grades)
    keys.sort()
    return highest - (keys - hits.query * (highest + 1))


def _dcg(metric: Metric, hits: _Hits, grade: I64, rank: I64, best_grade: I64) -> F64:
    """Compute the DCG of a ranking of each query's hits, (n_queries,).

    An exponential gain is divided by 2^best_grade. Only ratios of two DCG of a query are used, and
    this factor is the same in both.

    Args:
        metric: the measure, which has the gain, the discount and the cutoff.
        hits: the hits; only their queries are used.
        grade: (n_hits,) grades of the hits in the order of the ranking.
        rank: (n_hits,) ranks of the hits.
        best_grade: (n_hits,) the best grade of each hit's query.
    """
    if metric.gain == "linear":
        gains = grade.astype(np.float64)
    else:  # (2^grade - 1) / 2^best_grade, which is exact and cannot overflow
        gains = np.ldexp(1.0, grade - best_grade) - np.ldexp(1.0, -best_grade)
    if metric.discount == "letor":
        discounts = np.maximum(np.log2(rank), 1.0)
    else:
        discounts = np.log2(1.0 + rank)
    return hits.sum(gains / discounts, _within(metric, rank))


def _err(metric: Metric, hits: _Hits) -> F64:
    """Compute the expected reciprocal rank of each query, (n_queries,).

    A reader goes down the ranking and stops at a document of grade g with probability
    (2^g - 1) / 2^4. The measure is the expected value of 1 / rank at which the reader stops.
    """
    p_stop_of_grade = (np.exp2(np.arange(_ERR_HIGHEST + 1)) - 1.0) / 2**_ERR_HIGHEST
    p_reach = np.ones(len(hits.rank))  # (n_hits,) probability that the reader reaches the document
    for grade in range(1, _ERR_HIGHEST + 1):
        has_grade = hits.grade == grade
        # Counts may be added up over all queries at once, because whole numbers lose no digit.
        n_above_in_all = np.cumsum(has_grade) - has_grade
        n_above = n_above_in_all - hits.first(n_above_in_all)[hits.query]
        p_reach *= (1.0 - p_stop_of_grade[grade]) ** n_above
    p_stop_here = p_stop_of_grade[hits.grade.astype(np.int64)] * p_reach
    return hits.sum(p_stop_here / hits.rank, _within(metric, hits.rank))


def _spearman(metric: Metric, hits: _Hits) -> F64:
    """Compute Spearman's rank correlation of each query, (n_queries,).

        Σ (r - m) (s - m) / sqrt(Σ (r - m)² Σ (s - m)²)

    It is Pearson's correlation of a document's rank r with its rank by grade s, in which documents
    of the same grade share their mean rank. The ranks of n documents have the mean m = (n + 1) / 2,
    and Σ (r - m)² = (n³ - n) / 12. Every document is a hit.
    """
    order, n_lower, n_equal = _sorted_by_value(hits, -hits.grade.astype(np.int64))
    rank_by_grade = np.empty(len(order), np.float64)
    rank_by_grade[order] = n_lower + (n_equal + 1) / 2
    n = hits.counts.astype(np.float64)
    mean_rank = ((n + 1) / 2)[hits.query]
    products = hits.sum((hits.rank - mean_rank) * (rank_by_grade - mean_rank))
    squares_of_grade_ranks = hits.sum(np.square(rank_by_grade - mean_rank))
    product_of_squares = squares_of_grade_ranks * (n**3 - n) / 12
    with np.errstate(invalid="ignore"):  # 0 / 0 where all documents have the same grade
        correlation: F64 = products / np.sqrt(product_of_squares)
    return correlation


def _kendall(metric: Metric, hits: _Hits) -> F64:
    """Compute Kendall's tau-b of each query, (n_queries,).

    It is (C - D) / sqrt((C + D) n (n - 1) / 2) for n documents. Among the pairs of documents of
    different grades, C pairs are ranked in the order of their grades, and D pairs are not.
    """
    n_wrong, n_pairs = _count_discordant(hits)  # D, and C + D
    n = hits.counts.astype(np.float64)
    with np.errstate(invalid="ignore"):  # 0 / 0 where all documents have the same grade
        correlation: F64 = (n_pairs - 2 * n_wrong) / np.sqrt(n_pairs * n * (n - 1) / 2)
    return correlation


def _concordance(metric: Metric, hits: _Hits) -> F64:
    """Compute for each query the share of the pairs of different grades in the right order."""
    n_wrong, n_pairs = _count_discordant(hits)
    return np.where(n_pairs > 0, 1.0 - n_wrong / np.maximum(n_pairs, 1), np.nan)


def _exact(metric: Metric, hits: _Hits) -> F64:
    """Give each query 1 if all its pairs of different grades are in the right order, else 0."""
    return np.floor(_concordance(metric, hits))


def _count_discordant(hits: _Hits) -> tuple[F64, F64]:
    """Count each query's pairs of documents of different grades, and the wrongly ranked pairs.

    Wrongly ranked pairs are counted as in a merge sort from the bottom up: each level of the sort
    merges the left and the right half of each block, and every pair of documents is in the two
    halves of a block at exactly one level.

    Returns:
        The number of pairs in the wrong order, (n_queries,), and the number of all pairs of
        different grades, (n_queries,).
    """
    n_wrong = np.zeros(len(hits.counts))
    longest = int(hits.counts.max())
    n_levels = (longest - 1).bit_length()
    for level in range(n_levels):
        n_wrong += _count_discordant_of_level(hits, level)
    _, _, n_equal = _sorted_by_value(hits, hits.grade)
    n_equal_others = (n_equal - 1).astype(np.float64)
    n_tied = hits.sum(n_equal_others) / 2  # the sum counts a pair at both documents
    n = hits.counts.astype(np.float64)
    return n_wrong, n * (n - 1) / 2 - n_tied


def _count_discordant_of_level(hits: _Hits, level: int) -> F64:
    """Count each query's wrong pairs of documents in different halves of a block, (n_queries,).

    A block has 2^(level + 1) consecutive ranks of a query. A pair is wrong if the document in the
    left half, which is ranked higher, has the lower grade. So each document in the right half is
    in as many wrong pairs as the left half has documents of lower grades. If the documents of the
    block are sorted by grade, these are the documents of the left half before it.
    """
    rank_from_0 = hits.rank - 1
    # Blocks of two queries have different numbers, since a query has no more blocks than hits.
    block = hits.starts[hits.query] + (rank_from_0 >> (level + 1))
    is_left = (rank_from_0 >> level) & 1 == 0
    # The hits are sorted by block, then by grade. Within a grade the right half comes first, so
    # that pairs of equal grades do not count.
    order = np.lexsort((is_left, hits.grade, block))
    n_left_before = np.cumsum(is_left[order]) - is_left[order]
    is_block_start = np.diff(block[order], prepend=-1) != 0
    # The counts grow, so the running maximum repeats the count at the start of each block.
    n_left_before_block = np.maximum.accumulate(np.where(is_block_start, n_left_before, 0))
    n_wrong = np.zeros(len(order))
    n_wrong[order] = n_left_before - n_left_before_block
    return hits.sum(n_wrong, ~is_left)


def _sorted_by_value(hits: _Hits, value: NDArray[Any]) -> tuple[I64, I64, I64]:
    """Sort hits by query, then by value, and count the hits with a lower and with the same value.

    Returns:
        Three arrays (n_hits,): the numbers of the hits in sorted order; and for each sorted hit the
        number of hits of its query with a lower value, and the number with the same value.
    """
    order = np.lexsort((value, hits.query))
    query = hits.query[order]
    sorted_value = value[order]
    # A run is the hits of a query with the same value.
    is_first_of_query = np.diff(query, prepend=-1) != 0
    is_first_of_run = is_first_of_query | (np.diff(sorted_value, prepend=0) != 0)
    run_starts = np.flatnonzero(is_first_of_run)
    run_sizes = np.diff(np.append(run_starts, len(order)))
    n_lower = np.repeat(run_starts, run_sizes) - hits.starts[query]
    n_equal = np.repeat(run_sizes, run_sizes)
    return order, n_lower, n_equal


@dataclass(frozen=True)
class Measure:
    """Description of a measure, a row of `MEASURES`.

    Attributes:
        values: function (metric, relevant documents) -> values (n_queries,). The values are used
            only for queries with a relevant document.
        spellings: names of the measure in other tools, in upper or lower case. A spelling that ends
            in "@n" is valid only with a cutoff. A key of `MEASURES` in its exact case has priority
            over all spellings; if two rows have the same spelling, the later row counts.
        convention: text to print beside figures, with the fields {gain}, {discount} and {cutoff}.
        default: name of the measure, with its cutoff, if it is computed when the user chooses no
            measures; else None.
        graded: whether the measure depends on the grades, and not only on whether a document is
            relevant.
        needs_cutoff: whether the measure counts the first n documents and therefore needs n.
        gain: the gain that the measure always has; None: the user chooses.
        highest: the highest grade that the measure is defined for; None: any grade.
        of_pairs: whether the measure is for judged pairs, see `outcomes`, instead of grades.
        whole: whether the measure includes every document, also documents of grade 0.
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
# Names of the measures that are computed when the user chooses none.
MEASURED = tuple(row.default for row in MEASURES.values() if row.default)
_KIND_OF = {
    spelling.removesuffix("@n"): kind
    for kind, row in MEASURES.items()
    for spelling in (kind.lower(), *row.spellings)
}


def measured(quality: Metric) -> tuple[str, ...]:
    """Names of the measures that are computed beside RankQuality when the user chooses none."""
    return () if quality.row.of_pairs else MEASURED


def _known_measures() -> str:
    """List the names of all measures for the end of a message about an unknown measure."""
    may_have_cutoff = []
    need_cutoff = []
    have_no_cutoff = []
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
        cutoff: the last rank that counts; None: all ranks count (p needs a cutoff).
        gain: gain of ndcg: 2^grade - 1 ("exp") or the grade ("linear").
        relevant_from: lowest relevant grade for the binary measures, map, p and mrr.
        discount: discount of ndcg: log2(1 + rank) ("log2") or max(1, log2 rank) ("letor").

    Raises:
        MetricError: if the measure is unknown, or cannot have one of these values.
    """

    kind: str
    cutoff: int | None = None
    gain: Gain = "exp"
    relevant_from: int = 1
    discount: Discount = "log2"

    def __post_init__(self) -> None:
        """Refuse values that the measure cannot have; set the gain of a measure with fixed gain."""
        if self.kind not in MEASURES:
            raise MetricError(f"unknown metric {str(self.kind)!r}; {_known_measures()}")
        if self.cutoff is None and self.row.needs_cutoff:
            raise MetricError(f"metric {str(self.kind)!r} needs a cutoff, as in {self.kind}@10")
        if self.cutoff is not None and (self.row.of_pairs or self.row.whole):
            raise MetricError(f"metric {self.name!r}: {self.kind} has no cutoff")
        if self.cutoff is not None and self.cutoff < 1:
            raise MetricError(f"metric {self.name!r}: the cutoff must be 1 or more")
        for name, known in (("gain", get_args(Gain)), ("discount", get_args(Discount))):
            value = getattr(self, name)
            if value not in known:
                raise MetricError(f"unknown {name} {str(value)!r}; known are {' and '.join(known)}")
        if not 1 <= self.relevant_from < 2**31:
            raise MetricError(f"relevant-from must be from 1 to 2^31 - 1, got {self.relevant_from}")
        if self.row.gain is not None:
            object.__setattr__(self, "gain", self.row.gain)

    @property
    def row(self) -> Measure:
        """The description of this kind of measure, a row of `MEASURES`."""
        return MEASURES[self.kind]

    @property
    def name(self) -> str:
        """The canonical name, such as `ndcg@10`."""
        return self.kind if self.cutoff is None else f"{self.kind}@{self.cutoff}"

    @property
    def lowest_relevant(self) -> int:
        """The lowest grade of the documents that this measure counts as hits."""
        if self.row.whole:
            return 0
        return 1 if self.row.graded else self.relevant_from


def parse_metric(name: str, *, gain: Gain = "exp", relevant_from: int = 1) -> Metric:
    """Parse the name of a measure, in the spelling of SortNet, trec_eval or ir-measures.

    Examples are `map`, `ndcg@10`, `p@10`, `mrr`, `err@10`; also AP, P_10, RR, recip_rank and
    map_cut.10. Upper and lower case differ only for `nDCG`: the names of ir-measures (`nDCG@10`,
    with capitals) and of trec_eval (`ndcg_cut_10`) have linear gain, as in these tools.

    Args:
        name: the name.
        gain: the gain of `ndcg` in lower case.
        relevant_from: the lowest grade that is relevant.

    Raises:
        MetricError: if the name is unknown, or has no cutoff and needs one. Names such as
            `map_cut` need a cutoff, although `map` needs none.

    >>> parse_metric("AP").name, parse_metric("P.5").name, parse_metric("ndcg@10").gain
    ('map', 'p@5', 'exp')
    >>> parse_metric("ndcg_cut_10").name, parse_metric("ndcg_cut_10").gain
    ('nDCG@10', 'linear')
    """
    match = _NAME.fullmatch(name.strip())
    name_without_cutoff = match["kind"] if match else ""
    lower_name = name_without_cutoff.lower()
    kind = _KIND_OF.get(lower_name)
    if name_without_cutoff in MEASURES:  # only the case tells `nDCG` from `ndcg`
        kind = name_without_cutoff
    if match is None or kind is None:
        raise MetricError(f"unknown metric {name!r}; {_known_measures()}")
    row = MEASURES[kind]
    cutoff = match["cutoff"]
    spelling_needs_cutoff = f"{lower_name}@n" in row.spellings
    if cutoff is None and (row.needs_cutoff or spelling_needs_cutoff):
        raise MetricError(f"metric {name!r} needs a cutoff, as in {kind}@10; {_known_measures()}")
    return Metric(kind, None if cutoff is None else int(cutoff), gain, relevant_from)


def per_query(metric: Metric, ranked_grades: ArrayLike, offsets: ArrayLike) -> F64:
    """Compute the measure of each query, (n_queries,); NaN for a query without a relevant document.

    The measures spearman, kendall, concordance and exact are NaN for a query of a single grade. A
    query with fewer documents than the cutoff n is scored with the documents that it has, but P@n
    divides by n, as trec_eval does. Exponential gains are divided by a power of 2 so that they
    cannot overflow.

    Args:
        metric: the measure.
        ranked_grades: (n_docs,) whole grades from 0, query by query, the best-ranked first.
        offsets: (n_queries + 1,) where each query's documents begin.

    Raises:
        MetricError: if the offsets do not fit the grades, or a grade is too high for the measure.

    >>> per_query(Metric("mrr"), [0, 1, 0, 0, 0], [0, 3, 5]).tolist()
    [0.5, nan]
    >>> per_query(Metric("ndcg", 10), [1, 2, 0], [0, 3]).round(4).tolist()
    [0.7967]

    Cost: O(n_docs), and for NDCG one sort of the relevant documents. The memory is a boolean for
    each document and a few numbers for each relevant document.
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


def average(
    values: F64, empty: Empty = "zero", *, of: str = "data", weights: F64 | None = None
) -> float:
    """Average values over queries, where NaN marks a query without a relevant document.

    Args:
        values: (n_queries,) from `per_query`.
        empty: how a query without a relevant document counts: as 0 ("zero", as in trec_eval), as 1
            ("one"), not at all ("skip"), or as an error ("error").
        of: beginning of error messages, such as the data's source and the measure.
        weights: (n_queries,) weights of the queries; None: all are 1.

    Raises:
        MetricError: if there is no query to average, or a query is empty under "error".

    >>> values = np.array([0.5, np.nan])
    >>> average(values), average(values, "skip"), average(values, "one")
    (0.25, 0.5, 0.75)
    """
    n_empty = count_empty(values)
    if empty not in get_args(Empty):
        raise MetricError(
            f"unknown rule {str(empty)!r} for empty queries; known: zero|skip|one|error"
        )
    if empty == "error" and n_empty:
        raise MetricError(f"{of}: {n_empty} of {len(values)} queries have no relevant document")
    if len(values) == 0 or (empty == "skip" and n_empty == len(values)):
        raise MetricError(
            f"{of}: nothing to average: {len(values)} queries, {n_empty} of them empty"
        )
    is_empty = np.isnan(values)
    if empty == "skip":
        values = values[~is_empty]
        weights = None if weights is None else weights[~is_empty]
    else:
        values = np.where(is_empty, 1.0 if empty == "one" else 0.0, values)
    if weights is not None and not weights.any():
        raise MetricError(f"{of}: nothing to average: all weights are zero")
    return float(np.average(values, weights=weights))


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
    weights: F64 | None = None,
) -> dict[str, float]:
    """Evaluate a ranking: {canonical name of each measure: mean over the queries}.

    Args:
        queries: queries with grades or judged pairs.
        order: (n_docs,) document numbers, query by query, best first, as `Sorting.order`.
        metrics: one or several measures, as `Metric` or by name.
        empty: how queries without a relevant document count, see `average`.
        weights: (n_queries,) weights of the queries; None: all are 1.

    Raises:
        MetricError: if a measure is unknown, if two measures have the same name, or if `average`
            raises it.

    >>> q = Queries.from_arrays([[0.0], [1.0], [2.0]], [0, 2, 1])
    >>> evaluate(q, np.array([0, 1, 2]), ["map", "P@2"])
    {'map': 0.5833333333333333, 'p@2': 0.5}
    """
    if len(order) != queries.n_docs:
        raise MetricError(f"a ranking of {len(order)} documents, not of {queries.n_docs}")
    return {
        metric.name: average(
            outcomes(metric, queries, order),
            empty,
            of=f"{queries.source}: {metric.name}",
            weights=weights,
        )
        for metric in as_metrics(metrics)
    }


def outcomes(metric: Metric, queries: Queries, order: I64) -> F64:
    """Compute the values whose mean is the measure: one for each query, or for each judged pair.

    For grades the values are the (n_queries,) of `per_query`. For m judged pairs of the weights w,
    the value of a pair that the ranking predicts is w / (mean of all w), and the value of any other
    pair is 0. Pairs without a majority are left out.

    Args:
        metric: the measure.
        queries: queries with grades or judged pairs.
        order: (n_docs,) document numbers, query by query, the best first.

    Raises:
        MetricError: if the measure is for grades and the data are judged pairs, or the reverse.

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
        return per_query(metric, queries.grades[order], queries.offsets)
    place_of_doc = np.empty(len(order), np.int64)
    place_of_doc[order] = np.arange(len(order))
    decided = judged.where(judged.sure > 0)  # the pairs with a majority
    is_predicted = place_of_doc[decided.winner] < place_of_doc[decided.loser]
    weight = decided.sure
    mean_weight = weight.mean() if len(weight) else 1.0
    values: F64 = is_predicted * weight / mean_weight
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
    """Describe in a line the conventions of the measures and the number of empty queries.

    Args:
        metrics: the measures.
        empty: how a query without a relevant document counts.
        n_empty: the number of queries without a relevant document; None: the line does not tell.
        n_queries: the number of all queries; needed with `n_empty`.

    >>> conventions("ndcg@10", "zero", 12, 157)
    'gain 2^r-1, discount log2(1+rank); queries without a relevant document counted zero: 12 of 157'
    """
    kinds = list(MEASURES)
    ordered = sorted(
        as_metrics(metrics), key=lambda m: (kinds.index(m.kind), m.gain, m.cutoff or 0)
    )
    clauses = []
    for metric in ordered:
        clause = metric.row.convention.format(
            gain=_GAIN_WORDS[metric.gain],
            discount=_DISCOUNT_WORDS[metric.discount],
            cutoff=metric.cutoff,
        )
        if clause and clause not in clauses:
            clauses.append(clause)
    binary = [metric for metric in ordered if not (metric.row.graded or metric.row.of_pairs)]
    thresholds = sorted({metric.relevant_from for metric in binary})
    clauses += [f"relevant from grade {threshold}" for threshold in thresholds]
    if not all(metric.row.of_pairs for metric in ordered):
        clauses.append(_empty_clause(ordered, empty, n_empty, n_queries))
    return "; ".join(clauses)


def _empty_clause(
    metrics: Iterable[Metric], empty: Empty, n_empty: int | None, n_queries: int | None
) -> str:
    """Describe what happens to queries on which the measures are undefined, and their number."""
    empty_queries = "without a relevant document"
    if all(metric.row.whole for metric in metrics):
        empty_queries = "of a single grade"
    clause = f"queries {empty_queries} {_EMPTY_WORDS[empty]}"
    if n_empty is None:
        return clause
    return f"{clause}: {n_empty} of {n_queries}"


def can_choose(metric: Metric, queries: Queries) -> Bool:
    """Check for each query, (n_queries,), whether the measure differs between its rankings.

    A measure of grades differs if two documents have different gains; P@n also needs more than n
    documents. Accuracy differs if a judgement prefers one of two documents.

    Raises:
        MetricError: if a grade is too high for the measure.

    >>> q = Queries.from_arrays([[0.0]] * 4, [1, 2, 0, 1], qid=["a", "a", "b", "b"])
    >>> can_choose(Metric("map"), q).tolist(), can_choose(Metric("ndcg"), q).tolist()
    ([False, True], [True, True])

    Cost: linear in the documents.
    """
    if queries.judged is not None:
        query_of_pairs = queries.query_of_docs()[queries.judged.winner]
        decided_weight = np.bincount(query_of_pairs, queries.judged.sure, len(queries))
        is_decided: Bool = decided_weight > 0
        return is_decided & metric.row.of_pairs
    _refuse_high(metric, queries.grades)
    lowest, highest = _grade_ranges(queries)
    differ: Bool = lowest < highest
    if not metric.row.graded:
        differ = (lowest < metric.relevant_from) & (highest >= metric.relevant_from)
    return differ & (queries.sizes > _needed_docs(metric))


def check_can_choose(metric: Metric, queries: Queries) -> None:
    """Refuse a measure that gives every ranking of these queries the same score.

    Raises:
        DataError: if every ranking has the same score; the message suggests measures that differ.
        MetricError: if a grade is too high for the measure.
    """
    if can_choose(metric, queries).any():
        return
    if queries.judged is not None:
        if metric.row.of_pairs:
            raise DataError(f"{queries.source}: no judgement prefers one of two documents")
        raise DataError(
            f"{queries.source}: judged pairs are measured by accuracy, not by {metric.name}"
        )
    lacking = "documents of two different grades"
    lowest, highest = _grade_ranges(queries)
    advice = "give queries whose documents differ in grade"
    if not metric.row.graded:
        n_docs = _needed_docs(metric)
        lacking = f"documents both of grade {metric.relevant_from} or more and below"
        if n_docs:
            lacking += f" and more than {n_docs} documents"
        if (lowest < highest).any():
            advice = "try another relevant_from, or quality=ndcg@10"
    raise DataError(
        f"{queries.source}: {metric.name} scores every ranking alike, as no query has {lacking}; "
        f"{advice}"
    )


def default_quality(grades: ArrayLike, relevant_from: int = 1) -> str:
    """Choose RankQuality for these grades: map if they only mean relevant or not, else ndcg@10.

    >>> default_quality([0, 1, 1]), default_quality([0, 1, 2]), default_quality([1, 2])
    ('map', 'ndcg@10', 'ndcg@10')
    """
    different = np.unique(grades)
    is_binary = len(different) == 2 and different[0] < relevant_from <= different[1]
    return "map" if is_binary else "ndcg@10"


def _needed_docs(metric: Metric) -> int:
    """Largest number of documents with which all rankings have the same value of the measure.

    It is n for P@n, and 0 for all other measures. Rankings of more documents may differ.
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
    """Find the lowest and the highest grade of each query, (n_queries,); 0 for an empty query."""
    lowest = np.zeros(len(queries), np.int32)
    highest = np.zeros(len(queries), np.int32)
    has_docs = queries.sizes > 0
    if has_docs.any():
        starts = queries.offsets[:-1][has_docs]
        lowest[has_docs] = np.minimum.reduceat(queries.grades, starts)
        highest[has_docs] = np.maximum.reduceat(queries.grades, starts)
    return lowest, highest
