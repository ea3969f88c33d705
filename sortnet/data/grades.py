"""Read grades from a table's column: whole numbers, or any numbers divided into bins.

Also finds features that order documents nearly as the grades do, or nearly as well as a model. Most
such features were computed from the grades, so that a ranker would learn nothing else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64, I32, I64, Bool, NamedColumns, Queries, grade_fault
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.metrics import Empty, Metric, average, outcomes
from sortnet.tables.rows import Rows
from sortnet.tables.values import numbers_of

NEARLY = 0.98  # least absolute rank correlation with the grade
_HALFWAY = 0.5  # least absolute rank correlation of a feature that is compared with a model
_NEARLY_AS_GOOD = 0.9  # least share of the model's gain over random orders
_STANDARD_ERRORS = 1  # a feature above that share by so many errors is not so by chance
_RANDOM_ORDERS = 10
_LEAST_PAIRS = 30  # fewer pairs may be in order by chance
_MOST_PAIRS = 1 << 17


def read_grades(
    rows: Rows, column: str | None, columns: NamedColumns, *, labelled: bool
) -> tuple[I32, NamedColumns]:
    """Read the grade of each row, or divide the numbers of a column into bins, which are grades.

    If `columns` asks for bins without giving their edges, the edges are quantiles of these rows.

    Args:
        rows: the table.
        column: name of the column of the grades. If None, all grades are 0.
        columns: names of the columns, and the number of bins into which the grades are divided.
        labelled: whether every row must have a grade. If False, a missing grade is 0.

    Returns:
        The grades (n_rows,), and `columns` with the edges of the bins.

    Raises:
        DataError: if a grade is missing, is not a number, or is not a whole number although there
            are no bins. The message names the row.
    """
    if column is None:
        return np.zeros(len(rows), np.int32), columns
    if columns.bins is None:
        grades, missing = grade_numbers(rows, column, labelled=labelled, are_grades=True)
        return np.where(missing, 0, grades).astype(np.int32), columns
    numbers, missing = grade_numbers(rows, column, labelled=labelled, are_grades=False)
    edges = columns.edges
    if not edges and labelled:
        edges = quantile_edges(numbers, columns.bins, f"{rows.path}: column {shown(column)}")
    return np.where(missing, 0, in_which_bin(numbers, edges)), replace(columns, edges=edges)


def quantile_edges(numbers: ArrayLike, bins: int, source: str = "data") -> tuple[float, ...]:
    """Compute edges between bins of about equal size: the lowest number of each bin but the first.

    If there are at most as many different numbers as bins, each number has its own bin. Because of
    repeated numbers there can be fewer bins than `bins`.

    Raises:
        DataError: if all numbers are equal.

    >>> quantile_edges([1.5, 2.5, 3.5, 4.5], 2), quantile_edges([0, 0, 0, 7], 3)
    ((3.0,), (7.0,))
    """
    values = np.asarray(numbers, np.float64)
    different = np.unique(values)
    if 1 < len(different) <= bins:
        return tuple(different[1:].tolist())
    quantiles = np.unique(np.quantile(values, np.arange(1, bins) / bins))
    edges = quantiles[quantiles > values.min()]
    if not len(edges) and values.max() > values.min():
        # Nearly all numbers are the lowest number. The highest number gets a bin of its own.
        edges = values.max(keepdims=True)
    if not len(edges):
        raise DataError(f"{source} has one number in every row: there is nothing to divide in bins")
    return tuple(edges.tolist())


def deviations_in_queries(grades: ArrayLike, qid: ArrayLike | None) -> F64:
    """Subtract from each grade the mean grade of its query, (n,).

    Args:
        grades: (n,) the grades.
        qid: (n,) the query of each document, in any order; None: all are one query.

    >>> deviations_in_queries([1, 3, 0], ["a", "a", "b"]).tolist()
    [-1.0, 1.0, 0.0]
    """
    values = np.asarray(grades, np.float64)
    queries = np.zeros(len(values), np.int64)
    if qid is not None:
        _, queries = np.unique(np.asarray(qid).astype(str), return_inverse=True)
    means = np.bincount(queries, values) / np.bincount(queries)
    deviations: F64 = values - means[queries]
    return deviations


def in_which_bin(numbers: ArrayLike, edges: ArrayLike) -> I32:
    """Find the bin (n,) of each number, from 0: how many edges are at or below the number.

    >>> in_which_bin([2.9, 3.0, 9.0], [3.0]).tolist()
    [0, 1, 1]
    """
    return np.searchsorted(np.asarray(edges, np.float64), numbers, side="right").astype(np.int32)


def grade_numbers(rows: Rows, column: str, *, labelled: bool, are_grades: bool) -> tuple[F64, Bool]:
    """Read the numbers in the column of the grades.

    Args:
        rows: the table.
        column: the name of the column.
        labelled: whether every row must have a number.
        are_grades: whether the numbers must be whole numbers from 0.

    Returns:
        The numbers (n_rows,), NaN if missing, and whether (n_rows,) each number is missing.

    Raises:
        DataError: naming the first row with a wrong, a missing or an infinite number.
    """
    cells = rows.columns[column]
    numbers, is_wrong = numbers_of(cells)
    is_missing = np.isnan(numbers)
    name = shown(column)
    faults = {
        "is not a number; grades are whole numbers from 0, and higher is better": is_wrong,
        "is missing": is_missing & labelled,
        "is infinite": np.isinf(numbers) & (not are_grades),
    }
    for fault, has_fault in faults.items():
        if has_fault.any():
            row = int(has_fault.argmax())  # the first wrong row
            grade = f"the grade in column {name}"
            if is_wrong[row]:
                grade += f": {shown(cells[row])}"
            raise DataError(f"{rows.place(row)}: {grade} {fault}")
    is_grade = (numbers >= 0) & (numbers <= np.iinfo(np.int32).max) & (numbers == np.floor(numbers))
    is_no_grade = ~is_missing & ~is_grade
    if are_grades and is_no_grade.any():
        row = int(is_no_grade.argmax())
        advice = f"sortnet train --bins N makes N grades of the numbers of column {name}"
        number = float(numbers[row])
        raise DataError(f"{rows.place(row)}: {grade_fault(f'{number:g}', number)}; {advice}")
    return numbers, is_missing


def features_near_grades(queries: Queries, nearly: float = NEARLY) -> dict[int, float]:
    """Find the features that order documents nearly as the grades do.

    The rank correlation of a feature with the grade is Somers' D over the pairs of documents of one
    query that differ in grade: the share of pairs that the feature orders as the grade does, minus
    the share that the feature orders in reverse. A pair with equal or missing values is in neither
    share.

    Args:
        queries: queries with grades.
        nearly: the least absolute rank correlation of a feature in the result.

    Returns:
        {number of a feature: its rank correlation}.

    Cost: 1 ms a feature; if there are more than 131,072 pairs, a random sample is drawn.

    >>> X = [[k, -k, k % 7] for k in range(40)]
    >>> features_near_grades(Queries.from_arrays(X, [k // 4 for k in range(40)]))
    {0: 1.0, 1: -1.0}
    """
    better, worse = _pairs(queries)
    if len(better) < _LEAST_PAIRS:
        return {}
    correlations = {}
    for feature in range(queries.n_features):
        values = queries.features[:, feature]
        n_in_order = np.count_nonzero(values[better] > values[worse])
        n_in_reverse = np.count_nonzero(values[better] < values[worse])
        correlation = float((n_in_order - n_in_reverse) / len(better))
        if abs(correlation) >= nearly:
            correlations[feature] = correlation
    return correlations


def features_near_model(
    queries: Queries, quality: float, metric: Metric, empty: Empty
) -> dict[int, float]:
    """Find the features that alone order documents nearly as well as a model does.

    A feature is nearly as good if it has 90 % of the model's gain of quality over random orders,
    and not only by the chance of few queries: its quality less a standard error over the queries
    has 90 %, too. A missing value is the worst. Features that order fewer than half of the pairs
    are passed over.

    Args:
        queries: queries with grades that the model was not trained on.
        quality: the quality of the model's order.
        metric: the measure of the quality.
        empty: how queries without a relevant document count.

    Returns:
        {number of a feature: quality of its order}; empty for a single feature, or if the model is
        no better than random orders.

    Cost: 1 ms a feature, and that of a sort for each feature with a rank correlation above 0.5.
    """
    if queries.n_features < 2:
        return {}
    rng = np.random.default_rng(0)
    query = queries.query_of_docs()

    def qualities_by(values: F64) -> F64:
        """Compute the quality (n_queries,) of the descending order of values in each query."""
        return outcomes(metric, queries, np.lexsort((-values, query)))

    random_orders = [qualities_by(rng.random(queries.n_docs)) for _ in range(_RANDOM_ORDERS)]
    at_random = np.mean([average(qualities, empty) for qualities in random_orders])
    if quality <= at_random:
        return {}
    nearly = at_random + _NEARLY_AS_GOOD * (quality - at_random)
    near = {}
    for feature, correlation in features_near_grades(queries, _HALFWAY).items():
        values = np.sign(correlation) * queries.features[:, feature].astype(np.float64)
        qualities = qualities_by(np.where(np.isnan(values), -np.inf, values))
        quality_of_feature = average(qualities, empty)
        deviation = np.nanstd(qualities)  # 0 for a single query
        standard_error = deviation / np.sqrt(max(len(queries) - 1, 1))
        if quality_of_feature - _STANDARD_ERRORS * standard_error >= nearly:
            near[feature] = quality_of_feature
    return near


def _pairs(queries: Queries) -> tuple[I64, I64]:
    """List the pairs of documents of one query that differ in grade.

    If there are more than 131,072 pairs of documents, a random sample of this size is drawn, and
    its pairs that differ in grade are listed.

    Returns:
        The better document (n_pairs,) of each pair, and the worse document (n_pairs,).
    """
    # Each document is paired with every document of its query, also with itself.
    n_pairs_of_doc = np.repeat(queries.sizes, queries.sizes)
    query_starts = np.repeat(queries.offsets[:-1], queries.sizes)
    if n_pairs_of_doc.sum() <= _MOST_PAIRS:
        first = np.repeat(np.arange(queries.n_docs), n_pairs_of_doc)
        first_pair_of_doc = np.cumsum(n_pairs_of_doc) - n_pairs_of_doc
        position_of_second = np.arange(len(first)) - first_pair_of_doc[first]
    else:
        generator = np.random.default_rng(0)
        share_of_doc = n_pairs_of_doc / n_pairs_of_doc.sum()  # so all pairs are equally likely
        first = generator.choice(queries.n_docs, _MOST_PAIRS, p=share_of_doc)
        position_of_second = generator.integers(n_pairs_of_doc[first])
    second = query_starts[first] + position_of_second  # positions count from the query's start
    is_better = queries.grades[first] > queries.grades[second]
    return first[is_better], second[is_better]
