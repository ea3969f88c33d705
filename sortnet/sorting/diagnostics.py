"""Diagnostics of a sort: margins and ranks of its mistakes, cycles, and the effect of the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortnet.comparators.forms import Score
from sortnet.compiled import compiled
from sortnet.core import I32, I64, Bool, Comparator, ComparedPairs, Queries, Sorting
from sortnet.core.shard import numbers_in_shard, offsets_of_all, sum_over_processes
from sortnet.errors import ComparatorError
from sortnet.sorting.sort import arrangement, refuse_nan, sort

_SHUFFLES = 5  # number of shuffles that `rank_changes` sorts
# Edges between the bins of |margin| are powers of 2. The first bin starts at 0, and the last bin
# has no upper edge.
_LEAST_EXPONENT = -12
_GREATEST_EXPONENT = 6
_LAST_BIN = _GREATEST_EXPONENT - _LEAST_EXPONENT + 1
MARGIN_EDGES = tuple(2.0**k for k in range(_LEAST_EXPONENT, _GREATEST_EXPONENT + 1))
RANK_BINS = ("1", "2", "3", "4", "5", "6-7", "8-10", "11-20", "21-50", "51+")
_LAST_RANKS = (1, 2, 3, 4, 5, 7, 10, 20, 50)  # the last rank of each bin but the last bin
# The bin of each place in a ranking, from place 0 (rank 1); all later places have the last bin.
_BIN_OF_PLACE = np.searchsorted(_LAST_RANKS, np.arange(1, 52)).astype(np.int8)
_TRIPLES = 500  # 500 triples measure a share of 1 % with a standard error of 0.4 %


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
        against: the name of the other ranking, `shuffle 1` to `shuffle 5` or `quicksort`.
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

    Triples are drawn uniformly, with replacement, from the triples of all queries. If there are at
    most `samples` triples, each is checked once. A triple with a tie (margin 0) is not a cycle. A
    transitive comparator has share 0, a comparator that tosses coins has share 1/4. If several
    processes share the queries, the share is over all queries.

    Args:
        comparator: the comparator.
        queries: scaled documents, at most 2 million per query.
        samples: the largest number of triples to check.

    Raises:
        ComparatorError: if a margin is not a number.

    >>> class StoneScissorsPaper:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return np.sin((x[j] - x[i]) * 2 * np.pi / 3)
    >>> q = Queries.from_arrays([[0.0], [1.0], [2.0]])
    >>> cycles = cyclic_triples(StoneScissorsPaper(), q)
    >>> cycles.share, cycles.sampled
    (1.0, 1)

    Cost: three calls of `prefer` with `samples` comparisons each, and preparing the documents of
    the triples. A comparator whose margin is a difference of scores costs nothing.
    """
    all_triples = _triples(offsets_of_all(queries), samples, np.random.default_rng(0))
    n_triples = len(all_triples)
    form = comparator.kernel() if hasattr(comparator, "kernel") else None
    if isinstance(form, Score):  # an order by scores has no cycles
        return CyclicTriples(0.0, n_triples)
    triples = numbers_in_shard(queries, all_triples)
    is_own = (triples[:, 0] >= 0) & (triples[:, 0] < queries.n_docs)
    are_cyclic = _are_cyclic(comparator, queries, triples[is_own])
    n_cyclic = int(sum_over_processes(queries, np.count_nonzero(are_cyclic)))
    return CyclicTriples(n_cyclic / max(n_triples, 1), n_triples)


def _are_cyclic(comparator: Comparator, queries: Queries, triples: I64) -> Bool:
    """Check which triples are cycles: i before j before k before i, or the reverse.

    Args:
        comparator: the comparator.
        queries: the queries.
        triples: (m, 3) document numbers.

    Returns:
        A mask, (m,).
    """
    if not len(triples):
        return np.empty(0, np.bool_)
    documents, inverse = np.unique(triples, return_inverse=True)
    prepared = comparator.prepare(queries.features_of(documents))
    prepared_triples = inverse.reshape(triples.shape)  # numbers of prepared documents
    signs = []
    for column in range(3):
        i = prepared_triples[:, column]
        j = prepared_triples[:, (column + 1) % 3]
        margin = comparator.prefer(prepared, i, j)
        refuse_nan(margin, queries, documents[i])
        signs.append(np.sign(margin))
    are_cyclic: Bool = (signs[0] == signs[1]) & (signs[1] == signs[2]) & (signs[0] != 0)
    return are_cyclic


def rank_changes(comparator: Comparator, queries: Queries) -> list[RankChange]:
    """Measure how the ranking changes if the sort starts from another order, or is a quicksort.

    The ranking of `sort` is compared with the rankings from five random orders, and with the
    ranking of a quicksort. Documents of a query with the same features count as interchangeable.
    Ranks of other documents may change because of ties and of cycles. A comparator that is a strict
    order changes no rank.

    Returns:
        One row per ranking; `pandas.DataFrame` makes a table of the rows.

    Raises:
        ComparatorError: if a margin is not a number.

    >>> class ByFirstFeature:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return x[i] - x[j]
    >>> q = Queries.from_arrays([[1.0], [3.0], [2.0]], [0, 1, 0])
    >>> rank_changes(ByFirstFeature(), q)[-1]
    RankChange(against='quicksort', mean=0.0, max=0, share=0.0)

    Cost: seven sorts.
    """
    rng = np.random.default_rng(0)
    classes = _equality_classes(queries)
    orders = {}  # rankings by name
    for k in range(1, _SHUFFLES + 1):
        start = shuffled(queries, rng)
        orders[f"shuffle {k}"] = sort(comparator, queries, start=start).order
    orders["quicksort"] = quicksort(comparator, queries, start=arrangement(queries)).order
    main_places = _places(sort(comparator, queries).order, classes)
    return [
        _rank_change(name, main_places, _places(order, classes)) for name, order in orders.items()
    ]


def quicksort(comparator: Comparator, queries: Queries, *, start: I64 | None = None) -> Sorting:
    """Sort every query by quicksort, all queries at once.

    At first each query is a part. A level compares all documents of every part with the middle
    document of the part, its pivot, by a single call of `prefer`. Then the documents that beat the
    pivot, the pivot and the other documents are parts of their own. A document that ties with the
    pivot stays on its side. The result is a permutation even if the comparator is not transitive.

    Args:
        comparator: the comparator.
        queries: the queries.
        start: (n_docs,) document numbers, query by query, in the order before the sort; by default
            the order of the rows.

    Raises:
        ComparatorError: if a margin is not a number, or `start` has a wrong length.

    >>> class ByFirstFeature:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return x[i] - x[j]
    >>> q = Queries.from_arrays([[1.0], [3.0], [2.0]], [0, 1, 0])
    >>> quicksort(ByFirstFeature(), q).order.tolist()
    [1, 2, 0]

    Cost: about 1.4 n log2 n comparisons for n documents in random order, at worst n^2 / 2; all
    documents are prepared together.
    """
    order = np.arange(queries.n_docs) if start is None else np.array(start, dtype=np.int64)
    if len(order) != queries.n_docs:
        raise ComparatorError(f"start has {len(order)} documents, the data {queries.n_docs}")
    batches = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))]
    prepared = comparator.prepare(queries.features) if queries.n_docs else None
    # `order` has the documents in their current places. `part` has the number of the part that each
    # place belongs to; the places of a part are a run.
    part: I32 | I64 = queries.query_of_docs()
    while (np.diff(part) == 0).any():  # some part has two documents
        places, pivots = _places_and_pivots(part)
        i = order[places].astype(np.int32)
        j = order[pivots].astype(np.int32)
        margin = comparator.prefer(prepared, i, j)
        refuse_nan(margin, queries, i)
        batches.append((i, j, margin))
        side = np.zeros(len(part), np.int64)  # -1: before the pivot, 0: the pivot, 1: after it
        side_before_level = np.sign(places - pivots)  # a tie does not change the side
        side[places] = np.where(margin == 0, side_before_level, -np.sign(margin))
        order, part = _divide_by_side(order, part, side)
    i, j, margins = (np.concatenate(column) for column in zip(*batches, strict=True))
    return Sorting(order, ComparedPairs.of(i, j, margin=margins))


def _divide_by_side(order: I64, part: I32 | I64, side: I64) -> tuple[I64, I64]:
    """Divide each part of `quicksort` by its pivot into three new parts.

    Args:
        order: (n_docs,) the documents in their places.
        part: (n_docs,) the number of the part of each place.
        side: (n_docs,) the side of each place: -1 before the pivot, 0 the pivot, 1 after it.

    Returns:
        (n_docs,) the documents in their new places, and (n_docs,) the numbers of the new parts.
    """
    new_part = 3 * part + side  # these numbers put the sides of a part, and the parts, in order
    by_new_part = np.argsort(new_part, kind="stable")
    # The new parts that have documents are numbered 0, 1, ... again.
    _, part_numbers = np.unique(new_part[by_new_part], return_inverse=True)
    return order[by_new_part], part_numbers.astype(np.int64)


def _places_and_pivots(part: I32 | I64) -> tuple[I64, I64]:
    """Find the places that `quicksort` compares next, each with the middle place of its part.

    Args:
        part: (n_docs,) the number of the part of each place, ascending.

    Returns:
        (m,) the places, but the middle places themselves, and (m,) the middle place of their part.
    """
    _, first, sizes = np.unique(part, return_index=True, return_counts=True)
    pivot_of_place = np.repeat(first + sizes // 2, sizes)
    places = np.flatnonzero(np.arange(len(part)) != pivot_of_place)
    return places, pivot_of_place[places]


def shuffled(queries: Queries, rng: np.random.Generator) -> I64:
    """Shuffle the documents within each query; return document numbers, (n_docs,), by query.

    >>> q = Queries.from_arrays([[1.0], [3.0], [2.0]], qid=[1, 1, 2])
    >>> sorted(shuffled(q, np.random.default_rng(0)).tolist())
    [0, 1, 2]
    """
    return np.lexsort((rng.random(queries.n_docs), queries.query_of_docs()))


def _triples(offsets: I64, samples: int, rng: np.random.Generator) -> I64:
    """Choose triples of documents of one query: all triples, or `samples` random triples.

    The triples are numbered query by query, and within a query as in `_triples_by_number`.

    Args:
        offsets: (n_queries + 1,) the number of each query's first document, and the end.
        samples: the largest number of triples.
        rng: the generator of random triples.

    Returns:
        (m, 3) document numbers.
    """
    sizes = np.diff(offsets)
    n_triples = sizes * (sizes - 1) // 2 * (sizes - 2) // 3  # C(n, 3) for each query
    ends = np.cumsum(n_triples)
    total = int(ends[-1]) if len(ends) else 0
    number = np.arange(total) if total <= samples else rng.integers(total, size=samples)
    query = np.searchsorted(ends, number, side="right")
    first_number = ends - n_triples  # the number of each query's first triple
    triples = _triples_by_number(number - first_number[query], int(sizes.max(initial=0)))
    return triples + offsets[query, None]


def _triples_by_number(number: I64, n_docs: int) -> I64:
    """Find the triples first < second < third of documents, (m, 3), that have the numbers (m,).

    In the combinatorial number system the number of a triple is

        C(first, 1) + C(second, 2) + C(third, 3)

    Args:
        number: (m,) numbers of triples.
        n_docs: the largest number of documents of a query; all documents are below it.
    """
    # choose2[n] = C(n, 2) and choose3[n] = C(n, 3), the numbers of pairs and triples.
    n = np.arange(n_docs + 1, dtype=np.int64)
    choose2 = n * (n - 1) // 2
    choose3 = np.cumsum(choose2) - choose2
    # The third document is the largest number with C(third, 3) <= the number of the triple. The
    # second and the first document follow in the same way from the difference.
    third = np.searchsorted(choose3, number, side="right") - 1
    number_of_pair = number - choose3[third]
    second = np.searchsorted(choose2, number_of_pair, side="right") - 1
    first = number_of_pair - choose2[second]
    return np.stack((first, second, third), axis=1)


def _equality_classes(queries: Queries) -> I64:
    """Number the classes of equal documents: documents of a query with the same features.

    Returns:
        (n_docs,) the number of each document's class.
    """
    bits = (queries.features + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    rows = np.column_stack((queries.query_of_docs().astype(np.int32), bits))
    # Rows of bytes are compared as single values, which is faster than np.unique of rows.
    rows_as_bytes = rows.view(f"V{rows.itemsize * rows.shape[1]}")[:, 0]
    _, class_of_row = np.unique(rows_as_bytes, return_inverse=True)
    classes: I64 = class_of_row
    return classes


def _places(order: I64, classes: I64) -> I64:
    """Find the place of each document in a ranking, (n_docs,).

    Documents of a class are interchangeable. They share their places out by document number, so
    that a ranking that only exchanges equal documents has the same result.

    Args:
        order: (n_docs,) the ranking, document numbers query by query.
        classes: (n_docs,) the result of `_equality_classes`.
    """
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    docs_by_number = np.argsort(classes, kind="stable")  # class by class, then by document number
    docs_by_place = np.lexsort((place, classes))  # class by class, then by place
    shared_place = np.empty_like(place)
    shared_place[docs_by_number] = place[docs_by_place]
    return shared_place


def _rank_change(against: str, main_places: I64, other_places: I64) -> RankChange:
    """Summarise how far documents move between the main ranking and the ranking `against`.

    Args:
        against: the name of the other ranking.
        main_places, other_places: (n_docs,) the places of the documents in both rankings.
    """
    if not len(main_places):
        return RankChange(against, 0.0, 0, 0.0)
    distance = np.abs(main_places - other_places)
    share = float((distance > 0).mean())
    return RankChange(against, float(distance.mean()), int(distance.max()), share)


class Tally:
    """Counts of the comparisons of several sorts, by margin and by the ranks of the documents.

    Only comparisons for which the judge prefers a document are counted. So the sums over the counts
    `margins` and `ranks["compared"]` of `facts` are equal.

    >>> q = Queries.from_arrays([[0.0], [0.0], [0.0]], [2, 0, 1])
    >>> compared = ComparedPairs.of([0, 1, 2], [1, 2, 0], margin=[-1, 0.5, 0.5], answer=[1, 0, 0])
    >>> tally = Tally(q)
    >>> tally.see(slice(0, 3), np.array([1, 2, 0]), compared)

    Cost: one compiled pass over the comparisons, about 5 nanoseconds each.
    """

    def __init__(self, queries: Queries) -> None:
        """Begin with counts of 0 for sorts of the given queries."""
        self._queries = queries
        self._bins = np.empty(queries.n_docs, np.int8)  # the bin in RANK_BINS of each document
        # Both arrays have row 0 for right and row 1 for wrong comparisons.
        self._margins = np.zeros((2, len(MARGIN_EDGES) + 1), np.int64)
        self._ranks = np.zeros((2, len(RANK_BINS), len(RANK_BINS)), np.int64)

    def see(self, docs: slice, order: I64, compared: ComparedPairs) -> None:
        """Count the judged comparisons of a sort of some queries.

        Args:
            docs: the documents of the queries.
            order: the ranking of the queries, document numbers query by query.
            compared: the judged comparisons.
        """
        offsets = self._queries.offsets
        # The sorted queries are `first_query` to `end_query` - 1. With side="right", queries
        # without documents before the first document are left out.
        first_query, end_query = np.searchsorted(offsets, (docs.start, docs.stop), side="right") - 1
        starts = offsets[first_query:end_query]
        sizes = self._queries.sizes[first_query:end_query]
        place_in_query = np.arange(docs.start, docs.stop) - np.repeat(starts, sizes)
        last_place = len(_BIN_OF_PLACE) - 1  # further places are in the same bin
        self._bins[order] = _BIN_OF_PLACE[np.minimum(place_in_query, last_place)]
        # Edges of bins are powers of 2, so the exponent in the bits of a margin tells its bin.
        bits = np.ascontiguousarray(compared.margin, np.float32).view(np.int32)
        is_decided = compared.answered & (compared.answer != 0.5)
        _count_comparisons(
            compared.i, compared.j, bits, is_decided, compared.wrong,
            self._bins, self._margins, self._ranks,
        )  # fmt: skip

    def facts(self, comparator: Comparator) -> dict[str, Any]:
        """Return the counts, and the share of cycles of the comparator that made the sorts.

        If several processes share the queries, the counts and the share are over all queries.

        Returns:
            A dict for JSON:
            `margins`: {"right" | "wrong": 20 counts, one for each bin of |margin|}. The edges
                between the bins are `MARGIN_EDGES`, 2^-12 to 2^6; a bin includes its lower edge.
            `ranks`: {"compared" | "wrong": 10 x 10 counts}. The row is the bin in `RANK_BINS` of
                the document that is ranked higher, the column the bin of the other document.
            `cycles`: {"share": the share of cyclic triples, "sampled": the number of checked
                triples, at most 500}.
        """
        margins = sum_over_processes(self._queries, self._margins)
        ranks = sum_over_processes(self._queries, self._ranks)
        cycles = cyclic_triples(comparator, self._queries, samples=_TRIPLES)
        return {
            "margins": {"right": margins[0].tolist(), "wrong": margins[1].tolist()},
            "ranks": {"compared": ranks.sum(axis=0).tolist(), "wrong": ranks[1].tolist()},
            "cycles": {"share": cycles.share, "sampled": cycles.sampled},
        }


def share_right(observed: Mapping[str, Any]) -> float:
    """Compute the share of right comparisons from the facts of a `Tally`; 0 without comparisons.

    >>> share_right({"margins": {"right": [2, 1], "wrong": [1, 0]}})
    0.75
    """
    n_right = int(sum(observed["margins"]["right"]))
    n_wrong = int(sum(observed["margins"]["wrong"]))
    return n_right / max(n_right + n_wrong, 1)


@compiled()
def _bin_of_margin(bits: int) -> int:
    """Find the bin of |margin|, given the bits of the margin as a float32.

    The bits 23 to 30 are 127 plus the exponent for which 2^exponent <= |margin| < 2^(exponent + 1).
    """
    exponent = ((bits >> 23) & 255) - 127
    return min(max(exponent - _LEAST_EXPONENT + 1, 0), _LAST_BIN)


@compiled()
def _count_comparisons(
    i: I32, j: I32, bits: I32, is_decided: Bool, wrong: Bool, bins: Any, margins: I64, ranks: I64
) -> None:
    """Count comparisons by the bin of the margin, and by the bins of both documents' ranks.

    Args:
        i, j: (m,) numbers of the compared documents.
        bits: (m,) the float32 margins as raw bits.
        is_decided: (m,) whether the judge prefers a document; other comparisons are not counted.
        wrong: (m,) whether the comparison is wrong.
        bins: (n_docs,) the bin of each document's rank.
        margins: (2, number of bins) counts, which grow; row 1 is for wrong comparisons.
        ranks: (2, number of bins, number of bins) counts, which grow, with rows as in `margins`.
    """
    for k in range(i.shape[0]):
        if not is_decided[k]:
            continue
        is_wrong = int(wrong[k])
        margins[is_wrong, _bin_of_margin(bits[k])] += 1
        bin_i, bin_j = bins[i[k]], bins[j[k]]
        ranks[is_wrong, min(bin_i, bin_j), max(bin_i, bin_j)] += 1
