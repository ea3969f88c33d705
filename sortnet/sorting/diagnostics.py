"""Diagnostics of a sort: margins and ranks of its mistakes, cycles, and effects of the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from sortnet.comparators.forms import Score
from sortnet.core import I32, I64, Bool, Comparator, ComparedPairs, Queries, Sorting
from sortnet.core.shard import offsets_of_all, own, summed
from sortnet.errors import ComparatorError
from sortnet.sorting.sort import arrangement, refuse_nan, sort

_SHUFFLES = 5
# Edges between the bins of |margin|: the first bin starts at 0, and the last bin has no upper edge.
_LEAST_EXPONENT, _GREATEST_EXPONENT = -12, 6
_LAST_BIN = _GREATEST_EXPONENT - _LEAST_EXPONENT + 1
MARGIN_EDGES = tuple(2.0**k for k in range(_LEAST_EXPONENT, _GREATEST_EXPONENT + 1))
RANK_BINS = ("1", "2", "3", "4", "5", "6-7", "8-10", "11-20", "21-50", "51+")
_LAST_RANKS = (1, 2, 3, 4, 5, 7, 10, 20, 50)
_BIN_OF_PLACE = np.searchsorted(_LAST_RANKS, np.arange(1, 52)).astype(np.int8)
_TRIPLES = 500  # this number of triples measures a share of 1 % to within 0.4 %


@dataclass(frozen=True)
class CyclicTriples:
    """Result of `cyclic_triples`.

    Attributes:
        share: cyclic triples among the checked triples, 0 to 1 (0 if no triple was checked).
        sampled: number of checked triples.
    """

    share: float
    sampled: int


@dataclass(frozen=True)
class RankChange:
    """Distances that documents move between the main ranking and another ranking.

    Attributes:
        against: name of the other ranking, `shuffle 1` to `shuffle 5` or `quicksort`.
        mean: mean distance in ranks over all documents.
        max: largest distance.
        share: share of documents with a different rank, 0 to 1.
    """

    against: str
    mean: float
    max: int
    share: float


def cyclic_triples(
    comparator: Comparator, queries: Queries, *, samples: int = 10_000
) -> CyclicTriples:
    """Share of triples i, j, k of one query with i before j, j before k, but k before i.

    Triples are drawn uniformly, with replacement, from the triples of all queries; if there are at
    most `samples`, each is checked once. A triple with a tie (margin 0) is not a cycle.
    A transitive comparator has share 0, a comparator that tosses coins 1/4. Of a shard the share
    is that of the whole.

    Args:
        queries: scaled documents, at most 2 million per query.

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
    triples = own(queries, all_triples)
    triples = triples[(triples[:, 0] >= 0) & (triples[:, 0] < queries.n_docs)]
    n_cyclic = int(summed(queries, np.count_nonzero(_are_cyclic(comparator, queries, triples))))
    return CyclicTriples(n_cyclic / max(n_triples, 1), n_triples)


def _are_cyclic(comparator: Comparator, queries: Queries, triples: I64) -> Bool:
    """Whether (m,) each triple is a cycle: i before j before k before i, or the reverse."""
    if not len(triples):
        return np.empty(0, np.bool_)
    documents, inverse = np.unique(triples, return_inverse=True)
    prepared = comparator.prepare(queries.features[documents])
    local = inverse.reshape(triples.shape)
    signs = []
    for side in range(3):
        i, j = local[:, side], local[:, (side + 1) % 3]
        margin = comparator.prefer(prepared, i, j)
        refuse_nan(margin, queries, documents[i])
        signs.append(np.sign(margin))
    are_cyclic: Bool = (signs[0] == signs[1]) & (signs[1] == signs[2]) & (signs[0] != 0)
    return are_cyclic


def rank_changes(comparator: Comparator, queries: Queries) -> list[RankChange]:
    """Measure how far documents move if the sort starts from a shuffle, or is a quicksort.

    The default ranking is compared with the rankings from five random starts, then with the ranking
    by a quicksort from the same start. Documents of a query with the same features count as
    interchangeable. Other documents that tie do not, so moves come from ties and from cycles. A
    strict order has no moves.

    Returns:
        One row per ranking, as pandas.DataFrame takes them.

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
    orders = {
        f"shuffle {k}": sort(comparator, queries, start=shuffled(queries, rng)).order
        for k in range(1, _SHUFFLES + 1)
    }
    orders["quicksort"] = quicksort(comparator, queries, start=arrangement(queries)).order
    main = _places(sort(comparator, queries).order, classes)
    return [_change(name, main, _places(order, classes)) for name, order in orders.items()]


def quicksort(comparator: Comparator, queries: Queries, *, start: I64 | None = None) -> Sorting:
    """Sort every query by quicksort, all queries at once; any comparator gives a permutation.

    Every part of a level is split by its pivot, the middle document, with one call of `prefer` per
    level. Ties stay on their side of the pivot.

    Args:
        start: (n_docs,) document numbers, by query, to sort from; by default in row order.

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
    # The part that each place belongs to, as a number. A part is a run of documents that are not
    # yet sorted among each other.
    part = queries.query_of_docs()
    while (np.diff(part) == 0).any():
        place = np.arange(len(part))
        first, sizes = np.unique(part, return_index=True, return_counts=True)[1:]
        pivot = np.repeat(first + sizes // 2, sizes)
        is_compared = (place != pivot) & (np.repeat(sizes, sizes) > 1)
        places = np.flatnonzero(is_compared)
        pivots = pivot[places]
        i, j = order[places].astype(np.int32), order[pivots].astype(np.int32)
        margin = comparator.prefer(prepared, i, j)
        refuse_nan(margin, queries, i)
        batches.append((i, j, margin))
        side = np.zeros(len(part), np.int64)  # -1 before the pivot, 0 the pivot, 1 behind it
        side[places] = np.where(margin == 0, np.sign(places - pivots), -np.sign(margin))
        key = 3 * part + side
        by_side = np.argsort(key, kind="stable")
        order = order[by_side]
        part = np.unique(key[by_side], return_inverse=True)[1].astype(np.int64)
    i, j, margins = (np.concatenate(column) for column in zip(*batches, strict=True))
    return Sorting(order, ComparedPairs.of(i, j, margin=margins))


def shuffled(queries: Queries, rng: np.random.Generator) -> I64:
    """Shuffle the documents (n_docs,) within each query; queries stay one after another.

    >>> q = Queries.from_arrays([[1.0], [3.0], [2.0]], qid=[1, 1, 2])
    >>> sorted(shuffled(q, np.random.default_rng(0)).tolist())
    [0, 1, 2]
    """
    return np.lexsort((rng.random(queries.n_docs), queries.query_of_docs()))


def _triples(offsets: I64, samples: int, rng: np.random.Generator) -> I64:
    """Document numbers (m, 3) of triples of one query: all triples, or `samples` random triples.

    Triples have numbers, query by query, and within a query by the combinatorial number system.
    """
    sizes = np.diff(offsets)
    # choose2[n] and choose3[n] are the numbers of pairs and of triples of n documents.
    n = np.arange(sizes.max(initial=0) + 1, dtype=np.int64)
    choose2 = n * (n - 1) // 2
    choose3 = np.cumsum(choose2) - choose2
    ends = np.cumsum(choose3[sizes])
    total = int(ends[-1]) if len(ends) else 0
    number = np.arange(total) if total <= samples else rng.integers(total, size=samples)
    query = np.searchsorted(ends, number, side="right")
    number_in_query = number - (ends[query] - choose3[sizes[query]])
    third = np.searchsorted(choose3, number_in_query, side="right") - 1
    number_of_pair = number_in_query - choose3[third]
    second = np.searchsorted(choose2, number_of_pair, side="right") - 1
    first = number_of_pair - choose2[second]
    return np.stack((first, second, third), axis=1) + offsets[query, None]


def _equality_classes(queries: Queries) -> I64:
    """Class number (n_docs,) of each document; a query's documents with equal features share it."""
    bits = (queries.features + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    rows = np.column_stack((queries.query_of_docs().astype(np.int32), bits))
    groups: I64 = np.unique(rows.view(f"V{4 * rows.shape[1]}")[:, 0], return_inverse=True)[1]
    return groups


def _places(order: I64, classes: I64) -> I64:
    """Place (n_docs,) of each document; equal documents get their places by document number."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    docs_by_number = np.argsort(classes, kind="stable")  # class by class
    docs_by_place = np.lexsort((place, classes))  # class by class
    place_by_number = np.empty_like(place)
    place_by_number[docs_by_number] = place[docs_by_place]
    return place_by_number


def _change(against: str, main: I64, places: I64) -> RankChange:
    """Summarise how far documents move between two rankings, given their places in both."""
    if not len(main):
        return RankChange(against, 0.0, 0, 0.0)
    moved = np.abs(main - places)
    return RankChange(against, float(moved.mean()), int(moved.max()), float((moved > 0).mean()))


class Tally:
    """Counts of margins, and of the ranks of mistakes, which grow sort by sort.

    Only compared pairs that have a right order are counted. So the sums over `margins` and over
    `ranks["compared"]` are equal.

    >>> q = Queries.from_arrays([[0.0], [0.0], [0.0]], [2, 0, 1])
    >>> compared = ComparedPairs.of([0, 1, 2], [1, 2, 0], margin=[-1, 0.5, 0.5], answer=[1, 0, 0])
    >>> tally = Tally(q)
    >>> tally.see(slice(0, 3), np.array([1, 2, 0]), compared)

    Cost: one compiled pass over the comparisons, about 5 nanoseconds each.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._bins = np.empty(queries.n_docs, np.int8)  # the number in RANK_BINS of each rank
        self._margins = np.zeros((2, len(MARGIN_EDGES) + 1), np.int64)
        self._ranks = np.zeros((2, len(RANK_BINS), len(RANK_BINS)), np.int64)

    def see(self, docs: slice, order: I64, compared: ComparedPairs) -> None:
        """Count the judged comparisons of one sort.

        Args:
            docs: the documents of these queries.
            order: their ranking.
            compared: the judged comparisons.
        """
        offsets = self._queries.offsets
        first, last = np.searchsorted(offsets, (docs.start, docs.stop), side="right") - 1
        starts, sizes = offsets[first:last], self._queries.sizes[first:last]
        place = np.arange(docs.start, docs.stop) - np.repeat(starts, sizes)
        self._bins[order] = _BIN_OF_PLACE[np.minimum(place, len(_BIN_OF_PLACE) - 1)]
        bits = np.ascontiguousarray(compared.margin, np.float32).view(np.int32)
        ordered = compared.answered & (compared.answer != 0.5)
        _tally(
            compared.i, compared.j, bits, ordered, compared.wrong,
            self._bins, self._margins, self._ranks,
        )  # fmt: skip

    def facts(self, comparator: Comparator) -> dict[str, Any]:
        """Return the counts, and the share of cycles of the comparator that made the sorts.

        Of a shard, both are of the whole.

        Returns:
            A dict for JSON:
            `margins`: {"right" | "wrong": 20 counts of |margin|}; between the bins are
                `MARGIN_EDGES`, 2^-12 to 2^6, and a bin includes its lower edge;
            `ranks`: {"compared" | "wrong": 10 x 10 counts}; the row is the bin of `RANK_BINS` of
                the document ranked higher, the column that of the document ranked lower;
            `cycles`: {"share": share of cyclic triples, "sampled": number of checked triples, at
                most 500}.
        """
        margins = summed(self._queries, self._margins)
        ranks = summed(self._queries, self._ranks)
        cycles = cyclic_triples(comparator, self._queries, samples=_TRIPLES)
        return {
            "margins": {"right": margins[0].tolist(), "wrong": margins[1].tolist()},
            "ranks": {"compared": ranks.sum(axis=0).tolist(), "wrong": ranks[1].tolist()},
            "cycles": {"share": cycles.share, "sampled": cycles.sampled},
        }


def share_right(observed: Mapping[str, Any]) -> float:
    """Share of right comparisons among all comparisons that a `Tally` counted; 0 if none.

    >>> share_right({"margins": {"right": [2, 1], "wrong": [1, 0]}})
    0.75
    """
    n_right = int(sum(observed["margins"]["right"]))
    n_wrong = int(sum(observed["margins"]["wrong"]))
    return n_right / max(n_right + n_wrong, 1)


@njit(cache=True, nogil=True)
def _tally(
    i: I32, j: I32, bits: I32, ordered: Bool, wrong: Bool, bins: Any, margins: I64, ranks: I64
) -> None:
    """Count comparisons; `bits` are margins as raw float32 bits, whose exponent gives the bin."""
    for k in range(i.shape[0]):
        if not ordered[k]:
            continue
        is_wrong = int(wrong[k])
        exponent = ((bits[k] >> 23) & 255) - 127
        bin_of_margin = exponent - _LEAST_EXPONENT + 1
        margins[is_wrong, min(max(bin_of_margin, 0), _LAST_BIN)] += 1
        bin_i, bin_j = bins[i[k]], bins[j[k]]
        ranks[is_wrong, min(bin_i, bin_j), max(bin_i, bin_j)] += 1
