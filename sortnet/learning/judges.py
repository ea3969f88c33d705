"""Judges: decide which comparisons of a sort were wrong."""

from __future__ import annotations

import numpy as np

from sortnet.types import Pairs, Queries, Sorting


def judge_by_grades(queries: Queries, sorting: Sorting) -> Pairs:
    """The mis-compared pairs among those that a sort compared, judged by the grades.

    A comparison is wrong if the document of the higher grade did not win it: a margin of 0,
    which prefers neither, is wrong too. Documents of the same grade cannot be mis-compared.

    >>> import numpy as np
    >>> q = Queries.from_arrays([[0.0], [0.0], [0.0]], [2, 0, 1])
    >>> i, j = np.array([0, 1, 2], np.int32), np.array([1, 2, 0], np.int32)
    >>> made = Sorting(np.arange(3), i, j, np.array([-1, -1, -1], np.float32))
    >>> wrong = judge_by_grades(q, made)
    >>> list(zip(wrong.winner.tolist(), wrong.loser.tolist()))
    [(0, 1)]

    Cost: linear in the comparisons.
    """
    better = np.sign(queries.grades[sorting.i] - queries.grades[sorting.j])
    wrong = (better != 0) & (better != np.sign(sorting.margin))
    i, j = sorting.i[wrong].astype(np.int64), sorting.j[wrong].astype(np.int64)
    first = better[wrong] > 0
    return Pairs(np.where(first, i, j), np.where(first, j, i))


def can_be_learned(queries: Queries) -> bool:
    """Whether some query has two documents of different grades."""
    same_query = np.diff(queries.query_of_docs()) == 0
    return bool(np.any(same_query & (np.diff(queries.grades) != 0)))
