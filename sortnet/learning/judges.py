"""Judges: say which of two documents is better, and so which comparisons were wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sortnet.data.divide import only_single_documents
from sortnet.errors import DataError
from sortnet.sorting.diagnostics import mistakes
from sortnet.sorting.sort import margins_of, order_of, sorted_runs
from sortnet.types import F32, I32, I64, Comparator, Pairs, Queries, Sorting
from sortnet.types.shard import summed


def judge_by_data(queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
    """What the data say: the share of their judgements for document i, NaN where nobody compared
    the two, if they have some; else `judge_by_grades`; (m,).

    >>> q = Queries.from_arrays([[0.0]] * 3).with_judgements([2, 0, 1], [0, 1, 0])
    >>> judge_by_data(q, np.array([0, 0, 1]), np.array([2, 1, 2]))
    array([0. , 0.5, nan], dtype=float32)
    """
    if queries.judged is not None:
        return queries.judged.said_of(i, j)[0]
    return judge_by_grades(queries, i, j)


def judge_by_grades(queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
    """1 where document i has the higher grade, 0 where j has, NaN where they are equal; (m,).

    >>> q = Queries.from_arrays([[0.0], [0.0], [0.0]], [2, 0, 1])
    >>> judge_by_grades(q, np.array([0, 1, 1]), np.array([1, 2, 1]))
    array([ 1.,  0., nan], dtype=float32)
    """
    of_i, of_j = queries.grades[i], queries.grades[j]
    return np.where(of_i == of_j, np.float32(np.nan), (of_i > of_j).astype(np.float32))


def sorted_to_check(
    comparator: Comparator, queries: Queries, *, start: I64 | None = None
) -> Iterator[tuple[slice, Sorting]]:
    """`sorted_runs`, with the comparisons that can be checked: of judged pairs just these.

    Few of the pairs that a sort compares are ones that people have compared too.
    """
    if queries.judged is None:
        yield from sorted_runs(comparator, queries, start=start)
        return
    i, j = (each.astype(np.int32) for each in (queries.judged.winner, queries.judged.loser))
    margin = margins_of(comparator, queries, i, j)
    yield slice(0, queries.n_docs), Sorting(order_of(comparator, queries), i, j, margin)


def in_order(i: I64 | I32, j: I64 | I32, answers: F32) -> Pairs:
    """The pairs that a judge gave an answer to, the better document first.

    Of a tie, which teaches that the two are alike, the document of the lower number.
    """
    known = ~np.isnan(answers)
    i, j, p = i[known].astype(np.int64), j[known].astype(np.int64), answers[known]
    first = (p > 0.5) | ((p == 0.5) & (i < j))
    return Pairs(np.where(first, i, j), np.where(first, j, i))


def wrong_pairs(sorting: Sorting, answers: F32) -> Pairs:
    """The mis-compared pairs among those that a sort compared, in their right order.

    See `sortnet.sorting.diagnostics.mistakes`.

    >>> i, j = np.array([0, 1, 2], np.int32), np.array([1, 2, 0], np.int32)
    >>> made = Sorting(np.arange(3), i, j, np.array([-1, -1, -1], np.float32))
    >>> wrong = wrong_pairs(made, np.array([1, 0, 0], np.float32))
    >>> list(zip(wrong.winner.tolist(), wrong.loser.tolist()))
    [(0, 1)]

    Cost: linear in the comparisons, and a sort of the wrong ones.
    """
    wrong = mistakes(sorting, answers)
    return in_order(sorting.i[wrong], sorting.j[wrong], answers[wrong])


def can_be_learned(queries: Queries) -> bool:
    """Whether some query has two documents of different grades, or of which one was preferred."""
    if queries.judged is not None:
        return bool(queries.judged.sure.any())
    same_query = np.diff(queries.query_of_docs()) == 0
    return bool(np.any(same_query & (np.diff(queries.grades) != 0)))


def check_can_be_learned(queries: Queries) -> None:
    """Refuse queries that cannot be learned from."""
    if not summed(queries, int(can_be_learned(queries))):
        lacking = "no query has documents of two different grades"
        if queries.judged is not None:
            lacking = "no judgement prefers one of two"
        elif queries.judge is not None:
            lacking = "a judge is asked by SortNet alone, and there are no grades"
        elif len(queries) == queries.n_docs:
            lacking = only_single_documents(None if queries.roles is None else queries.roles.group)
        raise DataError(f"{queries.source}: {lacking}: nothing to learn")
