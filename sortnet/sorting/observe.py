"""Diagnostics of one iteration: margin histogram, mistakes by rank, cycle rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from sortnet.sorting.diagnostics import cyclic_triples
from sortnet.types import F32, I32, I64, Bool, Comparator, Queries, Sorting
from sortnet.types.shard import summed

# The first bin starts at 0, the last has no upper edge.
MARGIN_EDGES = tuple(2.0**k for k in range(-12, 7))
RANK_BINS = ("1", "2", "3", "4", "5", "6-7", "8-10", "11-20", "21-50", "51+")
_LAST_RANKS = (1, 2, 3, 4, 5, 7, 10, 20, 50)
_BIN_OF_PLACE = np.searchsorted(_LAST_RANKS, np.arange(1, 52)).astype(np.int8)
_TRIPLES = 500  # a share of 1 % is then known to 0.4 %


class Tally:
    """The margins of sorts of some queries after others, and the ranks of their mistakes.

    Only compared pairs that have a right order are counted. So the sums over `margins` and over
    `ranks["compared"]` are equal.

    >>> q = Queries.from_arrays([[0.0], [0.0], [0.0]], [2, 0, 1])
    >>> i, j = np.array([0, 1, 2], np.int32), np.array([1, 2, 0], np.int32)
    >>> made = Sorting(np.array([1, 2, 0]), i, j, np.array([-1, 0.5, 0.5], np.float32))
    >>> tally = Tally(q)
    >>> tally.see(slice(0, 3), made, np.array([1, 0, 0], np.float32))

    Cost: one compiled pass over the comparisons, about 5 nanoseconds each.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._bins = np.empty(queries.n_docs, np.int8)  # the number in RANK_BINS of each rank
        self._margins = np.zeros((2, len(MARGIN_EDGES) + 1), np.int64)
        self._ranks = np.zeros((2, len(RANK_BINS), len(RANK_BINS)), np.int64)

    def see(self, docs: slice, sorting: Sorting, answers: F32) -> None:
        """Count the comparisons of the sort of these documents, those of whole queries."""
        offsets = self._queries.offsets
        first, last = np.searchsorted(offsets, (docs.start, docs.stop), side="right") - 1
        starts, sizes = offsets[first:last], self._queries.sizes[first:last]
        place = np.arange(docs.start, docs.stop) - np.repeat(starts, sizes)
        self._bins[sorting.order] = _BIN_OF_PLACE[np.minimum(place, len(_BIN_OF_PLACE) - 1)]
        bits = np.ascontiguousarray(sorting.margin, np.float32).view(np.int32)
        ordered, wrong = ~np.isnan(answers) & (answers != 0.5), mistakes(sorting, answers)
        _tally(sorting.i, sorting.j, bits, ordered, wrong, self._bins, self._margins, self._ranks)

    def facts(self, comparator: Comparator) -> dict[str, Any]:
        """Of a shard, the counts of the whole; the comparator is the one that sorted.

        Returns:
            A dict for JSON:
            `margins`: {"right" | "wrong": 20 counts of |margin|}; between them are `MARGIN_EDGES`,
                2^-12 to 2^6, a bin includes its lower edge;
            `ranks`: {"compared" | "wrong": 10 x 10 counts}, the row the bin of `RANK_BINS` of the
                document ranked above the other, the column that of the one below;
            `cycles`: {"share": of cyclic triples, "sampled": number of triples checked, at most
                500}.
        """
        margins, ranks = (summed(self._queries, each) for each in (self._margins, self._ranks))
        found = cyclic_triples(comparator, self._queries, samples=_TRIPLES)
        return {
            "margins": {"right": margins[0].tolist(), "wrong": margins[1].tolist()},
            "ranks": {"compared": ranks.sum(axis=0).tolist(), "wrong": ranks[1].tolist()},
            "cycles": {"share": found.share, "sampled": found.sampled},
        }


def mistakes(sorting: Sorting, answers: F32) -> Bool:
    """(m,) whether a comparison is wrong: the better document did not win it.

    A margin of 0, which prefers neither, is wrong too. Documents that are equally good, or of which
    the judge cannot say, cannot be mis-compared.
    """
    better = np.sign(answers - np.float32(0.5))
    wrong: Bool = (np.abs(better) == 1) & (np.sign(sorting.margin) != better)
    return wrong


def share_right(observed: Mapping[str, Any]) -> float:
    """The share of right comparisons among those a `Tally` counted; 0 if it counted none.

    >>> share_right({"margins": {"right": [2, 1], "wrong": [1, 0]}})
    0.75
    """
    right, wrong = (int(sum(observed["margins"][name])) for name in ("right", "wrong"))
    return right / max(right + wrong, 1)


@njit(cache=True, nogil=True)
def _tally(
    i: I32, j: I32, bits: I32, ordered: Bool, wrong: Bool, bins: Any, margins: I64, ranks: I64
) -> None:
    """Count the comparisons; `bits` are the margins as float32, whose exponent is the bin."""
    for k in range(i.shape[0]):
        if not ordered[k]:
            continue
        a, b, w = bins[i[k]], bins[j[k]], int(wrong[k])
        size = min(max(((bits[k] >> 23) & 255) - 127 + 13, 0), 19)
        margins[w, size] += 1
        ranks[w, min(a, b), max(a, b)] += 1
