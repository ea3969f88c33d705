"""DirectRanker without the loop: which pairs it learns from, and that it learns."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from graded_queries import graded

from sortnet.comparators import DirectRanker
from sortnet.core import Queries
from sortnet.rankers.pairwise import chosen_pairs


def pairs_of(strategy: str, part: Queries) -> set[tuple[int, int]]:
    pairs = chosen_pairs(part, DirectRanker(3), strategy, np.random.default_rng(0))
    return set(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))


def test_all_pairs_are_those_of_different_grades_and_neighbours_those_of_adjacent_ones():
    part, query = graded(3, 5), graded(3, 5).query_of_docs()
    expected, adjacent = set(), set()
    for i, j in permutations(range(part.n_docs), 2):
        if query[i] == query[j] and part.grades[i] > part.grades[j]:
            between = part.grades[query == query[i]]
            expected.add((i, j))
            if not ((between > part.grades[j]) & (between < part.grades[i])).any():
                adjacent.add((i, j))
    assert pairs_of("all", part) == expected
    assert pairs_of("neighbours", part) == adjacent < expected
    some = pairs_of("random", part)
    assert some < expected
    assert len(some) <= 5 * 8 * 3  # n ceil(log2 n) are drawn of each query
