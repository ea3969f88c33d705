"""RankQuality of the rankings of many queries at once: MAP, NDCG@n, P@n, correlations and others.

    AP     = mean over the relevant documents of the precision at their rank;   MAP its mean
    NDCG@n = DCG@n / DCG@n of the ideal ranking,   DCG@n = sum_{rank <= n} gain / log2(1 + rank)
    P@n    = relevant documents among the first n, divided by n
    RR     = 1 / rank of the first relevant document;   MRR its mean
    ERR@n  = sum_{rank <= n} R / rank * product of the 1 - R above,   R = (2^grade - 1) / 2^4

    spearman    = Pearson's correlation of the ranks with those by grade, ties at their mean rank
    kendall     = (C - D) / sqrt(T n (n - 1) / 2), tau-b,   T = C + D pairs of two grades
    concordance = C / T, the 0/1 ranking accuracy;   exact = 1 if D = 0 else 0, the 0/1 accuracy

C pairs are in the order of their grades and D are not. These four take every document of a query,
and have no value where all have one grade.

Gain is 2^grade - 1 (or the grade itself: `gain="linear"`, and always of `nDCG`, the measure of
ir-measures and trec_eval). `discount="letor"` divides it by max(1, log2 rank) instead, as LETOR's
tools do. ERR (Chapelle et al. 2009) is gdeval's: its highest grade is 4 whatever the data have, and
a higher one is refused. MAP, P@n and MRR are binary: relevant is a grade of `relevant_from` or
more. A query without a relevant document (NDCG, ERR: without a grade above 0)
has no value; `average` is the one place that says what it counts for.

Documents that nobody graded, but of which people compared pairs, have one measure, accuracy: the
share of these judgements that a ranking predicts; each counts by its weight and by how far the
judges agreed, so a tie does not count.

A measure is a row of `MEASURES`: all else here, and every command, reads it there.
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
_ERR_HIGHEST = 4  # the grade that gdeval's ERR takes for the best there can be


@dataclass(frozen=True, eq=False)
class _Hits:
    """The relevant documents alone: every measure needs no more than these."""

    query: I64  # (n_hits,) ascending
    rank: I64  # (n_hits,) from 1, ascending within a query
    grade: NDArray[Any]  # (n_hits,)
    counts: I64  # (n_queries,)
    starts: I64  # (n_queries,) each query's first hit

    def sum(self, weights: F64, counted: NDArray[np.bool_]) -> F64:
        """(n_queries,) the sums of the counted hits' weights."""
        sums = np.bincount(self.query[counted], weights[counted], minlength=len(self.counts))
        return sums.astype(np.float64, copy=False)  # numpy's stubs take it for a count

    def first(self, values: I64) -> I64:
        """(n_queries,) of (n_hits,) values each query's first; of an empty query any, unused."""
        return values[np.minimum(self.starts, len(values) - 1)]  # it may start behind the last


def _hits(grades: NDArray[Any], offsets: I64, lowest: int) -> _Hits:
    at = np.flatnonzero(grades >= lowest)
    bounds = np.searchsorted(at, offsets)
    counts, starts = np.diff(bounds), bounds[:-1]
    query = np.repeat(np.arange(len(counts)), counts)
    return _Hits(query, at - offsets[query] + 1, grades[at], counts, starts)


def _within(metric: Metric, rank: I64) -> NDArray[np.bool_]:
    return np.ones(len(rank), np.bool_) if metric.cutoff is None else rank <= metric.cutoff


def _nth(hits: _Hits) -> I64:
    """(n_hits,) 1 for a query's first hit, 2 for the next: its rank in the ideal ranking."""
    return np.arange(1, len(hits.rank) + 1) - hits.starts[hits.query]


def _map(metric: Metric, hits: _Hits) -> F64:
    summed = hits.sum(_nth(hits) / hits.rank, _within(metric, hits.rank))
    return summed / np.maximum(hits.counts, 1)


def _p(metric: Metric, hits: _Hits) -> F64:
    within = hits.query[_within(metric, hits.rank)]
    return np.bincount(within, minlength=len(hits.counts)) / float(metric.cutoff or 1)


def _mrr(metric: Metric, hits: _Hits) -> F64:
    first = hits.first(hits.rank)
    return np.where(_within(metric, first), 1.0 / first, 0.0)


def _ndcg(metric: Metric, hits: _Hits) -> F64:
    ideal = _best_first(hits)
    best = hits.first(ideal)[hits.query]
    got = _dcg(metric, hits, hits.grade, hits.rank, best)
    most = _dcg(metric, hits, ideal, _nth(hits), best)
    return got / np.where(hits.counts > 0, most, 1.0)


def _best_first(hits: _Hits) -> I64:
    """(n_hits,) each query's grades from the highest down."""
    grades = hits.grade.astype(np.int64)
    top = int(grades.max())
    keys = hits.query * (top + 1) + (top - grades)  # one flat sort, below 2^62 for int32 grades
    keys.sort()
    return top - (keys - hits.query * (top + 1))


def _dcg(metric: Metric, hits: _Hits, grade: I64, rank: I64, best: I64) -> F64:
    if metric.gain == "linear":
        gains = grade.astype(np.float64)
    else:  # (2^grade - 1) / 2^best: a power of two less, so exact, and it cannot overflow
        gains = np.ldexp(1.0, grade - best) - np.ldexp(1.0, -best)
    letor = metric.discount == "letor"
    discounts = np.maximum(np.log2(rank), 1.0) if letor else np.log2(1.0 + rank)
    return hits.sum(gains / discounts, _within(metric, rank))


def _err(metric: Metric, hits: _Hits) -> F64:
    stops = (np.exp2(np.arange(_ERR_HIGHEST + 1)) - 1.0) / 2**_ERR_HIGHEST  # of each grade
    reached = np.ones(len(hits.rank))
    for grade in range(1, _ERR_HIGHEST + 1):
        alike = hits.grade == grade
        above = np.cumsum(alike) - alike  # whole numbers, which lose no digit over many queries
        reached *= (1.0 - stops[grade]) ** (above - hits.first(above)[hits.query])
    return hits.sum(
        stops[hits.grade.astype(np.int64)] * reached / hits.rank, _within(metric, hits.rank)
    )


def _spearman(metric: Metric, hits: _Hits) -> F64:
    order, first, size = _tied(hits, -hits.grade.astype(np.int64))
    tied_rank = np.empty(len(order), np.float64)
    tied_rank[order] = first + (size + 1) / 2
    n = hits.counts.astype(np.float64)
    middle = ((n + 1) / 2)[hits.query]
    every = np.ones(len(order), np.bool_)
    together = hits.sum((hits.rank - middle) * (tied_rank - middle), every)
    of_grades = hits.sum(np.square(tied_rank - middle), every)
    with np.errstate(invalid="ignore"):  # 0 / 0 where all have one grade
        found: F64 = together / np.sqrt(of_grades * (n**3 - n) / 12)
    return found


def _kendall(metric: Metric, hits: _Hits) -> F64:
    wrong, pairs = _discordant(hits)
    n = hits.counts.astype(np.float64)
    with np.errstate(invalid="ignore"):
        found: F64 = (pairs - 2 * wrong) / np.sqrt(pairs * n * (n - 1) / 2)
    return found


def _concordance(metric: Metric, hits: _Hits) -> F64:
    wrong, pairs = _discordant(hits)
    return np.where(pairs > 0, 1.0 - wrong / np.maximum(pairs, 1), np.nan)


def _exact(metric: Metric, hits: _Hits) -> F64:
    return np.floor(_concordance(metric, hits))


def _discordant(hits: _Hits) -> tuple[F64, F64]:
    """(n_queries,) the pairs of two grades in the wrong order, and all pairs of two grades.

    Counted as merge sort would: at each level, those across the halves of a block of ranks.
    """
    n = hits.counts.astype(np.float64)
    alike = (_tied(hits, hits.grade)[2] - 1).astype(np.float64)
    tied = hits.sum(alike, np.ones(len(alike), np.bool_)) / 2
    wrong = np.zeros(len(n))
    for level in range(int(hits.counts.max() - 1).bit_length()):
        wrong += _across(hits, level)
    return wrong, n * (n - 1) / 2 - tied


def _across(hits: _Hits, level: int) -> F64:
    """(n_queries,) pairs of a lower grade in the left half of a block and a higher in the right."""
    place = hits.rank - 1
    block = hits.starts[hits.query] + (place >> (level + 1))
    left = (place >> level) & 1 == 0
    order = np.lexsort((left, hits.grade, block))  # of one grade, the right half comes first
    lower = np.cumsum(left[order]) - left[order]
    starts = np.diff(block[order], prepend=-1) != 0
    before = np.maximum.accumulate(np.where(starts, lower, 0))
    counted = np.zeros(len(order))
    counted[order] = lower - before
    return hits.sum(counted, ~left)


def _tied(hits: _Hits, value: NDArray[Any]) -> tuple[I64, I64, I64]:
    """Documents by query and value: their order, and for each how many of its query have a lower
    value, and how many the same.
    """
    order = np.lexsort((value, hits.query))
    query, sorted_value = hits.query[order], value[order]
    new = (np.diff(query, prepend=-1) != 0) | (np.diff(sorted_value, prepend=0) != 0)
    starts = np.flatnonzero(new)
    sizes = np.diff(np.append(starts, len(order)))
    first = np.repeat(starts, sizes) - hits.starts[query]
    return order, first, np.repeat(sizes, sizes)


@dataclass(frozen=True)
class Measure:
    """A row of `MEASURES`.

    Attributes:
        values: (metric, relevant documents) -> (n_queries,), where a query has a relevant one.
        spellings: names in other tools, in any case; "@n": only with a cutoff. So is the row's own
            key, which is taken as it is written before any of these; of two alike, the last.
        convention: what is said of it beside figures, of its {gain}, {discount} and {cutoff}.
        default: the name by which it is measured where nobody chose measures.
        graded: it takes the grades, not only which documents are relevant.
        needs_cutoff: it counts the first n documents in any order, so without n it says nothing.
        gain: the one that it always has.
        highest: the highest grade that it is defined for.
        of_pairs: it is taken of judged pairs, by `outcomes`, not of grades.
        whole: it takes every document, of grade 0 as well.
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
MEASURED = tuple(row.default for row in MEASURES.values() if row.default)  # where nobody chose any
_KIND_OF = {
    spelling.removesuffix("@n"): kind
    for kind, row in MEASURES.items()
    for spelling in (kind.lower(), *row.spellings)
}


def measured(quality: Metric) -> tuple[str, ...]:
    """The measures that are taken beside a RankQuality where nobody chose any."""
    return () if quality.row.of_pairs else MEASURED


def _known() -> str:
    free = [k for k, row in MEASURES.items() if not (row.needs_cutoff or row.of_pairs or row.whole)]
    cut = ", ".join(f"{kind}@n" for kind, row in MEASURES.items() if row.needs_cutoff)
    whole = ", ".join(kind for kind, row in MEASURES.items() if row.whole)
    return (
        f"known are {', '.join(free)} (each also @n, as ndcg@10), {cut}, {whole}, "
        "and of judged pairs accuracy"
    )


@dataclass(frozen=True)
class Metric:
    """A measure and its conventions.

    Attributes:
        kind: a key of `MEASURES`, such as map or ndcg.
        cutoff: the last rank that counts; None for all (p always has one).
        gain: of ndcg, 2^grade - 1 ("exp") or the grade ("linear").
        relevant_from: of the binary measures, the lowest grade that is relevant.
        discount: of ndcg, log2(1 + rank) ("log2") or max(1, log2 rank) ("letor").

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
            raise MetricError(f"unknown metric {self.kind!r}; {_known()}")
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
        """What all measures of this kind have in common."""
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
    """The measure of that name, as written here, by trec_eval or by ir-measures, in any case.

    `map`, `ndcg@10`, `p@10`, `mrr`, `err@10`; also AP, P_10, RR, recip_rank, map_cut.10. The
    relevance threshold is the one given here, and so is the gain of `ndcg` in lower case. A name
    of ir-measures (`nDCG@10`, with capitals) or of trec_eval (`ndcg_cut_10`) has the linear gain
    that it has there, whatever `gain` says.

    Raises:
        MetricError: naming the text and the measures that are known.

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
        raise MetricError(f"unknown metric {name!r}; {_known()}")
    row, cutoff = MEASURES[kind], match["cutoff"]
    if cutoff is None and (row.needs_cutoff or f"{spelling}@n" in row.spellings):
        raise MetricError(f"metric {name!r} needs a cutoff, as in {kind}@10; {_known()}")
    return Metric(kind, None if cutoff is None else int(cutoff), gain, relevant_from)


def per_query(metric: Metric, ranked_grades: ArrayLike, offsets: ArrayLike) -> F64:
    """(n_queries,) the measure of every query; NaN where a query has no relevant document (for
    spearman, kendall, concordance and exact: no two documents that differ in grade).

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
    grades, bounds = np.asarray(ranked_grades), np.asarray(offsets, dtype=np.int64)
    if len(bounds) == 0 or bounds[0] != 0 or bounds[-1] != len(grades):
        raise MetricError(f"offsets do not span the {len(grades)} grades")
    _refuse_high(metric, grades)
    hits = _hits(grades, bounds, metric.lowest_relevant)
    values = np.full(len(bounds) - 1, np.nan)
    if len(hits.rank):
        answered = hits.counts > 0
        values[answered] = metric.row.values(metric, hits)[answered]
    return values


def average(values: F64, empty: Empty = "zero", *, of: str = "data") -> float:
    """The mean over queries, where NaN marks a query without a relevant document.

    Args:
        values: (n_queries,) from `per_query`.
        empty: what such a query counts for: 0 ("zero", as trec_eval has it), 1 ("one"), nothing
            ("skip"), or an error.
        of: what error messages begin with, such as the data's source and the measure.

    Raises:
        MetricError: when there is no query to average, or one is empty under "error".

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
    return float(np.where(np.isnan(values), 1.0 if empty == "one" else 0.0, values).mean())


def count_empty(values: F64) -> int:
    """How many queries have no relevant document, from `per_query`'s values.

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
    """The mean of each measure over the queries, by its canonical name.

    Args:
        order: (n_docs,) document numbers, query by query, best first, as `Sorting.order`.
        metrics: one or several, as `Metric` or by name.
        empty: what queries without a relevant document count for, see `average`.

    Raises:
        MetricError: on an unknown measure, two of one name, or where `average` raises one.

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
    """The values whose mean the measure is: (n_queries,) see `per_query`, or (m,) of judged pairs.

    A judged pair's is its share of the weight of all if the ranking predicts it, times m, else 0;
    so pairs of which the judges are undecided are left out.

    Raises:
        MetricError: if the measure is of grades and the data are judged pairs, or the reverse.

    >>> q = Queries.from_arrays([[0.0]] * 3).with_judgements([2, 0], [1, 1], weight=[3, 1])
    >>> outcomes(Metric("accuracy"), q, np.array([0, 1, 2])).tolist()
    [0.5, 0.0]
    """
    judged = queries.judged
    if metric.row.of_pairs != (judged is not None):
        theirs = "judged pairs, which only accuracy measures"
        if judged is None:
            theirs = "documents without judged pairs"
        raise MetricError(f"{queries.source}: {metric.name} is not defined for {theirs}")
    if judged is None:
        values = per_query(metric, queries.grades[order], queries.offsets)
        return gathered(queries, values)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    known = judged.where(judged.sure > 0)
    right = place[known.winner] < place[known.loser]
    sure, predicted = gathered(queries, known.sure), gathered(queries, right * known.sure)
    share: F64 = predicted / (sure.mean() if len(sure) else 1.0)
    return share


def as_metrics(metrics: Metric | str | Iterable[Metric | str]) -> list[Metric]:
    """One or several measures, given as `Metric` or by name, as a list.

    Raises:
        MetricError: on an unknown name, or two measures of one name (their figures would collide).

    >>> [metric.name for metric in as_metrics("MAP")]
    ['map']
    """
    several = [metrics] if isinstance(metrics, Metric | str) else list(metrics)
    found = [parse_metric(m) if isinstance(m, str) else m for m in several]
    unlike = [m.name for m in set(found)]
    for name in unlike:
        if unlike.count(name) > 1:
            raise MetricError(
                f"two different measures are called {name!r}; ask for them separately"
            )
    return list(dict.fromkeys(found))


def conventions(
    metrics: Metric | str | Iterable[Metric | str], empty: Empty, n_empty: int, n_queries: int
) -> str:
    """One line that belongs beside figures: what the measures mean and how many were empty.

    >>> conventions("ndcg@10", "zero", 12, 157)
    'gain 2^r-1, discount log2(1+rank); queries without a relevant document counted zero: 12 of 157'
    """
    kinds = list(MEASURES)
    found = sorted(as_metrics(metrics), key=lambda m: (kinds.index(m.kind), m.gain, m.cutoff or 0))
    said = (
        m.row.convention.format(
            gain=_GAIN_WORDS[m.gain], discount=_DISCOUNT_WORDS[m.discount], cutoff=m.cutoff
        )
        for m in found
    )
    parts = list(dict.fromkeys(filter(None, said)))
    binary = [m for m in found if not (m.row.graded or m.row.of_pairs)]
    levels = sorted({m.relevant_from for m in binary})
    parts += [f"relevant from grade {level}" for level in levels]
    if not all(m.row.of_pairs for m in found):
        rule = _EMPTY_WORDS[empty]
        empty_ones = "of a single grade" if all(m.row.whole for m in found) else _WITHOUT
        parts.append(f"queries {empty_ones} {rule}: {n_empty} of {n_queries}")
    return "; ".join(parts)


def is_gain(gains: F64, n_errors: float, *, ddof: int = 1) -> bool:
    """Whether the mean gain is above 0 by more than some standard errors of it.

    Gains that are NaN do not count. One gain has no standard error: it only has to be above 0.

    Args:
        gains: by query, or by vote.
        ddof: of the standard deviation, as NumPy has it.

    >>> is_gain(np.array([1.0, 2.0, 3.0]), 2.0), is_gain(np.array([-1.0, 1.0, 3.0]), 2.0)
    (True, False)
    """
    gains = gains[~np.isnan(gains)]
    error = gains.std(ddof=ddof) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return bool(gains.mean() > n_errors * error)


def can_choose(metric: Metric, queries: Queries) -> Bool:
    """(n_queries,) whether two rankings of a query's documents differ in the measure.

    That takes documents of two different gains, and for P@n more documents than n; for accuracy a
    judgement that prefers one of two documents.

    Raises:
        MetricError: on a grade that is too high for the measure.

    >>> q = Queries.from_arrays([[0.0]] * 4, [1, 2, 0, 1], qid=["a", "a", "b", "b"])
    >>> can_choose(Metric("map"), q).tolist(), can_choose(Metric("ndcg"), q).tolist()
    ([False, True], [True, True])

    Cost: linear in the documents.
    """
    if queries.judged is not None:
        of_pairs = queries.query_of_docs()[queries.judged.winner]
        decided: Bool = np.bincount(of_pairs, queries.judged.sure, len(queries)) > 0
        return decided & metric.row.of_pairs
    _refuse_high(metric, queries.grades)
    lowest, highest = _grade_ranges(queries)
    differ: Bool = lowest < highest
    if not metric.row.graded:
        differ = (lowest < metric.relevant_from) & (highest >= metric.relevant_from)
    return differ & (queries.sizes > _needed_docs(metric))


def check_can_choose(metric: Metric, queries: Queries) -> None:
    """Refuse a measure that scores every ranking of these queries alike.

    Raises:
        DataError: naming measures that tell rankings of these queries apart, if there are any.
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
        n, level = _needed_docs(metric), metric.relevant_from
        more = f" and more than {n} documents" if n else ""
        lacking = f"documents both of grade {level} or more and below{more}"
    raise DataError(
        f"{queries.source}: {metric.name} scores every ranking alike, as no query has {lacking}; "
        + _remedies(metric, queries)
    )


def default_quality(grades: ArrayLike, relevant_from: int = 1) -> str:
    """The RankQuality for data of these grades: map where they are relevant or not, else ndcg@10.

    >>> default_quality([0, 1, 1]), default_quality([0, 1, 2]), default_quality([1, 2])
    ('map', 'ndcg@10', 'ndcg@10')
    """
    found = np.unique(grades)
    binary = len(found) == 2 and found[0] < relevant_from <= found[1]
    return "map" if binary else "ndcg@10"


def _remedies(metric: Metric, queries: Queries) -> str:
    lowest, highest = _grade_ranges(queries)
    if not (lowest < highest).any():
        return "give queries whose documents differ in grade"
    found = ["--quality ndcg@10"]
    long = queries.sizes > _needed_docs(metric)
    if not metric.row.graded and (lowest < highest)[long].any():
        levels = np.unique(highest[long])
        below = np.searchsorted(np.sort(lowest[long]), levels)  # queries with a grade below it
        passed = np.searchsorted(np.sort(highest[long]), levels)  # queries with none from it on
        found.insert(0, f"--relevant-from {levels[np.argmax(below - passed)]}")
    return f"try {' or '.join(found)}"


def _needed_docs(metric: Metric) -> int:
    """How many documents a query must exceed: P@n counts all of n or fewer, however ranked."""
    return (metric.cutoff or 0) if metric.row.needs_cutoff else 0


def _refuse_high(metric: Metric, grades: NDArray[Any]) -> None:
    highest = metric.row.highest
    if highest is not None and len(grades) and grades.max() > highest:
        raise MetricError(
            f"{metric.name} is defined for grades up to {highest}, and there is a grade "
            f"{grades.max()}; take ndcg@10"
        )


def _grade_ranges(queries: Queries) -> tuple[I32, I32]:
    """(n_queries,) the lowest and the highest grade of each query; 0 of one without documents."""
    lowest, highest = np.zeros((2, len(queries)), np.int32)
    some = queries.sizes > 0
    if some.any():
        starts = queries.offsets[:-1][some]
        lowest[some] = np.minimum.reduceat(queries.grades, starts)
        highest[some] = np.maximum.reduceat(queries.grades, starts)
    return lowest, highest
