"""Judges: say which of two documents is better, and so which comparisons were wrong."""

from __future__ import annotations

import numpy as np

from sortnet.errors import DataError
from sortnet.types import F32, I32, I64, Pairs, Queries, Sorting


def judge_by_grades(queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
    """1 where document i has the higher grade, -1 where j has, 0 where they are equal; (m,).

    >>> q = Queries.from_arrays([[0.0], [0.0], [0.0]], [2, 0, 1])
    >>> judge_by_grades(q, np.array([0, 1, 2]), np.array([1, 2, 2]))
    array([ 1., -1.,  0.], dtype=float32)
    """
    better: F32 = np.sign(queries.grades[i] - queries.grades[j]).astype(np.float32)
    return better


def in_order(i: I64 | I32, j: I64 | I32, answers: F32) -> Pairs:
    """The pairs that a judge gave an answer to, the better document first."""
    known = answers != 0
    i, j, first = i[known].astype(np.int64), j[known].astype(np.int64), answers[known] > 0
    return Pairs(np.where(first, i, j), np.where(first, j, i))


def wrong_pairs(sorting: Sorting, answers: F32) -> Pairs:
    """The mis-compared pairs among those that a sort compared, in their right order.

    A comparison is wrong if the better document did not win it: a margin of 0, which prefers
    neither, is wrong too. Documents that are equally good cannot be mis-compared.

    Args:
        sorting: the comparisons made.
        answers: (m,) what the judge says of them.

    >>> i, j = np.array([0, 1, 2], np.int32), np.array([1, 2, 0], np.int32)
    >>> made = Sorting(np.arange(3), i, j, np.array([-1, -1, -1], np.float32))
    >>> wrong = wrong_pairs(made, np.array([1, -1, -1], np.float32))
    >>> list(zip(wrong.winner.tolist(), wrong.loser.tolist()))
    [(0, 1)]

    Cost: linear in the comparisons, and a sort of the wrong ones.
    """
    right = np.sign(sorting.margin) == np.sign(answers)
    return in_order(sorting.i, sorting.j, np.where(right, np.float32(0), answers))


def can_be_learned(queries: Queries) -> bool:
    """Whether some query has two documents of different grades."""
    same_query = np.diff(queries.query_of_docs()) == 0
    return bool(np.any(same_query & (np.diff(queries.grades) != 0)))


def check_can_be_learned(queries: Queries) -> None:
    """Refuse queries none of which has documents of two grades."""
    if not can_be_learned(queries):
        raise DataError(
            f"{queries.source}: no query has documents of two different grades: nothing to learn"
        )
