"""Weights of pairs in training: half of each weight is the pair's effect on RankQuality.

    weight = (1 - l) + l * |change of RankQuality| / (mean |change| over the pairs),   l = 1/2

The change is the change of the query's measure if the two documents exchanged their ranks in the
ranking of this iteration, as in LambdaRank (Burges, Ragno and Le 2006). If all changes of a query
are 0, its pairs have weight 1. NDCG and MAP are computed without their cutoff, since with a cutoff
all pairs below it would have the same weight. With MRR and ERR such weights gained nothing on
MQ2008, so all pairs weigh alike.

A *place* in this module is an index into the ranked documents of all queries, query by query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sortnet.core import F32, F64, I64, ComparedPairs, Queries
from sortnet.metrics import Metric

SHARE_BY_CHANGE = 0.5  # l in the formula above
_AT_ONCE = 1 << 20  # number of pairs processed at a time, which bounds memory


@dataclass(frozen=True)
class _Ranking:
    """Ranking of the documents of all queries.

    Attributes:
        metric: the measure whose changes are computed.
        grades: (n_docs,) the grade of the document at each place.
        rank: (n_docs,) the rank in its query of the document at each place, from 1.
        query: (n_docs,) the query of the document at each place.
        offsets: (n_queries + 1,) the first place of each query, and the end.
    """

    metric: Metric
    grades: I64
    rank: I64
    query: I64
    offsets: I64

    def sum_in_query(self, values: F64) -> F64:
        """Compute running sums of values along the ranking, (n_docs,), from 0 in each query."""
        total = np.append(0.0, np.cumsum(values))
        sums: F64 = total[1:] - total[self.offsets[self.query]]
        return sums

    def of_query(self, values: F64) -> F64:
        """Add up the values of each query's documents, (n_docs,), to one sum each, (n_queries,)."""
        sums = np.bincount(self.query, values, minlength=len(self.offsets) - 1)
        return sums.astype(np.float64, copy=False)  # numpy's stubs declare integers

    @property
    def relevant(self) -> F64:
        """Relevance (n_docs,) of the document at each place: 1 if it is relevant, else 0."""
        relevant: F64 = (self.grades >= self.metric.lowest_relevant).astype(np.float64)
        return relevant


# A function of a ranking, and of the upper and the lower places (m,) of m pairs of documents. It
# returns how much the query's measure changes, (m,), if the documents of a pair exchange ranks.
Change = Callable[[_Ranking, I64, I64], F64]


def _ndcg_changes(ranking: _Ranking, upper: I64, lower: I64) -> F64:
    """Compute changes of NDCG: |gain difference * discount difference| / ideal DCG of the query."""
    metric = ranking.metric
    grades = ranking.grades
    ideal_places = np.lexsort((-grades, ranking.query))  # query by query, best grade first
    if metric.gain == "linear":
        gain = grades.astype(np.float64)
    else:  # the gains 2^grade - 1 of a query are divided by 2^best, so that no grade overflows
        best = grades[ideal_places[ranking.offsets[:-1]]][ranking.query]
        gain = np.ldexp(1.0, grades - best) - np.ldexp(1.0, -best)
    if metric.discount == "letor":  # the ranks 1 and 2 have the discount 1, as in LETOR's programs
        discount = 1 / np.maximum(np.log2(ranking.rank), 1.0)
    else:
        discount = 1 / np.log2(1.0 + ranking.rank)
    ideal_dcg = ranking.of_query(gain[ideal_places] * discount)
    ideal = ideal_dcg[ranking.query[upper]]
    change = np.abs((gain[upper] - gain[lower]) * (discount[upper] - discount[lower]))
    return np.divide(change, ideal, out=np.zeros_like(change), where=ideal > 0)


def _average_precision_changes(ranking: _Ranking, upper: I64, lower: I64) -> F64:
    """Compute changes of average precision, the mean precision at the ranks of relevant documents.

    The precision at rank r is hits(r) / r, where hits(r) is the number of relevant documents up to
    rank r. With the upper document at rank a, the lower document at rank b, and the sum B of 1 / r
    over the ranks r of relevant documents between a and b, the sum of precisions changes by

        (hits(a - 1) + 1) / a + B - hits(b) / b    if only the lower document is relevant,
        hits(b) / b - B - hits(a) / a              if only the upper document is relevant,
        0                                          otherwise.
    """
    relevant = ranking.relevant
    rank = ranking.rank
    hits = ranking.sum_in_query(relevant)
    inverse_ranks = ranking.sum_in_query(relevant / rank)
    hits_above = hits[upper] - relevant[upper]  # hits(a - 1)
    # The sum B of the formulas, plus 1 / b if the lower document is relevant.
    between_and_lower = inverse_ranks[lower] - inverse_ranks[upper]
    lower_moves_up = (hits_above + 1) / rank[upper] - hits[lower] / rank[lower]
    lower_moves_up += between_and_lower - 1 / rank[lower]
    upper_moves_down = hits[lower] / rank[lower] - hits[upper] / rank[upper] - between_and_lower
    change = np.where(relevant[lower] > relevant[upper], lower_moves_up, upper_moves_down)
    change = np.where(relevant[lower] == relevant[upper], 0.0, np.abs(change))
    n_relevant = ranking.of_query(relevant)[ranking.query[upper]]
    return change / np.maximum(n_relevant, 1.0)


def _precision_changes(ranking: _Ranking, upper: I64, lower: I64) -> F64:
    """Compute changes of P@n: 1 / n if the pair crosses rank n and one document is relevant."""
    cutoff = ranking.metric.cutoff or 1
    crosses = (ranking.rank[upper] <= cutoff) & (ranking.rank[lower] > cutoff)
    differs = ranking.relevant[upper] != ranking.relevant[lower]
    change: F64 = (crosses & differs) / float(cutoff)
    return change


CHANGES: dict[str, Change] = {
    "ndcg": _ndcg_changes,
    "nDCG": _ndcg_changes,
    "map": _average_precision_changes,
    "p": _precision_changes,
}


def exchange_changes(metric: Metric, queries: Queries, order: I64, pairs: ComparedPairs) -> F64:
    """Compute how much the query's measure changes, (m,), if the documents of a pair swap ranks.

    Args:
        metric: a measure whose kind is in `CHANGES`.
        queries: graded queries.
        order: (n_docs,) document numbers query by query, the best first.
        pairs: m pairs of documents of one query.

    >>> from sortnet.metrics import parse_metric
    >>> queries = Queries.from_arrays([[0.0]] * 3, [0, 1, 0])
    >>> pairs = ComparedPairs.of([1, 1], [0, 2])
    >>> exchange_changes(parse_metric("map"), queries, np.array([0, 1, 2]), pairs).round(3)
    array([0.5  , 0.167])

    Cost: linear in documents and pairs; for NDCG a sort of the grades.
    """
    place = np.empty(queries.n_docs, np.int64)
    place[order] = np.arange(queries.n_docs)
    query = queries.query_of_docs().astype(np.int64)
    rank = np.arange(queries.n_docs) - queries.offsets[query] + 1
    ranking = _Ranking(metric, queries.grades[order].astype(np.int64), rank, query, queries.offsets)
    changes = np.empty(len(pairs))
    for start in range(0, len(pairs), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        place_i = place[pairs.i[rows]]
        place_j = place[pairs.j[rows]]
        upper = np.minimum(place_i, place_j)
        lower = np.maximum(place_i, place_j, out=place_j)  # in place, since memory peaks here
        changes[rows] = CHANGES[metric.kind](ranking, upper, lower)
    return changes


def weights_by_quality(
    metric: Metric, queries: Queries, order: I64, pairs: ComparedPairs
) -> F32 | None:
    """Compute the weights of pairs by their effects on RankQuality.

    A weight is 1/2 + 1/2 * change / (mean change of the pairs), where the change
    is the change of the measure if the two documents exchange their ranks. Pairs of a query in
    which no pair changes the measure have weight 1.

    Args:
        metric: the measure RankQuality.
        queries: the queries of the pairs.
        order: (n_docs,) document numbers query by query, the best first.
        pairs: m pairs of documents of one query.

    Returns:
        (m,) weights. None if all weights are 1: for judged pairs, and for a measure that is not in
        `CHANGES`.

    Cost: see `exchange_changes`.
    """
    if queries.judged is not None or metric.kind not in CHANGES:
        return None
    changes = exchange_changes(metric, queries, order, pairs)
    mean = changes.sum() / max(len(changes), 1)
    if mean == 0:
        return np.ones(len(pairs), np.float32)
    weights = (1 - SHARE_BY_CHANGE) + SHARE_BY_CHANGE * changes / mean
    query = queries.query_of_docs()[pairs.i]
    sum_of_query = np.bincount(query, changes, minlength=len(queries))
    no_pair_changes = sum_of_query[query] == 0
    return np.where(no_pair_changes, 1.0, weights).astype(np.float32)
