"""Judge pairs of documents by the data: by grades, or by judgements of pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sortnet.core import F32, I32, I64, Comparator, ComparedPairs, Queries, Sorting
from sortnet.core.shard import summed
from sortnet.data.divide import only_single_documents
from sortnet.errors import DataError
from sortnet.sorting.sort import margins_of, order_of, sorted_runs


def judge_by_data(queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
    """Judge pairs by judgements where the data have some, else by grades; (m,) answers.

    By judgements an answer is the share that prefers document i, NaN where nobody compared the two.
    By grades it is as `judge_by_grades` gives it.

    >>> q = Queries.from_arrays([[0.0]] * 3).with_judgements([2, 0, 1], [0, 1, 0])
    >>> judge_by_data(q, np.array([0, 0, 1]), np.array([2, 1, 2]))
    array([0. , 0.5, nan], dtype=float32)
    """
    if queries.judged is not None:
        return queries.judged.answers_for(i, j)[0]
    return judge_by_grades(queries, i, j)


def judge_by_grades(queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
    """Answer 1 where document i has the higher grade, 0 where j has it, NaN for a tie; (m,).

    >>> q = Queries.from_arrays([[0.0], [0.0], [0.0]], [2, 0, 1])
    >>> judge_by_grades(q, np.array([0, 1, 1]), np.array([1, 2, 1]))
    array([ 1.,  0., nan], dtype=float32)
    """
    grade_i, grade_j = queries.grades[i], queries.grades[j]
    is_higher = (grade_i > grade_j).astype(np.float32)
    return np.where(grade_i == grade_j, np.float32(np.nan), is_higher)


def judged_by_data(queries: Queries, pairs: ComparedPairs) -> ComparedPairs:
    """The pairs with the answers of the data, see `judge_by_data`."""
    return pairs.judged(judge_by_data(queries, pairs.i, pairs.j))


def sorted_to_check(
    comparator: Comparator, queries: Queries, *, start: I64 | None = None
) -> Iterator[tuple[slice, Sorting]]:
    """Sort some queries at a time, with comparisons that the data can check.

    With grades these are the comparisons of the sort, see `sorted_runs`. With judgements the
    comparator compares exactly the judged pairs, since a sort compares few of them.
    """
    if queries.judged is None:
        yield from sorted_runs(comparator, queries, start=start)
        return
    i = queries.judged.winner.astype(np.int32)
    j = queries.judged.loser.astype(np.int32)
    margin = margins_of(comparator, queries, i, j)
    compared = ComparedPairs.of(i, j, margin=margin)
    yield slice(0, queries.n_docs), Sorting(order_of(comparator, queries), compared)


def can_be_learned(queries: Queries) -> bool:
    """Whether some query has documents of two grades, or a judgement that prefers one of two."""
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
