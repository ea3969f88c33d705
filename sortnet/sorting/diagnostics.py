"""Diagnostics of a comparator: cycles, and the effect of the order before the sort."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import I64, Comparator, Queries
from sortnet.sorting.sort import margins_of, sort

_SHUFFLES = 5  # number of shuffles that `rank_changes` sorts


@dataclass(frozen=True)
class CyclicTriples:
    """Result of `cyclic_triples`.

    Attributes:
        share: the share of cycles among the checked triples, 0 to 1; 0 if no triple was checked.
        sampled: the number of checked triples.
    """

    share: float
    sampled: int


@dataclass(frozen=True)
class RankChange:
    """Differences of ranks between the ranking of `sort` and another ranking of the same queries.

    Attributes:
        against: the name of the other ranking, `shuffle 1` to `shuffle 5`.
        mean: the mean difference of a document's two ranks.
        max: the largest difference of a document's two ranks.
        share: the share of documents with different ranks, 0 to 1.
    """

    against: str
    mean: float
    max: int
    share: float


def cyclic_triples(
    comparator: Comparator, queries: Queries, *, samples: int = 10_000
) -> CyclicTriples:
    """Measure the share of cycles: triples of a query with i before j, j before k, but k before i.

    Triples are drawn uniformly, with replacement, from the triples of all queries. A triple with a
    tie (margin 0) is not a cycle. A transitive comparator has share 0, a comparator that tosses
    coins has share 1/4.

    Args:
        comparator: the comparator.
        queries: scaled documents.
        samples: the number of draws; a draw with the same document twice is not checked.

    >>> class StoneScissorsPaper:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return np.sin((x[j] - x[i]) * 2 * np.pi / 3)
    >>> q = Queries.from_arrays([[0.0], [1.0], [2.0]])
    >>> cyclic_triples(StoneScissorsPaper(), q).share
    1.0

    Cost: three calls of `prefer` with `samples` comparisons each, and preparing all documents.
    """
    rng = np.random.default_rng(0)
    n_draws = queries.sizes.astype(np.float64) ** 3
    is_long = queries.sizes > 2
    if not is_long.any():
        return CyclicTriples(0.0, 0)
    weight = n_draws * is_long
    query = rng.choice(len(queries), samples, p=weight / weight.sum())
    places = (rng.random((3, samples)) * queries.sizes[query]).astype(np.int64)
    i, j, k = queries.offsets[query] + places
    are_different = (i != j) & (j != k) & (k != i)
    i, j, k = i[are_different], j[are_different], k[are_different]
    signs = [np.sign(margins_of(comparator, queries, *pair)) for pair in ((i, j), (j, k), (k, i))]
    are_cyclic = (signs[0] == signs[1]) & (signs[1] == signs[2]) & (signs[0] != 0)
    return CyclicTriples(float(are_cyclic.mean()) if len(i) else 0.0, len(i))


def rank_changes(comparator: Comparator, queries: Queries) -> list[RankChange]:
    """Measure how the ranking changes if the sort starts from another order.

    The ranking of `sort` is compared with the rankings from five random orders. Documents of a
    query with the same features count as interchangeable. Ranks of other documents may change
    because of ties and of cycles. A comparator that is a strict order changes no rank.

    Returns:
        One row per ranking; `pandas.DataFrame` makes a table of the rows.

    Raises:
        ComparatorError: if a margin is not a number.

    >>> class ByFirstFeature:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return x[i] - x[j]
    >>> q = Queries.from_arrays([[1.0], [3.0], [2.0]], [0, 1, 0])
    >>> rank_changes(ByFirstFeature(), q)[-1]
    RankChange(against='shuffle 5', mean=0.0, max=0, share=0.0)

    Cost: six sorts.
    """
    rng = np.random.default_rng(0)
    rows = np.column_stack((queries.query_of_docs(), queries.features))
    _, classes = np.unique(rows, axis=0, return_inverse=True)  # equal documents have a class
    main_places = _places(sort(comparator, queries).order, classes)
    changes = []
    for k in range(1, _SHUFFLES + 1):
        start = np.lexsort((rng.random(queries.n_docs), queries.query_of_docs()))
        places = _places(sort(comparator, queries, start=start).order, classes)
        distance = np.append(np.abs(main_places - places), [] if len(places) else [0])
        share = float((distance > 0).mean())
        change = RankChange(f"shuffle {k}", float(distance.mean()), int(distance.max()), share)
        changes.append(change)
    return changes


def _places(order: I64, classes: I64) -> I64:
    """Find the place of each document in a ranking, (n_docs,).

    Documents of a class are interchangeable. They share their places out by document number, so
    that a ranking that only exchanges equal documents has the same result.

    Args:
        order: (n_docs,) the ranking, document numbers query by query.
        classes: (n_docs,) the number of each document's class of equal documents.
    """
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    docs_by_number = np.argsort(classes, kind="stable")  # class by class, then by document number
    docs_by_place = np.lexsort((place, classes))  # class by class, then by place
    shared_place = np.empty_like(place)
    shared_place[docs_by_number] = place[docs_by_place]
    return shared_place
