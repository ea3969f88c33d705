"""Judge pairs of documents by the data: by judgements of pairs, or by grades."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sortnet.core import F32, I64, Comparator, ComparedPairs, Ints, Queries, Sorting
from sortnet.core.shard import ALONE, Group, own_queries
from sortnet.data.divide import only_single_documents
from sortnet.errors import DataError
from sortnet.sorting.sort import margins_of, order_of, sorted_runs


def judge_by_data(queries: Queries, i: Ints, j: Ints) -> F32:
    """Answer which document of each pair (i, j) is better, from what the data contain.

    If the data have judgements of pairs, the answer is the share of the judgements that prefer
    document i; it is NaN if nobody compared the two documents. If the data have grades, the answer
    is the answer of `judge_by_grades`.

    Returns:
        (m,) answers, from 0 to 1 or NaN.

    >>> q = Queries.from_arrays([[0.0]] * 3).with_judgements([2, 0, 1], [0, 1, 0])
    >>> judge_by_data(q, np.array([0, 0, 1]), np.array([2, 1, 2]))
    array([0. , 0.5, nan], dtype=float32)
    """
    if queries.judged is not None:
        return queries.judged.answers_for(i, j)[0]
    return judge_by_grades(queries, i, j)


def judge_by_grades(queries: Queries, i: Ints, j: Ints) -> F32:
    """Answer (m,) about pairs: 1 if document i has the higher grade, 0 if j has, NaN if equal.

    >>> q = Queries.from_arrays([[0.0], [0.0], [0.0]], [2, 0, 1])
    >>> judge_by_grades(q, np.array([0, 1, 1]), np.array([1, 2, 1]))
    array([ 1.,  0., nan], dtype=float32)
    """
    grade_i, grade_j = queries.grades[i], queries.grades[j]
    is_higher = (grade_i > grade_j).astype(np.float32)
    return np.where(grade_i == grade_j, np.float32(np.nan), is_higher)


def judged_by_data(queries: Queries, pairs: ComparedPairs) -> ComparedPairs:
    """Return a copy of the pairs with the answers of `judge_by_data`."""
    return pairs.judged(judge_by_data(queries, pairs.i, pairs.j))


def sorted_to_check(
    comparator: Comparator, queries: Queries, group: Group = ALONE
) -> Iterator[tuple[slice, Sorting]]:
    """Sort some queries at a time, and return comparisons that the data can answer.

    If the data have grades, these are the comparisons of the sort of this process's share of the
    queries. If the data have judgements, the comparator compares exactly the judged pairs, since a
    sort compares only a few of them.

    Yields:
        A slice of documents, and their ranking and comparisons, see `sorted_runs`.
    """
    if queries.judged is None:
        yield from sorted_runs(comparator, queries, among=own_queries(group, queries.sizes))
        return
    i = queries.judged.winner.astype(np.int32)
    j = queries.judged.loser.astype(np.int32)
    margin = margins_of(comparator, queries, i, j)
    compared = ComparedPairs.of(i, j, margin=margin)
    yield slice(0, queries.n_docs), Sorting(order_of(comparator, queries), compared)


def order_by_all(comparator: Comparator, queries: Queries, group: Group) -> I64:
    """Return the ranking of `sort`, (n_docs,); each process sorts its share of the queries."""
    among = own_queries(group, queries.sizes)
    return group.gather(order_of(comparator, queries, among))


def can_be_learned(queries: Queries) -> bool:
    """Whether some query has documents of two grades, or some judgement prefers a document."""
    if queries.judged is not None:
        return bool(queries.judged.sure.any())
    # If a query has two different grades, two documents next to each other have different grades.
    same_query = np.diff(queries.query_of_docs()) == 0
    differ = np.diff(queries.grades) != 0
    return bool(np.any(same_query & differ))


def check_can_be_learned(queries: Queries) -> None:
    """Raise DataError if no query has a pair of documents with a known order."""
    if can_be_learned(queries):
        return
    if queries.judged is not None:
        reason = "no judgement prefers one of two"
    elif queries.judge is not None:
        reason = "a judge is asked by SortNet alone, and there are no grades"
    elif len(queries) == queries.n_docs:
        group_column = None if queries.roles is None else queries.roles.group
        reason = only_single_documents(group_column)
    else:
        reason = "no query has documents of two different grades"
    raise DataError(f"{queries.source}: {reason}: nothing to learn")
