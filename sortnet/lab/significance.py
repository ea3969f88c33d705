"""Tests of whether one ranker is better than another: corrected t, Friedman, Nemenyi, paired t.

Figures are a frame with a row for each query of each part (a fold, a hold-out) and ranker:
`ranker`, `part`, `qid` and a column for each measure, NaN where a query has no value. Nothing here
looks at how rankings were made, so figures from elsewhere are tested alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, stdtr
from scipy.stats import rankdata, studentized_range

from sortnet.core import F64
from sortnet.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


class TTest(NamedTuple):
    """A two-sided t-test: its statistic, above 0 if the differences are, and p value."""

    t: float
    p: float


class Friedman(NamedTuple):
    """Friedman's test: its statistic, p value and the (n_rankers,) mean ranks, 1 the best."""

    statistic: float
    p: float
    mean_ranks: F64


def corrected_t(differences: ArrayLike, ratio: float) -> TTest:
    """The corrected resampled t-test of the differences between two rankers, split by split.

        t = mean / sqrt(var (1/n + n_test/n_train)),   var with n - 1, n - 1 degrees of freedom

    Splits of one data set share training queries, so the plain t-test (ratio 0) takes noise for a
    difference (Nadeau and Bengio 2003). Where all differences are equal, p is 1 if they are 0,
    else 0.

    Args:
        differences: (n_splits,) the figures of one ranker minus those of the other.
        ratio: test queries over training queries of a split: 15 hold-outs of a third have 0.5.

    Raises:
        DataError: of fewer than two differences, one that is no number, or a ratio below 0.

    >>> t, p = corrected_t([0.02, 0.01, 0.03, 0.00, 0.02], 0.5)
    >>> round(t, 3), round(p, 3)
    (1.677, 0.169)
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1 or len(d) < 2 or not np.isfinite(d).all():
        raise DataError("a t-test needs the differences of two or more splits, all of them numbers")
    if not ratio >= 0:
        raise DataError(f"n_test / n_train must be 0 or more, got {ratio:g}")
    if np.ptp(d) == 0:  # the variance would only say how the mean was rounded
        if d[0] == 0:
            return TTest(0.0, 1.0)
        return TTest(float(np.copysign(np.inf, d[0])), 0.0)
    t = float(d.mean() / np.sqrt(d.var(ddof=1) * (1 / len(d) + ratio)))
    return TTest(t, float(2 * stdtr(len(d) - 1, -abs(t))))


def friedman(table: ArrayLike) -> Friedman:
    """Friedman's test that all rankers are alike; ties have their mean rank and are corrected for.

        statistic = (k - 1) n^2 sum_j (R_j - (k+1)/2)^2 / sum_ij (r_ij - (k+1)/2)^2

    is chi-squared with k - 1 degrees of freedom (Conover 1999, section 5.8). Rankers that tie on
    every part have the statistic 0 and p = 1.

    Args:
        table: (n_parts, n_rankers) figures, higher is better.

    Raises:
        DataError: of fewer than two parts or rankers, or a figure that is no number.

    >>> friedman([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4], [0.9, 0.6, 0.8]]).mean_ranks.round(2).tolist()
    [1.0, 2.33, 2.67]
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2 or not np.isfinite(values).all():
        raise DataError(
            "Friedman's test needs two or more rankers on two or more parts, with a figure of each"
        )
    ranks = rankdata(-values, axis=1)  # ties have their mean
    n, k = ranks.shape
    spread = np.square(ranks - (k + 1) / 2).sum()
    between = np.square(ranks.mean(axis=0) - (k + 1) / 2).sum()
    statistic = float((k - 1) * n**2 * between / spread) if spread else 0.0
    return Friedman(statistic, float(chdtrc(k - 1, statistic)), ranks.mean(axis=0))


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Least difference of two of k rankers' mean ranks on n parts that Nemenyi's test calls real.

    >>> round(critical_difference(4, 14), 2)  # Demsar 2006 has 1.25
    1.25
    """
    q = studentized_range.ppf(1 - alpha, k, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(k * (k + 1) / (6 * n)))


def holm(p: ArrayLike) -> F64:
    """(m,) p values adjusted by Holm's step-down correction; NaN stays NaN and does not count.

    The k-th smallest of m is multiplied by m - k + 1, is no smaller than the one before it, and
    at most 1 (Holm 1979).

    >>> holm([0.01, 0.04, 0.03, float("nan")]).tolist()
    [0.03, 0.06, 0.06, nan]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values)[: np.isfinite(values).sum()]  # NaN are last
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def paired_by_query(
    figures: pd.DataFrame, measure: str, rankers: Sequence[str] | None = None
) -> pd.DataFrame:
    """The paired t-test over queries between each two rankers, corrected by Holm over all pairs.

    Only queries that both have a value for count. A query in several parts (hold-outs) counts
    once, by its mean: its parts are not independent. The t-test and not Wilcoxon's, which drops
    the many queries that two rankers rank alike, and which agrees least with randomisation
    (Smucker, Allan and Carterette 2007).

    Returns:
        A row for each pair: `a`, `b`, `difference` (the mean of a minus b), `t`, `p`, `p_holm` and
        `n`, the number of queries. With fewer than two common queries p is NaN.

    Raises:
        DataError: of a measure or ranker that the figures do not have.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": list("aaabbb"), "part": "f", "qid": list("123123"),
    ...                       "map": [0.5, 0.75, 1.0, 0.25, 0.75, 0.5]})
    >>> paired_by_query(frame, "map")[["a", "b", "difference", "n"]].values.tolist()
    [['a', 'b', 0.25, 3]]

    Cost: of k rankers, k (k - 1) / 2 passes over the queries.
    """
    table = _table(figures, measure, ["part", "qid"], rankers)
    queries = np.unique(table.index.get_level_values("qid"), return_inverse=True)[1]

    def by_query(differences: F64) -> F64:
        has_both = np.isfinite(differences)
        n_parts = np.bincount(queries[has_both])
        sums = np.bincount(queries[has_both], differences[has_both])
        return np.asarray((sums / np.maximum(n_parts, 1))[n_parts > 0])

    return _of_pairs(table, by_query, 0.0)


def paired_by_part(
    figures: pd.DataFrame, measure: str, ratio: float, rankers: Sequence[str] | None = None
) -> pd.DataFrame:
    """`corrected_t` over the parts between each two rankers, corrected by Holm over all pairs.

    A part's figure is the mean of its queries; `ratio` is as of `corrected_t`.

    Returns:
        As `paired_by_query`; `n` is the number of parts that both rankers have.

    Raises:
        DataError: of a measure or ranker that the figures do not have, or a ratio below 0.
    """
    table = _table(figures, measure, ["part"], rankers)
    return _of_pairs(table, lambda differences: differences[np.isfinite(differences)], ratio)


def by_part(
    figures: pd.DataFrame, measure: str, rankers: Sequence[str] | None = None
) -> pd.DataFrame:
    """The table that `friedman` takes: parts by rankers, means over the queries.

    Parts that one of the rankers lacks are left out.

    Raises:
        DataError: of a measure or ranker that the figures do not have.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": list("abab"), "part": list("1122"), "qid": list("xxyy"),
    ...                       "map": [0.5, 0.25, 0.75, 0.5]})
    >>> by_part(frame, "map").values.tolist()
    [[0.5, 0.25], [0.75, 0.5]]
    """
    return _table(figures, measure, ["part"], rankers).dropna()


def as_matrix(pairs: pd.DataFrame, rankers: Sequence[str]) -> F64:
    """(k, k) the p values of pairs of rankers as a symmetric matrix, 1 on the diagonal.

    >>> import pandas as pd
    >>> as_matrix(pd.DataFrame({"a": ["x"], "b": ["y"], "p_holm": [0.2]}), ["y", "x"]).tolist()
    [[1.0, 0.2], [0.2, 1.0]]
    """
    place = {name: k for k, name in enumerate(rankers)}
    matrix = np.full((len(place), len(place)), np.nan)
    np.fill_diagonal(matrix, 1.0)
    for a, b, value in zip(pairs["a"], pairs["b"], pairs["p_holm"], strict=True):
        matrix[place[a], place[b]] = matrix[place[b], place[a]] = value
    return matrix


def _table(
    figures: pd.DataFrame, measure: str, rows: list[str], rankers: Sequence[str] | None
) -> pd.DataFrame:
    """Means with rankers in columns, in the order of `rankers` or else of the figures."""
    if measure not in figures:
        raise DataError(f"the figures have no measure {measure!r}")
    all_rankers = list(figures["ranker"].unique())
    for name in rankers or ():
        if name not in all_rankers:
            known = ", ".join(all_rankers)
            raise DataError(f"the figures have no ranker {name!r}; known are {known}")
    means = figures.groupby([*rows, "ranker"], sort=False, observed=True)[measure].mean()
    return means.unstack("ranker")[list(rankers or all_rankers)]


def _of_pairs(table: pd.DataFrame, units: Callable[[F64], F64], ratio: float) -> pd.DataFrame:
    """A test of each two columns; `units` are the independent differences of a pair."""
    import pandas as pd

    values = table.to_numpy(np.float64)
    rows = []
    for i, j in combinations(range(values.shape[1]), 2):
        d = units(values[:, i] - values[:, j])
        t, p = corrected_t(d, ratio) if len(d) > 1 else TTest(np.nan, np.nan)
        mean = float(d.mean()) if len(d) else np.nan
        rows.append((table.columns[i], table.columns[j], mean, t, p, len(d)))
    frame = pd.DataFrame(rows, columns=["a", "b", "difference", "t", "p", "n"])
    frame.insert(5, "p_holm", holm(frame["p"].to_numpy(np.float64)))
    return frame
