"""Weights of pairs in training: half of each weight is the pair's effect on RankQuality.

    weight = (1 - l) + l * |change of RankQuality| / its mean over the pairs,   l = 1/2,

where the change is the change of the query's measure if the two documents exchanged their places in
the ranking of this iteration, as in LambdaRank (Burges, Ragno and Le 2006). A query whose changes
are all 0 has weight 1. NDCG, MAP, MRR and ERR are computed without their cutoff: with it, pairs far
down would weigh alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sortnet.core import F32, F64, I64, ComparedPairs, Queries
from sortnet.core.shard import summed
from sortnet.metrics import Metric

SHARE_BY_CHANGE = 0.5  # l in the formula above
_HIGHEST_OF_ERR = 4  # the grade that ERR regards as the best possible, as in gdeval
_AT_ONCE = 1 << 20  # pairs processed at a time, which bounds memory


@dataclass(frozen=True)
class _Ranking:
    """Grades, ranks and queries of all documents in ranked order, query by query."""

    metric: Metric
    grades: I64  # (n_docs,) by place
    rank: I64  # (n_docs,) by place, from 1
    query: I64  # (n_docs,) by place
    offsets: I64  # (n_queries + 1,)

    def sum_in_query(self, values: F64) -> F64:
        """Sum (n_docs,) of the query's values from its first place up to each place, inclusive."""
        total = np.append(0.0, np.cumsum(values))
        sums: F64 = total[1:] - total[self.offsets[self.query]]
        return sums

    def of_query(self, values: F64) -> F64:
        """Sum (n_queries,) of the values of each query."""
        sums = np.bincount(self.query, values, minlength=len(self.offsets) - 1)
        return sums.astype(np.float64, copy=False)  # numpy's stubs declare integers

    @property
    def relevant(self) -> F64:
        """Relevance (n_docs,) by place: 1 for a relevant document, else 0."""
        relevant: F64 = (self.grades >= self.metric.lowest_relevant).astype(np.float64)
        return relevant


Change = Callable[[_Ranking, I64, I64], F64]


def _ndcg(ranking: _Ranking, first: I64, second: I64) -> F64:
    """Change of NDCG by an exchange: |gain difference * discount difference| / ideal DCG."""
    metric = ranking.metric
    grades = ranking.grades
    ideal_places = np.lexsort((-grades, ranking.query))
    if metric.gain == "linear":
        gain = grades.astype(np.float64)
    else:  # in units of the query's best gain, so that no grade overflows
        best = grades[ideal_places[ranking.offsets[:-1]]][ranking.query]
        gain = np.ldexp(1.0, grades - best) - np.ldexp(1.0, -best)
    if metric.discount == "letor":
        discount = 1 / np.maximum(np.log2(ranking.rank), 1.0)
    else:
        discount = 1 / np.log2(1.0 + ranking.rank)
    ideal = ranking.of_query(gain[ideal_places] * discount)[ranking.query[first]]
    change = np.abs((gain[first] - gain[second]) * (discount[first] - discount[second]))
    return np.divide(change, ideal, out=np.zeros_like(change), where=ideal > 0)


def _map(ranking: _Ranking, first: I64, second: I64) -> F64:
    """Change of average precision, the mean precision at the ranks of relevant documents.

    A relevant document that moves up from rank b to a gains (hits above a + 1) / a - (hits up to
    b) / b, and each relevant one between them gains 1 / its rank.
    """
    relevant, rank = ranking.relevant, ranking.rank
    hits = ranking.sum_in_query(relevant)
    inverse_ranks = ranking.sum_in_query(relevant / rank)
    above = hits[first] - relevant[first]
    between = inverse_ranks[second] - inverse_ranks[first]
    # The lower document is relevant and moves up. `between` includes its old place, so the
    # reciprocal of its old rank is subtracted.
    moved_up = (above + 1) / rank[first] - hits[second] / rank[second]
    moved_up += between - 1 / rank[second]
    # The upper document is relevant and moves down. Each relevant document between the two loses
    # the reciprocal of its rank.
    moved_down = hits[second] / rank[second] - hits[first] / rank[first] - between
    change = np.where(relevant[second] > relevant[first], moved_up, moved_down)
    change = np.where(relevant[second] == relevant[first], 0.0, np.abs(change))
    n_relevant = ranking.of_query(relevant)[ranking.query[first]]
    return change / np.maximum(n_relevant, 1.0)


def _precision(ranking: _Ranking, first: I64, second: I64) -> F64:
    """Change of P@n: 1 / n if the pair crosses the cutoff n and only one document is relevant."""
    cutoff = ranking.metric.cutoff or 1
    crosses = (ranking.rank[first] <= cutoff) & (ranking.rank[second] > cutoff)
    differs = ranking.relevant[first] != ranking.relevant[second]
    change: F64 = (crosses & differs) / float(cutoff)
    return change


def _mrr(ranking: _Ranking, first: I64, second: I64) -> F64:
    """Change of the reciprocal rank, 1 / rank of the first relevant document."""
    relevant, rank = ranking.relevant, ranking.rank
    hits = ranking.sum_in_query(relevant)
    # Ranks of the query's first and second relevant document; infinite if there is none.
    first_rank = _rank_of_hit(ranking, hits, 1)
    second_rank = _rank_of_hit(ranking, hits, 2)
    query = ranking.query[first]
    up = 1 / rank[first] - 1 / first_rank[query]
    moved_up = np.where(relevant[second] > relevant[first], np.maximum(up, 0.0), 0.0)
    is_first = (relevant[first] > relevant[second]) & (hits[first] == 1)
    next_rank = np.minimum(rank[second], second_rank[query])
    moved_down = np.where(is_first, 1 / rank[first] - 1 / next_rank, 0.0)
    return moved_up + moved_down


def _rank_of_hit(ranking: _Ranking, hits: F64, number: int) -> F64:
    """Rank (n_queries,) of the query's 1st, 2nd, ... relevant document; infinite if none."""
    places = np.flatnonzero((ranking.relevant > 0) & (hits == number))
    ranks = np.full(len(ranking.offsets) - 1, np.inf)
    ranks[ranking.query[places]] = ranking.rank[places]
    return ranks


def _err(ranking: _Ranking, first: I64, second: I64) -> F64:
    """Change of ERR: the sum over ranks of R / rank times the product of 1 - R at higher places.

    R = (2^grade - 1) / 2^4 is the probability that a reader stops at a document (Chapelle et al.
    2009, Expected Reciprocal Rank for Graded Relevance). An exchange replaces the terms of the two
    documents. The terms between them change by the ratio of their factors 1 - R.
    """
    rank = ranking.rank
    stop = (np.exp2(ranking.grades) - 1) / 2**_HIGHEST_OF_ERR  # R, below 1
    passed = np.exp(ranking.sum_in_query(np.log1p(-stop)))
    reached = passed / (1 - stop)  # the product over the places above
    terms = ranking.sum_in_query(stop * reached / rank)
    between = terms[second] - terms[first] - stop[second] * reached[second] / rank[second]
    ratio = (1 - stop[second]) / (1 - stop[first])
    change: F64 = reached[first] * (stop[second] - stop[first]) / rank[first]
    change += between * (ratio - 1)
    change += reached[second] * (stop[first] * ratio - stop[second]) / rank[second]
    return np.abs(change)


CHANGES: dict[str, Change] = {
    "ndcg": _ndcg,
    "nDCG": _ndcg,
    "map": _map,
    "p": _precision,
    "mrr": _mrr,
    "err": _err,
}


def exchange_changes(metric: Metric, queries: Queries, order: I64, pairs: ComparedPairs) -> F64:
    """Change (m,) of the query's measure if the two documents of each pair exchange places.

    Args:
        metric: a measure whose kind is in `CHANGES`.
        queries: graded queries.
        order: (n_docs,) document numbers query by query, the best first.
        pairs: pairs of documents of one query.

    >>> from sortnet.metrics import parse_metric
    >>> queries = Queries.from_arrays([[0.0]] * 3, [0, 1, 0])
    >>> pairs = ComparedPairs.of([1, 1], [0, 2])
    >>> exchange_changes(parse_metric("mrr"), queries, np.array([0, 1, 2]), pairs).round(3)
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
        better, worse = place[pairs.i[rows]], place[pairs.j[rows]]
        upper = np.minimum(better, worse)
        lower = np.maximum(better, worse, out=worse)  # in place, since memory peaks here
        changes[rows] = CHANGES[metric.kind](ranking, upper, lower)
    return changes


def weights_by_quality(
    metric: Metric, queries: Queries, order: I64, pairs: ComparedPairs
) -> F32 | None:
    """Weights (m,) of pairs by their effects on RankQuality; see the formula at the top.

    None means that all weigh 1: for judged pairs, and for a measure without a formula in `CHANGES`.
    The mean is over the pairs of all processes.

    Cost: see `exchange_changes`.
    """
    if queries.judged is not None or metric.kind not in CHANGES:
        return None
    changes = exchange_changes(metric, queries, order, pairs)
    query = queries.query_of_docs()[pairs.i]
    query_changes = np.bincount(query, changes, minlength=len(queries))
    total, n = summed(queries, np.array([changes.sum(), len(changes)]))
    mean = total / max(n, 1)
    if mean == 0:
        return np.ones(len(pairs), np.float32)
    weights = (1 - SHARE_BY_CHANGE) + SHARE_BY_CHANGE * changes / mean
    weights = np.where(query_changes[query] == 0, 1.0, weights)
    return weights.astype(np.float32)
