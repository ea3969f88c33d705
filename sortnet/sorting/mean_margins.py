"""Each document's mean margin over the others of its query: a score out of a comparator."""

from __future__ import annotations

import numpy as np

from sortnet.types import F32, Comparator, Queries

_PAIRS = 1 << 17  # compared at a time, so that the hidden units of a pair stay small


def mean_margins(comparator: Comparator, queries: Queries) -> F32:
    """(n_docs,) mean over the other documents j of its query of margin(i, j); 0 without others.

    The order by it is that of the margins' signs where the margin is the difference of two scores;
    an intransitive comparator may sort otherwise.

    >>> from sortnet.comparators import DirectRanker
    >>> q = Queries.from_arrays([[1.0], [2.0], [3.0]], qid=[1, 1, 2])
    >>> found = mean_margins(DirectRanker(1, tau="identity"), q)
    >>> bool(found[0] == -found[1] != 0), float(found[2])
    (True, 0.0)

    Cost: n^2 comparisons a query, 2^17 or n at a time.
    """
    prepared = comparator.prepare(queries.features)
    sizes = np.repeat(queries.sizes, queries.sizes)
    first = np.repeat(queries.offsets[:-1], queries.sizes)
    ends = np.concatenate(([0], np.cumsum(sizes)))  # of each document's pairs
    means, start = np.zeros(queries.n_docs), 0
    while start < queries.n_docs:
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + _PAIRS, "right")) - 1)
        begin = ends[start:stop] - ends[start]
        i = np.repeat(np.arange(start, stop), sizes[start:stop])
        j = np.arange(len(i)) + np.repeat(first[start:stop] - begin, sizes[start:stop])
        margins = comparator.prefer(prepared, i, j).astype(np.float64)
        margins[i == j] = 0
        means[start:stop] = np.add.reduceat(margins, begin) / np.maximum(sizes[start:stop] - 1, 1)
        start = stop
    return means.astype(np.float32)
