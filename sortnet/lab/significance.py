"""Statistical tests between rankers: corrected and paired t-tests, Friedman's and Nemenyi's test.

The figures to be tested are a frame with a row for each query, part (a fold or a hold-out) and
ranker. Its columns are `ranker`, `part`, `qid` and the measures, NaN where a query has no value.
The tests use only these figures, so the figures may come from any program.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from sortnet.core import F64
from sortnet.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def corrected_t(differences: ArrayLike, ratio: float) -> tuple[float, float]:
    """Test whether two rankers differ over random splits, by the corrected resampled t-test.

    The splits of one data set share training queries, so that a plain t-test (`ratio` 0) finds
    differences where there is only noise. The corrected test (Nadeau and Bengio 2003) is

        t = mean / sqrt(var (1/n + n_test/n_train))

    with the mean and the variance (with n - 1) of the n differences and n - 1 degrees of freedom.
    If all differences are equal, p is 1 if they are 0, and 0 otherwise.

    Args:
        differences: (n_splits,) the figures of one ranker minus the figures of another ranker, on
            two or more splits.
        ratio: n_test / n_train, test queries over training queries of a split; 0.5 if a third of
            the queries is held out.

    Returns:
        The statistic t, positive if the mean difference is, and p of the two-sided test.

    >>> t, p = corrected_t([0.02, 0.01, 0.03, 0.00, 0.02], 0.5)
    >>> round(t, 3), round(p, 3)
    (1.677, 0.169)
    """
    d = np.asarray(differences, dtype=np.float64)
    if np.ptp(d) == 0:  # the computed variance would only be the rounding error of the mean
        if d[0] == 0:
            return 0.0, 1.0
        return float(np.copysign(np.inf, d[0])), 0.0
    t = float(stats.ttest_1samp(d, 0.0).statistic / np.sqrt(1 + len(d) * ratio))
    return t, float(2 * stats.t.sf(abs(t), len(d) - 1))


def friedman(table: ArrayLike) -> tuple[float, float, F64]:
    """Test whether k rankers differ on n parts, by Friedman's test with a correction for ties.

    The rankers are ranked on every part; equal figures get their mean rank (Conover 1999, section
    5.8). If all rankers tie on every part, the statistic is 0 and p = 1.

    Args:
        table: (n_parts, n_rankers) figures of three rankers or more, higher is better.

    Returns:
        The statistic, p, and the mean ranks (n_rankers,), 1 the best.

    >>> _, _, mean_ranks = friedman([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4], [0.9, 0.6, 0.8]])
    >>> mean_ranks.round(2).tolist()
    [1.0, 2.33, 2.67]
    """
    values = np.asarray(table, dtype=np.float64)
    ranks = stats.rankdata(-values, axis=1)  # equal figures get their mean rank
    mean_ranks = ranks.mean(axis=0)
    if (np.ptp(values, axis=1) == 0).all():
        return 0.0, 1.0, mean_ranks
    test = stats.friedmanchisquare(*values.T)
    return float(test.statistic), float(test.pvalue), mean_ranks


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Compute the critical difference of Nemenyi's test between the mean ranks of two rankers.

    The mean ranks of k rankers on n parts differ at the level alpha if they differ by more than

        CD = q_alpha sqrt(k (k + 1) / (6 n)),

    where q_alpha is the quantile of the studentized range for k groups, divided by sqrt(2) (Demsar
    2006).

    >>> round(critical_difference(4, 14), 2)  # 1.25 in Demsar 2006
    1.25
    """
    q_alpha = stats.studentized_range.ppf(1 - alpha, k, np.inf) / np.sqrt(2)
    return float(q_alpha * np.sqrt(k * (k + 1) / (6 * n)))


def holm(p: ArrayLike) -> F64:
    """Adjust p values for multiple tests by Holm's step-down correction (Holm 1979).

    The k-th smallest of m values is multiplied by m - k + 1. An adjusted value is at least the
    adjusted value before it, and at most 1. NaN stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03, float("nan")]).tolist()
    [0.03, 0.06, 0.06, nan]
    """
    values = np.asarray(p, dtype=np.float64)
    n_finite = np.isfinite(values).sum()
    ascending = np.argsort(values)[:n_finite]  # numpy sorts NaN last
    multiplied = values[ascending] * np.arange(n_finite, 0, -1)
    adjusted = np.full(len(values), np.nan)
    adjusted[ascending] = np.minimum(np.maximum.accumulate(multiplied), 1.0)
    return adjusted


def paired_by_query(
    figures: pd.DataFrame, measure: str, rankers: Sequence[str] | None = None
) -> pd.DataFrame:
    """Test every pair of rankers by a paired t-test over queries, with Holm's correction.

    Only queries that have values of both rankers count. A query that is tested in several parts
    (hold-outs) counts once, by its mean, because its values are not independent. The t-test is used
    because Wilcoxon's test drops the many queries on which two rankers are equal, and agrees least
    with the randomisation test (Smucker, Allan and Carterette 2007).

    Args:
        figures: the figures, see the module.
        measure: name of the measure.
        rankers: names of the rankers, in the order wanted. If None, all rankers.

    Returns:
        A row for each two rankers: `a` and `b`, their names; `difference`, the mean of a minus b;
        `t`; `p`; `p_holm`; and `n`, the number of queries. With fewer than two common queries p is
        NaN.

    Raises:
        DataError: if the figures lack the measure.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": list("aaabbb"), "part": "f", "qid": list("123123"),
    ...                       "map": [0.5, 0.75, 1.0, 0.25, 0.75, 0.5]})
    >>> paired_by_query(frame, "map")[["a", "b", "difference", "n"]].values.tolist()
    [['a', 'b', 0.25, 3]]

    Cost: for k rankers k (k - 1) / 2 passes over the queries.
    """
    table = _table(figures, measure, ["part", "qid"], rankers)
    return _test_pairs(table, ratio=0.0, unit="qid")


def paired_by_part(
    figures: pd.DataFrame, measure: str, ratio: float, rankers: Sequence[str] | None = None
) -> pd.DataFrame:
    """Test every pair of rankers by `corrected_t` over parts, with Holm's correction.

    The figure of a part is the mean over its queries.

    Args:
        figures: the figures, see the module.
        measure: name of the measure.
        ratio: test queries over training queries, see `corrected_t`.
        rankers: names of the rankers, in the order wanted. If None, all rankers.

    Returns:
        The columns of `paired_by_query`; `n` is the number of parts with figures of both rankers.

    Raises:
        DataError: if the figures lack the measure.
    """
    table = _table(figures, measure, ["part"], rankers)
    return _test_pairs(table, ratio, unit="part")


def by_part(
    figures: pd.DataFrame, measure: str, rankers: Sequence[str] | None = None
) -> pd.DataFrame:
    """Make the table for `friedman`: a row for each part, a column of mean figures for each ranker.

    Parts that lack figures of a ranker are left out.

    Raises:
        DataError: if the figures lack the measure.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ranker": list("abab"), "part": list("1122"), "qid": list("xxyy"),
    ...                       "map": [0.5, 0.25, 0.75, 0.5]})
    >>> by_part(frame, "map").values.tolist()
    [[0.5, 0.25], [0.75, 0.5]]
    """
    return _table(figures, measure, ["part"], rankers).dropna()


def _table(
    figures: pd.DataFrame, measure: str, rows: list[str], rankers: Sequence[str] | None
) -> pd.DataFrame:
    """Make a table of mean figures with a column for each ranker.

    Args:
        figures: the figures, see the module.
        measure: name of the measure.
        rows: columns of `figures` whose values make a row of the table.
        rankers: names of the rankers, in the order wanted. If None, the order of the figures.

    Raises:
        DataError: if the figures lack the measure.
    """
    if measure not in figures:
        raise DataError(f"the figures have no measure {str(measure)!r}")
    means = figures.groupby([*rows, "ranker"], sort=False, observed=True)[measure].mean()
    return means.unstack("ranker")[list(rankers or figures["ranker"].unique())]


def _test_pairs(table: pd.DataFrame, ratio: float, unit: str) -> pd.DataFrame:
    """Test every pair of columns of a table by `corrected_t`, with Holm's correction.

    Only rows with figures of both rankers count.

    Args:
        table: a column of figures for each ranker.
        ratio: test queries over training queries, see `corrected_t`.
        unit: level of the index; rows with the same value of it count once, by their mean.
    """
    import pandas as pd

    rows = []
    for a, b in combinations(table.columns, 2):
        differences = (table[a] - table[b]).dropna().groupby(level=unit, sort=False).mean()
        n = len(differences)
        t, p = corrected_t(differences, ratio) if n > 1 else (np.nan, np.nan)
        rows.append((a, b, differences.mean(), t, p, n))
    frame = pd.DataFrame(rows, columns=["a", "b", "difference", "t", "p", "n"])
    frame["p_holm"] = holm(frame["p"].to_numpy(np.float64))
    return frame[["a", "b", "difference", "t", "p", "p_holm", "n"]]
