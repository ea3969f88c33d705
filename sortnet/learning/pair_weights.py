"""Weights of pairs in training: half of each weight is the pair's effect on RankQuality.

    weight = (1 - l) + l * |change of RankQuality| / (mean |change| over the pairs),   l = 1/2

The change is the change of the query's measure if the two documents exchanged their ranks in the
ranking of this iteration, as in LambdaRank (Burges, Ragno and Le 2006). If all changes of a query
are 0, its pairs have weight 1. NDCG and MAP are computed without their cutoff, since with a cutoff
all pairs below it would have the same weight. With MRR and ERR such weights gained nothing on
MQ2008, so all pairs weigh alike.
"""

from __future__ import annotations

import numpy as np

from sortnet.core import F32, F64, I64, ComparedPairs, Queries
from sortnet.metrics import Metric

SHARE_BY_CHANGE = 0.5  # l in the formula above


def weights_by_quality(
    metric: Metric, queries: Queries, order: I64, pairs: ComparedPairs
) -> F32 | None:
    """Compute the weights of pairs by their effects on RankQuality.

    Args:
        metric: the measure RankQuality.
        queries: the queries of the pairs.
        order: (n_docs,) document numbers query by query, the best first.
        pairs: m pairs of documents of one query.

    Returns:
        (m,) weights. None if all weights are 1: for judged pairs, and for a measure other than
        NDCG, MAP and P@n.

    Cost: see `exchange_changes`.
    """
    if queries.judged is not None or metric.kind not in ("ndcg", "nDCG", "map", "p"):
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


def exchange_changes(metric: Metric, queries: Queries, order: I64, pairs: ComparedPairs) -> F64:
    """Compute how much the query's measure changes, (m,), if the documents of a pair swap ranks.

    Args:
        metric: NDCG, MAP or P@n.
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
    if metric.kind == "map":
        return _average_precision_changes(metric, queries, order, pairs)
    if metric.kind in ("ndcg", "nDCG"):
        return _ndcg_changes(metric, queries, order, pairs)
    # P@n changes by 1 / n if the pair crosses rank n and one document is relevant.
    cutoff = metric.cutoff or 1
    is_within = queries.ranks(order) <= cutoff
    is_relevant = queries.grades >= metric.lowest_relevant
    crosses = is_within[pairs.i] != is_within[pairs.j]
    changes: F64 = (crosses & (is_relevant[pairs.i] != is_relevant[pairs.j])) / float(cutoff)
    return changes


def _ndcg_changes(metric: Metric, queries: Queries, order: I64, pairs: ComparedPairs) -> F64:
    """Compute changes of NDCG: |gain difference * discount difference| / ideal DCG of the query.

    The arguments are those of `exchange_changes`.
    """
    query = queries.query_of_docs()
    grades = queries.grades.astype(np.int64)
    ideal_order = np.lexsort((-grades, query))  # query by query, best grade first
    if metric.gain == "linear":
        gain = grades.astype(np.float64)
    else:  # the gains 2^grade - 1 of a query are divided by 2^best, so that no grade overflows
        best = grades[ideal_order[queries.offsets[:-1]]][query]
        gain = np.ldexp(1.0, grades - best) - np.ldexp(1.0, -best)
    rank = queries.ranks(order)
    if metric.discount == "letor":  # the ranks 1 and 2 have the discount 1, as in LETOR's programs
        discount = 1 / np.maximum(np.log2(rank), 1.0)
    else:
        discount = 1 / np.log2(1.0 + rank)
    ideal = np.bincount(query, gain[ideal_order] * discount[order], len(queries))[query[pairs.i]]
    change = np.abs((gain[pairs.i] - gain[pairs.j]) * (discount[pairs.i] - discount[pairs.j]))
    return np.divide(change, ideal, out=np.zeros_like(change), where=ideal > 0)


def _average_precision_changes(
    metric: Metric, queries: Queries, order: I64, pairs: ComparedPairs
) -> F64:
    """Compute changes of average precision, the mean precision at the ranks of relevant documents.

    The precision at rank r is hits(r) / r, where hits(r) is the number of relevant documents up to
    rank r. With the upper document at rank a, the lower document at rank b, and the sum B of 1 / r
    over the ranks r of relevant documents between a and b, the sum of precisions changes by

        (hits(a - 1) + 1) / a + B - hits(b) / b    if only the lower document is relevant,
        hits(b) / b - B - hits(a) / a              if only the upper document is relevant,
        0                                          otherwise.

    The arguments are those of `exchange_changes`.
    """
    place = np.empty(queries.n_docs, np.int64)  # where each document is in `order`
    place[order] = np.arange(queries.n_docs)
    place_i, place_j = place[pairs.i], place[pairs.j]
    upper, lower = np.minimum(place_i, place_j), np.maximum(place_i, place_j)
    relevant = (queries.grades[order] >= metric.lowest_relevant).astype(np.float64)
    rank = queries.ranks(order)[order]
    first = np.repeat(queries.offsets[:-1], queries.sizes)  # where each place's query begins
    # Sums from the first document of the query to the document at each place.
    hits_before = np.append(0.0, np.cumsum(relevant))
    hits = hits_before[1:] - hits_before[first]
    inverse_ranks = np.cumsum(relevant / rank)
    hits_above = hits[upper] - relevant[upper]  # hits(a - 1)
    # The sum B of the formulas, plus 1 / b if the lower document is relevant.
    between_and_lower = inverse_ranks[lower] - inverse_ranks[upper]
    lower_moves_up = (hits_above + 1) / rank[upper] - hits[lower] / rank[lower]
    lower_moves_up += between_and_lower - 1 / rank[lower]
    upper_moves_down = hits[lower] / rank[lower] - hits[upper] / rank[upper] - between_and_lower
    change = np.where(relevant[lower] > relevant[upper], lower_moves_up, upper_moves_down)
    change = np.where(relevant[lower] == relevant[upper], 0.0, np.abs(change))
    last = np.repeat(queries.offsets[1:], queries.sizes)
    n_relevant = (hits_before[last] - hits_before[first])[upper]
    changes: F64 = change / np.maximum(n_relevant, 1.0)
    return changes
